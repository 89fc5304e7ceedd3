//! Parts of virtual machines for tests: a kernel of this machine, and an initial file system.

use super::scratch::is_installed;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folder in cargo's target directory into which `cargo xtask peers` downloads a kernel.
const DOWNLOADED: &str = "peers/kernel";
/// Start of the names of kernels' files.
const KERNEL_PREFIX: &str = "vmlinuz-";

/// Returns the reason why this machine cannot run a guest, or `None` if it can.
pub fn guest_obstacle() -> Option<String> {
    if cfg!(not(target_arch = "x86_64")) {
        return Some("guests are for x86-64 only".to_owned());
    }
    if !is_installed("qemu-system-x86_64") {
        return Some("qemu-system-x86_64 is missing (Debian: qemu-system-x86)".to_owned());
    }
    let advice = "`cargo xtask peers` downloads one, BLKKIN_GUEST_KERNEL can say where one is";
    guest_kernel().is_none().then(|| format!("there is no kernel for a guest in /boot; {advice}"))
}

/// Returns the kernel named by the variable `BLKKIN_GUEST_KERNEL`, or the downloaded kernel, or the
/// readable kernel in `/boot` whose name sorts last.
pub fn guest_kernel() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("BLKKIN_GUEST_KERNEL") {
        return Some(path.into());
    }
    let own = std::env::current_exe().unwrap_or_default();
    // Tests are in a folder below the folder of other programs.
    let targets = own.ancestors().skip(2).take(2).map(|target| target.join(DOWNLOADED));
    targets.chain([PathBuf::from("/boot")]).find_map(|folder| newest_kernel(&folder))
}

/// Returns the readable kernel in a folder whose name sorts last.
fn newest_kernel(folder: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(folder).ok()?.flatten().map(|file| file.path());
    let is_kernel = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(KERNEL_PREFIX) && fs::File::open(path).is_ok()
    };
    files.filter(is_kernel).max()
}

/// Initial file system of a guest: programs of this machine, and their libraries.
#[derive(Debug, Default)]
pub struct GuestFiles {
    files: BTreeMap<PathBuf, Vec<u8>>,
}

impl GuestFiles {
    /// Adds a file that can be executed.
    pub fn add(&mut self, to: &Path, content: Vec<u8>) {
        self.files.insert(to.to_owned(), content);
    }

    /// Adds a program of this machine and its shared libraries.
    pub fn add_program(&mut self, from: &Path, to: &Path) -> Result<(), String> {
        self.add(to, fs::read(from).map_err(at(from))?);
        let output = Command::new("ldd").arg(from).output();
        let output = output.map_err(|error| format!("cannot start ldd: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        for library in text.split_whitespace().filter(|word| word.starts_with('/')) {
            let library = Path::new(library);
            if !self.files.contains_key(library) {
                self.add(library, fs::read(library).map_err(at(library))?);
            }
        }
        Ok(())
    }

    /// Returns the file system as a cpio archive, with empty directories `folders` and the console.
    pub fn archive(&self, folders: &[&str]) -> Vec<u8> {
        let mut archive = Archive::default();
        let parents = self.files.keys().flat_map(|path| path.ancestors().skip(1));
        let mut all: Vec<&Path> = parents.chain([Path::new("/dev")]).collect();
        all.extend(folders.iter().map(Path::new));
        all.sort_unstable();
        all.dedup();
        for folder in all {
            archive.add(folder, 0o040_755, &[], (0, 0));
        }
        archive.add(Path::new("/dev/console"), 0o020_600, &[], (5, 1));
        for (path, bytes) in &self.files {
            archive.add(path, 0o100_755, bytes, (0, 0));
        }
        archive.add(Path::new("/TRAILER!!!"), 0, &[], (0, 0));
        archive.bytes
    }
}

fn at(path: &Path) -> impl Fn(io::Error) -> String {
    move |error| format!("{}: {error}", path.display())
}

/// A cpio archive in the format `newc`.
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    count: usize,
}

impl Archive {
    fn add(&mut self, path: &Path, mode: usize, content: &[u8], device: (usize, usize)) {
        let path = path.to_string_lossy();
        let name = path.strip_prefix('/').filter(|name| !name.is_empty()).unwrap_or(".");
        self.count += 1;
        let sizes = (content.len(), name.len() + 1);
        let numbers = [self.count, mode, 0, 0, 1, 0, sizes.0, 0, 0, device.0, device.1, sizes.1, 0];
        self.bytes.extend_from_slice(b"070701");
        numbers.iter().for_each(|number| self.bytes.extend(format!("{number:08X}").bytes()));
        self.bytes.extend(name.bytes().chain([0]));
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::Archive;
    use std::path::Path;

    #[test]
    fn archives_have_the_form_that_kernels_take() {
        let mut archive = Archive::default();
        archive.add(Path::new("/a/b"), 0o100_755, b"hello", (0, 0));
        let zeros = "0".repeat(8);
        let head = format!(
            "07070100000001000081ED{zeros}{zeros}00000001{zeros}00000005{zeros}{zeros}{zeros}{zeros}00000004{zeros}"
        );
        // All parts are padded to multiples of four bytes.
        assert_eq!(
            String::from_utf8(archive.bytes).unwrap(),
            format!("{head}a/b\0\0\0hello\0\0\0")
        );
    }
}

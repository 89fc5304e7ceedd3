//! Virtual machine for tests that would disturb other users of the machine, for instance by turning
//! processors off. QEMU emulates the machine in software, with a kernel of this machine. Its only
//! files are the test and the programs that the test starts.

use super::trials::Trial;
use crate::test_programs::TestProgram;
use crate::tools::{at, target_dir};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Number of the guest's processors. It may exceed the host's number, so that the guest's
/// processors do not run in step.
const PROCESSORS: &str = "4";
const MEMORY: &str = "3G";

/// Script of the guest's first process. The kernel passes its command line to the script as
/// environment variables.
const INIT: &str = "#!/bin/sh
export PATH=/bin:/usr/bin HOME=/scratch TMPDIR=/scratch TEST_LOUD=1
mkdir -p /proc /sys /scratch /dev
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev; mount -t tmpfs t /scratch
/tests --nocapture --test-threads=1 --include-ignored $TESTS
echo o > /proc/sysrq-trigger
cat
";

/// Programs of this machine that [`INIT`] and the tests use.
const TOOLS: [&str; 4] = ["sh", "mount", "mkdir", "cat"];

/// Returns the reason why this machine cannot run a guest, or `None` if it can.
pub(super) fn missing() -> Option<String> {
    if cfg!(not(target_arch = "x86_64")) {
        return Some("guests are for x86-64 only".to_owned());
    }
    if find_in_path("qemu-system-x86_64").is_none() {
        return Some("qemu-system-x86_64 is missing (Debian: qemu-system-x86)".to_owned());
    }
    let where_from = "BLKKIN_GUEST_KERNEL can say where one is (Debian: linux-image-amd64)";
    kernel().is_none().then(|| format!("there is no kernel for a guest in /boot; {where_from}"))
}

/// Returns the command that runs a trial's program in a guest. The command's output includes the
/// program's output.
pub(super) fn command(
    trial: &Trial,
    program: &TestProgram,
    variables: &[(&str, u64)],
) -> Result<Command, String> {
    let kernel = kernel().ok_or("there is no kernel for a guest")?;
    let image = target_dir().join("torture/guest.cpio");
    fs::write(&image, image_of(program)?).map_err(at(&image))?;
    let variables = variables.iter().map(|(name, value)| format!("{name}={value}"));
    let variables: Vec<String> = variables.collect();
    let tests = trial.tests.join(",");
    let line = format!("console=ttyS0 quiet panic=-1 TESTS={tests} {}", variables.join(" "));
    let mut command = Command::new("qemu-system-x86_64");
    command.args(["-accel", "tcg,thread=multi", "-cpu", "max", "-smp", PROCESSORS, "-m", MEMORY]);
    command.args(["-nographic", "-no-reboot", "-net", "none", "-kernel"]).arg(kernel);
    command.arg("-initrd").arg(image).arg("-append").arg(line);
    Ok(command)
}

fn find_in_path(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Returns the kernel named by `BLKKIN_GUEST_KERNEL`, or the readable kernel in `/boot` whose name
/// sorts last.
fn kernel() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("BLKKIN_GUEST_KERNEL") {
        return Some(path.into());
    }
    let files = fs::read_dir("/boot").ok()?.flatten().map(|file| file.path());
    let is_kernel = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("vmlinuz-") && fs::File::open(path).is_ok()
    };
    files.filter(is_kernel).max()
}

/// Returns the guest's initramfs: a cpio archive with the test program, `blkkin`, the tools and
/// their libraries.
fn image_of(program: &TestProgram) -> Result<Vec<u8>, String> {
    // The blkkin command is at the path that was compiled into the tests.
    let blkkin = program.path.ancestors().nth(2).ok_or("tests have a folder")?.join("blkkin");
    let mut files = BTreeMap::new();
    files.insert(PathBuf::from("/init"), INIT.as_bytes().to_vec());
    add(&mut files, &program.path, Path::new("/tests"))?;
    add(&mut files, &blkkin, &blkkin)?;
    for tool in TOOLS {
        let path = find_in_path(tool).ok_or_else(|| format!("{tool} is missing"))?;
        add(&mut files, &path, &Path::new("/bin").join(tool))?;
    }
    let mut image = Archive::default();
    let mut folders: Vec<&Path> = files.keys().flat_map(|path| path.ancestors().skip(1)).collect();
    folders.extend(["/dev", "/proc", "/sys", "/scratch"].map(Path::new));
    folders.sort_unstable();
    folders.dedup();
    for folder in folders {
        image.add(folder, 0o040_755, &[], (0, 0));
    }
    image.add(Path::new("/dev/console"), 0o020_600, &[], (5, 1));
    for (path, bytes) in &files {
        image.add(path, 0o100_755, bytes, (0, 0));
    }
    image.add(Path::new("/TRAILER!!!"), 0, &[], (0, 0));
    Ok(image.bytes)
}

/// Adds a program and its shared libraries to `files`.
fn add(files: &mut BTreeMap<PathBuf, Vec<u8>>, from: &Path, to: &Path) -> Result<(), String> {
    files.insert(to.to_owned(), fs::read(from).map_err(at(from))?);
    let output = Command::new("ldd").arg(from).output();
    let output = output.map_err(|error| format!("cannot start ldd: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    for library in text.split_whitespace().filter(|word| word.starts_with('/')) {
        let library = Path::new(library);
        if !files.contains_key(library) {
            files.insert(library.to_owned(), fs::read(library).map_err(at(library))?);
        }
    }
    Ok(())
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

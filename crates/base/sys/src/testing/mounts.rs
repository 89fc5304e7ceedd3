//! Mounts file systems for a test. They are unmounted on drop, even if the test panics.

use super::scratch::Scratch;
use std::path::Path;
use std::process::Command;

/// File system that is mounted on a temporary directory.
#[derive(Debug)]
pub struct Mounted(Scratch);

impl Mounted {
    /// Mounts a file system on a new directory. `words` are the arguments of the program `mount`
    /// without the directory. On failure, returns the error message of `mount`, or the reason why
    /// `mount` cannot be started.
    pub fn new(words: &[&str]) -> Result<Mounted, String> {
        let directory = Scratch::new("mounted");
        let output = Command::new("mount").args(words).arg(&directory.0).output();
        let output = output.map_err(|error| format!("mount: {error}"))?;
        match output.status.success() {
            true => Ok(Mounted(directory)),
            false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        }
    }

    /// Mounts a `tmpfs` of `kib` KiB.
    pub fn in_memory(kib: u64) -> Result<Mounted, String> {
        Mounted::new(&["-t", "tmpfs", "-o", &format!("size={kib}k"), "tmpfs"])
    }

    /// Returns the directory on which the file system is mounted.
    pub fn path(&self) -> &Path {
        &self.0.0
    }

    /// Changes the size of a `tmpfs` to `kib` KiB.
    pub fn resize(&self, kib: u64) {
        let mut mount = Command::new("mount");
        mount.args(["-o", &format!("remount,size={kib}k")]).arg(self.path());
        assert!(mount.status().expect("a program").success());
    }

    /// Unmounts the file system. Panics on failure.
    pub fn unmount(self) {
        let status = Command::new("umount").arg(self.path()).status();
        assert!(status.expect("a program").success(), "{} is in use", self.path().display());
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if is_mounted(self.path()) {
            unmount(self.path());
        }
    }
}

fn is_mounted(path: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts.lines().any(|line| line.split(' ').nth(1).is_some_and(|at| Path::new(at) == path))
}

/// Unmounts the file system at `path`. If it is in use, the kernel detaches it now and releases it
/// once it is unused.
pub fn unmount(path: &Path) {
    for words in [&[][..], &["--lazy"]] {
        let output = Command::new("umount").args(words).arg(path).output();
        if output.is_ok_and(|output| output.status.success()) {
            return;
        }
    }
}

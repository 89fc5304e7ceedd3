//! File systems that are mounted for a test, and unmounted when dropped, however the test ends.

use std::path::Path;
use std::process::Command;

/// A file system, in a directory of its own.
pub(crate) struct Mounted(tempfile::TempDir);

impl Mounted {
    /// By `mount`'s words but the last. If it is refused: what `mount` says.
    pub(crate) fn new(words: &[&str]) -> Result<Mounted, String> {
        let directory = tempfile::tempdir().expect("a directory");
        let output = Command::new("mount").args(words).arg(directory.path()).output();
        let output = output.map_err(|error| format!("mount: {error}"))?;
        match output.status.success() {
            true => Ok(Mounted(directory)),
            false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        }
    }

    /// One in memory.
    pub(crate) fn in_memory(kib: u64) -> Result<Mounted, String> {
        Mounted::new(&["-t", "tmpfs", "-o", &format!("size={kib}k"), "tmpfs"])
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        let status = Command::new("mount").args(["-o", &options]).arg(self.path()).status();
        assert!(status.expect("a program").success());
    }

    /// What `umount` does must have been done.
    pub(crate) fn unmount(self) {
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

/// At once, or when the last has let go of it.
pub(crate) fn unmount(path: &Path) {
    for words in [&[][..], &["--lazy"]] {
        let output = Command::new("umount").args(words).arg(path).output();
        if output.is_ok_and(|output| output.status.success()) {
            return;
        }
    }
}

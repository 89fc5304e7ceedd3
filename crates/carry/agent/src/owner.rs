//! Owner of a session or trace. Its files are accessed with the owner's rights.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// A user and a group, with whose rights files are accessed. New files and directories belong to
/// both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Owner {
    /// File mode of new directories: access for the user and the group only.
    pub(crate) const DIRECTORY_MODE: u32 = 0o770;

    /// Returns the user and the group of this process.
    #[cfg(test)]
    pub(crate) fn of_process() -> Owner {
        Owner { uid: blkkin_sys::user_id(), gid: rustix::process::getegid().as_raw() }
    }

    /// Runs `work` with the file permissions of this user, and returns its result.
    pub(crate) fn act<T>(self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        blkkin_sys::as_user(self.uid, self.gid, work)
    }

    /// Makes a new directory and all missing directories above it. Fails if the directory exists.
    pub(crate) fn create_directory(self, path: &Path) -> io::Result<()> {
        self.act(|| {
            let mut builder = fs::DirBuilder::new();
            builder.mode(Owner::DIRECTORY_MODE);
            if let Some(parent) = path.parent() {
                builder.recursive(true).create(parent)?;
            }
            builder.recursive(false).create(path)
        })
    }
}

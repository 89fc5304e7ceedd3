//! Whose sessions and traces are whose.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// A user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Owner {
    /// Directories are for this user alone, and the group.
    pub(crate) const DIRECTORY_MODE: u32 = 0o770;

    /// Acts on files with this user's rights.
    pub(crate) fn act<T>(self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        blkkin_sys::as_user(self.uid, self.gid, work)
    }

    /// Makes a directory, which must not be there, and whatever is missing above it.
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

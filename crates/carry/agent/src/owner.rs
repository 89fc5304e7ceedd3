//! Whose sessions and traces are whose.

use std::fs;
use std::io;
use std::path::Path;

/// A user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Owner {
    /// Acts on files with this user's rights.
    pub(crate) fn act<T>(self, work: impl FnOnce() -> T) -> T {
        blkkin_sys::as_user(self.uid, self.gid, work)
    }

    /// Makes a directory, which must not be there, and whatever is missing above it; for this user alone.
    pub(crate) fn create_directory(self, path: &Path) -> io::Result<()> {
        use std::os::unix::fs::DirBuilderExt;
        self.act(|| {
            let mut builder = fs::DirBuilder::new();
            builder.mode(0o770);
            if let Some(parent) = path.parent() {
                builder.recursive(true).create(parent)?;
            }
            builder.recursive(false).create(path)
        })
    }
}

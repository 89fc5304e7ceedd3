//! Whose sessions and traces are whose.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// A user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Owner {
    /// Acts on files with this user's rights.
    pub(crate) fn act<T>(self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        blkkin_sys::as_user(self.uid, self.gid, work)
    }

    /// Makes a file, which must not be there. It is only written to: see `confine`.
    pub(crate) fn create_file(self, path: &Path) -> io::Result<File> {
        self.act(|| File::options().write(true).create_new(true).open(path))
    }

    /// Opens a file that is there. Users may have put anything there, at which the daemon must not wait.
    pub(crate) fn open_file(self, path: &Path) -> io::Result<File> {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        let open = || File::options().read(true).write(true).custom_flags(flags).open(path);
        let file = self.act(open)?;
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, "not a plain file")),
        }
    }

    /// Makes a directory, which must not be there, and whatever is missing above it; for this user alone.
    pub(crate) fn create_directory(self, path: &Path) -> io::Result<()> {
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

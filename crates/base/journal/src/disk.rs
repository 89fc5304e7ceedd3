//! The journal's interface to a disk: a directory's names, and files. [`crate::Directory`] is the
//! real disk. Tests use a simulated disk that fails, and that tears and loses writes.

use std::any::Any;
use std::io;
use std::sync::Arc;

/// Directory on a disk. Its file names are single path components, chosen by the journal.
pub trait Disk: Send + Sync {
    /// Locks the directory until the returned lock is dropped. An exclusive lock excludes all other
    /// locks; a shared lock excludes only exclusive locks. Returns `None` if another lock excludes
    /// this one.
    fn lock(&self, is_exclusive: bool) -> io::Result<Option<Lock>>;

    /// Calls `each` with the name of each file, in any order. Stops if `each` returns false. A real
    /// directory also yields subdirectories, `.` and `..`, and omits names that are not UTF-8.
    fn list(&self, each: &mut dyn FnMut(&str) -> bool) -> io::Result<()>;

    /// Creates a file and opens it for reading and writing. Fails if the name exists.
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Opens an existing file for reading.
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Truncates the file with this name to `size_bytes`.
    fn truncate(&self, name: &str, size_bytes: u64) -> io::Result<()>;

    /// Renames a file atomically. An existing file with the new name is replaced.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes the file with this name. The removal is durable only after [`sync`](Self::sync).
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes earlier directory operations (create, rename, remove) durable.
    fn sync(&self) -> io::Result<()>;

    /// Opens a subdirectory, or creates it if it does not exist.
    fn directory(&self, name: &str) -> io::Result<Arc<dyn Disk>>;

    /// Returns a random number. A real disk reads it from `getrandom`, so that it is unpredictable.
    fn random(&self) -> io::Result<u64>;
}

/// Lock of a directory. Dropping the value releases the lock.
pub type Lock = Box<dyn Any + Send + Sync>;

/// Open file of a [`Disk`].
pub trait File: Send + Sync {
    /// Reads bytes at `offset`. Returns the number of bytes read, which is 0 only at the end of the
    /// file.
    fn read_at(&self, to: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Extends the file to `size_bytes`. Allocates its blocks if the file system supports that.
    fn reserve(&self, size_bytes: u64) -> io::Result<()>;

    /// Makes the file's bytes and size durable.
    fn sync(&self) -> io::Result<()>;

    /// Drops the file's clean pages from the page cache. After a failed `sync`, a clean page may
    /// have contents that never reached the disk, and reads could return them.
    fn forget(&self) -> io::Result<()>;

    /// Returns the size of the file in bytes.
    fn size_bytes(&self) -> io::Result<u64>;
}

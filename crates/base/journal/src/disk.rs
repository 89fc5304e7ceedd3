//! What a journal asks of a disk: a directory's names and their files. [`crate::Directory`] is a real one;
//! tests have one that fails, tears and forgets.

use std::any::Any;
use std::io;
use std::sync::Arc;

/// A directory. Names are single components, made by the journal.
pub trait Disk: Send + Sync {
    /// Keeps others from writing, and if `is_exclusive` from reading too, until what is returned is
    /// dropped. `None` if others keep us from it.
    fn lock(&self, is_exclusive: bool) -> io::Result<Option<Lock>>;

    /// Calls `each` with the name of each file, in any order, as long as it returns true.
    fn list(&self, each: &mut dyn FnMut(&str) -> bool) -> io::Result<()>;

    /// Makes a new file, and opens it for reading and writing. It is an error if there is one.
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Opens a file for reading.
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Cuts a file to `size_bytes`.
    fn truncate(&self, name: &str, size_bytes: u64) -> io::Result<()>;

    /// Gives a file another name, at once and in place of what had it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes durable which names there are.
    fn sync(&self) -> io::Result<()>;

    /// A directory in this one, made if it is not there.
    fn directory(&self, name: &str) -> io::Result<Arc<dyn Disk>>;

    /// A number that nobody can guess.
    fn random(&self) -> io::Result<u64>;
}

/// A lock that is held. Dropped, it is released.
pub type Lock = Box<dyn Any + Send + Sync>;

/// A file that is open.
pub trait File: Send + Sync {
    /// Reads what is there at `offset`; 0 at the end.
    fn read_at(&self, to: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all of it.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes the file `size_bytes` large, with room for all of it where the file system can.
    fn reserve(&self, size_bytes: u64) -> io::Result<()>;

    /// Makes the file's bytes and its size durable.
    fn sync(&self) -> io::Result<()>;

    /// Forgets what memory holds of the file and the disk does not, if it was not to be written any more: after
    /// a failed `sync` reads may otherwise show what the disk never got.
    fn forget(&self) -> io::Result<()>;

    /// How large the file is.
    fn size_bytes(&self) -> io::Result<u64>;
}

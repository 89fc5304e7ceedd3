//! The production implementation of [`Disk`]: a directory of the file system.

use crate::disk::{Disk, File, Lock};
use rustix::fs::{Advice, AtFlags, FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Directory of the file system. The files that it creates are accessible to their owner only.
#[derive(Debug)]
pub struct Directory {
    descriptor: OwnedFd,
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const FILE: OFlags = OFlags::CLOEXEC.union(OFlags::NOFOLLOW);

impl Directory {
    /// Opens an existing directory for use as a disk.
    pub fn open(path: &Path) -> io::Result<Directory> {
        Ok(Directory { descriptor: rustix::fs::open(path, DIRECTORY, Mode::empty())? })
    }

    /// Opens a directory. Creates it if it does not exist; its parent must exist.
    pub fn make(path: &Path) -> io::Result<Directory> {
        ignore_existing(rustix::fs::mkdir(path, Mode::RWXU))?;
        // Sync the parent even if the directory exists: its creator may have stopped before this
        // step.
        let absolute = std::path::absolute(path)?;
        let above = absolute.parent().map_or_else(|| PathBuf::from("/"), PathBuf::from);
        rustix::fs::fsync(rustix::fs::open(above, DIRECTORY, Mode::empty())?)?;
        Directory::open(path)
    }

    fn open_at(&self, name: &str, flags: OFlags) -> io::Result<fs::File> {
        let mode = Mode::RUSR | Mode::WUSR;
        Ok(rustix::fs::openat(&self.descriptor, name, flags | FILE, mode)?.into())
    }
}

/// Lock of the directory. Dropping the value releases the lock.
struct DirectoryLock(OwnedFd);

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // Closing is not enough: a child process that is being started may have a copy of the
        // descriptor.
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

/// Treats `EEXIST` as success: an earlier run or another process has created the directory.
fn ignore_existing(made: rustix::io::Result<()>) -> rustix::io::Result<()> {
    match made {
        Err(Errno::EXIST) => Ok(()),
        made => made,
    }
}

impl Disk for Directory {
    fn lock(&self, is_exclusive: bool) -> io::Result<Option<Lock>> {
        let operation = match is_exclusive {
            true => FlockOperation::NonBlockingLockExclusive,
            false => FlockOperation::NonBlockingLockShared,
        };
        // A `flock` belongs to the open file description, so each lock opens its own.
        let descriptor = rustix::fs::openat(&self.descriptor, ".", DIRECTORY, Mode::empty())?;
        match rustix::fs::flock(&descriptor, operation) {
            Ok(()) => Ok(Some(Box::new(DirectoryLock(descriptor)))),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn list(&self, each: &mut dyn FnMut(&str) -> bool) -> io::Result<()> {
        for entry in rustix::fs::Dir::read_from(&self.descriptor)? {
            // The journal's own names are UTF-8.
            if let Ok(name) = entry?.file_name().to_str()
                && !each(name)
            {
                break;
            }
        }
        Ok(())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        Ok(Arc::new(self.open_at(name, flags)?))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        // With `NONBLOCK`, a FIFO of this name does not block the open.
        let file = self.open_at(name, OFlags::RDONLY | OFlags::NONBLOCK)?;
        match file.metadata()?.is_file() {
            true => Ok(Arc::new(file)),
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, "is not a regular file")),
        }
    }

    fn truncate(&self, name: &str, size_bytes: u64) -> io::Result<()> {
        self.open_at(name, OFlags::WRONLY | OFlags::NONBLOCK)?.set_len(size_bytes)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.descriptor, from, &self.descriptor, to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.descriptor, name, AtFlags::empty())?)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.descriptor)?)
    }

    fn directory(&self, name: &str) -> io::Result<Arc<dyn Disk>> {
        ignore_existing(rustix::fs::mkdirat(&self.descriptor, name, Mode::RWXU))?;
        let flags = DIRECTORY | OFlags::NOFOLLOW;
        let descriptor = rustix::fs::openat(&self.descriptor, name, flags, Mode::empty())?;
        Ok(Arc::new(Directory { descriptor }))
    }

    fn random(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        // The kernel returns up to 256 random bytes at once.
        if filled == bytes.len() {
            Ok(u64::from_le_bytes(bytes))
        } else {
            Err(io::Error::from(io::ErrorKind::UnexpectedEof))
        }
    }
}

impl File for fs::File {
    fn read_at(&self, to: &mut [u8], offset: u64) -> io::Result<usize> {
        loop {
            match FileExt::read_at(self, to, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn reserve(&self, size_bytes: u64) -> io::Result<()> {
        loop {
            match rustix::fs::fallocate(self, FallocateFlags::empty(), 0, size_bytes) {
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => return self.set_len(size_bytes),
                reserved => return Ok(reserved?),
            }
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn forget(&self) -> io::Result<()> {
        Ok(rustix::fs::fadvise(self, 0, None, Advice::DontNeed)?)
    }

    fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

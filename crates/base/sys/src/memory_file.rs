//! File in memory that grows at its end, and whose bytes can be freed from its start on. Unlike
//! [`SharedMemory`](crate::SharedMemory) the file is read and written by system calls, not mapped.

use crate::shared::{PAGE_SIZE, SharedMemory, check_file_size_limit};
use rustix::fs::{FallocateFlags, MemfdFlags};
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

/// File in memory: a memfd of this process.
#[derive(Debug)]
pub struct MemoryFile(File);

impl MemoryFile {
    /// Creates an empty file. `/proc` shows `name` for the file.
    pub fn create(name: &CStr) -> io::Result<MemoryFile> {
        Ok(MemoryFile(File::from(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?)))
    }

    /// Returns the file, for reading.
    pub fn file(&self) -> &File {
        &self.0
    }

    /// Writes `bytes` at `offset`. Fails, instead of raising a signal, if the file would exceed
    /// `RLIMIT_FSIZE`. After an error, a part of the bytes may be written.
    pub fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(bytes.len() as u64).ok_or(io::ErrorKind::FileTooLarge)?;
        check_file_size_limit(end)?;
        self.0.write_all_at(bytes, offset)
    }

    /// Frees the pages that are entirely within `range`. They then read as zeros. The size and all
    /// offsets of the file stay the same.
    pub fn free(&self, range: Range<u64>) -> io::Result<()> {
        let page = PAGE_SIZE as u64;
        let (start, end) = (range.start.next_multiple_of(page), range.end / page * page);
        if start >= end {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(&self.0, flags, start, end - start)?)
    }

    /// Returns the amount of memory that the kernel has allocated for the file, in bytes.
    pub fn allocated_size(&self) -> io::Result<u64> {
        SharedMemory::allocated_size(self.0.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::MemoryFile;
    use std::os::unix::fs::FileExt;

    /// Only whole pages are freed, and the remaining bytes keep their offsets.
    #[test]
    fn freed_pages_take_no_memory() {
        let file = MemoryFile::create(c"test").unwrap();
        file.write(&[7; 5 * 4096], 0).unwrap();
        assert_eq!(file.allocated_size().unwrap(), 5 * 4096);
        file.free(1..4095).unwrap();
        assert_eq!(file.allocated_size().unwrap(), 5 * 4096);
        file.free(100..4 * 4096 + 100).unwrap();
        assert_eq!(file.allocated_size().unwrap(), 2 * 4096);
        let mut bytes = [0; 3];
        for (offset, expected) in [(4095, [7, 0, 0]), (4 * 4096 - 1, [0, 7, 7])] {
            file.file().read_exact_at(&mut bytes, offset).unwrap();
            assert_eq!(bytes, expected, "{offset}");
        }
        assert_eq!(file.file().metadata().unwrap().len(), 5 * 4096);
        assert!(file.write(&[7], u64::MAX).is_err());
    }
}

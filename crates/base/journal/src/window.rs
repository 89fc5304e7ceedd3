//! Window on the bytes of a file. The window only moves forward. Its memory is bounded by the size
//! of one read plus the size of the largest record.

use crate::disk::File;
use rustix::io::Errno;
use std::io;
use std::sync::Arc;

/// Usual size of a read of the file in bytes. A read for a large record is larger; a read at the
/// end or after an error is smaller.
const CHUNK_BYTES: usize = 256 << 10;

/// Size of a disk block in bytes. If a read fails, its first block is read alone; a block whose own
/// read fails counts as unreadable.
const BLOCK_BYTES: u64 = 4096;

/// Byte that replaces unreadable bytes. No valid record consists of such bytes alone.
const UNREADABLE: u8 = 0xff;

pub(crate) struct Window {
    file: Arc<dyn File>,
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    pub(crate) fn new(file: Arc<dyn File>) -> Window {
        Window { file, start: 0, bytes: Vec::new() }
    }

    pub(crate) fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// Reads until `get` can return `size` bytes at `offset`, but not past `end`. Returns the
    /// number of available bytes at `offset`, which may be smaller or larger than `size`. Neither
    /// `offset` nor `end` may decrease between calls.
    pub(crate) fn fill(&mut self, offset: u64, size: usize, end: u64) -> io::Result<usize> {
        let mut available = self.available(offset);
        if available < size {
            self.forget_before(offset);
            while available < size && self.read_more(size, end)? {
                available = self.available(offset);
            }
        }
        Ok(available)
    }

    /// Returns up to `size` bytes of the window at `offset`, fewer at the window's end.
    pub(crate) fn get(&self, offset: u64, size: usize) -> &[u8] {
        let from = usize::try_from(offset.saturating_sub(self.start)).unwrap_or(usize::MAX);
        let rest = self.bytes.get(from..).unwrap_or_default();
        &rest[..size.min(rest.len())]
    }

    fn available(&self, offset: u64) -> usize {
        match offset < self.start {
            true => 0,
            false => self.get(offset, usize::MAX).len(),
        }
    }

    fn forget_before(&mut self, offset: u64) {
        let passed = offset.saturating_sub(self.start);
        match usize::try_from(passed) {
            Ok(passed) if offset >= self.start && passed < self.bytes.len() => {
                self.bytes.drain(..passed);
            }
            _ => self.bytes.clear(),
        }
        // Frees the memory of an unusually large record.
        self.bytes.shrink_to(CHUNK_BYTES.max(self.bytes.len()));
        self.start = offset;
    }

    /// Reads more bytes after the window's end. Returns false if `end` or the end of the file has
    /// been reached.
    fn read_more(&mut self, size: usize, end: u64) -> io::Result<bool> {
        let from = self.bytes.len();
        let offset = self.start + from as u64;
        let until_end = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = size.saturating_sub(from).max(CHUNK_BYTES).min(until_end);
        if wanted == 0 {
            return Ok(false);
        }
        self.bytes.resize(from + wanted, 0);
        let read = self.read(offset, from);
        self.bytes.truncate(from + *read.as_ref().unwrap_or(&0));
        Ok(read? > 0)
    }

    /// Reads bytes of the file into `bytes[from..]`. Replaces the bytes of an unreadable block by
    /// [`UNREADABLE`].
    fn read(&mut self, offset: u64, from: usize) -> io::Result<usize> {
        let is_unreadable = |error: &io::Error| Errno::from_io_error(error) == Some(Errno::IO);
        let to = &mut self.bytes[from..];
        match self.file.read_at(to, offset) {
            Err(error) if is_unreadable(&error) => {}
            read => return read,
        }
        // Only this block is lost, as the next block may be readable.
        let block = (BLOCK_BYTES - offset % BLOCK_BYTES) as usize;
        let size = block.min(to.len());
        match self.file.read_at(&mut to[..size], offset) {
            Err(error) if is_unreadable(&error) => {
                to[..size].fill(UNREADABLE);
                Ok(size)
            }
            read => read,
        }
    }
}

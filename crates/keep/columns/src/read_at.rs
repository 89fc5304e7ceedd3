//! [`ReadAt`]: the byte source of a span file.

use std::io;
use std::os::unix::fs::FileExt;

/// Byte source with positional reads. Several threads may read it at once.
pub trait ReadAt {
    /// Returns the size of the source in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Fills the buffer with the bytes at `offset`. Returns an error if the source ends before the
    /// buffer is full.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Returns whether the source has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        self.len().map(|len| len == 0)
    }
}

impl ReadAt for std::fs::File {
    fn len(&self) -> io::Result<u64> {
        self.metadata().map(|metadata| metadata.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }
}

impl ReadAt for Vec<u8> {
    fn len(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(offset).ok();
        let bytes = from.and_then(|from| self.get(from..)?.get(..buffer.len()));
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

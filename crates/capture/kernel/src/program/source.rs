//! [`Source`]: the bytes of a program, in a file or in memory, of which parts are read.

use super::error::ProgramErrorKind;
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Bytes of a program.
#[derive(Debug)]
pub(super) struct Source {
    size: u64,
    bytes: Bytes,
}

#[derive(Debug)]
enum Bytes {
    File(File),
    Memory(Vec<u8>),
}

impl Source {
    /// Opens a file. Refuses devices and pipes, which block or have side effects.
    pub(super) fn open(path: &Path) -> Result<Source, ProgramErrorKind> {
        // An open pipe would block, and opening a device may act. The second check finds a file
        // that was replaced between the two calls.
        let metadata = std::fs::metadata(path).map_err(ProgramErrorKind::Open)?;
        if !metadata.is_file() {
            return Err(ProgramErrorKind::NotFile);
        }
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let file = file.map_err(ProgramErrorKind::Open)?;
        let metadata = file.metadata().map_err(ProgramErrorKind::Open)?;
        if !metadata.is_file() {
            return Err(ProgramErrorKind::NotFile);
        }
        Ok(Source { size: metadata.len(), bytes: Bytes::File(file) })
    }

    /// Makes a source of bytes in memory.
    pub(super) fn in_memory(bytes: Vec<u8>) -> Source {
        Source { size: bytes.len() as u64, bytes: Bytes::Memory(bytes) }
    }

    /// Size in bytes.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Returns true if a range is within the file.
    pub(super) fn has_range(&self, offset: u64, size: u64) -> bool {
        offset.checked_add(size).is_some_and(|end| end <= self.size)
    }

    /// Reads a range. The caller limits its size. Memory is allocated after the check that the
    /// range is within the file.
    pub(super) fn read(&self, offset: u64, size: usize) -> Result<Vec<u8>, ProgramErrorKind> {
        let failed = |error| ProgramErrorKind::Read { offset, error };
        if !self.has_range(offset, size as u64) {
            return Err(failed(io::ErrorKind::UnexpectedEof.into()));
        }
        match &self.bytes {
            Bytes::File(file) => {
                let mut bytes = vec![0; size];
                file.read_exact_at(&mut bytes, offset).map_err(failed)?;
                Ok(bytes)
            }
            // The range was checked.
            Bytes::Memory(bytes) => {
                Ok(bytes.iter().skip(offset as usize).take(size).copied().collect())
            }
        }
    }
}

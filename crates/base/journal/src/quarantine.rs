//! Quarantine for damaged bytes. Copies for inspection are named `quarantine/SEGMENT-OFFSET.bytes`,
//! with both numbers in hexadecimal. The directory has a size limit; bytes beyond it are counted
//! but not copied. Errors stay inside this module, because a failing quarantine must not stop the
//! journal.

use crate::disk::{Disk, File};
use crate::error::{Error, ErrorKind};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

const DIRECTORY: &str = "quarantine";
const SUFFIX: &str = ".bytes";

/// Minimum disk space that is counted for a copy, in bytes.
const FILE_BYTES_MIN: u64 = 4096;

/// Maximum number of recorded ranges, with or without a copy. Their file names are kept in memory.
/// Further ranges are not copied, and count as new each time they are found.
const FILES_MAX: usize = 4096;

const PIECE_BYTES: usize = 64 << 10;

pub(crate) struct Quarantine {
    disk: Arc<dyn Disk>,
    /// Quarantine directory; `None` until its first use.
    directory: Option<Arc<dyn Disk>>,
    bytes_left: u64,
    names: BTreeSet<String>,
}

/// Result of copying a damaged range to quarantine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyResult {
    /// Number of bytes copied; less than the range's size if the quarantine is full or fails, or if
    /// the segment's file was truncated.
    Copied(u64),
    /// Range that was recorded before, with or without a copy; it is not copied again.
    Duplicate,
}

impl Quarantine {
    pub(crate) fn new(disk: Arc<dyn Disk>, bytes_max: u64) -> Quarantine {
        Quarantine { disk, directory: None, bytes_left: bytes_max, names: BTreeSet::new() }
    }

    /// Copies a damaged range of a segment's file: `bytes` bytes at `offset`.
    pub(crate) fn copy(
        &mut self,
        file: &dyn File,
        segment: u64,
        offset: u64,
        bytes: u64,
    ) -> CopyResult {
        if self.directory.is_none() && self.open().is_err() {
            self.bytes_left = 0;
        }
        let name = format!("{segment:016x}-{offset:016x}{SUFFIX}");
        if self.names.contains(&name) {
            return CopyResult::Duplicate;
        }
        if self.names.len() >= FILES_MAX {
            return CopyResult::Copied(0);
        }
        self.names.insert(name.clone());
        let bytes = bytes.min(self.bytes_left);
        if bytes == 0 {
            return CopyResult::Copied(0);
        }
        let copied = self.copy_bytes(file, offset, bytes, &name).unwrap_or(0);
        self.bytes_left = self.bytes_left.saturating_sub(copied.max(FILE_BYTES_MIN));
        CopyResult::Copied(copied)
    }

    /// Opens the quarantine directory. Counts the files in it towards the limits.
    fn open(&mut self) -> Result<(), Error> {
        let failed = |during| Error::io(DIRECTORY, during);
        let directory = self.disk.directory(DIRECTORY).map_err(failed("open it"))?;
        let names = &mut self.names;
        directory
            .list(&mut |name| {
                if name.ends_with(SUFFIX) {
                    names.insert(name.to_owned());
                }
                names.len() <= FILES_MAX
            })
            .map_err(failed("list it"))?;
        if self.names.len() > FILES_MAX {
            return Err(Error::new(DIRECTORY, ErrorKind::TooManySegments));
        }
        for name in &self.names {
            let file = directory.open(name).map_err(failed("open a file of it"))?;
            let bytes = file.size_bytes().map_err(failed("ask for a file's size"))?;
            self.bytes_left = self.bytes_left.saturating_sub(bytes.max(FILE_BYTES_MIN));
        }
        self.directory = Some(directory);
        Ok(())
    }

    fn copy_bytes(&self, file: &dyn File, offset: u64, bytes: u64, name: &str) -> io::Result<u64> {
        let Some(directory) = &self.directory else { return Ok(0) };
        let to = directory.create(name)?;
        let mut piece = vec![0; PIECE_BYTES];
        let mut copied = 0;
        while copied < bytes {
            let wanted =
                usize::try_from(bytes - copied).map_or(PIECE_BYTES, |rest| rest.min(PIECE_BYTES));
            let read = file.read_at(&mut piece[..wanted], offset + copied)?;
            if read == 0 {
                break;
            }
            to.write_at(&piece[..read], copied)?;
            copied += read as u64;
        }
        to.sync()?;
        directory.sync()?;
        Ok(copied)
    }
}

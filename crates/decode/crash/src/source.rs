//! Bytes of a file: as they are, or in the flattened format, in which makedumpfile and QEMU write
//! to pipes.
//!
//! A flattened file is a header of 4 KiB, and then records: an offset and a size, both of 8 bytes
//! in big-endian order, and as many bytes, which belong at that offset of the restored file. A
//! later record replaces the bytes of an earlier one. An offset of -1 ends the records.

use crate::error::ImageError;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Maximum number of records of a flattened file: enough for the dumps of machines with 64 GiB.
const RECORDS_MAX: usize = 1 << 22;
const FLATTENED_MAGIC: &[u8] = b"makedumpfile\0";
const FLATTENED_HEADER_SIZE: u64 = 4096;
const RECORD_HEADER_SIZE: u64 = 16;

/// A file whose bytes can be read at any offset.
#[derive(Debug)]
pub(crate) struct Source {
    file: File,
    size: u64,
    /// Parts of a flattened file; `None` for other files.
    parts: Option<BTreeMap<u64, Part>>,
}

/// Part of the restored file, by its start in it.
#[derive(Clone, Copy, Debug)]
struct Part {
    end: u64,
    /// Offset in the flattened file.
    offset: u64,
}

impl Source {
    pub(crate) fn new(file: File) -> Result<Source, ImageError> {
        let size = file.metadata()?.len();
        let mut start = [0; FLATTENED_MAGIC.len()];
        let is_flattened = size > FLATTENED_HEADER_SIZE
            && file.read_exact_at(&mut start, 0).is_ok()
            && start == FLATTENED_MAGIC;
        if !is_flattened {
            return Ok(Source { file, size, parts: None });
        }
        let parts = read_records(&file, size)?;
        let size = parts.last_key_value().map_or(0, |(_, last)| last.end);
        Ok(Source { file, size, parts: Some(parts) })
    }

    /// Returns the size in bytes; that of the restored file if the file is flattened.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Fills `bytes` from `offset` on. Gaps of a flattened file are zeros.
    pub(crate) fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let Some(parts) = &self.parts else { return self.file.read_exact_at(bytes, offset) };
        let end = offset.checked_add(bytes.len() as u64).filter(|end| *end <= self.size);
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        bytes.fill(0);
        let first = parts.range(..=offset).next_back().map_or(offset, |(start, _)| *start);
        for (start, part) in parts.range(first..end) {
            let (from, to) = ((*start).max(offset), part.end.min(end));
            if from < to {
                let place = (from - offset) as usize..(to - offset) as usize;
                self.file.read_exact_at(&mut bytes[place], part.offset + (from - start))?;
            }
        }
        Ok(())
    }

    /// Returns the first part of a range of which the file has bytes; `None` if all of the range is
    /// in gaps, whose bytes are zeros: between the records of a flattened file, or in holes.
    pub(crate) fn next_stored(&self, range: Range<u64>) -> Option<Range<u64>> {
        if range.is_empty() {
            return None;
        }
        let Some(parts) = &self.parts else { return self.next_data(range) };
        let before = parts.range(..=range.start).next_back();
        let over = before.filter(|(_, part)| part.end > range.start);
        let (start, part) = over.or_else(|| parts.range(range.clone()).next())?;
        Some(range.start.max(*start)..range.end.min(part.end))
    }

    /// Returns the first part of a range of a file that is not in a hole.
    fn next_data(&self, range: Range<u64>) -> Option<Range<u64>> {
        match seek(&self.file, SeekFrom::Data(range.start)) {
            Ok(start) if start < range.end => {
                let hole = seek(&self.file, SeekFrom::Hole(start)).ok();
                let end = hole.filter(|hole| *hole > start).unwrap_or(range.end);
                Some(start..end.min(range.end))
            }
            Ok(_) | Err(Errno::NXIO) => None,
            // The file system does not tell.
            Err(_) => Some(range),
        }
    }
}

fn read_records(file: &File, size: u64) -> Result<BTreeMap<u64, Part>, ImageError> {
    let damaged = ImageError::Damaged("the records of its flattened format");
    let mut parts = BTreeMap::new();
    let mut at = FLATTENED_HEADER_SIZE;
    while at + RECORD_HEADER_SIZE <= size {
        let mut record = [0; RECORD_HEADER_SIZE as usize];
        file.read_exact_at(&mut record, at)?;
        let (start, length) = record.split_at(8);
        let number =
            |bytes: &[u8]| bytes.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
        let (start, length) = (number(start), number(length));
        if start == u64::MAX {
            break;
        }
        at += RECORD_HEADER_SIZE;
        // A record that is cut off ends the file.
        let length = length.min(size - at);
        let end = start.checked_add(length).filter(|end| i64::try_from(*end).is_ok());
        let Some(end) = end.filter(|_| parts.len() < RECORDS_MAX) else { return Err(damaged) };
        if length > 0 {
            insert(&mut parts, start, Part { end, offset: at });
        }
        at += length;
    }
    Ok(parts)
}

/// Adds a part, and cuts the parts that it replaces.
fn insert(parts: &mut BTreeMap<u64, Part>, start: u64, part: Part) {
    let before = parts.range(..start).next_back().map(|(start, part)| (*start, *part));
    if let Some((earlier, before)) = before.filter(|(_, before)| before.end > start) {
        parts.insert(earlier, Part { end: start, ..before });
        if before.end > part.end {
            let offset = before.offset + (part.end - earlier);
            parts.insert(part.end, Part { end: before.end, offset });
        }
    }
    while let Some((later, replaced)) =
        parts.range(start..part.end).next().map(|(start, part)| (*start, *part))
    {
        parts.remove(&later);
        if replaced.end > part.end {
            let offset = replaced.offset + (part.end - later);
            parts.insert(part.end, Part { end: replaced.end, offset });
        }
    }
    parts.insert(start, part);
}

#[cfg(test)]
mod tests {
    use super::*;
    use blkkin_sys::testing::Random;
    use std::io::Write;

    /// Later records replace earlier ones, as a model writes them one after the other.
    #[test]
    fn flattened_files_are_restored() {
        let mut random = Random::new(1);
        for _ in 0..50 {
            let mut bytes = FLATTENED_MAGIC.to_vec();
            bytes.resize(FLATTENED_HEADER_SIZE as usize, 0);
            let mut expected = Vec::new();
            for _ in 0..random.below(30) {
                let (start, size) = (random.below(300usize), random.below(60usize));
                let content: Vec<u8> = (0..size).map(|_| random.next() as u8).collect();
                bytes.extend((start as u64).to_be_bytes());
                bytes.extend((size as u64).to_be_bytes());
                bytes.extend(&content);
                if size > 0 {
                    expected.resize(expected.len().max(start + size), 0);
                    expected[start..start + size].copy_from_slice(&content);
                }
            }
            bytes.extend([0xff; 16]);
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&bytes).unwrap();
            let source = Source::new(file).unwrap();
            assert_eq!(source.size(), expected.len() as u64);
            for _ in 0..20 {
                let start = random.below(expected.len() + 1);
                let mut part = vec![7; random.below(expected.len() - start + 1)];
                source.read_exact_at(&mut part, start as u64).unwrap();
                assert_eq!(part, expected[start..start + part.len()]);
            }
            assert!(source.read_exact_at(&mut [0], expected.len() as u64).is_err());
        }
    }
}

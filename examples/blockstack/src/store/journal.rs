//! Encoding of the journal: records of changes to objects, appended to a file, and their replay. A
//! truncated or damaged record ends the replay of its file. If a crash truncated the record, later
//! records were not acknowledged as durable. If the disk damaged it, later records are lost too.
//!
//! | offset | field |
//! | --- | --- |
//! | 0 | magic |
//! | 4 | CRC-32C of all following bytes |
//! | 8 | number of the record, counted over all files |
//! | 16 | object |
//! | 24 | offset in the object |
//! | 28 | length |
//! | 32 | operation: 1 writes the bytes after this header, 2 writes zeros |
//! | 36 | 0 |

use std::io::{self, Read};

const MAGIC: u32 = 0x4c4e_4a42;
const HEADER_SIZE: usize = 40;
/// Maximum size of an object, in bytes.
pub(super) const OBJECT_SIZE: u32 = 4 << 20;

/// A change of a range of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change<'a> {
    Write(&'a [u8]),
    /// Write of this many zeros.
    Zero(u32),
}

/// A record of the journal: a change with its object and offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub(super) number: u64,
    pub(super) object: u64,
    pub(super) offset: u32,
    pub(super) change: Change<'a>,
}

/// Result of reading one journal file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReadSummary {
    pub(super) records: u64,
    /// Set if reading ended at bytes that are not the next record. A partial header of zeros does
    /// not count.
    pub(super) is_torn: bool,
}

impl Change<'_> {
    pub(super) fn length(&self) -> u32 {
        match self {
            Change::Write(bytes) => bytes.len() as u32,
            Change::Zero(length) => *length,
        }
    }
}

impl Record<'_> {
    /// Appends the encoded record to `output`.
    pub(super) fn write(&self, output: &mut Vec<u8>) {
        let (kind, bytes): (u32, &[u8]) = match self.change {
            Change::Write(bytes) => (1, bytes),
            Change::Zero(_) => (2, &[]),
        };
        let start = output.len();
        output.extend_from_slice(&MAGIC.to_le_bytes());
        output.extend_from_slice(&[0; 4]);
        output.extend_from_slice(&self.number.to_le_bytes());
        output.extend_from_slice(&self.object.to_le_bytes());
        for word in [self.offset, self.change.length(), kind, 0] {
            output.extend_from_slice(&word.to_le_bytes());
        }
        output.extend_from_slice(bytes);
        let sum = crc32c::crc32c(&output[start + 8..]);
        output[start + 4..start + 8].copy_from_slice(&sum.to_le_bytes());
    }
}

/// Passes records to `found`, up to the first that is truncated, damaged or out of sequence.
/// Returns a summary. `next_number` is the number of the first record, if known. Fails with an
/// error of `found` or of reading.
pub(super) fn read(
    input: &mut impl Read,
    mut next_number: Option<u64>,
    mut found: impl FnMut(Record<'_>) -> io::Result<()>,
) -> io::Result<ReadSummary> {
    let mut read = ReadSummary::default();
    let mut header = [0; HEADER_SIZE];
    let mut payload = Vec::new();
    loop {
        let size = read_up_to(input, &mut header)?;
        if size < HEADER_SIZE {
            // Zeros may be left by a write before a crash.
            read.is_torn = header[..size].iter().any(|byte| *byte != 0);
            return Ok(read);
        }
        let word = |at: usize| {
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let wide = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let (offset, length, kind, number) = (word(24), word(28), word(32), wide(8));
        read.is_torn = true;
        let is_right = word(0) == MAGIC
            && matches!(kind, 1 | 2)
            && u64::from(offset) + u64::from(length) <= u64::from(OBJECT_SIZE)
            && next_number.is_none_or(|next| next == number);
        if !is_right {
            return Ok(read);
        }
        payload.resize(if kind == 1 { length as usize } else { 0 }, 0);
        if read_up_to(input, &mut payload)? < payload.len() {
            return Ok(read);
        }
        if crc32c::crc32c_append(crc32c::crc32c(&header[8..]), &payload) != word(4) {
            return Ok(read);
        }
        let change = if kind == 1 { Change::Write(&payload) } else { Change::Zero(length) };
        found(Record { number, object: wide(16), offset, change })?;
        read.is_torn = false;
        read.records += 1;
        next_number = Some(number.wrapping_add(1));
    }
}

/// Reads until the buffer is full or the input ends; returns the number of bytes.
fn read_up_to(input: &mut impl Read, room: &mut [u8]) -> io::Result<usize> {
    let mut size = 0;
    while size < room.len() {
        match input.read(&mut room[size..]) {
            Ok(0) => break,
            Ok(count) => size += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    type ExampleRecord = (u64, u64, u32, Option<Vec<u8>>, u32);

    /// Returns three records, and the offsets of their ends.
    fn example() -> (Vec<u8>, Vec<usize>) {
        let mut bytes = Vec::new();
        let mut ends = Vec::new();
        let changes = [Change::Write(b"hello"), Change::Zero(4096), Change::Write(&[7; 100])];
        for (at, change) in changes.into_iter().enumerate() {
            let at = at as u64;
            Record { number: 10 + at, object: at, offset: 8, change }.write(&mut bytes);
            ends.push(bytes.len());
        }
        (bytes, ends)
    }

    fn all(bytes: &[u8]) -> (Vec<ExampleRecord>, ReadSummary) {
        let mut records = Vec::new();
        let read = read(&mut &bytes[..], Some(10), |record| {
            let bytes = match record.change {
                Change::Write(bytes) => Some(bytes.to_vec()),
                Change::Zero(_) => None,
            };
            let Record { number, object, offset, change } = record;
            records.push((number, object, offset, bytes, change.length()));
            Ok(())
        });
        (records, read.expect("no errors here"))
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        let (bytes, _) = example();
        let (records, read) = all(&bytes);
        assert_eq!(read, ReadSummary { records: 3, is_torn: false });
        assert_eq!(records[0], (10, 0, 8, Some(b"hello".to_vec()), 5));
        assert_eq!(records[1], (11, 1, 8, None, 4096));
        // Zeros after the records are no damage.
        let longer = [&bytes[..], &[0; 30]].concat();
        assert_eq!(all(&longer).1, read);
        assert_eq!(all(&[]).1, ReadSummary::default());
    }

    /// A journal that is truncated at any offset yields exactly the complete records before that
    /// offset.
    #[test]
    fn torn_tails() {
        let (bytes, ends) = example();
        let (expected, _) = all(&bytes);
        for size in 0..bytes.len() {
            let whole = ends.iter().filter(|end| **end <= size).count();
            let (records, read) = all(&bytes[..size]);
            assert_eq!(records, expected[..whole], "{size}");
            let is_at_end = size == 0 || ends.contains(&size);
            assert_eq!(read.is_torn, !is_at_end, "{size}");
        }
    }

    /// A journal with any bit flipped yields exactly the records before the damaged record.
    #[test]
    fn flipped_bits() {
        let (bytes, ends) = example();
        let (expected, _) = all(&bytes);
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                let whole = ends.iter().filter(|end| **end <= at).count();
                let (records, read) = all(&damaged);
                assert_eq!(records, expected[..whole], "byte {at}, bit {bit}");
                assert!(read.is_torn);
            }
        }
    }

    /// A record without the expected number ends the reading, at the start of the journal too.
    #[test]
    fn numbers_follow_each_other() {
        let (bytes, ends) = example();
        let gap = [&bytes[..ends[0]], &bytes[ends[1]..]].concat();
        assert_eq!(all(&gap).1, ReadSummary { records: 1, is_torn: true });
        assert_eq!(all(&bytes[ends[0]..]).1, ReadSummary { records: 0, is_torn: true });
    }
}

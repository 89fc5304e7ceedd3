//! Stored positions of consumers: a small file for each consumer, replaced as a whole.
//!
//! ```text
//! 0   8 bytes  "BlkKinP\n"
//! 8   u64      the sequence number of the first record that the consumer has not finished
//! 16  u32      CRC32C of bytes 0 to 16
//! ```
//!
//! An update makes `NAME.position.new` durable, renames it to `NAME.position`, and makes the
//! directory durable. A damaged file counts as missing, and is removed when the journal is opened
//! for writing. A consumer without a position reads from the start, and so misses no records.

use crate::disk::Disk;
use crate::error::{Error, ErrorKind};
use std::io;

const MAGIC: &[u8; 8] = b"BlkKinP\n";
const SIZE: usize = 20;
const SUFFIX: &str = ".position";
const NEW_SUFFIX: &str = ".position.new";
const NAME_BYTES_MAX: usize = 64;

/// Maximum number of position files read when the journal is opened.
const POSITIONS_MAX: usize = 1024;

/// Summary of the position files found when the journal was opened.
#[derive(Debug, Default)]
pub(crate) struct Positions {
    /// Largest position in any of the files, as a sequence number.
    pub(crate) furthest: u64,
    /// Number of damaged position files, which have been removed.
    pub(crate) forgotten: u64,
}

/// Reads the position files, up to [`POSITIONS_MAX`]. Removes damaged and unfinished ones.
pub(crate) fn recover(disk: &dyn Disk) -> Result<Positions, Error> {
    let mut names = Vec::new();
    disk.list(&mut |name| {
        if name.ends_with(SUFFIX) || name.ends_with(NEW_SUFFIX) {
            names.push(name.to_owned());
        }
        names.len() <= POSITIONS_MAX
    })
    .map_err(Error::io("", "list the directory"))?;
    let mut positions = Positions::default();
    for name in names {
        if name.ends_with(NEW_SUFFIX) {
            let _ = disk.remove(&name);
        } else if let Some(sequence) = read_file(disk, &name)? {
            positions.furthest = positions.furthest.max(sequence);
        } else {
            positions.forgotten += 1;
            disk.remove(&name).map_err(Error::io(&name, "remove it"))?;
        }
    }
    Ok(positions)
}

/// Reads the position of the consumer `name`; `None` if it is missing or damaged.
pub(crate) fn read(disk: &dyn Disk, name: &str) -> Result<Option<u64>, Error> {
    check_name(name)?;
    read_file(disk, &format!("{name}{SUFFIX}"))
}

/// Stores the position of the consumer `name` durably.
pub(crate) fn write(disk: &dyn Disk, name: &str, sequence: u64) -> Result<(), Error> {
    check_name(name)?;
    let new = format!("{name}{NEW_SUFFIX}");
    let written = write_as(disk, &new, &format!("{name}{SUFFIX}"), sequence);
    if written.is_err() {
        let _ = disk.remove(&new);
    }
    written
}

/// Removes the position of the consumer `name`. Succeeds if none is stored.
pub(crate) fn forget(disk: &dyn Disk, name: &str) -> Result<(), Error> {
    check_name(name)?;
    let file = format!("{name}{SUFFIX}");
    match disk.remove(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        removed => removed.map_err(Error::io(&file, "remove it"))?,
    }
    disk.sync().map_err(Error::io("", "make the directory durable"))
}

fn check_name(name: &str) -> Result<(), Error> {
    let is_permitted = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    match (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_permitted) {
        true => Ok(()),
        false => Err(Error::new(name, ErrorKind::Name)),
    }
}

fn write_as(disk: &dyn Disk, new: &str, name: &str, sequence: u64) -> Result<(), Error> {
    let failed = |during| Error::io(new, during);
    match disk.remove(new) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        removed => removed.map_err(failed("remove it"))?,
    }
    let file = disk.create(new).map_err(failed("create it"))?;
    file.write_at(&encode(sequence), 0).map_err(failed("write it"))?;
    file.sync().map_err(failed("make it durable"))?;
    disk.rename(new, name).map_err(failed("rename it"))?;
    disk.sync().map_err(Error::io("", "make the directory durable"))
}

fn read_file(disk: &dyn Disk, name: &str) -> Result<Option<u64>, Error> {
    let file = match disk.open(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(Error::io(name, "open it"))?,
    };
    let mut bytes = [0; SIZE + 1];
    let size = file.read_at(&mut bytes, 0).map_err(Error::io(name, "read it"))?;
    Ok(decode(&bytes[..size]))
}

fn encode(sequence: u64) -> [u8; SIZE] {
    let mut bytes = [0; SIZE];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..16].copy_from_slice(&sequence.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..16]);
    bytes[16..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Option<u64> {
    let bytes: &[u8; SIZE] = bytes.try_into().ok()?;
    let sequence = u64::from_le_bytes(bytes[8..16].try_into().ok()?);
    (encode(sequence) == *bytes).then_some(sequence)
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};

    #[test]
    fn a_damaged_position_is_none() {
        let whole = encode(0x0102_0304_0506_0708);
        assert_eq!(decode(&whole), Some(0x0102_0304_0506_0708));
        for place in 0..whole.len() {
            assert_eq!(decode(&whole[..place]), None);
            let mut bytes = whole;
            bytes[place] ^= 1;
            assert_eq!(decode(&bytes), None, "{place}");
        }
    }
}

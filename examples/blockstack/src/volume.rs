//! Volumes, by name and size, and their mapping to objects.

use crate::message::NAME_MAX;
use std::fmt;
use std::str::FromStr;

/// Size of an object in bytes. A volume is a sequence of objects.
pub(crate) const OBJECT_SIZE: u64 = 4 << 20;
/// Maximum length of a volume's name in bytes: an object's name adds a dot and eight digits.
const VOLUME_NAME_MAX: usize = NAME_MAX - 9;
/// Maximum size of a volume in bytes: eight hexadecimal digits must number all objects.
const SIZE_MAX: u64 = OBJECT_SIZE << 32;

/// A volume, given as `NAME=SIZE` with an optional suffix K, M, G or T of the size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    pub(crate) name: String,
    pub(crate) size: u64,
}

impl Volume {
    /// Returns the name by which clients select the volume.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the size of the volume, in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }
}

impl FromStr for Volume {
    type Err = String;

    fn from_str(text: &str) -> Result<Volume, String> {
        let (name, size) = text.split_once('=').ok_or("not NAME=SIZE")?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || name.len() > VOLUME_NAME_MAX || !name.bytes().all(is_plain) {
            return Err(format!(
                "a name has 1 to {VOLUME_NAME_MAX} letters, digits, dots, dashes and underscores"
            ));
        }
        let size = parse_size(size)?;
        if size == 0 || size > SIZE_MAX {
            return Err("not a size that a volume can have".to_owned());
        }
        Ok(Volume { name: name.to_owned(), size })
    }
}

impl fmt::Display for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.size)
    }
}

/// Parses a size in bytes, with an optional suffix K, M, G or T for powers of 1024.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let shift = match text.bytes().last().map(|byte| byte.to_ascii_uppercase()) {
        Some(b'K') => 10,
        Some(b'M') => 20,
        Some(b'G') => 30,
        Some(b'T') => 40,
        _ => 0,
    };
    let digits = if shift == 0 { text } else { &text[..text.len() - 1] };
    let number: u64 = digits.parse().map_err(|_| format!("`{text}` is not a size"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("`{text}` is too large"))
}

/// The part of a request within one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ObjectRange {
    pub(crate) object: u64,
    /// Offset in the object, in bytes.
    pub(crate) offset: u64,
    pub(crate) length: u32,
    /// Offset in the request, in bytes.
    pub(crate) at: u32,
}

/// Splits a range of a volume at object boundaries.
pub(crate) fn object_ranges(offset: u64, length: u32) -> impl Iterator<Item = ObjectRange> {
    let mut at = 0u32;
    std::iter::from_fn(move || {
        if at == length {
            return None;
        }
        let position = offset + u64::from(at);
        let within = position % OBJECT_SIZE;
        let rest = (OBJECT_SIZE - within).min(u64::from(length - at)) as u32;
        let piece =
            ObjectRange { object: position / OBJECT_SIZE, offset: within, length: rest, at };
        at += rest;
        Some(piece)
    })
}

/// Formats the name of an object: the volume's name, a dot, and eight hexadecimal digits.
pub(crate) fn object_name<'b>(volume: &str, object: u64, room: &'b mut [u8; NAME_MAX]) -> &'b [u8] {
    let size = volume.len().min(VOLUME_NAME_MAX);
    room[..size].copy_from_slice(&volume.as_bytes()[..size]);
    room[size] = b'.';
    for digit in 0..8 {
        room[size + 1 + digit] = b"0123456789abcdef"[(object >> (28 - 4 * digit) & 15) as usize];
    }
    &room[..size + 9]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_are_read() {
        let check = |text: &str, expected: Option<(&str, u64)>| {
            let volume = text.parse::<Volume>().ok();
            let got = volume.as_ref().map(|volume| (volume.name.as_str(), volume.size));
            assert_eq!(got, expected, "{text}");
        };
        check("disk=1G", Some(("disk", 1 << 30)));
        check("a-b_c.d=4096", Some(("a-b_c.d", 4096)));
        check("disk=16384T", Some(("disk", 1 << 54)));
        for wrong in
            ["disk", "disk=", "=1G", "a b=1", "disk=0", "disk=1X", "disk=16385T", "disk=-1"]
        {
            check(wrong, None);
        }
        check(&format!("{}=1", "n".repeat(48)), None);
    }

    #[test]
    fn ranges_are_cut_where_objects_end() {
        let check = |offset, length, expected: &[(u64, u64, u32, u32)]| {
            let pieces: Vec<_> = object_ranges(offset, length)
                .map(|piece| (piece.object, piece.offset, piece.length, piece.at))
                .collect();
            assert_eq!(pieces, expected);
        };
        check(4096, 4096, &[(0, 4096, 4096, 0)]);
        check((4 << 20) - 1, 2, &[(0, (4 << 20) - 1, 1, 0), (1, 0, 1, 1)]);
        check(
            4 << 20,
            9 << 20,
            &[(1, 0, 4 << 20, 0), (2, 0, 4 << 20, 4 << 20), (3, 0, 1 << 20, 8 << 20)],
        );
        check(0, 0, &[]);
    }

    #[test]
    fn objects_have_names() {
        let mut room = [0; NAME_MAX];
        assert_eq!(object_name("disk", 0x1af, &mut room), b"disk.000001af");
        assert_eq!(object_name(&"n".repeat(47), u64::from(u32::MAX), &mut room).len(), NAME_MAX);
    }
}

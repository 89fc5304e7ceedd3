//! Thrift's binary protocol, as far as Scribe needs it: numbers, texts, headers of fields, lists
//! and maps, and skipping of values.

use crate::fault::{Fault, Reason};

pub(crate) type Result<T> = std::result::Result<T, Fault>;

/// Type code that ends a structure. The following constants are the codes of Thrift's field types.
const STOP: u8 = 0;
const BOOL: u8 = 2;
const BYTE: u8 = 3;
const DOUBLE: u8 = 4;
const I16: u8 = 6;
pub(crate) const I32: u8 = 8;
pub(crate) const I64: u8 = 10;
pub(crate) const STRING: u8 = 11;
pub(crate) const STRUCT: u8 = 12;
pub(crate) const MAP: u8 = 13;
const SET: u8 = 14;
pub(crate) const LIST: u8 = 15;

/// Maximum nesting depth of skipped values. Connection threads have small stacks, and no sender
/// nests deeper.
const DEPTH_MAX: usize = 32;

/// A Thrift message with a read position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { bytes, at: 0 }
    }

    #[inline]
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    #[inline]
    fn take<const SIZE: usize>(&mut self) -> Result<[u8; SIZE]> {
        let chunk = self.rest().first_chunk();
        let chunk = *chunk.ok_or_else(|| Reason::Ends.at(self.at))?;
        self.at += SIZE;
        Ok(chunk)
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    #[inline]
    pub(crate) fn i32(&mut self) -> Result<i32> {
        self.take().map(i32::from_be_bytes)
    }

    #[inline]
    pub(crate) fn i64(&mut self) -> Result<i64> {
        self.take().map(i64::from_be_bytes)
    }

    /// Reads the type and number of the next field; `None` at the end of the structure.
    #[inline]
    pub(crate) fn field(&mut self) -> Result<Option<(u8, i16)>> {
        match self.byte()? {
            STOP => Ok(None),
            kind => Ok(Some((kind, self.take().map(i16::from_be_bytes)?))),
        }
    }

    /// Reads the number of items or bytes that follow; a fault if it is negative.
    #[inline]
    fn count(&mut self) -> Result<usize> {
        let start = self.at;
        let count = self.i32()?;
        usize::try_from(count).map_err(|_| Reason::Negative.at(start))
    }

    /// Reads length-prefixed bytes.
    #[inline]
    pub(crate) fn text(&mut self) -> Result<&'a [u8]> {
        let start = self.at;
        let size = self.count()?;
        self.bytes(size, start)
    }

    /// Reads `size` bytes. `start` is the offset for the fault, such as that of the length field.
    #[inline]
    pub(crate) fn bytes(&mut self, size: usize, start: usize) -> Result<&'a [u8]> {
        let end = self.at.saturating_add(size);
        let bytes = self.bytes.get(self.at..end).ok_or_else(|| Reason::Ends.at(start))?;
        self.at = end;
        Ok(bytes)
    }

    /// Reads the item type and count of a list.
    pub(crate) fn list(&mut self) -> Result<(u8, usize)> {
        Ok((self.byte()?, self.count()?))
    }

    /// Reads the key type, value type and entry count of a map.
    pub(crate) fn map(&mut self) -> Result<([u8; 2], usize)> {
        Ok((self.take()?, self.count()?))
    }

    /// Skips a value of type `kind`, with all nested values.
    pub(crate) fn skip(&mut self, kind: u8) -> Result<()> {
        self.skip_nested(kind, DEPTH_MAX)
    }

    /// Skips `count` values of one type.
    pub(crate) fn skip_items(&mut self, kind: u8, count: usize) -> Result<()> {
        self.skip_items_nested(kind, count, DEPTH_MAX)
    }

    fn skip_nested(&mut self, kind: u8, depth: usize) -> Result<()> {
        let Some(depth) = depth.checked_sub(1) else { return Err(Reason::TooDeep.at(self.at)) };
        match kind {
            STRING => self.text().map(drop),
            STRUCT => {
                while let Some((kind, _)) = self.field()? {
                    self.skip_nested(kind, depth)?;
                }
                Ok(())
            }
            LIST | SET => {
                let (kind, count) = self.list()?;
                self.skip_items_nested(kind, count, depth)
            }
            MAP => {
                let ([key, value], count) = self.map()?;
                for _ in 0..count {
                    self.skip_nested(key, depth)?;
                    self.skip_nested(value, depth)?;
                }
                Ok(())
            }
            _ => self.skip_items_nested(kind, 1, depth),
        }
    }

    /// Skips `count` values of one type. Each value has at least one byte, so a forged count fails
    /// at the end of the input.
    fn skip_items_nested(&mut self, kind: u8, count: usize, depth: usize) -> Result<()> {
        let start = self.at;
        let size = match kind {
            BOOL | BYTE => 1,
            I16 => 2,
            I32 => 4,
            DOUBLE | I64 => 8,
            STRING | STRUCT | LIST | SET | MAP => {
                return (0..count).try_for_each(|_| self.skip_nested(kind, depth));
            }
            _ if count == 0 => 0,
            _ => return Err(Reason::Type(kind).at(start)),
        };
        self.bytes(count.saturating_mul(size), start).map(drop)
    }
}

pub(crate) fn put_field(out: &mut Vec<u8>, kind: u8, id: i16) {
    out.push(kind);
    out.extend_from_slice(&id.to_be_bytes());
}

pub(crate) fn put_stop(out: &mut Vec<u8>) {
    out.push(STOP);
}

/// Writes length-prefixed bytes. Bytes beyond the range of the length field are truncated; no frame
/// is so large.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    let size = i32::try_from(text.len()).unwrap_or(i32::MAX);
    out.extend_from_slice(&size.to_be_bytes());
    out.extend_from_slice(text.get(..size as usize).unwrap_or(text));
}

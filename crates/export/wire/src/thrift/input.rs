//! Reader of the parts of thrift's binary protocol that spans need: fields, numbers,
//! length-prefixed values, and skipping.

use crate::error::{Reason, Result};

/// Thrift-encoded bytes with a read position.
#[derive(Clone, Copy, Debug)]
pub(super) struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Thrift type and number of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) kind: u8,
    pub(super) id: i16,
}

/// Type code that ends a structure. The following constants are the codes of thrift's types.
const STOP: u8 = 0;
pub(super) const BOOL: u8 = 2;
const BYTE: u8 = 3;
const DOUBLE: u8 = 4;
pub(super) const I16: u8 = 6;
pub(super) const I32: u8 = 8;
pub(super) const I64: u8 = 10;
pub(super) const STRING: u8 = 11;
pub(super) const STRUCT: u8 = 12;
const MAP: u8 = 13;
const SET: u8 = 14;
pub(super) const LIST: u8 = 15;

impl<'a> Input<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { bytes, at: 0 }
    }

    /// Returns the offset of the next byte.
    #[inline]
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Returns the bytes from the read position on.
    #[inline]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    #[inline]
    pub(super) fn go_to(&mut self, at: usize) {
        self.at = at;
    }

    #[inline]
    fn take<const SIZE: usize>(&mut self) -> Result<[u8; SIZE]> {
        let chunk = self.rest().first_chunk();
        let chunk = *chunk.ok_or_else(|| Reason::Ends.at(self.bytes.len()))?;
        self.at += SIZE;
        Ok(chunk)
    }

    /// Reads the type and number of the next field; `None` at the end of the structure.
    #[inline]
    pub(super) fn field(&mut self) -> Result<Option<Field>> {
        // Usually three bytes remain, and one check is enough.
        let ahead = self.rest().first_chunk();
        if let Some([kind, high, low]) = ahead
            && *kind != STOP
        {
            self.at += 3;
            return Ok(Some(Field { kind: *kind, id: i16::from_be_bytes([*high, *low]) }));
        }
        match self.byte()? {
            STOP => Ok(None),
            kind => Ok(Some(Field { kind, id: self.i16()? })),
        }
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    #[inline]
    pub(super) fn i16(&mut self) -> Result<i16> {
        self.take().map(i16::from_be_bytes)
    }

    #[inline]
    pub(super) fn i32(&mut self) -> Result<i32> {
        self.take().map(i32::from_be_bytes)
    }

    #[inline]
    pub(super) fn i64(&mut self) -> Result<i64> {
        self.take().map(i64::from_be_bytes)
    }

    /// Reads the number of items or bytes that follow.
    #[inline]
    fn count(&mut self) -> Result<usize> {
        let start = self.at;
        let count = self.i32()?;
        usize::try_from(count).map_err(|_| Reason::OutOfRange.at(start))
    }

    /// Reads a length-prefixed value of at most `size_max` bytes.
    #[inline]
    pub(super) fn text(&mut self, size_max: usize) -> Result<&'a [u8]> {
        let start = self.at;
        let bytes = self.sized()?;
        if bytes.len() > size_max {
            return Err(Reason::TooMany { what: "bytes", count_max: size_max as u64 }.at(start));
        }
        Ok(bytes)
    }

    #[inline]
    fn sized(&mut self) -> Result<&'a [u8]> {
        let start = self.at;
        let size = self.count()?;
        let end = self.at.saturating_add(size);
        let bytes = self.bytes.get(self.at..end).ok_or_else(|| Reason::Ends.at(start))?;
        self.at = end;
        Ok(bytes)
    }

    /// Reads the item type and count of a list.
    #[inline]
    pub(super) fn list(&mut self) -> Result<(u8, usize)> {
        Ok((self.byte()?, self.count()?))
    }

    /// Reads the count of a list of structures; `None` for a list of another type, which is
    /// skipped.
    #[inline]
    pub(super) fn structures(&mut self, depth: usize) -> Result<Option<usize>> {
        match self.list()? {
            (STRUCT, count) => Ok(Some(count)),
            (kind, count) => {
                self.skip_items(kind, count, depth)?;
                Ok(None)
            }
        }
    }

    /// Skips a value with at most `depth` levels of nesting; the value itself is the first level.
    pub(super) fn skip(&mut self, kind: u8, depth: usize) -> Result<()> {
        let Some(depth) = depth.checked_sub(1) else { return Err(Reason::TooDeep.at(self.at)) };
        match kind {
            STRING => self.sized().map(drop),
            STRUCT => {
                while let Some(field) = self.field()? {
                    self.skip(field.kind, depth)?;
                }
                Ok(())
            }
            LIST | SET => {
                let (kind, count) = self.list()?;
                self.skip_items(kind, count, depth)
            }
            MAP => {
                let kinds = self.take::<2>()?;
                for _ in 0..self.count()? {
                    self.skip(kinds[0], depth)?;
                    self.skip(kinds[1], depth)?;
                }
                Ok(())
            }
            _ => self.skip_items(kind, 1, depth),
        }
    }

    /// Skips `count` items. Each item has at least one byte, so a forged count fails at the end of
    /// the input.
    fn skip_items(&mut self, kind: u8, count: usize, depth: usize) -> Result<()> {
        let start = self.at;
        let size = match kind {
            BOOL | BYTE => 1,
            I16 => 2,
            I32 => 4,
            DOUBLE | I64 => 8,
            STRING | STRUCT | LIST | SET | MAP => {
                return (0..count).try_for_each(|_| self.skip(kind, depth));
            }
            _ if count == 0 => 0,
            _ => return Err(Reason::Expected("a type").at(start)),
        };
        let end = self.at.saturating_add(count.saturating_mul(size));
        if end > self.bytes.len() {
            return Err(Reason::Ends.at(start));
        }
        self.at = end;
        Ok(())
    }
}

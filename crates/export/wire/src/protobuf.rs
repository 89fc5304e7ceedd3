//! Reader and writer of the parts of protobuf's wire format that spans need: keys, varints,
//! fixed-size numbers and length-delimited values. The caller reads one field at a time; values are
//! borrowed.

use crate::error::{Reason, Result};
use blkkin_model::varint::{self, VarintError};

/// A protobuf message with a read position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a> {
    /// The batch up to the end of the message, so that offsets count from the start of the batch.
    bytes: &'a [u8],
    at: usize,
}

/// Wire type of a varint. A field's wire type is the lower three bits of its key.
const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const SIZED: u32 = 2;
const FIXED32: u32 = 5;

/// Returns the key of a varint field.
pub(crate) const fn varint(field: u32) -> u32 {
    field << 3 | VARINT
}
pub(crate) const fn fixed64(field: u32) -> u32 {
    field << 3 | FIXED64
}
pub(crate) const fn sized(field: u32) -> u32 {
    field << 3 | SIZED
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { bytes, at: 0 }
    }

    /// Returns the offset of the next byte.
    #[inline]
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Reads the next field's key; `None` at the end of the message.
    #[inline]
    pub(crate) fn key(&mut self) -> Result<Option<u32>> {
        let start = self.at;
        if start == self.bytes.len() {
            return Ok(None);
        }
        let key = u32::try_from(self.varint()?).ok().filter(|key| *key > 7);
        key.map(Some).ok_or_else(|| Reason::Expected("a field's key").at(start))
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u64> {
        match self.bytes.get(self.at) {
            Some(byte) if *byte < 0x80 => {
                self.at += 1;
                Ok((*byte).into())
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64> {
        match varint::read(self.bytes.get(self.at..).unwrap_or_default()) {
            Ok((number, size)) => {
                self.at += size;
                Ok(number)
            }
            Err(VarintError::TooLong) => Err(Reason::Expected("a number of 64 bits").at(self.at)),
            Err(VarintError::Incomplete) => Err(Reason::Ends.at(self.bytes.len())),
        }
    }

    #[inline]
    pub(crate) fn fixed64(&mut self) -> Result<u64> {
        self.fixed().map(u64::from_le_bytes)
    }

    #[inline]
    fn fixed<const SIZE: usize>(&mut self) -> Result<[u8; SIZE]> {
        let chunk = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk);
        let chunk = *chunk.ok_or_else(|| Reason::Ends.at(self.bytes.len()))?;
        self.at += SIZE;
        Ok(chunk)
    }

    /// Reads a length-delimited value.
    #[inline]
    pub(crate) fn sized(&mut self) -> Result<&'a [u8]> {
        self.message().map(Input::rest)
    }

    /// Reads a length-delimited value of at most `size_max` bytes.
    #[inline]
    pub(crate) fn text(&mut self, size_max: usize) -> Result<&'a [u8]> {
        let start = self.at;
        let bytes = self.sized()?;
        if bytes.len() > size_max {
            return Err(Reason::TooMany { what: "bytes", count_max: size_max as u64 }.at(start));
        }
        Ok(bytes)
    }

    /// Returns a nested message, and moves the read position past it.
    #[inline]
    pub(crate) fn message(&mut self) -> Result<Input<'a>> {
        let start = self.at;
        let size = self.varint()?;
        let inner = self.at;
        let end = usize::try_from(size).ok().and_then(|size| inner.checked_add(size));
        let bytes = end.and_then(|end| self.bytes.get(..end));
        let bytes = bytes.ok_or_else(|| Reason::Ends.at(start))?;
        self.at = bytes.len();
        Ok(Input { bytes, at: inner })
    }

    /// Returns the bytes from the read position to the end of the message.
    #[inline]
    pub(crate) fn rest(self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// Skips the value of a field with this key.
    pub(crate) fn skip(&mut self, key: u32) -> Result<()> {
        match key & 7 {
            VARINT => self.varint().map(drop),
            FIXED64 => self.fixed::<8>().map(drop),
            SIZED => self.message().map(drop),
            FIXED32 => self.fixed::<4>().map(drop),
            // Groups, which protobuf has deprecated, and undefined wire types.
            _ => Err(Reason::Expected("a field's key").at(self.at)),
        }
    }
}

/// Writes a length-delimited field.
#[inline]
pub(crate) fn put_sized(out: &mut Vec<u8>, key: u32, bytes: &[u8]) {
    varint::write(out, key.into());
    varint::write(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Writes a varint field.
#[inline]
pub(crate) fn put_number(out: &mut Vec<u8>, key: u32, number: u64) {
    varint::write(out, key.into());
    varint::write(out, number);
}

/// Writes a 64-bit fixed-size field.
#[inline]
pub(crate) fn put_fixed64(out: &mut Vec<u8>, key: u32, number: u64) {
    varint::write(out, key.into());
    out.extend_from_slice(&number.to_le_bytes());
}

/// Writes a nested message; `write` appends its contents.
#[inline]
pub(crate) fn put_message(out: &mut Vec<u8>, key: u32, write: impl FnOnce(&mut Vec<u8>)) {
    varint::write(out, key.into());
    let start = out.len();
    out.push(0);
    write(out);
    let size = out.len() - start - 1;
    if size < 0x80 {
        out[start] = size as u8;
        return;
    }
    // The length prefix needs more than the one reserved byte.
    let (mut length, mut count, mut rest) = ([0; 10], 0, size);
    for byte in &mut length {
        *byte = rest as u8 & 0x7f | if rest > 0x7f { 0x80 } else { 0 };
        count += 1;
        rest >>= 7;
        if rest == 0 {
            break;
        }
    }
    out.splice(start..=start, length.into_iter().take(count));
}

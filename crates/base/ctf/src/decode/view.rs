//! The part of a packet that the caller has read from the stream so far.

use super::error::{DecodeError, DecodeErrorKind};

/// A part of a packet: the bytes from offset `base` in the packet.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) base: u64,
    /// End of the content, in bits from the start of `bytes`.
    pub(super) end: u64,
}

impl<'a> View<'a> {
    /// Makes a view of `bytes`, which start `base` bytes after the packet's start. The first
    /// `end_bits` bits of `bytes`, at most all of them, are content.
    pub fn new(bytes: &'a [u8], base: u64, end_bits: u64) -> View<'a> {
        View { bytes, base, end: end_bits.min(bytes.len() as u64 * 8) }
    }

    /// Makes a view of a whole packet, or of the first part of a packet.
    pub fn whole(bytes: &'a [u8]) -> View<'a> {
        View::new(bytes, 0, u64::MAX)
    }

    /// Returns the number of bits between the packet's start and the view's start.
    pub fn base_bits(&self) -> u64 {
        self.base.saturating_mul(8)
    }

    /// Returns the bytes that are content in full. A last byte that is content only in part is
    /// excluded.
    #[inline]
    pub fn whole_bytes(&self) -> &'a [u8] {
        &self.bytes[..(self.end / 8) as usize]
    }

    /// Returns the end of the content, in bits from the view's start.
    pub fn end_bits(&self) -> u64 {
        self.end
    }
}

/// Reason for the early end of a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The view ends before the end of a field. The caller may retry with a longer view of the
    /// packet.
    Incomplete,
    /// The bytes violate the schema, at the position in the error.
    Invalid(DecodeError),
}

impl Stop {
    pub(super) fn bad(at_bits: u64, kind: DecodeErrorKind) -> Stop {
        Stop::Invalid(DecodeError { at_bits, kind })
    }
}

//! The bytes of a packet that are at hand.

use super::error::{DecodeError, DecodeErrorKind};

/// What has been read of a packet so far: bytes from `base` bytes after the packet's start.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) base: u64,
    /// Where the content ends, in bits from the start of `bytes`.
    pub(super) end: u64,
}

impl<'a> View<'a> {
    /// A view of `bytes`, which start `base` bytes after the packet's start, and of which the
    /// first `end_bits` bits are content.
    pub fn new(bytes: &'a [u8], base: u64, end_bits: u64) -> View<'a> {
        View { bytes, base, end: end_bits.min(bytes.len() as u64 * 8) }
    }

    /// A whole packet, or the start of one.
    pub fn whole(bytes: &'a [u8]) -> View<'a> {
        View::new(bytes, 0, u64::MAX)
    }

    /// Bits between the packet's start and the view's first bit.
    pub fn base_bits(&self) -> u64 {
        self.base.saturating_mul(8)
    }

    /// The bytes that are content in full.
    #[inline]
    pub fn whole_bytes(&self) -> &'a [u8] {
        &self.bytes[..(self.end / 8) as usize]
    }

    /// Where the content ends, in bits from the view's start.
    pub fn end_bits(&self) -> u64 {
        self.end
    }
}

/// Why a walk ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The view ends before the field does. If there is more of the packet, try again with it.
    Short,
    /// The bytes make no sense.
    Bad(DecodeError),
}

impl Stop {
    pub(super) fn bad(at_bits: u64, kind: DecodeErrorKind) -> Stop {
        Stop::Bad(DecodeError { at_bits, kind })
    }
}

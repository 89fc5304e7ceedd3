//! The numbers of requests and of their spans, which are never zero.

use std::fmt;
use std::num::{NonZeroU64, NonZeroU128};

/// The number that all spans of a request share. It has 64 or 128 bits: one whose upper half is 0
/// counts as one of 64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId(NonZeroU128);

/// The number of a span.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId(NonZeroU64);

impl TraceId {
    /// The id with this number; 0 is none.
    #[inline]
    pub const fn from_number(number: u128) -> Option<TraceId> {
        match NonZeroU128::new(number) {
            Some(number) => Some(TraceId(number)),
            None => None,
        }
    }

    /// Its number.
    #[inline]
    pub const fn number(self) -> u128 {
        self.0.get()
    }

    /// The lower half of its number, which is what systems with ids of 64 bits know of it. Can be 0
    /// if the id has 128 bits.
    #[inline]
    pub const fn low(self) -> u64 {
        self.0.get() as u64
    }

    /// The upper half of its number.
    #[inline]
    pub const fn high(self) -> u64 {
        (self.0.get() >> 64) as u64
    }

    /// Whether it has more than 64 bits.
    #[inline]
    pub const fn is_wide(self) -> bool {
        self.high() != 0
    }
}

impl SpanId {
    /// The id with this number; 0 is none.
    #[inline]
    pub const fn from_number(number: u64) -> Option<SpanId> {
        match NonZeroU64::new(number) {
            Some(number) => Some(SpanId(number)),
            None => None,
        }
    }

    /// Its number.
    #[inline]
    pub const fn number(self) -> u64 {
        self.0.get()
    }
}

impl From<NonZeroU64> for SpanId {
    #[inline]
    fn from(number: NonZeroU64) -> SpanId {
        SpanId(number)
    }
}

/// The id of the trace that a root span opens has the root's number, by custom.
impl From<SpanId> for TraceId {
    #[inline]
    fn from(root: SpanId) -> TraceId {
        TraceId(root.0.into())
    }
}

/// 16 hexadecimal digits, or 32.
impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = if self.is_wide() { 32 } else { 16 };
        write!(f, "{:0width$x}", self.0)
    }
}

/// 16 hexadecimal digits.
impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceId({self})")
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SpanId({self})")
    }
}

//! Ids of requests and spans. An id is never zero.

use std::fmt;
use std::num::{NonZeroU64, NonZeroU128};

/// Id of a request, shared by all of its spans. It has 64 or 128 bits; it counts as an id of 64
/// bits if its upper half is 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId(NonZeroU128);

/// Id of a span, which has 64 bits. The client's and the server's span of one call may share an id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId(NonZeroU64);

impl TraceId {
    /// Makes a trace id from a number. Returns `None` for 0, which is not a valid id.
    #[inline]
    pub const fn from_number(number: u128) -> Option<TraceId> {
        match NonZeroU128::new(number) {
            Some(number) => Some(TraceId(number)),
            None => None,
        }
    }

    /// Returns the id as a number, which is never 0.
    #[inline]
    pub const fn number(self) -> u128 {
        self.0.get()
    }

    /// Returns the lower half of the id, which is the id in systems with ids of 64 bits. May be 0
    /// if the id has 128 bits.
    #[inline]
    pub const fn low(self) -> u64 {
        self.0.get() as u64
    }

    /// Returns the upper half of the id; 0 if the id has 64 bits.
    #[inline]
    pub const fn high(self) -> u64 {
        (self.0.get() >> 64) as u64
    }

    /// Returns true if the id has 128 bits.
    #[inline]
    pub const fn is_wide(self) -> bool {
        self.high() != 0
    }
}

impl SpanId {
    /// Makes a span id from a number. Returns `None` for 0, which is not a valid id.
    #[inline]
    pub const fn from_number(number: u64) -> Option<SpanId> {
        match NonZeroU64::new(number) {
            Some(number) => Some(SpanId(number)),
            None => None,
        }
    }

    /// Returns the id as a number, which is never 0.
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

/// Conversion for systems in which a request's trace id is, by convention, the id of its root span.
impl From<SpanId> for TraceId {
    #[inline]
    fn from(root: SpanId) -> TraceId {
        TraceId(root.0.into())
    }
}

/// Writes 16 hexadecimal digits for an id of 64 bits, and 32 for one of 128 bits.
impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = if self.is_wide() { 32 } else { 16 };
        write!(f, "{:0width$x}", self.0)
    }
}

/// Writes 16 hexadecimal digits, with leading zeros.
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

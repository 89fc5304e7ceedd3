//! Errors of received contexts. After an error, the program should act as if no context had been
//! received.

use std::fmt;

/// An invalid context: the part at fault, the offset of the fault in it, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextError {
    /// The header at fault, or the packed context.
    pub part: Part,
    /// Offset of the fault in that header or packed context, in bytes; 0 if the header is missing.
    pub offset: usize,
    /// Reason why the context is invalid.
    pub reason: Reason,
}

/// Source of an error: a header, or the packed context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Part {
    Packed,
    Traceparent,
    B3,
    B3TraceId,
    B3SpanId,
    B3ParentSpanId,
    B3Sampled,
}

/// Reason why a received context is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The size is not that of a packed context.
    Size {
        /// Required size of a packed context, in bytes.
        expected: usize,
        /// Size of the received context, in bytes.
        actual: usize,
    },
    /// A required header is missing; the received headers have no meaning without it.
    Missing,
    /// The value ends too early.
    TooShort {
        /// Description of what should follow.
        expected: &'static str,
    },
    /// The byte is not allowed at this offset.
    Byte {
        /// Description of the allowed bytes.
        expected: &'static str,
        /// The received byte.
        found: u8,
    },
    /// The value continues after its expected end.
    TrailingBytes,
    /// The id is 0, which is invalid.
    Zero,
    /// The version is `ff`, which is invalid.
    Version,
    /// The trace id has neither 16 nor 32 digits.
    Digits {
        /// Number of digits of the received id.
        actual: usize,
    },
}

impl ContextError {
    pub(super) const fn new(part: Part, offset: usize, reason: Reason) -> ContextError {
        ContextError { part, offset, reason }
    }
}

impl Part {
    /// Returns the name of the header in lower case, or "packed context".
    pub const fn name(self) -> &'static str {
        match self {
            Part::Packed => "packed context",
            Part::Traceparent => "traceparent",
            Part::B3 => "b3",
            Part::B3TraceId => "x-b3-traceid",
            Part::B3SpanId => "x-b3-spanid",
            Part::B3ParentSpanId => "x-b3-parentspanid",
            Part::B3Sampled => "x-b3-sampled",
        }
    }
}

impl fmt::Display for ContextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ContextError { part, offset, reason } = self;
        let name = part.name();
        match reason {
            Reason::Missing => write!(f, "{name}: missing, though other parts are there"),
            Reason::Size { expected, actual } => {
                write!(f, "{name}: {actual} bytes, but should have {expected}")
            }
            _ => write!(f, "{name}, byte {offset}: {reason}"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Size { expected, actual } => write!(f, "{actual} bytes, not {expected}"),
            Reason::Missing => f.write_str("missing"),
            Reason::TooShort { expected } => write!(f, "ends where {expected} should be"),
            Reason::Byte { expected, found } => {
                write!(f, "'{}' where {expected} should be", found.escape_ascii())
            }
            Reason::TrailingBytes => f.write_str("goes on where it should end"),
            Reason::Zero => f.write_str("an id that is 0"),
            Reason::Version => f.write_str("version ff, which is forbidden"),
            Reason::Digits { actual } => {
                write!(f, "a trace id has 16 or 32 digits, not {actual}")
            }
        }
    }
}

impl std::error::Error for ContextError {}

//! Errors in messages, both in received messages and in messages to be sent.

use crate::version::Version;
use std::fmt;

/// Error in one field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Name of the message's kind, or `frame` for an error in the frame's header or descriptors.
    pub message: &'static str,
    /// Name of the invalid field.
    pub field: &'static str,
    /// Property that makes the field invalid.
    pub reason: Reason,
}

/// Error in the received bytes. No later byte of the connection can be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// Offset of the error, counted in bytes since the connection was made.
    pub offset: u64,
    /// Message, field and reason of the error.
    pub fault: Fault,
}

/// Kind of an error in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The peer uses another protocol: its version does not start with `blkkin`.
    OtherProtocol,
    /// The peer's version has a major number that differs from this crate's.
    OtherVersion {
        /// Version that the peer's message states.
        theirs: Version,
    },
    /// No message of this kind is allowed in this direction.
    UnknownKind {
        /// Number of the kind, as in the frame's header.
        kind: u16,
    },
    /// The field has more bytes than permitted.
    TooLong {
        /// Actual or announced size in bytes.
        size: usize,
        /// Largest permitted size in bytes.
        size_max: usize,
    },
    /// The number of items is out of range.
    Count {
        /// Actual or announced number of items.
        count: usize,
        /// Smallest permitted number of items.
        count_min: usize,
        /// Largest permitted number of items.
        count_max: usize,
    },
    /// Two items of a list have the same name.
    DuplicateName,
    /// The body ends within a field.
    Truncated {
        /// Minimum number of missing bytes.
        needed: usize,
    },
    /// Bytes follow the last field of the body.
    TrailingBytes {
        /// Number of bytes after the last field.
        left: usize,
    },
    /// The field is empty, which is not permitted.
    Empty,
    /// The text is not UTF-8.
    NotUtf8,
    /// The text has a character that is not permitted at its position.
    Character {
        /// Character that is not permitted.
        found: char,
        /// Description of the permitted characters.
        expected: &'static str,
    },
    /// The name starts with a dot.
    LeadingDot,
    /// The path does not start with `/`, or contains a NUL.
    Path,
    /// The number stands for no variant or value of its type.
    Number {
        /// Number that was received.
        found: u8,
        /// Name of the type that the number should encode.
        expected: &'static str,
    },
    /// The message has fewer descriptors than its kind requires.
    DescriptorsMissing {
        /// Number of descriptors that the message's kind requires.
        expected: usize,
        /// Number of descriptors that were received.
        actual: usize,
    },
    /// The peer passed descriptors that belong to no message.
    UnexpectedDescriptors {
        /// Number of descriptors that belong to no message.
        count: usize,
    },
    /// The stream ended within a message.
    StreamTruncated,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fault.reason {
            Reason::OtherProtocol | Reason::OtherVersion { .. } => self.fault.reason.fmt(f),
            _ => write!(f, "byte {}: {}", self.offset, self.fault),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault { message, field, reason } = self;
        match *field {
            "" => write!(f, "{message}: {reason}"),
            field => write!(f, "{message}, {field}: {reason}"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Reason::OtherProtocol => f.write_str("the other side does not speak BlkKin's protocol"),
            Reason::OtherVersion { theirs } => write!(
                f,
                "the other side speaks version {theirs} of BlkKin's protocol, this one {}; install \
                 the same release on both sides, and start them again",
                Version::OURS
            ),
            Reason::UnknownKind { kind } => write!(f, "a message of kind {kind:#06x} is unknown"),
            Reason::TooLong { size, size_max } => write!(f, "{size} bytes, not up to {size_max}"),
            Reason::Count { count, count_min, count_max } => {
                write!(f, "{count} items, not {count_min} to {count_max}")
            }
            Reason::DuplicateName => f.write_str("two have the same name"),
            Reason::Truncated { needed } => write!(f, "ends too early (bytes missing: {needed})"),
            Reason::TrailingBytes { left } => {
                write!(f, "goes on where it should end (bytes left: {left})")
            }
            Reason::Empty => f.write_str("is empty"),
            Reason::NotUtf8 => f.write_str("not UTF-8"),
            Reason::Character { found, expected } => {
                write!(f, "'{}' where {expected} may be", found.escape_debug())
            }
            Reason::LeadingDot => f.write_str("a name that starts with '.'"),
            Reason::Path => f.write_str("a path that does not start with '/', or holds a NUL"),
            Reason::Number { found, expected } => write!(f, "{found} is no {expected}"),
            Reason::DescriptorsMissing { expected, actual } => {
                write!(f, "{actual} came, not {expected}")
            }
            Reason::UnexpectedDescriptors { count } => {
                write!(f, "{count} that belong to no message")
            }
            Reason::StreamTruncated => f.write_str("the connection ended within a message"),
        }
    }
}

impl std::error::Error for DecodeError {}
impl std::error::Error for Fault {}

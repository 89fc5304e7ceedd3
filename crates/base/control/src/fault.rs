//! Errors in messages, both received and to be sent.

use crate::version::Version;
use std::fmt;

/// Error in a message or its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Name of the message's kind, or `frame` for an error in the frame's header or descriptors,
    /// or for an incomplete frame.
    pub message: &'static str,
    /// Name of the invalid field; `end` for bytes after the last field; empty for an error in the
    /// whole message.
    pub field: &'static str,
    /// Kind of the error, with details such as the permitted size.
    pub reason: Reason,
}

/// Error in the received bytes. No later byte of the connection can be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// Offset of the error in the connection's stream, in bytes.
    pub offset: u64,
    /// Message and field with the error, and the error's kind.
    pub fault: Fault,
}

/// Kind of an error in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Another protocol: the peer's version does not start with `blkkin`.
    OtherProtocol,
    /// Other major version: the peer's major number differs from this crate's.
    OtherVersion {
        /// Version that the peer's message states.
        theirs: Version,
    },
    /// Kind of message that is not allowed in this direction and phase.
    UnknownKind {
        /// Number of the message's kind, from the frame's header.
        kind: u16,
    },
    /// Field or body with more bytes than permitted.
    TooLong {
        /// Size in bytes, as received or as a header announces it.
        size: usize,
        /// Largest permitted size in bytes.
        size_max: usize,
    },
    /// List whose number of items is out of range.
    Count {
        /// Actual or announced number of items.
        count: usize,
        /// Smallest permitted number of items.
        count_min: usize,
        /// Largest permitted number of items.
        count_max: usize,
    },
    /// List in which two items have the same name.
    DuplicateName,
    /// Body that ends before its last field is complete.
    Truncated {
        /// Minimum number of missing bytes.
        needed: usize,
    },
    /// Body with bytes after its last field.
    TrailingBytes {
        /// Number of bytes after the last field.
        left: usize,
    },
    /// Empty field that must not be empty.
    Empty,
    /// Text that is not UTF-8.
    NotUtf8,
    /// Text with a character that is not permitted at its position.
    Character {
        /// Character that is not permitted.
        found: char,
        /// Description of the permitted characters.
        expected: &'static str,
    },
    /// Name that starts with a dot.
    LeadingDot,
    /// Path that does not start with `/`, or that contains a NUL.
    Path,
    /// Number that stands for no variant or value of the field's type.
    Number {
        /// Number that was received.
        found: u8,
        /// Name of the type that the number should encode.
        expected: &'static str,
    },
    /// Message with fewer descriptors than its kind requires.
    DescriptorsMissing {
        /// Number of descriptors that the message's kind requires.
        expected: usize,
        /// Number of descriptors that were received.
        actual: usize,
    },
    /// More descriptors than the message that is being received can have.
    UnexpectedDescriptors {
        /// Number of descriptors that were received and not assigned to a message.
        count: usize,
    },
    /// Stream that ended within a message.
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

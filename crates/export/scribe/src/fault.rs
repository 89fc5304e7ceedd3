//! Faults in messages, with their position.

use std::fmt;

/// Violation of the protocol or of a limit, with its position in the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Offset of the fault in the frame's body, in bytes.
    pub offset: usize,
    /// Rule or limit that the message violates.
    pub reason: Reason,
}

/// Rule or limit that a message violates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A value or length exceeds the remaining bytes of the message.
    Ends,
    /// A length or count is negative.
    Negative,
    /// Values are nested deeper than any sender nests them.
    TooDeep,
    /// The type of a field or item is unknown, or a map has unexpected types.
    Type(u8),
    /// The protocol version is unknown.
    Version(u16),
    /// The message type is unexpected.
    Kind(u8),
    /// The number of items exceeds a limit.
    TooMany {
        /// Name of the counted items, such as `entries`.
        what: &'static str,
        /// Maximum number of these items.
        count_max: usize,
    },
    /// The reply belongs to a different call.
    WrongReply,
    /// The reply has no result of the expected type.
    NoResult,
    /// The result code or service status is unknown.
    Result(i32),
}

impl Reason {
    pub(crate) fn at(self, offset: usize) -> Fault {
        Fault { offset, reason: self }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: ", self.offset)?;
        match self.reason {
            Reason::Ends => write!(f, "the message ends within what begins here"),
            Reason::Negative => write!(f, "a length below zero"),
            Reason::TooDeep => write!(f, "values too deep within each other"),
            Reason::Type(kind) => write!(f, "no such type: {kind}"),
            Reason::Version(version) => write!(f, "unknown version of the protocol: {version:#x}"),
            Reason::Kind(kind) => write!(f, "a message of kind {kind} is not expected here"),
            Reason::TooMany { what, count_max } => write!(f, "more than {count_max} {what}"),
            Reason::WrongReply => write!(f, "a reply to something that was not asked"),
            Reason::NoResult => write!(f, "a reply without a result"),
            Reason::Result(code) => write!(f, "an unknown result: {code}"),
        }
    }
}

impl std::error::Error for Fault {}

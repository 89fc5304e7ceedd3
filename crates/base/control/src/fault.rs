//! What is wrong with a message: that came, or that was to be sent.

use crate::version::Version;
use std::fmt;

/// What is wrong with a message, and with which of its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Name of the message, or `frame`.
    pub message: &'static str,
    /// Name of the field.
    pub field: &'static str,
    /// What is wrong with it.
    pub reason: Reason,
}

/// Why what came cannot be understood, and where. Nothing that comes behind it can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// In bytes since the connection was made.
    pub offset: u64,
    /// What is wrong there.
    pub fault: Fault,
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The other side speaks something else.
    NotOurs,
    /// The other side speaks another version, which has another major number.
    OtherVersion {
        /// Which one.
        theirs: Version,
    },
    /// No such message may come here.
    UnknownKind {
        /// Its number.
        kind: u16,
    },
    /// More bytes than permitted.
    TooLong {
        /// How many there are, or are said to be.
        size: usize,
        /// How many there may be.
        size_max: usize,
    },
    /// Another number of items than permitted.
    Count {
        /// How many there are, or are said to be.
        count: usize,
        /// How few there may be.
        count_min: usize,
        /// How many there may be.
        count_max: usize,
    },
    /// Two items have the same name.
    Twice,
    /// The body ends before.
    Ends {
        /// How many bytes are missing at least.
        needed: usize,
    },
    /// The body does not end here.
    GoesOn {
        /// How many bytes are left.
        left: usize,
    },
    /// Nothing, where there must be something.
    Empty,
    /// Not UTF-8.
    NotUtf8,
    /// A character that may not be there.
    Character {
        /// Which one.
        found: char,
        /// What may be there.
        expected: &'static str,
    },
    /// A name that means a folder.
    Dots,
    /// A path that does not start with `/`, or with a NUL in it.
    Path,
    /// A number that stands for nothing.
    Number {
        /// Which one.
        found: u8,
        /// What it should stand for.
        expected: &'static str,
    },
    /// Descriptors are missing.
    DescriptorsMissing {
        /// How many there should be.
        expected: usize,
        /// How many there are.
        actual: usize,
    },
    /// Descriptors that belong to no message.
    DescriptorsLeft {
        /// How many.
        count: usize,
    },
    /// The stream ended within a message.
    Cut,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fault.reason {
            Reason::NotOurs | Reason::OtherVersion { .. } => self.fault.reason.fmt(f),
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
            Reason::NotOurs => f.write_str("the other side does not speak BlkKin's protocol"),
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
            Reason::Twice => f.write_str("two have the same name"),
            Reason::Ends { needed } => write!(f, "ends too early (bytes missing: {needed})"),
            Reason::GoesOn { left } => {
                write!(f, "goes on where it should end (bytes left: {left})")
            }
            Reason::Empty => f.write_str("is empty"),
            Reason::NotUtf8 => f.write_str("not UTF-8"),
            Reason::Character { found, expected } => {
                write!(f, "'{}' where {expected} may be", found.escape_debug())
            }
            Reason::Dots => f.write_str("a name that starts with '.'"),
            Reason::Path => f.write_str("a path that does not start with '/', or holds a NUL"),
            Reason::Number { found, expected } => write!(f, "{found} is no {expected}"),
            Reason::DescriptorsMissing { expected, actual } => {
                write!(f, "{actual} came, not {expected}")
            }
            Reason::DescriptorsLeft { count } => write!(f, "{count} that belong to no message"),
            Reason::Cut => f.write_str("the connection ended within a message"),
        }
    }
}

impl std::error::Error for DecodeError {}
impl std::error::Error for Fault {}

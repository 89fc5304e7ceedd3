//! What is wrong with a message, and at which of its bytes.

use std::fmt;

/// What is wrong with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The byte of the frame's body.
    pub offset: usize,
    /// What it was.
    pub reason: Reason,
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There is less than a length says.
    Ends,
    /// A length below zero.
    Negative,
    /// Values within each other, deeper than anybody sends.
    TooDeep,
    /// There is no such type of a field.
    Type(u8),
    /// A version of the protocol that is not known.
    Version(u16),
    /// A message that is not of the kind that belongs here.
    Kind(u8),
    /// More than is permitted.
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many are permitted.
        count_max: usize,
    },
    /// A reply to something else than what was asked.
    Foreign,
    /// A reply without a result.
    NoResult,
    /// A result that is none of those that there are.
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
            Reason::Foreign => write!(f, "a reply to something that was not asked"),
            Reason::NoResult => write!(f, "a reply without a result"),
            Reason::Result(code) => write!(f, "an unknown result: {code}"),
        }
    }
}

impl std::error::Error for Fault {}

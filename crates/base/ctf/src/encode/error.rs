//! The error of what cannot be written.

use std::fmt;

/// What cannot be written, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodeError {
    /// A lower-case fragment.
    pub message: String,
}

impl EncodeError {
    pub(super) fn new(message: impl Into<String>) -> EncodeError {
        EncodeError { message: message.into() }
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for EncodeError {}

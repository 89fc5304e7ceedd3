//! Errors of encoding.

use std::fmt;

/// An error of encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodeError {
    /// Message: a lower-case fragment.
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

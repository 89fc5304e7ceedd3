//! Errors in compiling a schema for writing, and in writing packets.

use std::fmt;

/// Error of a schema that cannot be written, or of a value that does not fit into its field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodeError {
    /// Error message for users, in lower case and without a full stop.
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

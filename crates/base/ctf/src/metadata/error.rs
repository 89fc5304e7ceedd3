//! Errors in metadata, with their position in the text.

use super::budget::OverBudget;
use std::fmt;

/// An error in metadata text, in a metadata file or in its packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataError {
    /// Byte offset in the metadata text, without packet headers and padding. An offset in the file
    /// if `position` is `None`.
    pub offset: usize,
    /// Line and column in the text, both from 1, the column in bytes; `None` for an error of the
    /// file or its packets.
    pub position: Option<(u32, u32)>,
    /// Error message for users, in lower case and without a full stop.
    pub message: String,
    /// Suggested remedy, shown after the message; `None` if none is known.
    pub hint: Option<String>,
}

impl MetadataError {
    /// Makes an error at a byte offset of `text`.
    pub fn at(text: &str, offset: usize, message: impl Into<String>) -> MetadataError {
        let before = &text.as_bytes()[..offset.min(text.len())];
        let line = before.iter().filter(|&&byte| byte == b'\n').count() as u32 + 1;
        let column = before.iter().rev().take_while(|&&byte| byte != b'\n').count() as u32 + 1;
        MetadataError {
            offset,
            position: Some((line, column)),
            message: message.into(),
            hint: None,
        }
    }

    /// Makes the error of a text that exceeds its budget at `offset`.
    pub(crate) fn over_budget(text: &str, offset: usize, error: OverBudget) -> MetadataError {
        MetadataError::at(text, offset, error.to_string()).hint(OverBudget::HINT)
    }

    /// Adds a suggested remedy to the error.
    pub fn hint(mut self, hint: impl Into<String>) -> MetadataError {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for MetadataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.position {
            Some((line, column)) => write!(
                f,
                "line {line}, column {column} (offset {}): {}",
                self.offset, self.message
            )?,
            None => write!(f, "offset {}: {}", self.offset, self.message)?,
        }
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for MetadataError {}

//! From a metadata file's bytes to a [`Schema`]: unpacks packetised metadata, finds out which of
//! the two languages it is written in, and hands it to [`tsdl`] or [`ctf2`]. What a text may take
//! in memory is up to `budget`.

pub(crate) mod budget;
pub(crate) mod nearest;
mod packets;

pub use packets::{MetadataText, Packing, pack, unpack};

use crate::schema::Schema;
use crate::{ctf2, tsdl};
use budget::OverBudget;
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

/// Why metadata cannot be used, and where it goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataError {
    /// Byte offset in the metadata text (packet headers and padding not counted).
    pub offset: usize,
    /// Line and column from 1, where the text has lines.
    pub position: Option<(u32, u32)>,
    /// A lower-case fragment.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl MetadataError {
    /// An error at a byte offset of `text`.
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

    /// The error of a text that describes too much, met at an offset.
    pub(crate) fn over_budget(text: &str, offset: usize, error: OverBudget) -> MetadataError {
        MetadataError::at(text, offset, error.to_string()).hint(OverBudget::HINT)
    }

    /// The same error with advice.
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

/// Largest metadata file that is looked at: that of 20,000 event classes is up to so large, if it
/// is indented JSON.
pub const METADATA_SIZE_MAX: usize = 64 << 20;
/// Deepest nesting of types and blocks.
pub const DEPTH_MAX: usize = 64;

/// Parses a metadata file's bytes. Those that nobody else needs are best given away.
///
/// A text is an error that describes so much that its schema and decoder would take more than 12 MiB
/// of memory and 8 bytes for each of its own, or more than 208 MiB together with the text itself.
pub fn parse<'b>(bytes: impl Into<Cow<'b, [u8]>>) -> Result<Schema, MetadataError> {
    Ok(read(bytes)?.schema)
}

/// A schema, and what its metadata file has beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// The schema.
    pub schema: Schema,
    /// Bytes of the file that were left out, see [`MetadataText::stray`].
    pub stray: Option<Range<usize>>,
}

/// As [`parse`], and tells which of the file's bytes were left out.
pub fn read<'b>(bytes: impl Into<Cow<'b, [u8]>>) -> Result<Parsed, MetadataError> {
    let MetadataText { text, stray, .. } = unpack(bytes)?;
    let is_ctf2 = text.trim_start().starts_with('\u{1e}');
    let schema = if is_ctf2 { ctf2::parse(&text) } else { tsdl::parse(&text) }?;
    Ok(Parsed { schema, stray })
}

/// The metadata text: `bytes` themselves, or what metadata packets hold.
pub fn text<'b>(bytes: impl Into<Cow<'b, [u8]>>) -> Result<String, MetadataError> {
    Ok(unpack(bytes)?.text)
}

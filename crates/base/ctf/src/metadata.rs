//! Parsing of a metadata file into a [`Schema`]. The parser unpacks packetised metadata, detects
//! the metadata language, and passes the text to [`tsdl`] or [`ctf2`]. `budget` limits the memory
//! for a text.

pub(crate) mod budget;
pub(crate) mod error;
pub(crate) mod limits;
mod packets;
pub(crate) mod suggest;

pub use error::MetadataError;
pub use limits::{DEPTH_MAX, METADATA_SIZE_MAX};
pub use packets::{MetadataText, Packing, pack, unpack};

use crate::schema::Schema;
use crate::{ctf2, tsdl};
use std::borrow::Cow;
use std::ops::Range;

/// Parses a metadata file's bytes. Passing owned bytes saves a copy.
///
/// Fails if parsing, the schema and its decoder together would need too much memory. The limit is
/// 12 MiB plus 8 bytes per byte of the text, but never more than 208 MiB including the text itself.
pub fn parse<'b>(bytes: impl Into<Cow<'b, [u8]>>) -> Result<Schema, MetadataError> {
    Ok(read(bytes)?.schema)
}

/// A schema, with the range of the ignored bytes in its metadata file.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// The schema parsed from the file's metadata text.
    pub schema: Schema,
    /// Range of the ignored bytes in the file, see [`MetadataText::stray`].
    pub stray: Option<Range<usize>>,
}

/// Parses like [`parse`], and also returns the range of ignored bytes.
pub fn read<'b>(bytes: impl Into<Cow<'b, [u8]>>) -> Result<Parsed, MetadataError> {
    let MetadataText { text, stray, .. } = unpack(bytes)?;
    let is_ctf2 = text.trim_start().starts_with('\u{1e}');
    let schema = if is_ctf2 { ctf2::parse(&text) } else { tsdl::parse(&text) }?;
    Ok(Parsed { schema, stray })
}

/// Extracts the metadata text: `bytes` themselves, or the contents of metadata packets.
pub fn text<'b>(bytes: impl Into<Cow<'b, [u8]>>) -> Result<String, MetadataError> {
    Ok(unpack(bytes)?.text)
}

//! From a metadata file's bytes to a [`Schema`]: unpacks packetised metadata, finds out which of
//! the two languages it is written in, and hands it to [`tsdl`] or [`ctf2`]. What a text may take
//! in memory is up to `budget`.

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

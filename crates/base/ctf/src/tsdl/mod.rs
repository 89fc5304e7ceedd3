//! CTF 1.8's metadata language, TSDL, read into and written from a [`Schema`].

use crate::metadata::MetadataError;
use crate::schema::Schema;

/// Parses TSDL text.
pub fn parse(_text: &str) -> Result<Schema, MetadataError> {
    todo!("tsdl")
}

/// Writes a schema as TSDL text.
pub fn write(_schema: &Schema) -> String {
    todo!("tsdl")
}

//! CTF 2's metadata language, a JSON text sequence, read into and written from a [`Schema`].

use crate::metadata::MetadataError;
use crate::schema::Schema;

/// Parses a JSON text sequence.
pub fn parse(_text: &str) -> Result<Schema, MetadataError> {
    todo!("ctf2")
}

/// Writes a schema as a JSON text sequence.
pub fn write(_schema: &Schema) -> String {
    todo!("ctf2")
}

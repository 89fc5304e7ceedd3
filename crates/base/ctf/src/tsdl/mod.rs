//! CTF 1.8's metadata language, TSDL, read into and written from a [`Schema`].
//!
//! Reading goes through `lexer`, `parser` (a tree of what is written), `declare` (types, their
//! names looked up) and `expand` (field classes, their lengths and tags found by `resolve`);
//! `lower` holds it together. Writing is [`write()`].

mod attributes;
mod clock;
mod declare;
mod expand;
mod lexer;
mod lower;
mod parser;
mod resolve;
mod roles;
mod syntax;
#[cfg(test)]
mod tests;
mod types;
mod write;

pub(crate) use lexer::is_keyword;
pub use write::{WriteError, write};

use crate::metadata::MetadataError;
use crate::schema::Schema;

/// Parses TSDL text.
pub fn parse(text: &str) -> Result<Schema, MetadataError> {
    lower::lower(text, &parser::parse(text)?)
}

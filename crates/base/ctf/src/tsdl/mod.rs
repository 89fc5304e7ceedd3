//! Parsing and writing of TSDL, the metadata language of CTF 1.8.
//!
//! The stages of reading are `lexer`, `parser` (the syntax tree), `declare` (types, with their
//! names looked up) and `expand` (field classes). `expand` uses `resolve` to find the fields of
//! lengths and tags. `lower` runs the stages after the parser. Events make up most of a text, so
//! `lower` also parses the `event` blocks, one by one. All stages share one memory budget. Writing
//! is [`write()`].

mod attributes;
mod clock;
mod declare;
mod expand;
mod frame;
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
pub use write::{WriteError, WriteProgress, write, write_additions};

use crate::metadata::budget::Budget;
use crate::metadata::error::MetadataError;
use crate::schema::Schema;

/// Parses TSDL text into a schema. An error states its position in the text.
pub fn parse(text: &str) -> Result<Schema, MetadataError> {
    let budget = Budget::of_text(text.len());
    lower::lower(text, parser::parse(text, &budget)?, &budget)
}

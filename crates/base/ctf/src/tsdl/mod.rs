//! CTF 1.8's metadata language, TSDL, read into and written from a [`Schema`].
//!
//! Reading goes through `lexer`, `parser` (a tree of what is written), `declare` (types, their
//! names looked up) and `expand` (field classes, their lengths and tags found by `resolve`);
//! `lower` holds it together. Events, which are nearly all of a text, go that way one by one, and
//! all steps draw on one budget of memory. Writing is [`write()`].

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
pub use write::{WriteError, Written, write, write_more};

use crate::metadata::budget::Budget;
use crate::metadata::error::MetadataError;
use crate::schema::Schema;

/// Parses TSDL text.
pub fn parse(text: &str) -> Result<Schema, MetadataError> {
    let budget = Budget::of_text(text.len());
    lower::lower(text, parser::parse(text, &budget)?, &budget)
}

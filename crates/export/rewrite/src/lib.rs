//! Writes the events that a reader delivers as trace directories: merged, cut or converted.
//!
//! Start at [`Rewriter`], a consumer of events. Each source trace becomes one written trace, as a
//! CTF trace has only one metadata file. All written traces are below one directory, so a reader of
//! that directory merges them. `directory` manages files and directories, `uuid` creates trace
//! UUIDs, and `stream` cuts the events of a stream into packets.

mod directory;
mod error;
mod rewriter;
mod stream;
#[cfg(test)]
mod tests;
mod uuid;

pub use error::Error;
pub use rewriter::{Form, Rewriter, Summary};

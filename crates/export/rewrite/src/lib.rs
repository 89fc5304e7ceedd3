//! Traces out of traces: what a reading passes on is written as trace directories again.
//!
//! Start at [`Rewriter`], a consumer of events. Each trace that is read becomes a trace that is
//! written (one CTF trace cannot have two metadata), all below one directory, so that whoever
//! opens that directory reads them merged. `directory` owns what is made on disk, `identity` names
//! traces, `stream` cuts a stream's events into packets.

mod directory;
mod error;
mod identity;
mod rewriter;
mod stream;
#[cfg(test)]
mod tests;

pub use error::Error;
pub use rewriter::{Form, Rewriter, Summary};

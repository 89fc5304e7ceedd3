//! Decoding of packets. A schema is compiled once into flat programs, which walk the bytes of
//! packets without allocating and pass each field to a [`Visitor`].
//!
//! Start at [`Decoder`]. `compile` turns field classes into `program` ops, `walk` runs them, `bits`
//! reads fields that are not whole bytes. Nothing here does I/O: a [`View`] is the part of a packet
//! that the caller has read so far, and [`Stop::Incomplete`] requests more of it.

mod compile;
mod decoder;
mod error;
mod header;
mod node;
mod op;
mod plain;
mod program;
pub(crate) mod size;
mod skip;
mod strings;
mod view;
mod visit;
mod walk;

#[cfg(test)]
mod tests;

pub use compile::CompileError;
pub use decoder::{Decoder, PACKET_MAGIC, Packet};
pub use error::{DecodeError, DecodeErrorKind};
pub use node::{Node, NodeKind, NodeLabels};
pub use plain::{PlainField, PlainKind};
pub use skip::EventSkipper;
pub use view::{Stop, View};
pub use visit::{NullVisitor, Visitor};
pub use walk::Machine;
pub(crate) use walk::{clock_after, trim_at_nul};

//! Packets to fields: a schema compiled once into flat programs, which walk packets' bytes without
//! allocating and hand each field to a [`Visitor`].
//!
//! Start at [`Decoder`]. `compile` turns field classes into `program` ops, `walk` runs these,
//! `bits` reads what is not a whole number of bytes. Nothing here does I/O: a [`View`] is what
//! somebody has read of a packet so far, and [`Stop::Short`] asks for more of it.

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
pub use skip::Skipping;
pub use view::{Stop, View};
pub use visit::{Nothing, Visitor};
pub use walk::Machine;
pub(crate) use walk::{before_nul, clock_after};

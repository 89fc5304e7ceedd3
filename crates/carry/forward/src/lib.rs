//! Sends the traces in a directory to a relay, also while they grow.
//!
//! A [`Forwarder`] is a producer of the relay's protocol. Its session has the traces below the
//! directory, which `spool` finds and reads; `connection` is the pair of sockets. Packets are sent
//! undecoded, by the index beside each stream file, and metadata always before the packets that
//! need it. [`Target`] is the address of a relay.

mod connection;
mod forwarder;
mod spool;
mod target;
#[cfg(test)]
mod tests;

pub use forwarder::{Forwarder, SessionName, Totals};
pub use target::{Target, TargetError};

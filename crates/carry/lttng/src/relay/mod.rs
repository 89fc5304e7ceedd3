//! Protocol between producers (LTTng's session and consumer daemons, BlkKin's agent) and a relay.
//!
//! A producer has two connections for a session. On the control connection it sends commands, and
//! waits for the reply of each command except `SEND_METADATA`. On the data connection it sends
//! packets, which are not answered. Both sides use the smaller of their minor versions.
//!
//! BlkKin's relay and its producers have commands that LTTng lacks: packets and indexes on the
//! control connection, without replies, and a promise of completeness. A producer uses them if the
//! relay's configuration has [`abilities::INLINE`]. With [`abilities::CLOCKS`], both exchange
//! times, so that the offsets of the clocks of many machines are known.

mod command;
mod data;
mod index;
mod reply;
#[cfg(test)]
mod tests;

pub use command::{
    AddStream, ChunkAction, Command, CommandKind, CreateChunk, CreateSession, Rotation, abilities,
    code,
};
pub use data::{DATA_HEADER_SIZE, DataHeader};
pub use index::Index;
pub use reply::{Created, Reply};

/// Default port of control connections.
pub const CONTROL_PORT: u16 = 5342;
/// Default port of data connections.
pub const DATA_PORT: u16 = 5343;
/// Major version of the protocol.
pub const MAJOR: u32 = 2;
/// Highest minor version that is implemented.
pub const MINOR: u32 = 13;
/// Lowest minor version that is accepted: older producers send neither names nor indexes.
pub const MINOR_MIN: u32 = 4;

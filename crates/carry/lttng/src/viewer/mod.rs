//! Protocol between viewers (`babeltrace2`, `blkkin view`) and a relay.
//!
//! A viewer sends one [`Request`] at a time and reads its [`Reply`]; the relay sends nothing else.

mod reply;
mod request;
#[cfg(test)]
mod tests;

pub use reply::{
    AttachStatus, IndexStatus, MetadataStatus, NewStreamsStatus, PacketStatus, Reply, Session,
    Stream, flags,
};
pub use request::{Request, RequestKind, Seek};

/// Default port of viewers' connections.
pub const PORT: u16 = 5344;
/// Major version of the protocol.
pub const MAJOR: u32 = 2;
/// Minor version of the protocol. The layouts of versions 2.4 to 2.14 are equal.
pub const MINOR: u32 = 13;

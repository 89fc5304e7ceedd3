//! Protocol between viewers (`babeltrace2`, `blkkin view`) and a relay.
//!
//! A viewer sends one [`Request`] at a time and reads its [`Reply`]; the relay sends nothing else.
//! A viewer of LTTng's relay has to ask for news again and again. BlkKin's relay sends them by
//! itself once a viewer has requested it: [`Request::Await`].

mod reply;
mod request;
#[cfg(test)]
mod tests;

pub use reply::{
    AttachStatus, IndexStatus, MEASUREMENTS_MAX, MetadataStatus, NewStreamsStatus, News,
    PacketStatus, Reply, Session, SessionNews, Stream, StreamNews, flags,
};
pub use request::{Request, RequestKind, Seek};

/// Default port of viewers' connections.
pub const PORT: u16 = 5344;
/// Major version of the protocol.
pub const MAJOR: u32 = 2;
/// Minor version of the protocol. The layouts of versions 2.4 to 2.14 are equal.
pub const MINOR: u32 = 13;
/// Value of [`Reply::Connected`]'s last field by which a relay says that it takes the requests that
/// LTTng does not have. Other relays send 0, and other viewers ignore the field.
pub const OWN_REQUESTS: u32 = 0x424b_0003;

//! What traced programs, commands and the node daemon say to each other: the messages, their bytes,
//! and a [`Decoder`] that is fed what a socket gives. No I/O. Neither side believes the other: what
//! [`encode`] writes and the decoder gives keeps to [`limits`], and anything else is an error.
//!
//! # The stream
//!
//! A stream socket in each direction carries frames, one for each message:
//!
//! ```text
//! 0  u32  size of the body
//! 4  u16  kind; its upper 4 bits say how many descriptors come with the message
//! 6       body: the fields of the message, one after the other, without padding
//! ```
//!
//! All numbers are little-endian. Descriptors are sent together with the first byte of their frame.
//!
//! ```text
//! number     u8, u16, u32 or u64
//! flag       u8: 0 or 1
//! text       u32 size in bytes, UTF-8        path       u32 size in bytes, bytes
//! optional   flag, then the value if it is 1 list       u16 count, then the items
//! choice     u8 which, then its fields       record     its fields
//! version    6 bytes "blkkin", u16 major, u16 minor
//! ```
//!
//! # Who says what
//!
//! Whoever connects says [`Hello`], and what it is: an application or a command. The daemon's
//! [`Answer`] is [`Welcome`] or [`Refused`]. Then
//!
//! - an application sends [`FromApplication`] and gets [`ToApplication`], neither waiting for the
//!   other;
//! - a command sends [`Request`]s, and gets [`Reply`]s in their order: for each request what was
//!   asked for, an item in a message, and then `Done` or `Failed`.
//!
//! So a list may be as long as it likes, and no frame is.
//!
//! # Versions
//!
//! A major version is another language: its `Hello` is refused. What never changes are the frames,
//! how `Hello` and `Welcome` begin, and all of `Refused`. A new minor version may add kinds of
//! messages, and fields at the end of bodies; the older side passes over both
//! ([`Received::Unknown`]). It may add choices too, which are not sent to older sides: both know the
//! other's version from the start.

pub mod address;
pub mod bell;
pub mod catalog;
pub mod limits;
pub mod rules;
pub mod sampling;

#[macro_use]
mod describe;
mod application;
mod channel;
mod decoder;
mod fault;
mod form;
mod message;
mod opening;
mod reply;
mod request;
mod saved;
mod selection;
#[cfg(test)]
mod tests;
mod text;
mod version;
mod wire;

pub use application::{
    AddChannel, ChannelRule, EventRule, EventType, Field, FieldKind, FromApplication, KeepChannel,
    Label, Orphan, Scalar, ToApplication, Width,
};
pub use channel::{Channel, Context, EVENT_SIZES, Mode, WAIT_FOREVER, WAIT_MAX_US};
pub use decoder::{Decoder, Received};
pub use fault::{DecodeError, Fault, Reason};
pub use message::{HEADER_SIZE, Kind, Messages, encode};
pub use opening::{Answer, Clock, Hello, Opening, Refused, Role, Welcome};
pub use reply::{
    Activity, Application, Cause, Ended, Failed, Loss, Quota, Released, Reply, Ring, Rule,
    SessionState, code,
};
pub use request::{
    Applications, Events, NewChannel, Purpose, Request, Session, SessionLimit, Snapshot,
};
pub use saved::{
    Saved, SavedClosed, SavedEnded, SavedLimit, SavedLoss, SavedSampling, SavedSession, SavedTrace,
};
pub use selection::{Levels, Processes, Selection};
pub use version::Version;

/// How severe an event is: LTTng's fifteen levels.
pub use blkkin_filter::Severity as Level;

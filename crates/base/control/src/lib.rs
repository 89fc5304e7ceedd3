//! Protocol between traced programs, commands and the agent of a machine: messages, their encoding,
//! and a [`Decoder`] for the bytes of a socket. No I/O. Neither side trusts the other: [`encode`]
//! writes, and the decoder accepts, only messages within [`limits`].
//!
//! # The stream
//!
//! Each direction of a stream socket carries frames, one for each message:
//!
//! ```text
//! 0  u32  size of the body
//! 4  u16  kind; its upper 4 bits are the number of descriptors passed with the message
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
//! choice     u8 number of the variant, then its fields
//! record     its fields
//! version    6 bytes "blkkin", u16 major, u16 minor
//! ```
//!
//! # Conversation
//!
//! A client opens with [`Hello`], which names its role: application or command. The agent's
//! [`Answer`] is [`Welcome`] or [`Refused`]. After that,
//!
//! - an application sends [`FromApplication`] and receives [`ToApplication`], neither side waiting
//!   for the other;
//! - a command sends [`Request`]s and receives [`Reply`]s in the same order: for each request its
//!   items, one message each, and then `Done` or `Failed`.
//!
//! One item per message keeps frames small, whatever the length of a list.
//!
//! # Versions
//!
//! A `Hello` of another major version is refused. All versions share the frames, the beginning of
//! `Hello` and `Welcome`, and all of `Refused`. A new minor version may add kinds of messages
//! ([`Received::Unknown`]), and fields at the end of bodies; an older peer skips both. A new minor
//! version may also add variants to choices. They are never sent to an older peer, since each side
//! receives the other's version in the first message.

pub mod address;
pub mod bell;
pub mod catalog;
pub mod current_span;
pub mod limits;
pub mod rules;
pub mod sampling;

#[macro_use]
mod describe;
mod application;
mod channel;
mod complete_time;
mod decoder;
mod encoding;
mod fault;
mod forwarding;
mod handshake;
mod message;
mod redaction;
mod reply;
mod request;
mod ring_description;
mod rotation;
mod saved;
mod selection;
#[cfg(test)]
mod tests;
mod text;
mod version;
mod wire;

pub use application::{
    AddChannel, ChannelRule, EventRule, EventType, Field, FieldKind, FromApplication, KeepChannel,
    KernelRule, Label, Orphan, Scalar, SpanSlot, ToApplication, Unavailable, Width,
};
pub use channel::{Channel, Context, EVENT_SIZES, Mode, Sharing, WAIT_FOREVER, WAIT_MAX_US};
pub use complete_time::{COMPLETE_FILE, CompleteTime};
pub use decoder::{Decoder, Received};
pub use fault::{DecodeError, Fault, Reason};
pub use forwarding::{
    Destination, DroppedPackets, ForwardProgress, ForwardReport, ForwardTask, Forwarding,
    SessionForward, SpoolSize,
};
pub use handshake::{Answer, Clock, Hello, Opening, Refused, Role, Welcome};
pub use message::{HEADER_SIZE, Kind, Messages, encode};
pub use redaction::{Redaction, RedactionError, RedactionMethod};
pub use reply::{
    Activity, Application, Cause, EvictedRings, Failed, Loss, Quota, Reach, RedactedRule, Reply,
    Ring, RingTotals, Rule, SessionState, code,
};
pub use request::{
    Applications, AwaitedChange, ChannelName, Events, NewChannel, NewPart, NewSharedChannel,
    Purpose, RecentSnapshot, RedactedEvents, Request, RetainingSession, Retention, Session,
    SessionLimit, Snapshot,
};
pub use ring_description::{RingDescription, Variable, VariableValue};
pub use rotation::{Chunk, Chunks, Hook, HookReport, Rotation, SessionRotation};
pub use saved::{
    SavedChunk, SavedCompletion, SavedLimit, SavedLoss, SavedRetention, SavedRingTotals,
    SavedRotation, SavedSampling, SavedSession, SavedTrace, StateRecord,
};
pub use selection::{Levels, Processes, Selection};
pub use version::Version;

/// Severity of an event: LTTng's fifteen levels.
pub use blkkin_filter::Severity as Level;

//! Definition of a session as a file, for `session save`, `session load` and `service`: what is
//! recorded, its channels, output and chunks, and a recorder's triggers. The file is TOML, with one
//! value in a line; `document` parses it.

mod document;
mod read;
#[cfg(test)]
mod tests;
mod write;

use crate::conversation::SessionChannel;
use blkkin_control::{RedactedRule, Retention, Rotation, Session};
use blkkin_forward::Target;

pub(crate) use document::FileError;

/// Definition of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Definition {
    /// Configuration of the session. Without an output directory, the agent chooses one.
    pub(crate) session: Session,
    pub(crate) retention: Retention,
    /// Relay to which the session is sent.
    pub(crate) net: Option<Relay>,
    /// Limit on the total size of the session's traces in bytes.
    pub(crate) size_max: Option<u64>,
    /// Set if the traces are written without the page cache.
    pub(crate) is_direct: bool,
    /// Rotation of the trace, if it is divided into chunks.
    pub(crate) rotation: Option<Rotation>,
    pub(crate) channels: Vec<SessionChannel>,
    /// Rules in their order, each for one of the channels.
    pub(crate) rules: Vec<RedactedRule>,
    /// Triggers of a recorder.
    pub(crate) triggers: Vec<TriggerWords>,
}

/// A trigger, as `blkkin trigger add` takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TriggerWords {
    pub(crate) name: String,
    /// Words of the command line after the name.
    pub(crate) words: Vec<String>,
}

/// Relay to which a session is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Relay {
    pub(crate) target: Target,
    /// Set if packets that wait for the relay are dropped at the session's limit, the oldest first,
    /// rather than new events.
    pub(crate) drops_oldest: bool,
}

/// Version of the file's format.
const VERSION: u64 = 1;

//! Rotations that commands have requested, each of which is answered once its chunk is closed.

use crate::session::SessionId;
use crate::source::ConnectionId;
use std::path::PathBuf;
use std::time::Instant;

/// A rotation that a command has requested.
#[derive(Debug)]
pub(crate) struct PendingRotation {
    /// Connection of the command that waits for the chunk.
    pub(crate) command: ConnectionId,
    pub(crate) session: SessionId,
    /// Number and directory of the chunk that is being closed.
    pub(crate) sequence: u64,
    pub(crate) path: PathBuf,
    pub(crate) deadline: Instant,
}

//! Rotations that commands wait for, and chunks of destroyed sessions.

use crate::chunks::SessionChunks;
use crate::output::Output;
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

/// Chunks of a session that is being or was destroyed.
#[derive(Debug)]
pub(crate) struct RetiredChunks {
    pub(crate) session: SessionId,
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) output: Output,
    pub(crate) chunks: SessionChunks,
}

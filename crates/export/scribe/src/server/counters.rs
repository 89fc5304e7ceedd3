//! Counters of a server's connections, frames and refusals.

use std::sync::atomic::AtomicU64;

/// Counters since the start of the server; `connections` and `memory_bytes` are current values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerCounters {
    /// Connections that are currently open.
    pub connections: u64,
    /// Connections accepted, including those closed at once.
    pub accepted: u64,
    /// Connections closed at once, because the maximum number was reached.
    pub closed_too_many: u64,
    /// Connections closed in favour of new connections.
    pub closed_evicted: u64,
    /// Connections closed because they were idle or slow.
    pub closed_slow: u64,
    /// Connections closed because of a malformed or too large request.
    pub closed_bad: u64,
    /// Connections closed because of an I/O error, or for lack of memory or threads.
    pub closed_broken: u64,
    /// Complete frames that were processed, or refused for lack of memory.
    pub frames: u64,
    /// Batches refused for lack of memory.
    pub refused_memory: u64,
    /// Failed `accept` calls, usually for lack of file descriptors. Connections that the peer
    /// aborted before `accept` are not counted.
    pub accept_failures: u64,
    /// Total size of the receive buffers in bytes, not counting the first 64 KiB of each.
    pub memory_bytes: u64,
}

/// Counters that all threads update.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) accepted: AtomicU64,
    pub(super) closed_too_many: AtomicU64,
    pub(super) closed_made_room: AtomicU64,
    pub(super) closed_slow: AtomicU64,
    pub(super) closed_bad: AtomicU64,
    pub(super) closed_broken: AtomicU64,
    pub(super) frames: AtomicU64,
    pub(super) refused_memory: AtomicU64,
    pub(super) accept_failures: AtomicU64,
}

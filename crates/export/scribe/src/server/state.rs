//! State that all threads of a server share.

use super::counters::{Counts, ServerCounters};
use super::options::ServerOptions;
use crate::close_reason::CloseReason;
use crate::service::{Handler, Service};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::HashMap;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

/// Service, options, memory usage and connection table of a server.
pub(super) struct ServerState<H> {
    pub(super) service: Service<H>,
    pub(super) options: ServerOptions,
    pub(super) counts: Counts,
    /// Total size of the receive buffers in bytes, not counting the first 64 KiB of each.
    pub(super) memory_bytes: AtomicUsize,
    pub(super) peers: Mutex<HashMap<u64, Arc<Peer>>>,
    /// Notified when a connection ends.
    pub(super) ended: Condvar,
    pub(super) started: Instant,
    pub(super) is_stopping: AtomicBool,
}

/// State through which other threads can close a connection.
pub(super) struct Peer {
    pub(super) stream: TcpStream,
    pub(super) address: SocketAddr,
    /// Time when the last frame was answered or refused, in milliseconds since the start of the
    /// server; initially the time when the connection was accepted. `u64::MAX` while a frame is
    /// being answered.
    pub(super) quiet_since_ms: AtomicU64,
    pub(super) is_evicted: AtomicBool,
}

impl<H: Handler> ServerState<H> {
    pub(super) fn peers(&self) -> MutexGuard<'_, HashMap<u64, Arc<Peer>>> {
        self.peers.lock()
    }

    pub(super) fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) fn count_closed(&self, peer: Option<SocketAddr>, why: &CloseReason) {
        let counter = match why {
            CloseReason::TooMany => &self.counts.closed_too_many,
            CloseReason::Evicted => &self.counts.closed_made_room,
            CloseReason::Idle | CloseReason::Slow => &self.counts.closed_slow,
            CloseReason::Misfit(_) | CloseReason::Fault(_) => &self.counts.closed_bad,
            CloseReason::NoMemory | CloseReason::Io(_) => &self.counts.closed_broken,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        self.service.handler().closed(peer, why);
    }

    pub(super) fn counters(&self) -> ServerCounters {
        let counts = &self.counts;
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ServerCounters {
            connections: self.peers().len() as u64,
            accepted: of(&counts.accepted),
            closed_too_many: of(&counts.closed_too_many),
            closed_evicted: of(&counts.closed_made_room),
            closed_slow: of(&counts.closed_slow),
            closed_bad: of(&counts.closed_bad),
            closed_broken: of(&counts.closed_broken),
            frames: of(&counts.frames),
            refused_memory: of(&counts.refused_memory),
            accept_failures: of(&counts.accept_failures),
            memory_bytes: self.memory_bytes.load(Ordering::Relaxed) as u64,
        }
    }
}

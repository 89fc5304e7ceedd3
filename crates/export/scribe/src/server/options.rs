//! Limits that a server enforces on its peers.

use crate::request::Limits;
use std::time::Duration;

/// Limits on connections, requests and memory of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Limits on the size of a request.
    pub limits: Limits,
    /// Maximum number of connections that are open at the same time.
    pub connections_max: usize,
    /// Time after which an idle connection is closed.
    pub idle_max: Duration,
    /// Minimum idle time of a connection before it may be closed in favour of a new connection.
    pub idle_evictable: Duration,
    /// Time limit for receiving a frame, and for sending replies.
    pub frame_time_max: Duration,
    /// Maximum memory for incomplete frames in bytes, in addition to 64 KiB for each connection.
    pub memory_bytes_max: usize,
    /// Stack size in bytes of a connection's thread, which also runs the handler.
    pub stack_bytes: usize,
}

impl Default for ServerOptions {
    fn default() -> ServerOptions {
        ServerOptions {
            limits: Limits::default(),
            connections_max: 1000,
            idle_max: Duration::from_secs(3600),
            idle_evictable: Duration::from_secs(10),
            frame_time_max: Duration::from_secs(60),
            memory_bytes_max: 128 << 20,
            stack_bytes: 256 << 10,
        }
    }
}

//! Limits that a server enforces on its peers.

use crate::request::Limits;
use std::time::Duration;

/// Limits on connections, requests and memory of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Limits on the size of a request.
    pub limits: Limits,
    /// Maximum number of open connections, not counting evicted ones that are still closing.
    pub connections_max: usize,
    /// Time after which an idle connection is closed.
    pub idle_max: Duration,
    /// Minimum time since a connection's last answered frame before the connection may be closed in
    /// favour of a new one.
    pub idle_evictable: Duration,
    /// Time limit for receiving a frame, and for sending replies.
    pub frame_time_max: Duration,
    /// Maximum total size of the receive buffers in bytes, not counting the first 64 KiB of each.
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

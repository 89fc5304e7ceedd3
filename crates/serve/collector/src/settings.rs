//! Settings of the collector. Start at [`Settings`].

use blkkin_store::Policy;
use std::time::Duration;

/// Limits for received messages, and the policy for invalid spans.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Maximum size of a message, both as received and decompressed, in bytes.
    pub message_bytes: usize,
    /// Maximum total size of all messages that are in memory at the same time, in bytes.
    pub flight_bytes: usize,
    /// Maximum number of batches over HTTP and gRPC that are decoded concurrently.
    pub workers: usize,
    /// Decision on the valid spans of a Zipkin batch that also has invalid spans. Over Scribe and
    /// for OpenTelemetry, valid spans are always stored.
    pub policy: Policy,
    /// Maximum time until the next part of a body arrives.
    pub part_patience: Duration,
    /// Maximum time until the whole body has arrived.
    pub body_patience: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            message_bytes: 64 << 20,
            flight_bytes: 192 << 20,
            workers: std::thread::available_parallelism().map_or(2, usize::from),
            policy: Policy::Whole,
            part_patience: Duration::from_secs(10),
            body_patience: Duration::from_secs(120),
        }
    }
}

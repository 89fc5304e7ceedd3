//! How much is taken, and for how long somebody is waited for.

use blkkin_store::Policy;
use std::time::Duration;

/// How much is taken, and for how long somebody is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Of one message, as it comes and unpacked.
    pub message_bytes: usize,
    /// Of all messages that are being taken at the same time.
    pub flight_bytes: usize,
    /// Batches that are read at the same time.
    pub workers: usize,
    /// What becomes of the good spans of a batch of Zipkin's that has bad ones. OpenTelemetry's are always taken.
    pub policy: Policy,
    /// For the next part of a body.
    pub part_patience: Duration,
    /// For all of a body.
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

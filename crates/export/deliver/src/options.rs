//! Options of an exporter: destination, queue limits and retries.

use crate::destination::{Destination, Protocol};
use crate::error::Error;
use crate::headers::Headers;
use std::path::PathBuf;
use std::time::Duration;

/// Behaviour of a full queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// Back-pressure: new spans are refused, and the caller may retry later.
    #[default]
    Refuse,
    /// The oldest batches are dropped, and their spans counted.
    DropOldest,
}

/// Destination of an exporter, with the limits of its queue, batches and retries.
#[derive(Clone, Debug)]
pub struct Options {
    /// System to which the spans are sent.
    pub destination: Destination,
    /// User-supplied headers of each HTTP or gRPC request.
    pub headers: Headers,
    /// Set if batches are compressed with gzip.
    pub gzip: bool,
    /// File of trusted certificates (PEM), which replaces the system's certificates.
    pub ca: Option<PathBuf>,
    /// Folder of the queue, created if it does not exist. Without a folder the queue is in memory.
    pub queue: Option<PathBuf>,
    /// Maximum size of the queue in bytes, on disk or in memory.
    pub queue_bytes_max: u64,
    /// Behaviour when the queue has no room for a batch.
    pub when_full: WhenFull,
    /// Size in bytes at which a batch is complete.
    pub batch_bytes: usize,
    /// Age at which an incomplete batch is queued.
    pub batch_age: Duration,
    /// Maximum age of a waiting batch; older batches are dropped. The age is measured by the
    /// queue's clock, which stops while no exporter is open and continues from the time of the last
    /// waiting batch.
    pub age_max: Duration,
    /// Maximum size in bytes of stored refused batches, in the subfolder `refused` of the queue
    /// folder.
    pub refused_bytes_max: u64,
    /// Delay before the first retry after a success; it doubles with each further retry. Each delay
    /// is reduced by a random part of at most a half.
    pub pause_first: Duration,
    /// Maximum delay before a retry, unless the destination requests a delay.
    pub pause_max: Duration,
    /// Maximum delay that a destination can request before a retry.
    pub pause_asked_max: Duration,
    /// Maximum number of attempts for a batch that may itself cause the destination's errors.
    pub attempts_max: u32,
    /// Maximum time to connect to the destination; for Scribe, to each of its addresses.
    pub connect_timeout: Duration,
    /// Maximum time until the destination has answered a request; for Scribe, for sending the
    /// request and again for the answer.
    pub answer_timeout: Duration,
}

/// Maximum size of an encoded batch before compression, in bytes. gRPC receivers accept 4 MiB by
/// default.
pub(crate) const BATCH_BYTES_MAX: usize = 4 << 20;

/// Minimum segment size of a queue on disk, in bytes. The last segment cannot be removed, so a
/// queue needs at least two.
const SEGMENT_BYTES_MIN: u64 = 5 << 20;

impl Options {
    /// Returns the default options for exporting to a destination.
    pub fn new(destination: Destination) -> Options {
        Options {
            destination,
            headers: Headers::default(),
            gzip: false,
            ca: None,
            queue: None,
            queue_bytes_max: 64 << 20,
            when_full: WhenFull::default(),
            batch_bytes: 1 << 20,
            batch_age: Duration::from_secs(1),
            age_max: Duration::from_secs(24 * 60 * 60),
            refused_bytes_max: 64 << 20,
            pause_first: Duration::from_millis(500),
            pause_max: Duration::from_secs(30),
            pause_asked_max: Duration::from_secs(600),
            attempts_max: 5,
            connect_timeout: Duration::from_secs(10),
            answer_timeout: Duration::from_secs(30),
        }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let checks = [
            (
                self.batch_bytes <= BATCH_BYTES_MAX / 2,
                "batches of more than 2 MiB are refused by too many",
            ),
            (
                self.queue_bytes_max >= 2 * self.segment_bytes(),
                "a queue takes at least 10 MiB: batches are written into files of some size",
            ),
            (
                self.destination.protocol != Protocol::Scribe
                    || !self.gzip && self.ca.is_none() && self.headers.iter().next().is_none(),
                "Scribe knows neither compression nor certificates nor headers",
            ),
            (
                self.pause_first <= self.pause_max,
                "the first pause cannot be longer than the longest",
            ),
        ];
        let failed = checks.iter().find(|(holds, _)| !holds);
        failed.map_or(Ok(()), |(_, why)| Err(Error::Options(why)))
    }

    /// Returns the size of the queue's segment files, in bytes.
    pub(crate) fn segment_bytes(&self) -> u64 {
        (self.queue_bytes_max / 8).clamp(SEGMENT_BYTES_MIN, 64 << 20)
    }
}

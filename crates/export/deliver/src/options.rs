//! Where spans go, how much of them may wait, and for how long.

use crate::destination::{Destination, Protocol};
use crate::error::Error;
use crate::headers::Headers;
use std::path::PathBuf;
use std::time::Duration;

/// What to do with spans for which the queue has no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// Take none, so that who has them waits.
    #[default]
    Refuse,
    /// Give up the oldest that wait, and count them.
    DropOldest,
}

/// Where spans go, how much of them may wait, and for how long.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to.
    pub destination: Destination,
    /// Added to each request.
    pub headers: Headers,
    /// Send batches compressed.
    pub gzip: bool,
    /// A file of certificates (PEM) to be trusted instead of those that the system trusts.
    pub ca: Option<PathBuf>,
    /// A folder for what waits; without one it waits in memory. It is made if it is not there.
    pub queue: Option<PathBuf>,
    /// What may wait: on disk, or in memory.
    pub queue_bytes_max: u64,
    /// And when more comes.
    pub when_full: WhenFull,
    /// When a batch is full.
    pub batch_bytes: usize,
    /// When a batch goes that is not.
    pub batch_age: Duration,
    /// What waits for longer is given up. Only time in which an exporter has the queue
    /// open counts; of an earlier one, what passed until the last batch came that still waits.
    pub age_max: Duration,
    /// Refused batches that are kept, in `refused` of the queue's folder.
    pub refused_bytes_max: u64,
    /// The first pause before trying again; the next is twice as long, and so on.
    pub pause_first: Duration,
    /// The longest.
    pub pause_max: Duration,
    /// The longest that a destination may ask for.
    pub pause_asked_max: Duration,
    /// How often a batch is sent to which a destination only says that it has failed itself.
    pub attempts_max: u32,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long an answer may take.
    pub answer_timeout: Duration,
}

/// A batch in the queue. Receivers of gRPC take 4 MiB unless they are told otherwise.
pub(crate) const BATCH_BYTES_MAX: usize = 4 << 20;

/// The least that a queue on disk takes: it is kept in parts, and the last one cannot go.
const SEGMENT_BYTES_MIN: u64 = 5 << 20;

impl Options {
    /// The usual ones.
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

    /// Files that the queue consists of.
    pub(crate) fn segment_bytes(&self) -> u64 {
        (self.queue_bytes_max / 8).clamp(SEGMENT_BYTES_MIN, 64 << 20)
    }
}

//! How large a journal and its parts may become.

use crate::error::{Error, ErrorKind};
use crate::layout::{HEADER_BYTES, PAYLOAD_BYTES_MAX, RECORD_HEADER_BYTES, record_bytes};
use std::sync::Arc;
use std::time::Duration;

/// As many records as there can be in so many bytes can be counted in 32 bits.
const WAITING_BYTES_MAX: usize = 4 << 30;

/// What to do when the journal has all the bytes that it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtLimit {
    /// Refuse what is new, until something is trimmed.
    Refuse,
    /// Remove the oldest segments, and count their records as dropped.
    DropOldest,
}

/// Is called with the sequence number up to which all is durable, whenever that has grown, from the thread that
/// writes. It should not take long.
pub type OnDurable = Arc<dyn Fn(u64) + Send + Sync>;

/// How large a journal and its parts may become.
#[derive(Clone)]
pub struct Options {
    /// A segment. It is reserved whole, so this is the least that a disk must have left.
    pub segment_bytes: u64,
    /// All segments together.
    pub total_bytes_max: u64,
    /// What to do when they would become more.
    pub at_limit: AtLimit,
    /// What is appended and not durable yet, in memory.
    pub waiting_bytes_max: usize,
    /// A payload.
    pub payload_bytes_max: u32,
    /// Copies of what is damaged; beside `total_bytes_max`.
    pub quarantine_bytes_max: u64,
    /// How long to wait before trying again what failed, or what had no room.
    pub retry_after: Duration,
    /// Who wants to know when something has become durable.
    pub on_durable: Option<OnDurable>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            segment_bytes: 64 << 20,
            total_bytes_max: 4 << 30,
            at_limit: AtLimit::Refuse,
            waiting_bytes_max: 16 << 20,
            payload_bytes_max: 4 << 20,
            quarantine_bytes_max: 64 << 20,
            retry_after: Duration::from_secs(1),
            on_durable: None,
        }
    }
}

impl Options {
    pub(crate) fn check(&self) -> Result<(), Error> {
        let record = record_bytes(self.payload_bytes_max as usize);
        // A segment ends with its last record, or with the mark of a journal's end.
        let segment_bytes_min = HEADER_BYTES + (record + RECORD_HEADER_BYTES) as u64;
        let checks = [
            (self.payload_bytes_max <= PAYLOAD_BYTES_MAX, "payloads may not be so large"),
            (self.segment_bytes >= segment_bytes_min, "a payload must fit into a segment"),
            (self.total_bytes_max / 2 >= self.segment_bytes, "two segments must be permitted"),
            (self.waiting_bytes_max >= record, "a payload must be permitted to wait"),
            (self.waiting_bytes_max <= WAITING_BYTES_MAX, "so much may not wait"),
        ];
        let failed = checks.iter().find(|(holds, _)| !holds);
        failed.map_or(Ok(()), |(_, why)| Err(Error::new("", ErrorKind::Options(why))))
    }
}

//! Options of a journal: size limits, behaviour at the limit of the total size, and retry delay.

use crate::error::{Error, ErrorKind};
use crate::layout::{HEADER_BYTES, PAYLOAD_BYTES_MAX, RECORD_HEADER_BYTES, record_bytes};
use std::sync::Arc;
use std::time::Duration;

/// Upper limit of [`Options::waiting_bytes_max`] in bytes. It ensures that the number of pending
/// records fits into 32 bits.
const WAITING_BYTES_MAX: usize = 4 << 30;

/// Behaviour of a journal that has reached its maximum total size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtLimit {
    /// Refusal of new records until old segments are trimmed.
    Refuse,
    /// Removal of the oldest segments. Their records are counted as dropped.
    DropOldest,
}

/// Callback for newly durable records. Its argument is the sequence number after the last durable
/// record. The writing thread calls it after each successful batch, before the appenders receive
/// their outcome, so the callback should return quickly.
pub type OnDurable = Arc<dyn Fn(u64) + Send + Sync>;

/// Options of a journal: sizes and size limits in bytes, retry delay and callback.
#[derive(Clone)]
pub struct Options {
    /// Size of a segment in bytes. A segment is reserved as a whole, so the disk needs at least
    /// this much free space.
    pub segment_bytes: u64,
    /// Maximum total size of all segments in bytes.
    pub total_bytes_max: u64,
    /// Behaviour at `total_bytes_max`.
    pub at_limit: AtLimit,
    /// Maximum size in bytes of the buffer of records that are not durable yet.
    pub waiting_bytes_max: usize,
    /// Maximum size of a payload in bytes.
    pub payload_bytes_max: u32,
    /// Maximum total size in bytes of the copies of damaged bytes. These copies do not count
    /// towards `total_bytes_max`.
    pub quarantine_bytes_max: u64,
    /// Delay after a failed write until the writer checks again whether the disk can be written.
    /// Refused records are not written again.
    pub retry_after: Duration,
    /// Callback for newly durable records; `None` if the caller needs none.
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
        // The last record of a segment may be followed by the journal's end mark.
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

//! Entries of a manifest: [`FileEntry`] describes a file, [`Totals`] the store.

use serde::{Deserialize, Serialize};

/// Maximum value of a counter in a manifest. Increments of such a counter cannot overflow.
pub(crate) const COUNTER_MAX: u64 = 1 << 62;

/// Counts of spans since the store was created, or changes to these counts. The counts of a
/// manifest end at its position in the journal; the counts in memory also include the head, the
/// spans that are in no file yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Totals {
    pub(crate) accepted: u64,
    pub(crate) duplicates: u64,
    pub(crate) expired: u64,
    pub(crate) lost: u64,
}

/// Manifest entry of a span file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FileEntry {
    pub(crate) number: u64,
    /// Number of times that spans of the file were merged; estimated from the number of spans if
    /// the file was adopted.
    pub(crate) tier: u32,
    pub(crate) spans: u64,
    pub(crate) bytes: u64,
    pub(crate) index_bytes: u64,
    /// Earliest start of a request in the file, in nanoseconds since 1970; 0 if no request has a
    /// start.
    pub(crate) min_start_ns: u64,
    pub(crate) max_start_ns: u64,
    /// Time at which the spans of the file were flushed or adopted, in nanoseconds since 1970; of a
    /// merged file, the latest such time.
    pub(crate) received_ns: u64,
}

impl FileEntry {
    pub(crate) fn bytes_on_disk(&self) -> u64 {
        self.bytes + self.index_bytes
    }
}

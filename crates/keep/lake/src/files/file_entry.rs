//! What a manifest says of a file, and sums over all files: [`FileEntry`] and [`Totals`].

use serde::{Deserialize, Serialize};

/// Numbers that are counted up from stay below this.
pub(crate) const GREATEST: u64 = 1 << 62;

/// Spans since the store was made, up to the journal's sequence number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Totals {
    pub(crate) accepted: u64,
    pub(crate) duplicates: u64,
    pub(crate) expired: u64,
    pub(crate) lost: u64,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FileEntry {
    pub(crate) number: u64,
    /// How often its spans were merged with others.
    pub(crate) tier: u32,
    pub(crate) spans: u64,
    pub(crate) bytes: u64,
    pub(crate) index_bytes: u64,
    /// When requests in it began.
    pub(crate) min_start_ns: u64,
    pub(crate) max_start_ns: u64,
    /// When its last span was received.
    pub(crate) received_ns: u64,
}

impl FileEntry {
    pub(crate) fn bytes_on_disk(&self) -> u64 {
        self.bytes + self.index_bytes
    }
}

//! [`Options`] of a store: limits, retention and the clock.

use crate::{Clock, Retention, SystemClock};
use blkkin_wire::Limits;
use std::sync::Arc;
use std::time::Duration;

/// Options of a store.
#[derive(Clone)]
pub struct Options {
    /// Limits of age and size for spans; the oldest files are removed first.
    pub retention: Retention,
    /// Set to store the retention in the manifest, where [`Retention::stored`] finds it.
    pub stores_retention: bool,
    /// Number of spans in memory at which the head is flushed to a file.
    pub file_spans: usize,
    /// Memory of the spans in the head at which it is flushed to a file, in bytes.
    pub file_memory_bytes: usize,
    /// Age of the oldest span in memory at which the head is flushed to a file.
    pub file_after: Duration,
    /// Number of adjacent files of one tier at which they are merged into one file. The tier of a
    /// merged file is one higher than that of its source files.
    pub merge_files: usize,
    /// Maximum number of spans of a merged file.
    pub merged_spans_max: u64,
    /// Maximum total size of damaged files kept for inspection, in bytes; the oldest are removed
    /// first. Damaged files also count for `retention`.
    pub damaged_bytes_max: u64,
    /// Maximum memory of the head, in bytes. Further batches are rejected unless a flush frees
    /// memory soon.
    pub memory_bytes_max: usize,
    /// Maximum memory of the cache of indexes and dictionaries, in bytes.
    pub cache_bytes_max: usize,
    /// Maximum memory of the ledger of calls, in bytes. Calls beyond the limit are read from the
    /// indexes of the span files.
    pub links_bytes_max: usize,
    /// Minimum number of fruitless reads after which a search scans the columns of a file. A
    /// fruitless read is a read of a request that is not a result. Large files allow more fruitless
    /// reads.
    pub fruitless_reads_max: u32,
    /// Approximate sample size, in spans, for the comparison of spans inside and outside a box, a
    /// range of start times and durations. The spans outside are sampled if the files have at least
    /// twice this number of spans.
    pub outside_sample_spans: u64,
    /// Options of the journal, such as the sizes of segments and records.
    pub journal: blkkin_journal::Options,
    /// Limits that the decoder of batches enforces.
    pub limits: Limits,
    /// Clock for retention, the ages of spans and files, retries of unreadable files, and the times
    /// in the counters; tests replace it.
    pub clock: Arc<dyn Clock>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            retention: Retention {
                age: Some(Duration::from_secs(7 * 86400)),
                bytes: Some(50 << 30),
            },
            stores_retention: false,
            file_spans: 512 << 10,
            file_memory_bytes: 80 << 20,
            file_after: Duration::from_secs(300),
            merge_files: 8,
            merged_spans_max: 16 << 20,
            // At least the size of a large file.
            damaged_bytes_max: 1 << 30,
            memory_bytes_max: 176 << 20,
            cache_bytes_max: 64 << 20,
            links_bytes_max: 24 << 20,
            fruitless_reads_max: 64,
            outside_sample_spans: 2 << 20,
            journal: blkkin_journal::Options {
                segment_bytes: 128 << 20,
                total_bytes_max: 8 << 30,
                // Size of the largest batch, with the overhead of its records.
                waiting_bytes_max: 80 << 20,
                payload_bytes_max: 8 << 20,
                ..blkkin_journal::Options::default()
            },
            limits: Limits::default(),
            clock: Arc::new(SystemClock::default()),
        }
    }
}

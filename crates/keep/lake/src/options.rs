//! How large a store and its parts may become. Start at [`Options`].

use crate::{Clock, Retention, SystemClock};
use blkkin_wire::Limits;
use std::sync::Arc;
use std::time::Duration;

/// How large a store and its parts may become.
#[derive(Clone)]
pub struct Options {
    /// How long spans are kept, and how many.
    pub retention: Retention,
    /// Whether the store notes that retention, for [`Retention::noted`].
    pub notes_retention: bool,
    /// So many spans are gathered in memory, and then make a file.
    pub file_spans: usize,
    /// They make a file earlier if they take so much memory.
    pub file_memory_bytes: usize,
    /// Or if the first of them has waited for so long.
    pub file_after: Duration,
    /// So many files of one size are merged to one.
    pub merge_files: usize,
    /// More spans than this are not merged to one file.
    pub merged_spans_max: u64,
    /// Files that were found damaged, and were put aside: the oldest of more go. They also count for `retention`.
    pub aside_bytes_max: u64,
    /// What may be in memory and in no file. More is turned away, if it cannot be written soon.
    pub memory_bytes_max: usize,
    /// What may be in memory of files that are read: what they are found by, and dictionaries.
    pub cache_bytes_max: usize,
    /// What may be in memory of the calls of all files. Of more, files are asked.
    pub links_bytes_max: usize,
    /// So many requests of a file are read in vain, before its columns are read to see which ones are asked for.
    pub in_vain_max: u32,
    /// What so many spans outside of a box say is enough to know what all others say.
    pub others_enough: u64,
    /// The journal.
    pub journal: blkkin_journal::Options,
    /// Of batches.
    pub limits: Limits,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            retention: Retention {
                age: Some(Duration::from_secs(7 * 86400)),
                bytes: Some(50 << 30),
            },
            notes_retention: false,
            file_spans: 512 << 10,
            file_memory_bytes: 80 << 20,
            file_after: Duration::from_secs(300),
            merge_files: 8,
            merged_spans_max: 16 << 20,
            // Not less than a large file.
            aside_bytes_max: 1 << 30,
            memory_bytes_max: 176 << 20,
            cache_bytes_max: 64 << 20,
            links_bytes_max: 24 << 20,
            in_vain_max: 64,
            others_enough: 2 << 20,
            journal: blkkin_journal::Options {
                segment_bytes: 128 << 20,
                total_bytes_max: 8 << 30,
                // The largest batch, with what its records take.
                waiting_bytes_max: 80 << 20,
                payload_bytes_max: 8 << 20,
                ..blkkin_journal::Options::default()
            },
            limits: Limits::default(),
            clock: Arc::new(SystemClock::default()),
        }
    }
}

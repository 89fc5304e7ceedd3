//! Size of a chunk of a session's trace, which the traces in the chunk increase.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Number of a chunk, with the size of the chunk's files in bytes, which its traces increase.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChunkMeter {
    pub(crate) sequence: u64,
    pub(crate) written: Arc<AtomicU64>,
}

impl ChunkMeter {
    pub(crate) fn add(&self, size: u64) {
        self.written.fetch_add(size, Relaxed);
    }

    /// Resets the size, because the chunk's traces are removed.
    pub(crate) fn clear(&self) {
        self.written.store(0, Relaxed);
    }

    pub(crate) fn written(&self) -> u64 {
        self.written.load(Relaxed)
    }
}

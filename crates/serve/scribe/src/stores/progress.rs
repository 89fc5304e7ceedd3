//! Helpers for stores that write each batch to several other stores: progress of the batch, and
//! syncing.

use super::store::{Failure, Store, WriteCounts};
use crate::messages::Batch;

/// Progress of one batch in several stores. A retry skips the stores that have written the batch.
pub(super) struct BatchProgress {
    pub(super) batch: Option<u64>,
    done: Vec<bool>,
    wrote: WriteCounts,
}

impl BatchProgress {
    pub(super) fn new(count: usize) -> BatchProgress {
        BatchProgress { batch: None, done: vec![false; count], wrote: WriteCounts::default() }
    }

    pub(super) fn begin(&mut self, batch: &Batch) {
        if self.batch != Some(batch.id) {
            self.batch = Some(batch.id);
            self.done.fill(false);
            self.wrote = WriteCounts::default();
        }
    }

    /// Calls `write` for the store with this index, unless the store has already written the batch.
    pub(super) fn once(
        &mut self,
        number: usize,
        write: impl FnOnce() -> Result<WriteCounts, Failure>,
    ) -> Result<(), Failure> {
        let Some(done) = self.done.get_mut(number).filter(|done| !**done) else { return Ok(()) };
        self.wrote.add(write()?);
        *done = true;
        Ok(())
    }

    /// Returns the sums of the stores' counts for the batch. Clears the batch's id, because the
    /// same batch may be written again after a failed sync.
    pub(super) fn finish(&mut self) -> WriteCounts {
        self.batch = None;
        self.wrote
    }
}

/// Syncs all stores, also after a failure. Returns the first failure.
pub(super) fn sync_all<'s>(
    stores: impl Iterator<Item = &'s mut Box<dyn Store>>,
) -> Result<(), Failure> {
    let mut result = Ok(());
    for store in stores {
        result = result.and(store.sync());
    }
    result
}

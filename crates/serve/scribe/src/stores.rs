//! Stores to which outlets write messages. Start at [`Store`]; [`build`] creates a store from its
//! plan.

mod bucket;
mod category;
pub(crate) mod file;
mod multi;
mod network;

use crate::messages::Batch;
use crate::plan::Kind;

/// Destination to which an outlet writes batches, such as files or another server.
pub(crate) trait Store: Send {
    /// Writes a batch. After a failure the batch may be partly written. A retry has the same id, so
    /// that the store may skip the messages already written.
    fn write(&mut self, batch: &Batch) -> Result<WriteCounts, Failure>;

    /// Returns the number of messages of the failed batch that are already written; 0 if the store
    /// does not report progress. The outlet resets its retry delay when the number grows.
    fn progress(&self) -> u64 {
        0
    }

    /// Makes all written messages durable. After a failure, the caller writes all messages since
    /// the last successful call again.
    fn sync(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

/// Number of messages of a batch by outcome, and the payload bytes of the lost messages. A multi
/// store returns the sums of its children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriteCounts {
    pub(crate) sent: u64,
    pub(crate) ignored: u64,
    pub(crate) lost: u64,
    pub(crate) bytes_lost: u64,
}

impl WriteCounts {
    pub(crate) fn sent(batch: &Batch) -> WriteCounts {
        WriteCounts { sent: batch.count, ..WriteCounts::default() }
    }

    pub(crate) fn lost(batch: &Batch) -> WriteCounts {
        WriteCounts { lost: batch.count, bytes_lost: batch.payload_bytes, ..WriteCounts::default() }
    }

    fn add(&mut self, other: WriteCounts) {
        self.sent += other.sent;
        self.ignored += other.ignored;
        self.lost += other.lost;
        self.bytes_lost += other.bytes_lost;
    }
}

/// Reason why a store failed, as text for the daemon's status.
#[derive(Clone, Debug)]
pub(crate) struct Failure(pub(crate) String);

/// Properties of a store's category, bucket and journal on which the store depends.
#[derive(Clone, Debug)]
pub(crate) struct StoreContext {
    pub(crate) category: Vec<u8>,
    /// True if the configuration names the category exactly, except inside a category store. If
    /// false, the category's files get their own directory.
    pub(crate) is_exact: bool,
    /// Subdirectory of the bucket, if the store is created from a bucket store's model.
    pub(crate) bucket: Option<String>,
    /// True if the journal was not closed cleanly, such as after a kill or a crash, so that files
    /// may end in a torn message.
    pub(crate) may_be_torn: bool,
}

/// Creates the store that `kind` describes.
pub(crate) fn build(kind: &Kind, context: &StoreContext) -> Box<dyn Store> {
    match kind {
        Kind::File(plan) => Box::new(file::File::new(plan, context)),
        Kind::Network(plan) => Box::new(network::Network::new(plan)),
        Kind::Null => Box::new(Null),
        // The outlet implements the buffer's retries itself.
        Kind::Buffer(plan) => build(&plan.primary, context),
        Kind::Multi { children, is_any } => {
            let children = children.iter().map(|child| build(child, context)).collect();
            Box::new(multi::Multi::new(children, *is_any))
        }
        Kind::Bucket(plan) => Box::new(bucket::Bucket::new(plan, context)),
        Kind::Category(model) => Box::new(category::Category::new(model, context)),
    }
}

/// Returns whether the store or a store inside it writes files, so that each category must be a
/// valid file name.
pub(crate) fn needs_names(kind: &Kind) -> bool {
    match kind {
        Kind::File(_) => true,
        Kind::Network(_) | Kind::Null => false,
        Kind::Buffer(plan) => needs_names(&plan.primary),
        Kind::Multi { children, .. } => children.iter().any(needs_names),
        Kind::Bucket(plan) => plan.model.iter().chain(&plan.each).any(needs_names),
        Kind::Category(model) => needs_names(model),
    }
}

/// Store that discards messages and counts them as ignored.
struct Null;

impl Store for Null {
    fn write(&mut self, batch: &Batch) -> Result<WriteCounts, Failure> {
        Ok(WriteCounts { ignored: batch.count, ..WriteCounts::default() })
    }
}

/// Progress of one batch in several stores. A retry skips the stores that have written the batch.
pub(crate) struct BatchProgress {
    batch: Option<u64>,
    done: Vec<bool>,
    wrote: WriteCounts,
}

impl BatchProgress {
    fn new(count: usize) -> BatchProgress {
        BatchProgress { batch: None, done: vec![false; count], wrote: WriteCounts::default() }
    }

    fn begin(&mut self, batch: &Batch) {
        if self.batch != Some(batch.id) {
            self.batch = Some(batch.id);
            self.done.fill(false);
            self.wrote = WriteCounts::default();
        }
    }

    /// Calls `write` for the store with this index, unless the store has already written the batch.
    fn once(
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
    fn finish(&mut self) -> WriteCounts {
        self.batch = None;
        self.wrote
    }
}

/// Syncs all stores, also after a failure. Returns the first failure.
fn sync_all<'s>(stores: impl Iterator<Item = &'s mut Box<dyn Store>>) -> Result<(), Failure> {
    let mut result = Ok(());
    for store in stores {
        result = result.and(store.sync());
    }
    result
}

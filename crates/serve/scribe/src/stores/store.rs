//! The interface of all stores, and the properties and results that they share.

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

    pub(super) fn add(&mut self, other: WriteCounts) {
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

/// Function that creates a store from its plan. Stores that contain others get it as an argument.
pub(super) type Build = fn(&Kind, &StoreContext) -> Box<dyn Store>;

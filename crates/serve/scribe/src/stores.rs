//! What is done with messages: a store for each type, made of a plan by [`build`].

mod any;
mod bucket;
mod category;
pub(crate) mod file;
mod network;

use crate::messages::Batch;
use crate::plan::Kind;

/// Where messages go.
pub(crate) trait Store: Send {
    /// Writes a batch, all of it or, if that fails, perhaps a part. The same batch comes again then, with the same
    /// number, and what was written of it need not be.
    fn write(&mut self, batch: &Batch) -> Result<Wrote, Failure>;

    /// How many messages of a batch that failed have been written, so that it is seen whether there is some progress.
    fn progress(&self) -> u64 {
        0
    }

    /// Makes durable what was written. If that fails, what was written since the last time comes again.
    fn sync(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wrote {
    pub(crate) sent: u64,
    pub(crate) ignored: u64,
    pub(crate) lost: u64,
    pub(crate) bytes_lost: u64,
}

impl Wrote {
    pub(crate) fn sent(batch: &Batch) -> Wrote {
        Wrote { sent: batch.count, ..Wrote::default() }
    }

    pub(crate) fn lost(batch: &Batch) -> Wrote {
        Wrote { lost: batch.count, bytes_lost: batch.payload_bytes, ..Wrote::default() }
    }

    fn add(&mut self, other: Wrote) {
        self.sent += other.sent;
        self.ignored += other.ignored;
        self.lost += other.lost;
        self.bytes_lost += other.bytes_lost;
    }
}

/// Why a store could not do it, for people.
#[derive(Clone, Debug)]
pub(crate) struct Failure(pub(crate) String);

/// For what a store is made.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) category: Vec<u8>,
    /// Whether the category was meant by its name; else files get a directory of their own.
    pub(crate) is_exact: bool,
    /// The directory of a bucket.
    pub(crate) bucket: Option<String>,
    /// Whether the daemon was killed: then what is at the end of files may be torn.
    pub(crate) may_be_torn: bool,
}

/// Makes a store.
pub(crate) fn build(kind: &Kind, place: &Place) -> Box<dyn Store> {
    match kind {
        Kind::File(plan) => Box::new(file::File::new(plan, place)),
        Kind::Network(plan) => Box::new(network::Network::new(plan)),
        Kind::Null => Box::new(Null),
        // What it is besides is done by whoever writes to it.
        Kind::Buffer(plan) => build(&plan.primary, place),
        Kind::Multi { children, is_any } => {
            let children = children.iter().map(|child| build(child, place)).collect();
            Box::new(any::Multi::new(children, *is_any))
        }
        Kind::Bucket(plan) => Box::new(bucket::Bucket::new(plan, place)),
        Kind::Category(model) => Box::new(category::Category::new(model, place)),
    }
}

/// Whether categories have to be names of files.
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

/// Counts, and does nothing else.
struct Null;

impl Store for Null {
    fn write(&mut self, batch: &Batch) -> Result<Wrote, Failure> {
        Ok(Wrote { ignored: batch.count, ..Wrote::default() })
    }
}

/// Several stores that get parts of one batch, or all the same. Which of them have had it already is known when it comes
/// again.
pub(crate) struct Parts {
    batch: Option<u64>,
    done: Vec<bool>,
    wrote: Wrote,
}

impl Parts {
    fn new(count: usize) -> Parts {
        Parts { batch: None, done: vec![false; count], wrote: Wrote::default() }
    }

    fn begin(&mut self, batch: &Batch) {
        if self.batch != Some(batch.id) {
            self.batch = Some(batch.id);
            self.done.fill(false);
            self.wrote = Wrote::default();
        }
    }

    /// Writes for the store with this number, if it has not been done.
    fn once(
        &mut self,
        number: usize,
        write: impl FnOnce() -> Result<Wrote, Failure>,
    ) -> Result<(), Failure> {
        let Some(done) = self.done.get_mut(number).filter(|done| !**done) else { return Ok(()) };
        self.wrote.add(write()?);
        *done = true;
        Ok(())
    }

    /// What became of the batch, of which all is done; it is forgotten, as it may come again after a failed sync.
    fn finish(&mut self) -> Wrote {
        self.batch = None;
        self.wrote
    }
}

/// Makes all stores durable, and tells the first failure.
fn sync_all<'s>(stores: impl Iterator<Item = &'s mut Box<dyn Store>>) -> Result<(), Failure> {
    let mut result = Ok(());
    for store in stores {
        result = result.and(store.sync());
    }
    result
}

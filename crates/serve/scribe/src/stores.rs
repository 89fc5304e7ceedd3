//! Stores to which outlets write messages. Start at [`Store`]; [`build`] creates a store from its
//! plan.

mod bucket;
mod category;
pub(crate) mod file;
mod multi;
mod network;
mod progress;
mod store;

use crate::messages::Batch;
use crate::plan::Kind;

pub(crate) use store::{Failure, Store, StoreContext, WriteCounts};

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
        Kind::Bucket(plan) => Box::new(bucket::Bucket::new(plan, context, build)),
        Kind::Category(model) => Box::new(category::Category::new(model, context, build)),
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

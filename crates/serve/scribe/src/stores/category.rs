//! Category store: writes the messages of each category to a separate store. A journal belongs to
//! one category, so there is usually only one such store.

use super::progress::{BatchProgress, sync_all};
use super::store::{Build, Failure, Store, StoreContext, WriteCounts};
use crate::messages::Batch;
use crate::plan::Kind;
use std::collections::BTreeMap;

pub(super) struct Category {
    model: Kind,
    context: StoreContext,
    build: Build,
    stores: BTreeMap<Vec<u8>, Box<dyn Store>>,
}

impl Category {
    pub(super) fn new(model: &Kind, context: &StoreContext, build: Build) -> Category {
        let (model, context) = (model.clone(), context.clone());
        Category { model, context, build, stores: BTreeMap::new() }
    }
}

impl Store for Category {
    fn write(&mut self, batch: &Batch) -> Result<WriteCounts, Failure> {
        let mut of_categories: BTreeMap<&[u8], Batch> = BTreeMap::new();
        for entry in batch.iter() {
            let part = of_categories.entry(entry.category).or_default();
            part.id = batch.id;
            part.push(entry);
        }
        let mut parts = BatchProgress::new(of_categories.len());
        parts.begin(batch);
        for (number, (category, part)) in of_categories.into_iter().enumerate() {
            let store = self.stores.entry(category.to_vec()).or_insert_with(|| {
                let category = category.to_vec();
                (self.build)(
                    &self.model,
                    &StoreContext { category, is_exact: false, ..self.context.clone() },
                )
            });
            parts.once(number, || store.write(&part))?;
        }
        Ok(parts.finish())
    }

    fn sync(&mut self) -> Result<(), Failure> {
        sync_all(self.stores.values_mut())
    }
}

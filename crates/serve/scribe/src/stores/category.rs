//! A store for each category. As each category has a journal of its own, and what comes out of one is of one category,
//! there is mostly one.

use super::{Failure, Parts, Place, Store, Wrote, build, sync_all};
use crate::messages::Batch;
use crate::plan::Kind;
use std::collections::BTreeMap;

pub(super) struct Category {
    model: Kind,
    place: Place,
    stores: BTreeMap<Vec<u8>, Box<dyn Store>>,
}

impl Category {
    pub(super) fn new(model: &Kind, place: &Place) -> Category {
        Category { model: model.clone(), place: place.clone(), stores: BTreeMap::new() }
    }
}

impl Store for Category {
    fn write(&mut self, batch: &Batch) -> Result<Wrote, Failure> {
        let mut of_categories: BTreeMap<&[u8], Batch> = BTreeMap::new();
        for entry in batch.iter() {
            let part = of_categories.entry(entry.category).or_default();
            part.id = batch.id;
            part.push(entry);
        }
        let mut parts = Parts::new(of_categories.len());
        parts.begin(batch);
        for (number, (category, part)) in of_categories.into_iter().enumerate() {
            let store = self.stores.entry(category.to_vec()).or_insert_with(|| {
                let category = category.to_vec();
                build(&self.model, &Place { category, is_exact: false, ..self.place.clone() })
            });
            parts.once(number, || store.write(&part))?;
        }
        Ok(parts.finish())
    }

    fn sync(&mut self) -> Result<(), Failure> {
        sync_all(self.stores.values_mut())
    }
}

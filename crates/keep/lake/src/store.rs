//! The store's answers.

use crate::error::Error as LakeError;
use crate::lake::Lake;
use crate::latency::Sum;
use crate::links;
use crate::measure;
use crate::part::{Loaded, Part, ROWS_AT_ONCE};
use crate::search::search;
use crate::snapshot::Snapshot;
use blkkin_columns::{Block, Row};
use blkkin_model::{Span, SpanId, SpanRef, TraceId};
use blkkin_store::{
    Area, Batch, Condition, Counters, Difference, Done, Error, Heat, Latency, Link, Page, Query,
    SpanStore, TagField, Window, text_of,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Values of a tag are looked for in so many files, the newest ones, if they are too many to be known.
const FILES_FOR_VALUES: usize = 2;

impl From<LakeError> for Error {
    fn from(error: LakeError) -> Error {
        Error::Damaged(error.to_string())
    }
}

impl SpanStore for Lake {
    fn accept(&self, batch: Batch<'_>, done: Done) {
        self.shared.accept(&batch, done);
    }

    fn trace(&self, id: TraceId) -> Result<Vec<Span>, Error> {
        Ok(self.shared.snapshot().spans_of(id.low(), |it| it == id)?)
    }

    fn traces_of_low(&self, low: u64) -> Result<Vec<Span>, Error> {
        Ok(self.shared.snapshot().spans_of(low, |_| true)?)
    }

    fn visit(
        &self,
        low: u64,
        id: Option<SpanId>,
        each: &mut dyn FnMut(&SpanRef<'_>),
    ) -> Result<(), Error> {
        Ok(self.shared.snapshot().visit(low, id, each)?)
    }

    fn search(&self, query: &Query) -> Result<Page, Error> {
        let in_vain_max = self.shared.memory.options.in_vain_max;
        Ok(search(&self.shared.snapshot(), query, in_vain_max)?)
    }

    fn services(&self) -> Result<Vec<String>, Error> {
        let snapshot = self.shared.snapshot();
        let mut texts = BTreeSet::new();
        for_each_triple(&snapshot, |[service, _, _]| insert(&mut texts, service));
        Ok(texts.into_iter().collect())
    }

    fn span_names(&self, service: &str) -> Result<Vec<String>, Error> {
        let snapshot = self.shared.snapshot();
        let mut texts = BTreeSet::new();
        for_each_triple(&snapshot, |[of, name, _]| {
            if of.eq_ignore_ascii_case(service) {
                insert(&mut texts, name);
            }
        });
        Ok(texts.into_iter().collect())
    }

    fn remote_services(&self, service: &str) -> Result<Vec<String>, Error> {
        let snapshot = self.shared.snapshot();
        let mut texts = BTreeSet::new();
        for_each_triple(&snapshot, |[of, _, remote]| {
            if of.eq_ignore_ascii_case(service) {
                insert(&mut texts, remote);
            }
        });
        Ok(texts.into_iter().collect())
    }

    fn tag_keys(&self) -> Result<Vec<TagField>, Error> {
        let snapshot = self.shared.snapshot();
        let mut keys: BTreeMap<String, u64> = BTreeMap::new();
        // What cannot be read of files is counted; the others answer.
        for loaded in snapshot.parts.iter().filter_map(|part| part.load().ok()) {
            for tags in &loaded.index.directory.keys {
                *keys.entry(tags.key.clone()).or_default() += tags.spans;
            }
        }
        for batch in &snapshot.batches {
            let mut layouts: HashMap<u32, u64> = HashMap::new();
            for row in 0..batch.len() as Row {
                *layouts.entry(batch.layout_id(row)).or_default() += 1;
            }
            for (layout, spans) in layouts {
                let shapes = batch.layout(layout);
                for alike in shapes.chunk_by(|one, other| one.key == other.key) {
                    *keys.entry(batch.text(alike[0].key).to_owned()).or_default() += spans;
                }
            }
        }
        Ok(keys.into_iter().map(|(key, spans)| TagField { key, spans }).collect())
    }

    fn tag_values(&self, key: &str, limit: usize) -> Result<Vec<String>, Error> {
        let snapshot = self.shared.snapshot();
        let mut values = BTreeSet::new();
        for batch in &snapshot.batches {
            add_values(batch, key, &mut values);
        }
        let mut to_read = FILES_FOR_VALUES;
        for part in snapshot.parts.iter().rev() {
            let Ok(loaded) = part.load() else { continue };
            let keys = &loaded.index.directory.keys;
            let Ok(at) = keys.binary_search_by(|tags| tags.key.as_str().cmp(key)) else { continue };
            if !keys[at].values.is_empty() {
                values.extend(keys[at].values.iter().filter(|value| !value.is_empty()).cloned());
            } else if to_read > 0 {
                to_read -= 1;
                let _ = add_values_of(part, &loaded, key, &mut values);
            }
        }
        Ok(values.into_iter().take(limit).collect())
    }

    fn links(&self, window: Window) -> Result<Vec<Link>, Error> {
        let minutes = links::minutes_of(window);
        let (known, parts, head) = self.shared.known_links(&minutes);
        Ok(links::in_window(known, &parts, &head, &minutes))
    }

    fn latency(&self, window: Window, condition: &Condition) -> Result<Latency, Error> {
        let snapshot = self.shared.snapshot();
        let mut sum = Sum::default();
        sum.add_head(&snapshot, window, condition);
        for part in snapshot.parts.iter() {
            let entry = &part.entry;
            if entry.min_start_ns <= window.end_ns && window.start_ns <= entry.max_start_ns {
                // What cannot be read is counted; the others answer.
                let _ = sum.add_part(part, window, condition);
            }
        }
        Ok(sum.finish(condition))
    }

    fn starts(&self) -> Result<Option<Window>, Error> {
        Ok(measure::starts(&self.shared.snapshot()))
    }

    fn heat(&self, condition: &Condition, cells: &mut Heat) -> Result<(), Error> {
        measure::heat(&self.shared.snapshot(), condition, cells);
        Ok(())
    }

    fn difference(
        &self,
        window: Window,
        condition: &Condition,
        area: &Area,
    ) -> Result<Difference, Error> {
        let enough = self.shared.memory.options.others_enough.max(1);
        Ok(measure::difference(&self.shared.snapshot(), window, condition, area, enough))
    }

    fn counters(&self) -> Counters {
        self.shared.counters()
    }

    fn is_durable(&self) -> bool {
        true
    }
}

fn insert(texts: &mut BTreeSet<String>, text: &str) {
    if !text.is_empty() && !texts.contains(text) {
        texts.insert(text.to_owned());
    }
}

/// Calls `each` with services, names and other ends that spans have in common; with some of them often.
fn for_each_triple(snapshot: &Snapshot, mut each: impl FnMut([&str; 3])) {
    for loaded in snapshot.parts.iter().filter_map(|part| part.load().ok()) {
        let directory = &loaded.index.directory;
        for group in &directory.groups {
            let texts = [group.service, group.name, group.remote];
            each(texts.map(|text| directory.text(text).unwrap_or_default()));
        }
    }
    for batch in &snapshot.batches {
        for (ids, _) in batch.alike().iter() {
            each(ids.map(|id| batch.text(id)));
        }
    }
}

/// Adds the values that spans have of a tag.
fn add_values(block: &Block, key: &str, values: &mut BTreeSet<String>) {
    if block.text_id(key).is_some() {
        (0..block.len() as Row).for_each(|row| add_value(block, row, key, values));
    }
}

/// The same for a file.
fn add_values_of(
    part: &Part,
    loaded: &Loaded,
    key: &str,
    values: &mut BTreeSet<String>,
) -> Result<(), LakeError> {
    let end = loaded.index.directory.rows;
    let mut block = Block::new();
    let mut start = 0;
    while start < end {
        let next = end.min(start.saturating_add(ROWS_AT_ONCE));
        block.clear();
        part.rows_of(loaded, start..next, &mut block)?;
        add_values(&block, key, values);
        start = next;
    }
    Ok(())
}

fn add_value(block: &Block, row: Row, key: &str, values: &mut BTreeSet<String>) {
    let last = block.tags(row).filter(|tag| tag.key == key).last();
    if let Some(text) = last.map(|tag| text_of(tag.value)).filter(|text| !text.is_empty())
        && !values.contains(&*text)
    {
        values.insert(text.into_owned());
    }
}

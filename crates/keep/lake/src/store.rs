//! The store's answers.

use crate::error::Error as LakeError;
use crate::index::{Entry, NO_DURATION};
use crate::lake::{Lake, lock};
use crate::plan::Truth;
use crate::search::{asks_spans, for_each_entry, for_each_match, for_each_row, search};
use crate::snapshot::Snapshot;
use crate::{links, part::Part};
use blkkin_columns::{Block, Row, Scratch};
use blkkin_model::{Span, TraceId};
use blkkin_store::{
    Batch, Condition, Counters, Done, Durations, Error, Example, Latency, Link, Page, Query,
    SpanStore, TagField, Window, text_of,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Examples for each power of two of a duration.
const EXAMPLES_MAX: usize = 2;

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

    fn search(&self, query: &Query) -> Result<Page, Error> {
        Ok(search(&self.shared.snapshot(), query)?)
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
        for part in snapshot.parts.iter() {
            for tags in &part.index.directory.keys {
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
            let keys = &part.index.directory.keys;
            let Ok(at) = keys.binary_search_by(|tags| tags.key.as_str().cmp(key)) else { continue };
            if !keys[at].values.is_empty() {
                values.extend(keys[at].values.iter().filter(|value| !value.is_empty()).cloned());
            } else if to_read > 0 {
                to_read -= 1;
                for_each_row(part, |block, row, _| add_value(block, row, key, &mut values))?;
            }
        }
        Ok(values.into_iter().take(limit).collect())
    }

    fn links(&self, window: Window) -> Result<Vec<Link>, Error> {
        let (parts, head) = {
            let head = lock(&self.shared.head_links);
            (self.shared.snapshot().parts, Arc::clone(&head.links))
        };
        let counts = parts.iter().flat_map(|part| &part.index.directory.links);
        Ok(links::in_window(counts.chain(head.iter()), window))
    }

    fn latency(&self, window: Window, condition: &Condition) -> Result<Latency, Error> {
        let snapshot = self.shared.snapshot();
        let mut sum = Sum::default();
        sum.add_head(&snapshot, window, condition);
        for part in snapshot.parts.iter() {
            let entry = &part.entry;
            if entry.min_start_ns <= window.end_ns && window.start_ns <= entry.max_start_ns {
                sum.add_part(part, window, condition)?;
            }
        }
        Ok(sum.finish()?)
    }

    fn counters(&self) -> Counters {
        self.shared.counters()
    }
}

fn insert(texts: &mut BTreeSet<String>, text: &str) {
    if !text.is_empty() && !texts.contains(text) {
        texts.insert(text.to_owned());
    }
}

/// Calls `each` with services, names and other ends that spans have in common; with some of them often.
fn for_each_triple(snapshot: &Snapshot, mut each: impl FnMut([&str; 3])) {
    for part in snapshot.parts.iter() {
        let directory = &part.index.directory;
        for group in &directory.groups {
            let texts = [group.service, group.name, group.remote];
            each(texts.map(|text| directory.text(text).unwrap_or_default()));
        }
    }
    for batch in &snapshot.batches {
        let mut seen = std::collections::HashSet::new();
        for row in 0..batch.len() as Row {
            let ids = [batch.service_id(row), batch.name_id(row), batch.remote_service_id(row)];
            if seen.insert(ids) {
                each(ids.map(|id| batch.text(id)));
            }
        }
    }
}

/// Adds the values that spans have of a tag.
fn add_values(block: &Block, key: &str, values: &mut BTreeSet<String>) {
    if block.text_id(key).is_some() {
        (0..block.len() as Row).for_each(|row| add_value(block, row, key, values));
    }
}

fn add_value(block: &Block, row: Row, key: &str, values: &mut BTreeSet<String>) {
    let last = block.tags(row).filter(|tag| tag.key == key).last();
    if let Some(text) = last.map(|tag| text_of(tag.value)).filter(|text| !text.is_empty())
        && !values.contains(&*text)
    {
        values.insert(text.into_owned());
    }
}

/// Adds up durations, and remembers where to find examples.
#[derive(Default)]
struct Sum<'p> {
    counts: HashMap<u16, u64>,
    examples: BTreeMap<Option<u32>, Vec<Sample<'p>>>,
}

/// A span, or the request of a file that has one which took about so long.
enum Sample<'p> {
    Span(Example),
    Entry(&'p Part, u32, u16),
}

impl<'p> Sum<'p> {
    fn add_head(&mut self, snapshot: &Snapshot, window: Window, condition: &Condition) {
        // When requests began that have spans there.
        let mut began: HashMap<u64, (bool, u64)> = HashMap::new();
        for batch in &snapshot.batches {
            for row in 0..batch.len() as Row {
                let Some(start) = batch.start_ns(row) else { continue };
                let this = (batch.parent_id(row).is_some(), start);
                let first = began.entry(batch.trace_low(row)).or_insert(this);
                *first = this.min(*first);
            }
        }
        for batch in &snapshot.batches {
            for_each_match(batch, condition, |row| {
                let Some(duration_ns) = batch.duration_ns(row) else { return };
                let began = began.get(&batch.trace_low(row));
                let is_within = began.is_some_and(|&(_, began)| window.holds(began));
                if is_within {
                    let (trace_id, id) = (batch.trace_id(row), batch.id(row));
                    let sample = || Sample::Span(Example { trace_id, id, duration_ns });
                    self.add(Durations::code(duration_ns), sample);
                }
            });
        }
    }

    fn add_part(
        &mut self,
        part: &'p Part,
        window: Window,
        condition: &Condition,
    ) -> Result<(), LakeError> {
        if asks_spans(part, condition) {
            return self.add_rows(part, window, condition);
        }
        let among = part.index.ordinals(window).map_err(LakeError::io("an index"))?;
        let each = |_, entry: Entry, truth| {
            if entry.code != NO_DURATION && truth != Truth::No {
                self.add(entry.code, || Sample::Entry(part, entry.ordinal, entry.code));
            }
        };
        for_each_entry(part, condition, &among, each).map_err(LakeError::io("an index"))
    }

    /// Looks at all spans of a file.
    fn add_rows(
        &mut self,
        part: &'p Part,
        window: Window,
        condition: &Condition,
    ) -> Result<(), LakeError> {
        let mut request = None;
        let mut began = None;
        let mut matches: Vec<Example> = Vec::new();
        for_each_row(part, |block, row, _| {
            let id = Some(block.trace_id(row));
            if request != id {
                self.add_examples(&mut matches, began, window);
                (request, began) = (id, None);
            }
            if let Some(start) = block.start_ns(row) {
                let this = (block.parent_id(row).is_some(), start);
                began = Some(began.map_or(this, |first| this.min(first)));
            }
            if let Some(duration_ns) = block.duration_ns(row)
                && condition.holds(&block.span(row, &mut Scratch::default()))
            {
                let (trace_id, id) = (block.trace_id(row), block.id(row));
                matches.push(Example { trace_id, id, duration_ns });
            }
        })?;
        self.add_examples(&mut matches, began, window);
        Ok(())
    }

    /// Adds spans of one request, if it began in the window.
    fn add_examples(
        &mut self,
        spans: &mut Vec<Example>,
        began: Option<(bool, u64)>,
        window: Window,
    ) {
        let is_within = began.is_some_and(|(_, began)| window.holds(began));
        for span in spans.drain(..).filter(|_| is_within) {
            self.add(Durations::code(span.duration_ns), || Sample::Span(span));
        }
    }

    fn add(&mut self, code: u16, sample: impl FnOnce() -> Sample<'p>) {
        *self.counts.entry(code).or_default() += 1;
        let alike = self.examples.entry(Durations::least(code).checked_ilog2()).or_default();
        if alike.len() < EXAMPLES_MAX {
            alike.push(sample());
        }
    }

    fn finish(self) -> Result<Latency, LakeError> {
        let mut durations = Durations::default();
        for (code, count) in self.counts {
            durations.add(code, count);
        }
        let mut examples = Vec::new();
        for sample in self.examples.into_values().flatten() {
            match sample {
                Sample::Span(example) => examples.push(example),
                Sample::Entry(part, ordinal, code) => {
                    examples.extend(span_of(part, ordinal, code)?);
                }
            }
        }
        examples.sort_by_key(|it| (it.duration_ns, it.trace_id, it.id));
        examples.dedup();
        Ok(Latency { durations, examples })
    }
}

/// A span of a request that took about so long.
fn span_of(part: &Part, ordinal: u32, code: u16) -> Result<Option<Example>, LakeError> {
    let rows = part.index.rows(ordinal).map_err(LakeError::io("an index"))?;
    let mut block = Block::new();
    part.rows(rows, &mut block)?;
    let duration = |row: Row| block.duration_ns(row).filter(|&it| Durations::code(it) == code);
    let found = (0..block.len() as Row).find_map(|row| Some((row, duration(row)?)));
    Ok(found.map(|(row, duration_ns)| Example {
        trace_id: block.trace_id(row),
        id: block.id(row),
        duration_ns,
    }))
}

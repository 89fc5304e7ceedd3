//! The store's answers.

use crate::error::Error as LakeError;
use crate::index::{Entry, NO_DURATION};
use crate::lake::Lake;
use crate::plan::{Common, Residual, Truth};
use crate::search::{asks_spans, for_each_entry, for_each_match, for_each_row, search};
use crate::snapshot::Snapshot;
use crate::{links, part::Part};
use blkkin_columns::{Block, Row, Scratch};
use blkkin_model::{Span, TraceId};
use blkkin_store::{
    Batch, Condition, Counters, Done, Durations, Error, Example, Latency, Link, Page, Query,
    SpanStore, TagField, Window, text_of,
};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Examples for each power of two of a duration.
const EXAMPLES_MAX: usize = 2;

/// So many requests of a file are read to tell on which side of a bound their durations are.
const READ_MAX: usize = 256;

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
        let (parts, head) = self.shared.known_links();
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
        Ok(sum.finish(condition)?)
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
        let mut seen = HashSet::new();
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
        // What was sent twice counts once.
        let sorted = snapshot.sorted();
        let matching: Vec<HashSet<Row>> = snapshot
            .batches
            .iter()
            .map(|batch| {
                let mut rows = HashSet::new();
                for_each_match(batch, condition, |row| {
                    rows.insert(row);
                });
                rows
            })
            .collect();
        let mut request = None;
        let mut began = None;
        let mut matches = Vec::new();
        for index in 0..sorted.len() {
            let (place, row) = sorted.place(index);
            let block = sorted.blocks()[place];
            let id = Some(block.trace_id(row));
            if request != id {
                self.add_examples(&mut matches, began, window);
                (request, began) = (id, None);
            }
            began = earlier(began, block, row);
            if let Some(duration_ns) =
                block.duration_ns(row).filter(|_| matching[place].contains(&row))
            {
                let (trace_id, id) = (block.trace_id(row), block.id(row));
                matches.push(Example { trace_id, id, duration_ns });
            }
        }
        self.add_examples(&mut matches, began, window);
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
        let mut unclear: Vec<Entry> = Vec::new();
        let each = |_, entry: Entry, truth| match truth {
            _ if entry.code == NO_DURATION => {}
            Truth::Yes => self.add_entry(part, entry),
            Truth::Maybe => unclear.push(entry),
            Truth::No => {}
        };
        for_each_entry(part, condition, &among, each).map_err(LakeError::io("an index"))?;
        self.add_unclear(part, condition, &unclear)
    }

    fn add_entry(&mut self, part: &'p Part, entry: Entry) {
        self.add(entry.code, || Sample::Entry(part, entry.ordinal, entry.code));
    }

    /// Adds entries whose durations are as near to a bound that their codes do not tell on which side they are. They
    /// are read, if they are few.
    fn add_unclear(
        &mut self,
        part: &'p Part,
        condition: &Condition,
        entries: &[Entry],
    ) -> Result<(), LakeError> {
        let mut ordinals: Vec<u32> = entries.iter().map(|entry| entry.ordinal).collect();
        ordinals.sort_unstable();
        ordinals.dedup();
        if ordinals.len() > READ_MAX {
            entries.iter().for_each(|&entry| self.add_entry(part, entry));
            return Ok(());
        }
        let codes: BTreeSet<u16> = entries.iter().map(|entry| entry.code).collect();
        let mut block = Block::new();
        for ordinal in ordinals {
            block.clear();
            let rows = part.index.rows(ordinal).map_err(LakeError::io("an index"))?;
            part.rows(rows, &mut block)?;
            for row in 0..block.len() as Row {
                let code = block.duration_ns(row).map(Durations::code);
                let Some(code) = code.filter(|code| codes.contains(code)) else { continue };
                if is_unclear(&block, row, condition)
                    && condition.holds(&block.span(row, &mut Scratch::default()))
                {
                    self.add(code, || Sample::Entry(part, ordinal, code));
                }
            }
        }
        Ok(())
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
            began = earlier(began, block, row);
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

    fn finish(self, condition: &Condition) -> Result<Latency, LakeError> {
        let mut durations = Durations::default();
        for (code, count) in self.counts {
            durations.add(code, count);
        }
        let mut examples = Vec::new();
        for sample in self.examples.into_values().flatten() {
            match sample {
                Sample::Span(example) => examples.push(example),
                Sample::Entry(part, ordinal, code) => {
                    examples.extend(span_of(part, ordinal, code, condition)?);
                }
            }
        }
        examples.sort_by_key(|it| (it.duration_ns, it.trace_id, it.id));
        examples.dedup();
        Ok(Latency { durations, examples })
    }
}

/// Whether the code of a span's duration does not say whether a condition holds.
fn is_unclear(block: &Block, row: Row, condition: &Condition) -> bool {
    let texts = [block.service_id(row), block.name_id(row), block.remote_service_id(row)];
    let [service, name, remote] = texts.map(|text| Some(block.text(text)));
    let code = block.duration_ns(row).map_or(NO_DURATION, Durations::code);
    let residual = Residual::of(condition, Common { service, name, remote });
    residual.truth(code, block.is_error(row)) == Truth::Maybe
}

/// When a request began, by a span more of it: by those without a parent, or else by all.
fn earlier(began: Option<(bool, u64)>, block: &Block, row: Row) -> Option<(bool, u64)> {
    let this = block.start_ns(row).map(|start| (block.parent_id(row).is_some(), start));
    [began, this].into_iter().flatten().min()
}

/// A span of a request that took about so long and is asked for.
fn span_of(
    part: &Part,
    ordinal: u32,
    code: u16,
    condition: &Condition,
) -> Result<Option<Example>, LakeError> {
    let rows = part.index.rows(ordinal).map_err(LakeError::io("an index"))?;
    let mut block = Block::new();
    part.rows(rows, &mut block)?;
    let is_asked_for = |row: Row| {
        let is_alike = block.duration_ns(row).map(Durations::code) == Some(code);
        is_alike && condition.holds(&block.span(row, &mut Scratch::default()))
    };
    let found = (0..block.len() as Row).find(|&row| is_asked_for(row));
    Ok(found.and_then(|row| {
        let duration_ns = block.duration_ns(row)?;
        Some(Example { trace_id: block.trace_id(row), id: block.id(row), duration_ns })
    }))
}

//! The [`SpanStore`] trait, implemented for [`Lake`].

use crate::calls::window::{in_window, minutes_of};
use crate::error::Error as LakeError;
use crate::files::column_file::ROWS_AT_ONCE;
use crate::files::indexed_file::IndexedFile;
use crate::files::loaded_file::LoadedFile;
use crate::lake::Lake;
use crate::query::latency::LatencySum;
use crate::query::measure;
use crate::query::search::search;
use crate::query::snapshot::Snapshot;
use blkkin_columns::{Block, Row, Scratch};
use blkkin_model::{SpanId, SpanRef};
use blkkin_store::{
    AcceptCallback, Area, Batch, Condition, Counters, Difference, Error, Heat, Latency, Link, Page,
    Query, SpanStore, TagField, Window, check, is_cancelled, text_of,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;

/// Maximum number of files that are scanned for the values of a tag key. A scan is needed if a
/// file's index lists the key without values; of these files, the newest are scanned.
const FILES_FOR_VALUES: usize = 2;

impl From<LakeError> for Error {
    fn from(error: LakeError) -> Error {
        Error::Damaged(error.to_string())
    }
}

impl SpanStore for Lake {
    fn accept(&self, batch: Batch<'_>, done: AcceptCallback) {
        self.shared.accept(&batch, done);
    }

    fn each_span(
        &self,
        low: u64,
        each: &mut dyn FnMut(&SpanRef<'_>) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let snapshot = self.shared.snapshot();
        let request = snapshot.request(low)?;
        let sorted = request.sorted();
        let mut scratch = Scratch::default();
        for index in 0..sorted.len() {
            if is_cancelled() || each(&sorted.span(index, &mut scratch)).is_break() {
                break;
            }
        }
        check()
    }

    fn visit(
        &self,
        low: u64,
        id: Option<SpanId>,
        each: &mut dyn FnMut(&SpanRef<'_>),
    ) -> Result<(), Error> {
        self.shared.snapshot().visit(low, id, each)?;
        check()
    }

    fn search(&self, query: &Query) -> Result<Page, Error> {
        let fruitless_reads_max = self.shared.memory.options.fruitless_reads_max;
        let page = search(&self.shared.snapshot(), query, fruitless_reads_max)?;
        check().map(|()| page)
    }

    fn services(&self) -> Result<Vec<String>, Error> {
        let snapshot = self.shared.snapshot();
        let mut texts = SmallestTexts::new(usize::MAX);
        for_each_triple(&snapshot, |[service, _, _]| texts.add(service));
        texts.finish()
    }

    fn span_names(&self, service: &str) -> Result<Vec<String>, Error> {
        let snapshot = self.shared.snapshot();
        let mut texts = SmallestTexts::new(usize::MAX);
        for_each_triple(&snapshot, |[of, name, _]| {
            if of.eq_ignore_ascii_case(service) {
                texts.add(name);
            }
        });
        texts.finish()
    }

    fn remote_services(&self, service: &str) -> Result<Vec<String>, Error> {
        let snapshot = self.shared.snapshot();
        let mut texts = SmallestTexts::new(usize::MAX);
        for_each_triple(&snapshot, |[of, _, remote]| {
            if of.eq_ignore_ascii_case(service) {
                texts.add(remote);
            }
        });
        texts.finish()
    }

    fn tag_keys(&self) -> Result<Vec<TagField>, Error> {
        let snapshot = self.shared.snapshot();
        let mut keys: BTreeMap<String, u64> = BTreeMap::new();
        // An unreadable file is counted as damaged; the result lacks its keys.
        for loaded in snapshot.files.iter().filter_map(|file| file.load().ok()) {
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
        let mut values = SmallestTexts::new(limit);
        for batch in &snapshot.batches {
            add_values(batch, key, &mut values);
        }
        let mut to_read = FILES_FOR_VALUES;
        for file in snapshot.files.iter().rev() {
            let Ok(loaded) = file.load() else { continue };
            let keys = &loaded.index.directory.keys;
            let Ok(at) = keys.binary_search_by(|tags| tags.key.as_str().cmp(key)) else { continue };
            if !keys[at].values.is_empty() {
                keys[at].values.iter().for_each(|value| values.add(value));
            } else if to_read > 0 {
                to_read -= 1;
                let _ = add_values_of(file, &loaded, key, &mut values);
            }
        }
        values.finish()
    }

    fn links(&self, window: Window) -> Result<Vec<Link>, Error> {
        let minutes = minutes_of(window);
        let (known, files, head) = self.shared.known_links(&minutes);
        Ok(in_window(known, &files, &head, &minutes))
    }

    fn latency(&self, window: Window, condition: &Condition) -> Result<Latency, Error> {
        let snapshot = self.shared.snapshot();
        let mut sum = LatencySum::default();
        sum.add_head(&snapshot, window, condition);
        for file in snapshot.files.iter() {
            let entry = &file.entry;
            if is_cancelled() {
                break;
            }
            if entry.min_start_ns <= window.end_ns && window.start_ns <= entry.max_start_ns {
                // An unreadable file is counted as damaged; the result lacks its spans.
                let _ = sum.add_file(file, window, condition);
            }
        }
        let latency = sum.finish(condition);
        check().map(|()| latency)
    }

    fn starts(&self) -> Result<Option<Window>, Error> {
        Ok(measure::starts(&self.shared.snapshot()))
    }

    fn heat(&self, condition: &Condition, cells: &mut Heat) -> Result<(), Error> {
        measure::heat(&self.shared.snapshot(), condition, cells);
        check()
    }

    fn difference(
        &self,
        window: Window,
        condition: &Condition,
        area: &Area,
    ) -> Result<Difference, Error> {
        let enough = self.shared.memory.options.outside_sample_spans.max(1);
        let difference =
            measure::difference(&self.shared.snapshot(), window, condition, area, enough);
        check().map(|()| difference)
    }

    fn counters(&self) -> Counters {
        self.shared.counters()
    }

    fn is_durable(&self) -> bool {
        true
    }
}

/// Maximum total size of the texts that a query returns as a list, in bytes.
const TEXTS_BYTES_MAX: usize = 16 << 20;

/// Set of the first texts in byte order, within limits of number and size.
struct SmallestTexts {
    texts: BTreeSet<String>,
    count_max: usize,
    bytes: usize,
    /// Smallest text that was removed because a limit was exceeded. This text and all greater texts
    /// are left out.
    end: Option<String>,
}

impl SmallestTexts {
    fn new(count_max: usize) -> SmallestTexts {
        SmallestTexts { texts: BTreeSet::new(), count_max, bytes: 0, end: None }
    }

    /// Adds a text unless it is empty or not less than `end`. Then removes the greatest texts until
    /// the set is within its limits.
    fn add(&mut self, text: &str) {
        let is_behind = self.end.as_deref().is_some_and(|end| text >= end);
        if text.is_empty() || is_behind || self.texts.contains(text) {
            return;
        }
        self.texts.insert(text.to_owned());
        self.bytes += text.len();
        while self.texts.len() > self.count_max || self.bytes > TEXTS_BYTES_MAX {
            self.end = self.texts.pop_last();
            self.bytes -= self.end.as_deref().map_or(0, str::len);
        }
    }

    fn finish(self) -> Result<Vec<String>, Error> {
        check()?;
        Ok(self.texts.into_iter().collect())
    }
}

/// Calls `each` with the combinations of service, name and remote service that spans have.
/// Combinations may be repeated. A text is empty if a file's index combines spans with different
/// texts. Unreadable files are left out.
fn for_each_triple(snapshot: &Snapshot, mut each: impl FnMut([&str; 3])) {
    for loaded in snapshot.files.iter().filter_map(|file| file.load().ok()) {
        let directory = &loaded.index.directory;
        for group in &directory.groups {
            let texts = [group.service, group.name, group.remote];
            each(texts.map(|text| directory.text(text).unwrap_or_default()));
        }
    }
    for batch in &snapshot.batches {
        for (ids, _) in batch.grouped_rows().iter() {
            each(ids.map(|id| batch.text(id)));
        }
    }
}

/// Adds the values that a tag key has in a block to `values`.
fn add_values(block: &Block, key: &str, values: &mut SmallestTexts) {
    if block.text_id(key).is_some() {
        let rows = (0..block.len() as Row).take_while(|_| !is_cancelled());
        rows.for_each(|row| add_value(block, row, key, values));
    }
}

/// Adds the values that a tag key has in a file to `values`.
fn add_values_of(
    file: &IndexedFile,
    loaded: &LoadedFile,
    key: &str,
    values: &mut SmallestTexts,
) -> Result<(), LakeError> {
    let end = loaded.index.directory.rows;
    let mut block = Block::new();
    let mut start = 0;
    while start < end && !is_cancelled() {
        let next = end.min(start.saturating_add(ROWS_AT_ONCE));
        block.clear();
        file.append_rows(loaded, start..next, &mut block)?;
        add_values(&block, key, values);
        start = next;
    }
    Ok(())
}

fn add_value(block: &Block, row: Row, key: &str, values: &mut SmallestTexts) {
    if let Some(tag) = block.tags(row).filter(|tag| tag.key == key).last() {
        values.add(&text_of(tag.value));
    }
}

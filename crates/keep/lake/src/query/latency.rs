//! [`LatencySum`]: histogram of the durations of matching spans. If the condition tests only
//! services, names, durations and errors, the counts of a file are read from its index; otherwise
//! they are read from its columns.

use crate::Error;
use crate::files::index::{Entry, Group, NO_DURATION};
use crate::files::indexed_file::IndexedFile;
use crate::files::loaded_file::LoadedFile;
use crate::query::matching::{for_each_match, groups};
use crate::query::projection::{Projection, for_each_matching_row, span_id, trace_id};
use crate::query::residual::{GroupTexts, Residual, Truth};
use crate::query::snapshot::Snapshot;
use crate::write::head::Batch;
use blkkin_columns::{Block, Column, Row, Scratch, Sorted};
use blkkin_model::{SpanId, TraceId};
use blkkin_store::{Condition, Durations, Example, Latency, Window};
use foldhash::fast::RandomState;
use std::collections::{BTreeSet, HashSet};
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of example spans for each power of two of the duration.
const EXAMPLES_MAX: usize = 2;

/// Maximum number of requests of a file that are read to compare exact durations with the
/// condition's bounds.
const READ_MAX: usize = 256;

/// Number of buckets by power of two of the duration, including a bucket for the duration 0.
const POWERS: usize = u64::BITS as usize + 1;

/// Histogram of the durations of matching spans, with example spans.
pub(crate) struct LatencySum<'p> {
    /// Number of spans for each duration code.
    counts: Vec<u64>,
    /// Example spans for each power of two of the duration.
    examples: [Examples<'p>; POWERS],
    /// Scratch table of `add_group`: numbers of entries outside of the window, by duration code and
    /// error flag. All zeros between calls.
    others: Vec<u32>,
}

/// Example spans for one power of two of the duration.
struct Examples<'p> {
    spans: Vec<Example>,
    /// Request with an example span that was not read: its file, its ordinal and the span's
    /// duration code. The request is read only if `spans` stays empty.
    entry: Option<(&'p IndexedFile, u32, u16)>,
}

impl Default for LatencySum<'_> {
    fn default() -> Self {
        LatencySum {
            counts: vec![0; usize::from(NO_DURATION) + 1],
            examples: [const { Examples { spans: Vec::new(), entry: None } }; POWERS],
            others: vec![0; 2 * (usize::from(NO_DURATION) + 1)],
        }
    }
}

impl<'p> LatencySum<'p> {
    pub(crate) fn add_head(&mut self, snapshot: &Snapshot, window: Window, condition: &Condition) {
        let rows_of = |batch: &Arc<Batch>| {
            let mut rows = Vec::new();
            for_each_match(batch, batch.grouped_rows(), condition, |row| rows.push(row));
            rows.sort_unstable();
            rows
        };
        let matching: Vec<Vec<Row>> = snapshot.batches.iter().map(rows_of).collect();
        if snapshot.batches.iter().all(|batch| are_within(batch, window)) {
            // All requests began in the window, so their starts need no check.
            return self.add_rows_of_head(snapshot, &matching);
        }
        let mut lows: HashSet<u64, RandomState> = HashSet::default();
        for (batch, rows) in snapshot.batches.iter().zip(&matching) {
            lows.extend(rows.iter().map(|&row| batch.trace_low(row)));
        }
        // Duplicate spans are removed by the sorting.
        let sorted = snapshot.sorted_of(|low| lows.contains(&low));
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
            began = earlier_start(began, block, row);
            if let Some(duration_ns) =
                block.duration_ns(row).filter(|_| matching[place].binary_search(&row).is_ok())
            {
                let (trace_id, id) = (block.trace_id(row), block.id(row));
                matches.push(Example { trace_id, id, duration_ns });
            }
        }
        self.add_examples(&mut matches, began, window);
    }

    fn add_rows_of_head(&mut self, snapshot: &Snapshot, rows: &[Vec<Row>]) {
        let blocks: Vec<&Block> = snapshot.batches.iter().map(|batch| &***batch).collect();
        let sorted = Sorted::of_rows(&blocks, rows);
        for (block, row) in (0..sorted.len()).map(|index| sorted.row(index)) {
            if let Some(duration_ns) = block.duration_ns(row) {
                let (trace_id, id) = (block.trace_id(row), block.id(row));
                self.add(Example { trace_id, id, duration_ns });
            }
        }
    }

    pub(crate) fn add_file(
        &mut self,
        file: &'p IndexedFile,
        window: Window,
        condition: &Condition,
    ) -> Result<(), Error> {
        let loaded = file.load()?;
        let groups: Vec<_> = groups(&loaded, condition).collect();
        if groups.iter().any(|(_, residual, _)| residual.needs_span()) {
            return self.add_rows(file, &loaded, window, condition);
        }
        let ordinals = loaded.index.ordinals(window).map_err(Error::io("an index"));
        let among = file.record_error(ordinals)?;
        let timed = loaded.index.directory.timed;
        let others = [0..among.start, among.end..timed];
        let few_others = others.iter().map(Range::len).sum::<usize>() < among.len();
        let read = |place: usize, of: &Range<u32>| {
            file.record_error(loaded.index.entries(place, of).map_err(Error::io("an index")))
        };
        let mut unclear: Vec<Entry> = Vec::new();
        for (place, residual, group) in &groups {
            self.add_samples(group, residual, &among);
            let is_counted = few_others && {
                let mut not_asked_for = Vec::new();
                for others in others.iter().filter(|others| !others.is_empty()) {
                    not_asked_for.extend(read(*place, others)?);
                }
                self.add_group(group, residual, &not_asked_for)
            };
            if !is_counted {
                self.add_entries(file, &read(*place, &among)?, residual, &mut unclear);
            }
        }
        self.add_unclear(file, &loaded, condition, &unclear)
    }

    /// Counts all spans of a group by the duration counts in the file's index, minus the entries in
    /// `others`. Returns `false` without counting anything if these counts leave the condition
    /// undecided or an example span would be missing.
    fn add_group(&mut self, group: &Group, residual: &Residual, others: &[Entry]) -> bool {
        let place = |code: u16, is_error: bool| 2 * usize::from(code) + usize::from(is_error);
        for other in others {
            self.others[place(other.code, other.is_error)] += 1;
        }
        let mut failed = group.failed.iter().copied().peekable();
        let mut counts = Vec::with_capacity(group.durations.len());
        let mut is_enough = true;
        for &(code, all) in &group.durations {
            let failed = failed.next_if(|&(of, _)| of == code).map_or(0, |(_, count)| count);
            for (count, is_error) in [(failed, true), (all.saturating_sub(failed), false)] {
                let left_out = self.others.get(place(code, is_error)).copied();
                let count = count.saturating_sub(left_out.unwrap_or_default());
                match residual.truth(code, is_error) {
                    _ if count == 0 => {}
                    Truth::Yes => counts.push((code, count)),
                    Truth::Maybe => is_enough = false,
                    Truth::No => {}
                }
            }
        }
        for other in others {
            self.others[place(other.code, other.is_error)] = 0;
        }
        // Samples may be missing for the remaining entries.
        let lacks_example = |&(code, _): &(u16, u32)| {
            let bucket = &self.examples[power_of(Durations::least(code.min(NO_DURATION)))];
            bucket.spans.is_empty() && bucket.entry.is_none()
        };
        if !is_enough || !others.is_empty() && counts.iter().any(lacks_example) {
            return false;
        }
        for (code, count) in counts {
            self.count(code, count.into());
        }
        true
    }

    fn add_samples(&mut self, group: &Group, residual: &Residual, among: &Range<u32>) {
        for sample in group.samples.iter().filter(|sample| among.contains(&sample.ordinal)) {
            let code = Durations::code(sample.duration_ns);
            let number = u128::from(sample.trace_high) << 64 | u128::from(sample.trace_low);
            let ids = TraceId::from_number(number).zip(SpanId::from_number(sample.id));
            if let (Truth::Yes, Some((trace_id, id))) = (residual.truth(code, sample.is_error), ids)
            {
                self.add_example(Example { trace_id, id, duration_ns: sample.duration_ns });
            }
        }
    }

    fn add_entries(
        &mut self,
        file: &'p IndexedFile,
        entries: &[Entry],
        residual: &Residual,
        unclear: &mut Vec<Entry>,
    ) {
        for &entry in entries.iter().filter(|entry| entry.code != NO_DURATION) {
            match residual.truth(entry.code, entry.is_error) {
                Truth::Yes => self.add_entry(file, entry),
                Truth::Maybe => unclear.push(entry),
                Truth::No => {}
            }
        }
    }

    fn add_entry(&mut self, file: &'p IndexedFile, entry: Entry) {
        self.count(entry.code, 1);
        let bucket = self.bucket(Durations::least(entry.code));
        if bucket.spans.is_empty() && bucket.entry.is_none() {
            bucket.entry = Some((file, entry.ordinal, entry.code));
        }
    }

    /// Counts entries whose duration code does not decide the condition. The spans of up to
    /// [`READ_MAX`] requests are read and compared exactly. With more requests, all entries count.
    fn add_unclear(
        &mut self,
        file: &'p IndexedFile,
        loaded: &LoadedFile,
        condition: &Condition,
        entries: &[Entry],
    ) -> Result<(), Error> {
        let mut ordinals: Vec<u32> = entries.iter().map(|entry| entry.ordinal).collect();
        ordinals.sort_unstable();
        ordinals.dedup();
        if ordinals.len() > READ_MAX {
            entries.iter().for_each(|&entry| self.add_entry(file, entry));
            return Ok(());
        }
        let codes: BTreeSet<u16> = entries.iter().map(|entry| entry.code).collect();
        let mut block = Block::new();
        for ordinal in ordinals {
            block.clear();
            let rows =
                file.record_error(loaded.index.rows(ordinal).map_err(Error::io("an index")))?;
            file.append_rows(loaded, rows, &mut block)?;
            for row in 0..block.len() as Row {
                let Some(duration_ns) = block.duration_ns(row) else { continue };
                if codes.contains(&Durations::code(duration_ns))
                    && is_unclear(&block, row, condition)
                    && condition.holds(&block.span(row, &mut Scratch::default()))
                {
                    let (trace_id, id) = (block.trace_id(row), block.id(row));
                    self.add(Example { trace_id, id, duration_ns });
                }
            }
        }
        Ok(())
    }

    /// Counts the matching spans of the requests that began in the window, by a scan of the
    /// condition's columns and the durations. Ids are read only for pages with matching spans.
    fn add_rows(
        &mut self,
        file: &IndexedFile,
        loaded: &LoadedFile,
        window: Window,
        condition: &Condition,
    ) -> Result<(), Error> {
        const EXAMPLE: [Column; 2] = [Column::TraceId, Column::SpanId];
        let ordinals =
            file.record_error(loaded.index.ordinals(window).map_err(Error::io("an index")))?;
        if ordinals.is_empty() {
            return Ok(());
        }
        let are_all = ordinals.len() == loaded.index.directory.requests as usize;
        let within = if are_all { None } else { Some(rows_of(file, loaded, ordinals)?) };
        let lasting = Condition::All(vec![Condition::Duration(0, u64::MAX), condition.clone()]);
        let projection = Projection::of(&lasting);
        for_each_matching_row(file, loaded, &projection, &EXAMPLE, |page, row| {
            let number = page.first_row() as usize + row;
            let is_within = within.as_ref().is_none_or(|rows| rows.get(number) == Some(&true));
            if let Some(duration_ns) = page.number(Column::Duration, row).filter(|_| is_within) {
                let trace_id = trace_id(page, row)?;
                let id = span_id(page.text(Column::SpanId, row))?;
                self.add(Example { trace_id, id, duration_ns });
            }
            Ok(())
        })
    }

    /// Counts the spans of a request if the request began in the window. Clears `spans`.
    fn add_examples(
        &mut self,
        spans: &mut Vec<Example>,
        began: Option<(bool, u64)>,
        window: Window,
    ) {
        let is_within = began.is_some_and(|(_, began)| window.holds(began));
        spans.drain(..).filter(|_| is_within).for_each(|span| self.add(span));
    }

    fn add(&mut self, span: Example) {
        self.count(Durations::code(span.duration_ns), 1);
        self.add_example(span);
    }

    fn count(&mut self, code: u16, count: u64) {
        let sum = &mut self.counts[usize::from(code.min(NO_DURATION))];
        *sum = sum.saturating_add(count);
    }

    fn add_example(&mut self, span: Example) {
        let bucket = self.bucket(span.duration_ns);
        if bucket.spans.len() < EXAMPLES_MAX && !bucket.spans.contains(&span) {
            bucket.spans.push(span);
        }
    }

    fn bucket(&mut self, duration_ns: u64) -> &mut Examples<'p> {
        &mut self.examples[power_of(duration_ns)]
    }

    pub(crate) fn finish(self, condition: &Condition) -> Latency {
        let mut durations = Durations::default();
        for (&count, code) in self.counts.iter().zip(0..).filter(|(count, _)| **count > 0) {
            durations.add(code, count);
        }
        let mut examples = Vec::new();
        for bucket in self.examples {
            match bucket.entry {
                // A span that cannot be read is left out of the examples.
                Some((file, ordinal, code)) if bucket.spans.is_empty() => {
                    examples.extend(span_of(file, ordinal, code, condition).ok().flatten());
                }
                _ => examples.extend(bucket.spans),
            }
        }
        examples.sort_by_key(|it| (it.duration_ns, it.trace_id, it.id));
        Latency { durations, examples }
    }
}

/// Returns the bucket of a duration: 1 plus the binary logarithm, or 0 for the duration 0.
fn power_of(duration_ns: u64) -> usize {
    duration_ns.checked_ilog2().map_or(0, |power| power as usize + 1)
}

/// Returns a flag for each row of the file: set if the row belongs to a request in a range of
/// ordinals.
fn rows_of(
    file: &IndexedFile,
    loaded: &LoadedFile,
    ordinals: Range<u32>,
) -> Result<Vec<bool>, Error> {
    let requests = loaded.index.requests(ordinals).map_err(Error::io("an index"));
    let mut rows = vec![false; loaded.index.directory.rows as usize];
    for (_, of_request) in file.record_error(requests)?.iter() {
        rows[of_request.start as usize..of_request.end as usize].fill(true);
    }
    Ok(rows)
}

/// Returns whether a span's duration code leaves the condition undecided.
fn is_unclear(block: &Block, row: Row, condition: &Condition) -> bool {
    let texts = [block.service_id(row), block.name_id(row), block.remote_service_id(row)];
    let [service, name, remote] = texts.map(|text| Some(block.text(text)));
    let code = block.duration_ns(row).map_or(NO_DURATION, Durations::code);
    let residual = Residual::of(condition, GroupTexts { service, name, remote });
    residual.truth(code, block.is_error(row)) == Truth::Maybe
}

/// Returns whether every span of a batch has a start within the window.
fn are_within(batch: &Batch, window: Window) -> bool {
    let holds = |(first, last)| window.holds(first) && window.holds(last);
    batch.all_started && batch.starts_ns.is_some_and(holds)
}

/// Returns the start of a request after taking one more span into account. Spans without a parent
/// take precedence; among equals the earliest start counts. The flag is set if the span has a
/// parent.
fn earlier_start(began: Option<(bool, u64)>, block: &Block, row: Row) -> Option<(bool, u64)> {
    let this = block.start_ns(row).map(|start| (block.parent_id(row).is_some(), start));
    [began, this].into_iter().flatten().min()
}

/// Finds a span of a request that has the given duration code and meets the condition.
fn span_of(
    file: &IndexedFile,
    ordinal: u32,
    code: u16,
    condition: &Condition,
) -> Result<Option<Example>, Error> {
    let loaded = file.load()?;
    let rows = file.record_error(loaded.index.rows(ordinal).map_err(Error::io("an index")))?;
    let mut block = Block::new();
    file.append_rows(&loaded, rows, &mut block)?;
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

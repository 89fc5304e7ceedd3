//! [`Head`]: the spans in memory that are in no file yet, in the order of the journal.

use crate::Options;
use crate::files::bloom;
use blkkin_columns::{Block, Row};
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// Minimum number of spans of a batch that is kept by itself. Smaller batches are combined.
const BATCH_SPANS_MIN: usize = 1024;

/// Number of spans at which a combined batch is full: no more spans are appended to it.
const COMBINED_SPANS_MAX: usize = 8 * BATCH_SPANS_MIN;

/// Immutable block of spans, with a Bloom filter of their trace ids.
pub(crate) struct Batch {
    block: Block,
    bloom: Vec<u8>,
    /// Earliest and latest start of the spans in nanoseconds since 1970; `None` if no span has a
    /// start. `all_started` is set if every span has a start.
    pub(crate) starts_ns: Option<(u64, u64)>,
    pub(crate) all_started: bool,
    /// Rows grouped by service, name and remote service; computed on first use.
    grouped: OnceLock<GroupedRows>,
}

/// Rows of a block, grouped by service, name and remote service.
#[derive(Default)]
pub(crate) struct GroupedRows {
    /// Text ids of each group's service, name and remote service, with the end of the group's rows
    /// in `rows`.
    groups: Vec<([u32; 3], usize)>,
    rows: Vec<Row>,
}

impl GroupedRows {
    pub(crate) fn of(block: &Block) -> GroupedRows {
        let mut numbers: HashMap<[u32; 3], u32, RandomState> = HashMap::default();
        let mut groups: Vec<([u32; 3], usize)> = Vec::new();
        let group_of = |row: Row| {
            let texts = [block.service_id(row), block.name_id(row), block.remote_service_id(row)];
            let number = *numbers.entry(texts).or_insert_with(|| {
                groups.push((texts, 0));
                groups.len() as u32 - 1
            });
            groups[number as usize].1 += 1;
            number
        };
        let of_rows: Vec<u32> = (0..block.len() as Row).map(group_of).collect();
        let mut next = Vec::with_capacity(groups.len());
        let mut end = 0;
        for (_, count) in &mut groups {
            next.push(end);
            end += *count;
            *count = end;
        }
        let mut rows = vec![0; of_rows.len()];
        for (group, row) in of_rows.into_iter().zip(0..) {
            let at = &mut next[group as usize];
            rows[*at] = row;
            *at += 1;
        }
        GroupedRows { groups, rows }
    }

    /// Iterates over the groups. Each item has the text ids of service, name and remote service,
    /// and the rows of the group, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = ([u32; 3], &[Row])> {
        let mut start = 0;
        self.groups.iter().map(move |&(texts, end)| {
            let rows = &self.rows[start..end];
            start = end;
            (texts, rows)
        })
    }
}

impl Batch {
    pub(crate) fn of(block: Block) -> Batch {
        let mut lows = block.trace_lows().to_vec();
        // In most batches the spans of a request are adjacent, so that `dedup` removes most
        // repetitions.
        lows.dedup();
        let starts = (0..block.len() as Row).filter_map(|row| block.start_ns(row));
        let (mut starts_ns, mut started) = (None, 0);
        for start in starts {
            let (first, last) = starts_ns.unwrap_or((start, start));
            starts_ns = Some((start.min(first), start.max(last)));
            started += 1;
        }
        let all_started = started == block.len();
        Batch { bloom: bloom::make(&lows), block, starts_ns, all_started, grouped: OnceLock::new() }
    }

    /// Returns whether the batch may contain a request whose trace id has the lower half `low`,
    /// according to the Bloom filter.
    pub(crate) fn may_hold(&self, low: u64) -> bool {
        bloom::may_hold(&self.bloom, low)
    }

    /// Exact test: returns whether the batch contains a request whose trace id has the lower half
    /// `low`. A query tests many batches, so the false positives of their Bloom filters would add
    /// up.
    pub(crate) fn holds(&self, low: u64) -> bool {
        self.may_hold(low) && self.trace_lows().contains(&low)
    }

    pub(crate) fn grouped_rows(&self) -> &GroupedRows {
        self.grouped.get_or_init(|| GroupedRows::of(&self.block))
    }

    pub(crate) fn into_block(self) -> Block {
        self.block
    }
}

impl Deref for Batch {
    type Target = Block;

    fn deref(&self) -> &Block {
        &self.block
    }
}

/// Spans that are in no file yet, as a list of batches.
#[derive(Default)]
pub(crate) struct Head {
    /// All batches of the head, oldest first. The first `writing` batches are selected for a flush.
    batches: Vec<Arc<Batch>>,
    /// Journal sequence number for each batch: all earlier records are in this batch, in earlier
    /// batches or in files. `None` if the batch ends within a batch of the journal.
    ends: Vec<Option<u64>>,
    /// Number of batches that are being flushed, or whose flush has failed.
    writing: usize,
    /// Block that combines the latest small batches.
    combined: Option<Block>,
    combined_end: Option<u64>,
    /// Journal sequence number before which all records are in the head or in files.
    pub(crate) sequence: u64,
    /// Number of spans that are not being flushed.
    spans: usize,
    bytes: usize,
    writing_bytes: usize,
    /// Generation counter, incremented by each push of spans.
    pub(crate) added: u64,
    /// Generation counter, incremented by each flush.
    pub(crate) written: u64,
}

impl Head {
    /// Creates an empty head. All journal records before `sequence` are in files.
    pub(crate) fn new(sequence: u64) -> Head {
        Head { sequence, ..Head::default() }
    }

    /// Records that all journal records before `sequence` were pushed.
    pub(crate) fn advance(&mut self, sequence: u64) {
        self.sequence = self.sequence.max(sequence);
        if self.combined.is_some() {
            self.combined_end = Some(self.sequence);
        } else if let Some(end) = self.ends.last_mut() {
            *end = Some(self.sequence);
        }
    }

    /// Appends the spans of a block. A small block is combined with other small blocks.
    pub(crate) fn push(&mut self, block: Block) {
        self.spans += block.len();
        if block.is_empty() {
            return;
        }
        self.added += 1;
        if block.len() >= BATCH_SPANS_MIN {
            self.seal();
            self.push_batch(block, None);
            return;
        }
        self.reopen();
        let combined = self.combined.get_or_insert_with(Block::new);
        self.combined_end = None;
        match combined.append(&block) {
            Ok(()) if combined.len() < COMBINED_SPANS_MAX => {}
            Ok(()) => self.seal(),
            Err(_) => {
                self.seal();
                self.push_batch(block, None);
            }
        }
    }

    /// Reopens the last batch for appending if it is small, is not being flushed, and no snapshot
    /// refers to it. Does nothing if the combined block exists.
    fn reopen(&mut self) {
        let is_small = |batch: &Arc<Batch>| batch.len() < BATCH_SPANS_MIN;
        if self.combined.is_some() || self.batches.len() == self.writing {
            return;
        }
        let Some(last) = self.batches.pop_if(|last| is_small(last)) else { return };
        match Arc::try_unwrap(last) {
            Ok(batch) => {
                self.bytes -= batch.memory_bytes();
                self.combined = Some(batch.into_block());
                self.combined_end = self.ends.pop().flatten();
            }
            Err(last) => self.batches.push(last),
        }
    }

    fn push_batch(&mut self, block: Block, end: Option<u64>) {
        let batch = Batch::of(block);
        self.bytes += batch.memory_bytes();
        self.batches.push(Arc::new(batch));
        self.ends.push(end);
    }

    /// Turns the combined block into an immutable batch.
    fn seal(&mut self) {
        if let Some(block) = self.combined.take() {
            let end = self.combined_end.take();
            self.push_batch(block, end);
        }
    }

    /// Returns all batches for a query. A batch does not change while the query refers to it.
    pub(crate) fn snapshot(&mut self) -> Vec<Arc<Batch>> {
        self.seal();
        self.batches.clone()
    }

    /// Returns the number of spans that are not being flushed.
    pub(crate) fn spans(&self) -> usize {
        self.spans
    }

    /// Returns the memory of the spans that are not being flushed, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.combined.as_ref().map_or(0, Block::memory_bytes)
    }

    /// Returns whether the spans that are not being flushed are enough for a file.
    pub(crate) fn is_full(&self, options: &Options) -> bool {
        self.spans() >= options.file_spans || self.bytes() >= options.file_memory_bytes
    }

    /// Returns the memory of all spans in bytes, including spans that are being flushed.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes() + self.writing_bytes
    }

    /// Returns whether batches are being flushed, or their flush has failed.
    pub(crate) fn has_unfinished_flush(&self) -> bool {
        self.writing > 0
    }

    /// Selects the oldest batches for a flush: enough spans for a file, up to the end of a journal
    /// batch. If there are too few spans, all batches are selected. Returns the batches, and the
    /// journal sequence number up to which they contain the journal. After a failed flush, at least
    /// the same batches are selected again.
    pub(crate) fn start_writing(&mut self, options: &Options) -> (Vec<Arc<Batch>>, u64) {
        self.seal();
        let (mut spans, mut bytes) = (0, 0);
        let mut sequence = self.sequence;
        let mut count = self.batches.len();
        for (at, (batch, end)) in self.batches.iter().zip(&self.ends).enumerate() {
            spans += batch.len();
            bytes += batch.memory_bytes();
            let is_enough = spans >= options.file_spans || bytes >= options.file_memory_bytes;
            if let Some(end) = end.filter(|_| is_enough && at >= self.writing) {
                (count, sequence) = (at + 1, end);
                break;
            }
        }
        let left = &self.batches[count..];
        self.writing = count;
        self.writing_bytes = bytes;
        self.bytes = left.iter().map(|batch| batch.memory_bytes()).sum();
        self.spans = left.iter().map(|batch| batch.len()).sum();
        (self.batches[..count].to_vec(), sequence)
    }

    /// Removes the flushed batches from the head and returns them.
    pub(crate) fn finish_writing(&mut self) -> Vec<Arc<Batch>> {
        self.writing_bytes = 0;
        self.written += 1;
        let written = ..std::mem::take(&mut self.writing);
        self.ends.drain(written);
        self.batches.drain(written).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::GroupedRows;
    use blkkin_columns::{Block, Row};
    use blkkin_model::{EndpointRef, SpanId, SpanRef, TraceId};

    #[test]
    fn rows_are_grouped_by_texts() {
        let mut block = Block::new();
        for number in 1..=40u64 {
            let trace_id = TraceId::from_number(number.into()).expect("not 0");
            let id = SpanId::from_number(number).expect("not 0");
            let service = ["disk", "nbd", ""][number as usize * 7 % 3];
            let local = EndpointRef { service, ..EndpointRef::NONE };
            let name = if number % 5 == 0 { "read" } else { "write" };
            let span = SpanRef { name, local, ..SpanRef::new(trace_id, id) };
            block.push(&span).expect("there is room");
        }
        let grouped = GroupedRows::of(&block);
        let mut seen = Vec::new();
        for (texts, rows) in grouped.iter() {
            assert!(!rows.is_empty() && rows.is_sorted());
            for &row in rows {
                let of_row =
                    [block.service_id(row), block.name_id(row), block.remote_service_id(row)];
                assert_eq!(of_row, texts);
            }
            seen.extend_from_slice(rows);
        }
        assert_eq!(grouped.iter().count(), 6);
        seen.sort_unstable();
        assert_eq!(seen, (0..40).collect::<Vec<Row>>());
        assert_eq!(GroupedRows::of(&Block::new()).iter().count(), 0);
    }
}

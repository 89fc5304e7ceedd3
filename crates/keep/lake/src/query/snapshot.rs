//! [`Snapshot`]: a consistent view of a store for one query.

use crate::Error;
use crate::calls::link_table::EarlierSpans;
use crate::files::indexed_file::IndexedFile;
use crate::write::head::Batch;
use blkkin_columns::{Block, Scratch, Sorted};
use blkkin_model::{SpanId, SpanRef, SpanSink};
use blkkin_store::is_cancelled;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Consistent view of a store at one moment: the batches in memory, and the files.
pub(crate) struct Snapshot {
    pub(crate) batches: Vec<Arc<Batch>>,
    /// Spans from files that belong to requests in memory, as of the last refresh.
    pub(crate) earlier: Arc<EarlierSpans>,
    pub(crate) files: Arc<Vec<Arc<IndexedFile>>>,
}

impl Snapshot {
    /// Returns the blocks in memory, followed by the block with spans of the same requests from
    /// files.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = &Block> {
        let batches = self.batches.iter().map(|batch| &***batch);
        batches.chain([self.earlier.spans()])
    }

    /// Returns the spans in memory, sorted.
    pub(crate) fn sorted(&self) -> Sorted<'_> {
        let blocks: Vec<&Block> = self.batches.iter().map(|batch| &***batch).collect();
        Sorted::of(&blocks)
    }

    /// Returns the spans in memory for which `holds` accepts the lower half of the trace id,
    /// sorted.
    pub(crate) fn sorted_of(&self, holds: impl Fn(u64) -> bool) -> Sorted<'_> {
        let blocks: Vec<&Block> = self.batches.iter().map(|batch| &***batch).collect();
        Sorted::of_requests(&blocks, holds)
    }

    /// Reads all spans whose trace ids have the lower half `low`. Unreadable files are left out; a
    /// read error is returned only if no span is found. The spans stay in columns, where a value
    /// that many spans share is stored once.
    pub(crate) fn request(&self, low: u64) -> Result<Request<'_>, Error> {
        let batches = self.batches.iter().filter(|batch| batch.may_hold(low));
        let in_memory: Vec<&Block> = batches.map(|batch| &***batch).collect();
        let mut read = Vec::new();
        let mut unread = None;
        for file in self.files.iter().filter(|file| file.may_hold(low)) {
            if is_cancelled() {
                break;
            }
            let mut block = Block::new();
            match file.send(low..=low, &mut BlockSink(&mut block)) {
                Ok(is_whole) if is_whole || is_cancelled() => read.push(block),
                Ok(_) => unread = Some(file.error("more than a block takes")),
                Err(error) => unread = Some(error),
            }
        }
        let request = Request { low, in_memory, read };
        // A partial request is better than none. The unreadable file is counted as damaged.
        match unread {
            Some(error) if request.sorted().is_empty() => Err(error),
            _ => Ok(request),
        }
    }

    /// Calls `each` with the spans whose trace ids have the lower half `low`. If `id` is given,
    /// spans with other span ids are skipped. Duplicates are not removed. A read error is returned
    /// only if no span is found.
    pub(crate) fn visit(
        &self,
        low: u64,
        id: Option<SpanId>,
        each: &mut dyn FnMut(&SpanRef<'_>),
    ) -> Result<(), Error> {
        let mut count = 0u64;
        let mut each = |span: &SpanRef<'_>| {
            count += 1;
            if !is_cancelled() {
                each(span);
            }
        };
        for batch in self.batches.iter().filter(|batch| batch.may_hold(low)) {
            let mut scratch = Scratch::default();
            let rows =
                (0..).zip(batch.trace_lows()).filter(|(_, it)| **it == low && !is_cancelled());
            for (row, _) in rows.filter(|(row, _)| id.is_none_or(|id| batch.id(*row) == id)) {
                each(&batch.span(row, &mut scratch));
            }
        }
        let mut unread = None;
        for file in self.files.iter().filter(|file| !is_cancelled() && file.may_hold(low)) {
            unread = file.visit(low, id, &mut each).err().or(unread);
        }
        // A partial request is better than none. The unreadable file is counted as damaged.
        match unread {
            Some(error) if count == 0 => Err(error),
            _ => Ok(()),
        }
    }
}

/// Sink that appends spans to a block until the block refuses a span or the query is cancelled.
struct BlockSink<'b>(&'b mut Block);

impl SpanSink for BlockSink<'_> {
    fn span(&mut self, span: &SpanRef<'_>) -> ControlFlow<()> {
        if is_cancelled() { ControlFlow::Break(()) } else { self.0.span(span) }
    }
}

/// Spans of all requests whose trace ids share a lower half.
pub(crate) struct Request<'s> {
    low: u64,
    in_memory: Vec<&'s Block>,
    read: Vec<Block>,
}

impl Request<'_> {
    /// Returns the distinct spans in order of trace id, start and span id.
    pub(crate) fn sorted(&self) -> Sorted<'_> {
        let blocks: Vec<&Block> = self.in_memory.iter().copied().chain(&self.read).collect();
        Sorted::of_requests(&blocks, |low| low == self.low)
    }
}

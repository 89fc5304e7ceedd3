//! All that is there at a moment, and the requests in it. Start at [`Snapshot`].

use crate::Error;
use crate::calls::link_table::EarlierSpans;
use crate::files::indexed_file::IndexedFile;
use crate::write::head::Batch;
use blkkin_columns::{Block, Scratch, Sorted};
use blkkin_model::{SpanId, SpanRef, SpanSink};
use blkkin_store::is_cancelled;
use std::ops::ControlFlow;
use std::sync::Arc;

/// All that is there at a moment. It stays, whatever comes and goes.
pub(crate) struct Snapshot {
    pub(crate) batches: Vec<Arc<Batch>>,
    /// What files have of requests in memory, as it was found last.
    pub(crate) earlier: Arc<EarlierSpans>,
    pub(crate) files: Arc<Vec<Arc<IndexedFile>>>,
}

impl Snapshot {
    /// Spans of requests in memory: those that are there, and then those that files have of them.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = &Block> {
        let batches = self.batches.iter().map(|batch| &***batch);
        batches.chain([self.earlier.spans()])
    }

    /// What is in no file, in order.
    pub(crate) fn sorted(&self) -> Sorted<'_> {
        let blocks: Vec<&Block> = self.batches.iter().map(|batch| &***batch).collect();
        Sorted::of(&blocks)
    }

    /// The same of requests for the lower half of whose id it holds.
    pub(crate) fn sorted_of(&self, holds: impl Fn(u64) -> bool) -> Sorted<'_> {
        let blocks: Vec<&Block> = self.batches.iter().map(|batch| &***batch).collect();
        Sorted::of_some(&blocks, holds)
    }

    /// Spans of all requests whose trace ids have this lower half. They stay in columns, so that a
    /// shared value is held once.
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
        // What is left of a request is better than nothing, and the file is counted.
        match unread {
            Some(error) if request.sorted().is_empty() => Err(error),
            _ => Ok(request),
        }
    }

    /// Hands over the spans of all requests whose ids have this lower half, or those that have an id too. What was sent
    /// twice may come twice.
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
        // What is left of a request is better than nothing, and the file is counted.
        match unread {
            Some(error) if count == 0 => Err(error),
            _ => Ok(()),
        }
    }
}

/// Takes spans into a block, as long as the question is not cancelled.
struct BlockSink<'b>(&'b mut Block);

impl SpanSink for BlockSink<'_> {
    fn span(&mut self, span: &SpanRef<'_>) -> ControlFlow<()> {
        if is_cancelled() { ControlFlow::Break(()) } else { self.0.span(span) }
    }
}

/// Spans of all requests whose trace ids have the same lower half.
pub(crate) struct Request<'s> {
    low: u64,
    in_memory: Vec<&'s Block>,
    read: Vec<Block>,
}

impl Request<'_> {
    /// Their spans, each once, in order of id and start.
    pub(crate) fn sorted(&self) -> Sorted<'_> {
        let blocks: Vec<&Block> = self.in_memory.iter().copied().chain(&self.read).collect();
        Sorted::of_some(&blocks, |low| low == self.low)
    }
}

//! All that is there at a moment, and the requests in it. Start at [`Snapshot`].

use crate::Error;
use crate::head::Batch;
use crate::links::Earlier;
use crate::part::Part;
use blkkin_columns::{Block, Scratch, Sorted};
use blkkin_model::{Span, SpanId, SpanRef, TraceId};
use std::sync::Arc;

/// All that is there at a moment. It stays, whatever comes and goes.
pub(crate) struct Snapshot {
    pub(crate) batches: Vec<Arc<Batch>>,
    /// What files have of requests in memory, as it was found last.
    pub(crate) earlier: Arc<Earlier>,
    pub(crate) parts: Arc<Vec<Arc<Part>>>,
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

    /// The spans of all requests whose ids have this lower half, each once, in order of the upper half and of start.
    pub(crate) fn spans_of(
        &self,
        low: u64,
        is_wanted: impl Fn(TraceId) -> bool,
    ) -> Result<Vec<Span>, Error> {
        let mut found = Vec::new();
        for batch in self.batches.iter().filter(|batch| batch.may_hold(low)) {
            take(batch, low, &is_wanted, &mut found);
        }
        let mut block = Block::new();
        let mut unread = None;
        for part in self.parts.iter().filter(|part| part.may_hold(low)) {
            block.clear();
            match part.between(low..=low, &mut block) {
                Ok(()) => take(&block, low, &is_wanted, &mut found),
                Err(error) => unread = Some(error),
            }
        }
        // What is left of a request is better than nothing, and the file is counted.
        match unread {
            Some(error) if found.is_empty() => Err(error),
            _ => Ok(in_order(found)),
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
            each(span);
        };
        for batch in self.batches.iter().filter(|batch| batch.may_hold(low)) {
            let mut scratch = Scratch::default();
            let rows = (0..).zip(batch.trace_lows()).filter(|(_, it)| **it == low);
            for (row, _) in rows.filter(|(row, _)| id.is_none_or(|id| batch.id(*row) == id)) {
                each(&batch.span(row, &mut scratch));
            }
        }
        let mut unread = None;
        for part in self.parts.iter().filter(|part| part.may_hold(low)) {
            unread = part.visit(low, id, &mut each).err().or(unread);
        }
        // What is left of a request is better than nothing, and the file is counted.
        match unread {
            Some(error) if count == 0 => Err(error),
            _ => Ok(()),
        }
    }
}

/// In order of id, and of what they say of their start, each once.
fn in_order(mut spans: Vec<Span>) -> Vec<Span> {
    let compare = |one: &Span, other: &Span| {
        let ids = one.trace_id.cmp(&other.trace_id);
        ids.then_with(|| blkkin_store::compare(&one.hold().as_ref(), &other.hold().as_ref()))
    };
    spans.sort_by(compare);
    spans.dedup_by(|one, other| compare(one, other).is_eq());
    spans
}

fn take(block: &Block, low: u64, is_wanted: impl Fn(TraceId) -> bool, found: &mut Vec<Span>) {
    let mut scratch = Scratch::default();
    for (row, _) in block.trace_lows().iter().enumerate().filter(|(_, it)| **it == low) {
        let row = row as u32;
        if is_wanted(block.trace_id(row)) {
            found.push(block.span(row, &mut scratch).to_owned());
        }
    }
}

//! Decodes batches into blocks according to their policy. Batches are received or read from the
//! journal.

use blkkin_columns::{Block, PushError};
use blkkin_model::{SpanRef, SpanSink};
use blkkin_store::{Batch, Policy};
use blkkin_wire::{Decoder, End, Fault, Outcome, Reason, Refusal};
use std::ops::ControlFlow;

/// Maximum size of one span in a block, in bytes, independent of the limits of a batch. The block
/// enforces the limit; this constant is only for the error message.
const SPAN_BYTES_MAX: u64 = 8 << 20;

/// Decodes a batch. Returns the outcome, and the spans in blocks that `empty_block` provides.
pub(crate) fn read(
    decoder: &mut Decoder,
    batch: &Batch<'_>,
    empty_block: &dyn Fn() -> Block,
) -> (Outcome, Vec<Block>) {
    let mut sink = BatchSink { empty_block, blocks: vec![empty_block()], is_too_large: false };
    let mut outcome = decoder.decode(batch.format, batch.bytes, &mut sink);
    let BatchSink { mut blocks, is_too_large, .. } = sink;
    if is_too_large {
        let reason = Reason::TooMany { what: "bytes", count_max: SPAN_BYTES_MAX };
        let fault = Fault { offset: 0, field: "span", reason };
        let span = outcome.accepted + outcome.refused;
        outcome.end = End::Broken(Refusal { span, fault });
    }
    if batch.policy == Policy::Whole && !outcome.is_good() {
        outcome.accepted = 0;
        blocks.iter_mut().for_each(Block::clear);
    }
    (outcome, blocks)
}

/// Describes the damage of a batch in the journal; `None` if no damage is known. A batch with the
/// policy `Whole` that has an error is rejected before it reaches the journal. An error in such a
/// batch is therefore damage.
pub(crate) fn damage(batch: &Batch<'_>, outcome: &Outcome, sequence: u64) -> Option<String> {
    let refusal = outcome.first_refusal().filter(|_| batch.policy == Policy::Whole)?;
    Some(format!("the batch up to record {sequence} of the journal: {refusal}"))
}

/// Describes a record with an unknown kind or without its predecessor.
pub(crate) fn unknown(sequence: u64) -> String {
    format!("record {sequence} of the journal")
}

/// Sink that collects the spans of a batch in blocks.
struct BatchSink<'s> {
    empty_block: &'s dyn Fn() -> Block,
    blocks: Vec<Block>,
    is_too_large: bool,
}

impl SpanSink for BatchSink<'_> {
    fn span(&mut self, span: &SpanRef<'_>) -> ControlFlow<()> {
        let last = self.blocks.last_mut().expect("there is always one");
        match last.push(span) {
            Ok(_) => ControlFlow::Continue(()),
            Err(PushError::Full) => {
                let mut next = (self.empty_block)();
                let pushed = next.push(span);
                self.blocks.push(next);
                if pushed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            }
            Err(PushError::TooLarge) => {
                self.is_too_large = true;
                ControlFlow::Break(())
            }
        }
    }
}

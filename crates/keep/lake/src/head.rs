//! Spans that are in no file yet, in memory, in the order in which the journal has them. Start at [`Head`].

use crate::{Options, bloom};
use blkkin_columns::Block;
use std::ops::Deref;
use std::sync::Arc;

/// A batch that has so many spans is kept as it is; smaller ones are put together.
const ALONE_MIN: usize = 1024;

/// Small batches are put together up to here.
const TOGETHER_MAX: usize = 8 * ALONE_MIN;

/// A block that does not change any more, and which requests it may hold.
pub(crate) struct Batch {
    block: Block,
    bloom: Vec<u8>,
}

impl Batch {
    pub(crate) fn of(block: Block) -> Batch {
        let mut lows = block.trace_lows().to_vec();
        // Most batches have the spans of a request beside each other.
        lows.dedup();
        Batch { bloom: bloom::make(&lows), block }
    }

    /// Whether spans of the request may be in it.
    pub(crate) fn may_hold(&self, low: u64) -> bool {
        bloom::may_hold(&self.bloom, low)
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

/// Spans that are in no file yet.
#[derive(Default)]
pub(crate) struct Head {
    /// Being written to files, and then those that are not yet.
    batches: Vec<Arc<Batch>>,
    /// How many of them are being written.
    writing: usize,
    /// Small batches.
    small: Option<Block>,
    /// All records of the journal before this one are here, or in files.
    pub(crate) sequence: u64,
    /// All that is not being written, of both kinds.
    spans: usize,
    bytes: usize,
    writing_bytes: usize,
    /// Another one whenever something was added.
    pub(crate) added: u64,
    /// Another one whenever something was written.
    pub(crate) written: u64,
}

impl Head {
    /// An empty one; all records of the journal before `sequence` are in files.
    pub(crate) fn new(sequence: u64) -> Head {
        Head { sequence, ..Head::default() }
    }

    /// Adds what records of the journal before `sequence` say.
    pub(crate) fn push(&mut self, block: Block, sequence: u64) {
        self.sequence = self.sequence.max(sequence);
        self.spans += block.len();
        if block.is_empty() {
            return;
        }
        self.added += 1;
        if block.len() >= ALONE_MIN {
            self.seal();
            self.push_batch(block);
            return;
        }
        self.unseal();
        let small = self.small.get_or_insert_with(Block::new);
        match small.append(&block) {
            Ok(()) if small.len() < TOGETHER_MAX => {}
            Ok(()) => self.seal(),
            Err(_) => {
                self.seal();
                self.push_batch(block);
            }
        }
    }

    /// What was put together is added to, after a question that is answered by now.
    fn unseal(&mut self) {
        let is_small = |batch: &Arc<Batch>| batch.len() < ALONE_MIN;
        if self.small.is_some() || self.batches.len() == self.writing {
            return;
        }
        let Some(last) = self.batches.pop_if(|last| is_small(last)) else { return };
        match Arc::try_unwrap(last) {
            Ok(batch) => {
                self.bytes -= batch.memory_bytes();
                self.small = Some(batch.into_block());
            }
            Err(last) => self.batches.push(last),
        }
    }

    fn push_batch(&mut self, block: Block) {
        let batch = Batch::of(block);
        self.bytes += batch.memory_bytes();
        self.batches.push(Arc::new(batch));
    }

    /// What was put together so far does not change any more.
    fn seal(&mut self) {
        if let Some(block) = self.small.take() {
            self.push_batch(block);
        }
    }

    /// All of it, for a question. What is asked for does not change.
    pub(crate) fn snapshot(&mut self) -> Vec<Arc<Batch>> {
        self.seal();
        self.batches.clone()
    }

    /// Spans that are not being written.
    pub(crate) fn spans(&self) -> usize {
        self.spans
    }

    /// What those take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.small.as_ref().map_or(0, Block::memory_bytes)
    }

    /// Whether that is enough for a file.
    pub(crate) fn is_full(&self, options: &Options) -> bool {
        self.spans() >= options.file_spans || self.bytes() >= options.file_memory_bytes
    }

    /// What all take.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes() + self.writing_bytes
    }

    /// What is to be written now, up to which record of the journal. Asked again, it is more.
    pub(crate) fn start_writing(&mut self) -> (Vec<Arc<Batch>>, u64) {
        self.seal();
        self.writing = self.batches.len();
        self.writing_bytes += std::mem::take(&mut self.bytes);
        self.spans = 0;
        (self.batches.clone(), self.sequence)
    }

    /// What was to be written is in a file, and what it took is given back.
    pub(crate) fn finish_writing(&mut self) -> Vec<Arc<Batch>> {
        self.writing_bytes = 0;
        self.written += 1;
        self.batches.drain(..std::mem::take(&mut self.writing)).collect()
    }
}

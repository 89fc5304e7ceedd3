//! [`Memory`]: the head with the spans that are in no file yet, the counters, and spare decoding
//! buffers.

use crate::Options;
use crate::files::cache::Cache;
use crate::files::file_entry::Totals;
use crate::locks::{Guard, RankedMutex, rank};
use crate::write::batch;
use crate::write::head::Head;
use blkkin_columns::Block;
use blkkin_store::{AcceptCallback, Batch, Counters, Interval, Refusal};
use blkkin_wire::{Decoder, End, Outcome};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum time that a new batch waits for the head to shrink, and again for space in the journal's
/// buffer of pending records, before the batch is rejected.
pub(crate) const WAIT_FOR_ROOM: Duration = Duration::from_secs(1);
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Maximum number of spare decoders kept for reuse. The same limit applies to spare blocks.
const SPARE_MAX: usize = 16;

/// In-memory state of a store. The journal's thread has a reference to this state, so the state
/// must not have a reference to the journal.
pub(crate) struct Memory {
    pub(crate) options: Options,
    state: RankedMutex<State, { rank::STATE }>,
    /// Notified when the head may have shrunk or a flush has failed.
    pub(crate) flush_done: Condvar,
    /// Notified when the head may need a flush or the store closes.
    pub(crate) work: Condvar,
    spare_decoders: Mutex<Vec<Decoder>>,
    spare_blocks: Mutex<Vec<Block>>,
    cache: Arc<Cache>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) head: Head,
    /// Uptime at which the oldest span that is not being flushed arrived. If the last flush left
    /// spans in the head, this is the uptime at the start of that flush. `None` if there are no
    /// such spans.
    pub(crate) unwritten_since: Option<Duration>,
    pub(crate) counters: Counters,
    /// Counts of spans since the store was created, including the spans in the head.
    pub(crate) totals: Totals,
    /// Error message of the last flush; `None` if the flush succeeded.
    pub(crate) write_error: Option<String>,
    /// Journal sequence number up to which a caller of `Lake::flush` waits for records to be in
    /// files.
    pub(crate) flush_target: u64,
    /// Journal sequence number before which all records are in files.
    pub(crate) written: u64,
    pub(crate) is_closing: bool,
}

impl Memory {
    /// Creates the memory of a store. In `state`, the head must start at the first journal record
    /// that is in no file.
    pub(crate) fn new(options: Options, state: State, cache: Arc<Cache>) -> Memory {
        Memory {
            options,
            state: RankedMutex::new(state),
            flush_done: Condvar::new(),
            work: Condvar::new(),
            spare_decoders: Mutex::default(),
            spare_blocks: Mutex::default(),
            cache,
        }
    }

    pub(crate) fn state(&self) -> Guard<'_, State, { rank::STATE }> {
        self.state.lock()
    }

    pub(crate) fn reject(&self, refusal: &blkkin_journal::Refusal, done: AcceptCallback) {
        self.count_rejected();
        done(Err(Refusal { reason: refusal.to_string(), retry_after: RETRY_AFTER }));
    }

    pub(crate) fn count_damage(&self, damages: u64, is_more_lost: bool) {
        let mut state = self.state();
        state.counters.damages = damages;
        let times = &mut state.counters.times;
        let now_ns = self.options.clock.now_ns();
        if damages > 0 {
            Interval::extend(&mut times.damages, now_ns);
        }
        if is_more_lost {
            Interval::extend(&mut times.lost, now_ns);
        }
    }

    pub(crate) fn count_rejected(&self) {
        let mut state = self.state();
        state.counters.turned_away += 1;
        Interval::extend(&mut state.counters.times.turned_away, self.options.clock.now_ns());
    }

    pub(crate) fn count_refused(&self, state: &mut State, outcome: &Outcome) {
        let refused = refused(outcome);
        state.counters.refused += refused;
        if refused > 0 {
            Interval::extend(&mut state.counters.times.refused, self.options.clock.now_ns());
        }
    }

    /// Waits up to [`WAIT_FOR_ROOM`] for the head to shrink to its memory limit.
    pub(crate) fn wait_for_room(&self) -> Result<(), Refusal> {
        let deadline = Instant::now() + WAIT_FOR_ROOM;
        let mut state = self.state();
        while state.head.memory_bytes() > self.options.memory_bytes_max {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let why = state.write_error.as_deref().unwrap_or("the disk is too slow");
                let reason =
                    format!("memory holds all that it may, as it cannot be written: {why}");
                return Err(Refusal { reason, retry_after: RETRY_AFTER });
            }
            state.wait_timeout(&self.flush_done, left);
        }
        Ok(())
    }

    /// Decodes a batch into blocks. The batch's policy decides whether an error rejects some spans
    /// or the whole batch.
    pub(crate) fn decode(&self, batch: &Batch<'_>) -> (Outcome, Vec<Block>) {
        let spare = self.spare_decoders.lock().pop();
        let mut decoder = spare.unwrap_or_else(|| Decoder::new(self.options.limits));
        let (outcome, blocks) = batch::read(&mut decoder, batch, &|| self.block());
        let mut spare = self.spare_decoders.lock();
        if spare.len() < SPARE_MAX {
            spare.push(decoder);
        }
        (outcome, blocks)
    }

    fn block(&self) -> Block {
        self.spare_blocks.lock().pop().unwrap_or_default()
    }

    /// Keeps a block for reuse, unless it is large or [`SPARE_MAX`] blocks are kept already.
    pub(crate) fn recycle_block(&self, mut block: Block) {
        let mut spare = self.spare_blocks.lock();
        if spare.len() < SPARE_MAX && block.memory_bytes() < 4 << 20 {
            block.clear();
            spare.push(block);
        }
    }

    /// Appends the spans of a batch to the head, and advances the head by `records` journal
    /// records.
    pub(crate) fn publish(&self, blocks: Vec<Block>, records: u64, outcome: &Outcome) {
        let spans: u64 = blocks.iter().map(|block| block.len() as u64).sum();
        let mut state = self.state();
        let sequence = state.head.sequence + records;
        self.count_refused(&mut state, outcome);
        if spans > 0 {
            state.counters.batches += 1;
            state.totals.accepted += spans;
            let uptime = self.options.clock.uptime();
            state.unwritten_since.get_or_insert(uptime);
        }
        blocks.into_iter().for_each(|block| state.head.push(block));
        state.head.advance(sequence);
        let (is_full, bytes) = (state.head.is_full(&self.options), state.head.memory_bytes());
        drop(state);
        self.shrink_cache(bytes);
        if is_full {
            self.work.notify_all();
        }
    }

    /// Lowers the cache's limit by the bytes that the head uses beyond half of its own memory
    /// limit. If the head uses less than that half, the cache's limit is restored.
    fn shrink_cache(&self, head_bytes: usize) {
        self.cache.yield_memory(head_bytes.saturating_sub(self.options.memory_bytes_max / 2));
    }

    /// Adapts the cache's limit to the head, and notifies the threads that wait for the head to
    /// shrink or for a flush.
    pub(crate) fn notify_room(&self) {
        let bytes = self.state().head.memory_bytes();
        self.shrink_cache(bytes);
        self.flush_done.notify_all();
    }

    pub(crate) fn wait_until_written(&self) {
        let mut state = self.state();
        while state.head.memory_bytes() > self.options.memory_bytes_max
            && state.write_error.is_none()
        {
            state.wait(&self.flush_done);
        }
    }
}

/// Returns the number of refused spans of a batch, plus 1 if an error ended the decoding early.
fn refused(outcome: &Outcome) -> u64 {
    outcome.refused + u64::from(matches!(outcome.end, End::Broken(_)))
}

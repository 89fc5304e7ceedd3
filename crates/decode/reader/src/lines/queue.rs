//! Queue of slices, from which threads take slices to print. The text is written in the order of
//! the slices.
//!
//! A slice's turn begins when the text of all earlier slices is written. A thread that has printed
//! its slice before the slice's turn hands in the text and goes on with another slice, or waits for
//! the turn if too much text has been handed in. The thread whose turn it is also writes the
//! handed-in text of the following slices.

use super::printer::{BLOCK_SIZE, LinePrinter, Target, print_event, set_delta};
use super::slicer::{Slice, Slicer};
use crate::error::Problem;
use crate::event::Event;
use crate::event_merge::Consumer;
use crate::loss::Loss;
use crate::reading::Reading;
use crate::text::Text;
use crate::trace::{Stream, Trace};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{BTreeMap, VecDeque};
use std::ops::{ControlFlow, Range};

/// Maximum total size of the text that threads keep until their slices' turns: 24 MiB, or more if
/// each thread's share is raised to [`WAITING_SIZE_MIN`].
const WAITING_SIZE: usize = 24 << 20;
/// Minimum of one thread's share of `WAITING_SIZE`: 4 MiB.
const WAITING_SIZE_MIN: usize = 4 << 20;
/// Maximum total size of the text of finished slices if slices consist of whole packets: 12 MiB.
const FINISHED_SIZE_MAX: usize = 12 << 20;
/// Maximum total size of the text of finished slices if slices end within packets: 3 MiB. Such
/// slices have less text. With a higher limit, the threads ahead of a delayed one would use more
/// memory, and the first use of a memory page is slow.
const FINISHED_SIZE_MAX_WITHIN: usize = 3 << 20;

/// Maximum number of slices that are made before a thread needs them. Their packet bytes occupy
/// memory.
const READY_MAX: usize = 2;

/// Queue of slices, together with the output. All threads share it.
pub(super) struct SliceQueue<'r, S> {
    /// Slicer, with a lock of its own: slicing is slow, and threads that wait for a turn need the
    /// lock of `state`.
    slicer: Mutex<Slicer<'r>>,
    /// Slices that no thread has taken yet, in order of time. A thread adds slices while it holds
    /// the lock of `slicer`.
    ready: Mutex<VecDeque<Slice>>,
    state: Mutex<State>,
    changed: Condvar,
    output: Mutex<Output<S>>,
    /// Maximum size in bytes of the text that a thread buffers until all earlier slices have been
    /// written.
    waiting_size: usize,
    /// Maximum total size of the text of all finished slices, in bytes.
    finished_size_max: usize,
    /// Empty blocks that any thread may reuse. The first use of memory costs more than a block's
    /// transfer from another processor.
    spare: Mutex<Vec<Block>>,
}

struct State {
    /// Number of the slice whose text is to be written now.
    turn: usize,
    /// Number of the slice at which the output ends early; `usize::MAX` while no such slice is
    /// known. This is a slice that was extended to the end of the streams because of disorder, or
    /// the slice in whose text the sink returned `Break`.
    last: usize,
    /// Set if a thread has panicked; the turn of its slice never ends.
    has_panicked: bool,
    /// Slices that were handed in before their turns, by slice number.
    finished: BTreeMap<usize, FinishedSlice>,
    /// Total size of the text of all `finished` slices, in bytes.
    finished_size: usize,
}

/// First delta of a slice. It depends on the previous slice, so it is written in the slice's turn.
struct PendingDelta {
    /// Index of the block that contains the delta, among the slice's unwritten blocks. Earlier
    /// blocks have only lines without a reference value.
    block: usize,
    now: u64,
    place: Range<usize>,
}

/// Text of a completely printed slice, buffered until the texts of all earlier slices are written.
struct FinishedSlice {
    blocks: Vec<Block>,
    size: usize,
    first: Option<PendingDelta>,
    /// Reference value for the first delta of the next slice; `None` if no line of this slice sets
    /// one.
    last: Option<u64>,
}

struct Output<S> {
    sink: S,
    /// Reference value for the delta of the next line; `None` if no line has set one so far.
    last: Option<u64>,
}

impl<'r, S> SliceQueue<'r, S> {
    pub(super) fn new(reading: &'r Reading<'r>, sink: S) -> SliceQueue<'r, S> {
        let slicer = Slicer::new(reading);
        let finished_size_max = match slicer.cuts_packets() {
            true => FINISHED_SIZE_MAX_WITHIN,
            false => FINISHED_SIZE_MAX,
        };
        SliceQueue {
            finished_size_max,
            slicer: Mutex::new(slicer),
            ready: Mutex::new(VecDeque::with_capacity(READY_MAX)),
            state: Mutex::new(State {
                turn: 0,
                last: usize::MAX,
                has_panicked: false,
                finished: BTreeMap::new(),
                finished_size: 0,
            }),
            changed: Condvar::new(),
            output: Mutex::new(Output { sink, last: None }),
            waiting_size: (WAITING_SIZE / (reading.threads - 1).max(1)).max(WAITING_SIZE_MIN),
            spare: Mutex::new(Vec::new()),
        }
    }

    fn slicer(&self) -> MutexGuard<'_, Slicer<'r>> {
        self.slicer.lock()
    }

    fn ready(&self) -> MutexGuard<'_, VecDeque<Slice>> {
        self.ready.lock()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn output(&self) -> MutexGuard<'_, Output<S>> {
        self.output.lock()
    }

    fn spare(&self) -> MutexGuard<'_, Vec<Block>> {
        self.spare.lock()
    }

    /// Returns the next slice to print; `None` after the last slice, or once the output has ended
    /// or a thread has panicked. Moves the buffers in `spare`, of slices printed earlier, to the
    /// slicer unless another thread uses it.
    ///
    /// A thread that takes a slice makes another one for the next thread, so that threads rarely
    /// wait for the slicer: to wake a thread takes as long as to make a slice.
    pub(super) fn next_slice(&self, spare: &mut Vec<Vec<u8>>) -> Option<Slice> {
        if self.is_over() {
            return None;
        }
        if let Some(slice) = self.take_ready() {
            if let Some(mut slicer) = self.slicer.try_lock() {
                slicer.reuse(spare);
                self.make_ready(&mut slicer);
            }
            return Some(slice);
        }
        let mut slicer = self.slicer();
        slicer.reuse(spare);
        // While this thread waited for the lock, its holder may have added slices. If not, the next
        // slice is not added first, because another thread could take it.
        let slice = self.take_ready().or_else(|| slicer.next());
        self.make_ready(&mut slicer);
        slice
    }

    fn is_over(&self) -> bool {
        let state = self.lock();
        state.last < usize::MAX || state.has_panicked
    }

    fn take_ready(&self) -> Option<Slice> {
        self.ready().pop_front()
    }

    /// Adds slices until [`READY_MAX`] are ready, or until the last slice.
    fn make_ready(&self, slicer: &mut Slicer<'r>) {
        while self.ready().len() < READY_MAX
            && let Some(slice) = slicer.next()
        {
            self.ready().push_back(slice);
        }
    }

    /// Removes and returns the problems that the slicer found in the scan of packet headers.
    pub(super) fn take_problems(&self) -> Vec<Problem> {
        self.slicer().take_problems()
    }

    fn is_turn(&self, number: usize) -> bool {
        let state = self.lock();
        state.turn == number && state.last >= number
    }

    /// Waits for the turn of slice `number`. Returns `ControlFlow::Break` if the slice is invalid
    /// or a thread has panicked.
    fn wait_for_turn(&self, number: usize) -> ControlFlow<()> {
        let mut state = self.lock();
        loop {
            if state.last < number || state.has_panicked {
                return ControlFlow::Break(());
            }
            if state.turn == number {
                return ControlFlow::Continue(());
            }
            self.changed.wait(&mut state);
        }
    }

    /// Makes slice `number` the last slice of the output; call it in that slice's turn. Later
    /// slices become invalid.
    fn end_at(&self, number: usize) {
        let mut state = self.lock();
        state.last = number;
        state.finished.clear();
        state.finished_size = 0;
        drop(state);
        self.changed.notify_all();
    }

    /// Ends the turn of slice `number`. If the next slice was handed in, returns its text, which
    /// the caller must write.
    fn end_turn(&self, number: usize) -> Option<FinishedSlice> {
        let mut state = self.lock();
        state.turn = number + 1;
        let finished = state.finished.remove(&(number + 1));
        state.finished_size -= finished.as_ref().map_or(0, |finished| finished.size);
        drop(state);
        self.changed.notify_all();
        finished
    }

    /// Returns true if slice `number` is part of the output, and false if it is after the last
    /// slice. Returns `None` until the slice's turn ends or the last slice is known.
    pub(super) fn is_valid(&self, number: usize) -> Option<bool> {
        let state = self.lock();
        match () {
            () if state.last < number => Some(false),
            () if state.turn > number || state.last == number => Some(true),
            () => None,
        }
    }
}

/// Guard that makes the other threads stop if this thread panics.
pub(super) struct PanicGuard<'g, 'r, S>(pub(super) &'g SliceQueue<'r, S>);

impl<S> Drop for PanicGuard<'_, '_, S> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().has_panicked = true;
            self.0.changed.notify_all();
        }
    }
}

/// Block of text, printed by one thread and written as a whole.
struct Block {
    text: Text,
    /// Target and end of each piece of the text, in bytes. The text after the last piece has the
    /// output as its target.
    pieces: Vec<(Target, usize)>,
}

/// Text of the slice that a thread is printing.
pub(super) struct SliceText<'t, 'r, P, S> {
    printer: P,
    queue: &'t SliceQueue<'r, S>,
    number: usize,
    block: Block,
    /// Full blocks that wait for the slice's turn to be written.
    waiting: Vec<Block>,
    /// Total size of the waiting blocks in bytes.
    waiting_size: usize,
    first: Option<PendingDelta>,
    /// Reference value for the delta of the next line; `None` if no line of the slice has set one.
    last: Option<u64>,
    /// Set if the sink returned `Break`, if this slice is after the last slice of the output, or if
    /// a thread has panicked.
    is_broken: bool,
}

impl<'t, 'r, P, S> SliceText<'t, 'r, P, S>
where
    P: LinePrinter,
    S: FnMut(Target, &[u8]) -> ControlFlow<()>,
{
    pub(super) fn new(printer: P, queue: &'t SliceQueue<'r, S>) -> SliceText<'t, 'r, P, S> {
        SliceText {
            printer,
            queue,
            number: 0,
            block: Block::new(),
            waiting: Vec::new(),
            waiting_size: 0,
            first: None,
            last: None,
            is_broken: false,
        }
    }

    /// Starts slice `number`, with an empty text.
    pub(super) fn begin(&mut self, number: usize) {
        self.number = number;
        (self.first, self.last, self.is_broken) = (None, None, false);
        self.block.clear();
        self.recycle_blocks();
    }

    /// Moves written blocks to the queue's spare blocks, so that any thread can reuse them.
    fn recycle_blocks(&mut self) {
        // Very large lines are rare, so their blocks are freed.
        self.waiting.retain(|block| block.text.room() <= 2 * BLOCK_SIZE);
        if !self.waiting.is_empty() {
            self.queue.spare().append(&mut self.waiting);
        }
        self.waiting_size = 0;
        if self.block.text.room() > 2 * BLOCK_SIZE {
            self.block = Block::new();
        }
    }

    /// Ends the slice. Hands in its text if possible. Otherwise waits for the slice's turn, writes
    /// the text, and then writes the finished slices that follow.
    pub(super) fn end(&mut self) {
        if self.is_broken || self.hand_in() {
            return;
        }
        if self.wait_for_turn().is_break() || self.write_out().is_break() {
            return;
        }
        let mut number = self.number;
        while let Some(mut finished) = self.queue.end_turn(number) {
            number += 1;
            let FinishedSlice { blocks, first, last, .. } = &mut finished;
            let mut output = self.queue.output();
            let flow = output.write_out(&self.printer, blocks.iter_mut(), first, *last);
            drop(output);
            if flow.is_break() {
                self.is_broken = true;
                return self.queue.end_at(number);
            }
            self.waiting.append(blocks);
            self.recycle_blocks();
        }
    }

    /// Hands in the slice's text to the thread whose turn it is. Returns false if it is this
    /// slice's turn, if the slice is invalid, if a thread has panicked, or if the text of all
    /// finished slices would exceed its limit.
    fn hand_in(&mut self) -> bool {
        let size = self.waiting_size + self.block.text.room();
        let mut state = self.queue.lock();
        let is_late = state.turn == self.number || state.last < self.number || state.has_panicked;
        if is_late || state.finished_size + size > self.queue.finished_size_max {
            return false;
        }
        let mut blocks = std::mem::take(&mut self.waiting);
        blocks.push(std::mem::replace(&mut self.block, Block::empty()));
        let finished = FinishedSlice { blocks, size, first: self.first.take(), last: self.last };
        state.finished.insert(self.number, finished);
        state.finished_size += size;
        drop(state);
        self.block = self.queue.spare().pop().unwrap_or_else(Block::new);
        true
    }

    /// Writes the printed text of the slice; call it in the slice's turn.
    fn write_out(&mut self) -> ControlFlow<()> {
        let queue = self.queue;
        let blocks = self.waiting.iter_mut().chain([&mut self.block]);
        let flow = queue.output().write_out(&self.printer, blocks, &mut self.first, self.last);
        self.recycle_blocks();
        if flow.is_break() {
            self.is_broken = true;
            queue.end_at(self.number);
        }
        flow
    }

    /// Keeps the full block if it is not the slice's turn, and writes it otherwise. If the kept
    /// text exceeds its limit, waits for the turn.
    #[cold]
    fn flush_or_keep_block(&mut self) -> ControlFlow<()> {
        if !self.queue.is_turn(self.number) {
            self.waiting_size += self.block.text.room();
            if self.waiting_size < self.queue.waiting_size {
                let empty = self.queue.spare().pop().unwrap_or_else(Block::new);
                self.waiting.push(std::mem::replace(&mut self.block, empty));
                self.block.clear();
                return ControlFlow::Continue(());
            }
            self.wait_for_turn()?;
        }
        self.write_out()
    }

    fn wait_for_turn(&mut self) -> ControlFlow<()> {
        let flow = self.queue.wait_for_turn(self.number);
        self.is_broken |= flow.is_break();
        flow
    }
}

impl<S: FnMut(Target, &[u8]) -> ControlFlow<()>> Output<S> {
    /// Writes a slice's blocks and clears them. `first` is the slice's pending delta, and `last`
    /// the reference value after the slice.
    fn write_out<'b>(
        &mut self,
        printer: &impl LinePrinter,
        blocks: impl Iterator<Item = &'b mut Block>,
        first: &mut Option<PendingDelta>,
        last: Option<u64>,
    ) -> ControlFlow<()> {
        let mut flow = ControlFlow::Continue(());
        for (number, block) in blocks.enumerate() {
            if let Some(first) = first.take_if(|first| first.block == number) {
                block.set_delta(printer, first.place, first.now, self.last);
            }
            if flow.is_continue() {
                flow = block.write_out(&mut self.sink);
            }
            block.clear();
        }
        self.last = last.or(self.last);
        flow
    }
}

impl Block {
    /// Makes a block without capacity.
    fn empty() -> Block {
        Block { text: Text::default(), pieces: Vec::new() }
    }

    /// Makes a block whose capacity usually suffices for all its lines.
    fn new() -> Block {
        Block { text: Text::with_room(BLOCK_SIZE + BLOCK_SIZE / 8), pieces: Vec::new() }
    }

    fn clear(&mut self) {
        self.text.clear();
        self.pieces.clear();
    }

    /// Writes a pending delta into the block's text.
    fn set_delta(
        &mut self,
        printer: &impl LinePrinter,
        place: Range<usize>,
        now: u64,
        last: Option<u64>,
    ) {
        let length = self.text.len();
        set_delta(printer, &mut self.text, place.clone(), now, last);
        for (_, end) in self.pieces.iter_mut().filter(|(_, end)| *end >= place.end) {
            *end = *end + self.text.len() - length;
        }
    }

    fn write_out(
        &self,
        sink: &mut impl FnMut(Target, &[u8]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut start = 0;
        for &(target, end) in self.pieces.iter().chain([&(Target::Output, self.text.len())]) {
            if end > start {
                sink(target, &self.text[start..end])?;
            }
            start = end;
        }
        ControlFlow::Continue(())
    }
}

impl<P, S> Consumer for SliceText<'_, '_, P, S>
where
    P: LinePrinter,
    S: FnMut(Target, &[u8]) -> ControlFlow<()>,
{
    #[inline]
    fn event(&mut self, event: &mut Event<'_>) -> ControlFlow<()> {
        let out = &mut self.block.text;
        let Some((now, delta)) = print_event(&mut self.printer, out, event) else {
            return ControlFlow::Continue(());
        };
        if let Some(now) = now {
            match self.last.replace(now) {
                last @ Some(_) => set_delta(&self.printer, out, delta, now, last),
                None => {
                    let block = self.waiting.len();
                    self.first = Some(PendingDelta { block, now, place: delta });
                }
            }
        }
        if out.len() < BLOCK_SIZE { ControlFlow::Continue(()) } else { self.flush_or_keep_block() }
    }

    fn loss(&mut self, trace: &Trace, stream: &Stream, loss: &Loss) -> ControlFlow<()> {
        let Block { text, pieces } = &mut self.block;
        let start = text.len();
        let printer = &mut self.printer;
        let target = text.append(|out| printer.loss(out, trace, stream, loss));
        if let Some(target) = target.filter(|target| *target != Target::Output) {
            pieces.push((Target::Output, start));
            pieces.push((target, text.len()));
        }
        if self.block.text.len() >= BLOCK_SIZE {
            return self.flush_or_keep_block();
        }
        ControlFlow::Continue(())
    }

    fn disorder(&mut self) -> ControlFlow<()> {
        self.wait_for_turn()?;
        self.queue.end_at(self.number);
        ControlFlow::Continue(())
    }
}

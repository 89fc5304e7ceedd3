//! Whose turn it is: text of slices is passed on in the order of the slices.
//!
//! A thread that has printed its slice before its turn leaves the text to the thread whose turn it is, which passes it
//! on behind its own, and goes on with another slice.

use super::printer::{BLOCK_SIZE, LinePrinter, Target, print_event, set_delta};
use super::slicer::{Slice, Slicer};
use crate::error::Problem;
use crate::event::Event;
use crate::loss::Loss;
use crate::ordered::Consumer;
use crate::reading::Reading;
use crate::text::Text;
use crate::trace::{Stream, Trace};
use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes of text that may wait for their turn, over all threads, …
const WAITING_SIZE: usize = 24 << 20;
/// … and at least on each of them.
const WAITING_SIZE_MIN: usize = 4 << 20;
/// Bytes of text of slices that are left to others, where slices are of whole packets.
const LEFT_SIZE_MAX: usize = 12 << 20;
/// The same where slices end within packets, whose text is smaller. With more, a thread that goes
/// ahead of one that is held up would use more memory, and the first use of a page is slow.
const LEFT_SIZE_MAX_WITHIN: usize = 3 << 20;

/// What the threads share.
pub(super) struct Turns<'r, S> {
    /// Cuts slices, which takes a while: not a matter of those who wait for their turn.
    slicer: Mutex<Slicer<'r>>,
    state: Mutex<State>,
    changed: Condvar,
    output: Mutex<Output<S>>,
    /// Bytes that a thread may keep until it is its turn.
    waiting_size: usize,
    /// Bytes of text of all slices that are left to others.
    left_size_max: usize,
    /// Empty blocks, to be used again, by any thread: the first use of memory costs more than
    /// taking it over from another processor.
    spare: Mutex<Vec<Block>>,
}

struct State {
    /// Number of the slice whose turn it is.
    turn: usize,
    /// Number of the slice that is the last one, because it goes on to the end or the sink broke.
    last: usize,
    /// Whether a thread has panicked, whose slice's turn will never end.
    has_panicked: bool,
    /// Slices that are left to the threads whose turns end before theirs begin, by number.
    left: BTreeMap<usize, LeftSlice>,
    /// Bytes of their text.
    left_size: usize,
}

/// The first delta of a slice, which depends on the slice before, and is left open until then.
struct FirstDelta {
    /// Number of its block among those that wait. Only lines of losses are in the ones before.
    block: usize,
    now: u64,
    place: Range<usize>,
}

/// The text of a whole slice.
struct LeftSlice {
    blocks: Vec<Block>,
    size: usize,
    first: Option<FirstDelta>,
    /// What the next slice's first delta refers to.
    last: Option<u64>,
}

struct Output<S> {
    sink: S,
    /// What the next line's delta refers to.
    last: Option<u64>,
}

impl<'r, S> Turns<'r, S> {
    pub(super) fn new(reading: &'r Reading<'r>, sink: S) -> Turns<'r, S> {
        let slicer = Slicer::new(reading);
        let left_size_max = match slicer.cuts_packets() {
            true => LEFT_SIZE_MAX_WITHIN,
            false => LEFT_SIZE_MAX,
        };
        Turns {
            left_size_max,
            slicer: Mutex::new(slicer),
            state: Mutex::new(State {
                turn: 0,
                last: usize::MAX,
                has_panicked: false,
                left: BTreeMap::new(),
                left_size: 0,
            }),
            changed: Condvar::new(),
            output: Mutex::new(Output { sink, last: None }),
            waiting_size: (WAITING_SIZE / (reading.threads - 1).max(1)).max(WAITING_SIZE_MIN),
            spare: Mutex::new(Vec::new()),
        }
    }

    fn slicer(&self) -> MutexGuard<'_, Slicer<'r>> {
        self.slicer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn output(&self) -> MutexGuard<'_, Output<S>> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spare(&self) -> MutexGuard<'_, Vec<Block>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next slice that nobody has begun. Takes `spare` buffers of slices that were printed.
    pub(super) fn next_slice(&self, spare: &mut Vec<Vec<u8>>) -> Option<Slice> {
        let mut slicer = self.slicer();
        slicer.reuse(spare);
        let is_over = {
            let state = self.lock();
            state.last < usize::MAX || state.has_panicked
        };
        if is_over { None } else { slicer.next() }
    }

    /// What was found wrong between packets.
    pub(super) fn take_problems(&self) -> Vec<Problem> {
        self.slicer().take_problems()
    }

    fn is_turn(&self, number: usize) -> bool {
        let state = self.lock();
        state.turn == number && state.last >= number
    }

    /// Waits for a slice's turn; breaks if it will not come.
    fn wait(&self, number: usize) -> ControlFlow<()> {
        let mut state = self.lock();
        loop {
            if state.last < number || state.has_panicked {
                return ControlFlow::Break(());
            }
            if state.turn == number {
                return ControlFlow::Continue(());
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Makes the slice whose turn it is the last one. Those behind it do not count.
    fn end_with(&self, number: usize) {
        let mut state = self.lock();
        state.last = number;
        state.left.clear();
        state.left_size = 0;
        drop(state);
        self.changed.notify_all();
    }

    /// Ends a slice's turn, and gives the slice whose turn it is then, if its text is left to be passed on.
    fn pass(&self, number: usize) -> Option<LeftSlice> {
        let mut state = self.lock();
        state.turn = number + 1;
        let left = state.left.remove(&(number + 1));
        state.left_size -= left.as_ref().map_or(0, |left| left.size);
        drop(state);
        self.changed.notify_all();
        left
    }

    /// Whether a slice counts, as far as is known: `None` while it may still turn out that an earlier one is the last.
    pub(super) fn counts(&self, number: usize) -> Option<bool> {
        let state = self.lock();
        match () {
            () if state.last < number => Some(false),
            () if state.turn > number || state.last == number => Some(true),
            () => None,
        }
    }
}

/// Lets the others end if this thread panics.
pub(super) struct PanicGuard<'g, 'r, S>(pub(super) &'g Turns<'r, S>);

impl<S> Drop for PanicGuard<'_, '_, S> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().has_panicked = true;
            self.0.changed.notify_all();
        }
    }
}

/// Some text.
struct Block {
    text: Text,
    /// Where text goes and where it ends, if not all of it goes to the output.
    pieces: Vec<(Target, usize)>,
}

/// A slice's text.
pub(super) struct SliceText<'t, 'r, P, S> {
    printer: P,
    turns: &'t Turns<'r, S>,
    number: usize,
    block: Block,
    /// Blocks that are full and wait for the slice's turn.
    waiting: Vec<Block>,
    /// Bytes that these take.
    waiting_size: usize,
    first: Option<FirstDelta>,
    /// What the next line's delta refers to, if a line in this slice.
    last: Option<u64>,
    /// Whether the sink broke, or an earlier slice was the last one.
    is_broken: bool,
}

impl<'t, 'r, P, S> SliceText<'t, 'r, P, S>
where
    P: LinePrinter,
    S: FnMut(Target, &[u8]) -> ControlFlow<()>,
{
    pub(super) fn new(printer: P, turns: &'t Turns<'r, S>) -> SliceText<'t, 'r, P, S> {
        SliceText {
            printer,
            turns,
            number: 0,
            block: Block::new(),
            waiting: Vec::new(),
            waiting_size: 0,
            first: None,
            last: None,
            is_broken: false,
        }
    }

    /// Begins a slice.
    pub(super) fn begin(&mut self, number: usize) {
        self.number = number;
        (self.first, self.last, self.is_broken) = (None, None, false);
        self.block.clear();
        self.keep_spare();
    }

    /// Lets others have the blocks that nobody waits for any more.
    fn keep_spare(&mut self) {
        // Very large lines are rare, and their room is not kept.
        self.waiting.retain(|block| block.text.room() <= 2 * BLOCK_SIZE);
        if !self.waiting.is_empty() {
            self.turns.spare().append(&mut self.waiting);
        }
        self.waiting_size = 0;
        if self.block.text.room() > 2 * BLOCK_SIZE {
            self.block = Block::new();
        }
    }

    /// Passes on what has not been passed on of the slice, or leaves it to others.
    pub(super) fn end(&mut self) {
        if self.is_broken || self.leave() {
            return;
        }
        if self.wait().is_break() || self.pass_on().is_break() {
            return;
        }
        let mut number = self.number;
        while let Some(mut left) = self.turns.pass(number) {
            number += 1;
            let LeftSlice { blocks, first, last, .. } = &mut left;
            let mut output = self.turns.output();
            let flow = output.pass_on(&self.printer, blocks.iter_mut(), first, *last);
            drop(output);
            if flow.is_break() {
                self.is_broken = true;
                return self.turns.end_with(number);
            }
            self.waiting.append(blocks);
            self.keep_spare();
        }
    }

    /// Leaves the slice's text to the thread whose turn it is; `false` if it is this slice's turn, or if too much is left.
    fn leave(&mut self) -> bool {
        let size = self.waiting_size + self.block.text.room();
        let mut state = self.turns.lock();
        let is_late = state.turn == self.number || state.last < self.number || state.has_panicked;
        if is_late || state.left_size + size > self.turns.left_size_max {
            return false;
        }
        let mut blocks = std::mem::take(&mut self.waiting);
        blocks.push(std::mem::replace(&mut self.block, Block::empty()));
        let left = LeftSlice { blocks, size, first: self.first.take(), last: self.last };
        state.left.insert(self.number, left);
        state.left_size += size;
        drop(state);
        self.block = self.turns.spare().pop().unwrap_or_else(Block::new);
        true
    }

    /// Passes on what has been printed, in the slice's turn.
    fn pass_on(&mut self) -> ControlFlow<()> {
        let turns = self.turns;
        let blocks = self.waiting.iter_mut().chain([&mut self.block]);
        let flow = turns.output().pass_on(&self.printer, blocks, &mut self.first, self.last);
        self.keep_spare();
        if flow.is_break() {
            self.is_broken = true;
            turns.end_with(self.number);
        }
        flow
    }

    /// Passes the block on, or keeps it until that is possible, or waits for that.
    #[cold]
    fn block_is_full(&mut self) -> ControlFlow<()> {
        if !self.turns.is_turn(self.number) {
            self.waiting_size += self.block.text.room();
            if self.waiting_size < self.turns.waiting_size {
                let empty = self.turns.spare().pop().unwrap_or_else(Block::new);
                self.waiting.push(std::mem::replace(&mut self.block, empty));
                self.block.clear();
                return ControlFlow::Continue(());
            }
            self.wait()?;
        }
        self.pass_on()
    }

    fn wait(&mut self) -> ControlFlow<()> {
        let flow = self.turns.wait(self.number);
        self.is_broken |= flow.is_break();
        flow
    }
}

impl<S: FnMut(Target, &[u8]) -> ControlFlow<()>> Output<S> {
    /// Passes on a slice's blocks, which are empty then. `first` is the delta that was left open in one of them, and
    /// `last` what the next delta refers to.
    fn pass_on<'b>(
        &mut self,
        printer: &impl LinePrinter,
        blocks: impl Iterator<Item = &'b mut Block>,
        first: &mut Option<FirstDelta>,
        last: Option<u64>,
    ) -> ControlFlow<()> {
        let mut flow = ControlFlow::Continue(());
        for (number, block) in blocks.enumerate() {
            if let Some(first) = first.take_if(|first| first.block == number) {
                block.set_delta(printer, first.place, first.now, self.last);
            }
            if flow.is_continue() {
                flow = block.pass_on(&mut self.sink);
            }
            block.clear();
        }
        self.last = last.or(self.last);
        flow
    }
}

impl Block {
    /// A block without room.
    fn empty() -> Block {
        Block { text: Text::default(), pieces: Vec::new() }
    }

    /// A block with room for all lines that it is likely to have.
    fn new() -> Block {
        Block { text: Text::with_room(BLOCK_SIZE + BLOCK_SIZE / 8), pieces: Vec::new() }
    }

    fn clear(&mut self) {
        self.text.clear();
        self.pieces.clear();
    }

    /// Fills in a delta that was left open.
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

    fn pass_on(&self, sink: &mut impl FnMut(Target, &[u8]) -> ControlFlow<()>) -> ControlFlow<()> {
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
                    self.first = Some(FirstDelta { block, now, place: delta });
                }
            }
        }
        if out.len() < BLOCK_SIZE { ControlFlow::Continue(()) } else { self.block_is_full() }
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
            return self.block_is_full();
        }
        ControlFlow::Continue(())
    }

    fn disorder(&mut self) -> ControlFlow<()> {
        self.wait()?;
        self.turns.end_with(self.number);
        ControlFlow::Continue(())
    }
}

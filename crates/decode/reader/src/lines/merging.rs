//! Merges the blocks of all streams: as long as one stream's lines are earlier than all others',
//! they are passed on as one piece.

use super::tasks::{Next, Shared};
use super::{LinePrinter, Lines, Target, Text};
use crate::reading::Reading;
use crate::work::{Stats, Work};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::ControlFlow;

pub(super) struct Merging<'m, 'r, P> {
    reading: &'m Reading<'r>,
    shared: &'m Shared,
    printer: P,
    work: Work<'m, 'r>,
    /// What the next line's delta refers to.
    last: Option<u64>,
}

/// A stream's current block.
struct Front {
    block: Lines,
    /// Index of the next line.
    next: usize,
    /// Where that line starts.
    start: usize,
    /// Latest time so far.
    floor: i64,
}

/// When, from which stream (by rank), of which class, from which stream (by number).
type Key = (i64, u32, u32, usize);

impl<'m, 'r, P: LinePrinter> Merging<'m, 'r, P> {
    pub(super) fn new(reading: &'m Reading<'r>, shared: &'m Shared, printer: P) -> Self {
        Merging { reading, shared, printer, work: Work::new(reading), last: None }
    }

    /// Passes all lines on, in order, until the sink breaks. Gives the accounts of what it has
    /// printed itself.
    pub(super) fn pass_on(
        mut self,
        sink: &mut impl FnMut(Target, &[u8]) -> ControlFlow<()>,
    ) -> Stats {
        let mut fronts = Vec::with_capacity(self.reading.stream_count());
        let mut waiting = BinaryHeap::with_capacity(self.reading.stream_count());
        for stream in 0..self.reading.stream_count() {
            let mut front = Front::new();
            waiting.extend(self.key(stream, &mut front).map(Reverse));
            fronts.push(front);
        }
        let Some(Reverse(mut current)) = waiting.pop() else { return self.work.stats };
        loop {
            let other = waiting.peek().map(|other| other.0);
            let stream = current.3;
            let front = &mut fronts[stream];
            if self.pass_on_run(stream, front, other, sink).is_break() {
                return self.work.stats;
            }
            match (self.key(stream, front), waiting.peek_mut()) {
                (Some(next), Some(mut other)) if other.0 < next => {
                    current = std::mem::replace(&mut *other, Reverse(next)).0;
                }
                (Some(next), _) => current = next,
                (None, Some(other)) => current = PeekMut::pop(other).0,
                (None, None) => return self.work.stats,
            }
        }
    }

    /// The key of the stream's next line, from its next block if this one is spent.
    fn key(&mut self, stream: usize, front: &mut Front) -> Option<Key> {
        while front.next == front.block.lines.len() {
            self.shared.recycle(std::mem::take(&mut front.block));
            front.block = loop {
                match self.shared.next(0, stream, self.reading) {
                    Next::Lines(lines) => break lines,
                    Next::Job(job) => {
                        let job = self.reading.print_job(*job, &mut self.work, &mut self.printer);
                        self.shared.give_back(job);
                    }
                    Next::End => {
                        front.next = 0;
                        return None;
                    }
                }
            };
            (front.next, front.start) = (0, 0);
        }
        Some(self.key_here(stream, front))
    }

    #[inline(always)]
    fn key_here(&self, stream: usize, front: &mut Front) -> Key {
        let line = &front.block.lines[front.next];
        front.floor = front.floor.max(line.time);
        (front.floor, self.reading.ranks[stream], line.class, stream)
    }

    /// Passes on a run: the lines of the stream's block that are earlier than all `other`
    /// streams' and go to the same target.
    fn pass_on_run(
        &mut self,
        stream: usize,
        front: &mut Front,
        other: Option<Key>,
        sink: &mut impl FnMut(Target, &[u8]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let first = front.next;
        let target = front.block.lines[first].target;
        loop {
            front.next += 1;
            match front.block.lines.get(front.next) {
                Some(next) if next.target == target => {}
                _ => break,
            }
            if other.is_some_and(|other| other < self.key_here(stream, front)) {
                break;
            }
        }
        let Front { block, next, start, .. } = front;
        let Lines { text, lines, .. } = block;
        let mut piece = *start;
        for line in &lines[first..*next] {
            if let Some(now) = line.now {
                let delta =
                    *start + usize::from(line.delta.start)..*start + usize::from(line.delta.end);
                let last = self.last.replace(now);
                if !self.printer.put_delta(text.place(delta.clone()), now, last) {
                    let printer = &self.printer;
                    sink(target, &text[piece..delta.start])?;
                    sink(target, &Text::of(|out| printer.delta(out, now, last)))?;
                    piece = delta.end;
                }
            }
            *start = line.end as usize;
        }
        sink(target, &text[piece..*start])
    }
}

impl Front {
    fn new() -> Front {
        Front { block: Lines::default(), next: 0, start: 0, floor: i64::MIN }
    }
}

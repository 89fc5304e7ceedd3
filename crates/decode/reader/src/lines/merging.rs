//! Merges the blocks of all streams: as long as one stream's lines are earlier than all others',
//! they are passed on as one piece.

use super::tasks::{Next, Shared};
use super::{LinePrinter, Lines, Target, Text};
use crate::reading::Reading;
use crate::work::{Stats, Work};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
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
    /// What that line's delta refers to, as printed.
    last: Option<u64>,
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
        while let Some(Reverse(mut key)) = waiting.pop() {
            let other = waiting.peek().map(|other| other.0);
            let stream = key.3;
            let front = &mut fronts[stream];
            // A run: lines of this stream that are earlier than all others'.
            loop {
                let first = front.next;
                let mut next = None;
                loop {
                    front.next += 1;
                    if front.next == front.block.lines.len() {
                        break;
                    }
                    key = self.key_here(stream, front);
                    if other.is_some_and(|other| other < key) {
                        next = Some(key);
                        break;
                    }
                }
                let end = front.next;
                if self.pass_on_run(front, first, end, sink).is_break() {
                    return self.work.stats;
                }
                if let Some(next) = next {
                    waiting.push(Reverse(next));
                    break;
                }
                let Some(next) = self.key(stream, front) else { break };
                if other.is_some_and(|other| other < next) {
                    waiting.push(Reverse(next));
                    break;
                }
            }
        }
        self.work.stats
    }

    /// The key of the stream's next line, from its next block if this one is spent.
    fn key(&mut self, stream: usize, front: &mut Front) -> Option<Key> {
        while front.next == front.block.lines.len() {
            self.shared.recycle(std::mem::take(&mut front.block));
            front.block = loop {
                match self.shared.next(stream, self.reading) {
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
            (front.next, front.start, front.last) = (0, 0, None);
        }
        Some(self.key_here(stream, front))
    }

    #[inline]
    fn key_here(&self, stream: usize, front: &mut Front) -> Key {
        let line = &front.block.lines[front.next];
        front.floor = front.floor.max(line.time);
        (front.floor, self.reading.ranks[stream], line.class, stream)
    }

    /// Passes on the lines from `first` to before `end`.
    fn pass_on_run(
        &mut self,
        front: &mut Front,
        first: usize,
        end: usize,
        sink: &mut impl FnMut(Target, &[u8]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Front { block, start, last, .. } = front;
        let mut piece = *start;
        let mut target = block.lines[first].target;
        for line in &block.lines[first..end] {
            if line.target != target {
                sink(target, &block.text[piece..*start])?;
                (piece, target) = (*start, line.target);
            }
            if line.now.is_some() {
                if *last != self.last || last.is_none() {
                    let (printer, last) = (&self.printer, self.last);
                    let delta = Text::of(|out| printer.delta(out, line.now.unwrap_or(0), last));
                    if !line.delta.is_empty() {
                        sink(target, &block.text[piece..*start + usize::from(line.delta.start)])?;
                        sink(target, &delta)?;
                        piece = *start + usize::from(line.delta.end);
                    }
                }
                (*last, self.last) = (line.now, line.now);
            }
            *start = line.end as usize;
        }
        sink(target, &block.text[piece..*start])
    }
}

impl Front {
    fn new() -> Front {
        Front { block: Lines::default(), next: 0, start: 0, last: None, floor: i64::MIN }
    }
}

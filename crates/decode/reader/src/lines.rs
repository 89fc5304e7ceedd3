//! Lines of text, in order of time, made on several threads.
//!
//! Time is cut into slices, and each thread prints one slice after the other, in order of time as
//! a reading on one thread would. The thread whose slice comes first passes its text on. The others
//! keep theirs until it is their turn, or leave the text of a whole slice to the thread before. So
//! nothing is left for one thread to do alone.

use crate::event::Event;
use crate::loss::Loss;
use crate::reading::{Consumer, Reading};
use crate::text::Text;
use crate::trace::{Stream, Trace};
use crate::work::Stats;
use std::ops::{ControlFlow, Range};
use std::panic::resume_unwind;
use std::thread;

mod slicer;
mod turns;

use turns::{PanicGuard, SliceText, Turns};

/// Prints events as lines.
pub trait LinePrinter: Send {
    /// What the next line's delta refers to; `None`: what it would have been without this event.
    fn now(&self, event: &Event<'_>) -> Option<u64>;

    /// Appends an event's line to `out`, and says where its delta is to be, in bytes from the
    /// line's start; empty if there is none. `None`: the event could not be read; what was
    /// appended is dropped. May be asked again for the same event, with more room.
    fn event(&mut self, out: &mut Text, event: &mut Event<'_>) -> Option<Range<u16>>;

    /// Appends a loss' line to `out`, and says where it goes.
    fn loss(&mut self, out: &mut Text, trace: &Trace, stream: &Stream, loss: &Loss) -> Target;

    /// Writes the delta, the part of a line that depends on the line before, in its place; `false`
    /// if it does not fit exactly. `last` is the `now` of the line before, if there was one.
    fn put_delta(&self, place: &mut [u8], now: u64, last: Option<u64>) -> bool;

    /// Appends the delta.
    fn delta(&self, out: &mut Text, now: u64, last: Option<u64>);
}

/// Where a line goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// With the events.
    Output,
    /// With what is said about them.
    Messages,
}

/// Bytes of text that are passed on together.
const BLOCK_SIZE: usize = 256 << 10;

impl Reading<'_> {
    /// Prints all events and losses, in order, with printers that `make` makes, and passes the
    /// text on to `sink` until it breaks.
    pub fn lines<P: LinePrinter>(
        &self,
        make: impl Fn() -> P + Sync,
        sink: impl FnMut(Target, &[u8]) -> ControlFlow<()> + Send,
    ) -> Stats {
        if self.threads == 1 || self.limit.is_some() {
            let mut printing = Printing::new(make(), sink);
            let stats = self.ordered(&mut printing);
            let _ = printing.flush();
            return stats;
        }
        let turns = Turns::new(self, sink);
        let mut stats = thread::scope(|scope| {
            let print = || self.print_slices(&turns, make());
            let workers: Vec<_> = (1..self.threads).map(|_| scope.spawn(print)).collect();
            let mut all = print();
            for worker in workers {
                let of_worker = worker.join().unwrap_or_else(|panic| resume_unwind(panic));
                all.known.add(of_worker.known);
                all.open.extend(of_worker.open);
            }
            all.settle(|number| turns.counts(number));
            all.known
        });
        stats.problems.append(&mut turns.take_problems());
        stats.drop_repeated_problems();
        stats
    }

    /// Prints slices until there are none left.
    fn print_slices<P, S>(&self, turns: &Turns<'_, S>, printer: P) -> SliceStats
    where
        P: LinePrinter,
        S: FnMut(Target, &[u8]) -> ControlFlow<()>,
    {
        let _guard = PanicGuard(turns);
        let mut stats = SliceStats::default();
        let mut lanes: Vec<_> = (0..self.stream_count()).map(|n| self.empty_lane(n)).collect();
        let mut text = SliceText::new(printer, turns);
        let mut spare = Vec::new();
        while let Some(slice) = turns.next_slice(&mut spare) {
            text.begin(slice.number);
            for (lane, part) in lanes.iter_mut().zip(slice.parts) {
                lane.cursor.take_over(part.read, &mut spare);
                lane.begin_slice(part.packets, part.begun, part.last_number, slice.span);
                if slice.is_rest {
                    lane.go_on(self.packets(lane.stream));
                }
            }
            let part;
            (part, lanes) = self.ordered_lanes(lanes, &mut text);
            text.end();
            stats.open.push((slice.number, part));
            stats.settle(|number| turns.counts(number));
        }
        stats
    }
}

/// Stats of the slices that a thread has printed.
#[derive(Default)]
struct SliceStats {
    /// Slices that are known to count.
    known: Stats,
    /// Slices that an earlier one may still replace, by number.
    open: Vec<(usize, Stats)>,
}

impl SliceStats {
    /// Adds those that are known to count by now, and drops those that are known not to.
    fn settle(&mut self, counts: impl Fn(usize) -> Option<bool>) {
        for (number, stats) in std::mem::take(&mut self.open) {
            match counts(number) {
                Some(true) => self.known.add(stats),
                Some(false) => {}
                None => self.open.push((number, stats)),
            }
        }
    }
}

/// The plain way: one thread, each line in its turn.
#[derive(Debug)]
pub struct Printing<P, S> {
    printer: P,
    out: Text,
    last: Option<u64>,
    sink: S,
}

impl<P: LinePrinter, S: FnMut(Target, &[u8]) -> ControlFlow<()>> Printing<P, S> {
    /// Prints with `printer` to `sink`.
    pub fn new(printer: P, sink: S) -> Printing<P, S> {
        Printing { printer, out: Text::default(), last: None, sink }
    }

    /// Hands over what has been printed.
    pub fn flush(&mut self) -> ControlFlow<()> {
        let flow = match self.out.is_empty() {
            true => ControlFlow::Continue(()),
            false => (self.sink)(Target::Output, &self.out),
        };
        self.out.clear();
        flow
    }
}

impl<P: LinePrinter, S: FnMut(Target, &[u8]) -> ControlFlow<()>> Consumer for Printing<P, S> {
    #[inline]
    fn event(&mut self, event: &mut Event<'_>) -> ControlFlow<()> {
        let Some((now, delta)) = print_event(&mut self.printer, &mut self.out, event) else {
            return ControlFlow::Continue(());
        };
        if let Some(now) = now {
            let last = self.last.replace(now);
            set_delta(&self.printer, &mut self.out, delta, now, last);
        }
        if self.out.len() >= BLOCK_SIZE { self.flush() } else { ControlFlow::Continue(()) }
    }

    fn loss(&mut self, trace: &Trace, stream: &Stream, loss: &Loss) -> ControlFlow<()> {
        let start = self.out.len();
        let printer = &mut self.printer;
        let target = self.out.append(|out| printer.loss(out, trace, stream, loss));
        if target == Some(Target::Messages) {
            let message = self.out[start..].to_vec();
            self.out.truncate(start);
            self.flush()?;
            return (self.sink)(Target::Messages, &message);
        }
        if self.out.len() >= BLOCK_SIZE { self.flush() } else { ControlFlow::Continue(()) }
    }
}

/// Appends an event's line; gives its `now`, and the place of its delta in the text.
#[inline(always)]
fn print_event(
    printer: &mut impl LinePrinter,
    out: &mut Text,
    event: &mut Event<'_>,
) -> Option<(Option<u64>, Range<usize>)> {
    let start = out.len();
    let now = printer.now(event);
    match out.append(|out| printer.event(out, event)) {
        Some(Some(delta)) => {
            Some((now, start + usize::from(delta.start)..start + usize::from(delta.end)))
        }
        Some(None) => {
            out.truncate(start);
            None
        }
        None => {
            event.is_too_large();
            None
        }
    }
}

/// Fills in the last line's delta.
#[inline(always)]
fn set_delta(
    printer: &impl LinePrinter,
    out: &mut Text,
    place: Range<usize>,
    now: u64,
    last: Option<u64>,
) {
    if !printer.put_delta(out.place(place.clone()), now, last) {
        out.replace(place, &Text::of(|text| printer.delta(text, now, last)));
    }
}

//! Lines of text, in order of time, made on several threads.
//!
//! Time is cut into slices, and each thread prints one slice after the other, in order of time as
//! a reading on one thread would. The thread whose slice comes first passes its text on. The others
//! keep theirs until it is their turn, or leave the text of a whole slice to the thread before. So
//! nothing is left for one thread to do alone.

use crate::reading::Reading;
use crate::stats::Stats;
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::thread;

mod printer;
mod slicer;
mod turns;

pub use printer::{LinePrinter, Printing, Target};
use turns::{PanicGuard, SliceText, Turns};

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

//! Printing of events as lines of text in order of time, by several threads.
//!
//! Time is divided into slices, and each thread prints one slice at a time. The thread with the
//! earliest slice writes its text to the output. Each other thread buffers its text until all
//! earlier slices are written, or passes the text of a whole slice to the writing thread. No
//! separate thread for writing is needed.

use crate::reading::Reading;
use crate::stats::Stats;
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::thread;

mod printer;
mod queue;
mod slicer;

pub use printer::{LinePrinter, Printing, Target};
use queue::{PanicGuard, SliceQueue, SliceText};

impl Reading<'_> {
    /// Prints the selected events and losses in order, and passes the text to `sink` until `sink`
    /// returns [`ControlFlow::Break`]. Each thread has a printer of its own, made by `make`; a
    /// reading with a limit uses one thread. Returns the totals.
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
        let queue = SliceQueue::new(self, sink);
        let mut stats = thread::scope(|scope| {
            let print = || self.print_slices(&queue, make());
            let workers: Vec<_> = (1..self.threads).map(|_| scope.spawn(print)).collect();
            let mut all = print();
            for worker in workers {
                let of_worker = worker.join().unwrap_or_else(|panic| resume_unwind(panic));
                all.valid.add(of_worker.valid);
                all.undecided.extend(of_worker.undecided);
            }
            all.settle(|number| queue.is_valid(number));
            all.valid
        });
        stats.problems.append(&mut queue.take_problems());
        stats.deduplicate_problems();
        stats
    }

    /// Prints slices until the queue returns no further slice, and returns their totals.
    fn print_slices<P, S>(&self, queue: &SliceQueue<'_, S>, printer: P) -> SliceStats
    where
        P: LinePrinter,
        S: FnMut(Target, &[u8]) -> ControlFlow<()>,
    {
        let _guard = PanicGuard(queue);
        let mut stats = SliceStats::default();
        let mut inputs: Vec<_> = (0..self.stream_count()).map(|n| self.empty_input(n)).collect();
        let mut text = SliceText::new(printer, queue);
        let mut spare = Vec::new();
        while let Some(slice) = queue.next_slice(&mut spare) {
            text.begin(slice.number);
            for (input, part) in inputs.iter_mut().zip(slice.parts) {
                input.cursor.accept_bytes(part.read, &mut spare);
                input.begin_slice(part.packets, part.started_packets, part.last_number, slice.span);
                if slice.extends_to_end {
                    input.extend_to_end(self.packets(input.stream));
                }
            }
            let part;
            (part, inputs) = self.merge_inputs(inputs, &mut text);
            text.end();
            stats.undecided.push((slice.number, part));
            stats.settle(|number| queue.is_valid(number));
        }
        stats
    }
}

/// Totals of the slices that one thread has printed.
#[derive(Default)]
struct SliceStats {
    /// Totals of slices that are part of the output.
    valid: Stats,
    /// Number and totals of each slice that may lie after the end of the output. The end is not
    /// known yet.
    undecided: Vec<(usize, Stats)>,
}

impl SliceStats {
    /// Adds the totals of slices that are known to be part of the output. Drops the totals of
    /// slices after the output's end.
    fn settle(&mut self, is_valid: impl Fn(usize) -> Option<bool>) {
        for (number, stats) in std::mem::take(&mut self.undecided) {
            match is_valid(number) {
                Some(true) => self.valid.add(stats),
                Some(false) => {}
                None => self.undecided.push((number, stats)),
            }
        }
    }
}

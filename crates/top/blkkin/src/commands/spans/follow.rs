//! `blkkin spans --follow`: prints or sends requests as they become complete, until Ctrl-C, a write
//! error or the limit. After Ctrl-C, the open requests follow.

use super::options::Args;
use super::printing::Printing;
use crate::exit::{self, Error};
use crate::input::Selection;
use crate::interrupt::Interrupt;
use blkkin_reader::{Follower, Source, Stats};
use blkkin_spans::Collector;
use std::time::{Duration, Instant};

/// Maximum time that a round of reading continues after Ctrl-C.
const GRACE: Duration = Duration::from_secs(1);

/// Follows the traces; returns the collector, whose totals are not printed yet.
pub(super) fn run(
    args: &Args,
    interrupt: &Interrupt,
) -> Result<(Collector<Printing>, Stats), Error> {
    let sources = args.input.sources()?;
    if sources.iter().any(|source| matches!(source, Source::Stdin { .. })) {
        return Err(Error::usage("--follow cannot read standard input")
            .hint("give the directory that the recording is written to"));
    }
    if sources.is_empty() {
        return Err(Error::usage("--follow needs a PATH to follow")
            .hint("without it, what waits in the queue is sent"));
    }
    let mut follower = Follower::new(&sources);
    // Warnings are reported with all other problems at the end.
    for problem in follower.problems().iter().filter(|problem| !problem.is_warning()) {
        exit::warn(&format!("{problem}; waiting for what may come"));
    }
    let printing = Printing::new(args, interrupt)?;
    let mut collector = Collector::new(args.limits(), printing);
    let mut stats = Stats::default();
    let mut times = args.select.times(follower.traces(), args.clock_gmt)?;
    let filter = args.select.growing_filter(follower.traces(), args.color)?;
    let mut is_new = true;
    let start = Instant::now();
    let now = || i64::try_from(start.elapsed().as_nanos()).unwrap_or(i64::MAX);
    loop {
        // Read the flag first, so that events recorded before it was set are still read in the last
        // round.
        let ends = interrupt.is_set();
        is_new |= follower.refresh(ends);
        if std::mem::take(&mut is_new) {
            collector.sink.begin(follower.traces());
            if !times.are_final {
                times = args.select.times(follower.traces(), args.clock_gmt)?;
            }
        }
        let selection = Selection { range: times.range, filter: filter.clone() };
        let _ = collector.advance(now());
        if !collector.sink.is_over() {
            let asked = interrupt.clone();
            stats.add(follower.deliver(
                |reading| selection.apply(reading).stop_when(move || asked.is_set_since(GRACE)),
                &mut collector,
            ));
        }
        collector.sink.flush();
        if ends && !collector.sink.is_over() {
            let _ = collector.finish();
        }
        if ends || collector.sink.is_over() {
            stats.problems.extend(follower.problems());
            return Ok((collector, stats));
        }
        if !interrupt.is_set() {
            follower.wait();
        }
    }
}

//! `blkkin spans --follow`: prints or sends requests as they become complete, until Ctrl-C, a write
//! error, the limit or the end of a relay's session. After that, the open requests follow.

use super::options::Args;
use super::printing::Printing;
use crate::exit::Error;
use crate::input::Selection;
use crate::interrupt::Interrupt;
use crate::live::Feed;
use blkkin_live::Late;
use blkkin_reader::Stats;
use blkkin_spans::Collector;
use std::time::{Duration, Instant};

/// Maximum time that a round of reading continues after Ctrl-C.
const GRACE: Duration = Duration::from_secs(1);

/// Result of following traces: the collector, whose totals are not printed yet, and the totals of
/// the reading.
pub(super) struct FollowResult {
    pub(super) collector: Collector<Printing>,
    pub(super) stats: Stats,
    /// Error of the relay.
    pub(super) feed: Result<(), Error>,
}

/// Follows the traces.
pub(super) fn run(args: &Args, interrupt: &Interrupt) -> Result<FollowResult, Error> {
    if args.input.paths.is_empty() {
        return Err(Error::usage("--follow needs a PATH to follow")
            .hint("without it, what waits in the queue is sent"));
    }
    let mut feed = Feed::open(&args.input, &args.relay, args.time_base())?;
    let mut follower = feed.follower();
    let printing = Printing::new(args, interrupt)?;
    let mut late = Late::new(Collector::new(args.limits(), printing), args.time_base());
    let mut stats = Stats::default();
    let mut times = args.select.times(follower.traces(), args.clock_gmt)?;
    let filter = args.select.growing_filter(follower.traces(), args.color)?;
    let mut is_new = true;
    let start = Instant::now();
    let now = || i64::try_from(start.elapsed().as_nanos()).unwrap_or(i64::MAX);
    loop {
        let round = feed.begin_round(interrupt);
        is_new |= follower.refresh(round.is_last);
        if std::mem::take(&mut is_new) {
            late.consumer.sink.begin(follower.traces());
            if !times.are_final {
                times = args.select.times(follower.traces(), args.clock_gmt)?;
            }
        }
        let selection = Selection { range: times.range, filter: filter.clone() };
        let _ = late.consumer.advance(now());
        if !late.consumer.sink.is_over() {
            let asked = interrupt.clone();
            stats.add(round.deliver(
                &mut follower,
                |reading| selection.apply(reading).stop_when(move || asked.is_set_since(GRACE)),
                &mut late,
            ));
        }
        let count = late.count();
        let collector = &mut late.consumer;
        collector.sink.flush();
        if round.is_last && !collector.sink.is_over() {
            let _ = collector.finish();
        }
        if round.is_last || collector.sink.is_over() {
            stats.problems.extend(follower.problems());
            let feed = feed.conclude(stats.events, count);
            return Ok(FollowResult { collector: late.consumer, stats, feed });
        }
        feed.wait(&follower, interrupt);
    }
}

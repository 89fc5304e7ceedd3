//! `blkkin view --follow` and `blkkin view net://…`: prints the events of growing traces, until
//! Ctrl-C, a closed pipe, the limit or the end of a relay's session.

use super::count::Count;
use super::options::Args;
use crate::exit::Error;
use crate::input::Selection;
use crate::interrupt::Interrupt;
use crate::live::Feed;
use crate::output::{EscapedOutput, raw_stdout, stderr};
use blkkin_live::Late;
use blkkin_reader::{Consumer, Follower, LinePrinter, Printing, Problem, Stats, Target, TimeBase};
use blkkin_text::json::{self, JsonPrinter};
use blkkin_text::pretty::{Options, Printer};
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::time::Duration;

/// Maximum time after Ctrl-C in which events are still read and printed.
const GRACE: Duration = Duration::from_secs(1);

/// Output of events to standard output, and of messages to standard error.
struct Lines {
    out: EscapedOutput<File>,
    interrupt: Interrupt,
    wrote: io::Result<()>,
}

impl Lines {
    fn write(&mut self, target: Target, text: &[u8]) -> ControlFlow<()> {
        if self.wrote.is_ok() {
            self.wrote = match target {
                Target::Output => self.out.write_all(text),
                Target::Messages => stderr().write_all(text),
            };
        }
        match self.are_over() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn are_over(&self) -> bool {
        self.wrote.is_err() || self.interrupt.is_set_since(GRACE)
    }
}

/// Result of following traces: totals, and the first failed write.
pub(super) struct FollowResult {
    pub(super) stats: Stats,
    pub(super) wrote: io::Result<()>,
    /// Problems of the follower at the end, which are also among those of `stats`.
    pub(super) problems: Vec<Problem>,
    /// Error of the relay.
    pub(super) feed: Result<(), Error>,
}

pub(super) fn run(
    args: &Args,
    options: &Options,
    interrupt: &Interrupt,
) -> Result<FollowResult, Error> {
    let mut feed = Feed::open(&args.input, &args.relay, TimeBase::Recorded)?;
    let mut follower = feed.follower();
    let lines = Lines { out: raw_stdout()?, interrupt: interrupt.clone(), wrote: Ok(()) };
    let lines = RefCell::new(lines);
    let mut following =
        Following { args, interrupt, lines: &lines, feed: &mut feed, follower: &mut follower };
    let (stats, late) = match (args.count, args.json) {
        (true, _) => following.follow(Count, |_| {})?,
        (_, true) => following.print(JsonPrinter::default())?,
        _ => following.print(Printer::new(options.clone()))?,
    };
    let mut lines = lines.into_inner();
    if args.json {
        let _ = lines.write(Target::Output, &json::end(&stats));
    } else if args.count {
        let _ = lines.write(Target::Output, format!("{}\n", stats.events).as_bytes());
    }
    let problems = follower.problems();
    let feed = feed.conclude(stats.events, late);
    Ok(FollowResult { stats, wrote: lines.wrote, problems, feed })
}

/// Sources that are followed, and the output.
struct Following<'f> {
    args: &'f Args,
    interrupt: &'f Interrupt,
    lines: &'f RefCell<Lines>,
    feed: &'f mut Feed,
    follower: &'f mut Follower,
}

impl Following<'_> {
    fn print<P: LinePrinter>(&mut self, printer: P) -> Result<(Stats, u64), Error> {
        let lines = self.lines;
        let write = |target, text: &[u8]| lines.borrow_mut().write(target, text);
        self.follow(Printing::new(printer, write), |printing| {
            let _ = printing.flush();
        })
    }

    /// Passes all events to `consumer`, and calls `flush` after each round. Returns the totals, and
    /// the number of late events.
    fn follow<C: Consumer>(
        &mut self,
        consumer: C,
        flush: impl Fn(&mut C),
    ) -> Result<(Stats, u64), Error> {
        let Following { args, interrupt, lines, feed, follower } = self;
        let mut late = Late::new(consumer, TimeBase::Recorded);
        let mut stats = Stats::default();
        let mut times = args.select.times(follower.traces(), args.clock_gmt)?;
        let filter = args.select.growing_filter(follower.traces(), args.color)?;
        let mut is_new = true;
        loop {
            let round = feed.begin_round(interrupt);
            is_new |= follower.refresh(round.is_last);
            if is_new && args.json {
                let begin = json::begin(follower.traces().iter().map(|trace| &**trace));
                let _ = lines.borrow_mut().write(Target::Output, &begin);
            }
            if std::mem::take(&mut is_new) && !times.are_final {
                times = args.select.times(follower.traces(), args.clock_gmt)?;
            }
            let selection = Selection { range: times.range, filter: filter.clone() };
            let limit = args.limit.map(|limit| limit - stats.events);
            let asked = interrupt.clone();
            let part = round.deliver(
                follower,
                |reading| {
                    let reading = selection.apply(reading).limit(limit);
                    reading.stop_when(move || asked.is_set_since(GRACE))
                },
                &mut late,
            );
            stats.add(part);
            let is_full = args.limit.is_some_and(|limit| stats.events >= limit);
            flush(&mut late.consumer);
            if lines.borrow().are_over() || round.is_last || is_full {
                stats.problems.extend(follower.problems());
                return Ok((stats, late.count()));
            }
            feed.wait(follower, interrupt);
        }
    }
}

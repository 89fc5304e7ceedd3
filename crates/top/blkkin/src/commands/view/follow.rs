//! `blkkin view --follow`: prints the events of growing traces, until Ctrl-C, a closed pipe or the
//! limit.

use super::options::Args;
use crate::exit::{self, Error};
use crate::input::Selection;
use crate::interrupt::Interrupt;
use crate::output::{EscapedOutput, raw_stdout, stderr};
use blkkin_reader::{Follower, LinePrinter, Printing, Problem, Source, Stats, Target};
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
}

pub(super) fn run(
    args: &Args,
    options: &Options,
    interrupt: &Interrupt,
) -> Result<FollowResult, Error> {
    let sources = args.input.sources()?;
    if sources.iter().any(|source| matches!(source, Source::Stdin { .. })) {
        return Err(Error::usage("--follow cannot read standard input")
            .hint("give the directory that the recording is written to"));
    }
    let mut follower = Follower::new(&sources);
    // Warnings are reported with all other problems at the end.
    for problem in follower.problems().iter().filter(|problem| !problem.is_warning()) {
        exit::warn(&format!("{problem}; waiting for what may come"));
    }
    let lines = Lines { out: raw_stdout()?, interrupt: interrupt.clone(), wrote: Ok(()) };
    let lines = RefCell::new(lines);
    let stats = match args.json {
        true => follow(args, &mut follower, interrupt, JsonPrinter::default(), &lines)?,
        false => follow(args, &mut follower, interrupt, Printer::new(options.clone()), &lines)?,
    };
    let mut lines = lines.into_inner();
    if args.json {
        let _ = lines.write(Target::Output, &json::end(&stats));
    }
    Ok(FollowResult { stats, wrote: lines.wrote, problems: follower.problems() })
}

fn follow<P: LinePrinter>(
    args: &Args,
    follower: &mut Follower,
    interrupt: &Interrupt,
    printer: P,
    lines: &RefCell<Lines>,
) -> Result<Stats, Error> {
    let write = |target, text: &[u8]| lines.borrow_mut().write(target, text);
    let mut printing = Printing::new(printer, write);
    let mut stats = Stats::default();
    let mut times = args.select.times(follower.traces(), args.clock_gmt)?;
    let filter = args.select.growing_filter(follower.traces(), args.color)?;
    let mut is_new = true;
    loop {
        // Read the flag first, so that events recorded before it was set are still printed in the
        // last round.
        let ends = interrupt.is_set();
        is_new |= follower.refresh(ends);
        if is_new && args.json {
            let _ = write(Target::Output, &json::begin(follower.traces().iter().map(|t| &**t)));
        }
        if std::mem::take(&mut is_new) && !times.are_final {
            times = args.select.times(follower.traces(), args.clock_gmt)?;
        }
        let selection = Selection { range: times.range, filter: filter.clone() };
        let limit = args.limit.map(|limit| limit - stats.events);
        let part = follower.deliver(
            |reading| {
                let asked = interrupt.clone();
                let reading = selection.apply(reading).limit(limit);
                reading.stop_when(move || asked.is_set_since(GRACE))
            },
            &mut printing,
        );
        stats.add(part);
        let is_full = args.limit.is_some_and(|limit| stats.events >= limit);
        let _ = printing.flush();
        if lines.borrow().are_over() || ends || is_full {
            stats.problems.extend(follower.problems());
            return Ok(stats);
        }
        if !interrupt.is_set() {
            follower.wait();
        }
    }
}

//! `blkkin spans`: assembles requests from events, and prints them as trees or JSON or sends them
//! to another system.

mod delivery;
mod follow;
mod options;
mod printing;

use crate::exit::{self, Error, Exit};
use crate::interrupt::Interrupt;
use crate::output::{describe_losses, ignore_closed_pipe, plural};
use crate::progress::ProgressLine;
use blkkin_reader::{Reading, Stats, TimeBase};
use blkkin_spans::Collector;
use follow::FollowResult;
use printing::Printing;
use std::io::{self, IsTerminal};

pub(crate) use options::Args;

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    let interrupt = Interrupt::listen()?;
    if args.follow {
        let FollowResult { collector, stats, feed } = follow::run(&args, &interrupt)?;
        let exit = conclude(collector, &stats, args.kernel, &interrupt)?;
        return feed.map(|()| exit);
    }
    if args.input.url()?.is_some() || args.relay.from.is_some() {
        return Err(Error::usage("sessions of a relay are read while they are recorded")
            .hint("add --follow"));
    }
    let mut opened = args.input.open()?;
    if args.time_base() == TimeBase::Relay {
        opened.align();
    }
    let reading = Reading::new(&opened.traces);
    let color = args.color.applies(&io::stderr());
    let selection = args.select.resolve(&opened.traces, args.clock_gmt, color)?;
    let asked = interrupt.clone();
    let reading = selection.apply(reading).stop_when(move || asked.is_set());
    let quiet = io::stdout().is_terminal();
    let line = ProgressLine::start(reading.progress(), reading.total_bytes(), quiet);

    let mut printing = Printing::new(&args, &interrupt)?;
    printing.begin(&opened.traces);
    let mut collector = Collector::new(args.limits(), printing);
    let mut stats =
        if collector.sink.is_over() { Stats::default() } else { reading.ordered(&mut collector) };
    drop(line);
    if !collector.sink.is_over() {
        let _ = collector.finish();
    }
    stats.problems.splice(0..0, opened.problems.iter().cloned());
    conclude(collector, &stats, args.kernel, &interrupt)
}

/// Prints why own times are missing: nothing recorded them, or the spans of their events are
/// unknown.
fn describe_own_times(printing: &Printing, unmatched: u64) {
    if printing.shown() > 0 && !printing.has_own_time() {
        exit::note(
            "no event tells what own times were spent on; record them in the session: blkkin event \
             enable --kernel 'request:*'",
        );
    }
    if unmatched > 0 {
        let events = plural(unmatched, "event");
        exit::note(&format!("{events} of threads and disks for spans that were not recorded"));
    }
}

/// Prints totals, losses and problems; returns the exit status. `is_kernel` is set if own times
/// were to be shown.
fn conclude(
    mut collector: Collector<Printing>,
    stats: &Stats,
    is_kernel: bool,
    interrupt: &Interrupt,
) -> Result<Exit, Error> {
    let (counts, others) = (collector.counts(), collector.unrelated_events());
    let unattributed = collector.unattributed_events();
    let refusals = collector.refusals().clone();
    let printing = &mut collector.sink;
    printing.end(&blkkin_text::requests::json::End {
        counts,
        shown: printing.shown(),
        refusals: &refusals,
        others,
        unattributed,
        stats,
    });
    let shown = printing.shown();
    let wrote = printing.take_error();
    if wrote.is_err() {
        ignore_closed_pipe(wrote)?;
        // The output's pipe is closed, so the remaining messages do not matter.
        return Ok(exit::report_problems(&stats.problems));
    }
    if refusals.events > 0 {
        exit::warn(&refusals.to_string());
    }
    if counts.evicted > 0 {
        let evicted = plural(counts.evicted, "request");
        exit::warn(&format!(
            "{evicted} shown before complete: the memory was full; see --memory and --idle"
        ));
    }
    if counts.left_out > 0 {
        let (cut, left_out) = (plural(counts.cut, "request"), plural(counts.left_out, "event"));
        exit::warn(&format!("{left_out} left out of {cut} that would be too large"));
    }
    if counts.events == 0 && stats.events > 0 {
        let events = plural(stats.events, "event");
        exit::note(&format!("no request: none of {events} says anything of spans"));
    }
    if is_kernel {
        describe_own_times(&collector.sink, counts.unmatched);
    }
    if let Some(lost) = describe_losses(stats) {
        let shown = plural(shown, "request");
        exit::note(&format!("lost by the tracer in all: {lost} ({shown} shown)"));
    }
    let delivered = collector.sink.report_delivery();
    let exit = match exit::report_problems(&stats.problems) {
        Exit::Ok => delivered,
        failed => failed,
    };
    Ok(if interrupt.is_set() { Exit::Interrupted } else { exit })
}

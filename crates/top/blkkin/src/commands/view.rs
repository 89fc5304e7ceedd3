//! `blkkin view`: prints events as text or JSON, or counts them.

mod count;
mod follow;
mod options;

use crate::exit::{self, Error, Exit};
use crate::interrupt::Interrupt;
use crate::output::{describe_losses, ignore_closed_pipe, plural, raw_stdout, stderr};
use crate::progress::ProgressLine;
use blkkin_reader::{Problem, Reading, Stats, Target};
use blkkin_text::json::{self, JsonPrinter};
use blkkin_text::pretty::Printer;
use count::Count;
use follow::FollowResult;
use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;

pub(crate) use options::Args;

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    let options = args.printer_options()?;
    if args.follow || args.relay.from.is_some() || args.input.url()?.is_some() {
        let interrupt = Interrupt::listen()?;
        let FollowResult { stats, wrote, problems, feed } =
            follow::run(&args, &options, &interrupt)?;
        let exit = conclude(wrote, &problems, &stats, &interrupt)?;
        return feed.map(|()| exit);
    }
    let opened = args.input.open()?;
    let color = args.color.applies(&io::stderr());
    let reading = Reading::new(&opened.traces).threads(args.input.threads()).limit(args.limit);
    let selection = args.select.resolve(&opened.traces, args.clock_gmt, color)?;
    let interrupt = Interrupt::listen()?;
    let asked = interrupt.clone();
    let reading = selection.apply(reading).stop_when(move || asked.is_set());
    let quiet = !args.count && io::stdout().is_terminal();
    let line = ProgressLine::start(reading.progress(), reading.total_bytes(), quiet);

    let mut out = io::BufWriter::with_capacity(64 << 10, raw_stdout()?);
    let mut wrote = Ok(());
    let mut keep = |result: io::Result<()>| match result {
        Ok(()) if interrupt.is_set() => ControlFlow::Break(()),
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            wrote = Err(error);
            ControlFlow::Break(())
        }
    };
    let mut pass_on = |target, text: &[u8]| match target {
        Target::Output => keep(out.write_all(text)),
        // Events are flushed first, so that a message appears at its place if both outputs are one
        // terminal.
        Target::Messages => keep(out.flush().and_then(|()| stderr().write_all(text))),
    };
    let mut stats = if args.count {
        count(&reading, args.limit.is_some())
    } else if args.json {
        let begin = json::begin(opened.traces.iter().map(|trace| &**trace));
        match pass_on(Target::Output, &begin) {
            ControlFlow::Break(()) => Stats::default(),
            ControlFlow::Continue(()) => reading.lines(JsonPrinter::default, pass_on),
        }
    } else {
        reading.lines(|| Printer::new(options.clone()), pass_on)
    };
    drop(line);
    stats.problems.splice(0..0, opened.problems.iter().cloned());
    let wrote = wrote.and_then(|()| match (args.count, args.json) {
        (true, _) => writeln!(out, "{}", stats.events),
        (_, true) => out.write_all(&json::end(&stats)),
        _ => Ok(()),
    });
    let wrote = wrote.and_then(|()| out.flush());
    conclude(wrote, &opened.problems, &stats, &interrupt)
}

/// Reports losses and problems after the reading; returns the exit status. `wrote` is the result of
/// the output, `problems` are those of opening or following the traces.
fn conclude(
    wrote: io::Result<()>,
    problems: &[Problem],
    stats: &Stats,
    interrupt: &Interrupt,
) -> Result<Exit, Error> {
    if wrote.is_err() {
        ignore_closed_pipe(wrote)?;
        // The output's pipe is closed, so messages about the reading do not matter.
        return Ok(exit::report_problems(problems));
    }
    report_losses(stats);
    let exit = exit::report_problems(&stats.problems);
    Ok(if interrupt.is_set() { Exit::Interrupted } else { exit })
}

/// Counts events. They are read in time order only if `in_order` is set, as a limit selects the
/// earliest events.
pub(super) fn count(reading: &Reading<'_>, in_order: bool) -> Stats {
    match in_order {
        true => reading.ordered(&mut Count),
        false => reading.unordered(|| Count).1,
    }
}

/// Reports the total numbers of lost events and packets on standard error.
fn report_losses(stats: &Stats) {
    if let Some(lost) = describe_losses(stats) {
        let shown = plural(stats.events, "event");
        let _ = writeln!(stderr(), "lost by the tracer in all: {lost} ({shown} shown)");
    }
}

//! `blkkin io`: shows the file and network operations of chosen programs, live or from a trace.

mod apps;
mod choice;
mod control;
mod control_socket;
mod gate;
mod options;
mod outcome;
mod preload;
mod recording;
mod show;

use crate::exit::{self, Error, Exit};
use crate::interrupt::Interrupt;
use crate::output::plural;
use blkkin_reader::{Follower, Reading, Source};
use choice::Choice;
use options::{Command, Format};
use outcome::Outcome;
use recording::{Ends, Recording};
use show::Shower;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub(crate) use options::Args;

/// Interval between two checks for Ctrl-C and for the end of the command.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Interval between two drawings of the summary on a terminal.
const DRAW_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    if let Some(Command::Apps(apps)) = &args.command {
        return apps::run(apps);
    }
    if args.gate {
        return Ok(gate::pass(&args.run));
    }
    if !args.from.is_empty() {
        return show_trace(&args);
    }
    if args.apps.is_empty() && args.pids.is_empty() && args.run.is_empty() {
        return Err(Error::usage("no program is chosen").hint(
            "give --app NAME, --pid PID, or a command after `--`; --from TRACE reads a trace",
        ));
    }
    if args.limit.is_some() && !args.has_view() {
        return Err(Error::usage("--limit counts the operations that are shown, and none are")
            .hint("add --format, --json or --summary, or leave out --limit"));
    }
    match args.preload {
        true => preload::run(&args),
        false => record(&args),
    }
}

/// Returns the path of the library for `--preload`.
pub(crate) fn preload_library() -> Result<PathBuf, Error> {
    preload::find_library()
}

/// Returns an error if process ids differ from those of the kernel's probes.
pub(crate) fn check_namespace() -> Result<(), Error> {
    recording::check_namespace()
}

/// Shows the operations in recorded traces.
fn show_trace(args: &Args) -> Result<Exit, Error> {
    let sources: Vec<Source> = args.from.iter().cloned().map(Source::Path).collect();
    let opened = blkkin_reader::open(&sources);
    let interrupt = Interrupt::listen()?;
    let asked = interrupt.clone();
    let mut shower = Shower::new(args)?;
    let reading = Reading::new(&opened.traces).stop_when(move || asked.is_set());
    let mut stats = reading.ordered(&mut shower);
    stats.problems.splice(0..0, opened.problems.iter().cloned());
    shower.finish()?;
    if shower.operations() == 0 && stats.problems.is_empty() && !interrupt.is_set() {
        exit::warn("no operation was found; is it a trace of `blkkin io -o`?");
    }
    let exit = exit::report_problems(&stats.problems);
    Ok(if interrupt.is_set() { Exit::Interrupted } else { exit })
}

/// Records the chosen programs until Ctrl-C, the end of the command, or the limit.
fn record(args: &Args) -> Result<Exit, Error> {
    let interrupt = Interrupt::listen()?;
    let begun = Instant::now();
    let (mut recording, handle) = Recording::start(args)?;
    recording.choose(Choice::Names(args.apps.iter().cloned().collect()))?;
    for pid in &args.pids {
        recording.choose(Choice::Process(*pid))?;
    }
    // Only a list of names can be changed.
    let _control = match args.apps.is_empty() {
        true => None,
        false => Some(control::Server::start(handle, args.apps.iter().cloned().collect())?),
    };
    let mut child = match args.run.is_empty() {
        true => None,
        false => Some(gate::Gated::start(&args.run, |pid| recording.choose(Choice::Process(pid)))?),
    };
    let mut shower = Shower::new(args)?;
    let mut follower = Follower::new(&recording.sources());
    let mut problems = Vec::new();
    let is_screen = args.summary && args.format() == Format::Columns && shower.is_terminal();
    let mut drawn = Instant::now();
    let mut status = None;
    loop {
        let progress = recording.wait(CHECK_INTERVAL);
        if args.has_view() {
            follower.refresh(progress.has_ended);
            let part = follower.deliver_until(progress.end_ns, |reading| reading, &mut shower);
            problems.extend(part.problems);
            shower.flush()?;
        }
        if progress.has_ended {
            break;
        }
        if is_screen && drawn.elapsed() >= DRAW_INTERVAL {
            drawn = Instant::now();
            shower.draw()?;
        }
        if let Some(child) = &mut child
            && status.is_none()
        {
            status = child.try_wait()?;
        }
        if interrupt.is_set() || status.is_some() || shower.is_over() {
            recording.stop();
        }
    }
    if args.has_view() {
        problems.extend(follower.problems());
    }
    shower.finish()?;
    let ends = recording.finish()?;
    summarize(args, &ends, begun.elapsed());
    Ok(Outcome {
        problems,
        command: status,
        has_losses: ends.lost > 0,
        is_interrupted: interrupt.is_set(),
    }
    .report())
}

/// Prints the losses and, for a recorded trace, what was recorded.
fn summarize(args: &Args, ends: &Ends, took: Duration) {
    if let Some(output) = &args.output {
        exit::note(&format!(
            "{} in {:.1} s, {} in {}",
            plural(ends.recorded, "event"),
            took.as_secs_f64(),
            blkkin_text::info::units::bytes(ends.bytes),
            output.display()
        ));
    }
    if ends.lost > 0 {
        exit::warn(&format!(
            "{} lost, because the buffer was full; --buffer SIZE makes it larger, and -o DIR \
             without other output options is the fastest way to record",
            plural(ends.lost, "event")
        ));
    }
    let is_empty = ends.recorded == 0 && ends.lost == 0;
    if is_empty && std::io::stderr().is_terminal() {
        exit::warn("nothing was recorded: no process was chosen, or none of them did any I/O");
    }
}

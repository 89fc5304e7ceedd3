//! `blkkin io`: shows the file and network operations of chosen programs, live or from a trace.

mod apps;
mod choice;
mod control;
mod control_socket;
mod gate;
mod live;
mod options;
mod outcome;
mod plan;
mod preload;
mod printer;
mod pump;
mod recording;
mod sink;
mod top;

use crate::exit::{self, Error, Exit};
use crate::interrupt::Interrupt;
use crate::output::plural;
use blkkin_reader::{Follower, Reading, Source};
use choice::Choice;
use options::{Command, Format, Programs};
use outcome::Outcome;
use plan::{Plan, View};
use printer::OperationPrinter;
use pump::Ends;
use recording::Recording;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub(crate) use options::Args;
pub(crate) use top::{Args as TopArgs, run as run_top};

/// Interval between two checks for Ctrl-C and for the end of the command.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    if let Some(Command::Apps(apps)) = &args.command {
        return apps::run(apps);
    }
    if args.gate {
        return Ok(gate::pass(&args.programs.run));
    }
    if !args.from.is_empty() {
        return show_trace(&args);
    }
    if args.programs.is_empty() {
        return Err(Error::usage("no program is chosen").hint(
            "give --app NAME, --cgroup PATH, --pid PID, or a command after `--`; --from TRACE reads \
             a trace",
        ));
    }
    let plan = Plan::of(&args);
    if args.limit.is_some() && plan.view.is_none() {
        return Err(Error::usage("--limit counts the operations that are shown, and none are")
            .hint("add --format, --json or --summary, or leave out --limit"));
    }
    record(&plan)
}

/// Records programs, and shows their operations.
fn record(plan: &Plan<'_>) -> Result<Exit, Error> {
    let programs = plan.programs.ok_or_else(|| Error::usage("no program is chosen"))?;
    if programs.block && programs.preload {
        return Err(Error::usage(
            "--preload cannot record requests to disks: a library inside of the command does not \
             see them",
        )
        .hint("leave out --preload, and run it as root"));
    }
    if programs.block && plan.view == Some(View::Lines(Format::AppTrace)) {
        return Err(Error::usage("--format app-trace has no lines for requests to disks")
            .hint("leave out --block, or use --json"));
    }
    match programs.preload {
        true => preload::run(plan, programs),
        false => record_by_kernel(plan, programs),
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
    let mut printer = OperationPrinter::new(&Plan::of(args))?;
    let reading = Reading::new(&opened.traces).stop_when(move || asked.is_set());
    let mut stats = reading.ordered(&mut printer);
    stats.problems.splice(0..0, opened.problems.iter().cloned());
    printer.finish()?;
    if printer.operations() == 0 && stats.problems.is_empty() && !interrupt.is_set() {
        exit::warn("no operation was found; is it a trace of `blkkin io -o`?");
    }
    let exit = exit::report_problems(&stats.problems);
    Ok(if interrupt.is_set() { Exit::Interrupted } else { exit })
}

/// Records the chosen programs until Ctrl-C, the end of the command, or the limit.
fn record_by_kernel(plan: &Plan<'_>, programs: &Programs) -> Result<Exit, Error> {
    let interrupt = Interrupt::listen()?;
    let begun = Instant::now();
    let (mut recording, handle) = Recording::start(plan, programs)?;
    choose(&mut recording, programs)?;
    // Only a list of names can be changed.
    let names = programs.names();
    let _control = match names.is_empty() {
        true => None,
        false => Some(control::Server::start(handle, names)?),
    };
    let mut child = match programs.run.is_empty() {
        true => None,
        false => {
            let choose = |pid| recording.choose(Choice::Process(pid));
            Some(gate::Gated::start(&programs.run, choose)?)
        }
    };
    let mut printer = OperationPrinter::new(plan)?;
    let mut follower = Follower::new(&recording.sources());
    let mut problems = Vec::new();
    let mut status = None;
    loop {
        let progress = recording.wait(CHECK_INTERVAL);
        if plan.view.is_some() {
            follower.refresh(progress.has_ended);
            let part = follower.deliver_until(progress.end_ns, |reading| reading, &mut printer);
            problems.extend(part.problems);
            printer.update()?;
        }
        if progress.has_ended {
            break;
        }
        if let Some(child) = &mut child
            && status.is_none()
        {
            status = child.try_wait()?;
        }
        if interrupt.is_set() || status.is_some() || printer.is_over() {
            recording.stop();
        }
    }
    if plan.view.is_some() {
        problems.extend(follower.problems());
    }
    printer.finish()?;
    let ends = recording.finish()?;
    summarize(plan, &ends, begun.elapsed());
    Ok(Outcome {
        problems,
        command: status,
        has_losses: ends.lost > 0,
        is_interrupted: interrupt.is_set(),
    }
    .report())
}

/// Chooses the programs: those of the options, or all but this one.
fn choose(recording: &mut Recording, programs: &Programs) -> Result<(), Error> {
    if programs.is_empty() {
        return recording.choose(Choice::All);
    }
    recording.choose(Choice::Names(programs.names()))?;
    programs.pids.iter().try_for_each(|pid| recording.choose(Choice::Process(*pid)))
}

/// Prints the losses and, for a recorded trace, what was recorded.
fn summarize(plan: &Plan<'_>, ends: &Ends, took: Duration) {
    if let Some(output) = plan.output {
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

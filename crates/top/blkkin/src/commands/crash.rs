//! `blkkin crash`: recovers events from core files and from the memory of crashed machines.

use crate::exit::{Error, Exit, note};
use crate::output::{ignore_closed_pipe, plural, write};
use crate::table::{Align, Table};
use blkkin_crash::{FoundTrace, Options, Problem, Report};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Recover events of programs and machines that have died
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin crash extract vmcore                           what a memory dump holds\n  \
        blkkin crash extract vmcore -o last-events            its events, as traces\n  \
        blkkin view last-events",
    after_help = crate::help::EXIT_HELP,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    Extract(Extract),
}

/// Find the events in a core file or a memory image
///
/// BlkKin's events are in memory that programs share with the agent. After a crash, this memory is
/// in the core file of a program, or in an image of the machine's memory: a dump in ELF or in the
/// format kdump-compressed (of `makedumpfile`, or `dump-guest-memory` of QEMU), or raw memory, such
/// as the file of QEMU's `memory-backend-file`. An image suffices: no symbols of its kernel and no
/// other files of the machine are needed. A directory with copies of the files `blkkin-rings` and
/// `blkkin-catalog` in /proc/PID/map_files can be read too.
///
/// Each program and session becomes a trace in the directory of `--output`, as the agent would have
/// written it. It has all events that the memory still holds, also those that the agent had written
/// before the crash: these may not have reached the disk. Without `--output`, nothing is written.
///
/// A sub-buffer is the part of a ring that becomes a packet. It is `intact` if all its events were
/// found; `torn`, if pages of it are missing or overwritten, so that only some were found; and
/// `missing`, if it must have existed and nothing of it was found. The trace shows the gaps as lost
/// packets. A core file has, of each ring, the two sub-buffers that the program used last while the
/// agent kept up. The exit status is 3 if anything is torn, missing or unreadable.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin crash extract vmcore                           list what it holds\n  \
        blkkin crash extract vmcore -o last-events\n  \
        blkkin crash extract core.4711 -o last-events         of one program\n  \
        blkkin crash extract --unread vmcore -o rest          only what no trace has\n  \
        blkkin crash extract --json vmcore | jq '.traces[].events'",
    after_help = crate::help::EXIT_HELP
)]
struct Extract {
    /// Core files, memory images, or directories with files of shared memory
    #[arg(value_name = "IMAGE", required = true)]
    images: Vec<PathBuf>,

    /// Directory in which the traces are created
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    output: Option<PathBuf>,

    /// Leave out events that the agent had read before the crash
    #[arg(long)]
    unread: bool,

    /// Print the result as one JSON object
    #[arg(long, help_heading = "Output")]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    let Command::Extract(args) = args.command;
    extract(args)
}

fn extract(args: Extract) -> Result<Exit, Error> {
    let mut images = Vec::new();
    for path in &args.images {
        let opened = blkkin_crash::open(path);
        let opened = opened.map_err(|(path, error)| failed(&path, &error))?;
        for (path, image) in opened {
            if image.is_cut_off() {
                note(&format!(
                    "{}: the file is cut off: memory at its end is missing",
                    path.display()
                ));
            }
            images.push(image);
        }
    }
    let options = Options { output: args.output, unread_only: args.unread };
    let report = blkkin_crash::extract(&images, &options)
        .map_err(|error| Error::failed(format!("the events cannot be extracted: {error}")))?;
    let text = match args.json {
        true => format!("{}\n", to_json(&report)),
        false => to_text(&report),
    };
    ignore_closed_pipe(write(&text))?;
    if !args.json {
        notes(&report, options.output.is_some());
    }
    let is_whole =
        !report.traces.is_empty() && report.unreadable == 0 && report.traces.iter().all(is_whole);
    Ok(if is_whole { Exit::Ok } else { Exit::Lost })
}

fn failed(path: &Path, error: &blkkin_crash::ImageError) -> Error {
    Error::failed(format!("{}: {error}", path.display()))
}

fn is_whole(trace: &FoundTrace) -> bool {
    let is_whole = trace.channels.iter().all(|channel| {
        let subbuffers = &channel.counts.subbuffers;
        subbuffers.torn == 0 && subbuffers.missing == 0
    });
    is_whole && trace.problem.is_none() && trace.types_lost == 0
}

fn to_text(report: &Report) -> String {
    if report.traces.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[
        ("SESSION", Align::Left),
        ("PROGRAM", Align::Left),
        ("PID", Align::Right),
        ("CHANNEL", Align::Left),
        ("RINGS", Align::Right),
        ("EVENTS", Align::Right),
        ("BYTES", Align::Right),
        ("INTACT", Align::Right),
        ("TORN", Align::Right),
        ("MISSING", Align::Right),
    ]);
    for trace in &report.traces {
        let program = trace.program.as_ref();
        for channel in &trace.channels {
            let counts = &channel.counts;
            let subbuffers = &counts.subbuffers;
            table.row(vec![
                program.map_or("", |one| &one.session).into(),
                program.map_or("", |one| &one.name).into(),
                program.map_or_else(String::new, |one| one.pid.to_string()).into(),
                channel.name.as_str().into(),
                channel.rings.to_string().into(),
                counts.events.to_string().into(),
                counts.bytes.to_string().into(),
                subbuffers.intact.to_string().into(),
                subbuffers.torn.to_string().into(),
                subbuffers.missing.to_string().into(),
            ]);
        }
    }
    table.print(false)
}

/// Prints what the table does not say: losses, problems, and where the traces are.
fn notes(report: &Report, is_written: bool) {
    if report.traces.is_empty() {
        note("there are no rings of BlkKin in this memory");
    }
    if report.unreadable > 0 {
        let pages = plural(report.unreadable, "page");
        note(&format!("{pages} of memory cannot be read, because of damaged descriptions"));
    }
    for trace in &report.traces {
        let name = match &trace.program {
            Some(program) => format!("{} ({})", program.name, program.pid),
            None => "an unknown program".to_owned(),
        };
        if let Some(problem) = trace.problem {
            note(&format!("{name}: {}", problem_text(problem)));
        }
        if trace.types_lost > 0 {
            let types = plural(trace.types_lost, "event type");
            note(&format!("{name}: the descriptions of {types} are lost, and so are their events"));
        }
        let lost: u64 = trace.channels.iter().map(|channel| channel.counts.bytes_lost).sum();
        if lost > 0 {
            note(&format!("{name}: {} of events are torn", plural(lost, "byte")));
        }
        if let Some(directory) = &trace.directory {
            note(&format!("{name}: {}", directory.display()));
        }
    }
    if !is_written && report.traces.iter().any(|trace| trace.problem.is_none()) {
        note("--output writes the events as traces");
    }
}

fn problem_text(problem: Problem) -> &'static str {
    match problem {
        Problem::NoDescription => {
            "its events cannot be read: the description of the rings is damaged, or an agent of an \
             older version has made them"
        }
        Problem::NoCatalog => {
            "its events cannot be read: the memory with its event types was not found, or the \
             program has an older version of the library"
        }
        Problem::Metadata => "its events cannot be read: its event types are damaged",
    }
}

fn to_json(report: &Report) -> Value {
    let traces: Vec<Value> = report.traces.iter().map(trace_to_json).collect();
    json!({
        "traces": traces,
        "freed": report.freed,
        "structure": report.structure,
        "unreadable": report.unreadable,
    })
}

fn trace_to_json(trace: &FoundTrace) -> Value {
    let program = trace.program.as_ref();
    let channels: Vec<Value> = trace
        .channels
        .iter()
        .map(|channel| {
            let counts = &channel.counts;
            json!({
                "name": channel.name,
                "rings": channel.rings,
                "pages": channel.pages,
                "events": counts.events,
                "bytes": counts.bytes,
                "bytes_lost": counts.bytes_lost,
                "intact": counts.subbuffers.intact,
                "torn": counts.subbuffers.torn,
                "missing": counts.subbuffers.missing,
            })
        })
        .collect();
    let problem = trace.problem.map(|problem| match problem {
        Problem::NoDescription => "no-description",
        Problem::NoCatalog => "no-catalog",
        Problem::Metadata => "metadata",
    });
    let uuid: String = trace.uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    json!({
        "session": program.map(|one| &one.session),
        "program": program.map(|one| &one.name),
        "pid": program.map(|one| one.pid),
        "kernel": program.map(|one| one.is_kernel),
        "uuid": uuid,
        "directory": trace.directory.as_ref().map(|path| path.to_string_lossy()),
        "problem": problem,
        "types_lost": trace.types_lost,
        "events": trace.channels.iter().map(|channel| channel.counts.events).sum::<u64>(),
        "channels": channels,
    })
}

//! `blkkin record`: runs a command and records its events, without a daemon or set-up.

mod detach;

use super::private_agent::PrivateAgent;
use super::rotation::RotationArgs;
use crate::commands::event;
use crate::commands::event_limits::EventLimits;
use crate::exit::{self, Error, Exit};
use crate::hook;
use crate::interrupt::ending_signals;
use crate::losses;
use crate::{output, values};
use blkkin_client::Client;
use blkkin_control::{
    Applications, Channel, Context, Level, Levels, Loss, Processes, Reply, Request, Selection,
};
use blkkin_filter::Filter;
use blkkin_reader::{Reading, Source};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGQUIT, SIGUSR2};
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Text after the options on the help page.
const RECORD_HELP: &str = "Exit status: that of the command; 3 if it was 0 and something was lost (messages say \
    how much and why); 1 something failed, 2 wrong usage.\nThe trace's summary goes to standard error.";

/// Run a command and record what it traces
///
/// The command and the programs that it starts record all their events from the first one on, if
/// they have BlkKin's library. No agent needs to run before, and none runs afterwards. Daemons that
/// the command leaves running are recorded until they end, or until Ctrl-C. The exit status is that
/// of the command, or 3 if the command succeeded but events were lost.
///
/// Ctrl-\ at a terminal moves the command and its recording to the background, and the shell
/// prompts again. The command does not end by this key then, and cannot read from the terminal any
/// more.
///
/// If the trace is divided into chunks, SIGUSR2 to this process closes the chunk that is being
/// written.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin record -- ./server --port 80               all of its events\n  \
        blkkin record -e 'osd:*' -o trace -- ./osd        only those of one provider\n  \
        blkkin record --level warning -- ./osd            only what is at least a warning\n  \
        blkkin record --size 10M --files 3 -- ./osd       only the newest, in chunks\n  \
        blkkin record --detach -o trace -- ./osd          in the background\n  \
        blkkin record --context pid,tid -- ./osd && blkkin view osd-*",
    after_help = RECORD_HELP
)]
pub(crate) struct Args {
    /// Directory to make for the trace [default: the command's name and the time, here]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Only events whose names match one of these patterns; `*` matches any characters
    #[arg(
        short,
        long = "events",
        value_name = "PATTERN",
        value_delimiter = ',',
        default_value = "*"
    )]
    events: Vec<String>,

    /// Exclude events whose names match one of these patterns
    #[arg(short = 'x', long, value_name = "PATTERN", value_delimiter = ',')]
    exclude: Vec<String>,

    /// Only events of this level or a more severe one
    #[arg(long, value_name = "LEVEL", value_parser = values::level)]
    level: Option<Level>,

    /// Only events for which this is true, as in `blkkin view --filter`, except for time, stream,
    /// trace, $env and $packet
    #[arg(long, value_name = "EXPRESSION")]
    filter: Option<String>,

    /// Context to add to each event: pid, tid, procname, cpu, pid_ns and so on, or PROVIDER:NAME
    /// for one that a program supplies
    #[arg(long, value_name = "CONTEXT", value_delimiter = ',', value_parser = values::context)]
    context: Vec<Context>,

    /// Bytes of a sub-buffer, a power of two; K and M may be used [default: 512K]
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    subbuf_size: Option<u64>,

    /// Sub-buffers of each CPU's ring, a power of two [default: 64, or 4 if the kernel does not
    /// overcommit memory]
    #[arg(long, value_name = "COUNT", value_parser = values::count)]
    num_subbuf: Option<u32>,

    #[command(flatten)]
    limits: EventLimits,

    #[command(flatten)]
    rotation: RotationArgs,

    /// Write without the page cache, for large recordings
    ///
    /// The recording does not push other programs' pages out of memory. Events wait in the rings
    /// while the disk is busy: --subbuf-size and --num-subbuf make them large enough.
    #[arg(long)]
    direct: bool,

    /// Stop recording when the command ends, even if programs that it started still run
    #[arg(long)]
    no_wait: bool,

    /// Record in the background, and print the trace's directory: the terminal may be closed. The
    /// output of the command and the summary go to a file beside the directory
    #[arg(long, conflicts_with = "json")]
    detach: bool,

    /// Be the process that records to this directory, for another one that may leave
    #[arg(long, value_name = "DIR", hide = true)]
    recorder: Option<PathBuf>,

    /// Print the summary as JSON, on standard output
    #[arg(long)]
    json: bool,

    /// Command to run
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Maximum time that children of the command may take to connect to the agent while no program is
/// recorded.
const FORK_PATIENCE: Duration = Duration::from_secs(1);
/// Interval between two checks of recorded programs.
const FOLLOW_PAUSE: Duration = Duration::from_millis(50);

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    let program = args.command.first().ok_or_else(|| Error::usage("no command"))?;
    if let Some(Err(error)) = args.filter.as_deref().map(Filter::parse_for_recording) {
        return Err(Error::usage(format!("--filter: {error}")));
    }
    event::check_patterns(&args.events)?;
    let name = name_of(program);
    let output = args.recorder.as_ref().or(args.output.as_ref()).cloned();
    let output = output.unwrap_or_else(|| format!("{name}-{}", blkkin_agent::date_now()).into());
    let output = std::path::absolute(&output)
        .map_err(|error| Error::failed(format!("cannot use `{}`: {error}", output.display())))?;

    match (&args.recorder, args.detach) {
        (None, true) => return detach::run(&output),
        // The JSON object on standard output would follow what is printed when Ctrl-\ leaves.
        (None, false) if !args.json && detach::can_leave() => {
            return detach::run_until_left(&output);
        }
        (None, false) => drop(signal_hook::flag::register(SIGQUIT, Arc::default())),
        (Some(_), true) => drop(rustix::process::setsid()),
        // The command inherits this, as Ctrl-\ reaches it, too.
        (Some(_), false) => blkkin_sys::process::ignore_quit_signal(),
    }
    let mut agent = PrivateAgent::start("blkkin record")?;
    let rotation = args.rotation.rotation();
    let has_hook = rotation.as_ref().is_some_and(|rotation| rotation.hook.is_some());
    let is_divided = rotation.is_some();
    let recorded =
        agent.record(&name, &output, rotation, args.direct, channel(&args), selection(&args));
    recorded.inspect_err(|_| drop(std::fs::remove_dir(&output)))?;
    let hooks = has_hook.then(|| start_hooks(&agent, &name)).transpose()?;
    let mut switch = Switch::listen(&name, is_divided)?;
    let begun = Instant::now();
    let command = agent.command(&args.command);
    let begin = || if args.detach { detach::tell(&output) } else { Ok(()) };
    let status = run_command(command, &output, begin, || switch.check(agent.client()))?;
    let running_programs =
        wait_for_programs(agent.client(), args.no_wait, |client| switch.check(client))?;
    let took = begun.elapsed();
    let losses = agent.finish(&name)?;
    if let Some(Err(error)) = hooks.map(JoinHandle::join).transpose().ok().flatten() {
        error.report();
    }
    agent.end()?;
    summarize(&args, &output, took, running_programs, &losses)?;
    Ok(match exit::command_status(status) {
        0 if !losses.is_empty() => Exit::Lost,
        status => Exit::Command(status),
    })
}

/// Starts the thread that runs the session's command for each closed chunk. It ends when the
/// session is destroyed and all its chunks are handled.
fn start_hooks(
    agent: &PrivateAgent,
    session: &str,
) -> Result<JoinHandle<Result<(), Error>>, Error> {
    let (sockets, session) = ([agent.socket().to_owned()], session.to_owned());
    let thread = std::thread::Builder::new().name("blkkin-hooks".to_owned());
    let started = thread.spawn(move || hook::run(&sockets, &session));
    started.map_err(|error| Error::failed(format!("cannot run the command for chunks: {error}")))
}

/// Rotation by SIGUSR2.
struct Switch {
    session: String,
    is_divided: bool,
    asked: Arc<AtomicBool>,
}

impl Switch {
    /// Begins to handle SIGUSR2.
    fn listen(session: &str, is_divided: bool) -> Result<Switch, Error> {
        let asked = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGUSR2, asked.clone())?;
        Ok(Switch { session: session.to_owned(), is_divided, asked })
    }

    /// Closes the chunk that is being written if SIGUSR2 has arrived.
    fn check(&mut self, client: &mut Client) {
        if !self.asked.swap(false, Ordering::Relaxed) {
            return;
        }
        if !self.is_divided {
            exit::warn("SIGUSR2 does nothing: the trace is not divided into chunks (--rotate)");
            return;
        }
        match client.request_all(&Request::RotateSession(self.session.clone())) {
            Err(error) => drop(Error::from(error).report()),
            Ok(replies) => match &crate::conversation::written_paths(replies)[..] {
                [] => exit::note("nothing was recorded since the last chunk was closed"),
                paths => {
                    paths.iter().for_each(|path| exit::note(&format!("closed {}", path.display())));
                }
            },
        }
    }
}

/// Returns the channel of the recording.
fn channel(args: &Args) -> Channel {
    Channel {
        subbuffer_size: args.subbuf_size,
        subbuffer_count: args.num_subbuf,
        contexts: args.context.clone(),
        wait_us: args.limits.blocking.unwrap_or(0),
        event_size: args.limits.string_max,
        ..Channel::named("channel0")
    }
}

/// Returns the events to record.
fn selection(args: &Args) -> Selection {
    Selection {
        excluded: args.exclude.clone(),
        levels: args.level.map_or(Levels::Any, |level| Levels::AtLeast { level }),
        filter: args.filter.clone(),
        ..Selection::for_names(&args.events)
    }
}

/// Waits for the end of all recorded programs that the command started, or for a signal; does not
/// wait if `no_wait` is set. Calls `tick` at intervals. Returns the number of programs that still
/// run.
fn wait_for_programs(
    client: &mut Client,
    no_wait: bool,
    mut tick: impl FnMut(&mut Client),
) -> Result<usize, Error> {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in ending_signals() {
        let _ = signal_hook::flag::register(signal, asked.clone());
    }
    let mut is_told = no_wait;
    let mut quiet_since = Instant::now();
    loop {
        tick(client);
        let count = running_programs(client)?;
        if count > 0 {
            quiet_since = Instant::now();
        }
        // A daemon forked just now may not have connected to the agent yet.
        let has_children = reap(None);
        let is_over = count == 0 && (!has_children || quiet_since.elapsed() > FORK_PATIENCE);
        if no_wait || is_over || asked.load(Ordering::Relaxed) {
            return Ok(count);
        }
        if count > 0 && !is_told {
            is_told = true;
            exit::note(&format!(
                "the command has ended; {} that it started {} still recorded: Ctrl-C ends the recording \
                 (--no-wait: end it with the command)",
                output::plural(count as u64, "program"),
                if count == 1 { "is" } else { "are" },
            ));
        }
        std::thread::sleep(FOLLOW_PAUSE);
    }
}

/// Reaps adopted processes: all children except the command itself. Returns true if an adopted
/// process still runs.
fn reap(command: Option<Pid>) -> bool {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let children =
        tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let mut has_others = false;
    for child in children.flat_map(|list| {
        list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>()
    }) {
        let Some(pid) = Pid::from_raw(child).filter(|pid| Some(*pid) != command) else { continue };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        has_others |= matches!(waitid(WaitId::Pid(pid), options), Ok(None));
    }
    has_others
}

/// Runs the command until it ends. Calls `begin` when it has started, and `tick` at intervals.
fn run_command(
    mut command: Command,
    output: &Path,
    begin: impl FnOnce() -> std::io::Result<()>,
    tick: impl FnMut(),
) -> Result<ExitStatus, Error> {
    // Ctrl-C is meant for the command, which receives it too; this process waits for the command.
    let (asked, interrupted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    for signal in ending_signals() {
        let _ = signal_hook::flag::register(signal, interrupted.clone());
    }
    for signal in ending_signals().filter(|signal| *signal != SIGINT) {
        let _ = signal_hook::flag::register(signal, asked.clone());
    }
    // As the subreaper, this process becomes the parent of daemons that the command starts, and
    // notices their end.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let child = command.spawn().map_err(|error| {
        let _ = std::fs::remove_dir(output);
        let program = command.get_program().to_string_lossy();
        Error::failed(format!("cannot run `{program}`: {error}"))
    })?;
    if let Err(error) = begin() {
        exit::warn(&format!("the start of the command cannot be told: {error}"));
    }
    let ended = wait(child, &asked, tick)
        .map_err(|error| Error::failed(format!("cannot wait for the command: {error}")))?;
    if interrupted.load(Ordering::Relaxed) {
        // What follows must not take the same signal for another one.
        std::thread::sleep(detach::ECHO_TIME);
    }
    Ok(ended)
}

/// Returns the number of recorded programs that still run.
fn running_programs(client: &mut Client) -> Result<usize, Error> {
    let processes = Processes::default();
    let all = Request::ListApplications(Applications { processes, event_types: false });
    // The agent may not have noticed yet that a program has ended.
    let runs = |reply: &Reply| match reply {
        Reply::Application(program) => Path::new(&format!("/proc/{}", program.pid)).exists(),
        _ => false,
    };
    Ok(client.request_all(&all)?.iter().filter(|reply| runs(reply)).count())
}

/// Returns the name of the session, with which the default directory's name starts: the first 50
/// characters of the program's file name, with control characters replaced by `_` and without
/// leading dots.
fn name_of(program: &OsStr) -> String {
    let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy();
    let plain = |letter: char| if letter.is_control() { '_' } else { letter };
    let name: String = name.chars().map(plain).take(50).collect();
    name.trim_start_matches('.').to_owned()
}

/// Waits for the command, reaps adopted processes meanwhile, and calls `tick` at intervals.
/// Forwards SIGTERM and SIGHUP as SIGTERM. SIGINT and SIGQUIT of a terminal reach both processes
/// anyway.
fn wait(
    mut child: Child,
    asked: &AtomicBool,
    mut tick: impl FnMut(),
) -> std::io::Result<ExitStatus> {
    let pid = rustix::process::Pid::from_child(&child);
    let (done, ended) = std::sync::mpsc::channel();
    let waiting = std::thread::spawn(move || done.send(child.wait()));
    loop {
        tick();
        match ended.recv_timeout(Duration::from_millis(100)) {
            Ok(status) => {
                let _ = waiting.join();
                return status;
            }
            Err(RecvTimeoutError::Disconnected) => return Err(std::io::ErrorKind::Other.into()),
            Err(RecvTimeoutError::Timeout) if asked.swap(false, Ordering::Relaxed) => {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            }
            Err(RecvTimeoutError::Timeout) => drop(reap(Some(pid))),
        }
    }
}

/// Drops the pages of traces, which counting their events has read into the page cache.
fn drop_pages(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => drop_pages(&path),
            Ok(kind) if kind.is_file() => {
                let Ok(file) = std::fs::File::open(path) else { continue };
                let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
            }
            _ => {}
        }
    }
}

/// Prints a summary of the recording: traces, size, events and losses. Removes the output directory
/// if it is empty.
fn summarize(
    args: &Args,
    output: &Path,
    took: Duration,
    running_programs: usize,
    losses: &[Loss],
) -> Result<(), Error> {
    let (traces, size) = traces_below(output);
    let programs = traces.len() as u64;
    if programs == 0 {
        let _ = std::fs::remove_dir(output);
        match losses.is_empty() {
            true => exit::warn(
                "nothing was recorded: no program that ran has BlkKin's library in it, or none of them \
                 found the agent",
            ),
            false => exit::warn("nothing was recorded, all of it is lost"),
        }
        losses::report(losses);
        if args.json {
            let summary = json!({
                "schema": "blkkin.record.v1",
                "trace": null,
                "events": 0,
                "losses": losses::all_to_json(losses),
            });
            writeln!(crate::output::stdout(), "{summary}")?;
        }
        return Ok(());
    }
    let opened = blkkin_reader::open(&[Source::Path(output.to_owned())]);
    exit::report_problems(&opened.problems);
    let stats = super::view::count(&Reading::new(&opened.traces), false);
    if args.direct {
        drop_pages(output);
    }
    let seconds = took.as_secs_f64();
    let rate = stats.events as f64 / seconds.max(1e-9);
    let lost = output::describe_losses(&stats);
    if args.json {
        let summary = json!({
            "schema": "blkkin.record.v1",
            "trace": output.display().to_string(),
            "events": stats.events,
            "events_lost": stats.events_lost,
            "packets_lost": stats.packets_lost,
            "losses": losses::all_to_json(losses),
            "programs": programs,
            "bytes": size,
            "seconds": seconds,
        });
        return Ok(writeln!(crate::output::stdout(), "{summary}")?);
    }
    let mut err = crate::output::styled_stderr();
    let shown = output.strip_prefix(std::env::current_dir().unwrap_or_default()).unwrap_or(output);
    let (blkkin, quoted) = (output::own_command(), output::shell_word(shown));
    let shown = shown.display();
    let lost = match lost {
        _ if !losses.is_empty() => {
            let amounts: Vec<String> = losses.iter().map(losses::amount).collect();
            format!("LOST: {}", amounts.join(", "))
        }
        None => "none lost".to_owned(),
        Some(lost) => format!("LOST: {lost}"),
    };
    let _ = writeln!(
        err,
        "recorded {} of {} in {seconds:.2} s ({rate:.0} a second), {lost}\ntrace: {shown} ({})\n\
         view it: {blkkin} view {quoted}",
        output::plural(stats.events, "event"),
        output::plural(programs, "program"),
        blkkin_text::info::units::bytes(size),
    );
    drop(err);
    losses::report(losses);
    let mut err = crate::output::styled_stderr();
    if running_programs > 0 {
        let _ = writeln!(
            err,
            "{} of the command still runs, and is not recorded any more",
            output::plural(running_programs as u64, "program"),
        );
    }
    Ok(())
}

/// Returns the programs that have traces below a directory, and the total size of the files. A
/// program has a trace in each chunk.
fn traces_below(directory: &Path) -> (HashSet<OsString>, u64) {
    let (mut programs, mut size) = (HashSet::new(), 0);
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() {
            let (below, bytes) = traces_below(&entry.path());
            programs.extend(below);
            size += bytes;
        } else {
            if entry.file_name() == "metadata" {
                programs.insert(program_of(directory));
            }
            size += metadata.len();
        }
    }
    (programs, size)
}

/// Returns the part of the name of a trace's directory that is the same in all chunks: the name and
/// the process id of the program. A date follows.
fn program_of(trace: &Path) -> OsString {
    let name = trace.file_name().unwrap_or_default();
    let text = name.to_string_lossy();
    let is_date = |at: &usize| {
        let mut date = text.as_bytes()[*at..].iter();
        let of_digits = |count: usize, date: &mut std::slice::Iter<'_, u8>| {
            date.next() == Some(&b'-')
                && date.by_ref().take(count).filter(|b| b.is_ascii_digit()).count() == count
        };
        of_digits(8, &mut date) && of_digits(6, &mut date)
    };
    let mut places = text.char_indices().map(|(at, _)| at).filter(is_date);
    places.next_back().map_or(name.to_owned(), |at| text[..at].to_owned().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The traces of a program in several chunks count once.
    #[test]
    fn programs_are_counted_once() {
        let name = |text: &str| program_of(&Path::new("/a").join(text));
        assert_eq!(name("prog-12-20261128-170506"), "prog-12");
        assert_eq!(name("prog-12-20261128-170507-2"), "prog-12");
        assert_eq!(name("a-20261128-170506-7-20261128-170508"), "a-20261128-170506-7");
        assert_eq!(name("other"), "other");
        assert_eq!(name("p-20261128"), "p-20261128");
    }
}

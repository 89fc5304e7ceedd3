//! `blkkin trigger`: actions that are taken when something happens.
//!
//! A trigger is a process of its user. The agent records the events that fire it in a small session
//! of its own (`source`), and tells the process when that session's traces change (`wakes`). The
//! process reads the events (`matching`), decides when to act (`schedule`), and acts through the
//! agent, with the user's rights (`actions`).

mod actions;
mod conditions;
mod files;
mod list;
mod matching;
mod notice;
mod options;
mod receiver;
mod requests;
mod runner;
mod schedule;
mod sharing;
mod source;
mod state;
mod wakes;

use crate::exit::{Error, Exit, note};
use crate::output::{own_program, plural};
use crate::process_lock::Process;
use files::TriggerFiles;
use options::Add;
use rustix::process::Signal;
use std::ffi::OsString;
use std::process::{Command as Program, Stdio};
use std::time::{Duration, Instant};

/// Take snapshots, run commands and more when something happens
///
/// A trigger watches for events that match a filter, slow or failed requests, programs that are
/// killed by a signal, lost events, or a disk that runs full. Then it takes a snapshot, starts,
/// stops or rotates sessions, runs a command, or sends a notice. It is a process in the background,
/// which waits without using a processor.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin trigger add slow --slower 100ms --snapshot flight\n  \
        blkkin trigger add failed 'disk:*' --filter 'ret < 0' --snapshot flight --delay 2s\n  \
        blkkin trigger ls\n  \
        blkkin trigger remove slow",
    after_help = crate::help::AGENT_HELP,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    Add(Box<Add>),
    #[command(visible_alias = "list")]
    Ls(list::Ls),
    Fire(Fire),
    Start(Start),
    Remove(Remove),
    #[command(hide = true)]
    Run(TriggerName),
}

/// End a trigger and remove it; its snapshots stay
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin trigger remove slow",
    after_help = crate::help::EXIT_HELP
)]
struct Remove {
    /// Name of the trigger
    #[arg(value_name = "NAME")]
    name: String,
}

/// Run the process of a trigger, which `add` and `start` do
#[derive(clap::Args, Debug)]
struct TriggerName {
    /// Name of the trigger
    #[arg(value_name = "NAME")]
    name: String,
}

/// Fire a trigger, as an event would: it acts after its --delay, and not within --every
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin trigger fire slow\n  \
        blkkin trigger fire tail --request 463ac35c9f6413ad48485a3953bb6124",
    after_help = crate::help::EXIT_HELP
)]
struct Fire {
    /// Name of the trigger
    #[arg(value_name = "NAME")]
    name: String,

    /// Send only this request, if the trigger was made with --requests. Can be repeated
    #[arg(long, value_name = "TRACE_ID", value_parser = trace_id)]
    request: Vec<u64>,
}

/// Start triggers again, for instance after a restart of the machine
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin trigger start slow\n  \
        blkkin trigger start --all                            those that do not run",
    after_help = crate::help::EXIT_HELP
)]
struct Start {
    /// Name of the trigger
    #[arg(value_name = "NAME", required_unless_present = "all")]
    name: Option<String>,

    /// All of your triggers that do not run
    #[arg(short, long, conflicts_with = "name")]
    all: bool,
}

/// Time limit for a trigger's process to start or to end.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    match args.command {
        Command::Add(add) => create(&add),
        Command::Ls(ls) => list::run(&ls),
        Command::Fire(args) => fire(&args),
        Command::Start(Start { name, .. }) => start(name),
        Command::Remove(Remove { name }) => remove(&name),
        Command::Run(TriggerName { name }) => {
            // The process goes on when the terminal is closed.
            let _ = rustix::process::setsid();
            let files = TriggerFiles::existing(&name)?;
            let (agent, add) = files.definition()?;
            runner::run(&files, &agent, &add)
        }
    }
}

/// Returns this command's words after `trigger add`.
fn own_words() -> Vec<OsString> {
    let words = std::env::args_os().skip_while(|word| word != "add").skip(1);
    words.filter(|word| word != "--foreground").collect()
}

fn create(add: &Add) -> Result<Exit, Error> {
    add.check()?;
    let mut conversation = add.agent.connect()?;
    for session in add.sessions() {
        conversation.sessions(Some(session))?;
    }
    let agent = conversation.address();
    let agent = std::path::absolute(&agent).map_or(agent, |path| path.display().to_string());
    let files = TriggerFiles::create(&add.name, &agent, &own_words())?;
    if let Err(error) = source::make(&mut conversation, &files, add) {
        files.remove()?;
        return Err(error);
    }
    drop(conversation);
    if add.foreground {
        let exit = runner::run(&files, &agent, add);
        remove(&add.name)?;
        return exit;
    }
    if let Err(error) = spawn(&files) {
        remove(&add.name)?;
        return Err(error);
    }
    note(&format!("trigger `{}` waits (agent at {agent})", add.name));
    Ok(Exit::Ok)
}

/// Checks the words of `trigger add` after the name. The error is a message and a hint.
pub(crate) fn check_words(name: &str, words: &[String]) -> Result<(), (String, Option<String>)> {
    let all = [name.to_owned()].into_iter().chain(words.iter().cloned());
    let add = files::parse_words(all).map_err(|error| {
        let text = error.to_string();
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let first = lines.next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        let tip = lines.find_map(|line| line.strip_prefix("tip: "));
        (first, tip.map(str::to_owned))
    })?;
    if add.foreground {
        return Err(("--foreground is not for a recorder's trigger".to_owned(), None));
    }
    add.check().map_err(|error| (error.message().to_owned(), error.advice().map(str::to_owned)))
}

/// Starts the process of a trigger, and waits until it is ready.
fn spawn(files: &TriggerFiles) -> Result<(), Error> {
    let failed = |error| Error::failed(format!("the trigger's process cannot start: {error}"));
    let mut child = Program::new(own_program().map_err(failed)?)
        .args(["trigger", "run", "--", files.name()])
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(files.log().map_err(failed)?)
        .spawn()
        .map_err(failed)?;
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if matches!(files.process(), Process::Running(_)) {
            return Ok(());
        }
        if child.try_wait().map_err(failed)?.is_some() {
            // It has acted as often as it may.
            if files.is_over() {
                return Ok(());
            }
            return Err(Error::failed(format!("the trigger has ended: {}", files.last_message())));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    Err(Error::failed("the trigger's process does not become ready"))
}

/// Parses a trace id of 16 or 32 hexadecimal digits; returns its lower half.
fn trace_id(text: &str) -> Result<u64, String> {
    let wrong = || "not a trace id of 16 or 32 hexadecimal digits".to_owned();
    let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let low = text.get(text.len().saturating_sub(16)..).filter(|_| is_hex);
    let low = low.filter(|low| low.len() == 16 && [16, 32].contains(&text.len()));
    low.and_then(|low| u64::from_str_radix(low, 16).ok()).ok_or_else(wrong)
}

fn fire(args: &Fire) -> Result<Exit, Error> {
    let Fire { name, request } = args;
    let files = TriggerFiles::existing(name)?;
    if !request.is_empty() && files.definition()?.1.requests.requests.is_none() {
        return Err(Error::usage(format!("trigger `{name}` sends no requests"))
            .hint("add one with --requests SESSION --to URL"));
    }
    request.iter().try_for_each(|request| files.ask_for(*request))?;
    files.signal(if request.is_empty() { Signal::USR1 } else { Signal::USR2 })?;
    note(&format!("trigger `{name}` is fired"));
    Ok(Exit::Ok)
}

fn start(name: Option<String>) -> Result<Exit, Error> {
    let names = match name {
        Some(name) => vec![name],
        None => files::names()?,
    };
    let mut exit = Exit::Ok;
    for name in names {
        let files = TriggerFiles::existing(&name)?;
        let has_spans = files.state()["requests"]["spans_waiting"].as_u64() > Some(0);
        let is_over = files.is_over() && !has_spans;
        let told = match files.process() {
            Process::Down if is_over => "has acted as often as it may",
            Process::Down => match spawn(&files) {
                Ok(()) => "waits",
                Err(error) => {
                    crate::exit::warn(&format!("trigger `{name}`: {}", error.message()));
                    exit = Exit::Failed;
                    continue;
                }
            },
            _ => "runs",
        };
        note(&format!("trigger `{name}` {told}"));
    }
    Ok(exit)
}

fn remove(name: &str) -> Result<Exit, Error> {
    let files = TriggerFiles::existing(name)?;
    files.lock().end(PATIENCE)?;
    // An agent that is gone has no session.
    if let Ok((agent, _)) = files.definition() {
        source::destroy(&agent, name);
    }
    if let Some(waiting) = files.state()["requests"]["spans_waiting"].as_u64().filter(|n| *n > 0) {
        let spans = plural(waiting, "span");
        crate::exit::warn(&format!("{spans} had not been delivered, and are dropped"));
    }
    files.remove()?;
    note(&format!("trigger `{name}` removed; its snapshots stay"));
    Ok(Exit::Ok)
}

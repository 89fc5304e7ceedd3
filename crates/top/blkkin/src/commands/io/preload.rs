//! Recording from inside the command, without privileges: a library that the dynamic linker puts
//! before the C library records the calls, and an agent in this process writes them as a trace.

use super::options::Args;
use super::outcome::Outcome;
use super::show::Shower;
use crate::commands::agent::log;
use crate::exit::{self, Error, Exit};
use crate::interrupt::Interrupt;
use crate::losses;
use blkkin_agent::Background;
use blkkin_client::{Client, Timeouts};
use blkkin_control::address::VARIABLE;
use blkkin_control::{Channel, Context, Events, NewChannel, Purpose, Request, Selection, Session};
use blkkin_reader::{Follower, Source};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// File name of the library.
const LIBRARY: &str = "libblkkin_preload.so";
/// Variable that names the libraries which the dynamic linker loads first.
const LOADED_FIRST: &str = "LD_PRELOAD";
/// Name of the recording session.
const SESSION: &str = "io";
/// Maximum time that traced programs wait for the agent at their start, in milliseconds. The agent
/// already runs.
const WAIT_MS: &str = "2000";
/// Interval between two rounds of reading.
const ROUND: Duration = Duration::from_millis(50);
/// Time after which the agent has written all events. Later events are shown in later rounds, so
/// that those of several programs are in order.
const WRITTEN_AFTER: Duration = Duration::from_millis(300);

/// Records and shows the operations of the command.
pub(super) fn run(args: &Args) -> Result<Exit, Error> {
    let library = find_library()?;
    let interrupt = Interrupt::listen()?;
    let failed = |error: std::io::Error| Error::failed(format!("cannot record: {error}"));
    let agent = Background::start(log).map_err(failed)?;
    let trace = Trace::new(args, &agent)?;
    let mut client = Client::connect(
        &[agent.socket().to_owned()],
        "blkkin io",
        env!("CARGO_PKG_VERSION"),
        Timeouts::default(),
    )?;
    for request in requests(&trace.path) {
        client.request_all(&request)?;
    }
    let mut child = command(&args.run, &library, agent.socket()).spawn().map_err(|error| {
        Error::failed(format!("cannot run `{}`: {error}", args.run[0].to_string_lossy()))
    })?;
    let mut shower = Shower::new(args)?;
    let mut follower = Follower::new(&[Source::Path(trace.path.clone())]);
    let mut problems = Vec::new();
    let status = loop {
        let status = child.try_wait().map_err(failed)?;
        if status.is_some() || interrupt.is_set() || shower.is_over() {
            break status;
        }
        if args.has_view() {
            follower.refresh(false);
            problems
                .extend(follower.deliver_until(past(), |reading| reading, &mut shower).problems);
            shower.flush()?;
        }
        std::thread::sleep(ROUND);
    };
    client.request_all(&Request::StopSession(SESSION.to_owned()))?;
    let replies = client.request_all(&Request::DestroySession(SESSION.to_owned()))?;
    let lost = losses::from_replies(&replies);
    drop(client);
    if args.has_view() {
        follower.refresh(true);
        problems.extend(follower.deliver(|reading| reading, &mut shower).problems);
        problems.extend(follower.problems());
    }
    shower.finish()?;
    // Also removes the agent's directory, in which the trace may be.
    agent.end().map_err(failed)?;
    losses::report(&lost);
    if shower.operations() == 0 && args.has_view() && !interrupt.is_set() {
        exit::warn(
            "nothing was recorded: the command is static, or it makes its system calls without the \
             C library's functions; without --preload the kernel records them",
        );
    }
    let outcome = Outcome {
        problems,
        command: status.map(code),
        has_losses: !lost.is_empty(),
        is_interrupted: interrupt.is_set(),
    };
    Ok(outcome.report())
}

fn code(status: ExitStatus) -> u8 {
    match status.code() {
        Some(code) => code as u8,
        None => 128 + status.signal().unwrap_or(0) as u8,
    }
}

/// Returns the time before which all events have been written, in nanoseconds since 1970.
fn past() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.saturating_sub(WRITTEN_AFTER).as_nanos()).unwrap_or(i64::MAX)
}

/// Directory of the trace, removed on drop if the user did not ask for it.
struct Trace {
    path: PathBuf,
    is_temporary: bool,
}

impl Trace {
    fn new(args: &Args, agent: &Background) -> Result<Trace, Error> {
        let Some(output) = &args.output else {
            // Only this user can enter the directory of the agent's socket.
            let path = agent.socket().with_file_name("trace");
            return Ok(Trace { path, is_temporary: true });
        };
        let path = std::path::absolute(output).map_err(|error| {
            Error::failed(format!("cannot use `{}`: {error}", output.display()))
        })?;
        Ok(Trace { path, is_temporary: false })
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        if self.is_temporary {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Returns the path of the library: beside this program, or where an installation has it.
pub(super) fn find_library() -> Result<PathBuf, Error> {
    let program = std::env::current_exe().unwrap_or_default();
    let folder = program.parent().unwrap_or(Path::new("/"));
    let places = [folder.join(LIBRARY), folder.join("../lib").join(LIBRARY)];
    let found = places.iter().find(|path| path.is_file());
    found.and_then(|path| path.canonicalize().ok()).ok_or_else(|| {
        Error::failed(format!("`{LIBRARY}` is neither beside this program nor in ../lib")).hint(
            "cargo xtask install installs it; cargo build --release -p blkkin-preload builds it",
        )
    })
}

/// Returns the requests that set up and start the recording session.
fn requests(output: &Path) -> [Request; 4] {
    let session = || SESSION.to_owned();
    [
        Request::CreateSession(Session {
            name: session(),
            purpose: Purpose::Record,
            output: Some(output.to_owned()),
        }),
        Request::CreateChannel(NewChannel {
            session: session(),
            channel: Channel {
                contexts: vec![Context::Pid, Context::Tid],
                ..Channel::named("channel0")
            },
        }),
        Request::EnableEvents(Events {
            session: session(),
            channel: None,
            selection: Selection::for_names(["syscall:*", "state:*"].map(str::to_owned)),
        }),
        Request::StartSession(session()),
    ]
}

/// Returns the command with the library before those that the user loads first.
fn command(words: &[OsString], library: &Path, agent: &Path) -> Command {
    let mut loaded = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os(LOADED_FIRST).filter(|others| !others.is_empty()) {
        loaded.push(":");
        loaded.push(others);
    }
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env(VARIABLE, agent).env("BLKKIN_WAIT", WAIT_MS);
    command.env(LOADED_FIRST, loaded);
    command
}

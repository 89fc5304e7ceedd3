//! Recording from inside the command, without privileges: a library that the dynamic linker puts
//! before the C library records the calls, and an agent in this process writes them as a trace.

use super::options::Programs;
use super::outcome::Outcome;
use super::plan::Plan;
use super::printer::OperationPrinter;
use crate::commands::private_agent::PrivateAgent;
use crate::exit::{self, Error, Exit};
use crate::interrupt::Interrupt;
use crate::losses;
use blkkin_control::{Channel, Context, Selection};
use blkkin_reader::{Follower, Source};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// File name of the library.
const LIBRARY: &str = "libblkkin_preload.so";
/// Variable that names the libraries which the dynamic linker loads first.
const LOADED_FIRST: &str = "LD_PRELOAD";
/// Name of the recording session.
const SESSION: &str = "io";
/// Interval between two rounds of reading.
const ROUND: Duration = Duration::from_millis(50);
/// Time after which the agent has written all events. Later events are shown in later rounds, so
/// that those of several programs are in order.
const WRITTEN_AFTER: Duration = Duration::from_millis(300);

/// Records and shows the operations of the command.
pub(super) fn run(plan: &Plan<'_>, programs: &Programs) -> Result<Exit, Error> {
    let library = find_library()?;
    let interrupt = Interrupt::listen()?;
    let failed = |error: std::io::Error| Error::failed(format!("cannot record: {error}"));
    let mut agent = PrivateAgent::start("blkkin io")?;
    let trace = Trace::new(plan, &agent)?;
    let channel =
        Channel { contexts: vec![Context::Pid, Context::Tid], ..Channel::named("channel0") };
    let selection = Selection::for_names(["syscall:*", "state:*"].map(str::to_owned));
    agent.record(SESSION, &trace.path, None, false, channel, selection)?;
    let mut child = command(&agent, &programs.run, &library).spawn().map_err(|error| {
        Error::failed(format!("cannot run `{}`: {error}", programs.run[0].to_string_lossy()))
    })?;
    let mut printer = OperationPrinter::new(plan)?;
    let mut follower = Follower::new(&[Source::Path(trace.path.clone())]);
    let mut problems = Vec::new();
    let status = loop {
        let status = child.try_wait().map_err(failed)?;
        if status.is_some() || interrupt.is_set() || printer.is_over() {
            break status;
        }
        if plan.view.is_some() {
            follower.refresh(false);
            problems
                .extend(follower.deliver_until(past(), |reading| reading, &mut printer).problems);
            printer.update()?;
        }
        std::thread::sleep(ROUND);
    };
    let lost = agent.finish(SESSION)?;
    if plan.view.is_some() {
        follower.refresh(true);
        problems.extend(follower.deliver(|reading| reading, &mut printer).problems);
        problems.extend(follower.problems());
    }
    printer.finish()?;
    // Also removes the agent's directory, in which the trace may be.
    agent.end()?;
    losses::report(&lost);
    if printer.operations() == 0 && plan.view.is_some() && !interrupt.is_set() {
        exit::warn(
            "nothing was recorded: the command is static, or it makes its system calls without the \
             C library's functions; without --preload the kernel records them",
        );
    }
    let outcome = Outcome {
        problems,
        command: status.map(exit::command_status),
        has_losses: !lost.is_empty(),
        is_interrupted: interrupt.is_set(),
    };
    Ok(outcome.report())
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
    fn new(plan: &Plan<'_>, agent: &PrivateAgent) -> Result<Trace, Error> {
        let Some(output) = plan.output else {
            return Ok(Trace { path: agent.private_path("trace"), is_temporary: true });
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

/// Returns the command with the library before those that the user loads first.
fn command(agent: &PrivateAgent, words: &[OsString], library: &Path) -> Command {
    let mut loaded = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os(LOADED_FIRST).filter(|others| !others.is_empty()) {
        loaded.push(":");
        loaded.push(others);
    }
    let mut command = agent.command(words);
    command.env(LOADED_FIRST, loaded);
    command
}

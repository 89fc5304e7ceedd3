//! A running LTTng-UST: its session daemon, its sessions, and programs that it traces. Start at
//! [`Daemon::session`]. [`record`] records the trace with which readers are measured.

use super::c;
use super::recipe::{Control, Recipe, Session, find_metadata};
use crate::process::end;
use crate::tools::at;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Number of recording threads: one for each of two CPUs, so that both streams have events.
const THREADS: u64 = 2;

/// Time that the session daemon has to answer.
const DAEMON_START_MAX: Duration = Duration::from_secs(20);

/// Linker options for the libraries that programs traced by LTTng-UST need.
pub(crate) const LIBRARIES: [&str; 3] = ["-llttng-ust", "-ldl", "-lpthread"];

/// Name of the event that records an annotation.
pub(crate) const KEYVAL_STRING: &str = "zipkin:keyval_string";

/// Records `events` annotations to `folder`, which must not exist. Returns the folder below it that
/// contains the metadata and the streams.
pub(crate) fn record(events: u64, folder: &Path) -> Result<PathBuf, String> {
    fs::create_dir_all(folder).map_err(at(folder))?;
    let program = folder.join("annotate");
    let folders = ["", "lttng"].map(Path::new);
    let files = &["lttng/annotate.c"];
    c::compile(&program, &c::Source { folders: &folders, files, libraries: &LIBRARIES })?;
    let daemon = Daemon::start()?;
    let output = folder.join("lttng");
    let session = daemon.session(&Recipe {
        output: &output,
        is_snapshot: false,
        // With LTTNG_UST_ALLOW_BLOCKING the program waits while the buffer is full, so no event is
        // lost.
        channel: &["--subbuf-size=512K", "--num-subbuf=16", "--blocking-timeout=inf"],
        event: KEYVAL_STRING,
        contexts: &[],
    })?;
    let status = traced(&program)
        .args([THREADS.to_string(), events.to_string()])
        .env("LTTNG_UST_ALLOW_BLOCKING", "1")
        .status()
        .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    session.stop()?;
    session.destroy()?;
    if !status.success() {
        return Err(format!("{}: {status}", program.display()));
    }
    find_metadata(&output)
}

/// Returns a command for a program that LTTng-UST traces. The program waits before `main` until the
/// daemon has sent the configuration of its sessions.
pub(crate) fn traced(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("LTTNG_UST_REGISTER_TIMEOUT", "-1");
    command
}

/// Runs the `lttng` command. The option `--no-sessiond` keeps it from starting a daemon.
fn lttng(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("lttng")
        .arg("--no-sessiond")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start lttng: {error}; try `cargo xtask peers`"))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!("lttng {}: {}", arguments.join(" "), stderr.trim()))
}

/// LTTng's session daemon, stopped on drop if [`Daemon::start`] has started it.
pub(crate) struct Daemon {
    child: Option<Child>,
    /// Lock that the tests acquire, too, since root can have only one session daemon.
    _alone: File,
}

impl Daemon {
    pub(crate) fn start() -> Result<Daemon, String> {
        let path =
            std::env::temp_dir().join(format!("blkkin-lttng-{}.lock", nix::unistd::geteuid()));
        let alone = File::create(&path).and_then(|file| file.lock().map(|()| file));
        let mut daemon = Daemon { child: None, _alone: alone.map_err(at(&path))? };
        if lttng(&["list"]).is_ok() {
            return Ok(daemon);
        }
        let child = Command::new("lttng-sessiond")
            .arg("--no-kernel")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start lttng-sessiond: {error}"))?;
        daemon.child = Some(child);
        let start = Instant::now();
        while let Err(error) = lttng(&["list"]) {
            if start.elapsed() > DAEMON_START_MAX {
                return Err(format!("lttng-sessiond does not answer: {error}"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(daemon)
    }

    /// Makes and starts a session with the recipe's channel, event and contexts.
    pub(crate) fn session(&self, recipe: &Recipe<'_>) -> Result<Session<'_>, String> {
        let output = format!("--output={}", recipe.output.display());
        let mut options = vec![&*output];
        options.extend(recipe.is_snapshot.then_some("--snapshot"));
        self.start_session(&options, recipe)
    }

    /// Makes and starts a live session at the relay with these ports for commands and for data.
    pub(crate) fn live_session(
        &self,
        timer: Duration,
        (control, data): (u16, u16),
        recipe: &Recipe<'_>,
    ) -> Result<Session<'_>, String> {
        let live = format!("--live={}", timer.as_micros());
        let control = format!("--ctrl-url=tcp://127.0.0.1:{control}");
        let data = format!("--data-url=tcp://127.0.0.1:{data}");
        self.start_session(&[&live, &control, &data], recipe)
    }

    fn start_session(&self, options: &[&str], recipe: &Recipe<'_>) -> Result<Session<'_>, String> {
        let name = name();
        lttng(&[&["create", &name], options].concat())?;
        let session = Session(self);
        let of = ["--userspace", "--session", &name];
        lttng(&[&["enable-channel"], &of[..], recipe.channel, &["bench"]].concat())?;
        lttng(&[&["enable-event"], &of[..], &["--channel", "bench", recipe.event]].concat())?;
        for context in recipe.contexts {
            lttng(&[&["add-context"], &of[..], &["--type", context]].concat())?;
        }
        lttng(&["start", &name])?;
        Ok(session)
    }

    /// Returns the daemon's process id, if [`Daemon::start`] has started it.
    pub(crate) fn id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }
}

/// Returns the name of this process's session. The process id distinguishes it from other sessions
/// of the daemon.
pub(crate) fn name() -> String {
    format!("blkkin-bench-{}", std::process::id())
}

impl Control for Daemon {
    fn execute(&self, what: &str) -> Result<(), String> {
        match what {
            "snapshot" => lttng(&["snapshot", "record", "--session", &name()]),
            _ => lttng(&[what, &name()]),
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // Unlike a kill, this lets the daemon stop its children.
            end(child);
        }
    }
}

//! Records a trace with the real LTTng-UST: builds the program in `benches/lttng`, sets a session
//! up, and lets the program annotate in a tight loop. Start at [`record`].

use crate::{at, workspace_root};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// So that both processors' streams have events.
const THREADS: u64 = 2;

/// How long a session daemon may take to answer.
const DAEMON_START_MAX: Duration = Duration::from_secs(20);

/// Records `events` annotations into `folder`, which must not exist, and returns the folder in it
/// that has the metadata and the streams.
pub(super) fn record(events: u64, folder: &Path) -> Result<PathBuf, String> {
    let program = build_program(folder)?;
    let daemon = Daemon::start()?;
    let session = format!("blkkin-bench-{}", std::process::id());
    let output = folder.join("lttng");
    lttng(&["create", &session, "--output", &output.to_string_lossy()])?;
    let recorded = record_session(&session, &program, events);
    let destroyed = lttng(&["destroy", &session]);
    drop(daemon);
    recorded.and(destroyed)?;
    find_metadata(&output)
        .ok_or_else(|| format!("LTTng recorded no trace below {}", output.display()))
}

fn record_session(session: &str, program: &Path, events: u64) -> Result<(), String> {
    // A full buffer makes the program wait (with LTTNG_UST_ALLOW_BLOCKING): no event is lost.
    let channel = [
        "enable-channel",
        "--userspace",
        "--session",
        session,
        "--subbuf-size=512K",
        "--num-subbuf=16",
        "--blocking-timeout=inf",
        "bench",
    ];
    lttng(&channel)?;
    let event = "zipkin:keyval_string";
    lttng(&["enable-event", "--userspace", "--session", session, "--channel", "bench", event])?;
    lttng(&["start", session])?;
    let status = Command::new(program)
        .args([THREADS.to_string(), events.to_string()])
        .env("LTTNG_UST_ALLOW_BLOCKING", "1")
        .env("LTTNG_UST_REGISTER_TIMEOUT", "-1")
        .status()
        .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    lttng(&["stop", session])?;
    if status.success() { Ok(()) } else { Err(format!("{}: {status}", program.display())) }
}

fn build_program(folder: &Path) -> Result<PathBuf, String> {
    fs::create_dir_all(folder).map_err(at(folder))?;
    let source = workspace_root().join("benches/lttng");
    let program = folder.join("annotate");
    let status = Command::new("gcc")
        .args(["-O2", "-Wall", "-I"])
        .arg(&source)
        .arg("-I")
        .arg(workspace_root().join("benches"))
        .arg("-o")
        .arg(&program)
        .arg(source.join("annotate.c"))
        .args(["-llttng-ust", "-ldl", "-lpthread"])
        .status()
        .map_err(|error| format!("cannot start gcc: {error}; try `cargo xtask peers`"))?;
    if status.success() {
        Ok(program)
    } else {
        Err("gcc cannot build benches/lttng/annotate.c; try `cargo xtask peers`".to_owned())
    }
}

/// Runs the `lttng` command, which is not to start a daemon behind our back.
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

/// LTTng's session daemon, if we had to start it. Stopped when dropped.
struct Daemon(Option<Child>);

impl Daemon {
    fn start() -> Result<Daemon, String> {
        if lttng(&["list"]).is_ok() {
            return Ok(Daemon(None));
        }
        let child = Command::new("lttng-sessiond")
            .arg("--no-kernel")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start lttng-sessiond: {error}"))?;
        let daemon = Daemon(Some(child));
        let start = Instant::now();
        while let Err(error) = lttng(&["list"]) {
            if start.elapsed() > DAEMON_START_MAX {
                return Err(format!("lttng-sessiond does not answer: {error}"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(daemon)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // Not Child::kill: the daemon has children of its own to stop.
            let stopped = i32::try_from(child.id())
                .map(|id| kill(Pid::from_raw(id), Signal::SIGTERM))
                .is_ok_and(|result| result.is_ok());
            if stopped {
                let _ = child.wait();
            }
        }
    }
}

/// The folder below `folder` that has a file `metadata`.
fn find_metadata(folder: &Path) -> Option<PathBuf> {
    if folder.join("metadata").is_file() {
        return Some(folder.to_owned());
    }
    fs::read_dir(folder)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_dir())
        .find_map(|path| find_metadata(&path))
}

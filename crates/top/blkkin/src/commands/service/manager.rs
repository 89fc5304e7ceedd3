//! Start of recorders: by systemd, if it runs and has the recorders' unit, or else by this command,
//! as processes in the background.

use super::recorder::Recorder;
use crate::exit::Error;
use crate::output::own_program;
use crate::process_lock::Process;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Starter of recorders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manager {
    Systemd,
    /// This command.
    Own,
}

/// State of a recorder that was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StartState {
    Recording,
    /// It waits for something, with this reason.
    Waiting(String),
}

/// Time limit for a recorder's process to begin or to end.
const PATIENCE: Duration = Duration::from_secs(15);
/// Time limit for the end of a recorder, which writes what is in its programs' buffers.
const END_TIME: Duration = Duration::from_secs(60);
const UNIT: &str = "blkkin-recorder@.service";
const UNIT_DIRECTORIES: [&str; 5] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];

impl Manager {
    /// Returns systemd if it can start recorders. It starts those of root only.
    pub(super) fn find() -> Manager {
        let is_system = blkkin_sys::user_id() == 0 && !super::recorder::has_own_directories();
        let has_unit =
            || UNIT_DIRECTORIES.iter().any(|directory| Path::new(directory).join(UNIT).exists());
        match is_system && Path::new("/run/systemd/system").is_dir() && has_unit() {
            true => Manager::Systemd,
            false => Manager::Own,
        }
    }

    /// Starts a recorder, and waits until it records or knows why it does not.
    pub(super) fn start(self, recorder: &Recorder) -> Result<StartState, Error> {
        recorder.prepare()?;
        match self {
            Manager::Systemd => systemctl("start", recorder).map(|()| state_of(recorder)),
            Manager::Own => start(recorder),
        }
    }

    /// Ends a recorder, and waits until it has ended. A signal is enough for systemd, too.
    pub(super) fn stop(self, recorder: &Recorder) -> Result<(), Error> {
        match (self, recorder.process()) {
            (Manager::Systemd, _) => systemctl("stop", recorder),
            (Manager::Own, _) => recorder.lock().end(END_TIME),
        }
    }

    /// Sets whether a recorder starts with the machine.
    pub(super) fn set_enabled(self, recorder: &Recorder, is_enabled: bool) -> Result<(), Error> {
        if self == Manager::Systemd {
            systemctl(if is_enabled { "enable" } else { "disable" }, recorder)?;
        }
        recorder.set_enabled(is_enabled)
    }
}

/// Runs `systemctl` for a recorder.
fn systemctl(verb: &str, recorder: &Recorder) -> Result<(), Error> {
    let unit = format!("blkkin-recorder@{}.service", recorder.name());
    let ran =
        Command::new("systemctl").args(["--quiet", verb, &unit]).stdin(Stdio::null()).output();
    let ran = ran.map_err(|error| Error::failed(format!("systemctl cannot be run: {error}")))?;
    if ran.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&ran.stderr);
    let told = text.lines().next().unwrap_or("systemctl has failed").trim().to_owned();
    Err(Error::failed(told).hint(format!("`journalctl -u {unit}` may say more")))
}

/// Returns the state of a recorder's process.
fn state_of(recorder: &Recorder) -> StartState {
    match recorder.state()["trouble"].as_str() {
        Some(trouble) => StartState::Waiting(trouble.to_owned()),
        None => StartState::Recording,
    }
}

fn start(recorder: &Recorder) -> Result<StartState, Error> {
    let failed = |error| Error::failed(format!("the recorder's process cannot start: {error}"));
    let name = recorder.name();
    let mut child = Command::new(own_program().map_err(failed)?)
        .args(["service", "run", "--background", "--", name])
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(recorder.open_log().map_err(failed)?)
        .spawn()
        .map_err(failed)?;
    let id = child.id();
    let is_own =
        |process| matches!(process, Process::Running(pid) if pid.as_raw_pid() as u32 == id);
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        let state = recorder.state();
        let is_known = state["phase"] == "recording" || !state["trouble"].is_null();
        if is_known && state["pid"] == id && is_own(recorder.process()) {
            return Ok(state_of(recorder));
        }
        if child.try_wait().map_err(failed)?.is_some() {
            let why = recorder.last_message();
            return Err(Error::failed(format!("recorder `{name}` has ended: {why}"))
                .hint(format!("`blkkin service log {name}` shows its messages")));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(StartState::Waiting("it has not begun yet".to_owned()))
}

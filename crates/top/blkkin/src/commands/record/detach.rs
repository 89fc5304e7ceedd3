//! Recording in a process of its own, which goes on in the background: from its start with
//! `blkkin record --detach`, or from the moment when Ctrl-\ is typed at the terminal.

use crate::conversation::print;
use crate::exit::{Error, Exit, note};
use crate::interrupt::ending_signals;
use crate::output::{own_program, styled_stderr};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGQUIT, SIGUSR2};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// Name of the file in the trace's directory that tells that the command runs.
const STARTED: &str = ".started";
/// Pause before the file is looked for again.
const PAUSE: Duration = Duration::from_millis(10);

/// Starts the recording to a directory in the background, and waits until its command runs.
pub(super) fn run(output: &Path) -> Result<Exit, Error> {
    let failed =
        |error: io::Error| Error::failed(format!("cannot record in the background: {error}"));
    let log = log_of(output);
    let file = File::create_new(&log).map_err(|error| {
        let told = Error::failed(format!("cannot make `{}`: {error}", log.display()));
        told.hint("--output names another directory")
    })?;
    let mut process = Command::new(own_program().map_err(failed)?)
        .args(words(output))
        .stdin(Stdio::null())
        .stdout(file.try_clone().map_err(failed)?)
        .stderr(file)
        .spawn()
        .map_err(failed)?;
    let started = output.join(STARTED);
    loop {
        if std::fs::remove_file(&started).is_ok() {
            break;
        }
        if let Some(status) = process.try_wait().map_err(failed)? {
            // A short command has ended already.
            if std::fs::remove_file(&started).is_ok() {
                break;
            }
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            let _ = std::fs::remove_file(&log);
            let _ = styled_stderr().write_all(text.as_bytes());
            return Ok(Exit::Command(crate::exit::command_status(status)));
        }
        std::thread::sleep(PAUSE);
    }
    let messages = format!("{} has its messages", log.display());
    announce_background(output, process.id(), &messages)
}

/// Prints where a recording in the background is; `messages` says where its messages are.
fn announce_background(output: &Path, process: u32, messages: &str) -> Result<Exit, Error> {
    let shown = output.display();
    note(&format!(
        "recording in the background; `blkkin view --follow {shown}` shows the events, \
         `kill {process}` ends it, and {messages}:"
    ));
    print(&format!("{shown}\n"))?;
    Ok(Exit::Ok)
}

/// Interval at which arrived signals are noticed.
const SIGNAL_PAUSE: Duration = Duration::from_millis(50);
/// Time within which a signal of the terminal arrives again at the recording, forwarded by the
/// process that waits for it.
pub(super) const ECHO_TIME: Duration = Duration::from_millis(150);

/// Returns whether Ctrl-\ can leave the recording: the process has a terminal, and is no session
/// leader, at whose end the kernel would send SIGHUP to the recording.
pub(super) fn can_leave() -> bool {
    let own = Some(rustix::process::getpid());
    let has_terminal = io::stdin().is_terminal() || io::stderr().is_terminal();
    has_terminal && rustix::process::getsid(None).ok() != own
}

/// Starts the recording to a directory, and waits for its end, or until Ctrl-\ is typed. Forwards
/// signals that end the recording or switch its chunk. The terminal's signals thus reach the
/// recording twice: see [`ECHO_TIME`].
pub(super) fn run_until_left(output: &Path) -> Result<Exit, Error> {
    let failed = |error: io::Error| Error::failed(format!("cannot record: {error}"));
    // The recording inherits this. Otherwise the key could end it before it handles the signal.
    blkkin_sys::process::ignore_quit_signal();
    let mut process =
        Command::new(own_program().map_err(failed)?).args(words(output)).spawn().map_err(failed)?;
    let flag = |signal| {
        let flag: Arc<AtomicBool> = Arc::default();
        signal_hook::flag::register(signal, flag.clone()).map(|_| flag)
    };
    let is_left = flag(SIGQUIT)?;
    let forwarded: Vec<(i32, Arc<AtomicBool>)> = ending_signals()
        .chain([SIGUSR2])
        .map(|signal| Ok((signal, flag(signal)?)))
        .collect::<io::Result<_>>()?;
    let pid = Pid::from_child(&process);
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(process.wait()));
    loop {
        match ended.recv_timeout(SIGNAL_PAUSE) {
            Ok(status) => return Ok(Exit::Command(crate::exit::command_status(status?))),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(failed(io::ErrorKind::Other.into()));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if is_left.load(Ordering::Relaxed) {
            let messages = "its messages go on to this terminal";
            return announce_background(
                output,
                pid.as_raw_nonzero().get().unsigned_abs(),
                messages,
            );
        }
        for (signal, flag) in &forwarded {
            if flag.swap(false, Ordering::Relaxed)
                && let Some(signal) = Signal::from_named_raw(*signal)
            {
                let _ = kill_process(pid, signal);
            }
        }
    }
}

/// Tells the command that waits in [`run`] that the recorded command runs.
pub(super) fn tell(output: &Path) -> io::Result<()> {
    File::create(output.join(STARTED)).map(drop)
}

/// Returns the path of the file for messages.
fn log_of(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".log");
    name.into()
}

/// Returns the words of this command line for the process that records to a directory.
fn words(output: &Path) -> Vec<OsString> {
    let mut recorder = OsString::from("--recorder=");
    recorder.push(output);
    let mut words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let options = words.iter().position(|word| word == "record").map_or(0, |at| at + 1);
    words.insert(options, recorder);
    words
}

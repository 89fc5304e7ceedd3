//! `blkkin record --detach`: the recording goes on in a process of its own in the background.

use crate::conversation::print;
use crate::exit::{Error, Exit, note};
use crate::output::{own_program, styled_stderr};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
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
    let id = process.id();
    let (shown, log) = (output.display(), log.display());
    note(&format!(
        "recording in the background; `blkkin view --follow {shown}` shows the events, `kill {id}` \
         ends it, and {log} has its messages:"
    ));
    print(&format!("{shown}\n"))?;
    Ok(Exit::Ok)
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

/// Returns the words of this command line for the process in the background, which records to this
/// directory.
fn words(output: &Path) -> Vec<OsString> {
    let mut directory = OsString::from("--detached=");
    directory.push(output);
    let mut words: Vec<OsString> = std::env::args_os().skip(1).collect();
    // The options precede the recorded command, whose words may be the same.
    if let Some(word) = words.iter_mut().find(|word| *word == "--detach") {
        *word = directory;
    }
    words
}

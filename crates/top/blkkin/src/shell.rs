//! Shell commands of users, with a time limit.

use rustix::process::{Pid, Signal, kill_process_group};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

/// Interval between two checks of a running command.
const CHECK_PAUSE: Duration = Duration::from_millis(10);
/// Time for which a command that is ended may clean up.
const ENDING_TIME: Duration = Duration::from_secs(2);
/// Maximum size in bytes of the command's messages in a report.
const MESSAGES_MAX: u64 = 1024;

/// Prepares a shell that executes `text`; `name` is its `$0`.
pub(crate) fn command(text: &str, name: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(text).arg(name);
    command
}

/// Runs a command without input and output. It is ended at the time limit, and when `stop` is set.
/// Returns the reason of its failure, with its messages.
pub(crate) fn run(mut command: Command, limit: Duration, stop: &AtomicBool) -> Result<(), String> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    // The time limit ends all processes of the command.
    command.process_group(0);
    let mut child = command.spawn().map_err(|error| format!("cannot be run: {error}"))?;
    let (sender, messages) = channel();
    if let Some(mut stderr) = child.stderr.take() {
        thread::spawn(move || {
            let mut text = Vec::new();
            let _ = (&mut stderr).take(MESSAGES_MAX).read_to_end(&mut text);
            let _ = sender.send(String::from_utf8_lossy(&text).trim().to_owned());
            // A full pipe would block the command.
            let _ = std::io::copy(&mut stderr, &mut std::io::sink());
        });
    }
    let status = wait(&mut child, limit, stop)?;
    if status.success() {
        return Ok(());
    }
    // A process that the command has left running may keep the pipe open.
    let messages = messages.recv_timeout(Duration::from_millis(100)).unwrap_or_default();
    let colon = if messages.is_empty() { "" } else { ": " };
    Err(format!("{status}{colon}{messages}"))
}

/// Waits for a command. Ends it and all processes of its group at its time limit, and when `stop`
/// is set.
fn wait(
    child: &mut Child,
    limit: Duration,
    stop: &AtomicBool,
) -> Result<std::process::ExitStatus, String> {
    let group = Pid::from_child(child);
    let begun = Instant::now();
    let mut ending: Option<Instant> = None;
    loop {
        match child.try_wait() {
            Err(error) => return Err(format!("cannot be waited for: {error}")),
            Ok(Some(_)) if ending.is_some() => break,
            Ok(Some(status)) => return Ok(status),
            Ok(None) if ending.is_some_and(|begun| begun.elapsed() >= ENDING_TIME) => break,
            Ok(None)
                if ending.is_none()
                    && (begun.elapsed() >= limit || stop.load(Ordering::Relaxed)) =>
            {
                let _ = kill_process_group(group, Signal::TERM);
                ending = Some(Instant::now());
            }
            Ok(None) => thread::sleep(CHECK_PAUSE),
        }
    }
    let _ = kill_process_group(group, Signal::KILL);
    let _ = child.wait();
    let lasted = ending.map_or(limit, |ending| ending.duration_since(begun));
    Err(format!("was ended after {}", crate::values::span_text(lasted.min(limit))))
}

//! Sends signals to other processes without the program `kill`, which minimal systems lack.

use rustix::process::{Pid, kill_process};

pub use rustix::process::Signal;

/// Sends a signal to a process that the test has started.
#[track_caller]
pub fn signal(id: u32, signal: Signal) {
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw);
    let sent = pid.map(|pid| kill_process(pid, signal));
    assert_eq!(sent, Some(Ok(())), "{signal:?} to process {id}");
}

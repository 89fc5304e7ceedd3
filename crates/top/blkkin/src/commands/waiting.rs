//! Processes that the agent's command starts before the agent gives up its rights, and that wait
//! until the agent needs them.

use crate::output::own_program;
use blkkin_agent::WaitingProcess;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Starts a waiting process: this program with the given arguments.
pub(super) fn spawn(arguments: &[&str]) -> io::Result<WaitingProcess> {
    let (start, pipe) = io::pipe()?;
    Command::new(own_program()?)
        .args(arguments)
        .stdin(start)
        .stdout(Stdio::null())
        // Ctrl-C ends the agent, which ends the process when it has written everything.
        .process_group(0)
        .spawn()?;
    Ok(WaitingProcess::new(OwnedFd::from(pipe)))
}

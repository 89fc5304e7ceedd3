//! Start of the command: a process of this program stops itself, is chosen, and becomes the
//! command when it is continued. So the command is recorded from its first system call.

use crate::exit::{self, Error, Exit};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process, waitid};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// Exit status of a shell for a command that is not found.
const NOT_FOUND: u8 = 127;
/// Exit status of a shell for a command that cannot be run.
const NOT_RUN: u8 = 126;

/// Stops this process until it is continued, and then executes the command in its place. If the
/// command cannot be run, returns the exit status that a shell would return.
pub(super) fn pass(command: &[OsString]) -> Exit {
    let _ = kill_process(getpid(), Signal::STOP);
    let error = Command::new(&command[0]).args(&command[1..]).exec();
    let is_missing = error.kind() == io::ErrorKind::NotFound;
    Error::failed(format!("cannot run `{}`: {error}", command[0].to_string_lossy())).report();
    Exit::Command(if is_missing { NOT_FOUND } else { NOT_RUN })
}

/// Running command.
pub(super) struct Gated {
    child: Child,
}

impl Gated {
    /// Starts the command after `choose` has chosen its process.
    pub(super) fn start(
        command: &[OsString],
        mut choose: impl FnMut(u32) -> Result<(), Error>,
    ) -> Result<Gated, Error> {
        let failed = |error: io::Error| {
            Error::failed(format!("cannot run `{}`: {error}", command[0].to_string_lossy()))
        };
        // The path gives the process its name until it is the command.
        let program = std::env::current_exe().ok().filter(|path| path.exists());
        let program = program.unwrap_or_else(|| "/proc/self/exe".into());
        let mut child = Command::new(program)
            .args(["io", "--gate", "--"])
            .args(command)
            .spawn()
            .map_err(failed)?;
        let pid = Pid::from_child(&child);
        let stopped = waitid(
            WaitId::Pid(pid),
            WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
        );
        let is_chosen =
            stopped.map_err(|error| failed(error.into())).and_then(|_| choose(child.id()));
        if let Err(error) = is_chosen {
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
        kill_process(pid, Signal::CONT).map_err(|error| failed(error.into()))?;
        Ok(Gated { child })
    }

    /// Returns the command's exit status, by [`exit::command_status`], if it has ended.
    pub(super) fn try_wait(&mut self) -> Result<Option<u8>, Error> {
        let status = self.child.try_wait();
        let status = status
            .map_err(|error| Error::failed(format!("cannot wait for the command: {error}")))?;
        Ok(status.map(exit::command_status))
    }
}

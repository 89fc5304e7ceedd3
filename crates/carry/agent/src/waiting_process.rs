//! Processes with rights that the agent gives up: the tracer of the kernel, and the forwarder of
//! sessions. The agent's starter has created them; each waits until a session first needs it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Way to start a waiting process, which then connects to the agent.
#[derive(Clone, Debug)]
pub struct WaitingProcess {
    /// Writing end of the pipe from which the process reads the path of the agent's socket, with a
    /// NUL at its end, before it begins. The process ends when the pipe is closed.
    start: Arc<OwnedFd>,
    has_started: bool,
}

impl WaitingProcess {
    /// Takes the writing end of the waiting process's pipe.
    pub fn new(start: OwnedFd) -> WaitingProcess {
        WaitingProcess { start: Arc::new(start), has_started: false }
    }

    /// Starts the process, unless it was started before. `socket` is the path of the agent's
    /// socket.
    pub(crate) fn start(&mut self, socket: &Path) -> io::Result<()> {
        if !std::mem::replace(&mut self.has_started, true) {
            // Paths are shorter than a pipe's buffer, so all of it is written.
            rustix::io::write(
                self.start.as_fd(),
                &[socket.as_os_str().as_bytes(), b"\0"].concat(),
            )?;
        }
        Ok(())
    }
}

//! The tracer of the kernel, a process with the rights that the agent gives up. The agent's starter
//! has created it; it waits until a session first records events of the kernel.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Way to start the tracer of the kernel, which then connects like a program.
#[derive(Clone, Debug)]
pub struct KernelTracer {
    /// Writing end of the pipe from which the tracer reads the path of the agent's socket, with a
    /// NUL at its end, before it begins. The tracer ends when the pipe is closed.
    start: Arc<OwnedFd>,
    has_started: bool,
}

impl KernelTracer {
    /// Takes the writing end of the waiting tracer's pipe.
    pub fn new(start: OwnedFd) -> KernelTracer {
        KernelTracer { start: Arc::new(start), has_started: false }
    }

    /// Starts the tracer, unless it was started before. `socket` is the path of the agent's socket.
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

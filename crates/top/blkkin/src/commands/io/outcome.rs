//! Exit status of a recording.

use crate::exit::{self, Exit};
use blkkin_reader::Problem;

/// Result of a recording, which decides the exit status.
pub(super) struct Outcome {
    pub(super) problems: Vec<Problem>,
    /// Exit status of the command, if it has ended.
    pub(super) command: Option<u8>,
    pub(super) has_losses: bool,
    pub(super) is_interrupted: bool,
}

impl Outcome {
    /// Reports the problems, and returns the exit status.
    pub(super) fn report(&self) -> Exit {
        let exit = exit::report_problems(&self.problems);
        match self.command {
            _ if exit != Exit::Ok => exit,
            Some(0) | None if self.has_losses => Exit::Lost,
            Some(status) => Exit::Command(status),
            None if self.is_interrupted => Exit::Interrupted,
            None => Exit::Ok,
        }
    }
}

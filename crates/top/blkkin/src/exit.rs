//! Exit statuses that scripts can rely on, and errors with a message and a hint.

use crate::output::{message, styled_stderr};
use blkkin_reader::Problem;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

/// Exit status of `blkkin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything succeeded.
    Ok,
    /// The command failed, or a part could not be read or written.
    Failed,
    /// The command line was wrong, and nothing was done.
    Usage,
    /// The command succeeded, but events of the recording were lost.
    Lost,
    /// Ctrl-C, SIGTERM or the closing of the terminal ended the command.
    Interrupted,
    /// Exit status of the command that `blkkin` has run, by [`command_status`].
    Command(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Ok => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Lost => 3,
            Exit::Interrupted => 130,
            Exit::Command(status) => status,
        })
    }
}

/// Returns the exit status that a shell would report for a command: that of the command, or 128
/// plus the number of the signal that ended it.
pub(crate) fn command_status(status: ExitStatus) -> u8 {
    match status.code() {
        Some(code) => code as u8,
        None => 128 + status.signal().unwrap_or(0) as u8,
    }
}

/// Error that ends a command: exit status, message and hint.
#[derive(Debug)]
pub(crate) struct Error {
    exit: Exit,
    message: String,
    hint: Option<String>,
}

impl Error {
    /// Creates an error of the command line, with exit status 2.
    pub(crate) fn usage(message: impl Into<String>) -> Error {
        Error { exit: Exit::Usage, message: message.into(), hint: None }
    }

    /// Creates an error during execution, with exit status 1.
    pub(crate) fn failed(message: impl Into<String>) -> Error {
        Error { exit: Exit::Failed, message: message.into(), hint: None }
    }

    /// Sets the advice on how to solve the problem; replaces an earlier one.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Error {
        self.hint = Some(hint.into());
        self
    }

    /// Returns the message without the hint.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Returns the advice on how to solve the problem.
    pub(crate) fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Prints the error and its hint to standard error; returns the exit status.
    pub(crate) fn report(self) -> Exit {
        let mut err = styled_stderr();
        let _ = writeln!(err, "{ERROR}error:{ERROR:#} {}", message(&self.message));
        if let Some(hint) = self.hint {
            let _ = writeln!(err, "{HINT}hint:{HINT:#} {}", message(&hint));
        }
        self.exit
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::failed(format!("cannot write output: {error}"))
    }
}

/// Prints a warning to standard error.
pub(crate) fn warn(text: &str) {
    let _ = writeln!(styled_stderr(), "{HINT}warning:{HINT:#} {}", message(text));
}

/// Prints an informational line to standard error.
pub(crate) fn note(line: &str) {
    let _ = writeln!(styled_stderr(), "{}", message(line));
}

const ERROR: clap::builder::styling::Style =
    clap::builder::styling::AnsiColor::Red.on_default().bold();
const HINT: clap::builder::styling::Style =
    clap::builder::styling::AnsiColor::Cyan.on_default().bold();

/// Maximum number of warnings, and of errors, of the reader that are printed individually.
const PROBLEMS_SHOWN_MAX: usize = 20;

/// Prints the reader's errors and warnings to standard error; returns the exit status.
pub(crate) fn report_problems(problems: &[Problem]) -> Exit {
    let mut err = styled_stderr();
    let mut last_hint = None;
    let (warnings, problems): (Vec<_>, Vec<_>) =
        problems.iter().partition(|problem| problem.is_warning());
    for warning in warnings.iter().take(PROBLEMS_SHOWN_MAX) {
        let _ = writeln!(err, "{HINT}warning:{HINT:#} {}", message(&warning.to_string()));
    }
    if warnings.len() > PROBLEMS_SHOWN_MAX {
        let more = warnings.len() - PROBLEMS_SHOWN_MAX;
        let _ = writeln!(err, "{HINT}warning:{HINT:#} and {more} more of the like");
    }
    for problem in problems.iter().take(PROBLEMS_SHOWN_MAX) {
        let _ = writeln!(err, "{ERROR}error:{ERROR:#} {}", message(&problem.to_string()));
        if let Some(hint) = problem.hint().filter(|hint| last_hint != Some(*hint)) {
            let _ = writeln!(err, "{HINT}hint:{HINT:#} {hint}");
            last_hint = Some(hint);
        }
    }
    if problems.len() > PROBLEMS_SHOWN_MAX {
        let more = problems.len() - PROBLEMS_SHOWN_MAX;
        let _ = writeln!(err, "{ERROR}error:{ERROR:#} and {more} more of the like");
    }
    if problems.is_empty() { Exit::Ok } else { Exit::Failed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_the_status_of_a_shell() {
        assert_eq!(command_status(ExitStatus::from_raw(7 << 8)), 7);
        assert_eq!(command_status(ExitStatus::from_raw(0)), 0);
        assert_eq!(command_status(ExitStatus::from_raw(15)), 143);
    }
}

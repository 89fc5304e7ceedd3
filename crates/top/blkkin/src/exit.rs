//! How the program ends: exit statuses that scripts can rely on, and errors that say what, where
//! and what to do.

use crate::output::{message, styled_stderr};
use blkkin_reader::Problem;
use std::io::{self, Write};
use std::process::ExitCode;

/// Exit statuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All well.
    Ok,
    /// Something could not be read or written; the rest was.
    Failed,
    /// The command line makes no sense; nothing was done.
    Usage,
    /// What was asked for is done, but something of a recording was lost.
    Lost,
    /// Ctrl-C.
    Interrupted,
    /// That of a command that was run.
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

/// An error that ends a command.
#[derive(Debug)]
pub(crate) struct Error {
    exit: Exit,
    message: String,
    hint: Option<String>,
}

impl Error {
    /// The command line makes no sense.
    pub(crate) fn usage(message: impl Into<String>) -> Error {
        Error { exit: Exit::Usage, message: message.into(), hint: None }
    }

    /// Something failed.
    pub(crate) fn failed(message: impl Into<String>) -> Error {
        Error { exit: Exit::Failed, message: message.into(), hint: None }
    }

    /// What to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Error {
        self.hint = Some(hint.into());
        self
    }

    /// Tells the user.
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

/// Tells the user of something that may be wrong.
pub(crate) fn warn(text: &str) {
    let _ = writeln!(styled_stderr(), "{HINT}warning:{HINT:#} {}", message(text));
}

/// Tells the user what is not data.
pub(crate) fn note(line: &str) {
    let _ = writeln!(styled_stderr(), "{}", message(line));
}

const ERROR: clap::builder::styling::Style =
    clap::builder::styling::AnsiColor::Red.on_default().bold();
const HINT: clap::builder::styling::Style =
    clap::builder::styling::AnsiColor::Cyan.on_default().bold();

/// How many problems are told one by one.
const PROBLEMS_TOLD: usize = 20;

/// Tells the user what could not be read, and what was read with a doubt; gives the status that
/// follows.
pub(crate) fn report_problems(problems: &[Problem]) -> Exit {
    let mut err = styled_stderr();
    let mut last_hint = None;
    let (warnings, problems): (Vec<_>, Vec<_>) =
        problems.iter().partition(|problem| problem.is_warning());
    for warning in warnings.iter().take(PROBLEMS_TOLD) {
        let _ = writeln!(err, "{HINT}warning:{HINT:#} {}", message(&warning.to_string()));
    }
    if warnings.len() > PROBLEMS_TOLD {
        let more = warnings.len() - PROBLEMS_TOLD;
        let _ = writeln!(err, "{HINT}warning:{HINT:#} and {more} more of the like");
    }
    for problem in problems.iter().take(PROBLEMS_TOLD) {
        let _ = writeln!(err, "{ERROR}error:{ERROR:#} {}", message(&problem.to_string()));
        if let Some(hint) = problem.hint().filter(|hint| last_hint != Some(*hint)) {
            let _ = writeln!(err, "{HINT}hint:{HINT:#} {hint}");
            last_hint = Some(hint);
        }
    }
    if problems.len() > PROBLEMS_TOLD {
        let more = problems.len() - PROBLEMS_TOLD;
        let _ = writeln!(err, "{ERROR}error:{ERROR:#} and {more} more of the like");
    }
    if problems.is_empty() { Exit::Ok } else { Exit::Failed }
}

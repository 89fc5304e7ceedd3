//! Errors of writing a trace.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Error of writing a file or directory, or of a source trace that cannot be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Path of the file or directory, or of the source trace.
    pub path: PathBuf,
    /// Description of the error, as a lower-case phrase.
    pub message: String,
    /// Suggested next step.
    pub hint: Option<&'static str>,
}

impl Error {
    pub(crate) fn new(path: &Path, message: impl Into<String>) -> Error {
        Error { path: path.to_owned(), message: message.into(), hint: None }
    }

    pub(crate) fn io(path: &Path, action: &str, error: &io::Error) -> Error {
        let reason = match error.kind() {
            io::ErrorKind::NotFound => "no such file or directory".to_owned(),
            io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
            _ => error.to_string(),
        };
        Error::new(path, format!("cannot {action}: {reason}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.message)
    }
}

impl std::error::Error for Error {}

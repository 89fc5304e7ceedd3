//! Errors of files with certificates, keys and tokens.

use std::fmt;
use std::path::{Path, PathBuf};

/// Reason why certificates, keys or tokens cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The token files permit only one kind of access, so no token would permit the other one.
    Tokens {
        /// Access that no token would permit: `reading`, `writing`, or `reading and writing`.
        missing: &'static str,
    },
    /// A file cannot be used.
    File {
        /// Path of the file.
        path: PathBuf,
        /// Reason why the file cannot be used, as text for the message.
        reason: String,
    },
    /// TLS cannot be set up, for a reason that is no file's.
    Tls(String),
}

impl Error {
    pub(crate) fn file(path: &Path, reason: impl ToString) -> Error {
        Error::File { path: path.to_owned(), reason: reason.to_string() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Tokens { missing } => write!(f, "tokens for {missing} are missing"),
            Error::File { path, reason } => write!(f, "{}: {reason}", path.display()),
            Error::Tls(reason) => write!(f, "{reason}"),
        }
    }
}

impl std::error::Error for Error {}

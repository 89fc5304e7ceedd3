//! What can go wrong: an [`Error`] with the disk or with what is on it, and a [`Refusal`] of what was
//! to be appended.

use rustix::io::Errno;
use std::fmt;
use std::io;
use std::sync::Arc;

/// What went wrong, and with which file.
#[derive(Debug)]
pub struct Error {
    /// A name in the journal's directory; empty for the directory itself.
    pub file: String,
    /// What it was.
    pub kind: ErrorKind,
}

/// What went wrong.
#[derive(Debug)]
pub enum ErrorKind {
    /// Somebody has the journal open: another process that writes it, or, for who wants to write,
    /// also one that reads it.
    Locked,
    /// The segment was written by a later release, in a form that this one must not touch.
    Newer {
        /// Of the form.
        version: u32,
        /// Bits that one must know to read.
        incompat: u32,
        /// Bits that one must know to write.
        read_only_compat: u32,
    },
    /// The segment belongs to another journal.
    Foreign,
    /// There are more than [`SEGMENTS_MAX`](crate::SEGMENTS_MAX) segments.
    TooManySegments,
    /// No larger number is left for segments or records.
    NumbersExhausted,
    /// The journal would become larger than its options permit.
    Limit {
        /// What they permit.
        bytes_max: u64,
    },
    /// The name of a position has characters that file names should not have, or too many.
    Name,
    /// The options contradict each other.
    Options(&'static str),
    /// The operating system refused.
    Io {
        /// What was tried.
        during: &'static str,
        /// Its answer.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn new(file: impl Into<String>, kind: ErrorKind) -> Error {
        Error { file: file.into(), kind }
    }

    /// For `map_err` of what the disk says.
    pub(crate) fn io(file: &str, during: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::new(file, ErrorKind::Io { during, source })
    }

    /// Whether it would not have happened with more room: on the disk, by quota, or by the options.
    pub fn is_full(&self) -> bool {
        match &self.kind {
            ErrorKind::Limit { .. } => true,
            ErrorKind::Io { source, .. } => {
                matches!(Errno::from_io_error(source), Some(Errno::NOSPC | Errno::DQUOT))
            }
            _ => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.file.as_str() {
            "" => write!(f, "journal: ")?,
            file => write!(f, "journal file {file}: ")?,
        }
        match &self.kind {
            ErrorKind::Locked => write!(f, "is in use; is another process running with it?"),
            ErrorKind::Newer { version, incompat, read_only_compat } => write!(
                f,
                "was written by a later release (version {version}, incompat bits {incompat:#x}, \
                 read-only compat bits {read_only_compat:#x}), which has to read it"
            ),
            ErrorKind::Foreign => write!(f, "belongs to another journal; move it away"),
            ErrorKind::TooManySegments => {
                write!(f, "more than {} segments", crate::layout::SEGMENTS_MAX)
            }
            ErrorKind::NumbersExhausted => write!(f, "no number is left"),
            ErrorKind::Limit { bytes_max } => {
                write!(f, "would take more than the {bytes_max} bytes that it may")
            }
            ErrorKind::Name => {
                write!(f, "not a name; use up to 64 letters, digits, hyphens and underscores")
            }
            ErrorKind::Options(why) => write!(f, "{why}"),
            ErrorKind::Io { during, source } => write!(f, "cannot {during}: {source}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ErrorKind::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Why something was not appended, or not acknowledged. It may be in the journal all the same, but
/// nobody may rely on that.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// As much as memory may hold waits already. Try again soon.
    TryAgain,
    /// There is no room on the disk, or no more is permitted. Goes on by itself when there is.
    Full(Arc<Error>),
    /// The disk fails. Goes on by itself when it does not any more.
    Failing(Arc<Error>),
    /// A payload is larger than the options permit, or all of them are together.
    TooLarge {
        /// What it or they take.
        bytes: u64,
        /// What they may take.
        bytes_max: u64,
    },
    /// The journal is being closed.
    Closed,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        match error.is_full() {
            true => Refusal::Full(Arc::new(error)),
            false => Refusal::Failing(Arc::new(error)),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::TryAgain => write!(f, "too much waits to be written; try again soon"),
            Refusal::Full(error) => write!(f, "no room: {error}"),
            Refusal::Failing(error) => write!(f, "the disk fails: {error}"),
            Refusal::TooLarge { bytes, bytes_max } => {
                write!(f, "{bytes} bytes are more than the {bytes_max} that may be appended")
            }
            Refusal::Closed => write!(f, "the journal is closed"),
        }
    }
}

impl std::error::Error for Refusal {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Refusal::Full(error) | Refusal::Failing(error) => Some(&**error),
            _ => None,
        }
    }
}

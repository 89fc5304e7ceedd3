//! Errors of the disk or its contents ([`Error`]), and reasons for refusing an append
//! ([`Refusal`]).

use rustix::io::Errno;
use std::fmt;
use std::io;
use std::sync::Arc;

/// Error in one of the journal's files, or in its directory.
#[derive(Debug)]
pub struct Error {
    /// Name of the file in the journal's directory; empty for the directory itself.
    pub file: String,
    /// Failed operation, or property of the file that makes it unusable.
    pub kind: ErrorKind,
}

/// Kind of an error in a journal's files.
#[derive(Debug)]
pub enum ErrorKind {
    /// Another process writes the journal and has locked it. A writer also gets this error if
    /// another process reads the journal.
    Locked,
    /// The segment was written by a later release, in a format that this release must not change.
    Newer {
        /// Version of the segment's format.
        version: u32,
        /// Incompat bits of the segment. A release that does not support one of these bits must not
        /// read the segment.
        incompat: u32,
        /// Read-only compat bits of the segment. A release that does not support one of these bits
        /// must not write to the journal.
        read_only_compat: u32,
    },
    /// The segment has the identity of another journal.
    Foreign,
    /// There are more than [`SEGMENTS_MAX`](crate::SEGMENTS_MAX) segments.
    TooManySegments,
    /// The numbers of segments or records are exhausted.
    NumbersExhausted,
    /// The journal would exceed the size that its options permit.
    Limit {
        /// Size that the options permit, in bytes.
        bytes_max: u64,
    },
    /// The name of a consumer is empty or too long, or has a character that file names of positions
    /// must not contain.
    Name,
    /// The options contradict each other, as the text explains.
    Options(&'static str),
    /// A system call on one of the files failed.
    Io {
        /// Description of the failed operation, such as "open the directory".
        during: &'static str,
        /// Error of the system call.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn new(file: impl Into<String>, kind: ErrorKind) -> Error {
        Error { file: file.into(), kind }
    }

    /// Returns a function for `map_err` that converts an I/O error with this file into an
    /// [`Error`].
    pub(crate) fn io(file: &str, during: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::new(file, ErrorKind::Io { during, source })
    }

    /// Returns true if the cause is a lack of space: on the disk, in a quota, or by the options.
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

/// Reason why records were not appended, or not acknowledged. The records may be in the journal
/// nevertheless, but no caller may rely on that.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// The buffer of pending records is full. A later attempt succeeds once the writer has made
    /// progress.
    TryAgain,
    /// The disk, a quota or the journal's limit is full. Appends are accepted again as soon as
    /// space is free.
    Full(Arc<Error>),
    /// The disk fails. Appends are accepted again as soon as a write succeeds.
    Failing(Arc<Error>),
    /// A payload exceeds its limit, or all payloads of the append together exceed the buffer.
    TooLarge {
        /// Size of the payload, or of all payloads, in bytes.
        bytes: u64,
        /// Maximum permitted size in bytes.
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

//! Errors of a journal ([`Error`]), and reasons for refusing an append ([`Refusal`]).

use rustix::io::Errno;
use std::fmt;
use std::io;
use std::sync::Arc;

/// Error of a journal, with the file or consumer name that the error concerns.
#[derive(Debug)]
pub struct Error {
    /// Name of the file in the journal's directory, or the invalid consumer name. Empty if the
    /// error concerns the directory or the journal as a whole.
    pub file: String,
    /// Cause of the error.
    pub kind: ErrorKind,
}

/// Cause of an error of a journal.
#[derive(Debug)]
pub enum ErrorKind {
    /// Locked directory. The lock belongs to a writer or, on opening for writing, possibly to a
    /// reader of the journal at rest. The lock's holder may be this process.
    Locked,
    /// Segment with a format version or feature bit that this release does not support. The journal
    /// is neither read nor written.
    Newer {
        /// Format version of the segment.
        version: u32,
        /// Incompat bits of the segment. A release that does not support one of these bits must not
        /// read the segment.
        incompat: u32,
        /// Read-only compat bits of the segment. A release that does not support one of these bits
        /// must not write to the journal.
        read_only_compat: u32,
    },
    /// Segment with the identity of another journal.
    Foreign,
    /// Directory with more than [`SEGMENTS_MAX`](crate::SEGMENTS_MAX) segments.
    TooManySegments,
    /// Overflow of segment numbers or sequence numbers.
    NumbersExhausted,
    /// Journal that would exceed its maximum total size.
    Limit {
        /// Maximum total size in bytes, as set in the options.
        bytes_max: u64,
    },
    /// Consumer name that is empty or too long, or that has a character not permitted in the names
    /// of position files.
    Name,
    /// Options that contradict each other or exceed a limit; the text states the violated
    /// condition.
    Options(&'static str),
    /// Failed system call, mostly on one of the files, or panic of the writing thread.
    Io {
        /// Description of the failed operation, such as "open the directory".
        during: &'static str,
        /// I/O error of the operation; of kind `Other` after a panic.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn new(file: impl Into<String>, kind: ErrorKind) -> Error {
        Error { file: file.into(), kind }
    }

    /// Returns a function that converts an I/O error of this file into an [`Error`], for use with
    /// `map_err`.
    pub(crate) fn io(file: &str, during: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::new(file, ErrorKind::Io { during, source })
    }

    /// Returns true if the cause is a lack of space: on the disk, in a quota, or under the
    /// journal's own limit.
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

/// Reason why records were not appended, or were not acknowledged. Refused records may be in the
/// journal nevertheless, but no caller may rely on that.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// Back-pressure: the buffer of pending records is full. A later attempt can succeed once the
    /// writer has made progress.
    TryAgain,
    /// Lack of space: the disk, a quota or the journal itself is full. Appends are accepted again
    /// as soon as a write succeeds. The writer retries at intervals, and after each
    /// [`trim_before`](crate::Journal::trim_before).
    Full(Arc<Error>),
    /// Failure of the disk, or exhausted segment numbers or sequence numbers. Appends are accepted
    /// again as soon as a write succeeds.
    Failing(Arc<Error>),
    /// Payload that exceeds its limit, or append whose payloads together exceed the buffer.
    TooLarge {
        /// Size in bytes of the payload or, if the append is too large, of all its records with
        /// headers and padding.
        bytes: u64,
        /// Maximum permitted size in bytes.
        bytes_max: u64,
    },
    /// Journal that is closed or being closed, also after a panic of its writing thread.
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

//! What can go wrong: an [`Error`] that keeps an exporter from being opened, and a [`Refusal`] of a span.

use blkkin_wire::Format;
use std::path::PathBuf;
use std::sync::Arc;
use std::{fmt, io};

/// Why there is no exporter.
#[derive(Debug)]
pub enum Error {
    /// The URL is none that is understood.
    Destination(String),
    /// The headers are none.
    Headers(String),
    /// The certificates of those to be trusted cannot be had.
    Certificates(String),
    /// The options contradict each other.
    Options(&'static str),
    /// The queue cannot be opened.
    Queue(blkkin_journal::Error),
    /// What waits in the queue is in another format.
    OtherFormat {
        /// Which.
        found: Format,
        /// Which is wanted.
        wanted: Format,
    },
    /// What waits in the queue cannot be understood: a later release has written it.
    Newer,
    /// The operating system refused something.
    Io {
        /// What was tried.
        during: &'static str,
        /// With which file; empty is none.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Destination(why) => {
                write!(
                    f,
                    "spans cannot be sent there: {why}; what is understood:\n{}",
                    crate::UNDERSTOOD
                )
            }
            Error::Headers(why) => write!(f, "headers: {why}"),
            Error::Certificates(why) => write!(f, "certificates: {why}"),
            Error::Options(why) => f.write_str(why),
            Error::Queue(error) => write!(f, "the queue's {error}"),
            Error::OtherFormat { found, wanted } => write!(
                f,
                "what waits in the queue is {}, not {}; send it with that format first, or use another folder",
                found.name(),
                wanted.name()
            ),
            Error::Newer => write!(
                f,
                "what waits in the queue was written by a later release, which has to send it"
            ),
            Error::Io { during, path, source } if path.as_os_str().is_empty() => {
                write!(f, "cannot {during}: {source}")
            }
            Error::Io { during, path, source } => {
                write!(f, "{}: cannot {during}: {source}", path.display())
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Queue(error) => Some(error),
            Error::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<blkkin_journal::Error> for Error {
    fn from(error: blkkin_journal::Error) -> Error {
        Error::Queue(error)
    }
}

/// Why a span was not taken, or is not safe yet. All of it ends by itself, but for the last.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// As much waits as may.
    Full,
    /// The disk has no room, or fails.
    Disk(Arc<blkkin_journal::Refusal>),
    /// The exporter is being closed.
    Closed,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Full => write!(f, "the queue is full"),
            Refusal::Disk(refusal) => write!(f, "the queue: {refusal}"),
            Refusal::Closed => write!(f, "the exporter is closed"),
        }
    }
}

impl std::error::Error for Refusal {}

//! Errors: [`Error`] when an exporter is configured or opened, and [`Refusal`] when a span is
//! pushed or flushed.

use crate::supported_urls::SUPPORTED_URLS;
use blkkin_wire::Format;
use std::path::PathBuf;
use std::sync::Arc;
use std::{fmt, io};

/// Error when an exporter is configured or opened.
#[derive(Debug)]
pub enum Error {
    /// The URL is malformed or not supported, or does not permit the format.
    Destination(String),
    /// A header is malformed or reserved, or the list of headers is too long.
    Headers(String),
    /// The trusted certificates cannot be loaded, or the host name is malformed, so that no
    /// certificate can contain it.
    Certificates(String),
    /// An option is out of range, or the options are inconsistent.
    Options(&'static str),
    /// The queue cannot be opened.
    Queue(blkkin_journal::Error),
    /// The queue contains batches in another format.
    OtherFormat {
        /// Format of the queued batches.
        queued: Format,
        /// Format of the destination.
        expected: Format,
    },
    /// The queue contains batches written by a later release.
    Newer,
    /// A system call failed.
    Io {
        /// Description of the failed action, for the message.
        during: &'static str,
        /// Path of the file or folder; may be empty.
        path: PathBuf,
        /// Error that the system call returned.
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
                    SUPPORTED_URLS
                )
            }
            Error::Headers(why) => write!(f, "headers: {why}"),
            Error::Certificates(why) => write!(f, "certificates: {why}"),
            Error::Options(why) => f.write_str(why),
            Error::Queue(error) => write!(f, "the queue's {error}"),
            Error::OtherFormat { queued: found, expected: wanted } => write!(
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

/// Reason why a span was refused, or why pushed spans could not be moved to the queue. Only
/// [`Refusal::Closed`] and a closed journal are permanent.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// The queue is full.
    Full,
    /// The disk is full or failing, or the queue's journal is closed.
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

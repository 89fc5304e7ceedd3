//! Problems found in a trace: path, offset and cause of each, and for some causes a hint for the
//! user.

use crate::limits::EVENT_SIZE_MAX;
use blkkin_ctf::schema::Uuid;
use std::fmt;
use std::path::{Path, PathBuf};

/// Problem found in a trace. Unless the problem is a [warning](Problem::is_warning), a part of the
/// trace was not read. The remaining parts are read nevertheless.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path of the affected file or directory.
    pub path: PathBuf,
    /// Byte offset of the problem in the file; `None` if unknown.
    pub offset: Option<u64>,
    /// Cause of the problem, with details.
    pub kind: ProblemKind,
}

/// Cause of a problem with a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// A system call on a file or directory failed.
    Io {
        /// Verb for the failed operation, such as "open".
        action: &'static str,
        /// Message of the system's error.
        reason: String,
    },
    /// The path is neither a directory at or above a metadata file, nor a stream file beside one.
    NoTrace,
    /// The metadata is missing, invalid or unusable, for the reason in the text.
    Metadata(String),
    /// The metadata file has bytes after its last packet, which are ignored.
    StrayMetadata {
        /// Number of bytes that are ignored.
        size: usize,
    },
    /// Two directories have the same UUID, but the longer metadata does not extend the shorter.
    MetadataMismatch {
        /// Directory with the metadata that are used for both directories.
        described_by: PathBuf,
        /// UUID that both directories have.
        uuid: Uuid,
    },
    /// The UUID of a packet differs from the trace's UUID in the metadata.
    ForeignPacket {
        /// UUID that the packet states.
        uuid: Uuid,
    },
    /// A packet, an event or a stream file is invalid, for the reason in the text.
    Data(String),
    /// The metadata lacks the class of an event, as happens while a trace is still being recorded.
    UnknownEventClass(String),
    /// The file is truncated within its last packet.
    Truncated {
        /// Number of bytes that the packet declares but the file lacks.
        missing: u64,
    },
    /// The file is truncated within a packet's header.
    TruncatedHeader,
    /// An event, or the line printed for it, exceeds the reader's limit.
    EventTooLarge,
}

impl Problem {
    pub(crate) fn new(path: &Path, offset: Option<u64>, kind: ProblemKind) -> Problem {
        Problem { path: path.to_owned(), offset, kind }
    }

    pub(crate) fn io(path: &Path, action: &'static str, error: &std::io::Error) -> Problem {
        let reason = match error.kind() {
            std::io::ErrorKind::NotFound => "no such file or directory".to_owned(),
            std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
            _ => error.to_string(),
        };
        Problem::new(path, None, ProblemKind::Io { action, reason })
    }

    /// Returns true if all data were read in spite of the problem.
    pub fn is_warning(&self) -> bool {
        use ProblemKind::{ForeignPacket, MetadataMismatch, StrayMetadata};
        matches!(self.kind, StrayMetadata { .. } | MetadataMismatch { .. } | ForeignPacket { .. })
    }

    /// Returns advice for the user on how to solve the problem, or `None`.
    pub fn hint(&self) -> Option<&'static str> {
        match self.kind {
            ProblemKind::NoTrace => Some(
                "a trace is a directory with a file called `metadata`; give its path, or that of \
                 a directory above it",
            ),
            ProblemKind::Truncated { .. } | ProblemKind::TruncatedHeader => {
                Some("the events before are complete; for a recording that goes on use --follow")
            }
            _ => None,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        if let Some(offset) = self.offset {
            write!(f, "offset {offset}: ")?;
        }
        match &self.kind {
            ProblemKind::Io { action, reason } => write!(f, "cannot {action}: {reason}"),
            ProblemKind::NoTrace => f.write_str("no CTF trace found"),
            ProblemKind::Metadata(message) => write!(f, "metadata: {message}"),
            ProblemKind::StrayMetadata { size } => {
                let bytes = if *size == 1 { "byte" } else { "bytes" };
                write!(f, "{size} {bytes} behind the last metadata packet left out")
            }
            ProblemKind::MetadataMismatch { described_by, uuid } => write!(
                f,
                "metadata differs from that of {} although both have the UUID {uuid}; packets \
                 are read with the latter",
                described_by.display()
            ),
            ProblemKind::ForeignPacket { uuid } => write!(
                f,
                "packet has the UUID {uuid}, which is not that of the metadata; it is read all \
                 the same"
            ),
            ProblemKind::Data(message) | ProblemKind::UnknownEventClass(message) => {
                f.write_str(message)
            }
            ProblemKind::Truncated { missing } => {
                write!(f, "file ends {missing} bytes before its last packet does")
            }
            ProblemKind::TruncatedHeader => f.write_str("file ends within a packet's header"),
            ProblemKind::EventTooLarge => {
                write!(f, "event takes more than {} MiB", EVENT_SIZE_MAX >> 20)
            }
        }
    }
}

impl std::error::Error for Problem {}

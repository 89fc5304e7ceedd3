//! What can be wrong with a trace: which file, where, why, and what to do.

use crate::limits::EVENT_SIZE_MAX;
use blkkin_ctf::schema::Uuid;
use std::fmt;
use std::path::{Path, PathBuf};

/// Something that kept part of a trace from being read. The rest is read all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file or directory.
    pub path: PathBuf,
    /// Byte offset in the file, where there is one.
    pub offset: Option<u64>,
    /// What is wrong.
    pub kind: ProblemKind,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// A system call failed.
    Io {
        /// Which one, as in "open".
        action: &'static str,
        /// Why.
        reason: String,
    },
    /// There is no trace here.
    NoTrace,
    /// The metadata cannot be used.
    Metadata(String),
    /// The metadata file has something behind its last packet, which is left out.
    StrayMetadata {
        /// How many bytes.
        size: usize,
    },
    /// Another directory has other metadata under the same UUID.
    OtherMetadata {
        /// The directory whose metadata describes the trace.
        described_by: PathBuf,
        /// The UUID of both.
        uuid: Uuid,
    },
    /// A packet's UUID is not that of the metadata.
    ForeignPacket {
        /// The packet's UUID.
        uuid: Uuid,
    },
    /// A packet or event makes no sense.
    Data(String),
    /// There is a class that the metadata does not describe.
    Undescribed(String),
    /// The file ends before its last packet does.
    Cut {
        /// Bytes that are missing.
        missing: u64,
    },
    /// The file ends within a packet's header.
    CutInHeader,
    /// An event is larger than what the reader is willing to hold.
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

    /// Whether all was read all the same.
    pub fn is_warning(&self) -> bool {
        use ProblemKind::{ForeignPacket, OtherMetadata, StrayMetadata};
        matches!(self.kind, StrayMetadata { .. } | OtherMetadata { .. } | ForeignPacket { .. })
    }

    /// What the user could do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self.kind {
            ProblemKind::NoTrace => Some(
                "a trace is a directory with a file called `metadata`; give its path, or that of \
                 a directory above it",
            ),
            ProblemKind::Cut { .. } | ProblemKind::CutInHeader => {
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
            ProblemKind::OtherMetadata { described_by, uuid } => write!(
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
            ProblemKind::Data(message) | ProblemKind::Undescribed(message) => f.write_str(message),
            ProblemKind::Cut { missing } => {
                write!(f, "file ends {missing} bytes before its last packet does")
            }
            ProblemKind::CutInHeader => f.write_str("file ends within a packet's header"),
            ProblemKind::EventTooLarge => {
                write!(f, "event takes more than {} MiB", EVENT_SIZE_MAX >> 20)
            }
        }
    }
}

impl std::error::Error for Problem {}

//! Errors in opening and reading programs.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Error in reading a program, with the program's path.
#[derive(Debug)]
pub struct ProgramError {
    pub(super) path: PathBuf,
    pub(super) kind: ProgramErrorKind,
}

impl ProgramError {
    /// Path of the program. Empty for a program in memory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Cause of the error.
    pub fn kind(&self) -> &ProgramErrorKind {
        &self.kind
    }
}

/// Cause of a [`ProgramError`].
#[derive(Debug)]
pub enum ProgramErrorKind {
    /// Failure to open the file.
    Open(io::Error),
    /// Directory, device, pipe or socket in place of a file.
    NotFile,
    /// Failure to read the file.
    Read {
        /// Offset in the file of the bytes to read.
        offset: u64,
        /// Cause of the failure.
        error: io::Error,
    },
    /// File that is no ELF file.
    NotElf,
    /// ELF file of a kind that has no probes, such as one for 32-bit processors.
    Unsupported {
        /// Offset in the file of the field that tells the kind.
        offset: u64,
        /// Name of the kind.
        subject: &'static str,
    },
    /// Bytes that differ from the format.
    Malformed {
        /// Offset in the file of the bytes.
        offset: u64,
        /// Content that the format requires at the offset.
        expected: &'static str,
    },
    /// Quantity that exceeds its limit.
    TooMany {
        /// Name of the quantity.
        subject: &'static str,
        /// Limit.
        max: u64,
    },
    /// Query with a result that exceeds the limit of memory.
    TooManyMatches {
        /// Limit of the result in bytes.
        bytes_max: usize,
    },
    /// Address of a USDT probe or of its semaphore outside of the segments of the file.
    NotInFile {
        /// Address in the program.
        address: u64,
        /// Offset in the file of the probe's note.
        offset: u64,
    },
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.as_os_str().is_empty() {
            write!(f, "{}: ", self.path.display())?;
        }
        self.kind.fmt(f)
    }
}

impl fmt::Display for ProgramErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProgramErrorKind::Open(error) => error.fmt(f),
            ProgramErrorKind::NotFile => f.write_str("not a file; name a program or a library"),
            ProgramErrorKind::Read { offset, error } => {
                write!(f, "cannot read at offset {offset}: {error}")
            }
            ProgramErrorKind::NotElf => f.write_str(
                "not an ELF program; probes need a binary, such as the interpreter of a script",
            ),
            ProgramErrorKind::Unsupported { offset, subject } => {
                write!(f, "offset {offset}: {subject} cannot have user-space probes")
            }
            ProgramErrorKind::Malformed { offset, expected } => {
                write!(f, "offset {offset}: expected {expected}")
            }
            ProgramErrorKind::TooMany { subject, max } => {
                write!(f, "the limit of {subject} is {max}, and the file exceeds it")
            }
            ProgramErrorKind::TooManyMatches { bytes_max } => write!(
                f,
                "the matching functions take more than {} MiB; use a narrower pattern",
                bytes_max >> 20
            ),
            ProgramErrorKind::NotInFile { address, offset } => write!(
                f,
                "offset {offset}: address {address:#x} of a USDT probe is in no segment of the \
                 file; a separate file of debug information has no code"
            ),
        }
    }
}

impl std::error::Error for ProgramError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ProgramErrorKind::Open(error) | ProgramErrorKind::Read { error, .. } => Some(error),
            _ => None,
        }
    }
}

//! What can go wrong with a file of spans.

use std::{fmt, io};

/// Why a file of spans could not be written or read.
#[derive(Debug)]
pub enum Error {
    /// The system refused to read or write.
    Io(io::Error),
    /// The file is damaged, or not one of ours.
    Damaged {
        /// Where, in bytes from its beginning.
        offset: u64,
        /// What is wrong there.
        reason: &'static str,
    },
    /// The file was written by a newer version, in a way that this one does not read. These are the bits of its
    /// features.
    TooNew(u32),
    /// The Parquet library refused what it was given to write.
    Parquet(parquet::errors::ParquetError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io(error) => error.fmt(f),
            Error::Damaged { offset, reason } => write!(f, "damaged at byte {offset}: {reason}"),
            Error::TooNew(bits) => write!(
                f,
                "written by a newer version (features {bits:#x}), which it takes to read the file"
            ),
            Error::Parquet(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io(error) => Some(error),
            Error::Parquet(error) => Some(error),
            Error::Damaged { .. } | Error::TooNew(_) => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Io(error)
    }
}

impl From<parquet::errors::ParquetError> for Error {
    fn from(error: parquet::errors::ParquetError) -> Error {
        Error::Parquet(error)
    }
}

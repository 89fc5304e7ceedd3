//! [`Error`]: failures of reading and writing a file of spans.

use std::{fmt, io};

/// Error of writing or reading a file of spans.
#[derive(Debug)]
pub enum Error {
    /// The system refused to read or write.
    Io(io::Error),
    /// The file is damaged, or not one of ours.
    Damaged {
        /// Byte offset in the file.
        offset: u64,
        /// Description of the damage.
        reason: &'static str,
    },
    /// The file was written by a newer version, in a form that this version cannot read. The value
    /// holds the feature bits of the file.
    TooNew(u32),
    /// The file has reached the maximum number of row groups and pages.
    Full,
    /// The Parquet library returned an error.
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
            Error::Full => f.write_str("the file has as many row groups and pages as it may"),
            Error::Parquet(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io(error) => Some(error),
            Error::Parquet(error) => Some(error),
            Error::Damaged { .. } | Error::TooNew(_) | Error::Full => None,
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

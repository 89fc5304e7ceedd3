//! [`Error`]: failures to read or write a span file.

use std::{fmt, io};

/// Failure to read or write a span file.
#[derive(Debug)]
pub enum Error {
    /// Error of the operating system or of zstd.
    Io(io::Error),
    /// The file is damaged, or was not written by BlkKin.
    Damaged {
        /// Byte offset in the file.
        offset: u64,
        /// Description of the damage.
        reason: &'static str,
    },
    /// The file was written by a newer version, in a format that this version cannot read. The
    /// value is the file's bitmap of incompatible features.
    TooNew(u32),
    /// The file has the maximum number of row groups, or one more row group could make its index
    /// too large.
    Full,
    /// The Parquet library failed to write the file.
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

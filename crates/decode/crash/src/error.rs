//! Reasons why a file cannot be used as an image.

use std::fmt;
use std::io;

/// Reason why a file cannot be used as an image.
#[derive(Debug)]
pub enum ImageError {
    /// The file cannot be opened or read.
    Io(io::Error),
    /// The file has another format, with its name and what to do.
    Format(&'static str),
    /// A part of the file contradicts itself or the rest.
    Damaged(&'static str),
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImageError::Io(error) => error.fmt(f),
            ImageError::Format(format) => f.write_str(format),
            ImageError::Damaged(part) => write!(f, "the file is damaged: {part}"),
        }
    }
}

impl std::error::Error for ImageError {}

impl From<io::Error> for ImageError {
    fn from(error: io::Error) -> ImageError {
        ImageError::Io(error)
    }
}

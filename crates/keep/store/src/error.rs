//! Why a question is not answered.

use std::fmt;

/// Why a question is not answered.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The question makes no sense to this store.
    Question(String),
    /// It takes too long, or more memory than a question may take.
    TooLarge(String),
    /// What is kept cannot be read. Says what, and where.
    Damaged(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Error::Question(text) | Error::TooLarge(text) | Error::Damaged(text)) = self;
        f.write_str(text)
    }
}

impl std::error::Error for Error {}

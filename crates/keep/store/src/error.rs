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
    /// It was cancelled: it ran for too long, or nobody waits for the answer any more.
    Cancelled,
    /// What is kept cannot be read. Says what, and where.
    Damaged(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Question(text) | Error::TooLarge(text) | Error::Damaged(text) => {
                f.write_str(text)
            }
            Error::Cancelled => f.write_str("the question was cancelled"),
        }
    }
}

impl std::error::Error for Error {}

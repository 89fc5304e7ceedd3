//! Errors of queries on a store. Start at [`Error`].

use std::fmt;

/// Cause of a query's failure.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The query has invalid parameters, or the store does not support the query. The text names
    /// the cause.
    UnsupportedQuery(String),
    /// The query would exceed a limit of time or memory. The text names the limit.
    TooLarge(String),
    /// The query was cancelled, for example because its time limit expired or its client
    /// disconnected.
    Cancelled,
    /// Stored data is damaged, or the operating system failed to read it. The text describes the
    /// failure.
    Damaged(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::UnsupportedQuery(text) | Error::TooLarge(text) | Error::Damaged(text) => {
                f.write_str(text)
            }
            Error::Cancelled => f.write_str("the question was cancelled"),
        }
    }
}

impl std::error::Error for Error {}

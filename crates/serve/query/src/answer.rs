//! Answers of the query APIs. Start at [`Answer`].

use blkkin_store::Error;

/// Answer to a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Type of the body.
    pub kind: Kind,
    /// Time for which clients may cache the answer, in seconds.
    pub good_for: Option<u32>,
    /// Body of the answer.
    pub body: Vec<u8>,
}

/// Type of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// JSON.
    Json,
    /// Error message in plain text.
    Text,
}

/// Result of a query; the error is an answer with an error message.
pub(crate) type Result<T> = std::result::Result<T, Answer>;

impl Answer {
    /// Creates an answer with a JSON body.
    pub fn bytes(body: Vec<u8>) -> Answer {
        Answer { status: 200, kind: Kind::Json, good_for: None, body }
    }

    /// Creates an answer with an error message.
    pub fn failed(status: u16, text: impl Into<String>) -> Answer {
        Answer { status, kind: Kind::Text, good_for: None, body: text.into().into_bytes() }
    }

    /// Creates an answer to an invalid query.
    pub(crate) fn bad(text: impl Into<String>) -> Answer {
        Answer::failed(400, text)
    }

    /// Allows clients to cache the answer for five minutes, if `is_good`.
    pub(crate) fn good_if(self, is_good: bool) -> Answer {
        Answer { good_for: is_good.then_some(300), ..self }
    }
}

impl From<Error> for Answer {
    fn from(error: Error) -> Answer {
        let status = match &error {
            Error::Question(_) => 400,
            _ => 500,
        };
        Answer::failed(status, error.to_string())
    }
}

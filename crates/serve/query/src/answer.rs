//! Answers of the query APIs. Start at [`Answer`].

use blkkin_store::Error;

/// Answer to a query, which the server sends over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status code, such as 200 or 404.
    pub status: u16,
    /// Content type of the body: JSON or plain text.
    pub kind: Kind,
    /// Time for which clients may cache the answer, in seconds; with `None`, the answer has no
    /// `Cache-Control` header.
    pub max_age_s: Option<u32>,
    /// Content: JSON or the text of an error message.
    pub body: Vec<u8>,
}

/// Content type of an answer's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// JSON, the result of a successful query.
    Json,
    /// Error message in plain text.
    Text,
}

/// Result of a query. An `Err` is also an answer, with an error message.
pub(crate) type Result<T> = std::result::Result<T, Answer>;

impl Answer {
    /// Creates a successful answer from a JSON body.
    pub fn bytes(body: Vec<u8>) -> Answer {
        Answer { status: 200, kind: Kind::Json, max_age_s: None, body }
    }

    /// Creates an answer with an error message and its HTTP status.
    pub fn failed(status: u16, text: impl Into<String>) -> Answer {
        Answer { status, kind: Kind::Text, max_age_s: None, body: text.into().into_bytes() }
    }

    /// Creates the answer to an invalid query, with status 400.
    pub(crate) fn bad(text: impl Into<String>) -> Answer {
        Answer::failed(400, text)
    }

    /// Allows clients to cache the answer for five minutes, if `is_good`.
    pub(crate) fn good_if(self, is_good: bool) -> Answer {
        Answer { max_age_s: is_good.then_some(300), ..self }
    }
}

impl From<Error> for Answer {
    fn from(error: Error) -> Answer {
        let status = match &error {
            Error::UnsupportedQuery(_) => 400,
            _ => 500,
        };
        Answer::failed(status, error.to_string())
    }
}

//! What is answered. Start at [`Answer`].

use blkkin_store::Error;

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Of HTTP.
    pub status: u16,
    /// What the body is.
    pub kind: Kind,
    /// For how many seconds the answer is good without being asked for again.
    pub good_for: Option<u32>,
    /// The answer.
    pub body: Vec<u8>,
}

/// What a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// JSON.
    Json,
    /// A line that says what is wrong.
    Text,
}

/// An answer, or another one that says why there is none.
pub(crate) type Result<T> = std::result::Result<T, Answer>;

impl Answer {
    /// JSON that is written already.
    pub fn bytes(body: Vec<u8>) -> Answer {
        Answer { status: 200, kind: Kind::Json, good_for: None, body }
    }

    /// What is wrong.
    pub fn failed(status: u16, text: impl Into<String>) -> Answer {
        Answer { status, kind: Kind::Text, good_for: None, body: text.into().into_bytes() }
    }

    /// The question makes no sense.
    pub(crate) fn bad(text: impl Into<String>) -> Answer {
        Answer::failed(400, text)
    }

    /// Need not be asked for again in the next minutes, if so.
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

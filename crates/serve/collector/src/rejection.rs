//! Reasons to refuse a message; each protocol reports them in its own way. Start at [`Rejection`].

use blkkin_store::Refusal;
use std::fmt;
use std::time::Duration;

/// Reason to refuse a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rejection {
    /// Invalid message. Sending it again does not help.
    Bad(String),
    /// Unknown format, compression or call.
    Unknown(String),
    /// Larger than the given limit in bytes.
    TooLarge(usize),
    /// Not received in time.
    Slow,
    /// No room now, or the store cannot accept it.
    Busy {
        /// Cause, in words.
        reason: String,
        /// Time to wait before the next attempt.
        retry_after: Duration,
    },
}

impl Rejection {
    /// Refusal for lack of memory.
    pub(crate) fn no_room() -> Rejection {
        let reason = "too many bytes are being received at the moment".to_owned();
        Rejection::Busy { reason, retry_after: Duration::from_secs(1) }
    }
}

impl From<Refusal> for Rejection {
    fn from(Refusal { reason, retry_after }: Refusal) -> Rejection {
        Rejection::Busy { reason, retry_after }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rejection::Bad(text)
            | Rejection::Unknown(text)
            | Rejection::Busy { reason: text, .. } => f.write_str(text),
            Rejection::TooLarge(limit) => write!(f, "message is larger than {limit} bytes"),
            Rejection::Slow => f.write_str("message did not come in time"),
        }
    }
}

/// Whole seconds for headers, rounded up; at least one.
pub(crate) fn seconds(time: Duration) -> u64 {
    (time.as_secs() + u64::from(time.subsec_nanos() > 0)).max(1)
}

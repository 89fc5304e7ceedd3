//! Reasons to refuse a message, which each protocol reports in its own form. Start at
//! [`Rejection`].

use blkkin_store::Refusal;
use std::fmt;
use std::time::Duration;

/// Reason why a message is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rejection {
    /// The message is invalid, so sending it again does not help; or reading its body failed.
    Invalid(String),
    /// The format, compression or call is unknown.
    Unknown(String),
    /// The message is larger than this limit in bytes.
    TooLarge(usize),
    /// The body of the message was not received in time.
    Timeout,
    /// The memory budget is exhausted, or the store cannot accept the batch now. The sender may
    /// retry.
    Busy {
        /// Cause in plain text, for the sender.
        reason: String,
        /// Time that the sender should wait before it sends the message again.
        retry_after: Duration,
    },
}

impl Rejection {
    /// Creates the rejection of a message that exceeds the free memory of the budget.
    pub(crate) fn out_of_memory() -> Rejection {
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
            Rejection::Invalid(text)
            | Rejection::Unknown(text)
            | Rejection::Busy { reason: text, .. } => f.write_str(text),
            Rejection::TooLarge(limit) => write!(f, "message is larger than {limit} bytes"),
            Rejection::Timeout => f.write_str("message did not come in time"),
        }
    }
}

/// Converts a delay to whole seconds for `Retry-After`, rounded up; at least 1.
pub(crate) fn seconds(time: Duration) -> u64 {
    (time.as_secs() + u64::from(time.subsec_nanos() > 0)).max(1)
}

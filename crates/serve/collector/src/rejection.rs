//! Why a message is not taken. Each protocol says it in its own way. Start at [`Trouble`].

use blkkin_store::Refusal;
use std::fmt;
use std::time::Duration;

/// Why a message is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It is not what it should be. Sending it again does not help.
    Bad(String),
    /// It says that it is something which is not known here.
    Unknown(String),
    /// It has more bytes than a message may have.
    TooLarge(usize),
    /// It did not come in time.
    Slow,
    /// There is no room now, or the store cannot take it.
    Busy {
        /// What is in the way.
        reason: String,
        /// When it makes sense to try again.
        retry_after: Duration,
    },
}

impl Trouble {
    /// There is no room for so many messages at the same time.
    pub(crate) fn no_room() -> Trouble {
        let reason = "too many bytes are being received at the moment".to_owned();
        Trouble::Busy { reason, retry_after: Duration::from_secs(1) }
    }
}

impl From<Refusal> for Trouble {
    fn from(Refusal { reason, retry_after }: Refusal) -> Trouble {
        Trouble::Busy { reason, retry_after }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Bad(text) | Trouble::Unknown(text) | Trouble::Busy { reason: text, .. } => {
                f.write_str(text)
            }
            Trouble::TooLarge(limit) => write!(f, "message is larger than {limit} bytes"),
            Trouble::Slow => f.write_str("message did not come in time"),
        }
    }
}

/// Whole seconds, for headers; at least one.
pub(crate) fn seconds(time: Duration) -> u64 {
    (time.as_secs() + u64::from(time.subsec_nanos() > 0)).max(1)
}

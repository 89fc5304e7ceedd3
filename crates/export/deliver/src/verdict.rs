//! Verdict on a batch, derived from the destination's answer or from the failure to answer.

use std::time::Duration;

/// Result of sending a batch: the sender settles the batch or sends it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The destination has accepted the batch.
    Delivered {
        /// Number of spans rejected by the destination.
        rejected: u64,
        /// Message of the destination about the rejected spans, or a warning; may be empty.
        message: String,
        /// True if the answer could not be decoded.
        is_malformed: bool,
    },
    /// The batch must be sent again later.
    Retry {
        /// Status and message of the destination, or the reason why there is no answer.
        reason: String,
        /// Delay requested by the destination.
        after: Option<Duration>,
    },
    /// The batch must be sent again later, but a limited number of times, as it may be the cause of
    /// the error.
    LimitedRetry {
        /// Message of the destination.
        reason: String,
    },
    /// The destination will never accept the batch.
    Refused {
        /// Message of the destination.
        reason: String,
    },
}

impl Verdict {
    pub(crate) fn delivered() -> Verdict {
        Verdict::Delivered { rejected: 0, message: String::new(), is_malformed: false }
    }

    pub(crate) fn retry(reason: impl Into<String>) -> Verdict {
        Verdict::Retry { reason: reason.into(), after: None }
    }
}

/// Size at which a displayed or stored message is cut off, in bytes.
const REASON_BYTES_MAX: usize = 600;

/// Makes a message of the destination safe to display: one line, no control characters, limited
/// length.
pub(crate) fn readable(text: &str) -> String {
    let mut out = String::new();
    for character in text.trim().chars() {
        if out.len() >= REASON_BYTES_MAX {
            out.push('…');
            break;
        }
        match character {
            '\n' | '\r' | '\t' => out.push(' '),
            character if character.is_control() || is_direction(character) => {
                out.extend(character.escape_unicode());
            }
            character => out.push(character),
        }
    }
    out
}

/// Returns true for characters that change the direction of text and so may hide its meaning.
fn is_direction(character: char) -> bool {
    matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::readable;

    #[test]
    fn what_others_say_is_made_readable() {
        assert_eq!(readable(" a\nb\u{1b}[31mc\u{202e}d ä "), "a b\\u{1b}[31mc\\u{202e}d ä");
        assert_eq!(readable(&"x".repeat(5000)).len(), 600 + "…".len());
    }
}

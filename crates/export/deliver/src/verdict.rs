//! What an answer, or none, means for the batch.

use std::time::Duration;

/// What has come of sending a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The destination has it.
    Delivered {
        /// So many spans of it were not wanted.
        rejected: u64,
        /// What the destination said of them.
        message: String,
        /// The answer could not be understood.
        is_odd: bool,
    },
    /// Not now. The same batch is sent again.
    Later {
        /// What the destination, or the network, said.
        reason: String,
        /// When the destination wants it.
        after: Option<Duration>,
    },
    /// As `Later`, but it may be the batch's fault, so not for ever.
    Perhaps {
        /// What the destination said.
        reason: String,
    },
    /// This batch, never.
    Refused {
        /// What the destination said.
        reason: String,
    },
}

impl Verdict {
    pub(crate) fn delivered() -> Verdict {
        Verdict::Delivered { rejected: 0, message: String::new(), is_odd: false }
    }

    pub(crate) fn later(reason: impl Into<String>) -> Verdict {
        Verdict::Later { reason: reason.into(), after: None }
    }
}

/// Bytes of what a destination says that are shown and kept.
const REASON_BYTES_MAX: usize = 600;

/// What a destination says, fit to be shown: one line, no control characters, not too long.
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

/// Whether it makes terminals write the other way, which hides what a text says.
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

//! Redaction of fields: what an event holds in place of a text or of bytes.

use crate::encoding::{List, Optional, RecordForm};
use crate::limits::{FIELD_NAME_SIZE_MAX, REDACTIONS_MAX};
use crate::selection::PATTERN;
use crate::text::{Letters, Text};
use std::fmt;
use std::str::FromStr;

const FIELD: Text = Text::new(Letters::Name, FIELD_NAME_SIZE_MAX);

/// Returns the encoding of a list with at least `count_min` redactions.
pub(crate) const fn redactions(count_min: usize) -> List<RecordForm> {
    List { count_min, count_max: REDACTIONS_MAX, of: RecordForm }
}

choice! {
    /// Value that an event holds in place of a text or of bytes. The later one is the stricter one.
    #[derive(Copy, PartialOrd, Ord)]
    pub enum RedactionMethod {
        /// A hash with a secret key: equal contents have equal hashes within one recording.
        0 "hash" Hash,
        /// The number of bytes.
        1 "length" Length,
    }
}

record! {
    /// Redaction of fields of the kernel's events.
    #[derive(PartialOrd, Ord)]
    pub struct Redaction {
        /// Pattern for the events. `None` stands for all events of the rule, one of which must then
        /// have a field that can be redacted.
        pub events: Option<String> = Optional(PATTERN),
        /// Pattern for the fields.
        pub field: String = FIELD,
        /// Value that the event holds in place of the field.
        pub method: RedactionMethod = RecordForm,
    }
}

/// Parses `FIELD=hash` or `FIELD=length`, for all events of a rule.
impl FromStr for Redaction {
    type Err = RedactionError;

    fn from_str(text: &str) -> Result<Redaction, RedactionError> {
        let wrong = || RedactionError(text.to_owned());
        let (field, method) = text.split_once('=').ok_or_else(wrong)?;
        let method = match method {
            "hash" => RedactionMethod::Hash,
            "length" => RedactionMethod::Length,
            _ => return Err(wrong()),
        };
        let is_field = |letter: char| letter.is_ascii_alphanumeric() || "_*".contains(letter);
        if field.is_empty() || field.len() > FIELD_NAME_SIZE_MAX || !field.chars().all(is_field) {
            return Err(wrong());
        }
        Ok(Redaction { events: None, field: field.to_owned(), method })
    }
}

impl fmt::Display for Redaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.field, self.method.word())
    }
}

/// Text that is no redaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedactionError(String);

impl fmt::Display for RedactionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is no redaction: write FIELD=hash or FIELD=length, with the name of a field in \
             which `*` matches any characters",
            self.0
        )
    }
}

impl std::error::Error for RedactionError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redactions_are_parsed_and_printed() {
        let redaction: Redaction = "file*=hash".parse().unwrap();
        let field = "file*".to_owned();
        let expected = Redaction { events: None, field, method: RedactionMethod::Hash };
        assert_eq!(redaction, expected);
        assert_eq!("*=length".parse::<Redaction>().unwrap().to_string(), "*=length");
        for text in ["", "filename", "=hash", "filename=", "filename=md5", "a b=hash", "a=hash=b"] {
            let error = text.parse::<Redaction>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{text}` is no redaction")), "{error}");
        }
        assert!(RedactionMethod::Length > RedactionMethod::Hash, "the stricter one is greater");
    }
}

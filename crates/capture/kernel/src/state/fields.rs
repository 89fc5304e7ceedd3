//! Encoding of the fields of an event of state.

use crate::call_type::PATH_SIZE_MAX;
use crate::redaction::{FieldRedactions, HashKey};
use blkkin_control::{Redaction, RedactionMethod};

/// Redactions of the texts of state.
#[derive(Debug, Default)]
pub(crate) struct StateRedaction {
    redactions: Vec<Redaction>,
    /// Key of the hashes; `None` if nothing is redacted.
    key: Option<HashKey>,
}

impl StateRedaction {
    /// Redacts texts of state by those of the redactions that hold for its events.
    pub(crate) fn new(redactions: &[Redaction], key: HashKey) -> StateRedaction {
        StateRedaction { redactions: redactions.to_vec(), key: Some(key) }
    }
}

/// Fields of one event. The memory is reused for the next event.
#[derive(Debug)]
pub(super) struct Fields<'r> {
    bytes: Vec<u8>,
    redaction: &'r StateRedaction,
    /// Name of the event, and its redactions.
    event: (&'static str, FieldRedactions),
}

impl Fields<'_> {
    pub(super) fn new(redaction: &StateRedaction) -> Fields<'_> {
        Fields { bytes: Vec::new(), redaction, event: ("", FieldRedactions::default()) }
    }

    /// Begins the fields of another event, which has this name.
    pub(super) fn begin(&mut self, event: &'static str) -> &mut Self {
        self.bytes.clear();
        if self.event.0 != event {
            self.event = (event, FieldRedactions::of(&self.redaction.redactions, event));
        }
        self
    }

    pub(super) fn number(&mut self, number: u32) -> &mut Self {
        self.bytes.extend_from_slice(&number.to_le_bytes());
        self
    }

    pub(super) fn long(&mut self, number: u64) -> &mut Self {
        self.bytes.extend_from_slice(&number.to_le_bytes());
        self
    }

    /// Adds a text up to its first NUL, truncated to the longest path, or its redaction.
    pub(super) fn text(&mut self, field: &str, text: &[u8]) -> &mut Self {
        let size = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        let text = &text[..size.min(PATH_SIZE_MAX - 1)];
        match self.event.1.method(field).zip(self.redaction.key) {
            Some((RedactionMethod::Hash, key)) => self.long(key.hash(text)),
            Some((RedactionMethod::Length, _)) => self.number(text.len() as u32),
            None => {
                self.bytes.extend_from_slice(text);
                self.bytes.push(0);
                self
            }
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

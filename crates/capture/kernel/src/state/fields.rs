//! Encoding of the fields of an event of state.

use super::StateKind;
use crate::call_type::PATH_SIZE_MAX;
use crate::redaction::{FieldRedactions, HashKey};
use blkkin_control::{Redaction, RedactionMethod};

/// Redactions of the texts of state.
#[derive(Debug, Default)]
pub(crate) struct StateRedaction {
    /// Redactions of each kind of state, and the key of the hashes; empty if nothing is redacted.
    of_kinds: Vec<(StateKind, FieldRedactions, HashKey)>,
}

impl StateRedaction {
    /// Selects the redactions that hold for state.
    pub(crate) fn new(redactions: &[Redaction], key: HashKey) -> StateRedaction {
        let of_kind = |kind: StateKind| {
            let redactions = FieldRedactions::of(redactions, kind.event_name());
            (kind, redactions, key)
        };
        StateRedaction { of_kinds: StateKind::ALL.map(of_kind).into() }
    }
}

/// Fields of one event. The memory is reused for the next event.
#[derive(Debug)]
pub(super) struct Fields<'r> {
    bytes: Vec<u8>,
    redaction: &'r StateRedaction,
    /// Redactions of the event, and the key of the hashes.
    current: Option<(&'r FieldRedactions, HashKey)>,
}

impl Fields<'_> {
    pub(super) fn new(redaction: &StateRedaction) -> Fields<'_> {
        Fields { bytes: Vec::new(), redaction, current: None }
    }

    /// Begins the fields of another event.
    pub(super) fn begin(&mut self, kind: StateKind) -> &mut Self {
        self.bytes.clear();
        let current = self.redaction.of_kinds.iter().find(|(known, ..)| *known == kind);
        self.current = current.map(|(_, redactions, key)| (redactions, *key));
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
        let redaction =
            self.current.and_then(|(redactions, key)| Some((redactions.method(field)?, key)));
        match redaction {
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

//! Encoding of the fields of an event of state.

use crate::call_type::PATH_SIZE_MAX;

/// Fields of one event. The memory is reused for the next event.
#[derive(Debug, Default)]
pub(super) struct Fields(Vec<u8>);

impl Fields {
    /// Begins the fields of another event.
    pub(super) fn begin(&mut self) -> &mut Fields {
        self.0.clear();
        self
    }

    pub(super) fn number(&mut self, number: u32) -> &mut Fields {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    pub(super) fn long(&mut self, number: u64) -> &mut Fields {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    /// Adds a text up to its first NUL, truncated to the longest path.
    pub(super) fn text(&mut self, text: &[u8]) -> &mut Fields {
        let size = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        self.0.extend_from_slice(&text[..size.min(PATH_SIZE_MAX - 1)]);
        self.0.push(0);
        self
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

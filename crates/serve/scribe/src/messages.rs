//! Encoding of messages in a journal record. A message is its category and its text, each preceded
//! by a length.
//!
//! ```text
//! u32 length, category; u32 length, message; and so on. Lengths are little-endian.
//! ```
//!
//! The journal has a CRC for each record; nevertheless a length beyond the end of the record ends
//! the iteration.

use blkkin_scribe::Entry;

/// Encoded size of a message in addition to its category and text, in bytes.
pub(crate) const OVERHEAD: usize = 8;

/// Encodes a message and appends it to `out`.
pub(crate) fn put(out: &mut Vec<u8>, entry: Entry<'_>) {
    for text in [entry.category, entry.message] {
        out.extend_from_slice(&(text.len() as u32).to_le_bytes());
        out.extend_from_slice(text);
    }
}

/// Iterator over the messages of one or more concatenated records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Messages<'a>(pub(crate) &'a [u8]);

impl<'a> Messages<'a> {
    fn text(&mut self) -> Option<&'a [u8]> {
        let (size, rest) = self.0.split_first_chunk()?;
        let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*size) as usize)?;
        self.0 = rest;
        Some(text)
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        Some(Entry { category: self.text()?, message: self.text()? })
    }
}

/// Messages that an outlet writes to a store in one call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    /// Id of the batch: the journal position of its first record. A store recognizes a retry by the
    /// id.
    pub(crate) id: u64,
    bytes: Vec<u8>,
    pub(crate) count: u64,
    pub(crate) payload_bytes: u64,
}

impl Batch {
    /// Removes all messages and sets another id, keeping the allocation.
    pub(crate) fn reuse(&mut self, id: u64) {
        self.bytes.clear();
        (self.id, self.count, self.payload_bytes) = (id, 0, 0);
    }

    pub(crate) fn push(&mut self, entry: Entry<'_>) {
        put(&mut self.bytes, entry);
        self.count += 1;
        self.payload_bytes += (entry.category.len() + entry.message.len()) as u64;
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn iter(&self) -> Messages<'_> {
        Messages(&self.bytes)
    }
}

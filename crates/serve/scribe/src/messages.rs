//! Messages as they lie in a journal's record: each a category and a text, both with their length before them.
//!
//! ```text
//! u32 length, category; u32 length, message; and so on. Lengths are little-endian.
//! ```
//!
//! A record's CRC is the journal's; what makes no sense all the same ends the record.

use blkkin_scribe::Entry;

/// What a message takes beside its bytes.
pub(crate) const OVERHEAD: usize = 8;

/// Adds a message.
pub(crate) fn put(out: &mut Vec<u8>, entry: Entry<'_>) {
    for text in [entry.category, entry.message] {
        out.extend_from_slice(&(text.len() as u32).to_le_bytes());
        out.extend_from_slice(text);
    }
}

/// The messages of a record, or of several behind each other.
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

/// Messages that a store gets at a time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    /// By which a store knows that it gets the same again.
    pub(crate) id: u64,
    bytes: Vec<u8>,
    pub(crate) count: u64,
    pub(crate) payload_bytes: u64,
}

impl Batch {
    /// An empty one with another number, in the memory of this one.
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

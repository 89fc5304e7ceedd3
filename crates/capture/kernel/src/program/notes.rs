//! [`Notes`]: iterates over the notes of a section or segment.
//!
//! ```text
//! size of the name, size of the content, type: 4 bytes each
//! name with NUL, padded to the alignment
//! content, padded to the alignment
//! ```

use super::elf::word;
use super::error::ProgramErrorKind;

/// Size in bytes of the three numbers in front of a note.
const HEADER_BYTES: usize = 12;

/// Note of a section or segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Note<'b> {
    /// Name of the owner, without NUL.
    pub(super) name: &'b [u8],
    pub(super) kind: u32,
    pub(super) content: &'b [u8],
    /// Offset in the file of the content.
    pub(super) offset: u64,
}

/// Iterator over notes. Ends after an error.
#[derive(Debug)]
pub(super) struct Notes<'b> {
    bytes: &'b [u8],
    /// Offset in the file of `bytes`.
    offset: u64,
    alignment: usize,
    next: usize,
}

impl<'b> Notes<'b> {
    /// Iterates over the notes in `bytes`, which are at `offset` of the file. An alignment other
    /// than 8 stands for 4.
    pub(super) fn new(bytes: &'b [u8], offset: u64, alignment: u64) -> Notes<'b> {
        Notes { bytes, offset, alignment: if alignment == 8 { 8 } else { 4 }, next: 0 }
    }

    /// Returns the next note.
    fn read(&mut self) -> Option<Note<'b>> {
        let start = self.next;
        let header = self.bytes.get(start..start.checked_add(HEADER_BYTES)?)?;
        let (name_size, size) = (word(header, 0) as usize, word(header, 4) as usize);
        let name_start = start + HEADER_BYTES;
        let name = self.bytes.get(name_start..name_start.checked_add(name_size)?)?;
        let content_start = (name_start + name_size).checked_next_multiple_of(self.alignment)?;
        let content_end = content_start.checked_add(size)?;
        let content = self.bytes.get(content_start..content_end)?;
        // The padding of the last note may be missing.
        self.next = content_end.checked_next_multiple_of(self.alignment)?.min(self.bytes.len());
        Some(Note {
            name: name.strip_suffix(b"\0").unwrap_or(name),
            kind: word(header, 8),
            content,
            offset: self.offset + content_start as u64,
        })
    }
}

impl<'b> Iterator for Notes<'b> {
    type Item = Result<Note<'b>, ProgramErrorKind>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.bytes.len() {
            return None;
        }
        let start = self.next;
        match self.read() {
            Some(note) => Some(Ok(note)),
            None => {
                self.next = self.bytes.len();
                let offset = self.offset + start as u64;
                let expected = "a note with name and content within its section";
                Some(Err(ProgramErrorKind::Malformed { offset, expected }))
            }
        }
    }
}

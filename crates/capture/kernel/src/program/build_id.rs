//! Build id of a program: identifies a link, and the separate debug file that belongs to it.

use super::elf::{Elf, NoteRange, SHT_NOTE};
use super::notes::Notes;

/// Maximum size of a build id in bytes. Linkers use 8 to 20.
const BUILD_ID_MAX: usize = 64;
/// Maximum size in bytes of the notes that are searched.
const NOTES_BYTES_MAX: u64 = 64 << 10;
/// Maximum number of sections and segments that are searched.
const RANGES_MAX: usize = 64;
/// Type of a note with a build id.
const NT_GNU_BUILD_ID: u32 = 3;

/// Returns the build id; `None` also for notes that differ from the format, since programs without
/// a build id are valid.
pub(super) fn find(elf: &Elf) -> Option<Vec<u8>> {
    // Debug files keep sections only, and some programs have no headers of sections.
    let sections = elf.sections_of(SHT_NOTE).map(|section| NoteRange {
        offset: section.offset,
        size: section.size,
        alignment: section.alignment,
    });
    sections.chain(elf.note_segments()).take(RANGES_MAX).find_map(|range| find_in(elf, range))
}

fn find_in(elf: &Elf, range: NoteRange) -> Option<Vec<u8>> {
    if range.size > NOTES_BYTES_MAX {
        return None;
    }
    let bytes = elf.source.read(range.offset, range.size as usize).ok()?;
    let mut notes = Notes::new(&bytes, range.offset, range.alignment).map_while(Result::ok);
    let is_id = |size| (1..=BUILD_ID_MAX).contains(&size);
    let found = notes.find(|note| {
        note.name == b"GNU" && note.kind == NT_GNU_BUILD_ID && is_id(note.content.len())
    });
    found.map(|note| note.content.to_vec())
}

//! [`Elf`]: header, segments and sections of a 64-bit little-endian ELF file.

use super::error::ProgramErrorKind;
use super::source::Source;

/// Size in bytes of the file header.
const HEADER_BYTES: usize = 64;
/// Size in bytes of the header of a segment.
const SEGMENT_BYTES: usize = 56;
/// Size in bytes of the header of a section.
const SECTION_BYTES: usize = 64;
/// Maximum number of segments. Each address is searched for in all of them.
const SEGMENTS_MAX: usize = 128;
/// Maximum number of sections. Linked programs have about 40.
const SECTIONS_MAX: u64 = 65_536;
/// Maximum size in bytes of the names of sections.
const SECTION_NAMES_MAX: u64 = 4 << 20;

/// Segment that is loaded into memory.
const PT_LOAD: u32 = 1;
/// Segment with notes.
const PT_NOTE: u32 = 4;
/// Flag of segments with code.
const PF_X: u32 = 1;
/// Symbols for debugging and static linking.
pub(super) const SHT_SYMTAB: u32 = 2;
/// Section with notes.
pub(super) const SHT_NOTE: u32 = 7;
/// Section without bytes in the file.
const SHT_NOBITS: u32 = 8;
/// Symbols for dynamic linking.
pub(super) const SHT_DYNSYM: u32 = 11;
/// Value of the header's field for the index of the section with the sections' names, if the index
/// is too large for the field. The index is then in the header of section 0.
const EXTENDED_INDEX: u16 = 0xffff;

/// Headers of an ELF file.
#[derive(Debug)]
pub(super) struct Elf {
    pub(super) source: Source,
    pub(super) is_position_independent: bool,
    segments: Vec<Segment>,
    sections: Vec<Section>,
    /// Names of the sections, each terminated by NUL.
    section_names: Vec<u8>,
}

/// Part of the file at an address in memory, or with notes.
#[derive(Clone, Copy, Debug)]
struct Segment {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    /// Size in bytes in the file.
    size: u64,
    /// Size in bytes in memory.
    memory: u64,
    alignment: u64,
}

/// Named part of the file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Section {
    /// Offset in the names of sections.
    name: u32,
    pub(super) kind: u32,
    pub(super) address: u64,
    pub(super) offset: u64,
    pub(super) size: u64,
    /// Index of a related section. For symbols: the section with their names.
    pub(super) link: u32,
    pub(super) alignment: u64,
    /// Offset in the file of the section's header.
    header_offset: u64,
}

/// Range of the file with notes.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoteRange {
    pub(super) offset: u64,
    pub(super) size: u64,
    /// Alignment in bytes of names and contents.
    pub(super) alignment: u64,
}

impl Elf {
    /// Reads and checks the headers.
    pub(super) fn parse(source: Source) -> Result<Elf, ProgramErrorKind> {
        let size = source.size().min(HEADER_BYTES as u64) as usize;
        let header = source.read(0, size)?;
        if !header.starts_with(b"\x7fELF") {
            return Err(ProgramErrorKind::NotElf);
        }
        if header.len() < HEADER_BYTES {
            let expected = "a header of 64 bytes";
            return Err(ProgramErrorKind::Malformed { offset: size as u64, expected });
        }
        let is_position_independent = check_kind(&header)?;
        let mut sections = read_sections(&source, &header)?;
        let section_names = read_section_names(&source, &header, &sections)?;
        // Section 0 contains numbers that are too large for the header.
        if let Some(first) = sections.first_mut() {
            *first = Section::default();
        }
        let segments = read_segments(&source, &header)?;
        Ok(Elf { source, is_position_independent, segments, sections, section_names })
    }

    /// Returns the offset in the file of an address in code.
    pub(super) fn code_offset(&self, address: u64) -> Option<u64> {
        self.offset_in(address, |segment| segment.flags & PF_X != 0)
    }

    /// Returns the offset in the file of an address in code or data.
    pub(super) fn file_offset(&self, address: u64) -> Option<u64> {
        self.offset_in(address, |_| true)
    }

    /// Returns true for an address in a segment, including its zero-initialised part (`.bss`).
    pub(super) fn has_memory(&self, address: u64) -> bool {
        let mut loaded = self.segments.iter().filter(|segment| segment.kind == PT_LOAD);
        loaded.any(|segment| {
            address.checked_sub(segment.address).is_some_and(|distance| distance < segment.memory)
        })
    }

    fn offset_in(&self, address: u64, is_wanted: impl Fn(&Segment) -> bool) -> Option<u64> {
        let mut loaded =
            self.segments.iter().filter(|segment| segment.kind == PT_LOAD && is_wanted(segment));
        loaded.find_map(|segment| {
            let distance = address.checked_sub(segment.address)?;
            let offset = segment.offset.checked_add(distance)?;
            (distance < segment.size && offset < self.source.size()).then_some(offset)
        })
    }

    /// Returns the sections of a kind.
    pub(super) fn sections_of(&self, kind: u32) -> impl Iterator<Item = &Section> {
        self.sections.iter().filter(move |section| section.kind == kind)
    }

    /// Returns the first section with a name.
    pub(super) fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().skip(1).find(|section| {
            let bytes = self.section_names.get(section.name as usize..).unwrap_or_default();
            bytes.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
        })
    }

    /// Returns the section at an index. Section 0 is reserved.
    pub(super) fn section_at(&self, index: u32) -> Option<&Section> {
        self.sections.get(index as usize).filter(|_| index != 0)
    }

    /// Returns the ranges of notes in segments.
    pub(super) fn note_segments(&self) -> impl Iterator<Item = NoteRange> {
        let notes = self.segments.iter().filter(|segment| segment.kind == PT_NOTE);
        notes.map(|segment| NoteRange {
            offset: segment.offset,
            size: segment.size,
            alignment: segment.alignment,
        })
    }

    /// Checks that a section's bytes are within the file.
    pub(super) fn check_section(&self, section: &Section) -> Result<(), ProgramErrorKind> {
        check_range(&self.source, section)
    }

    /// Reads a section of at most `size_max` bytes. `subject` names its content.
    pub(super) fn read_section(
        &self,
        section: &Section,
        size_max: u64,
        subject: &'static str,
    ) -> Result<Vec<u8>, ProgramErrorKind> {
        check_range(&self.source, section)?;
        if section.size > size_max {
            return Err(ProgramErrorKind::TooMany { subject, max: size_max });
        }
        self.source.read(section.offset, section.size as usize)
    }
}

impl Section {
    /// Offset in the file of the index of the related section.
    pub(super) fn link_offset(&self) -> u64 {
        self.header_offset + 40
    }
}

/// Checks class, byte order, type and processor. Returns true for a position-independent program.
fn check_kind(header: &[u8]) -> Result<bool, ProgramErrorKind> {
    let unsupported = |offset, subject| Err(ProgramErrorKind::Unsupported { offset, subject });
    if header.get(4) != Some(&2) {
        return unsupported(4, "a 32-bit program");
    }
    if header.get(5) != Some(&1) {
        return unsupported(5, "a big-endian program");
    }
    if !matches!(half(header, 18), 62 | 183) {
        return unsupported(18, "a program for a processor other than x86-64 and AArch64");
    }
    match half(header, 16) {
        2 => Ok(false),
        3 => Ok(true),
        1 => unsupported(16, "an object file or kernel module"),
        4 => unsupported(16, "a core dump"),
        _ => unsupported(16, "a file that is neither program nor library"),
    }
}

fn read_segments(source: &Source, header: &[u8]) -> Result<Vec<Segment>, ProgramErrorKind> {
    let malformed = |offset, expected| ProgramErrorKind::Malformed { offset, expected };
    let (offset, count) = (long(header, 32), usize::from(half(header, 56)));
    if count == 0 {
        return Ok(Vec::new());
    }
    if usize::from(half(header, 54)) != SEGMENT_BYTES {
        return Err(malformed(54, "segment headers of 56 bytes"));
    }
    if count > SEGMENTS_MAX {
        let max = SEGMENTS_MAX as u64;
        return Err(ProgramErrorKind::TooMany { subject: "segments", max });
    }
    let size = count * SEGMENT_BYTES;
    if !source.has_range(offset, size as u64) {
        return Err(malformed(32, "offset of the segment headers within the file"));
    }
    let bytes = source.read(offset, size)?;
    let segments = bytes.chunks_exact(SEGMENT_BYTES).map(|entry| Segment {
        kind: word(entry, 0),
        flags: word(entry, 4),
        offset: long(entry, 8),
        address: long(entry, 16),
        size: long(entry, 32),
        memory: long(entry, 40),
        alignment: long(entry, 48),
    });
    Ok(segments.collect())
}

/// Reads the sections, with section 0.
fn read_sections(source: &Source, header: &[u8]) -> Result<Vec<Section>, ProgramErrorKind> {
    let malformed = |offset, expected| ProgramErrorKind::Malformed { offset, expected };
    let (start, mut count) = (long(header, 40), u64::from(half(header, 60)));
    if start == 0 {
        return Ok(Vec::new());
    }
    if usize::from(half(header, 58)) != SECTION_BYTES {
        return Err(malformed(58, "section headers of 64 bytes"));
    }
    if count == 0 {
        if !source.has_range(start, SECTION_BYTES as u64) {
            return Err(malformed(40, "offset of the section headers within the file"));
        }
        count = long(&source.read(start, SECTION_BYTES)?, 32);
    }
    if count > SECTIONS_MAX {
        return Err(ProgramErrorKind::TooMany { subject: "sections", max: SECTIONS_MAX });
    }
    let size = count as usize * SECTION_BYTES;
    if !source.has_range(start, size as u64) {
        return Err(malformed(40, "offset of the section headers within the file"));
    }
    let bytes = source.read(start, size)?;
    let sections = bytes.chunks_exact(SECTION_BYTES).enumerate().map(|(index, entry)| Section {
        name: word(entry, 0),
        kind: word(entry, 4),
        address: long(entry, 16),
        offset: long(entry, 24),
        size: long(entry, 32),
        link: word(entry, 40),
        alignment: long(entry, 48),
        header_offset: start + (index * SECTION_BYTES) as u64,
    });
    Ok(sections.collect())
}

fn read_section_names(
    source: &Source,
    header: &[u8],
    sections: &[Section],
) -> Result<Vec<u8>, ProgramErrorKind> {
    let index = match half(header, 62) {
        EXTENDED_INDEX => sections.first().map_or(0, |section| section.link),
        index => u32::from(index),
    };
    if sections.is_empty() || index == 0 {
        return Ok(Vec::new());
    }
    let Some(section) = sections.get(index as usize) else {
        let expected = "index of the section with the names of sections";
        return Err(ProgramErrorKind::Malformed { offset: 62, expected });
    };
    check_range(source, section)?;
    if section.size > SECTION_NAMES_MAX {
        let subject = "bytes in names of sections";
        return Err(ProgramErrorKind::TooMany { subject, max: SECTION_NAMES_MAX });
    }
    source.read(section.offset, section.size as usize)
}

fn check_range(source: &Source, section: &Section) -> Result<(), ProgramErrorKind> {
    let malformed = |field, expected| {
        let offset = section.header_offset + field;
        Err(ProgramErrorKind::Malformed { offset, expected })
    };
    if section.kind == SHT_NOBITS {
        return malformed(4, "a section with bytes in the file");
    }
    if !source.has_range(section.offset, section.size) {
        return malformed(24, "offset and size of a section within the file");
    }
    Ok(())
}

/// Returns the 2-byte number at an offset; 0 outside of the bytes.
pub(super) fn half(bytes: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes(array(bytes, offset))
}

/// Returns the 4-byte number at an offset; 0 outside of the bytes.
pub(super) fn word(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(array(bytes, offset))
}

/// Returns the 8-byte number at an offset; 0 outside of the bytes.
pub(super) fn long(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(array(bytes, offset))
}

fn array<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    bytes.get(offset..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

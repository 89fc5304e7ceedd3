//! [`Btf`]: reads a file, checks it in one pass, and finds types by id and by name.

use super::error::BtfError;
use super::kind::{Data, Kind};
use std::fmt;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Directory of the kernel's and the modules' types.
const DIRECTORY: &str = "/sys/kernel/btf";
/// Maximum size of a file in bytes. The kernel's own is about 6 MB.
const BYTES_MAX: usize = 64 << 20;
/// Maximum size of a name in bytes. The kernel limits symbols to 512. Names share their ends, so
/// without a limit the work for all names would grow with the square of the file.
const NAME_BYTES_MAX: usize = 1024;
/// Size in bytes of the header's fields that are used.
const HEADER_BYTES: usize = 24;
/// Size in bytes of the words that each type begins with.
const TYPE_BYTES: usize = 12;
/// Bits of a type's info that have no meaning.
const RESERVED_BITS: u32 = 0x60ff_0000;

/// Types and functions of the kernel or of one of its modules.
pub struct Btf {
    bytes: Vec<u8>,
    /// Byte range of the strings in `bytes`.
    strings: Range<usize>,
    /// Offset in `bytes` of each type, from id `first_id`.
    offsets: Vec<u32>,
    /// Types of the kernel, whose ids and strings a module's types continue; `None` for the
    /// kernel's own types.
    base: Option<Arc<Btf>>,
    first_id: u32,
    /// Offset assigned to the first string of this file: 0, or the size of the base's strings in
    /// bytes.
    first_string: u32,
    index: OnceLock<NameIndex>,
}

impl fmt::Debug for Btf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Btf")
            .field("bytes", &self.bytes.len())
            .field("first_id", &self.first_id)
            .field("types", &self.offsets.len())
            .finish_non_exhaustive()
    }
}

impl Btf {
    /// Reads the types of the running kernel.
    pub fn of_kernel() -> Result<Btf, BtfError> {
        let bytes = read(&format!("{DIRECTORY}/vmlinux"))?;
        Btf::parse(bytes.ok_or(BtfError::Missing)?)
    }

    /// Reads the types of a loaded module. `base` are the types of the running kernel. Modules that
    /// are part of the kernel have no types of their own.
    pub fn of_module(base: Arc<Btf>, module: &str) -> Result<Btf, BtfError> {
        let missing =
            || BtfError::NotFound { expected: "loaded module with types", name: module.to_owned() };
        if module.contains('/') || matches!(module, "" | "." | ".." | "vmlinux") {
            return Err(missing());
        }
        let bytes = read(&format!("{DIRECTORY}/{module}"))?;
        Btf::parse_split(base, bytes.ok_or_else(missing)?)
    }

    /// Parses the types of a kernel.
    pub fn parse(bytes: Vec<u8>) -> Result<Btf, BtfError> {
        Btf::parse_with(None, bytes)
    }

    /// Parses the types of a module. `base` are the types of its kernel.
    pub fn parse_split(base: Arc<Btf>, bytes: Vec<u8>) -> Result<Btf, BtfError> {
        if base.base.is_some() {
            return Err(BtfError::Malformed { offset: 0, expected: "types of a kernel as base" });
        }
        Btf::parse_with(Some(base), bytes)
    }

    fn parse_with(base: Option<Arc<Btf>>, bytes: Vec<u8>) -> Result<Btf, BtfError> {
        if bytes.len() > BYTES_MAX {
            return Err(BtfError::TooLarge { subject: "the file", bytes_max: BYTES_MAX });
        }
        let sections = Sections::parse(&bytes)?;
        let first_string = base.as_ref().map_or(0, |base| base.strings.len() as u32);
        let first_id = base.as_ref().map_or(1, |base| base.end_id());
        check_strings(&bytes, &sections.strings, base.is_none())?;
        let mut checker = Checker {
            bytes: &bytes,
            strings_end: u64::from(first_string) + sections.strings.len() as u64,
            largest: Reference { type_id: 0, offset: 0 },
        };
        let offsets = checker.check_types(sections.types)?;
        let largest = checker.largest;
        if u64::from(largest.type_id) >= u64::from(first_id) + offsets.len() as u64
            && largest.type_id != 0
        {
            return Err(BtfError::UnknownType { type_id: largest.type_id, offset: largest.offset });
        }
        let strings = sections.strings;
        let index = OnceLock::new();
        Ok(Btf { bytes, strings, offsets, base, first_id, first_string, index })
    }

    /// Returns the first id that no type has. The smallest id of a type is 1.
    pub fn end_id(&self) -> u32 {
        // Each type has at least 12 bytes of a file of at most 64 MiB.
        self.first_id + self.offsets.len() as u32
    }

    /// Returns a type's name; an empty text for types without a name, and for unknown ids.
    pub fn type_name(&self, type_id: u32) -> &str {
        self.record(type_id).map_or("", |record| self.name(record.name_offset))
    }

    /// Returns the ids of the types in this file, without those of the kernel that a module's types
    /// continue.
    pub(super) fn own_ids(&self) -> Range<u32> {
        self.first_id..self.end_id()
    }

    /// Returns a type; `None` for id 0, which is `void`, and for ids that no type has.
    pub(super) fn record(&self, type_id: u32) -> Option<Record<'_>> {
        let Some(index) = type_id.checked_sub(self.first_id) else {
            return self.base.as_ref()?.record(type_id);
        };
        let offset = *self.offsets.get(index as usize)? as usize;
        let info = word(&self.bytes, offset + 4)?;
        let kind = Kind::from_number((info >> 24) & 0x1f)?;
        let count = info & 0xffff;
        let start = offset + TYPE_BYTES;
        Some(Record {
            kind,
            is_flagged: info >> 31 == 1,
            count,
            name_offset: word(&self.bytes, offset)?,
            size_or_type: word(&self.bytes, offset + 8)?,
            data: self.bytes.get(start..start + data_bytes(kind, count))?,
        })
    }

    /// Returns the string at an offset; an empty one if there is no text at the offset.
    pub(super) fn name(&self, offset: u32) -> &str {
        let Some(own) = offset.checked_sub(self.first_string) else {
            return self.base.as_ref().map_or("", |base| base.name(offset));
        };
        let strings = self.bytes.get(self.strings.clone()).unwrap_or_default();
        let rest = strings.get(own as usize..).unwrap_or_default();
        let name = std::ffi::CStr::from_bytes_until_nul(rest).unwrap_or_default();
        name.to_str().unwrap_or_default()
    }

    /// Returns the type with this name and a wanted kind. Types of this file have precedence over
    /// those of its base, and smaller ids over larger ones.
    pub(super) fn find(&self, name: &str, is_wanted: impl Fn(Kind) -> bool) -> Option<u32> {
        let mut file = Some(self);
        while let Some(btf) = file {
            let index = btf.index.get_or_init(|| NameIndex::new(btf));
            let mut ids = index.candidates(name).filter(|id| btf.type_name(*id) == name);
            let found = ids.find(|id| btf.record(*id).is_some_and(|record| is_wanted(record.kind)));
            if found.is_some() {
                return found;
            }
            file = btf.base.as_deref();
        }
        None
    }
}

/// Encoded type of a BTF file, with the common words decoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'b> {
    pub(super) kind: Kind,
    /// Highest bit of the info. For structures: offsets of members contain sizes of bit fields. For
    /// enumerations: values are signed. For forward declarations: union.
    pub(super) is_flagged: bool,
    /// Number of entries; for a function, its linkage.
    pub(super) count: u32,
    pub(super) name_offset: u32,
    /// Size of the type in bytes, or id of the type that this type refers to.
    pub(super) size_or_type: u32,
    /// Data of the kind.
    data: &'b [u8],
}

impl<'b> Record<'b> {
    /// Returns a word of the data; 0 outside of the data.
    pub(super) fn data_word(&self, index: usize) -> u32 {
        word(self.data, index * 4).unwrap_or(0)
    }

    /// Returns the members of a structure or union; for other kinds nothing.
    pub(super) fn members(self) -> impl Iterator<Item = Member> + 'b {
        let data = if self.kind.has_members() { self.data } else { &[] };
        data.chunks_exact(12).map(move |entry| {
            let place = word(entry, 8).unwrap_or(0);
            Member {
                name_offset: word(entry, 0).unwrap_or(0),
                type_id: word(entry, 4).unwrap_or(0),
                bit_offset: if self.is_flagged { place & 0xff_ffff } else { place },
                bit_field_size: if self.is_flagged { place >> 24 } else { 0 },
            }
        })
    }

    /// Returns the parameters of a prototype; for other kinds nothing.
    pub(super) fn parameters(self) -> impl Iterator<Item = PrototypeEntry> + 'b {
        let data = if self.kind == Kind::Prototype { self.data } else { &[] };
        data.chunks_exact(8).map(|entry| PrototypeEntry {
            name_offset: word(entry, 0).unwrap_or(0),
            type_id: word(entry, 4).unwrap_or(0),
        })
    }

    /// Returns the values of an enumeration; for other kinds nothing.
    pub(super) fn values(self) -> impl Iterator<Item = EnumerationEntry> + 'b {
        let data = if self.kind.is_enumeration() { self.data } else { &[] };
        let is_wide = self.kind == Kind::Enumeration64;
        data.chunks_exact(if is_wide { 12 } else { 8 }).map(move |entry| {
            let low = word(entry, 4).unwrap_or(0);
            let high = word(entry, 8).unwrap_or(0);
            let wide = u64::from(high) << 32 | u64::from(low);
            let value = match (is_wide, self.is_flagged) {
                (false, false) => Some(i64::from(low)),
                (false, true) => Some(i64::from(low as i32)),
                (true, false) => i64::try_from(wide).ok(),
                (true, true) => Some(wide as i64),
            };
            EnumerationEntry { name_offset: word(entry, 0).unwrap_or(0), value }
        })
    }
}

/// Member of a structure or union.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) name_offset: u32,
    pub(super) type_id: u32,
    pub(super) bit_offset: u32,
    /// Size in bits; 0 for members that are no bit fields.
    pub(super) bit_field_size: u32,
}

/// Parameter of a prototype. Type 0 without a name stands for variable arguments.
#[derive(Clone, Copy, Debug)]
pub(super) struct PrototypeEntry {
    pub(super) name_offset: u32,
    pub(super) type_id: u32,
}

/// Value of an enumeration.
#[derive(Clone, Copy, Debug)]
pub(super) struct EnumerationEntry {
    pub(super) name_offset: u32,
    /// Value; `None` if it exceeds `i64`.
    pub(super) value: Option<i64>,
}

/// Reads a file of at most [`BYTES_MAX`] bytes. Returns `None` if there is no such file.
fn read(path: &str) -> Result<Option<Vec<u8>>, BtfError> {
    let failed = |error| BtfError::Read { path: path.to_owned(), error };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0).min(BYTES_MAX) + 1);
    file.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    Ok(Some(bytes))
}

/// Returns the word at an offset.
fn word(bytes: &[u8], offset: usize) -> Option<u32> {
    let bytes = bytes.get(offset..)?.first_chunk::<4>()?;
    Some(u32::from_le_bytes(*bytes))
}

/// Returns the size of the data that follows a type's common words.
fn data_bytes(kind: Kind, count: u32) -> usize {
    match kind.data() {
        Data::Fixed(bytes) => bytes,
        Data::Entries(layout) => layout.size * count as usize,
    }
}

/// Byte ranges of a file's two sections: types and strings.
struct Sections {
    types: Range<usize>,
    strings: Range<usize>,
}

impl Sections {
    fn parse(bytes: &[u8]) -> Result<Sections, BtfError> {
        let malformed = |offset, expected| BtfError::Malformed { offset, expected };
        if bytes.len() < HEADER_BYTES {
            return Err(malformed(bytes.len(), "a header of 24 bytes"));
        }
        match bytes {
            [0x9f, 0xeb, ..] => {}
            [0xeb, 0x9f, ..] => return Err(malformed(0, "types of a little-endian machine")),
            _ => return Err(malformed(0, "the magic number 0xEB9F")),
        }
        if bytes[2] != 1 {
            return Err(malformed(2, "format version 1"));
        }
        let field = |offset| word(bytes, offset).unwrap_or(0) as usize;
        let header = field(4);
        if header < HEADER_BYTES || header > bytes.len() {
            return Err(malformed(4, "a header's length of at least 24 and within the file"));
        }
        let section = |offset: usize, expected| {
            let start = header.checked_add(field(offset));
            let end = start.and_then(|start| start.checked_add(field(offset + 4)));
            match (start, end) {
                (Some(start), Some(end)) if end <= bytes.len() => Ok(start..end),
                _ => Err(malformed(offset, expected)),
            }
        };
        let types = section(8, "offset and length of types within the file")?;
        let strings = section(16, "offset and length of strings within the file")?;
        if !types.start.is_multiple_of(4) {
            return Err(malformed(8, "an offset of types that is a multiple of 4"));
        }
        Ok(Sections { types, strings })
    }
}

/// Checks that the strings are text, begin with an empty one (in a file without base), end with NUL
/// and do not exceed the limit.
fn check_strings(bytes: &[u8], place: &Range<usize>, has_no_base: bool) -> Result<(), BtfError> {
    let malformed = |offset, expected| Err(BtfError::Malformed { offset, expected });
    let strings = bytes.get(place.clone()).unwrap_or_default();
    match strings {
        [] if has_no_base => return malformed(place.start, "strings"),
        [] => return Ok(()),
        [first, ..] if *first != 0 && has_no_base => {
            return malformed(place.start, "an empty string, at the start of the strings");
        }
        [.., last] if *last != 0 => {
            return malformed(place.end - 1, "NUL at the end of the strings");
        }
        _ => {}
    }
    if let Err(error) = std::str::from_utf8(strings) {
        return malformed(place.start + error.valid_up_to(), "UTF-8");
    }
    let mut strings = strings.split(|byte| *byte == 0);
    if strings.any(|name| name.len() > NAME_BYTES_MAX) {
        return Err(BtfError::TooLarge { subject: "a name", bytes_max: NAME_BYTES_MAX });
    }
    Ok(())
}

/// Reference to a type, with its offset in the file.
#[derive(Clone, Copy)]
struct Reference {
    type_id: u32,
    offset: usize,
}

/// Check of all types of a file, which also finds their offsets.
struct Checker<'b> {
    bytes: &'b [u8],
    /// Upper bound (exclusive) of valid name offsets: the end of the strings, including those of
    /// the base.
    strings_end: u64,
    /// Reference to the largest type id found so far. The id is compared with the number of types
    /// after all types have been read.
    largest: Reference,
}

impl Checker<'_> {
    /// Returns the offsets of the types.
    fn check_types(&mut self, section: Range<usize>) -> Result<Vec<u32>, BtfError> {
        let mut offsets = Vec::with_capacity(section.len() / 24);
        let mut offset = section.start;
        while offset < section.end {
            if section.end - offset < TYPE_BYTES {
                return Err(BtfError::Malformed { offset, expected: "the 12 bytes of a type" });
            }
            let info = self.word(offset + 4);
            let number = (info >> 24) & 0x1f;
            let kind =
                Kind::from_number(number).ok_or(BtfError::UnknownKind { kind: number, offset })?;
            if info & RESERVED_BITS != 0 {
                return Err(BtfError::Malformed {
                    offset: offset + 4,
                    expected: "zeros in bits 16 to 23, 29 and 30 of a type's info",
                });
            }
            let data = offset + TYPE_BYTES;
            let end = data + data_bytes(kind, info & 0xffff);
            if end > section.end {
                return Err(BtfError::Malformed {
                    offset: data,
                    expected: "entries of a type, as many as its info says",
                });
            }
            self.check_name(offset)?;
            if kind.has_target() {
                self.note_reference(offset + 8);
            }
            self.check_data(kind, data..end)?;
            offsets.push(offset as u32);
            offset = end;
        }
        Ok(offsets)
    }

    fn check_data(&mut self, kind: Kind, data: Range<usize>) -> Result<(), BtfError> {
        match kind.data() {
            Data::Fixed(_) if kind == Kind::Array => {
                self.note_reference(data.start);
                self.note_reference(data.start + 4);
            }
            Data::Fixed(_) => {}
            Data::Entries(layout) => {
                for entry in data.step_by(layout.size) {
                    if let Some(name) = layout.name {
                        self.check_name(entry + name)?;
                    }
                    if let Some(type_id) = layout.type_id {
                        self.note_reference(entry + type_id);
                    }
                }
            }
        }
        Ok(())
    }

    fn check_name(&self, offset: usize) -> Result<(), BtfError> {
        match u64::from(self.word(offset)) < self.strings_end {
            true => Ok(()),
            false => Err(BtfError::Malformed { offset, expected: "an offset within the strings" }),
        }
    }

    fn note_reference(&mut self, offset: usize) {
        let type_id = self.word(offset);
        if type_id > self.largest.type_id {
            self.largest = Reference { type_id, offset };
        }
    }

    fn word(&self, offset: usize) -> u32 {
        word(self.bytes, offset).unwrap_or(0)
    }
}

/// Hash table from names to the ids of a file's types, made by the first search. Types with the
/// same hash form a list, in the order of their ids. The hash is keyed, so that a file cannot make
/// the lists long.
struct NameIndex {
    hasher: RandomState,
    first_id: u32,
    /// First id of each list; 0 for an empty list. The number of lists is a power of two.
    lists: Vec<u32>,
    /// Next id of the list for each type; 0 at the end.
    next: Vec<u32>,
}

impl NameIndex {
    fn new(btf: &Btf) -> NameIndex {
        let count = btf.offsets.len();
        let mut index = NameIndex {
            hasher: RandomState::new(),
            first_id: btf.first_id,
            lists: vec![0; count.next_power_of_two()],
            next: vec![0; count],
        };
        for type_id in btf.own_ids().rev() {
            let name = btf.type_name(type_id);
            if !name.is_empty() {
                let list = index.list_of(name);
                index.next[(type_id - btf.first_id) as usize] = index.lists[list];
                index.lists[list] = type_id;
            }
        }
        index
    }

    fn list_of(&self, name: &str) -> usize {
        self.hasher.hash_one(name) as usize & (self.lists.len() - 1)
    }

    /// Returns the ids whose names may be this one.
    fn candidates(&self, name: &str) -> impl Iterator<Item = u32> + '_ {
        let is_id = |id: &u32| *id != 0;
        let first = self.lists.get(self.list_of(name)).copied().filter(is_id);
        std::iter::successors(first, move |id| {
            self.next.get((id - self.first_id) as usize).copied().filter(is_id)
        })
    }
}

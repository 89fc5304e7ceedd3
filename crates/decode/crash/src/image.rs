//! Files with memory: core files of processes, dumps of a machine's memory (ELF or
//! `kdump-compressed`), raw memory, and files of shared memory. An [`Image`] maps addresses to the
//! file; it holds no memory itself.

pub use crate::error::ImageError;
use crate::kdump::{self, CompressedPages, Dump};
pub use crate::memory::Machine;
pub(crate) use crate::memory::{PAGE, Page, Segment, long};
use crate::memory::{half, word};
use crate::source::Source;
use crate::stored;
use std::cmp::Reverse;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;

/// Maximum number of segments of an ELF file. The dump of a large machine has some hundred, the
/// core file of a process some ten thousand.
const SEGMENTS_MAX: usize = 1 << 18;

/// A file with memory.
#[derive(Debug)]
pub struct Image {
    content: Content,
    space: Space,
    machine: Machine,
    /// Parts of memory of which the file has bytes, ordered by address and without overlap.
    segments: Vec<Segment>,
    /// Set if the file ends before its segments do.
    is_cut_off: bool,
}

/// Form of the pages in a file.
#[derive(Debug)]
enum Content {
    Plain(Source),
    Compressed(CompressedPages),
}

/// Meaning of the addresses of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Physical addresses of a machine: shared memory is scattered, page by page.
    Physical,
    /// Addresses of one process: shared memory is contiguous.
    Process,
    /// Offsets in a file of shared memory, which is contiguous too.
    File,
}

impl Image {
    /// Opens a file and recognizes its format: ELF by its header, a file of shared memory by the
    /// magic number of rings or catalogs; anything else is raw memory of a machine.
    pub fn open(path: &Path) -> Result<Image, ImageError> {
        let file = File::open(path)?;
        if !file.metadata()?.is_file() {
            return Err(ImageError::Format("not a regular file"));
        }
        Image::of_file(file)
    }

    /// Recognizes the format of an open file; see [`open`](Self::open).
    pub fn of_file(file: File) -> Result<Image, ImageError> {
        let source = Source::new(file)?;
        let size = source.size();
        let mut start = [0; 64];
        let known = size.min(start.len() as u64) as usize;
        source.read_exact_at(&mut start[..known], 0)?;
        match &start {
            bytes if bytes.starts_with(b"\x7fELF") => Image::of_elf(source, &start),
            bytes if kdump::is_dump(bytes) => {
                let Dump { pages, machine, segments, is_cut_off } = Dump::open(source)?;
                let (content, space) = (Content::Compressed(pages), Space::Physical);
                Ok(Image { content, space, machine, segments, is_cut_off })
            }
            bytes => {
                let is_shared = bytes.starts_with(b"blkring\0") || bytes.starts_with(b"blkcatal");
                let space = if is_shared { Space::File } else { Space::Physical };
                let whole = size - size % PAGE as u64;
                let whole = Segment { address: 0, offset: 0, size: whole };
                let segments = stored_in(&source, vec![whole])?;
                let content = Content::Plain(source);
                Ok(Image { content, space, machine: Machine::own(), segments, is_cut_off: false })
            }
        }
    }

    fn of_elf(source: Source, header: &[u8; 64]) -> Result<Image, ImageError> {
        const CORE: u16 = 4;
        if header[4..6] != [2, 1] {
            return Err(ImageError::Format("an ELF file of a 32-bit or big-endian machine"));
        }
        if half(header, 16) != CORE {
            return Err(ImageError::Format("an ELF file, but no core file or memory dump"));
        }
        let machine = match half(header, 18) {
            62 => Machine::X86,
            183 => Machine::Arm,
            _ => {
                return Err(ImageError::Format(
                    "an ELF file of another machine than x86-64 or arm64",
                ));
            }
        };
        let entries = Entries::of_file(&source, header)?;
        let loads = entries.loads;
        // Core files of processes have no physical addresses.
        let has_physical = loads.iter().any(|load| load.physical != 0);
        let has_virtual = loads.iter().any(|load| load.virtual_ != 0);
        let space = if has_virtual && !has_physical { Space::Process } else { Space::Physical };
        let mut is_cut_off = false;
        let mut segments = Vec::with_capacity(loads.len());
        for load in loads {
            let address = if space == Space::Process { load.virtual_ } else { load.physical };
            let present = load.size.min(source.size().saturating_sub(load.offset));
            is_cut_off |= present < load.size;
            segments.extend(Segment { address, offset: load.offset, size: present }.whole_pages());
        }
        let segments = without_overlap(stored_in(&source, segments)?);
        if is_repeated(&segments) {
            return Err(ImageError::Damaged("its segments are the same part of the file"));
        }
        Ok(Image { content: Content::Plain(source), space, machine, segments, is_cut_off })
    }

    /// Returns the meaning of the image's addresses.
    pub fn space(&self) -> Space {
        self.space
    }

    /// Returns the processor family.
    pub fn machine(&self) -> Machine {
        self.machine
    }

    /// Returns true if the file ends before its segments do.
    pub fn is_cut_off(&self) -> bool {
        self.is_cut_off
    }

    /// Returns the number of pages in the image, without those in gaps of the file.
    pub fn page_count(&self) -> u64 {
        self.segments.iter().map(|segment| segment.size / PAGE as u64).sum()
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns the offset in the file of the page at `address`; `None` if the image lacks it.
    fn offset_of(&self, address: u64) -> Option<u64> {
        let after = self.segments.partition_point(|segment| segment.address <= address);
        let segment = self.segments.get(after.checked_sub(1)?)?;
        let within = address - segment.address;
        (within < segment.size).then(|| segment.offset + within)
    }

    /// Returns true if the image has the page at `address`, which is a multiple of [`PAGE`].
    pub(crate) fn has_page(&self, address: u64) -> bool {
        self.offset_of(address).is_some()
    }

    /// Reads the page at `address`. Returns false if the image lacks it.
    pub(crate) fn read_page(&self, address: u64, page: &mut Page) -> io::Result<bool> {
        let Some(offset) = self.offset_of(address) else { return Ok(false) };
        self.read_part(offset, page).map(|()| true)
    }

    /// Calls `read`, which reads each page once. Returns its result, and the number of pages that
    /// cannot be read. Fails if these are most.
    pub(crate) fn count_unreadable<T>(
        &self,
        read: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<(T, u64)> {
        let Content::Compressed(pages) = &self.content else { return Ok((read()?, 0)) };
        pages.start_count();
        let result = read()?;
        Ok((result, pages.check(self.page_count())?))
    }

    /// Reads a part of a segment.
    pub(crate) fn read_part(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        match &self.content {
            Content::Plain(source) => source.read_exact_at(bytes, offset),
            Content::Compressed(pages) => pages.read(offset, bytes),
        }
    }
}

fn stored_in(source: &Source, segments: Vec<Segment>) -> Result<Vec<Segment>, ImageError> {
    stored::pages_of(source, segments, PAGE as u64, |offset| offset)
}

/// Sorts segments by address, and cuts what a segment before has: of segments with the same
/// start, the longest remains.
fn without_overlap(mut segments: Vec<Segment>) -> Vec<Segment> {
    segments.sort_unstable_by_key(|segment| (segment.address, Reverse(segment.size)));
    let mut end = 0;
    let rests = segments.into_iter().filter_map(|segment| {
        let rest = segment.after(end)?;
        end = rest.address + rest.size;
        Some(rest)
    });
    rests.collect()
}

/// Returns true if most of the segments' bytes are the same bytes of the file, so that an image
/// could be far larger than its file.
fn is_repeated(segments: &[Segment]) -> bool {
    let mut places: Vec<Range<u64>> =
        segments.iter().map(|one| one.offset..one.offset + one.size).collect();
    places.sort_unstable_by_key(|place| place.start);
    let (mut sum, mut distinct, mut end) = (0u64, 0u64, 0);
    for place in places {
        sum = sum.saturating_add(place.end - place.start);
        distinct += place.end.saturating_sub(place.start.max(end));
        end = end.max(place.end);
    }
    sum / 2 > distinct
}

/// A loadable segment of an ELF file.
#[derive(Debug)]
struct Load {
    offset: u64,
    virtual_: u64,
    physical: u64,
    size: u64,
}

/// Program headers of an ELF file.
struct Entries {
    loads: Vec<Load>,
}

impl Entries {
    fn of_file(file: &Source, header: &[u8; 64]) -> Result<Entries, ImageError> {
        const ENTRY_SIZE: usize = 56;
        const LOAD: u32 = 1;
        /// Number of entries that stands for a larger one, which is in the first section header.
        const MORE: u16 = u16::MAX;
        let damaged = ImageError::Damaged;
        if half(header, 54) as usize != ENTRY_SIZE {
            return Err(damaged("its program headers have another size"));
        }
        let mut count = usize::from(half(header, 56));
        if half(header, 56) == MORE {
            let mut section = [0; 64];
            file.read_exact_at(&mut section, long(header, 40))
                .map_err(|_| damaged("its section header is missing"))?;
            count = word(&section, 44) as usize;
        }
        if count > SEGMENTS_MAX {
            return Err(damaged("it has too many segments"));
        }
        let start = long(header, 32);
        let end = start.checked_add((count * ENTRY_SIZE) as u64);
        if end.is_none_or(|end| end > file.size()) {
            return Err(damaged("its program headers are missing"));
        }
        let mut bytes = vec![0; count * ENTRY_SIZE];
        file.read_exact_at(&mut bytes, start)?;
        let loads = bytes.chunks_exact(ENTRY_SIZE).filter(|entry| word(entry, 0) == LOAD);
        let loads = loads.map(|entry| Load {
            offset: long(entry, 8),
            virtual_: long(entry, 16),
            physical: long(entry, 24),
            size: long(entry, 32),
        });
        Ok(Entries { loads: loads.collect() })
    }
}

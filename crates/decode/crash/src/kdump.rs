//! The format `kdump-compressed` of makedumpfile and QEMU: compressed pages of a machine's memory.
//!
//! ```text
//! block 0        header: sizes in blocks; the block size is the page size
//! block 1        sub-header: number of frames
//! bitmap         two bitmaps of frames: those of the machine, and those in the dump
//! descriptions   of each page in the dump: offset, size, compression
//! pages
//! ```

use crate::error::ImageError;
use crate::memory::{Machine, PAGE, Page, Segment, half, long, word};
use crate::source::Source;
use crate::stored;
use flate2::{Decompress, FlushDecompress};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const HEADER_SIZE: usize = 464;
const SUB_HEADER_SIZE: usize = 104;
/// First version of the header whose sub-header has the number of frames.
const VERSION_WITH_FRAMES: u32 = 6;
/// Size of a page's description, in bytes.
const DESCRIPTION_SIZE: usize = 24;
/// Maximum size of a bitmap in bytes: of 16 TiB of memory.
const BITMAP_SIZE_MAX: u64 = 512 << 20;
/// Maximum number of runs of frames in a dump, from which some pages are left out.
const RUNS_MAX: usize = 1 << 22;
/// Maximum size of a compressed page in bytes. A page that grows is stored as it is.
const COMPRESSED_SIZE_MAX: usize = 2 * PAGE;

/// Compressed pages of a dump, in the order of their frames.
#[derive(Debug)]
pub(crate) struct CompressedPages {
    source: Source,
    /// Offset of the descriptions in the file.
    descriptions: u64,
    unknown: UnknownPages,
}

/// Pages whose compression is not known, among those that were read: the description of a page may
/// be damaged, or all pages are compressed by a method that cannot be read.
#[derive(Debug, Default)]
struct UnknownPages {
    count: AtomicU64,
    /// Flags of the last one.
    flags: AtomicU32,
}

/// A dump whose header was read.
pub(crate) struct Dump {
    pub(crate) pages: CompressedPages,
    pub(crate) machine: Machine,
    /// Parts of memory. Their offsets count the bytes of all pages together.
    pub(crate) segments: Vec<Segment>,
    /// Set if the file ends before its last page does.
    pub(crate) is_cut_off: bool,
}

/// Compression of a page, by its number in the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compression {
    None,
    Zlib,
    Zstd,
}

impl Dump {
    pub(crate) fn open(source: Source) -> Result<Dump, ImageError> {
        let damaged = |_| ImageError::Damaged("its kdump header");
        let mut header = [0; HEADER_SIZE];
        source.read_exact_at(&mut header, 0).map_err(damaged)?;
        if word(&header, 428) as usize != PAGE {
            return Err(ImageError::Format("a dump with pages of another size than 4 KiB"));
        }
        let machine = match &header[272..] {
            name if name.starts_with(b"x86_64\0") => Machine::X86,
            name if name.starts_with(b"aarch64\0") => Machine::Arm,
            _ => return Err(ImageError::Format("a dump of another machine than x86-64 or arm64")),
        };
        let mut sub_header = [0; SUB_HEADER_SIZE];
        source.read_exact_at(&mut sub_header, PAGE as u64).map_err(damaged)?;
        if word(&sub_header, 12) != 0 {
            return Err(ImageError::Format(
                "a part of a dump; `makedumpfile --reassemble` puts the parts together",
            ));
        }
        let version = word(&header, 8);
        let frames = match version >= VERSION_WITH_FRAMES {
            true => long(&sub_header, 96),
            false => u64::from(word(&header, 440)),
        };
        let (sub_blocks, bitmap_blocks) = (word(&header, 432), word(&header, 436));
        let block = PAGE as u64;
        let bitmaps = (1 + u64::from(sub_blocks)) * block;
        let size = u64::from(bitmap_blocks) * block / 2;
        if size > BITMAP_SIZE_MAX || bitmaps + 2 * size > source.size() {
            return Err(ImageError::Damaged("its bitmap of pages"));
        }
        let segments = segments_of(&source, bitmaps + size..bitmaps + 2 * size, frames)?;
        let descriptions = bitmaps + 2 * size;
        let pages: u64 = segments.iter().map(|segment| segment.size / block).sum();
        if descriptions + pages * DESCRIPTION_SIZE as u64 > source.size() {
            return Err(ImageError::Damaged("the descriptions of its pages are missing"));
        }
        let mut last = [0; DESCRIPTION_SIZE];
        if let Some(before) = pages.checked_sub(1) {
            source.read_exact_at(&mut last, descriptions + before * DESCRIPTION_SIZE as u64)?;
        }
        let segments = stored::pages_of(&source, segments, DESCRIPTION_SIZE as u64, |offset| {
            descriptions + offset / block * DESCRIPTION_SIZE as u64
        })?;
        let is_cut_off = long(&last, 0).saturating_add(word(&last, 8).into()) > source.size();
        let pages = CompressedPages { source, descriptions, unknown: UnknownPages::default() };
        Ok(Dump { pages, machine, segments, is_cut_off })
    }
}

/// Returns the runs of frames whose bits are set in the bitmap at `place`, as segments.
fn segments_of(
    source: &Source,
    place: Range<u64>,
    frames: u64,
) -> Result<Vec<Segment>, ImageError> {
    /// Size of the parts of the bitmap that are read at once, in bytes.
    const PART_SIZE: u64 = 1 << 16;
    let mut runs = Runs { segments: Vec::new(), offset: 0, frames };
    let mut bytes = vec![0; PART_SIZE as usize];
    let mut at = place.start;
    while let Some(stored) = source.next_stored(at..place.end) {
        let end = stored.end.min(stored.start + PART_SIZE);
        let bytes = &mut bytes[..(end - stored.start) as usize];
        source.read_exact_at(bytes, stored.start)?;
        runs.add(bytes, 8 * (stored.start - place.start)).ok_or(ImageError::Damaged(
            "its bitmap has more runs of pages than a machine's memory",
        ))?;
        at = end;
    }
    Ok(runs.segments)
}

/// Runs of frames, from parts of a bitmap in their order.
struct Runs {
    segments: Vec<Segment>,
    /// Offset of the next page, which counts the bytes of all pages together.
    offset: u64,
    /// Number of frames of the machine. Later bits mean nothing.
    frames: u64,
}

impl Runs {
    /// Adds the frames from `first` on whose bits are set. Returns `None` if there are too many
    /// runs.
    fn add(&mut self, bitmap: &[u8], first: u64) -> Option<()> {
        let page = PAGE as u64;
        for (byte, first) in bitmap.iter().zip((first..).step_by(8)) {
            for bit in (0..8).filter(|bit| byte >> bit & 1 != 0) {
                let address = (first + bit) * page;
                if first + bit >= self.frames {
                    break;
                }
                let is_full = self.segments.len() == RUNS_MAX;
                match self.segments.last_mut() {
                    Some(last) if last.address + last.size == address => last.size += page,
                    _ if is_full => return None,
                    _ => self.segments.push(Segment { address, offset: self.offset, size: page }),
                }
                self.offset += page;
            }
        }
        Some(())
    }
}

impl CompressedPages {
    /// Decompresses the pages from `offset` on, which counts the bytes of all pages together.
    /// A page that is damaged, or whose compression is not known, becomes zeros, as a page that the
    /// dump lacks.
    pub(crate) fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let first = offset / PAGE as u64;
        let (pages, _) = bytes.as_chunks_mut::<PAGE>();
        let mut descriptions = vec![0; pages.len() * DESCRIPTION_SIZE];
        let start = self.descriptions.saturating_add(first * DESCRIPTION_SIZE as u64);
        self.source.read_exact_at(&mut descriptions, start)?;
        let mut inflater = Decompress::new(true);
        let mut compressed = Vec::new();
        for (page, description) in pages.iter_mut().zip(descriptions.chunks(DESCRIPTION_SIZE)) {
            let (at, size) = (long(description, 0), word(description, 8) as usize);
            let flags = word(description, 12);
            page.fill(0);
            let Some(compression) = Compression::of_flags(flags) else {
                self.unknown.count.fetch_add(1, Ordering::Relaxed);
                self.unknown.flags.store(flags, Ordering::Relaxed);
                continue;
            };
            compressed.resize(size.min(COMPRESSED_SIZE_MAX), 0);
            if self.source.read_exact_at(&mut compressed, at).is_ok()
                && compression.expand(&compressed, page, &mut inflater).is_none()
            {
                page.fill(0);
            }
        }
        Ok(())
    }

    /// Sets the number of pages with an unknown compression to 0.
    pub(crate) fn start_count(&self) {
        self.unknown.count.store(0, Ordering::Relaxed);
    }

    /// Returns the number of pages with an unknown compression, of `pages` pages that were read.
    /// Fails if most are.
    pub(crate) fn check(&self, pages: u64) -> io::Result<u64> {
        let count = self.unknown.count.load(Ordering::Relaxed);
        if count <= pages / 2 {
            return Ok(count);
        }
        let name = match self.unknown.flags.load(Ordering::Relaxed) & Compression::FLAGS {
            2 => "LZO",
            4 => "Snappy",
            _ => "another method",
        };
        let text = format!(
            "its pages are compressed by {name}, which cannot be read; `makedumpfile -c` \
             compresses by zlib"
        );
        Err(io::Error::new(io::ErrorKind::Unsupported, text))
    }
}

impl Compression {
    /// Flags that tell the method.
    const FLAGS: u32 = 0x3f;

    fn of_flags(flags: u32) -> Option<Compression> {
        match flags & Compression::FLAGS {
            0 => Some(Compression::None),
            1 => Some(Compression::Zlib),
            0x20 => Some(Compression::Zstd),
            _ => None,
        }
    }

    /// Expands a page; `None` if the bytes are damaged.
    fn expand(self, compressed: &[u8], page: &mut Page, inflater: &mut Decompress) -> Option<()> {
        match self {
            Compression::None => page.copy_from_slice(compressed.first_chunk::<PAGE>()?),
            Compression::Zlib => {
                inflater.reset(true);
                inflater.decompress(compressed, page, FlushDecompress::Finish).ok()?;
                (inflater.total_out() == PAGE as u64).then_some(())?;
            }
            Compression::Zstd => {
                let size = zstd::bulk::decompress_to_buffer(compressed, &mut page[..]).ok()?;
                (size == PAGE).then_some(())?;
            }
        }
        Some(())
    }
}

/// Returns true if a file starts with the header of this format.
pub(crate) fn is_dump(start: &[u8]) -> bool {
    start.starts_with(b"KDUMP   ") && half(start, 8) != 0
}

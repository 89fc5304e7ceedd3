//! [`Index`]: reads the index of a span file.

use super::directory::{Directory, Group, LinkCount, Widths};
use super::{CODE_BITS, HEADER_BYTES, MAGIC, NO_DURATION};
use crate::files::ascending::{AscendingList, ListShape};
use crate::files::bloom;
use crate::files::bytes::{read, read_exact};
use crate::files::packed::{PADDING_BYTES, Packed, WIDTH_MAX, extract, packed_bytes};
use blkkin_journal::File;
use blkkin_store::Window;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Maximum size of a directory in bytes. An index with a larger directory counts as damaged.
const DIRECTORY_BYTES_MAX: u64 = 256 << 20;

/// Open index with its directory and Bloom filter in memory.
pub(crate) struct Index {
    pub(crate) directory: Directory,
    bloom: Vec<u8>,
    file: Arc<dyn File>,
    pub(crate) sections: Sections,
}

/// Byte ranges of the sections of an index file.
pub(crate) struct Sections {
    body: Range<u64>,
    pub(crate) starts: Range<u64>,
    pub(crate) rows: Range<u64>,
    pub(crate) spans: Range<u64>,
    pub(crate) lengths: Range<u64>,
    pub(crate) groups: Vec<Range<u64>>,
    pub(crate) bloom: Range<u64>,
    pub(crate) links: Range<u64>,
}

/// Entry of a span in the list of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) ordinal: u32,
    pub(crate) is_error: bool,
    /// Duration code of the span, or [`NO_DURATION`].
    pub(crate) code: u16,
}

/// Row ranges of requests with consecutive ordinals.
pub(crate) struct Requests {
    rows: Vec<u8>,
    spans: Vec<u8>,
    widths: Widths,
    rows_max: u32,
    timed: u32,
    of: Range<u32>,
}

impl Requests {
    /// Iterates over the requests' ordinals and row ranges.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, Range<u32>)> + '_ {
        let len = self.timed as usize;
        let rows = Packed::new(&self.rows, self.widths.rows, len);
        let spans = Packed::new(&self.spans, self.widths.spans, len);
        rows.zip(spans).into_iter().flat_map(move |(rows, spans)| {
            self.of.clone().map(move |ordinal| {
                let first = rows.get(ordinal as usize) as u32;
                let end = first.saturating_add(spans.get(ordinal as usize) as u32);
                (ordinal, first.min(self.rows_max)..end.min(self.rows_max))
            })
        })
    }
}

/// Reason why an index cannot be used. The index can be rebuilt.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// Invalid data in the header field or section that starts at this byte offset.
    Damaged(u64),
    Io(io::Error),
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> OpenError {
        OpenError::Io(error)
    }
}

impl Index {
    /// Opens an index and verifies its checksums.
    pub(crate) fn open(file: Arc<dyn File>) -> Result<Index, OpenError> {
        let (index, body_crc) = Index::read(file)?;
        if crc_of(&*index.file, &index.sections.body)? != body_crc {
            return Err(OpenError::Damaged(index.sections.body.start));
        }
        Ok(index)
    }

    /// Opens an index that [`Index::open`] has verified before. The checksum of the body is not
    /// verified again.
    pub(crate) fn load(file: Arc<dyn File>) -> Result<Index, OpenError> {
        Index::read(file).map(|(index, _)| index)
    }

    fn read(file: Arc<dyn File>) -> Result<(Index, u32), OpenError> {
        let size = file.size_bytes()?;
        let header = read(&*file, 0..(HEADER_BYTES as u64).min(size))?;
        if header.len() < HEADER_BYTES || header[..8] != *MAGIC {
            return Err(OpenError::Damaged(0));
        }
        let number =
            |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
        let directory_bytes = u64::from(number(12)) << 32 | u64::from(number(8));
        let start = HEADER_BYTES as u64;
        if directory_bytes > DIRECTORY_BYTES_MAX.min(size - start) {
            return Err(OpenError::Damaged(8));
        }
        let body = start + directory_bytes..size;
        let bytes = read(&*file, start..body.start)?;
        if crc32c::crc32c(&bytes) != number(16) {
            return Err(OpenError::Damaged(start));
        }
        let directory = postcard::from_bytes(&bytes).map_err(|_| OpenError::Damaged(start))?;
        let sections = Sections::of(&directory, &body).ok_or(OpenError::Damaged(body.start))?;
        let bloom = read(&*file, sections.bloom.clone())?;
        Ok((Index { directory, bloom, file, sections }, number(20)))
    }

    /// Returns whether the file may contain a request whose trace id has the lower half `low`,
    /// according to the Bloom filter.
    pub(crate) fn may_hold(&self, low: u64) -> bool {
        bloom::may_hold(&self.bloom, low)
    }

    /// Returns the approximate memory of the index in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.directory.memory_bytes() + self.bloom.len() + 16 * self.sections.groups.len()
    }

    /// Returns the ordinals of the requests that began in a window.
    pub(crate) fn ordinals(&self, window: Window) -> io::Result<Range<u32>> {
        let Directory { timed, min_start_ns, max_start_ns, .. } = self.directory;
        if window.start_ns <= min_start_ns && window.end_ns >= max_start_ns {
            return Ok(0..timed);
        }
        let first = self.lower_bound(window.start_ns)?;
        let end = match window.end_ns.checked_add(1) {
            Some(behind) => self.lower_bound(behind)?,
            None => timed,
        };
        Ok(first..end.max(first))
    }

    /// Returns the first ordinal whose request began at `time_ns` or later.
    fn lower_bound(&self, time_ns: u64) -> io::Result<u32> {
        let since = time_ns.saturating_sub(self.directory.min_start_ns);
        self.starts()?.count_less_than(since)
    }

    /// Returns the start time of a request, in nanoseconds since 1970.
    pub(crate) fn start_ns(&self, ordinal: u32) -> io::Result<u64> {
        let since = self.starts()?.get(ordinal)?;
        Ok(self.directory.min_start_ns.saturating_add(since))
    }

    fn starts(&self) -> io::Result<AscendingList<'_>> {
        AscendingList::open(&*self.file, self.sections.starts.clone(), self.directory.starts)
    }

    /// Returns the rows of the file that contain a request's spans.
    pub(crate) fn rows(&self, ordinal: u32) -> io::Result<Range<u32>> {
        let widths = self.directory.widths;
        let first = self.read_packed_number(&self.sections.rows, widths.rows, ordinal)? as u32;
        let spans = self.read_packed_number(&self.sections.spans, widths.spans, ordinal)? as u32;
        let rows = self.directory.rows;
        Ok(first.min(rows)..first.saturating_add(spans).min(rows))
    }

    /// Returns the row ranges of the requests in a range of ordinals.
    pub(crate) fn requests(&self, of: Range<u32>) -> io::Result<Requests> {
        let rows = read(&*self.file, self.sections.rows.clone())?;
        let spans = read(&*self.file, self.sections.spans.clone())?;
        let (widths, rows_max) = (self.directory.widths, self.directory.rows);
        let of = of.start..of.end.min(self.directory.timed);
        Ok(Requests { rows, spans, widths, rows_max, timed: self.directory.timed, of })
    }

    /// Returns the duration codes of all requests, by ordinal.
    pub(crate) fn length_codes(&self) -> io::Result<Vec<u16>> {
        let bytes = read(&*self.file, self.sections.lengths.clone())?;
        let packed = Packed::new(&bytes, CODE_BITS, self.directory.timed as usize);
        Ok(packed.into_iter().flat_map(|packed| packed.iter().map(|code| code as u16)).collect())
    }

    /// Returns the entries of a group within a range of ordinals, in order of time.
    pub(crate) fn entries(&self, group: usize, of: &Range<u32>) -> io::Result<Vec<Entry>> {
        let section = self.sections.groups[group].clone();
        let Some(group) = self.directory.group(group) else { return Ok(Vec::new()) };
        let symbols = group.symbols();
        let mut entries = Vec::new();
        let list = AscendingList::open(&*self.file, section, group.entries)?;
        list.for_each_in_range(of.start.into()..of.end.into(), |ordinal, symbol| {
            let &(code, is_error) = symbols.get(symbol as usize).unwrap_or(&(NO_DURATION, false));
            entries.push(Entry { ordinal: ordinal as u32, is_error, code });
        })?;
        Ok(entries)
    }

    /// Returns the ordinals of requests with spans in earlier files, ascending.
    pub(crate) fn ordinals_elsewhere(&self) -> io::Result<Vec<u32>> {
        let mut ordinals = Vec::new();
        for group in self.directory.groups.len()..self.sections.groups.len() {
            let entries = self.entries(group, &(0..self.directory.timed))?;
            ordinals.extend(entries.iter().map(|entry| entry.ordinal));
        }
        ordinals.sort_unstable();
        ordinals.dedup();
        Ok(ordinals)
    }

    /// Reads one packed number of a section, without reading the whole section.
    fn read_packed_number(&self, section: &Range<u64>, width: u32, index: u32) -> io::Result<u64> {
        let bit = u64::from(index) * u64::from(width);
        let start = section.start + bit / 8;
        let mut bytes = [0; PADDING_BYTES];
        read_exact(&*self.file, &mut bytes, start)?;
        Ok(extract(bytes, (bit % 8) as usize, width))
    }
}

/// Returns whether a file may contain a request whose trace id has the lower half `low`. Reads one
/// block of the Bloom filter from disk.
pub(crate) fn may_hold(file: &dyn File, bloom: &Range<u64>, low: u64) -> io::Result<bool> {
    let Some((at, bits)) = bloom::block_of(bloom.end - bloom.start, low) else { return Ok(true) };
    let block = read(file, bloom.start + at.start..bloom.start + at.end)?;
    Ok(bits.into_iter().all(|bit| block[bit / 8] & (1 << (bit % 8)) != 0))
}

/// Reads the calls in an index, in order of minute, caller and callee.
pub(crate) fn links(file: &dyn File, section: &Range<u64>) -> Result<Vec<LinkCount>, OpenError> {
    let bytes = read(file, section.clone())?;
    let links: Vec<LinkCount> =
        postcard::from_bytes(&bytes).map_err(|_| OpenError::Damaged(section.start))?;
    let are_possible = links.iter().all(LinkCount::is_possible);
    are_possible.then_some(links).ok_or(OpenError::Damaged(section.start))
}

/// Returns the CRC-32C of a range of the file.
fn crc_of(file: &dyn File, range: &Range<u64>) -> io::Result<u32> {
    let mut crc = 0;
    let mut at = range.start;
    while at < range.end {
        let end = range.end.min(at + (1 << 20));
        crc = crc32c::crc32c_append(crc, &read(file, at..end)?);
        at = end;
    }
    Ok(crc)
}

impl Sections {
    /// Computes the byte ranges of the sections. Returns `None` if parameters in the directory are
    /// invalid or the sections do not fill the body exactly.
    fn of(directory: &Directory, body: &Range<u64>) -> Option<Sections> {
        let Directory { widths, timed, starts, .. } = directory;
        let mut at = body.start;
        let mut take = |bytes: u64| {
            let start = at;
            at = at.checked_add(bytes)?;
            Some(start..at)
        };
        let packed = |width: u32| {
            let bytes = packed_bytes(*timed as usize, width)?;
            (width <= WIDTH_MAX).then_some(bytes as u64)
        };
        let list = |shape: &ListShape, len: u32, own: u32| {
            shape.bytes().filter(|_| shape.len == len && shape.own == own)
        };
        let entries = |group: &Group| list(&group.entries, group.entries.len, group.symbol_width());
        let mut sections = Sections {
            body: body.clone(),
            starts: take(list(starts, *timed, 0)?)?,
            rows: take(packed(widths.rows)?)?,
            spans: take(packed(widths.spans)?)?,
            lengths: take(packed(CODE_BITS)?)?,
            groups: directory
                .all_groups()
                .map(|group| take(entries(group)?))
                .collect::<Option<_>>()?,
            bloom: 0..0,
            links: 0..0,
        };
        sections.bloom = at..at.checked_add(directory.bloom_bytes)?;
        sections.links =
            sections.bloom.end..sections.bloom.end.checked_add(directory.links_bytes)?;
        at = sections.links.end;
        (at == body.end).then_some(sections)
    }
}

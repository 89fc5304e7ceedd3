//! [`ChunkWriter`]: writes the pages, statistics and index entries of a column chunk. Start at
//! [`ChunkWriter::new`].

use crate::encode::{self, PageHeader};
use crate::error::Error;
use crate::index;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::ByteArray;
use parquet::file::metadata::{ColumnChunkMetaData, ColumnIndexBuilder, OffsetIndexBuilder};
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescPtr;
use std::io;
use std::ops::Range;
use zstd::bulk::Compressor;
use zstd::zstd_safe::{self, InBuffer, OutBuffer};

/// Maximum length in bytes of a text that statistics list as a bound (minimum or maximum). If
/// either bound is longer, both bounds are unknown.
const BOUND_MAX: usize = 64;

/// Compressor of pages: zstd contexts, and the buffers of the current page.
pub(crate) struct PageCompressor {
    compressor: Compressor<'static>,
    level: ZstdLevel,
    /// Compressor for columns whose values recur, such as names and tags.
    recurring_compressor: Compressor<'static>,
    recurring_level: ZstdLevel,
    recurs: bool,
    body: PageBody,
    stored: Vec<u8>,
    header: Vec<u8>,
}

impl PageCompressor {
    pub(crate) fn new(level: i32, level_of_recurring: i32) -> Result<PageCompressor, Error> {
        Ok(PageCompressor {
            compressor: Compressor::new(level)?,
            level: ZstdLevel::try_new(level)?,
            recurring_compressor: Compressor::new(level_of_recurring)?,
            recurring_level: ZstdLevel::try_new(level_of_recurring)?,
            recurs: false,
            body: PageBody::default(),
            stored: Vec::new(),
            header: Vec::new(),
        })
    }

    /// Selects the compressor for the following pages. `recurs` is set if the values of their
    /// column recur.
    pub(crate) fn set_recurring(&mut self, recurs: bool) {
        self.recurs = recurs;
    }

    fn level(&self) -> ZstdLevel {
        if self.recurs { self.recurring_level } else { self.level }
    }

    /// Compresses the body of the current page into `stored`, as one zstd frame. Sections that end
    /// with [`PageBody::end_block`] have separate zstd blocks.
    fn compress(&mut self) -> Result<(), Error> {
        let PageCompressor {
            compressor,
            recurring_compressor,
            recurs,
            body: PageBody { bytes, block_ends },
            stored,
            ..
        } = self;
        let compressor = if *recurs { recurring_compressor } else { compressor };
        stored.clear();
        stored.reserve(
            zstd_safe::compress_bound(bytes.len()) + (block_ends.len() + 1) * BLOCK_HEADER_BYTES,
        );
        if block_ends.is_empty() {
            compressor.compress_to_buffer(bytes, stored)?;
            return Ok(());
        }
        let failed = |code| Error::Io(io::Error::other(zstd_safe::get_error_name(code)));
        compressor.set_pledged_src_size(Some(bytes.len() as u64))?;
        let context = compressor.context_mut();
        let mut output = OutBuffer::around(stored);
        let mut at = 0;
        let block_ends = block_ends.iter().copied().filter(|cut| *cut < bytes.len());
        for cut in block_ends.chain([bytes.len()]) {
            let mut input = InBuffer::around(&bytes[at..cut]);
            while input.pos < cut - at && output.pos() < output.capacity() {
                context.compress_stream(&mut output, &mut input).map_err(failed)?;
            }
            let ended = match cut == bytes.len() {
                true => context.end_stream(&mut output),
                false => context.flush_stream(&mut output),
            };
            if ended.map_err(failed)? > 0 {
                return Err(Error::Io(io::Error::other("zstd takes more room than it says")));
            }
            at = cut;
        }
        Ok(())
    }
}

/// Body of a page before compression.
#[derive(Default)]
pub(crate) struct PageBody {
    pub(crate) bytes: Vec<u8>,
    block_ends: Vec<usize>,
}

/// Minimum length in bytes of a section with its own zstd blocks, except for the last section.
const BLOCK_BYTES_MIN: usize = 64;

/// Maximum additional overhead of separate zstd blocks for a section, in bytes.
const BLOCK_HEADER_BYTES: usize = 64;

impl PageBody {
    fn clear(&mut self) {
        self.bytes.clear();
        self.block_ends.clear();
    }

    /// Ends a section of the body, so that the next bytes start a new zstd block with its own
    /// entropy code. A section below [`BLOCK_BYTES_MIN`] is joined with the next. Hexadecimal
    /// digits in a block of their own take four bits each; a few other bytes in the same block
    /// would make the codes of some digits longer.
    pub(crate) fn end_block(&mut self) {
        let at = self.bytes.len();
        if at - self.block_ends.last().copied().unwrap_or(0) >= BLOCK_BYTES_MIN {
            self.block_ends.push(at);
        }
    }
}

/// Repetition and definition levels of a column, as Parquet defines them. Each list has one entry
/// for every value, present or missing.
#[derive(Default)]
pub(crate) struct Levels {
    /// Repetition levels: 0 at the first value of a row. Empty unless the column has lists.
    pub(crate) repeats: Vec<u32>,
    /// Definition levels: 0 for a missing value. Empty if the column is required.
    pub(crate) present: Vec<u32>,
    /// Index of the first level and of the first present value of each page. A last entry has the
    /// total numbers of levels and of present values.
    pub(crate) at_page: Vec<(usize, usize)>,
    /// Set if no row has a value, or if all flags of a flag column are equal. One row can then
    /// stand for all rows.
    pub(crate) same: bool,
}

impl Levels {
    /// Creates the levels of a column with one value in each row.
    pub(crate) fn required(pages: &[Range<usize>]) -> Levels {
        let end = pages.last().map_or(0, |page| page.end);
        let at_page = pages.iter().map(|page| page.start).chain([end]).map(|at| (at, at)).collect();
        Levels { at_page, ..Levels::default() }
    }

    /// Creates the levels of a column with at most one value in each row.
    pub(crate) fn optional(present: Vec<u32>, pages: &[Range<usize>]) -> Levels {
        let mut values = 0;
        let mut at_page = Vec::with_capacity(pages.len() + 1);
        for page in pages {
            at_page.push((page.start, values));
            values += present[page.clone()].iter().sum::<u32>() as usize;
        }
        at_page.push((present.len(), values));
        Levels { same: values == 0, present, at_page, ..Levels::default() }
    }

    /// Creates the levels of a list column. `counts` has the number of values of each row.
    pub(crate) fn repeated(counts: &[u32], pages: &[Range<usize>]) -> Levels {
        let mut levels = Levels::default();
        let mut values = 0;
        for page in pages {
            levels.at_page.push((levels.present.len(), values));
            for count in &counts[page.clone()] {
                levels.repeats.push(0);
                levels.present.push((*count > 0).into());
                for _ in 1..*count {
                    levels.repeats.push(1);
                    levels.present.push(1);
                }
                values += *count as usize;
            }
        }
        levels.at_page.push((levels.present.len(), values));
        levels.same = values == 0;
        levels
    }

    /// Returns whether one page can replace all pages. This requires that all rows are equal,
    /// occupy several pages, and fit into one.
    fn fit_one_page(&self) -> bool {
        let values = self.at_page.last().map_or(0, |(levels, _)| *levels);
        self.same && self.at_page.len() > 2 && values <= index::VALUES_MAX
    }
}

/// Smallest and largest value of a page or a chunk.
#[derive(Clone, Debug)]
pub(crate) enum Bounds {
    /// Unknown bounds; the statistics omit them.
    Unknown,
    /// The page or chunk has no values.
    None,
    Texts(Vec<u8>, Vec<u8>),
    /// Bounds of 64-bit integers.
    Numbers(i64, i64),
    /// Bounds of 32-bit integers.
    Numbers32(i32, i32),
    Flags(bool, bool),
}

impl Bounds {
    fn bytes(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        match self {
            Bounds::Unknown => None,
            Bounds::None => Some((Vec::new(), Vec::new())),
            Bounds::Texts(least, most) => Some((least.clone(), most.clone())),
            Bounds::Numbers(least, most) => {
                Some((least.to_le_bytes().to_vec(), most.to_le_bytes().to_vec()))
            }
            Bounds::Numbers32(least, most) => {
                Some((least.to_le_bytes().to_vec(), most.to_le_bytes().to_vec()))
            }
            Bounds::Flags(least, most) => Some((vec![(*least).into()], vec![(*most).into()])),
        }
    }

    /// Returns bounds that cover the values of both pages or chunks.
    fn merge(self, other: Bounds) -> Bounds {
        match (self, other) {
            (Bounds::None, bounds) | (bounds, Bounds::None) => bounds,
            (Bounds::Texts(a, b), Bounds::Texts(c, d)) => Bounds::Texts(a.min(c), b.max(d)),
            (Bounds::Numbers(a, b), Bounds::Numbers(c, d)) => Bounds::Numbers(a.min(c), b.max(d)),
            (Bounds::Numbers32(a, b), Bounds::Numbers32(c, d)) => {
                Bounds::Numbers32(a.min(c), b.max(d))
            }
            (Bounds::Flags(a, b), Bounds::Flags(c, d)) => Bounds::Flags(a & c, b | d),
            _ => Bounds::Unknown,
        }
    }

    fn limited(self) -> Bounds {
        match self {
            Bounds::Texts(least, most) if least.len().max(most.len()) > BOUND_MAX => {
                Bounds::Unknown
            }
            bounds => bounds,
        }
    }
}

/// Writer of a column chunk: the pages of one column in one row group.
pub(crate) struct ChunkWriter<'c> {
    descriptor: ColumnDescPtr,
    compressor: &'c mut PageCompressor,
    /// Pages encoded so far, with their headers.
    pub(crate) bytes: Vec<u8>,
    pub(crate) index: index::Chunk,
    bounds: Bounds,
    raw: usize,
    nulls: u64,
    values: usize,
    rows: usize,
    offsets: OffsetIndexBuilder,
    columns: ColumnIndexBuilder,
    level: ZstdLevel,
}

impl<'c> ChunkWriter<'c> {
    pub(crate) fn new(
        descriptor: ColumnDescPtr,
        compressor: &'c mut PageCompressor,
    ) -> ChunkWriter<'c> {
        let columns = ColumnIndexBuilder::new(descriptor.physical_type());
        ChunkWriter {
            descriptor,
            compressor,
            bytes: Vec::new(),
            index: index::Chunk::default(),
            bounds: Bounds::None,
            raw: 0,
            nulls: 0,
            values: 0,
            rows: 0,
            offsets: OffsetIndexBuilder::new(),
            columns,
            level: ZstdLevel::default(),
        }
    }

    /// Writes the dictionary page, which precedes all data pages of the chunk.
    pub(crate) fn dictionary<'t>(
        &mut self,
        texts: impl ExactSizeIterator<Item = &'t str>,
    ) -> Result<(), Error> {
        let body = &mut self.compressor.body;
        body.clear();
        let count = texts.len();
        for text in texts {
            body.bytes.extend((text.len() as u32).to_le_bytes());
            body.bytes.extend_from_slice(text.as_bytes());
        }
        let page = self.store_page(true, Encoding::PLAIN, count)?;
        self.index.dictionary = Some(page);
        Ok(())
    }

    /// Writes the data pages. `pages` has the rows of each page. `values` encodes a range of the
    /// present values and returns their bounds. If one page can replace all pages
    /// ([`Levels::fit_one_page`]), only that page is written.
    pub(crate) fn pages(
        &mut self,
        pages: &[Range<usize>],
        levels: &Levels,
        encoding: Encoding,
        mut values: impl FnMut(Range<usize>, &mut PageBody) -> Bounds,
    ) -> Result<(), Error> {
        self.index.is_same = levels.fit_one_page();
        let step = if self.index.is_same { pages.len().max(1) } else { 1 };
        for (number, joined) in pages.chunks(step).enumerate() {
            let rows: usize = joined.iter().map(Range::len).sum();
            let ((first, from), (end, to)) =
                (levels.at_page[number], levels.at_page[number + step]);
            self.compressor.body.clear();
            for list in [&levels.repeats, &levels.present] {
                if list.is_empty() {
                    continue;
                }
                let bytes = &mut self.compressor.body.bytes;
                let at = bytes.len();
                bytes.extend([0; 4]);
                encode::runs(&list[first..end], 1, bytes);
                let length = (bytes.len() - at - 4) as u32;
                bytes[at..at + 4].copy_from_slice(&length.to_le_bytes());
            }
            self.compressor.body.end_block();
            let bounds = values(from..to, &mut self.compressor.body);
            let nulls = ((end - first) - (to - from)) as u64;
            let offset = self.bytes.len();
            let page = self.store_page(false, encoding, end - first)?;
            self.offsets.append_row_count(rows as i64);
            self.offsets.append_offset_and_size(offset as i64, page.len() as i32);
            let bounds = if from == to { Bounds::None } else { bounds.limited() };
            match bounds.bytes() {
                Some((least, most)) => self.columns.append(from == to, least, most, nulls as i64),
                None => self.columns.to_invalid(),
            }
            self.bounds = std::mem::replace(&mut self.bounds, Bounds::None).merge(bounds);
            self.index.pages.push(page);
            self.nulls += nulls;
            self.values += end - first;
            self.rows += rows;
        }
        Ok(())
    }

    /// Compresses the page body in the compressor, and appends the result to the chunk as a page.
    fn store_page(
        &mut self,
        is_dictionary: bool,
        encoding: Encoding,
        values: usize,
    ) -> Result<index::Page, Error> {
        let compressor = &mut *self.compressor;
        compressor.compress()?;
        self.level = compressor.level();
        let header = PageHeader {
            is_dictionary,
            raw: compressor.body.bytes.len(),
            stored: compressor.stored.len(),
            crc: crc32fast::hash(&compressor.stored),
            values,
            encoding: encoding as i32,
        };
        compressor.header.clear();
        encode::page_header(&header, &mut compressor.header);
        self.raw += compressor.header.len() + compressor.body.bytes.len();
        self.bytes.extend_from_slice(&compressor.header);
        self.bytes.extend_from_slice(&compressor.stored);
        Ok(index::Page {
            offset: 0,
            header: compressor.header.len() as u8,
            encoding: encoding as u8,
            stored: compressor.stored.len() as u32,
            raw: compressor.body.bytes.len() as u32,
            values: values as u32,
            crc: crc32c::crc32c_append(crc32c::crc32c(&compressor.header), &compressor.stored),
        })
    }

    /// Finishes the chunk. Returns its bytes, its Parquet metadata, and its entry in BlkKin's
    /// index.
    pub(crate) fn finish(self) -> Result<(Vec<u8>, ColumnCloseResult, index::Chunk), Error> {
        let first = self.index.dictionary.map_or(0, |page| page.len() as i64);
        let mut encodings = vec![Encoding::RLE];
        for page in self.index.dictionary.iter().chain(&self.index.pages) {
            let encoding = encoding(page.encoding);
            if !encodings.contains(&encoding) {
                encodings.push(encoding);
            }
        }
        let mut builder = ColumnChunkMetaData::builder(self.descriptor)
            .set_compression(Compression::ZSTD(self.level))
            .set_encodings(encodings)
            .set_total_compressed_size(self.bytes.len() as i64)
            .set_total_uncompressed_size(self.raw as i64)
            .set_num_values(self.values as i64)
            .set_data_page_offset(first)
            .set_dictionary_page_offset(self.index.dictionary.map(|_| 0));
        if let Some(statistics) = statistics(&self.bounds, self.nulls) {
            builder = builder.set_statistics(statistics);
        }
        let close = ColumnCloseResult {
            bytes_written: self.bytes.len() as u64,
            rows_written: self.rows as u64,
            metadata: builder.build()?,
            bloom_filter: None,
            column_index: if self.columns.valid() { Some(self.columns.build()?) } else { None },
            offset_index: Some(self.offsets.build()),
        };
        Ok((self.bytes, close, self.index))
    }
}

fn statistics(bounds: &Bounds, nulls: u64) -> Option<Statistics> {
    let nulls = Some(nulls);
    Some(match bounds {
        Bounds::Unknown | Bounds::None => return None,
        Bounds::Texts(least, most) => {
            let text = |text: &Vec<u8>| Some(ByteArray::from(text.clone()));
            Statistics::byte_array(text(least), text(most), None, nulls, false)
        }
        Bounds::Numbers(least, most) => {
            Statistics::int64(Some(*least), Some(*most), None, nulls, false)
        }
        Bounds::Numbers32(least, most) => {
            Statistics::int32(Some(*least), Some(*most), None, nulls, false)
        }
        Bounds::Flags(least, most) => {
            Statistics::boolean(Some(*least), Some(*most), None, nulls, false)
        }
    })
}

/// Returns the Parquet encoding with the given number, from 5 to 8. All other numbers give `PLAIN`.
pub(crate) fn encoding(number: u8) -> Encoding {
    match number {
        5 => Encoding::DELTA_BINARY_PACKED,
        6 => Encoding::DELTA_LENGTH_BYTE_ARRAY,
        7 => Encoding::DELTA_BYTE_ARRAY,
        8 => Encoding::RLE_DICTIONARY,
        _ => Encoding::PLAIN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All sections of a page, including empty and short ones, are compressed to one zstd frame.
    /// The frame states its content size.
    #[test]
    fn parts_are_one_frame() {
        let mut compressor = PageCompressor::new(1, 1).expect("zstd");
        for lengths in [&[][..], &[0], &[100], &[100, 0], &[9, 100, 0], &[70, 300_000, 70], &[0, 5]]
        {
            compressor.body.clear();
            for (length, byte) in lengths.iter().zip(1_usize..) {
                let of_part = (0..*length).map(|at| ((at * at * byte) >> 3) as u8);
                compressor.body.bytes.extend(of_part);
                compressor.body.end_block();
            }
            compressor.compress().expect("compressed");
            let frame = zstd_safe::find_frame_compressed_size(&compressor.stored);
            assert_eq!(frame, Ok(compressor.stored.len()), "{lengths:?}");
            let content = zstd_safe::get_frame_content_size(&compressor.stored).expect("a frame");
            assert_eq!(content, Some(compressor.body.bytes.len() as u64), "{lengths:?}");
            let body = zstd::bulk::decompress(&compressor.stored, compressor.body.bytes.len());
            assert_eq!(body.expect("a frame"), compressor.body.bytes, "{lengths:?}");
        }
    }
}

//! A column of a row group as it is being written: pages, and what is to be known of them. Start at [`Chunk::new`].

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

/// Longest text that becomes a bound.
const BOUND_MAX: usize = 64;

/// Buffers, and what compresses.
pub(crate) struct Press {
    compressor: Compressor<'static>,
    level: ZstdLevel,
    /// For what recurs.
    harder: Compressor<'static>,
    harder_level: ZstdLevel,
    recurs: bool,
    body: Body,
    stored: Vec<u8>,
    header: Vec<u8>,
}

impl Press {
    pub(crate) fn new(level: i32, level_of_recurring: i32) -> Result<Press, Error> {
        Ok(Press {
            compressor: Compressor::new(level)?,
            level: ZstdLevel::try_new(level)?,
            harder: Compressor::new(level_of_recurring)?,
            harder_level: ZstdLevel::try_new(level_of_recurring)?,
            recurs: false,
            body: Body::default(),
            stored: Vec::new(),
            header: Vec::new(),
        })
    }

    /// Whether what comes is of a column whose values recur.
    pub(crate) fn expect(&mut self, recurs: bool) {
        self.recurs = recurs;
    }

    fn level(&self) -> ZstdLevel {
        if self.recurs { self.harder_level } else { self.level }
    }

    /// Compresses the body.
    fn compress(&mut self) -> Result<(), Error> {
        let Press { compressor, harder, recurs, body: Body { bytes, cuts }, stored, .. } = self;
        let compressor = if *recurs { harder } else { compressor };
        stored.clear();
        stored.reserve(zstd_safe::compress_bound(bytes.len()) + (cuts.len() + 1) * BLOCK_HEADERS);
        if cuts.is_empty() {
            compressor.compress_to_buffer(bytes, stored)?;
            return Ok(());
        }
        let failed = |code| Error::Io(io::Error::other(zstd_safe::get_error_name(code)));
        compressor.set_pledged_src_size(Some(bytes.len() as u64))?;
        let context = compressor.context_mut();
        let mut output = OutBuffer::around(stored);
        let mut at = 0;
        let cuts = cuts.iter().copied().filter(|cut| *cut < bytes.len());
        for cut in cuts.chain([bytes.len()]) {
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

/// A page before it is compressed.
#[derive(Default)]
pub(crate) struct Body {
    pub(crate) bytes: Vec<u8>,
    cuts: Vec<usize>,
}

/// A part that is shorter is not worth a block of its own.
const PART_MIN: usize = 64;

/// More than what a block of zstd takes beside its content, for each of those that a part may have.
const BLOCK_HEADERS: usize = 64;

impl Body {
    fn clear(&mut self) {
        self.bytes.clear();
        self.cuts.clear();
    }

    /// What follows is of another kind: it gets a block of its own, which has a code of its own. The few bytes before
    /// hexadecimal digits would make some of those longer than four bits.
    pub(crate) fn cut(&mut self) {
        let at = self.bytes.len();
        if at - self.cuts.last().copied().unwrap_or(0) >= PART_MIN {
            self.cuts.push(at);
        }
    }
}

/// Which values there are: what Parquet calls levels. All lists have an entry for each value, missing ones included.
#[derive(Default)]
pub(crate) struct Levels {
    /// 0 where a row begins, empty if each row has one value at most.
    pub(crate) repeats: Vec<u32>,
    /// 0 where there is no value, empty if each row has one.
    pub(crate) present: Vec<u32>,
    /// Of each page, the first level and the first value that is there, and where both end at last.
    pub(crate) at_page: Vec<(usize, usize)>,
    /// All rows say the same, in one level each.
    pub(crate) same: bool,
}

impl Levels {
    /// Each row has a value.
    pub(crate) fn one(pages: &[Range<usize>]) -> Levels {
        let end = pages.last().map_or(0, |page| page.end);
        let at_page = pages.iter().map(|page| page.start).chain([end]).map(|at| (at, at)).collect();
        Levels { at_page, ..Levels::default() }
    }

    /// A row may have a value.
    pub(crate) fn at_most_one(present: Vec<u32>, pages: &[Range<usize>]) -> Levels {
        let mut values = 0;
        let mut at_page = Vec::with_capacity(pages.len() + 1);
        for page in pages {
            at_page.push((page.start, values));
            values += present[page.clone()].iter().sum::<u32>() as usize;
        }
        at_page.push((present.len(), values));
        Levels { same: values == 0, present, at_page, ..Levels::default() }
    }

    /// A row has so many values.
    pub(crate) fn many(counts: &[u32], pages: &[Range<usize>]) -> Levels {
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

    /// Whether one page has what several would have.
    fn are_of_one_page(&self) -> bool {
        let values = self.at_page.last().map_or(0, |(levels, _)| *levels);
        self.same && self.at_page.len() > 2 && values <= index::VALUES_MAX
    }
}

/// The least and the greatest value of a page, and of a chunk.
#[derive(Clone, Debug)]
pub(crate) enum Bounds {
    /// Not known.
    Unknown,
    /// There is no value.
    None,
    Texts(Vec<u8>, Vec<u8>),
    /// Of 64 bits.
    Numbers(i64, i64),
    /// Of 32.
    Small(i32, i32),
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
            Bounds::Small(least, most) => {
                Some((least.to_le_bytes().to_vec(), most.to_le_bytes().to_vec()))
            }
            Bounds::Flags(least, most) => Some((vec![(*least).into()], vec![(*most).into()])),
        }
    }

    /// Of both.
    fn with(self, other: Bounds) -> Bounds {
        match (self, other) {
            (Bounds::None, bounds) | (bounds, Bounds::None) => bounds,
            (Bounds::Texts(a, b), Bounds::Texts(c, d)) => Bounds::Texts(a.min(c), b.max(d)),
            (Bounds::Numbers(a, b), Bounds::Numbers(c, d)) => Bounds::Numbers(a.min(c), b.max(d)),
            (Bounds::Small(a, b), Bounds::Small(c, d)) => Bounds::Small(a.min(c), b.max(d)),
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

/// A column of a row group.
pub(crate) struct Chunk {
    descriptor: ColumnDescPtr,
    /// All pages, with headers.
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

impl Chunk {
    pub(crate) fn new(descriptor: ColumnDescPtr) -> Chunk {
        let columns = ColumnIndexBuilder::new(descriptor.physical_type());
        Chunk {
            descriptor,
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

    /// Texts that pages have the numbers of.
    pub(crate) fn dictionary<'t>(
        &mut self,
        texts: impl ExactSizeIterator<Item = &'t str>,
        press: &mut Press,
    ) -> Result<(), Error> {
        press.body.clear();
        let count = texts.len();
        for text in texts {
            press.body.bytes.extend((text.len() as u32).to_le_bytes());
            press.body.bytes.extend_from_slice(text.as_bytes());
        }
        let page = self.page(true, Encoding::PLAIN, count, press)?;
        self.index.dictionary = Some(page);
        Ok(())
    }

    /// A page of data. `values` is given those values that are there, and writes them. Where all rows say the same, the
    /// first page has all of them.
    pub(crate) fn data(
        &mut self,
        number: usize,
        rows: usize,
        levels: &Levels,
        encoding: Encoding,
        press: &mut Press,
        values: impl FnOnce(Range<usize>, &mut Body) -> Bounds,
    ) -> Result<(), Error> {
        if self.index.is_same {
            return Ok(());
        }
        self.index.is_same = levels.are_of_one_page();
        let next = if self.index.is_same { levels.at_page.len() - 1 } else { number + 1 };
        let ((first, from), (end, to)) = (levels.at_page[number], levels.at_page[next]);
        let rows = if self.index.is_same { end } else { rows };
        press.body.clear();
        for list in [&levels.repeats, &levels.present] {
            if list.is_empty() {
                continue;
            }
            let bytes = &mut press.body.bytes;
            let at = bytes.len();
            bytes.extend([0; 4]);
            encode::runs(&list[first..end], 1, bytes);
            let length = (bytes.len() - at - 4) as u32;
            bytes[at..at + 4].copy_from_slice(&length.to_le_bytes());
        }
        press.body.cut();
        let bounds = values(from..to, &mut press.body);
        let nulls = ((end - first) - (to - from)) as u64;
        let offset = self.bytes.len();
        let page = self.page(false, encoding, end - first, press)?;
        self.offsets.append_row_count(rows as i64);
        self.offsets.append_offset_and_size(offset as i64, page.len() as i32);
        let bounds = if from == to { Bounds::None } else { bounds.limited() };
        match bounds.bytes() {
            Some((least, most)) => self.columns.append(from == to, least, most, nulls as i64),
            None => self.columns.to_invalid(),
        }
        self.bounds = std::mem::replace(&mut self.bounds, Bounds::None).with(bounds);
        self.index.pages.push(page);
        self.nulls += nulls;
        self.values += end - first;
        self.rows += rows;
        Ok(())
    }

    /// Compresses and keeps what is in the press.
    fn page(
        &mut self,
        is_dictionary: bool,
        encoding: Encoding,
        values: usize,
        press: &mut Press,
    ) -> Result<index::Page, Error> {
        press.compress()?;
        self.level = press.level();
        let header = PageHeader {
            is_dictionary,
            raw: press.body.bytes.len(),
            stored: press.stored.len(),
            crc: crc32fast::hash(&press.stored),
            values,
            encoding: encoding as i32,
        };
        press.header.clear();
        encode::page_header(&header, &mut press.header);
        self.raw += press.header.len() + press.body.bytes.len();
        self.bytes.extend_from_slice(&press.header);
        self.bytes.extend_from_slice(&press.stored);
        Ok(index::Page {
            offset: 0,
            header: press.header.len() as u8,
            encoding: encoding as u8,
            stored: press.stored.len() as u32,
            raw: press.body.bytes.len() as u32,
            values: values as u32,
            crc: crc32c::crc32c_append(crc32c::crc32c(&press.header), &press.stored),
        })
    }

    /// The bytes, what Parquet wants to know of them, and what we do.
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
        Bounds::Small(least, most) => {
            Statistics::int32(Some(*least), Some(*most), None, nulls, false)
        }
        Bounds::Flags(least, most) => {
            Statistics::boolean(Some(*least), Some(*most), None, nulls, false)
        }
    })
}

/// Those encodings that we write, by their number in files.
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

    /// Parts of a page, none, short ones and none at the end included, are one frame of zstd that says how long it is.
    #[test]
    fn parts_are_one_frame() {
        let mut press = Press::new(1, 1).expect("zstd");
        for lengths in [&[][..], &[0], &[100], &[100, 0], &[9, 100, 0], &[70, 300_000, 70], &[0, 5]]
        {
            press.body.clear();
            for (length, byte) in lengths.iter().zip(1_usize..) {
                let of_part = (0..*length).map(|at| ((at * at * byte) >> 3) as u8);
                press.body.bytes.extend(of_part);
                press.body.cut();
            }
            press.compress().expect("compressed");
            let frame = zstd_safe::find_frame_compressed_size(&press.stored);
            assert_eq!(frame, Ok(press.stored.len()), "{lengths:?}");
            let content = zstd_safe::get_frame_content_size(&press.stored).expect("a frame");
            assert_eq!(content, Some(press.body.bytes.len() as u64), "{lengths:?}");
            let body = zstd::bulk::decompress(&press.stored, press.body.bytes.len());
            assert_eq!(body.expect("a frame"), press.body.bytes, "{lengths:?}");
        }
    }
}

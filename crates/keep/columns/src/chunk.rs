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
use std::ops::Range;
use zstd::bulk::Compressor;

/// Longest text that becomes a bound.
const BOUND_MAX: usize = 64;

/// Buffers, and what compresses.
pub(crate) struct Press {
    compressor: Compressor<'static>,
    level: ZstdLevel,
    body: Vec<u8>,
    stored: Vec<u8>,
    header: Vec<u8>,
}

impl Press {
    pub(crate) fn new(level: i32) -> Result<Press, Error> {
        Ok(Press {
            compressor: Compressor::new(level)?,
            level: ZstdLevel::try_new(level)?,
            body: Vec::new(),
            stored: Vec::new(),
            header: Vec::new(),
        })
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
        Levels { present, at_page, ..Levels::default() }
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
        levels
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
            press.body.extend((text.len() as u32).to_le_bytes());
            press.body.extend_from_slice(text.as_bytes());
        }
        let page = self.page(true, Encoding::PLAIN, count, press)?;
        self.index.dictionary = Some(page);
        Ok(())
    }

    /// A page of data. `values` is given those values that are there, and writes them.
    pub(crate) fn data(
        &mut self,
        number: usize,
        rows: usize,
        levels: &Levels,
        encoding: Encoding,
        press: &mut Press,
        values: impl FnOnce(Range<usize>, &mut Vec<u8>) -> Bounds,
    ) -> Result<(), Error> {
        let ((first, from), (end, to)) = (levels.at_page[number], levels.at_page[number + 1]);
        press.body.clear();
        for list in [&levels.repeats, &levels.present] {
            if list.is_empty() {
                continue;
            }
            let at = press.body.len();
            press.body.extend([0; 4]);
            encode::runs(&list[first..end], 1, &mut press.body);
            let length = (press.body.len() - at - 4) as u32;
            press.body[at..at + 4].copy_from_slice(&length.to_le_bytes());
        }
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
        press.stored.clear();
        press.stored.reserve(zstd::zstd_safe::compress_bound(press.body.len()));
        press.compressor.compress_to_buffer(&press.body, &mut press.stored)?;
        self.level = press.level;
        let header = PageHeader {
            is_dictionary,
            raw: press.body.len(),
            stored: press.stored.len(),
            crc: crc32fast::hash(&press.stored),
            values,
            encoding: encoding as i32,
        };
        press.header.clear();
        encode::page_header(&header, &mut press.header);
        self.raw += press.header.len() + press.body.len();
        self.bytes.extend_from_slice(&press.header);
        self.bytes.extend_from_slice(&press.stored);
        Ok(index::Page {
            offset: 0,
            header: press.header.len() as u8,
            encoding: encoding as u8,
            stored: press.stored.len() as u32,
            raw: press.body.len() as u32,
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

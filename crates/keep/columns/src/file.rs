//! [`File`]: a span file open for reading, with its row groups, pages and dictionaries. Start at
//! [`File::open`].
//!
//! Pages are located by BlkKin's own index alone, never by Parquet's headers. Their checksums are
//! verified before their content is decoded. Damage is therefore an error that names its offset,
//! and the limits in `index` bound the memory that a malicious file can cost.
//!
//! `rows` reads whole spans, `page_columns` reads single columns.

use crate::cells::DecodedPage;
use crate::decode::{self, TextList};
use crate::error::Error;
use crate::index::{self, Group, Page, Seal};
use crate::page_reader::{PageReader, crc};
use crate::read_at::ReadAt;
use crate::schema::{COLUMNS, Column};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Span file open for reading. Any number of threads may read it at the same time.
pub struct File<R = std::fs::File> {
    source: R,
    seal: Seal,
    footer_at: u64,
    groups: Vec<Group>,
    /// Approximate memory of `groups`, in bytes.
    index_bytes: usize,
    rows: u64,
    dictionaries: Mutex<DictionaryCache>,
    idle_readers: Mutex<Vec<PageReader>>,
}

/// Maximum number of idle page readers. Readers with at least [`IDLE_READER_BYTES_MAX`] bytes of
/// memory are dropped.
const IDLE_READERS_MAX: usize = 8;
const IDLE_READER_BYTES_MAX: usize = 1 << 20;

/// Cache of dictionaries. The key is the offset of a dictionary's page in the file.
#[derive(Default)]
struct DictionaryCache {
    by_offset: HashMap<u64, Arc<TextList>>,
    bytes: usize,
}

/// Total size in bytes of the cached dictionaries. If the total is greater, the cache is emptied
/// before the next dictionary is added.
const DICTIONARY_CACHE_BYTES_MAX: usize = 16 << 20;

/// Maximum distance in bytes from the seal to the end of the file.
const SEAL_WITHIN: u64 = 1 << 16;

const MAGIC: &[u8; 4] = b"PAR1";

impl File {
    /// Opens the span file at a path.
    pub fn open_path(path: impl AsRef<Path>) -> Result<File, Error> {
        File::open(std::fs::File::open(path)?)
    }
}

impl<R: ReadAt> File<R> {
    /// Opens a file. Reads its footer and index, and verifies their checksums.
    pub fn open(from: R) -> Result<File<R>, Error> {
        let len = from.len()?;
        let damaged = |offset, reason| Error::Damaged { offset, reason };
        let tail_at = len.checked_sub(12).ok_or(damaged(0, "it is too short"))? + 4;
        let mut tail = [0; 8];
        from.read_at(tail_at, &mut tail)?;
        let [a, b, c, d, magic @ ..] = tail;
        if magic != *MAGIC {
            return Err(damaged(tail_at + 4, "it does not end as Parquet does"));
        }
        let length = u64::from(u32::from_le_bytes([a, b, c, d]));
        let footer_at = tail_at
            .checked_sub(length)
            .filter(|at| *at >= 4)
            .ok_or(damaged(tail_at, "the footer has no such length"))?;
        let rest_at = footer_at.max(len.saturating_sub(SEAL_WITHIN));
        let beginning = crc(&from, footer_at..rest_at)?;
        let mut rest = vec![0; (len - rest_at) as usize];
        from.read_at(rest_at, &mut rest)?;
        let seal = Seal::open(beginning, &mut rest, footer_at)?;
        let behind = seal.index_at.checked_add(seal.index_len.into());
        if seal.index_at < 4 || behind.is_none_or(|behind| behind > footer_at) {
            return Err(damaged(footer_at, "the index is not where the footer says"));
        }
        let mut stored = vec![0; seal.index_len as usize];
        from.read_at(seal.index_at, &mut stored)?;
        if crc32c::crc32c(&stored) != seal.index_crc {
            return Err(damaged(seal.index_at, "the index is not what its checksum says"));
        }
        let bytes = zstd::bulk::decompress(&stored, seal.index_raw as usize)
            .map_err(|_| damaged(seal.index_at, "the index cannot be decompressed"))?;
        let groups =
            index::read(&bytes, seal.index_at).map_err(|reason| damaged(seal.index_at, reason))?;
        let rows = groups.last().map_or(0, |group| group.first_row + u64::from(group.rows));
        let of_group = |group: &Group| {
            let pages = group.columns.iter().map(|chunk| chunk.pages.len()).sum::<usize>();
            pages * size_of::<Page>() + group.page_rows.len() * 12
        };
        Ok(File {
            source: from,
            seal,
            footer_at,
            index_bytes: groups.iter().map(of_group).sum(),
            groups,
            rows,
            dictionaries: Mutex::default(),
            idle_readers: Mutex::default(),
        })
    }

    /// Returns the index entries of all row groups.
    pub(crate) fn row_groups(&self) -> &[Group] {
        &self.groups
    }

    /// Returns the index entry of a row group.
    pub(crate) fn group(&self, group: usize) -> &Group {
        &self.groups[group]
    }

    /// Returns the number of the first row group that ends after `row`.
    pub(crate) fn first_group(&self, row: u64) -> usize {
        self.groups.partition_point(|group| group.first_row + u64::from(group.rows) <= row)
    }

    /// Returns the number of spans.
    pub fn len(&self) -> u64 {
        self.rows
    }

    /// Returns whether the file has no spans.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Returns the number of row groups.
    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Returns the range of rows of a row group.
    pub fn group_rows(&self, group: usize) -> Range<u64> {
        let group = &self.groups[group];
        group.first_row..group.first_row + u64::from(group.rows)
    }

    /// Returns the earliest and the latest start of the spans in a row group; `None` if no span has
    /// a start.
    pub fn group_starts_ns(&self, group: usize) -> Option<(u64, u64)> {
        let (first, last) = self.groups[group].starts;
        (first <= last).then_some((first, last))
    }

    /// Returns the smallest and the largest lower half of the trace ids in a row group.
    pub fn group_lows(&self, group: usize) -> (u64, u64) {
        let group = &self.groups[group];
        (group.page_lows[0], group.last_low)
    }

    /// Returns, for each page of a row group, its first row and the lower half of that row's trace
    /// id.
    pub fn group_pages(&self, group: usize) -> impl ExactSizeIterator<Item = (u64, u64)> + '_ {
        let group = &self.groups[group];
        let rows = group.page_rows.iter().map(|row| group.first_row + u64::from(*row));
        rows.zip(group.page_lows.iter().copied())
    }

    /// Returns the columns, each with the total size of its pages in the file, in bytes.
    pub fn column_bytes(&self) -> impl Iterator<Item = (Column, u64)> + '_ {
        COLUMNS.into_iter().map(|column| {
            let chunks = self.groups.iter().map(|group| &group.columns[column as usize]);
            let pages = chunks.flat_map(|chunk| chunk.dictionary.iter().chain(&chunk.pages));
            (column, pages.map(Page::len).sum())
        })
    }

    /// Returns the approximate memory of the index and the cached dictionaries, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let dictionaries = self.dictionaries.lock();
        self.index_bytes + dictionaries.bytes
    }

    /// Empties the cache of dictionaries. They are read again on demand.
    pub fn shrink(&self) {
        *self.dictionaries.lock() = DictionaryCache::default();
    }

    /// Returns the rows of a page, relative to the start of its row group.
    pub(crate) fn rows_of_page(&self, group: usize, page: usize) -> Range<usize> {
        let group = &self.groups[group];
        let end = group.page_rows.get(page + 1).copied().unwrap_or(group.rows);
        group.page_rows[page] as usize..end as usize
    }

    pub(crate) fn damaged(
        &self,
        group: usize,
        page: usize,
        column: Column,
        reason: &'static str,
    ) -> Error {
        let offset = self.groups[group].columns[column as usize].page(page).offset;
        Error::Damaged { offset, reason }
    }

    /// Reads which rows of a page have a value of an optional column. Values are not decoded.
    pub(crate) fn presence(
        &self,
        group: usize,
        page: usize,
        column: Column,
    ) -> Result<DecodedPage, Error> {
        let chunk = &self.groups[group].columns[column as usize];
        let rows = self.rows_of_page(group, page).len();
        let page = chunk.page(page);
        self.with_reader(|reader| {
            let levels = reader.read_levels(&self.source, page)?;
            DecodedPage::decode_presence(column, page, rows, chunk.is_same, levels)
                .map_err(|reason| Error::Damaged { offset: page.offset, reason })
        })
    }

    /// Reads and decodes a page of a column.
    pub(crate) fn cells(
        &self,
        group: usize,
        page: usize,
        column: Column,
    ) -> Result<DecodedPage, Error> {
        let chunk = &self.groups[group].columns[column as usize];
        let dictionary = match &chunk.dictionary {
            Some(page) => Some(self.dictionary(page)?),
            None => None,
        };
        let rows = self.rows_of_page(group, page).len();
        let page = chunk.page(page);
        self.body(page, |body| match chunk.is_same {
            true => DecodedPage::decode_constant(column, page, body, dictionary.as_ref()),
            false => DecodedPage::decode(column, page, rows, body, dictionary.as_ref()),
        })
    }

    fn dictionary(&self, page: &Page) -> Result<Arc<TextList>, Error> {
        let known = || self.dictionaries.lock();
        if let Some(dictionary) = known().by_offset.get(&page.offset) {
            return Ok(dictionary.clone());
        }
        let mut texts = TextList::default();
        self.body(page, |body| {
            decode::plain_texts(&mut decode::ByteReader(body), page.values as usize, &mut texts)
        })?;
        let texts = Arc::new(texts);
        let mut known = known();
        if known.bytes > DICTIONARY_CACHE_BYTES_MAX {
            *known = DictionaryCache::default();
        }
        known.bytes += texts.memory();
        known.by_offset.insert(page.offset, texts.clone());
        Ok(texts)
    }

    /// Reads a page, verifies its checksum, decompresses it, and decodes its body with `take`.
    fn body<T>(
        &self,
        page: &Page,
        take: impl FnOnce(&[u8]) -> decode::Result<T>,
    ) -> Result<T, Error> {
        self.with_reader(|reader| {
            take(reader.read(&self.source, page)?)
                .map_err(|reason| Error::Damaged { offset: page.offset, reason })
        })
    }

    fn with_reader<T>(
        &self,
        take: impl FnOnce(&mut PageReader) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let idle = || self.idle_readers.lock();
        let popped = idle().pop();
        let mut reader = match popped {
            Some(reader) => reader,
            None => PageReader::new()?,
        };
        let value = take(&mut reader)?;
        let mut idle = idle();
        if idle.len() < IDLE_READERS_MAX && reader.memory_bytes() < IDLE_READER_BYTES_MAX {
            idle.push(reader);
        }
        Ok(value)
    }

    /// Verifies the parts that [`File::open`] has not verified. All checksums must be correct, and
    /// pages must be decompressible and follow one another without gaps.
    pub fn verify(&self) -> Result<(), Error> {
        let damaged = |offset, reason| Error::Damaged { offset, reason };
        let mut magic = [0; 4];
        self.source.read_at(0, &mut magic)?;
        if magic != *MAGIC {
            return Err(damaged(0, "it does not begin as Parquet does"));
        }
        let mut at = 4;
        for chunk in self.groups.iter().flat_map(|group| &group.columns) {
            for page in chunk.dictionary.iter().chain(&chunk.pages) {
                if page.offset != at {
                    return Err(damaged(at, "there is something between pages"));
                }
                at += page.len();
                self.body(page, |_| Ok(()))?;
            }
        }
        if at != self.seal.index_at {
            return Err(damaged(at, "there is something behind the pages"));
        }
        let from = self.seal.index_at + u64::from(self.seal.index_len);
        if crc(&self.source, from..self.footer_at)? == self.seal.rest_crc {
            Ok(())
        } else {
            Err(damaged(from, "filters and indexes are not what their checksum says"))
        }
    }

    /// Returns the dictionary of a column in a row group; `None` if that column chunk is not
    /// dictionary-encoded.
    pub fn texts(&self, group: usize, column: Column) -> Result<Option<Texts>, Error> {
        let chunk = &self.groups[group].columns[column as usize];
        chunk.dictionary.as_ref().map(|page| self.dictionary(page).map(Texts)).transpose()
    }
}

/// Dictionary of a column chunk, as read from a file.
pub struct Texts(Arc<TextList>);

impl Texts {
    /// Iterates over the texts in the order of their dictionary codes.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.0.len()).map(|number| self.0.get(number))
    }
}

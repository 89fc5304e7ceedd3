//! Files of spans, read: rows by their number or their request's id, and columns. Start at [`File::open`].
//!
//! A page is read by our index alone, and checked before anything looks into it, so that damage is an error with its
//! place; and a file that somebody made to do harm costs no more memory than a page may.

use crate::block::{Block, Refused};
use crate::cells::Cells;
use crate::decode::{self, TextList};
use crate::error::Error;
use crate::index::{self, Group, Page, Seal};
use crate::layout::ValueType;
use crate::schema::{COLUMNS, Column, TAGS, kind_text, status_text};
use crate::writer::of_letter;
use blkkin_model::{
    AnnotationRef, EndpointRef, Kind, Origin, SpanId, SpanRef, SpanSink, Status, TagRef, TraceId,
    ValueRef,
};
use std::collections::HashMap;
use std::io;
use std::ops::{ControlFlow, Range, RangeInclusive};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, ResetDirective};

/// What can be read at any place, also by several at once.
pub trait ReadAt {
    /// How many bytes there are.
    fn len(&self) -> io::Result<u64>;

    /// Fills the buffer from that place on.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Whether there are none.
    fn is_empty(&self) -> io::Result<bool> {
        self.len().map(|len| len == 0)
    }
}

impl ReadAt for std::fs::File {
    fn len(&self) -> io::Result<u64> {
        self.metadata().map(|metadata| metadata.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }
}

impl ReadAt for Vec<u8> {
    fn len(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(offset).ok();
        let bytes = from.and_then(|from| self.get(from..)?.get(..buffer.len()));
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// A file of spans. Any number of threads may read it.
pub struct File<R = std::fs::File> {
    from: R,
    seal: Seal,
    footer_at: u64,
    groups: Vec<Group>,
    /// About what they take in memory.
    index_bytes: usize,
    rows: u64,
    dictionaries: Mutex<Dictionaries>,
    spare: Mutex<Vec<Spare>>,
}

/// What reading a page takes, kept for the next one.
struct Spare {
    context: DCtx<'static>,
    stored: Vec<u8>,
    body: Vec<u8>,
}

/// Most that are kept, and the largest.
const SPARE_MAX: usize = 8;
const SPARE_BYTES_MAX: usize = 1 << 20;

/// Of larger pages all is decompressed, as a stream needs as much memory beside it.
const STREAMED_LOG_MAX: u32 = 20;

impl Spare {
    fn new() -> Result<Spare, Error> {
        let mut context = DCtx::create();
        context.set_parameter(DParameter::WindowLogMax(STREAMED_LOG_MAX)).map_err(zstd_error)?;
        Ok(Spare { context, stored: Vec::new(), body: Vec::new() })
    }

    /// The bytes of a page, checked and not compressed any more.
    fn read(&mut self, from: &impl ReadAt, page: &Page) -> Result<&[u8], Error> {
        let damaged = |reason| Error::Damaged { offset: page.offset, reason };
        self.store(from, page)?;
        self.body.clear();
        self.body.reserve(page.raw as usize);
        self.context
            .decompress(&mut self.body, &self.stored[page.header.into()..])
            .map_err(|_| damaged("a page cannot be decompressed"))?;
        if self.body.len() == page.raw as usize {
            Ok(&self.body)
        } else {
            Err(damaged("a page is not as long as it should be"))
        }
    }

    /// The first list of levels of a page, with its length before it. What follows it is another block of zstd, which
    /// is not decompressed.
    fn read_levels(&mut self, from: &impl ReadAt, page: &Page) -> Result<&[u8], Error> {
        if page.raw > 1 << STREAMED_LOG_MAX {
            return self.read(from, page);
        }
        let damaged = |reason| Error::Damaged { offset: page.offset, reason };
        self.store(from, page)?;
        self.context.reset(ResetDirective::SessionOnly).map_err(zstd_error)?;
        let mut input = InBuffer::around(&self.stored[page.header.into()..]);
        self.body.clear();
        let mut end = size_of::<u32>();
        while self.body.len() < end {
            let start = self.body.len();
            self.body.resize(end, 0);
            let mut output = OutBuffer::around_pos(&mut self.body[..], start);
            while output.pos() < end {
                let before = (output.pos(), input.pos);
                self.context
                    .decompress_stream(&mut output, &mut input)
                    .map_err(|_| damaged("a page cannot be decompressed"))?;
                if (output.pos(), input.pos) == before {
                    return Err(damaged("a page is not as long as it should be"));
                }
            }
            let length = decode::Bytes(&self.body).u32().map_err(damaged)?;
            if length > page.raw {
                return Err(damaged("it ends early"));
            }
            end = size_of::<u32>() + length as usize;
        }
        Ok(&self.body)
    }

    /// Reads the bytes of a page as they are, and checks them.
    fn store(&mut self, from: &impl ReadAt, page: &Page) -> Result<(), Error> {
        self.stored.clear();
        self.stored.resize(page.len() as usize, 0);
        from.read_at(page.offset, &mut self.stored)?;
        if crc32c::crc32c(&self.stored) != page.crc {
            let reason = "a page is not what its checksum says";
            return Err(Error::Damaged { offset: page.offset, reason });
        }
        Ok(())
    }
}

fn zstd_error(code: usize) -> Error {
    Error::Io(io::Error::other(zstd::zstd_safe::get_error_name(code)))
}

/// Dictionaries that were read, by the place that they have in the file.
#[derive(Default)]
struct Dictionaries {
    by_offset: HashMap<u64, Arc<TextList>>,
    bytes: usize,
}

/// Most bytes of dictionaries that a file keeps in memory.
const DICTIONARIES_MAX: usize = 16 << 20;

/// The seal is not farther from the end.
const SEAL_WITHIN: u64 = 1 << 16;

const MAGIC: &[u8; 4] = b"PAR1";

impl File {
    /// Opens the file of this name.
    pub fn open_path(path: impl AsRef<Path>) -> Result<File, Error> {
        File::open(std::fs::File::open(path)?)
    }
}

/// Ids that were read already, and of which page.
type OfPage = (usize, Cells);

impl<R: ReadAt> File<R> {
    /// Opens a file, of which the end is read and checked.
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
            from,
            seal,
            footer_at,
            index_bytes: groups.iter().map(of_group).sum(),
            groups,
            rows,
            dictionaries: Mutex::default(),
            spare: Mutex::default(),
        })
    }

    /// How many spans there are.
    pub fn len(&self) -> u64 {
        self.rows
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// How many row groups there are.
    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    /// The rows of a group.
    pub fn group_rows(&self, group: usize) -> Range<u64> {
        let group = &self.groups[group];
        group.first_row..group.first_row + u64::from(group.rows)
    }

    /// The earliest and the latest start in a group, if any of its spans has one.
    pub fn group_starts_ns(&self, group: usize) -> Option<(u64, u64)> {
        let (first, last) = self.groups[group].starts;
        (first <= last).then_some((first, last))
    }

    /// The least and the greatest lower half of request ids in a group.
    pub fn group_lows(&self, group: usize) -> (u64, u64) {
        let group = &self.groups[group];
        (group.page_lows[0], group.last_low)
    }

    /// The rows that pages of a group begin with, and the lower halves of their request ids.
    pub fn group_pages(&self, group: usize) -> impl ExactSizeIterator<Item = (u64, u64)> + '_ {
        let group = &self.groups[group];
        let rows = group.page_rows.iter().map(|row| group.first_row + u64::from(*row));
        rows.zip(group.page_lows.iter().copied())
    }

    /// How many bytes of the file each column takes.
    pub fn column_bytes(&self) -> impl Iterator<Item = (Column, u64)> + '_ {
        COLUMNS.into_iter().map(|column| {
            let chunks = self.groups.iter().map(|group| &group.columns[column as usize]);
            let pages = chunks.flat_map(|chunk| chunk.dictionary.iter().chain(&chunk.pages));
            (column, pages.map(Page::len).sum())
        })
    }

    /// About how much memory it takes.
    pub fn memory_bytes(&self) -> usize {
        let dictionaries = self.dictionaries.lock().unwrap_or_else(PoisonError::into_inner);
        self.index_bytes + dictionaries.bytes
    }

    /// Forgets what is read again when it is needed: dictionaries.
    pub fn shrink(&self) {
        *self.dictionaries.lock().unwrap_or_else(PoisonError::into_inner) = Dictionaries::default();
    }

    /// Hands over the spans of these rows, in order, up to the sink's breaking off.
    pub fn read(
        &self,
        rows: Range<u64>,
        sink: &mut (impl SpanSink + ?Sized),
    ) -> Result<ControlFlow<()>, Error> {
        let first = self
            .groups
            .partition_point(|group| group.first_row + u64::from(group.rows) <= rows.start);
        for (number, group) in self.groups.iter().enumerate().skip(first) {
            if group.first_row >= rows.end {
                break;
            }
            let of_group = rows.start.saturating_sub(group.first_row) as usize
                ..(rows.end - group.first_row).min(group.rows.into()) as usize;
            if self.read_group(number, of_group, None, None, sink)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Adds the spans of these rows to a block, and says how many it took before it was full.
    pub fn rows(&self, rows: Range<u64>, into: &mut Block) -> Result<u64, Error> {
        let before = into.len();
        let mut sink = Filling { into, too_large: false };
        let broken = self.read(rows, &mut sink)?.is_break();
        if broken && sink.too_large {
            let reason = "a span is larger than any that we write";
            return Err(Error::Damaged { offset: 0, reason });
        }
        Ok((into.len() - before) as u64)
    }

    /// Hands over the spans of requests whose ids have this lower half, up to the sink's breaking off.
    pub fn trace(
        &self,
        low: u64,
        sink: &mut (impl SpanSink + ?Sized),
    ) -> Result<ControlFlow<()>, Error> {
        self.between(low..=low, sink)
    }

    /// Hands over the spans of requests whose ids have lower halves in this range, group by group, up to the sink's
    /// breaking off.
    pub fn between(
        &self,
        lows: RangeInclusive<u64>,
        sink: &mut (impl SpanSink + ?Sized),
    ) -> Result<ControlFlow<()>, Error> {
        self.between_of(lows, None, sink)
    }

    /// The same for spans that have this id, if one is given: pages without it are not read but for their ids.
    pub fn between_of(
        &self,
        lows: RangeInclusive<u64>,
        id: Option<SpanId>,
        sink: &mut (impl SpanSink + ?Sized),
    ) -> Result<ControlFlow<()>, Error> {
        for group in 0..self.groups.len() {
            let (rows, trace_ids) = self.rows_between(group, &lows)?;
            if self.read_group(group, rows, trace_ids, id, sink)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The rows of a group, and the ids of a page that were read to find them.
    fn rows_between(
        &self,
        number: usize,
        lows: &RangeInclusive<u64>,
    ) -> Result<(Range<usize>, Option<OfPage>), Error> {
        let group = &self.groups[number];
        let (first, last) = (*lows.start(), *lows.end());
        if last < group.page_lows[0] || first > group.last_low || first > last {
            return Ok((0..0, None));
        }
        let page = group.page_lows.partition_point(|low| *low < first).saturating_sub(1);
        let of_page = self.cells(number, page, Column::TraceId)?;
        let before = self.rows_before(number, page, &of_page, |low| low < first)?;
        let start = group.page_rows[page] as usize + before;
        let end_page = group.page_lows.partition_point(|low| *low <= last) - 1;
        let of_page = match end_page == page {
            true => of_page,
            false => self.cells(number, end_page, Column::TraceId)?,
        };
        let before = self.rows_before(number, end_page, &of_page, |low| low <= last)?;
        let end = (group.page_rows[end_page] as usize + before).max(start);
        Ok((start..end, Some((end_page, of_page))))
    }

    /// How many rows of a page come before the first one for whose request's id it does not hold.
    fn rows_before(
        &self,
        group: usize,
        page: usize,
        cells: &Cells,
        holds: impl Fn(u64) -> bool,
    ) -> Result<usize, Error> {
        let not_ids = "an id is none";
        let ids = cells.ids().ok_or_else(|| self.damaged(group, page, Column::TraceId, not_ids))?;
        let place = ids.ids.partition_point(|id| holds(*id as u64));
        let rows = self.rows_of_page(group, page).len();
        Ok(ids.starts.get(place).map_or(rows, |start| *start as usize))
    }

    fn read_group(
        &self,
        number: usize,
        rows: Range<usize>,
        mut trace_ids: Option<OfPage>,
        id: Option<SpanId>,
        sink: &mut (impl SpanSink + ?Sized),
    ) -> Result<ControlFlow<()>, Error> {
        if rows.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        let starts = &self.groups[number].page_rows;
        let first = starts.partition_point(|row| *row as usize <= rows.start) - 1;
        for page in first..starts.len() {
            let of_page = self.rows_of_page(number, page);
            if of_page.start >= rows.end {
                break;
            }
            let from = rows.start.max(of_page.start) - of_page.start;
            let to = rows.end.min(of_page.end) - of_page.start;
            let known = trace_ids.take_if(|(of_page, _)| *of_page == page).map(|(_, ids)| ids);
            if self.read_page(number, page, from..to, known, id, sink)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn read_page(
        &self,
        group: usize,
        page: usize,
        rows: Range<usize>,
        mut trace_ids: Option<Cells>,
        id: Option<SpanId>,
        sink: &mut (impl SpanSink + ?Sized),
    ) -> Result<ControlFlow<()>, Error> {
        let ids = match id {
            Some(id) => Some((self.cells(group, page, Column::SpanId)?, id.to_string())),
            None => None,
        };
        let is_wanted = |row: &usize| {
            let ids = ids.as_ref();
            ids.is_none_or(|(ids, wanted)| ids.row_text(*row) == wanted)
        };
        if !rows.clone().any(|row| is_wanted(&row)) {
            return Ok(ControlFlow::Continue(()));
        }
        let mut columns = Vec::with_capacity(COLUMNS.len());
        for column in COLUMNS {
            columns.push(match trace_ids.take_if(|_| column == Column::TraceId) {
                Some(ids) => ids,
                None => self.cells(group, page, column)?,
            });
        }
        let spans = Spans { columns: &columns };
        for row in rows.filter(is_wanted) {
            let flow = spans
                .with(row, |span| sink.span(span))
                .map_err(|(column, reason)| self.damaged(group, page, column, reason))?;
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The rows of a page in its group.
    fn rows_of_page(&self, group: usize, page: usize) -> Range<usize> {
        let group = &self.groups[group];
        let end = group.page_rows.get(page + 1).copied().unwrap_or(group.rows);
        group.page_rows[page] as usize..end as usize
    }

    fn damaged(&self, group: usize, page: usize, column: Column, reason: &'static str) -> Error {
        let offset = self.groups[group].columns[column as usize].page(page).offset;
        Error::Damaged { offset, reason }
    }

    /// Which rows of a page a column has values of.
    fn presence(&self, group: usize, page: usize, column: Column) -> Result<Cells, Error> {
        let chunk = &self.groups[group].columns[column as usize];
        let rows = self.rows_of_page(group, page).len();
        let page = chunk.page(page);
        self.with_spare(|spare| {
            let levels = spare.read_levels(&self.from, page)?;
            Cells::presence(column, page, rows, chunk.is_same, levels)
                .map_err(|reason| Error::Damaged { offset: page.offset, reason })
        })
    }

    /// What a column says of the rows of a page.
    fn cells(&self, group: usize, page: usize, column: Column) -> Result<Cells, Error> {
        let chunk = &self.groups[group].columns[column as usize];
        let dictionary = match &chunk.dictionary {
            Some(page) => Some(self.dictionary(page)?),
            None => None,
        };
        let rows = self.rows_of_page(group, page).len();
        let page = chunk.page(page);
        self.body(page, |body| match chunk.is_same {
            true => Cells::same(column, page, body, dictionary.as_ref()),
            false => Cells::decode(column, page, rows, body, dictionary.as_ref()),
        })
    }

    fn dictionary(&self, page: &Page) -> Result<Arc<TextList>, Error> {
        let known = || self.dictionaries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(dictionary) = known().by_offset.get(&page.offset) {
            return Ok(dictionary.clone());
        }
        let mut texts = TextList::default();
        self.body(page, |body| {
            decode::plain_texts(&mut decode::Bytes(body), page.values as usize, &mut texts)
        })?;
        let texts = Arc::new(texts);
        let mut known = known();
        if known.bytes > DICTIONARIES_MAX {
            *known = Dictionaries::default();
        }
        known.bytes += texts.memory();
        known.by_offset.insert(page.offset, texts.clone());
        Ok(texts)
    }

    /// Hands over the bytes of a page, checked and not compressed any more.
    fn body<T>(
        &self,
        page: &Page,
        take: impl FnOnce(&[u8]) -> decode::Result<T>,
    ) -> Result<T, Error> {
        self.with_spare(|spare| {
            take(spare.read(&self.from, page)?)
                .map_err(|reason| Error::Damaged { offset: page.offset, reason })
        })
    }

    fn with_spare<T>(&self, take: impl FnOnce(&mut Spare) -> Result<T, Error>) -> Result<T, Error> {
        let spare = || self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = spare().pop();
        let mut used = match kept {
            Some(kept) => kept,
            None => Spare::new()?,
        };
        let taken = take(&mut used)?;
        let mut spare = spare();
        if spare.len() < SPARE_MAX
            && used.stored.capacity() + used.body.capacity() < SPARE_BYTES_MAX
        {
            spare.push(used);
        }
        Ok(taken)
    }

    /// Reads all of the file, and checks it against its checksums.
    pub fn verify(&self) -> Result<(), Error> {
        let damaged = |offset, reason| Error::Damaged { offset, reason };
        let mut magic = [0; 4];
        self.from.read_at(0, &mut magic)?;
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
        if crc(&self.from, from..self.footer_at)? == self.seal.rest_crc {
            Ok(())
        } else {
            Err(damaged(from, "filters and indexes are not what their checksum says"))
        }
    }

    /// The pages that have some of these rows. No column of them is read yet.
    pub fn pages(&self, rows: Range<u64>) -> impl Iterator<Item = PageColumns> + '_ {
        let first = self
            .groups
            .partition_point(|group| group.first_row + u64::from(group.rows) <= rows.start);
        let of_rows = self.groups.iter().enumerate().skip(first);
        let is_there = !rows.is_empty();
        let of_rows = of_rows.take_while(move |(_, group)| is_there && group.first_row < rows.end);
        of_rows.flat_map(move |(number, group)| {
            let starts = &group.page_rows;
            let row = |row: &u32| group.first_row + u64::from(*row);
            let first = starts.partition_point(|start| row(start) <= rows.start);
            let behind = starts.partition_point(|start| row(start) < rows.end);
            (first.saturating_sub(1)..behind).map(move |page| self.page(number, page))
        })
    }

    /// The pages of a group. No column of them is read yet.
    pub fn pages_of_group(&self, group: usize) -> impl Iterator<Item = PageColumns> + '_ {
        (0..self.groups[group].page_rows.len()).map(move |page| self.page(group, page))
    }

    fn page(&self, group: usize, page: usize) -> PageColumns {
        let rows = self.rows_of_page(group, page);
        let first_row = self.groups[group].first_row + rows.start as u64;
        let columns = [const { None }; COLUMNS.len()];
        PageColumns { group, page, first_row, rows: 0..rows.len(), columns }
    }

    /// Reads those of these columns of one of its pages that were not read yet.
    pub fn read_columns(&self, of: &mut PageColumns, columns: &[Column]) -> Result<(), Error> {
        let rows = self.rows_of_page(of.group, of.page).len();
        for column in columns {
            let cells = &of.columns[*column as usize];
            if cells.as_ref().is_none_or(Cells::has_presence_alone) {
                let all = self.cells(of.group, of.page, *column)?;
                of.columns[*column as usize] = Some(all.of_rows(of.rows.clone(), rows));
            }
        }
        Ok(())
    }

    /// Reads which rows of one of its pages a column has values of, which costs less than to read the values. The
    /// column must be one of those that have one value for a row at most.
    pub fn read_presence(&self, of: &mut PageColumns, column: Column) -> Result<(), Error> {
        if of.columns[column as usize].is_none() {
            let all = self.presence(of.group, of.page, column)?;
            let rows = self.rows_of_page(of.group, of.page).len();
            of.columns[column as usize] = Some(all.of_rows(of.rows.clone(), rows));
        }
        Ok(())
    }

    /// Whether there are spans of requests whose ids have this lower half.
    pub fn holds(&self, low: u64) -> Result<bool, Error> {
        for group in 0..self.groups.len() {
            if !self.rows_between(group, &(low..=low))?.0.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The texts that values of a column in a group are numbers of, if they are.
    pub fn texts(&self, group: usize, column: Column) -> Result<Option<Texts>, Error> {
        let chunk = &self.groups[group].columns[column as usize];
        chunk.dictionary.as_ref().map(|page| self.dictionary(page).map(Texts)).transpose()
    }
}

/// Texts of a column that values are numbers of.
pub struct Texts(Arc<TextList>);

impl Texts {
    /// All of them, by number.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.0.len()).map(|number| self.0.get(number))
    }
}

/// The checksum of these bytes.
fn crc(from: &impl ReadAt, mut bytes: Range<u64>) -> Result<u32, Error> {
    let mut buffer = vec![0; 1 << 16];
    let mut crc = 0;
    while !bytes.is_empty() {
        let part = (bytes.end - bytes.start).min(buffer.len() as u64) as usize;
        from.read_at(bytes.start, &mut buffer[..part])?;
        crc = crc32c::crc32c_append(crc, &buffer[..part]);
        bytes.start += part as u64;
    }
    Ok(crc)
}

/// Some columns of a page, or of some of its rows.
pub struct PageColumns {
    group: usize,
    page: usize,
    /// The number of the page's first row in the file.
    first_row: u64,
    /// Rows of the page.
    rows: Range<usize>,
    columns: [Option<Cells>; COLUMNS.len()],
}

impl PageColumns {
    /// The number of its first row in the file.
    pub fn first_row(&self) -> u64 {
        self.first_row + self.rows.start as u64
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Those of its rows that are among these rows of the file. No column of them is read yet.
    #[must_use]
    pub fn only(&self, rows: &Range<u64>) -> PageColumns {
        let within = |row: u64| {
            let row = row.saturating_sub(self.first_row).min(self.rows.end as u64);
            (row as usize).max(self.rows.start)
        };
        let start = within(rows.start);
        PageColumns {
            rows: start..within(rows.end).max(start),
            columns: [const { None }; COLUMNS.len()],
            ..*self
        }
    }

    /// Whether a column was read.
    pub fn has(&self, column: Column) -> bool {
        self.columns[column as usize].is_some()
    }

    /// How much memory it takes.
    pub fn memory_bytes(&self) -> usize {
        let columns = self.columns.iter().flatten().map(Cells::memory);
        size_of::<PageColumns>() + columns.sum::<usize>()
    }

    fn of(&self, column: Column) -> &Cells {
        self.columns[column as usize].as_ref().expect("a column that was asked for")
    }

    /// The request of a row of the page.
    ///
    /// # Panics
    /// If [`Column::TraceId`] was not asked for.
    pub fn trace_id(&self, row: usize) -> Option<TraceId> {
        self.of(Column::TraceId).ids().and_then(|ids| TraceId::from_number(ids.get(row)))
    }

    /// The text of a row of the page. Empty is none; requests' ids are no text ([`PageColumns::trace_id`]).
    ///
    /// # Panics
    /// If the column was not asked for.
    pub fn text(&self, column: Column, row: usize) -> &str {
        self.of(column).row_text(row)
    }

    /// The number of a row of the page: nanoseconds or a port, or 1 for a flag that is set.
    ///
    /// # Panics
    /// If the column was not asked for.
    pub fn number(&self, column: Column, row: usize) -> Option<u64> {
        self.of(column).row_number(row).map(|number| number as u64)
    }

    /// Which values of a column are those of a row.
    ///
    /// # Panics
    /// If the column was not asked for.
    pub fn values(&self, column: Column, row: usize) -> Range<usize> {
        self.of(column).range(row)
    }

    /// A value of a column of lists, as text.
    ///
    /// # Panics
    /// If the column was not asked for.
    pub fn value_text(&self, column: Column, value: usize) -> &str {
        self.of(column).text(value)
    }

    /// A value of a column of lists, as a number.
    ///
    /// # Panics
    /// If the column was not asked for.
    pub fn value_number(&self, column: Column, value: usize) -> u64 {
        self.of(column).number(value) as u64
    }

    /// The number of a value's text, if the column has numbers of texts ([`File::texts`]).
    ///
    /// # Panics
    /// If the column was not asked for.
    pub fn code(&self, column: Column, value: usize) -> Option<u32> {
        self.of(column).coded().map(|(ids, _)| ids[value])
    }
}

struct Filling<'a> {
    into: &'a mut Block,
    too_large: bool,
}

impl SpanSink for Filling<'_> {
    fn span(&mut self, span: &SpanRef<'_>) -> ControlFlow<()> {
        match self.into.push(span) {
            Ok(_) => ControlFlow::Continue(()),
            Err(refused) => {
                self.too_large = refused == Refused::TooLarge;
                ControlFlow::Break(())
            }
        }
    }
}

/// All columns of a page.
struct Spans<'c> {
    columns: &'c [Cells],
}

type OfColumn<T> = Result<T, (Column, &'static str)>;

/// The tags of a row: where the next one of each origin is.
struct Tags<'c> {
    keys: [&'c Cells; 3],
    values: [&'c Cells; 3],
    left: [Range<usize>; 3],
    layout: &'c [u8],
}

impl<'c> Iterator for Tags<'c> {
    type Item = decode::Result<(&'c str, &'c str, Origin, ValueType)>;

    fn next(&mut self) -> Option<Self::Item> {
        let (origin, kind) = match self.layout.split_first() {
            Some((letter, rest)) => {
                self.layout = rest;
                match of_letter(*letter) {
                    Some(of) => of,
                    None => return Some(Err("there is no such letter in a layout")),
                }
            }
            // Without a layout all are text of the span; behind its end there is nothing.
            None if self.left.iter().all(Range::is_empty) => return None,
            None => (Origin::Span, ValueType::Str),
        };
        let list = TAGS.iter().position(|(of, ..)| *of == origin).unwrap_or(0);
        Some(match self.left[list].next() {
            Some(at) => Ok((self.keys[list].text(at), self.values[list].text(at), origin, kind)),
            None => Err("it says more or other tags than there are"),
        })
    }
}

impl<'c> Spans<'c> {
    fn of(&self, column: Column) -> &'c Cells {
        &self.columns[column as usize]
    }

    /// Hands over the span of a row.
    fn with<T>(&self, row: usize, take: impl FnOnce(&SpanRef<'_>) -> T) -> OfColumn<T> {
        let text = |column| self.of(column).row_text(row);
        let number = |column| self.of(column).row_number(row).map(|number| number as u64);
        let flag = |column| number(column) == Some(1);
        let ids = self.of(Column::TraceId).ids();
        let trace_id = ids.and_then(|ids| TraceId::from_number(ids.get(row)));
        let trace_id = trace_id.ok_or((Column::TraceId, "an id is none"))?;
        let id = of_column(Column::SpanId, span_id(text(Column::SpanId)))?;
        let parent = Some(text(Column::ParentId)).filter(|text| !text.is_empty()).map(span_id);
        let parent_id = of_column(Column::ParentId, parent.transpose())?;
        let times = self.of(Column::AnnotationTime);
        let values = self.of(Column::AnnotationValue);
        let of_row = times.range(row);
        if of_row != values.range(row) {
            return Err((Column::AnnotationValue, "it has not as many values as there are times"));
        }
        let annotation =
            |at| AnnotationRef { time_ns: times.number(at) as u64, value: values.text(at) };
        let annotations: Vec<AnnotationRef<'_>> = of_row.map(annotation).collect();
        let blobs = of_column(Column::TagLayout, self.blobs(row))?;
        let mut blobs = blobs.iter();
        let mut tags = Vec::new();
        for tag in of_column(Column::TagLayout, self.tags(row))? {
            let (key, text, origin, kind) = of_column(Column::TagLayout, tag)?;
            let value = match kind {
                ValueType::Bytes => ValueRef::Bytes(blobs.next().map_or(&[], Vec::as_slice)),
                _ => of_column(Column::TagLayout, value(kind, text))?,
            };
            tags.push(TagRef { key, value, origin });
        }
        let local = [Column::Service, Column::LocalIpv4, Column::LocalIpv6, Column::LocalPort];
        let remote =
            [Column::RemoteService, Column::RemoteIpv4, Column::RemoteIpv6, Column::RemotePort];
        Ok(take(&SpanRef {
            trace_id,
            id,
            parent_id,
            kind: of_column(Column::Kind, kind(text(Column::Kind)))?,
            status: of_column(Column::Status, status(text(Column::Status)))?,
            debug: flag(Column::Debug),
            shared: flag(Column::Shared),
            name: text(Column::Name),
            start_ns: number(Column::StartTime),
            duration_ns: number(Column::Duration),
            local: self.endpoint(row, local)?,
            remote: self.endpoint(row, remote)?,
            annotations: &annotations,
            tags: &tags,
        }))
    }

    fn tags(&self, row: usize) -> decode::Result<Tags<'c>> {
        let keys = TAGS.map(|(_, key, _)| self.of(key));
        let values = TAGS.map(|(_, _, value)| self.of(value));
        let left = keys.map(|keys| keys.range(row));
        let layout = self.of(Column::TagLayout).row_text(row).as_bytes();
        let tags: usize = left.iter().map(Range::len).sum();
        let fits = layout.len() == tags || (layout.is_empty() && left[0].len() == tags);
        if !fits || (0..3).any(|list| values[list].range(row) != left[list]) {
            return Err("it says more or fewer tags than there are");
        }
        Ok(Tags { keys, values, left, layout })
    }

    /// Values of tags that are bytes.
    fn blobs(&self, row: usize) -> decode::Result<Vec<Vec<u8>>> {
        let mut blobs = Vec::new();
        for tag in self.tags(row)? {
            let (_, text, _, kind) = tag?;
            if kind == ValueType::Bytes {
                blobs.push(unhex(text)?);
            }
        }
        Ok(blobs)
    }

    fn endpoint(
        &self,
        row: usize,
        [service, ipv4, ipv6, port]: [Column; 4],
    ) -> OfColumn<EndpointRef<'c>> {
        let address = |column| Some(self.of(column).row_text(row)).filter(|text| !text.is_empty());
        let bad = "an address is none";
        Ok(EndpointRef {
            service: self.of(service).row_text(row),
            ipv4: address(ipv4).map(str::parse).transpose().map_err(|_| (ipv4, bad))?,
            ipv6: address(ipv6).map(str::parse).transpose().map_err(|_| (ipv6, bad))?,
            port: u16::try_from(self.of(port).row_number(row).unwrap_or(0))
                .map_err(|_| (port, "a port is none"))?,
        })
    }
}

fn of_column<T>(column: Column, result: decode::Result<T>) -> OfColumn<T> {
    result.map_err(|reason| (column, reason))
}

fn span_id(text: &str) -> decode::Result<SpanId> {
    SpanId::from_number(decode::hex(text.as_bytes())?).ok_or("an id is 0")
}

fn kind(text: &str) -> decode::Result<Kind> {
    let kinds = [
        Kind::Unspecified,
        Kind::Internal,
        Kind::Client,
        Kind::Server,
        Kind::Producer,
        Kind::Consumer,
    ];
    kinds.into_iter().find(|kind| kind_text(*kind) == text).ok_or("there is no such kind")
}

fn status(text: &str) -> decode::Result<Status> {
    let statuses = [Status::Unset, Status::Ok, Status::Error];
    statuses.into_iter().find(|of| status_text(*of) == text).ok_or("there is no such status")
}

/// A value of a type other than bytes.
fn value(kind: ValueType, text: &str) -> decode::Result<ValueRef<'_>> {
    match kind {
        ValueType::Str => Some(ValueRef::Str(text)),
        ValueType::Int => text.parse().ok().map(ValueRef::Int),
        ValueType::Bool => text.parse().ok().map(ValueRef::Bool),
        ValueType::Double => match text.strip_prefix("NaN:") {
            Some(bits) => decode::hex(bits.as_bytes()).ok().map(f64::from_bits),
            None => text.parse().ok(),
        }
        .map(ValueRef::Double),
        ValueType::Bytes => None,
    }
    .ok_or("a value is not of the type that it should be")
}

fn unhex(text: &str) -> decode::Result<Vec<u8>> {
    let bad = "a value is not of the type that it should be";
    let digit = |byte: u8| char::from(byte).to_digit(16).ok_or(bad);
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    for [high, low] in pairs {
        bytes.push((digit(*high)? << 4 | digit(*low)?) as u8);
    }
    if rest.is_empty() { Ok(bytes) } else { Err(bad) }
}

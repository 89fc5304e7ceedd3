//! Spans as Parquet files. Start at [`Writer::create`]; what is in a file is in docs/span-files.md, and where in
//! `index`.
//!
//! Pages are encoded here, not by the Parquet library, which would hash each text of each row again: what a block knows
//! by a number becomes a number of the file's dictionary by looking into a table.
//!
//! Of the 36 bytes that a span of OpenTelemetry's senders takes in the server bench, 8.0 are its id, 6.1 its parent's and
//! 2.1 its request's, as hexadecimal digits: four bits each, and of what is random not less. The start takes 2.9, the
//! duration 2.7, times of annotations 3.2 and its tags 6.9. For ids and times higher levels of zstd are worse, as they
//! find digits that recur by chance; for the rest they gain a byte, at some cost (`Options::level_of_recurring`).

use crate::block::{Block, Row};
use crate::chunk::{Bounds, Chunk, Levels, Press};
use crate::dictionary::{TextId, Texts};
use crate::encode;
use crate::error::Error;
use crate::index::{self, DICTIONARY_MAX, Group, INDEX_MAX, PAGE_ROWS_MAX, SEAL, Seal};
use crate::layout::{Layout, ValueType};
use crate::schema::{Column, TAGS, kind_text, schema, status_text};
use crate::sorted::Sorted;
use blkkin_model::{Kind, Origin, Status, ValueRef};
use blkkin_sys::beside;
use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::bloom_filter::Sbbf;
use parquet::column::writer::ColumnCloseResult;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{BloomFilterPosition, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnDescPtr, SchemaDescriptor};
use std::cell::Cell;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

/// How files are written.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How hard zstd tries, from 1 on.
    pub level: i32,
    /// The same where values recur: names, tags and the like.
    pub level_of_recurring: i32,
    /// Most rows of a row group.
    pub rows_of_group: usize,
    /// Most rows of a page: as much as is decoded to find one. More than 65536 are taken for so many.
    pub rows_of_page: usize,
    /// Whether other programs get a bloom filter of request ids.
    pub bloom: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            level: 1,
            level_of_recurring: 1,
            rows_of_group: 1 << 16,
            rows_of_page: 2048,
            bloom: true,
        }
    }
}

/// What a file holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Spans.
    pub rows: u64,
    /// The file's length.
    pub bytes: u64,
    /// The earliest and the latest start, if any span has one.
    pub starts_ns: Option<(u64, u64)>,
}

/// Writes one file.
pub struct Writer<W: Write + Send> {
    file: SerializedFileWriter<Tail<W>>,
    options: Options,
    /// Row groups are encoded two at a time.
    encoders: Option<[Encoder; 2]>,
    groups: Vec<Group>,
    index_len: usize,
    rows: u64,
}

/// Most row groups that Parquet can number.
const GROUPS_MAX: usize = i16::MAX as usize;

/// How often a Bloom filter says that a request may be there that is not. Half of it takes twice the room in most files.
const BLOOM_WRONG: f64 = 0.05;

/// Heaviest page, unless a single span is heavier.
const PAGE_WEIGHT: usize = 1 << 20;

/// Passes on what is written, but keeps the end.
struct Tail<W> {
    to: W,
    kept: Option<Vec<u8>>,
}

impl<W: Write> Write for Tail<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.kept {
            Some(kept) => kept.write(bytes),
            None => self.to.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl<W: Write + Send> Writer<W> {
    /// Begins a file.
    pub fn create(to: W, options: Options) -> Result<Writer<W>, Error> {
        let properties = WriterProperties::builder()
            .set_bloom_filter_position(BloomFilterPosition::End)
            .set_created_by(format!("blkkin version {}", env!("CARGO_PKG_VERSION")))
            .build();
        let to = Tail { to, kept: None };
        Ok(Writer {
            file: SerializedFileWriter::new(to, schema()?, Arc::new(properties))?,
            options,
            encoders: None,
            groups: Vec::new(),
            index_len: 4,
            rows: 0,
        })
    }

    /// Adds spans, in row groups of their own, behind those that are there. A writer that has failed is of no use any
    /// more.
    pub fn append(&mut self, spans: &Sorted<'_>) -> Result<(), Error> {
        let groups: Vec<&[(u32, Row)]> =
            spans.places().chunks(self.options.rows_of_group.max(1)).collect();
        let mut encoders = match std::mem::take(&mut self.encoders) {
            Some(encoders) => encoders,
            None => [Encoder::new(self.options)?, Encoder::new(self.options)?],
        };
        let [one, other] = &mut encoders;
        let (own_share, other_share) = groups.split_at(groups.len().div_ceil(2));
        let mut own = || one.groups(spans, own_share, |group| self.write(group));
        let written = if other_share.is_empty() {
            own()
        } else {
            let (written, encoded) = beside(own, || {
                let mut encoded = Vec::with_capacity(other_share.len());
                other.groups(spans, other_share, |group| {
                    encoded.push(group);
                    Ok(())
                })?;
                Ok::<_, Error>(encoded)
            });
            written.and_then(|()| encoded?.into_iter().try_for_each(|group| self.write(group)))
        };
        self.encoders = Some(encoders);
        written
    }

    fn write(&mut self, encoded: Encoded) -> Result<(), Error> {
        let Encoded { columns, mut group } = encoded;
        self.index_len += index::len(group.page_rows.len());
        if self.index_len > INDEX_MAX || self.groups.len() == GROUPS_MAX {
            return Err(Error::Full);
        }
        let mut of_file = self.file.next_row_group()?;
        for (bytes, close) in columns {
            of_file.append_column(&bytes, close)?;
        }
        let metadata = of_file.close()?;
        for (chunk, of) in group.columns.iter_mut().zip(metadata.columns()) {
            let mut offset = of.byte_range().0;
            for page in chunk.dictionary.iter_mut().chain(&mut chunk.pages) {
                page.offset = offset;
                offset += page.len();
            }
        }
        self.rows += u64::from(group.rows);
        self.groups.push(group);
        Ok(())
    }

    /// Ends the file, and gives back what it was written to, which has not been made durable.
    pub fn finish(mut self) -> Result<(W, Written), Error> {
        let index = index::write(&self.groups);
        let stored = zstd::bulk::compress(&index, self.options.level)?;
        let seal = Seal {
            index_at: self.file.bytes_written() as u64,
            index_len: stored.len() as u32,
            index_raw: index.len() as u32,
            index_crc: crc32c::crc32c(&stored),
            ..Seal::default()
        };
        self.file.write_all(&stored)?;
        self.file.append_key_value_metadata(KeyValue::new(SEAL.to_owned(), seal.text()));
        self.file.flush()?;
        let before = self.file.bytes_written() as u64;
        self.file.inner_mut().kept = Some(Vec::new());
        let Tail { mut to, kept } = self.file.into_inner()?;
        let mut kept = kept.unwrap_or_default();
        let footer = kept
            .len()
            .checked_sub(8)
            .and_then(|at| Some((at, kept[at..].first_chunk::<4>()?)))
            .and_then(|(at, length)| at.checked_sub(u32::from_le_bytes(*length) as usize));
        let sealed = footer.is_some_and(|at| {
            let (rest, footer) = kept.split_at_mut(at);
            seal.close(rest, footer)
        });
        if !sealed {
            let reason = "the library has not written the footer as expected".to_owned();
            return Err(parquet::errors::ParquetError::General(reason).into());
        }
        to.write_all(&kept)?;
        to.flush()?;
        let starts = self.groups.iter().fold((u64::MAX, 0), |starts, group| {
            (starts.0.min(group.starts.0), starts.1.max(group.starts.1))
        });
        let written = Written {
            rows: self.rows,
            bytes: before + kept.len() as u64,
            starts_ns: (starts.0 <= starts.1).then_some(starts),
        };
        Ok((to, written))
    }
}

/// A row group that is to be written: the bytes of each column, and what is known of it.
struct Encoded {
    columns: Vec<(Bytes, ColumnCloseResult)>,
    group: Group,
}

/// Makes bytes of row groups.
struct Encoder {
    options: Options,
    schema: Vec<ColumnDescPtr>,
    press: Press,
    numbering: Numbering,
}

impl Encoder {
    fn new(options: Options) -> Result<Encoder, Error> {
        let schema = SchemaDescriptor::new(schema()?).columns().to_vec();
        let press = Press::new(options.level, options.level_of_recurring)?;
        Ok(Encoder { options, schema, press, numbering: Numbering::default() })
    }

    /// Encodes groups of spans, one after the other.
    fn groups(
        &mut self,
        spans: &Sorted<'_>,
        groups: &[&[(u32, Row)]],
        mut each: impl FnMut(Encoded) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut texts = Texts::new();
        let blocks: Vec<Known<'_>> =
            spans.blocks().iter().map(|block| Known::new(block, &mut texts)).collect();
        self.numbering.texts = texts;
        for places in groups {
            let rows: Vec<(&Known<'_>, Row)> =
                places.iter().map(|(block, row)| (&blocks[*block as usize], *row)).collect();
            each(self.group(&rows)?)?;
        }
        Ok(())
    }

    fn group(&mut self, rows: &[(&Known<'_>, Row)]) -> Result<Encoded, Error> {
        let pages = pages(rows, self.options.rows_of_page.clamp(1, PAGE_ROWS_MAX));
        let low = |at: usize| rows[at].0.block.trace_low(rows[at].1);
        let mut group = Group {
            rows: rows.len() as u32,
            last_low: low(rows.len() - 1),
            page_rows: pages.iter().map(|page| page.start as u32).collect(),
            page_lows: pages.iter().map(|page| low(page.start)).collect(),
            starts: (u64::MAX, 0),
            ..Group::default()
        };
        for start in rows.iter().filter_map(|(of, row)| of.block.start_ns(*row)) {
            group.starts = (group.starts.0.min(start), group.starts.1.max(start));
        }
        let mut of_rows = Columns {
            rows,
            locals: rows.iter().map(|(of, row)| of.local(*row)).collect(),
            remotes: rows.iter().map(|(of, row)| of.remote(*row)).collect(),
            pages: &pages,
            press: &mut self.press,
            numbering: &mut self.numbering,
        };
        let mut spaced = Spaced::default();
        let mut columns = Vec::with_capacity(self.schema.len());
        for (column, descriptor) in crate::schema::COLUMNS.into_iter().zip(&self.schema) {
            let mut chunk = Chunk::new(descriptor.clone());
            let mut bloom = None;
            of_rows.press.expect(column.recurs());
            if column == Column::TraceId {
                let ids = TraceIds::of(rows);
                if self.options.bloom {
                    bloom = Some(ids.bloom()?);
                }
                of_rows.trace_ids(&mut chunk, &ids)?;
            } else {
                of_rows.column(column, &mut chunk, &mut spaced)?;
            }
            let (bytes, mut close, of_chunk) = chunk.finish()?;
            close.bloom_filter = bloom;
            columns.push((Bytes::from(bytes), close));
            group.columns.push(of_chunk);
        }
        Ok(Encoded { columns, group })
    }
}

/// Where pages begin and end.
fn pages(rows: &[(&Known<'_>, Row)], most: usize) -> Vec<Range<usize>> {
    let heaviest = rows.iter().map(|(of, _)| of.block.heaviest()).max().unwrap_or(0);
    if heaviest.saturating_mul(most) <= PAGE_WEIGHT {
        let starts = (0..rows.len()).step_by(most);
        return starts.map(|start| start..rows.len().min(start + most)).collect();
    }
    let mut pages = Vec::new();
    let (mut start, mut weight) = (0, 0);
    for (at, (of, row)) in rows.iter().enumerate() {
        let more = of.block.weight(*row);
        if at > start && (weight + more > PAGE_WEIGHT || at - start == most) {
            pages.push(start..at);
            (start, weight) = (at, 0);
        }
        weight += more;
    }
    pages.push(start..rows.len());
    pages
}

/// A block, and what its numbers are in the file's.
struct Known<'b> {
    block: &'b Block,
    texts: Vec<TextId>,
    endpoints: Vec<KnownEndpoint>,
    layouts: Vec<KnownLayout>,
    /// The texts of whole numbers, as they become known; 0 is none.
    numbers: Vec<Cell<TextId>>,
}

#[derive(Clone, Copy)]
struct KnownEndpoint {
    service: TextId,
    ipv4: TextId,
    ipv6: TextId,
    port: u16,
}

struct KnownLayout {
    text: TextId,
    /// How many tags of each origin it has, as in [`TAGS`].
    counts: [u32; TAGS.len()],
}

impl KnownLayout {
    fn new(layout: Layout<'_>, texts: &mut Texts) -> KnownLayout {
        let of = |origin| layout.iter().filter(|shape| shape.origin == origin).count() as u32;
        KnownLayout {
            text: texts.intern(&layout_text(layout)),
            counts: TAGS.map(|(origin, ..)| of(origin)),
        }
    }
}

impl<'b> Known<'b> {
    fn new(block: &'b Block, texts: &mut Texts) -> Known<'b> {
        let of_block: Vec<TextId> =
            (0..block.texts()).map(|id| texts.intern(block.text(id as u32))).collect();
        let endpoints = (0..block.endpoints())
            .map(|id| {
                let entry = block.endpoint_entry(id as u32);
                let mut address = |text: Option<String>| text.map_or(0, |text| texts.intern(&text));
                KnownEndpoint {
                    service: of_block[entry.service as usize],
                    ipv4: address(entry.ipv4.map(|address| address.to_string())),
                    ipv6: address(entry.ipv6.map(|address| address.to_string())),
                    port: entry.port,
                }
            })
            .collect();
        let layouts = (0..block.layouts())
            .map(|id| KnownLayout::new(block.layout(id as u32), texts))
            .collect();
        let numbers = vec![Cell::new(0); block.numbers()];
        Known { block, texts: of_block, endpoints, layouts, numbers }
    }
}

/// A letter for each tag, in order: which list it is in, and of what type it is. Empty where all are text of the span.
fn layout_text(layout: Layout<'_>) -> String {
    let plain =
        |shape: &crate::Shape| shape.origin == Origin::Span && shape.value == ValueType::Str;
    if layout.iter().all(plain) {
        return String::new();
    }
    layout.iter().map(|shape| letter(shape.origin, shape.value)).collect()
}

fn letter(origin: Origin, value: ValueType) -> char {
    let letters = match origin {
        Origin::Span => ['s', 'i', 'b', 'd', 'x'],
        Origin::Resource => ['S', 'I', 'B', 'D', 'X'],
        Origin::Scope => ['t', 'j', 'c', 'e', 'y'],
    };
    letters[value as usize]
}

/// What a letter of a layout says.
pub(crate) fn of_letter(letter: u8) -> Option<(Origin, ValueType)> {
    use ValueType::{Bool, Bytes, Double, Int, Str};
    Some(match letter {
        b's' => (Origin::Span, Str),
        b'i' => (Origin::Span, Int),
        b'b' => (Origin::Span, Bool),
        b'd' => (Origin::Span, Double),
        b'x' => (Origin::Span, Bytes),
        b'S' => (Origin::Resource, Str),
        b'I' => (Origin::Resource, Int),
        b'B' => (Origin::Resource, Bool),
        b'D' => (Origin::Resource, Double),
        b'X' => (Origin::Resource, Bytes),
        b't' => (Origin::Scope, Str),
        b'j' => (Origin::Scope, Int),
        b'c' => (Origin::Scope, Bool),
        b'e' => (Origin::Scope, Double),
        b'y' => (Origin::Scope, Bytes),
        _ => return None,
    })
}

/// Texts of what is being appended, and their numbers in the dictionary of a column.
struct Numbering {
    texts: Texts,
    /// For each text, the column that it has a number in, and the number.
    numbers: Vec<(u32, u32)>,
    column: u32,
    scratch: String,
}

impl Default for Numbering {
    fn default() -> Numbering {
        Numbering { texts: Texts::new(), numbers: Vec::new(), column: 0, scratch: String::new() }
    }
}

impl Numbering {
    /// Replaces texts by their numbers in a dictionary, which is returned. `None` if they are too different from each
    /// other for one; then they stay.
    fn dictionary(&mut self, texts: &mut [TextId], in_order: bool) -> Option<Vec<TextId>> {
        self.column = self.column.wrapping_add(1);
        if self.column == 0 {
            self.numbers.fill((0, 0));
            self.column = 1;
        }
        self.numbers.resize(self.texts.len().max(self.numbers.len()), (0, 0));
        let most = (texts.len() / 8).max(64);
        let mut dictionary = Vec::new();
        let mut bytes = 0;
        for text in texts.iter() {
            let number = &mut self.numbers[*text as usize];
            if number.0 != self.column {
                *number = (self.column, dictionary.len() as u32);
                bytes += self.texts.get(*text).len();
                if dictionary.len() >= most || bytes > DICTIONARY_MAX {
                    return None;
                }
                dictionary.push(*text);
            }
        }
        if in_order {
            dictionary.sort_unstable_by_key(|text| self.texts.get(*text));
            for (text, number) in dictionary.iter().zip(0..) {
                self.numbers[*text as usize].1 = number;
            }
        }
        for text in texts {
            *text = self.numbers[*text as usize].1;
        }
        Some(dictionary)
    }

    /// The text that stands for a value.
    fn value(&mut self, of: &Known<'_>, kind: ValueType, value: u32) -> TextId {
        if kind == ValueType::Str {
            return of.texts[value as usize];
        }
        let known = of.numbers.get(value as usize).filter(|_| kind == ValueType::Int);
        if let Some(text) = known.map(Cell::get).filter(|text| *text != 0) {
            return text;
        }
        self.scratch.clear();
        value_text(of.block.value(kind, value), &mut self.scratch);
        let text = self.texts.intern(&self.scratch);
        if let Some(known) = known {
            known.set(text);
        }
        text
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// A value as text, from which it can be read back.
fn value_text(value: ValueRef<'_>, out: &mut String) {
    // Writing to a `String` does not fail.
    let _ = match value {
        ValueRef::Str(text) => out.write_str(text),
        ValueRef::Int(number) => write!(out, "{number}"),
        ValueRef::Bool(flag) => write!(out, "{flag}"),
        ValueRef::Double(number) if number.is_nan() => {
            write!(out, "NaN:{:016x}", number.to_bits())
        }
        // All digits of the largest would be 309.
        ValueRef::Double(number) if number != 0.0 && !(1e-6..1e21).contains(&number.abs()) => {
            write!(out, "{number:e}")
        }
        ValueRef::Double(number) => write!(out, "{number}"),
        ValueRef::Bytes(bytes) => {
            out.reserve(2 * bytes.len());
            let digits = |byte: &u8| [byte >> 4, byte & 15].map(|it| HEX[usize::from(it)]);
            out.extend(bytes.iter().flat_map(digits).map(char::from));
            Ok(())
        }
    };
}

/// The ids of requests as text. Each is there once, as it comes in runs.
struct TraceIds {
    texts: Vec<String>,
    /// For each row, which text.
    of_row: Vec<u32>,
}

impl TraceIds {
    fn of(rows: &[(&Known<'_>, Row)]) -> TraceIds {
        let mut ids = TraceIds { texts: Vec::new(), of_row: Vec::with_capacity(rows.len()) };
        let mut last = None;
        for (of, row) in rows {
            let id = of.block.trace_id(*row);
            if last != Some(id) {
                ids.texts.push(id.to_string());
                last = Some(id);
            }
            ids.of_row.push(ids.texts.len() as u32 - 1);
        }
        ids
    }

    fn bloom(&self) -> Result<Sbbf, Error> {
        let mut bloom = Sbbf::new_with_ndv_fpp(self.texts.len() as u64, BLOOM_WRONG)?;
        for text in &self.texts {
            bloom.insert(text.as_str());
        }
        Ok(bloom)
    }
}

/// The lists of a row group that two columns share.
#[derive(Default)]
struct Spaced {
    levels: Levels,
    /// The texts of the second column.
    values: Vec<TextId>,
}

/// The rows of a row group, column by column.
struct Columns<'g, 'b> {
    rows: &'g [(&'g Known<'b>, Row)],
    /// The endpoints of each row, which several columns ask for.
    locals: Vec<&'g KnownEndpoint>,
    remotes: Vec<&'g KnownEndpoint>,
    pages: &'g [Range<usize>],
    press: &'g mut Press,
    numbering: &'g mut Numbering,
}

impl<'b> Columns<'_, 'b> {
    fn column(
        &mut self,
        column: Column,
        chunk: &mut Chunk,
        lists: &mut Spaced,
    ) -> Result<(), Error> {
        match column {
            Column::TraceId => Ok(()),
            Column::SpanId => {
                let ids = self.each(|of, row| of.block.id(row).number());
                self.ids(chunk, &Levels::one(self.pages), &ids)
            }
            Column::ParentId => {
                let ids = self.each(|of, row| of.block.parent_id(row).map_or(0, |id| id.number()));
                let present = ids.iter().map(|id| (*id != 0).into()).collect();
                let ids: Vec<u64> = ids.into_iter().filter(|id| *id != 0).collect();
                self.ids(chunk, &Levels::at_most_one(present, self.pages), &ids)
            }
            Column::Kind => {
                let kinds = [
                    Kind::Unspecified,
                    Kind::Internal,
                    Kind::Client,
                    Kind::Server,
                    Kind::Producer,
                    Kind::Consumer,
                ]
                .map(|kind| self.numbering.texts.intern(kind_text(kind)));
                let texts = self.each(|of, row| kinds[of.block.kind(row) as usize]);
                self.texts(chunk, texts)
            }
            Column::Status => {
                let statuses = [Status::Unset, Status::Ok, Status::Error]
                    .map(|status| self.numbering.texts.intern(status_text(status)));
                let texts = self.each(|of, row| statuses[of.block.status(row) as usize]);
                self.texts(chunk, texts)
            }
            Column::Error => self.flags(chunk, |of, row| of.block.is_error(row)),
            Column::Debug => self.flags(chunk, |of, row| of.block.is_debug(row)),
            Column::Shared => self.flags(chunk, |of, row| of.block.is_shared(row)),
            Column::Name => {
                let texts = self.each(|of, row| of.texts[of.block.name_id(row) as usize]);
                self.texts(chunk, texts)
            }
            Column::Service => {
                let texts = self.locals.iter().map(|of| of.service).collect();
                self.texts(chunk, texts)
            }
            Column::RemoteService => {
                let texts = self.remotes.iter().map(|of| of.service).collect();
                self.texts(chunk, texts)
            }
            Column::LocalIpv4 => {
                let texts = self.locals.iter().map(|of| of.ipv4).collect();
                self.texts(chunk, texts)
            }
            Column::LocalIpv6 => {
                let texts = self.locals.iter().map(|of| of.ipv6).collect();
                self.texts(chunk, texts)
            }
            Column::RemoteIpv4 => {
                let texts = self.remotes.iter().map(|of| of.ipv4).collect();
                self.texts(chunk, texts)
            }
            Column::RemoteIpv6 => {
                let texts = self.remotes.iter().map(|of| of.ipv6).collect();
                self.texts(chunk, texts)
            }
            Column::TagLayout => {
                let texts = self.each(|of, row| of.layouts[of.block.layout_id(row) as usize].text);
                self.texts(chunk, texts)
            }
            Column::StartTime => {
                let numbers = self.each(|of, row| of.block.start_ns(row).map(|at| at as i64));
                self.numbers::<8>(chunk, &numbers, Bounds::Numbers)
            }
            Column::Duration => {
                let numbers = self.each(|of, row| of.block.duration_ns(row).map(|of| of as i64));
                self.numbers::<8>(chunk, &numbers, Bounds::Numbers)
            }
            Column::LocalPort => {
                let numbers: Vec<Option<i64>> =
                    self.locals.iter().map(|of| port(of.port)).collect();
                self.numbers::<4>(chunk, &numbers, small)
            }
            Column::RemotePort => {
                let numbers: Vec<Option<i64>> =
                    self.remotes.iter().map(|of| port(of.port)).collect();
                self.numbers::<4>(chunk, &numbers, small)
            }
            Column::AnnotationTime => self.annotations(chunk, lists),
            Column::TagKey | Column::ResourceKey | Column::ScopeKey => {
                self.tags(column, chunk, lists)
            }
            Column::AnnotationValue
            | Column::TagValue
            | Column::ResourceValue
            | Column::ScopeValue => {
                let values = std::mem::take(&mut lists.values);
                self.listed(chunk, &lists.levels, values, false)
            }
        }
    }

    fn each<T>(&self, get: impl Fn(&Known<'b>, Row) -> T) -> Vec<T> {
        self.rows.iter().map(|(of, row)| get(of, *row)).collect()
    }

    /// Hexadecimal digits without lengths, as those are always the same.
    fn ids(&mut self, chunk: &mut Chunk, levels: &Levels, ids: &[u64]) -> Result<(), Error> {
        let encoding = Encoding::DELTA_LENGTH_BYTE_ARRAY;
        let mut lengths = Vec::new();
        for (number, page) in self.pages.iter().enumerate() {
            chunk.data(number, page.len(), levels, encoding, self.press, |range, out| {
                lengths.clear();
                lengths.resize(range.len(), 16);
                encode::differences(&lengths, &mut out.bytes);
                out.cut();
                ids[range].iter().for_each(|id| out.bytes.extend_from_slice(&encode::hex(*id)));
                Bounds::Unknown
            })?;
        }
        Ok(())
    }

    /// Of an id that is that of the row before, only that much is written.
    fn trace_ids(&mut self, chunk: &mut Chunk, ids: &TraceIds) -> Result<(), Error> {
        let levels = Levels::one(self.pages);
        let (mut shared, mut lengths, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        for (number, page) in self.pages.iter().enumerate() {
            let encoding = Encoding::DELTA_BYTE_ARRAY;
            chunk.data(number, page.len(), &levels, encoding, self.press, |range, out| {
                shared.clear();
                lengths.clear();
                texts.clear();
                let mut before = None;
                let mut bounds: Option<(&[u8], &[u8])> = None;
                for id in &ids.of_row[range] {
                    let text = ids.texts[*id as usize].as_bytes();
                    if before == Some(id) {
                        shared.push(text.len() as i64);
                        lengths.push(0);
                        continue;
                    }
                    before = Some(id);
                    shared.push(0);
                    lengths.push(text.len() as i64);
                    texts.extend_from_slice(text);
                    bounds = Some(match bounds {
                        None => (text, text),
                        Some((least, most)) => (least.min(text), most.max(text)),
                    });
                }
                encode::differences(&shared, &mut out.bytes);
                encode::differences(&lengths, &mut out.bytes);
                out.cut();
                out.bytes.extend_from_slice(&texts);
                bounds.map_or(Bounds::None, |(least, most)| {
                    Bounds::Texts(least.to_vec(), most.to_vec())
                })
            })?;
        }
        Ok(())
    }

    /// A text for each row; the empty one is none.
    fn texts(&mut self, chunk: &mut Chunk, texts: Vec<TextId>) -> Result<(), Error> {
        let present = texts.iter().map(|text| (*text != 0).into()).collect();
        let levels = Levels::at_most_one(present, self.pages);
        let texts = texts.into_iter().filter(|text| *text != 0).collect();
        self.listed(chunk, &levels, texts, true)
    }

    fn listed(
        &mut self,
        chunk: &mut Chunk,
        levels: &Levels,
        mut texts: Vec<TextId>,
        in_order: bool,
    ) -> Result<(), Error> {
        let dictionary = self.numbering.dictionary(&mut texts, in_order);
        let known = &self.numbering.texts;
        let Some(dictionary) = dictionary else {
            return self.plain(chunk, levels, &texts);
        };
        chunk.dictionary(dictionary.iter().map(|text| known.get(*text)), self.press)?;
        let text = |number: u32| known.get(dictionary[number as usize]).as_bytes().to_vec();
        for (number, page) in self.pages.iter().enumerate() {
            let encoding = Encoding::RLE_DICTIONARY;
            chunk.data(number, page.len(), levels, encoding, self.press, |range, out| {
                let numbers = &texts[range];
                let most = numbers.iter().copied().max().unwrap_or(0);
                let width = encode::width(most.into()).next_multiple_of(8);
                out.bytes.push(width as u8);
                encode::runs(numbers, width, &mut out.bytes);
                match numbers.iter().min() {
                    Some(least) if in_order => Bounds::Texts(text(*least), text(most)),
                    _ => Bounds::Unknown,
                }
            })?;
        }
        Ok(())
    }

    fn plain(&mut self, chunk: &mut Chunk, levels: &Levels, texts: &[TextId]) -> Result<(), Error> {
        let known = &self.numbering.texts;
        let mut lengths = Vec::new();
        for (number, page) in self.pages.iter().enumerate() {
            let encoding = Encoding::DELTA_LENGTH_BYTE_ARRAY;
            chunk.data(number, page.len(), levels, encoding, self.press, |range, out| {
                let texts = &texts[range];
                lengths.clear();
                lengths.extend(texts.iter().map(|text| known.get(*text).len() as i64));
                encode::differences(&lengths, &mut out.bytes);
                out.cut();
                let texts = texts.iter().map(|text| known.get(*text).as_bytes());
                texts.for_each(|text| out.bytes.extend_from_slice(text));
                Bounds::Unknown
            })?;
        }
        Ok(())
    }

    fn numbers<const SIZE: usize>(
        &mut self,
        chunk: &mut Chunk,
        numbers: &[Option<i64>],
        bounds: impl Fn(i64, i64) -> Bounds,
    ) -> Result<(), Error> {
        let present = numbers.iter().map(|number| number.is_some().into()).collect();
        let levels = Levels::at_most_one(present, self.pages);
        let numbers: Vec<i64> = numbers.iter().flatten().copied().collect();
        self.plain_numbers::<SIZE>(chunk, &levels, &numbers, bounds)
    }

    fn plain_numbers<const SIZE: usize>(
        &mut self,
        chunk: &mut Chunk,
        levels: &Levels,
        numbers: &[i64],
        bounds: impl Fn(i64, i64) -> Bounds,
    ) -> Result<(), Error> {
        for (number, page) in self.pages.iter().enumerate() {
            chunk.data(number, page.len(), levels, Encoding::PLAIN, self.press, |range, out| {
                let numbers = &numbers[range];
                encode::numbers::<SIZE>(numbers, &mut out.bytes);
                let (least, most) = (numbers.iter().min(), numbers.iter().max());
                least.zip(most).map_or(Bounds::None, |(least, most)| bounds(*least, *most))
            })?;
        }
        Ok(())
    }

    fn flags(
        &mut self,
        chunk: &mut Chunk,
        get: impl Fn(&Known<'b>, Row) -> bool,
    ) -> Result<(), Error> {
        let flags = self.each(get);
        let same = flags.iter().all(|flag| *flag == flags[0]);
        let levels = Levels { same, ..Levels::one(self.pages) };
        for (number, page) in self.pages.iter().enumerate() {
            let encoding = Encoding::PLAIN;
            chunk.data(number, page.len(), &levels, encoding, self.press, |range, out| {
                let flags = &flags[range];
                encode::flags(flags, &mut out.bytes);
                Bounds::Flags(flags.iter().all(|flag| *flag), flags.iter().any(|flag| *flag))
            })?;
        }
        Ok(())
    }

    fn annotations(&mut self, chunk: &mut Chunk, lists: &mut Spaced) -> Result<(), Error> {
        let (mut counts, mut times) = (Vec::with_capacity(self.rows.len()), Vec::new());
        for (of, row) in self.rows {
            let (at, values) = of.block.annotation_ids(*row);
            counts.push(at.len() as u32);
            times.extend(at.iter().map(|time| *time as i64));
            lists.values.extend(values.iter().map(|value| of.texts[*value as usize]));
        }
        lists.levels = Levels::many(&counts, self.pages);
        self.plain_numbers::<8>(chunk, &lists.levels, &times, Bounds::Numbers)
    }

    fn tags(&mut self, column: Column, chunk: &mut Chunk, lists: &mut Spaced) -> Result<(), Error> {
        let list = TAGS.iter().position(|(_, key, _)| *key == column).unwrap_or(0);
        let origin = TAGS[list].0;
        let (mut counts, mut keys) = (Vec::with_capacity(self.rows.len()), Vec::new());
        for (of, row) in self.rows {
            let id = of.block.layout_id(*row);
            let count = of.layouts[id as usize].counts[list];
            counts.push(count);
            if count == 0 {
                continue;
            }
            for (shape, value) in of.block.layout(id).iter().zip(of.block.values(*row)) {
                if shape.origin == origin {
                    keys.push(of.texts[shape.key as usize]);
                    lists.values.push(self.numbering.value(of, shape.value, *value));
                }
            }
        }
        lists.levels = Levels::many(&counts, self.pages);
        self.listed(chunk, &lists.levels, keys, false)
    }
}

impl Known<'_> {
    fn local(&self, row: Row) -> &KnownEndpoint {
        &self.endpoints[self.block.local_id(row) as usize]
    }

    fn remote(&self, row: Row) -> &KnownEndpoint {
        &self.endpoints[self.block.remote_id(row) as usize]
    }
}

fn port(port: u16) -> Option<i64> {
    (port != 0).then_some(port.into())
}

fn small(least: i64, most: i64) -> Bounds {
    Bounds::Small(least as i32, most as i32)
}

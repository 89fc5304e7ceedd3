//! A file of spans and its index, at rest. Start at [`Part`]; [`PartWriter`] makes them.

use crate::Error;
use crate::bytes::read_exact;
use crate::index::{Builder, Directory, Index, KeyValues, LinkCount, OpenError, Row};
use crate::links::LinkTable;
use crate::manifest::FileEntry;
use crate::tags::TagTable;
use blkkin_columns::{Block, Options, ReadAt, Sorted, Writer};
use blkkin_journal::{Disk, File};
use std::fmt;
use std::io::{self, BufWriter};
use std::ops::{ControlFlow, Range, RangeInclusive};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A file of spans and its index. Removed when nobody reads it any more, if that was said.
pub(crate) struct Part {
    pub(crate) entry: FileEntry,
    pub(crate) index: Index,
    file: SpanFile,
    disk: Arc<dyn Disk>,
    goes: AtomicBool,
}

type SpanFile = blkkin_columns::File<Input>;

/// Makes a part.
pub(crate) struct PartWriter {
    disk: Arc<dyn Disk>,
    number: u64,
    writer: Writer<BufWriter<Output>>,
    builder: Builder,
}

/// So many rows are read at once when all of a file are.
pub(crate) const ROWS_AT_ONCE: u32 = 64 << 10;

/// So much is written at once.
const WRITE_BYTES: usize = 1 << 20;

/// The name of a file of spans.
pub(crate) fn spans_name(number: u64) -> String {
    format!("{number:010}.parquet")
}

/// The name of its index.
pub(crate) fn index_name(number: u64) -> String {
    format!("{number:010}.index")
}

/// The number in a name of either kind.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    let stem = name.strip_suffix(".parquet").or_else(|| name.strip_suffix(".index"))?;
    stem.parse().ok()
}

impl Part {
    /// Opens the files that a manifest names. An index that is damaged or missing is made again.
    pub(crate) fn open(disk: Arc<dyn Disk>, entry: FileEntry) -> Result<Part, Error> {
        let file = open_spans(&*disk, entry.number)?;
        let name = index_name(entry.number);
        let opened = disk.open(&name).map_err(OpenError::Io).and_then(Index::open);
        let index = match opened {
            Ok(index) if u64::from(index.directory.rows) == entry.spans => index,
            _ => remake_index(&disk, entry.number, &file)?,
        };
        Ok(Part { entry, index, file, disk, goes: AtomicBool::new(false) })
    }

    /// The rows of a range.
    pub(crate) fn rows(&self, rows: Range<u32>, to: &mut Block) -> Result<(), Error> {
        read_rows(&self.file, self.entry.number, rows, to)
    }

    /// The spans of requests whose ids have lower halves in this range.
    pub(crate) fn between(&self, lows: RangeInclusive<u64>, to: &mut Block) -> Result<(), Error> {
        // A block that is full breaks off: what is asked for here is far less.
        match self.file.between(lows, to) {
            Ok(ControlFlow::Continue(())) => Ok(()),
            Ok(ControlFlow::Break(())) => Err(self.error("more than a block takes")),
            Err(error) => Err(self.error(error)),
        }
    }

    fn error(&self, error: impl fmt::Display) -> Error {
        spans_error(self.entry.number, error)
    }

    /// Is to be removed when nobody reads it any more.
    pub(crate) fn goes(&self) {
        self.goes.store(true, Ordering::Relaxed);
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if self.goes.load(Ordering::Relaxed) {
            // What is left is removed when the store is opened the next time.
            let _ = self.disk.remove(&spans_name(self.entry.number));
            let _ = self.disk.remove(&index_name(self.entry.number));
        }
    }
}

impl PartWriter {
    pub(crate) fn create(disk: Arc<dyn Disk>, number: u64) -> Result<PartWriter, Error> {
        let name = spans_name(number);
        // What a process that ended left behind.
        let _ = disk.remove(&name);
        let file = disk.create(&name).map_err(Error::io(&name))?;
        let output = Output { file, offset: 0 };
        let writer =
            Writer::create(BufWriter::with_capacity(WRITE_BYTES, output), Options::default());
        let writer = writer.map_err(|error| spans_error(number, error))?;
        Ok(PartWriter { disk, number, writer, builder: Builder::default() })
    }

    /// Adds spans, all of requests behind those that were added before.
    pub(crate) fn append(&mut self, sorted: &Sorted<'_>) -> Result<(), Error> {
        self.writer.append(sorted).map_err(|error| spans_error(self.number, error))?;
        for index in 0..sorted.len() {
            let (block, row) = sorted.row(index);
            self.builder.push(&row_of(block, row));
        }
        Ok(())
    }

    /// Makes it durable.
    pub(crate) fn finish(
        self,
        tier: u32,
        received_ns: u64,
        links: Vec<LinkCount>,
        keys: Vec<KeyValues>,
    ) -> Result<Part, Error> {
        let PartWriter { disk, number, writer, builder } = self;
        let name = spans_name(number);
        let spans = builder.rows() as u64;
        let (output, _) = writer.finish().map_err(|error| spans_error(number, error))?;
        let output = output.into_inner().map_err(|error| Error::io(&name)(error.into_error()))?;
        output.file.sync().map_err(Error::io(&name))?;
        let directory = write_index(&*disk, number, builder, links, keys)?;
        disk.sync().map_err(Error::io(""))?;
        let index_file = disk.open(&index_name(number)).map_err(Error::io(index_name(number)))?;
        let entry = FileEntry {
            number,
            tier,
            spans,
            bytes: output.offset,
            index_bytes: index_file.size_bytes().map_err(Error::io(index_name(number)))?,
            min_start_ns: directory.min_start_ns,
            max_start_ns: directory.max_start_ns,
            received_ns,
        };
        Part::open(disk, entry)
    }
}

fn row_of(block: &Block, row: blkkin_columns::Row) -> Row<'_> {
    Row {
        trace_low: block.trace_low(row),
        trace_high: block.trace_high(row),
        start_ns: block.start_ns(row),
        duration_ns: block.duration_ns(row),
        is_root: block.parent_id(row).is_none(),
        is_error: block.is_error(row),
        service: block.text(block.service_id(row)),
        name: block.text(block.name_id(row)),
        remote: block.text(block.remote_service_id(row)),
    }
}

/// Makes the index of a file again, of what the file says.
fn remake_index(disk: &Arc<dyn Disk>, number: u64, file: &SpanFile) -> Result<Index, Error> {
    let mut builder = Builder::default();
    let (mut links, mut tags) = (LinkTable::default(), TagTable::default());
    let mut block = Block::new();
    let end = file.len() as u32;
    let mut start = 0;
    while start < end {
        let next = end.min(start.saturating_add(ROWS_AT_ONCE));
        block.clear();
        read_rows(file, number, start..next, &mut block)?;
        (0..block.len() as u32).for_each(|row| builder.push(&row_of(&block, row)));
        // Of the request that lies on both sides of a step, some calls may be missing.
        let sorted = Sorted::of(&[&block]);
        links.merge(&LinkTable::of(&sorted, &[]).0.counts());
        tags.merge(&TagTable::of(&sorted).keys());
        start = next;
    }
    write_index(&**disk, number, builder, links.counts(), tags.keys())?;
    let name = index_name(number);
    let opened = disk.open(&name).map_err(OpenError::Io).and_then(Index::open);
    opened.map_err(|error| match error {
        OpenError::Io(source) => Error::io(name)(source),
        OpenError::Damaged(at) => {
            Error::Spans(format!("{name}: damaged at {at} as soon as it was written"))
        }
    })
}

fn write_index(
    disk: &dyn Disk,
    number: u64,
    builder: Builder,
    links: Vec<LinkCount>,
    keys: Vec<KeyValues>,
) -> Result<Directory, Error> {
    let name = index_name(number);
    let (directory, bytes) =
        builder.finish(links, keys).map_err(|error| Error::Spans(format!("{name}: {error}")))?;
    let written = || {
        let _ = disk.remove(&name);
        let file = disk.create(&name)?;
        file.write_at(&bytes, 0)?;
        file.sync()
    };
    written().map_err(Error::io(&name))?;
    Ok(directory)
}

fn spans_error(number: u64, error: impl fmt::Display) -> Error {
    Error::Spans(format!("{}: {error}", spans_name(number)))
}

fn open_spans(disk: &dyn Disk, number: u64) -> Result<SpanFile, Error> {
    let file = disk.open(&spans_name(number)).map_err(Error::io(spans_name(number)))?;
    SpanFile::open(Input(file)).map_err(|error| spans_error(number, error))
}

fn read_rows(file: &SpanFile, number: u64, rows: Range<u32>, to: &mut Block) -> Result<(), Error> {
    let wanted = u64::from(rows.start)..u64::from(rows.end);
    match file.rows(wanted.clone(), to) {
        Ok(read) if read == wanted.end - wanted.start => Ok(()),
        Ok(_) => Err(spans_error(number, "more than a block takes")),
        Err(error) => Err(spans_error(number, error)),
    }
}

/// Where a file of spans is read from.
struct Input(Arc<dyn File>);

impl ReadAt for Input {
    fn len(&self) -> io::Result<u64> {
        self.0.size_bytes()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        read_exact(&*self.0, buffer, offset)
    }
}

/// Where a writer writes to.
struct Output {
    file: Arc<dyn File>,
    offset: u64,
}

impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_at(bytes, self.offset)?;
        self.offset += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

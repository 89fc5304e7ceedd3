//! A file of spans and its index, at rest. Start at [`Part`]; [`PartWriter`] makes them.

use crate::Error;
use crate::bytes::read_exact;
use crate::cache::Cache;
use crate::index::{self, Builder, Directory, Index, KeyValues, LinkCount, OpenError, Row};
use crate::lake::lock;
use crate::links::{Earlier, LinkTable, Linked};
use crate::manifest::{FileEntry, GREATEST};
use crate::tags::TagTable;
use blkkin_columns::{Block, Column, Options, PageColumns, ReadAt, Sorted, Writer};
use blkkin_journal::{Disk, File};
use blkkin_model::{SpanId, SpanRef, SpanSink};
use blkkin_sys::beside;
use std::fmt;
use std::io::{self, BufWriter};
use std::ops::{ControlFlow, Range, RangeInclusive};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A file of spans and its index. Removed when nobody reads it any more, if that was said.
pub(crate) struct Part {
    pub(crate) entry: FileEntry,
    pub(crate) facts: Facts,
    index: Arc<dyn File>,
    disk: Arc<dyn Disk>,
    cache: Arc<Cache>,
    health: AtomicU8,
    retry: Mutex<Retry>,
    goes: AtomicBool,
}

/// What is always in memory of a file: what tells whether the rest is needed.
pub(crate) struct Facts {
    /// Each of its requests has a time.
    pub(crate) all_have_times: bool,
    /// It knows all that files of before have of its requests.
    pub(crate) is_whole: bool,
    /// When the first of its spans started, and the last, if any has a start.
    pub(crate) starts_ns: Option<(u64, u64)>,
    /// The first and the last minute that calls are of.
    pub(crate) link_minutes: Option<(u64, u64)>,
    bloom: Range<u64>,
    links: Range<u64>,
}

/// What is in memory of a file while it is used.
pub(crate) struct Loaded {
    pub(crate) index: Index,
    file: SpanFile,
    fixed_bytes: usize,
}

pub(crate) type SpanFile = blkkin_columns::File<Input>;

/// What reading takes beside what a file says of itself.
const READING_BYTES: usize = 512 << 10;

/// Health of a file: no error so far; bytes that are wrong, to be verified; verified as damaged;
/// the system refused to read it (too many open files, an I/O error); refused for
/// [`LASTING_AFTER`].
const GOOD: u8 = 0;
const SUSPECT: u8 = 1;
const DAMAGED: u8 = 2;
const UNREADABLE: u8 = 3;
const LASTING: u8 = 4;

/// An unreadable file is verified again after this time, which doubles up to the maximum.
const RETRY_AFTER: Duration = Duration::from_secs(1);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// A file that is unreadable for this long counts as damaged, until it can be read again.
const LASTING_AFTER: Duration = Duration::from_secs(60);

/// When an unreadable file is verified again.
#[derive(Default)]
struct Retry {
    /// Uptime of the first failed verification in a row.
    since: Option<Duration>,
    at: Duration,
    after: Duration,
}

/// Makes a part.
pub(crate) struct PartWriter {
    disk: Arc<dyn Disk>,
    cache: Arc<Cache>,
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

/// The name of a file of spans until a manifest names it. Readers of all Parquet files of the
/// directory do not see half of a file, and an unfinished file that no manifest names holds nothing
/// that is not elsewhere.
pub(crate) fn unfinished_name(number: u64) -> String {
    format!("{number:010}.unfinished")
}

/// The number in a name that the store itself gives.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    let (stem, "parquet" | "index" | "unfinished") = name.split_once('.')? else { return None };
    let number = stem.parse().ok().filter(|number| *number < GREATEST)?;
    (format!("{number:010}") == stem).then_some(number)
}

/// Gives a file that the manifest names its final name. Failing that, the file is found under its
/// unfinished name.
pub(crate) fn publish(disk: &dyn Disk, number: u64) -> io::Result<()> {
    match disk.open(&spans_name(number)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            disk.rename(&unfinished_name(number), &spans_name(number))
        }
        // A file that was copied in meanwhile is not replaced.
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(error) => Err(error),
    }
}

/// Opens a file of spans under either of its names. The unfinished name comes first: a file that is
/// renamed between two tries would not be found in the other order.
pub(crate) fn open_either(disk: &dyn Disk, number: u64) -> io::Result<Arc<dyn File>> {
    match disk.open(&unfinished_name(number)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => disk.open(&spans_name(number)),
        opened => opened,
    }
}

impl Loaded {
    fn new(index: Index, file: SpanFile) -> Loaded {
        let fixed_bytes = index.memory_bytes() + READING_BYTES;
        Loaded { index, file, fixed_bytes }
    }

    /// About what it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.fixed_bytes + self.file.memory_bytes()
    }

    /// Forgets what can be read again without reading all of it.
    pub(crate) fn shrink(&self) {
        self.file.shrink();
    }

    /// The file's columns.
    pub(crate) fn columns(&self) -> &blkkin_columns::File<impl ReadAt + use<>> {
        &self.file
    }
}

impl Part {
    /// Opens the files that a manifest names. An index that is damaged or missing is made again, of what the file and
    /// those before it say.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        cache: Arc<Cache>,
        entry: FileEntry,
        before: &[Arc<Part>],
    ) -> Result<Part, Error> {
        let file = open_spans(&*disk, entry.number)?;
        let name = index_name(entry.number);
        let opened = disk.open(&name).map_err(OpenError::Io).and_then(Index::open);
        let index = match opened {
            Ok(index) if u64::from(index.directory.rows) == entry.spans => index,
            _ => remake_index(&disk, entry.number, &file, before)?,
        };
        Part::of(disk, cache, entry, file, index)
    }

    /// Makes a part of a whole file that no manifest names, with a new index of what it and the
    /// files before it say.
    pub(crate) fn adopt(
        disk: Arc<dyn Disk>,
        cache: Arc<Cache>,
        number: u64,
        received_ns: u64,
        before: &[Arc<Part>],
    ) -> Result<Part, Error> {
        let file = open_spans(&*disk, number)?;
        let index = remake_index(&disk, number, &file, before)?;
        let size = |opened: io::Result<Arc<dyn File>>| opened.and_then(|file| file.size_bytes());
        let options = crate::Options::default();
        let parts = file.len() / options.file_spans as u64;
        let entry = FileEntry {
            number,
            tier: parts.checked_ilog(options.merge_files as u64).unwrap_or(0),
            spans: file.len(),
            bytes: size(open_either(&*disk, number)).map_err(Error::io(spans_name(number)))?,
            index_bytes: size(disk.open(&index_name(number)))
                .map_err(Error::io(index_name(number)))?,
            min_start_ns: index.directory.min_start_ns,
            max_start_ns: index.directory.max_start_ns,
            received_ns,
        };
        Part::of(disk, cache, entry, file, index)
    }

    fn of(
        disk: Arc<dyn Disk>,
        cache: Arc<Cache>,
        entry: FileEntry,
        file: SpanFile,
        index: Index,
    ) -> Result<Part, Error> {
        let name = index_name(entry.number);
        let (directory, sections) = (&index.directory, &index.sections);
        let facts = Facts {
            all_have_times: directory.timed == directory.requests,
            is_whole: directory.is_whole,
            starts_ns: starts_ns(&file),
            link_minutes: directory.link_minutes,
            bloom: sections.bloom.clone(),
            links: sections.links.clone(),
        };
        let index_file = disk.open(&name).map_err(Error::io(&name))?;
        cache.put(entry.number, Arc::new(Loaded::new(index, file)));
        let (health, goes) = (AtomicU8::new(GOOD), AtomicBool::new(false));
        let retry = Mutex::default();
        Ok(Part { entry, facts, index: index_file, disk, cache, health, retry, goes })
    }

    /// What is in memory of it while it is used.
    pub(crate) fn load(&self) -> Result<Arc<Loaded>, Error> {
        let number = self.entry.number;
        let loaded = self.cache.get(number, || {
            let index = Index::load(Arc::clone(&self.index));
            let index = index.map_err(|error| index_error(number, error))?;
            Ok(Loaded::new(index, open_spans(&*self.disk, number)?))
        });
        self.note(loaded)
    }

    /// Whether the request may be here.
    pub(crate) fn may_hold(&self, low: u64) -> bool {
        match self.cache.peek(self.entry.number) {
            Some(loaded) => loaded.index.may_hold(low),
            // What cannot be read is told by who looks for more.
            None => index::may_hold(&*self.index, &self.facts.bloom, low).unwrap_or(true),
        }
    }

    /// The calls of its requests, in order of minute, parent and child.
    pub(crate) fn links(&self) -> Result<Vec<LinkCount>, Error> {
        let links = index::links(&*self.index, &self.facts.links);
        self.note(links.map_err(|error| index_error(self.entry.number, error)))
    }

    /// The rows of a range.
    pub(crate) fn rows_of(
        &self,
        loaded: &Loaded,
        rows: Range<u32>,
        to: &mut Block,
    ) -> Result<(), Error> {
        self.note(read_rows(&loaded.file, self.entry.number, rows, to))
    }

    /// Reads those of these columns of a page that were not read yet. Of parents it is read only which spans have one.
    pub(crate) fn read_columns(
        &self,
        loaded: &Loaded,
        page: &mut PageColumns,
        columns: &[Column],
    ) -> Result<(), Error> {
        let read = columns.iter().try_for_each(|&column| match column {
            Column::ParentId => loaded.file.read_presence(page, column),
            _ => loaded.file.read_columns(page, &[column]),
        });
        self.note(read.map_err(|error| self.read_error(error)))
    }

    /// Whether there are spans of requests whose ids have this lower half, as far as can be read.
    pub(crate) fn holds(&self, low: u64) -> bool {
        let looked = || {
            let held = self.load()?.file.holds(low);
            self.note(held.map_err(|error| self.read_error(error)))
        };
        self.may_hold(low) && looked().unwrap_or(true)
    }

    /// The spans of requests whose ids have lower halves in this range.
    pub(crate) fn between(&self, lows: RangeInclusive<u64>, to: &mut Block) -> Result<(), Error> {
        // A block that is full breaks off: what is asked for here is far less.
        self.note(match self.load()?.file.between(lows, to) {
            Ok(ControlFlow::Continue(())) => Ok(()),
            Ok(ControlFlow::Break(())) => Err(self.error("more than a block takes")),
            Err(error) => Err(self.read_error(error)),
        })
    }

    /// The same to a sink, up to its breaking off; whether it did not.
    pub(crate) fn hand_over(
        &self,
        lows: RangeInclusive<u64>,
        to: &mut impl SpanSink,
    ) -> Result<bool, Error> {
        let read = self.load()?.file.between(lows, to);
        Ok(self.note(read.map_err(|error| self.read_error(error)))?.is_continue())
    }

    /// Hands over the spans of requests whose ids have this lower half, or of those the ones with an id.
    pub(crate) fn visit(
        &self,
        low: u64,
        id: Option<SpanId>,
        each: &mut dyn FnMut(&SpanRef<'_>),
    ) -> Result<(), Error> {
        let mut sink = Visit(each);
        let visited = self.load()?.file.between_of(low..=low, id, &mut sink);
        self.note(visited.map(drop).map_err(|error| self.read_error(error)))
    }

    /// What comes of reading; a file that could not be read is looked at.
    pub(crate) fn note<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &result {
            let may_pass = error.may_pass();
            let worse = |health| match health {
                GOOD => Some(if may_pass { UNREADABLE } else { SUSPECT }),
                UNREADABLE | LASTING if !may_pass => Some(SUSPECT),
                _ => None,
            };
            let _ = self.health.fetch_update(Ordering::Relaxed, Ordering::Relaxed, worse);
        }
        result
    }

    /// Verifies all of the file after an error. A file is damaged only if its bytes are wrong; one
    /// that the system does not let us read is verified again later.
    pub(crate) fn examine(&self, uptime: Duration) {
        let mut retry = lock(&self.retry);
        let is_due = match self.health.load(Ordering::Relaxed) {
            SUSPECT => true,
            UNREADABLE | LASTING => uptime >= retry.at,
            _ => false,
        };
        if !is_due {
            return;
        }
        let verified = self.verify();
        let health = match verified {
            Ok(()) => GOOD,
            Err(error) if error.may_pass() => {
                let since = *retry.since.get_or_insert(uptime);
                retry.after = (retry.after * 2).clamp(RETRY_AFTER, RETRY_AFTER_MAX);
                retry.at = uptime + retry.after;
                if uptime - since >= LASTING_AFTER { LASTING } else { UNREADABLE }
            }
            Err(_) => DAMAGED,
        };
        if matches!(health, GOOD | DAMAGED) {
            *retry = Retry::default();
        }
        self.health.store(health, Ordering::Relaxed);
    }

    fn verify(&self) -> Result<(), Error> {
        self.load()?.file.verify().map_err(|error| self.read_error(error))?;
        self.links().map(drop)
    }

    /// Whether no read has failed since the file was last verified.
    pub(crate) fn is_good(&self) -> bool {
        self.health.load(Ordering::Relaxed) == GOOD
    }

    /// Whether bytes of the file are wrong, or could not be read for long.
    pub(crate) fn is_damaged(&self) -> bool {
        matches!(self.health.load(Ordering::Relaxed), SUSPECT | DAMAGED | LASTING)
    }

    pub(crate) fn read_error(&self, error: blkkin_columns::Error) -> Error {
        read_error(self.entry.number, error)
    }

    pub(crate) fn error(&self, error: impl fmt::Display) -> Error {
        spans_error(self.entry.number, error)
    }

    /// Is to be removed when nobody reads it any more.
    pub(crate) fn goes(&self) {
        self.goes.store(true, Ordering::Relaxed);
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.cache.forget(self.entry.number);
        if self.goes.load(Ordering::Relaxed) {
            // What is left is removed when the store is opened the next time.
            let _ = self.disk.remove(&spans_name(self.entry.number));
            remove_unfinished(&*self.disk, self.entry.number);
        }
    }
}

impl PartWriter {
    pub(crate) fn create(
        disk: Arc<dyn Disk>,
        cache: Arc<Cache>,
        number: u64,
        options: Options,
    ) -> Result<PartWriter, Error> {
        let name = unfinished_name(number);
        // The file's final name must be free: publishing it replaces what has that name. The next
        // try has another number.
        let last = spans_name(number);
        match disk.open(&last) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            _ => {
                return Err(Error::Spans(format!(
                    "{last} is there already, and not of this store"
                )));
            }
        }
        // An earlier try with this number that a manifest never named.
        let _ = disk.remove(&name);
        let file = disk.create(&name).map_err(Error::io(&name))?;
        let output = Output { file, offset: 0 };
        let writer = Writer::create(BufWriter::with_capacity(WRITE_BYTES, output), options);
        let writer = writer.map_err(|error| spans_error(number, error))?;
        Ok(PartWriter { disk, cache, number, writer, builder: Builder::default() })
    }

    /// Adds spans, all of requests behind those that were added before.
    pub(crate) fn append(&mut self, sorted: &Sorted<'_>) -> Result<(), Error> {
        let PartWriter { writer, builder, .. } = self;
        let push = || {
            for index in 0..sorted.len() {
                let (block, row) = sorted.row(index);
                builder.push(&row_of(block, row));
            }
        };
        let (appended, ()) = beside(|| writer.append(sorted), push);
        appended.map_err(|error| spans_error(self.number, error))
    }

    /// Adds what files of before have of requests, of which some are here.
    pub(crate) fn append_elsewhere(&mut self, earlier: &Earlier) {
        push_elsewhere(&mut self.builder, earlier);
    }

    /// Makes it durable, under its unfinished name: [`publish`] follows when a manifest names it.
    pub(crate) fn finish(
        self,
        tier: u32,
        received_ns: u64,
        links: &[LinkCount],
        keys: Vec<KeyValues>,
    ) -> Result<Part, Error> {
        let PartWriter { disk, cache, number, writer, builder } = self;
        let name = unfinished_name(number);
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
        Part::open(disk, cache, entry, &[])
    }
}

/// Removes a file that no manifest names. The index goes first: it is known as ours by the file
/// beside it.
pub(crate) fn remove_unfinished(disk: &dyn Disk, number: u64) {
    let _ = disk.remove(&index_name(number));
    let _ = disk.remove(&unfinished_name(number));
}

fn push_elsewhere(builder: &mut Builder, earlier: &Earlier) {
    let spans = earlier.spans();
    let rows = 0..spans.len() as blkkin_columns::Row;
    rows.for_each(|row| builder.push_elsewhere(&row_of(spans, row)));
    builder.is_whole &= earlier.is_whole();
}

fn row_of(block: &Block, row: blkkin_columns::Row) -> Row<'_> {
    Row {
        trace_low: block.trace_low(row),
        trace_high: block.trace_high(row),
        id: block.id(row).number(),
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
fn remake_index(
    disk: &Arc<dyn Disk>,
    number: u64,
    file: &SpanFile,
    before: &[Arc<Part>],
) -> Result<Index, Error> {
    let mut builder = Builder::default();
    let mut all_earlier = Vec::new();
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
        let Linked { table, earlier, .. } = LinkTable::of(&sorted, before);
        links.merge(&table.counts());
        all_earlier.push(earlier);
        tags.merge(&TagTable::of(&sorted).keys());
        start = next;
    }
    all_earlier.iter().for_each(|earlier| push_elsewhere(&mut builder, earlier));
    write_index(&**disk, number, builder, &links.counts(), tags.keys())?;
    let name = index_name(number);
    let opened = disk.open(&name).map_err(OpenError::Io).and_then(Index::open);
    opened.map_err(|error| index_error(number, error))
}

fn index_error(number: u64, error: OpenError) -> Error {
    let name = index_name(number);
    match error {
        OpenError::Io(source) => Error::io(name)(source),
        OpenError::Damaged(at) => Error::Spans(format!("{name}: damaged at {at}")),
    }
}

fn write_index(
    disk: &dyn Disk,
    number: u64,
    builder: Builder,
    links: &[LinkCount],
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

/// Of reading: what the system refused is told apart from damage.
pub(crate) fn read_error(number: u64, error: blkkin_columns::Error) -> Error {
    match error {
        blkkin_columns::Error::Io(source) => Error::io(spans_name(number))(source),
        error => spans_error(number, error),
    }
}

pub(crate) fn open_spans(disk: &dyn Disk, number: u64) -> Result<SpanFile, Error> {
    let file = open_either(disk, number).map_err(Error::io(spans_name(number)))?;
    SpanFile::open(Input(file)).map_err(|error| read_error(number, error))
}

pub(crate) fn read_rows(
    file: &SpanFile,
    number: u64,
    rows: Range<u32>,
    to: &mut Block,
) -> Result<(), Error> {
    let wanted = u64::from(rows.start)..u64::from(rows.end);
    match file.rows(wanted.clone(), to) {
        Ok(read) if read == wanted.end - wanted.start => Ok(()),
        Ok(_) => Err(spans_error(number, "more than a block takes")),
        Err(error) => Err(read_error(number, error)),
    }
}

/// When the first span of a file started, and the last.
fn starts_ns(file: &SpanFile) -> Option<(u64, u64)> {
    let starts = (0..file.groups()).filter_map(|group| file.group_starts_ns(group));
    starts.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
}

/// Who is handed spans.
struct Visit<'v>(&'v mut dyn FnMut(&SpanRef<'_>));

impl SpanSink for Visit<'_> {
    fn span(&mut self, span: &SpanRef<'_>) -> ControlFlow<()> {
        (self.0)(span);
        ControlFlow::Continue(())
    }
}

/// Where a file of spans is read from.
pub(crate) struct Input(pub(crate) Arc<dyn File>);

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

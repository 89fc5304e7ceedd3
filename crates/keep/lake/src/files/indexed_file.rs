//! [`IndexedFile`]: a span file with its index, shared by the store's threads.

use crate::Error;
use crate::files::cache::Cache;
use crate::files::column_file::{ColumnFile, open_spans, read_error, read_rows, spans_error};
use crate::files::file_entry::FileEntry;
use crate::files::index::{self, Index, LinkCount, OpenError};
use crate::files::loaded_file::LoadedFile;
use crate::files::naming::{index_name, remove_unfinished, spans_name};
use blkkin_columns::{Block, Column, PageColumns};
use blkkin_journal::{Disk, File};
use blkkin_model::{SpanId, SpanRef, SpanSink};
use parking_lot::Mutex;
use std::fmt;
use std::ops::{ControlFlow, Range, RangeInclusive};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

/// Span file with its index. Both are removed from the disk if [`IndexedFile::mark_removed`] was
/// called before the last reference is dropped.
pub(crate) struct IndexedFile {
    pub(crate) entry: FileEntry,
    pub(crate) summary: FileSummary,
    index: Arc<dyn File>,
    disk: Arc<dyn Disk>,
    cache: Arc<Cache>,
    health: AtomicU8,
    retry: Mutex<Retry>,
    is_removed: AtomicBool,
}

/// Summary of a span file and its index, always in memory. Queries that the summary answers do not
/// load the index.
pub(crate) struct FileSummary {
    /// Set if every request of the file has a start time.
    pub(crate) all_have_times: bool,
    /// Set if the index covers all spans of the file's requests in earlier files.
    pub(crate) is_whole: bool,
    /// Earliest and latest start of the file's spans in nanoseconds since 1970; `None` if no span
    /// has a start.
    pub(crate) starts_ns: Option<(u64, u64)>,
    /// First and last minute with calls, counted since 1970; `None` if the file has no calls.
    pub(crate) link_minutes: Option<(u64, u64)>,
    bloom: Range<u64>,
    links: Range<u64>,
}

/// Health of a file without read errors since it was opened or last verified as intact.
const GOOD: u8 = 0;
/// Health of a file after an error that cannot be temporary, such as invalid bytes, until the file
/// is verified.
const SUSPECT: u8 = 1;
/// Health of a file that the verification found damaged or missing. The file is not verified again.
const DAMAGED: u8 = 2;
/// Health of a file that the operating system does not read, for example because of an I/O error or
/// too many open files.
const UNREADABLE: u8 = 3;
/// Health of a file that has been unreadable for [`LASTING_AFTER`].
const LASTING: u8 = 4;

/// Delay after the first failed verification of an unreadable file. Each further failure doubles
/// the delay, up to [`RETRY_AFTER_MAX`].
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Maximum delay between verifications of an unreadable file.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// Time after which an unreadable file counts as damaged. Once it can be read again, verification
/// decides.
const LASTING_AFTER: Duration = Duration::from_secs(60);

/// Schedule of the verifications of an unreadable file.
#[derive(Default)]
struct Retry {
    /// Uptime of the first failed verification since the last successful one.
    since: Option<Duration>,
    at: Duration,
    after: Duration,
}

impl IndexedFile {
    pub(crate) fn of(
        disk: Arc<dyn Disk>,
        cache: Arc<Cache>,
        entry: FileEntry,
        file: ColumnFile,
        index: Index,
    ) -> Result<IndexedFile, Error> {
        let name = index_name(entry.number);
        let (directory, sections) = (&index.directory, &index.sections);
        let summary = FileSummary {
            all_have_times: directory.timed == directory.requests,
            is_whole: directory.is_whole,
            starts_ns: starts_ns(&file),
            link_minutes: directory.link_minutes,
            bloom: sections.bloom.clone(),
            links: sections.links.clone(),
        };
        let index_file = disk.open(&name).map_err(Error::io(&name))?;
        cache.put(entry.number, Arc::new(LoadedFile::new(index, file)));
        let (health, is_removed) = (AtomicU8::new(GOOD), AtomicBool::new(false));
        let retry = Mutex::default();
        Ok(IndexedFile {
            entry,
            summary,
            index: index_file,
            disk,
            cache,
            health,
            retry,
            is_removed,
        })
    }

    /// Returns the index and the column reader, from the cache if possible.
    pub(crate) fn load(&self) -> Result<Arc<LoadedFile>, Error> {
        let number = self.entry.number;
        let loaded = self.cache.get(number, || {
            let index = Index::load(Arc::clone(&self.index));
            let index = index.map_err(|error| index_error(number, error))?;
            Ok(LoadedFile::new(index, open_spans(&*self.disk, number)?))
        });
        self.record_error(loaded)
    }

    /// Returns whether the file may contain a request whose trace id has the lower half `low`,
    /// according to the Bloom filter.
    pub(crate) fn may_hold(&self, low: u64) -> bool {
        match self.cache.peek(self.entry.number) {
            Some(loaded) => loaded.index.may_hold(low),
            // The read that follows reports the error.
            None => index::may_hold(&*self.index, &self.summary.bloom, low).unwrap_or(true),
        }
    }

    /// Reads the calls counted in the index, in order of minute, caller and callee.
    pub(crate) fn links(&self) -> Result<Vec<LinkCount>, Error> {
        let links = index::links(&*self.index, &self.summary.links);
        self.record_error(links.map_err(|error| index_error(self.entry.number, error)))
    }

    /// Appends the spans of a range of rows to a block.
    pub(crate) fn append_rows(
        &self,
        loaded: &LoadedFile,
        rows: Range<u32>,
        to: &mut Block,
    ) -> Result<(), Error> {
        self.record_error(read_rows(&loaded.file, self.entry.number, rows, to))
    }

    /// Reads columns of a page, except columns that were read before. Parent ids are read only as
    /// present or absent.
    pub(crate) fn read_columns(
        &self,
        loaded: &LoadedFile,
        page: &mut PageColumns,
        columns: &[Column],
    ) -> Result<(), Error> {
        let read = columns.iter().try_for_each(|&column| match column {
            Column::ParentId => loaded.file.read_presence(page, column),
            _ => loaded.file.read_columns(page, &[column]),
        });
        self.record_error(read.map_err(|error| self.read_error(error)))
    }

    /// Returns whether the file has spans whose trace ids have the lower half `low`. Returns `true`
    /// if the file cannot be read.
    pub(crate) fn holds(&self, low: u64) -> bool {
        let looked = || {
            let held = self.load()?.file.contains_trace(low);
            self.record_error(held.map_err(|error| self.read_error(error)))
        };
        self.may_hold(low) && looked().unwrap_or(true)
    }

    /// Appends the spans whose trace ids have a lower half in the range `lows` to a block.
    pub(crate) fn append_range(
        &self,
        lows: RangeInclusive<u64>,
        to: &mut Block,
    ) -> Result<(), Error> {
        // A full block is an error, since the ranges in use are far smaller.
        self.record_error(match self.load()?.file.read_trace_range(lows, to) {
            Ok(ControlFlow::Continue(())) => Ok(()),
            Ok(ControlFlow::Break(())) => Err(self.error("more than a block takes")),
            Err(error) => Err(self.read_error(error)),
        })
    }

    /// Sends the spans whose trace ids have a lower half in the range `lows` to a sink. Returns
    /// `false` if the sink stopped the reading.
    pub(crate) fn send(
        &self,
        lows: RangeInclusive<u64>,
        to: &mut impl SpanSink,
    ) -> Result<bool, Error> {
        let read = self.load()?.file.read_trace_range(lows, to);
        Ok(self.record_error(read.map_err(|error| self.read_error(error)))?.is_continue())
    }

    /// Calls `each` with the spans whose trace ids have the lower half `low`. If `id` is given,
    /// spans with other span ids are skipped.
    pub(crate) fn visit(
        &self,
        low: u64,
        id: Option<SpanId>,
        each: &mut dyn FnMut(&SpanRef<'_>),
    ) -> Result<(), Error> {
        let mut sink = VisitSink(each);
        let visited = self.load()?.file.read_span_in_range(low..=low, id, &mut sink);
        self.record_error(visited.map(drop).map_err(|error| self.read_error(error)))
    }

    /// Returns the result unchanged. An error marks the file for verification.
    pub(crate) fn record_error<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
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

    /// Verifies the span file and the calls in its index after an error. The file is damaged if it
    /// has invalid bytes or is missing. If the operating system refuses to read the file, the
    /// verification is repeated later.
    pub(crate) fn verify_if_due(&self, uptime: Duration) {
        let mut retry = self.retry.lock();
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

    /// Returns whether no read has failed since the file was opened or last verified as intact.
    pub(crate) fn is_good(&self) -> bool {
        self.health.load(Ordering::Relaxed) == GOOD
    }

    /// Returns whether the file is damaged, is suspected of damage, or was unreadable for
    /// [`LASTING_AFTER`].
    pub(crate) fn is_damaged(&self) -> bool {
        matches!(self.health.load(Ordering::Relaxed), SUSPECT | DAMAGED | LASTING)
    }

    pub(crate) fn read_error(&self, error: blkkin_columns::Error) -> Error {
        read_error(self.entry.number, error)
    }

    pub(crate) fn error(&self, error: impl fmt::Display) -> Error {
        spans_error(self.entry.number, error)
    }

    /// Marks the file for removal from the disk when its last reference is dropped.
    pub(crate) fn mark_removed(&self) {
        self.is_removed.store(true, Ordering::Relaxed);
    }
}

impl Drop for IndexedFile {
    fn drop(&mut self) {
        self.cache.remove(self.entry.number);
        if self.is_removed.load(Ordering::Relaxed) {
            // If the removal fails, the next start removes the file.
            let _ = self.disk.remove(&spans_name(self.entry.number));
            remove_unfinished(&*self.disk, self.entry.number);
        }
    }
}

pub(crate) fn index_error(number: u64, error: OpenError) -> Error {
    let name = index_name(number);
    match error {
        OpenError::Io(source) => Error::io(name)(source),
        OpenError::Damaged(at) => Error::Spans(format!("{name}: damaged at {at}")),
    }
}

/// Returns the earliest and the latest start of a file's spans, in nanoseconds since 1970.
fn starts_ns(file: &ColumnFile) -> Option<(u64, u64)> {
    let starts = (0..file.groups()).filter_map(|group| file.group_starts_ns(group));
    starts.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
}

/// Sink that calls a function for each span.
struct VisitSink<'v>(&'v mut dyn FnMut(&SpanRef<'_>));

impl SpanSink for VisitSink<'_> {
    fn span(&mut self, span: &SpanRef<'_>) -> ControlFlow<()> {
        (self.0)(span);
        ControlFlow::Continue(())
    }
}

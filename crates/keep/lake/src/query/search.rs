//! Search for requests. Start at [`search`].
//!
//! Evaluates the most selective condition, by estimate, on the file indexes; each request with a
//! span that may match becomes a candidate. Candidates are tried in rank order; for
//! [`Order::Newest`], first in memory and then file by file. The search ends once the page is full
//! and all other candidates rank behind it. If a request lies in several files, the index of the
//! last file, if complete, also covers the spans in the other files ([`crate::files::index`]). For
//! a request in memory, [`Snapshot::earlier`] has the spans in files.
//!
//! Most candidates are in one file alone. For them, only the columns of the conditions are read. If
//! all conditions hold, the columns of a summary follow. Other requests are read whole: a duplicate
//! span must count once, and only a comparison of all fields recognizes a duplicate.

use crate::Error;
use crate::files::index::{Entry, NO_DURATION};
use crate::files::indexed_file::IndexedFile;
use crate::files::loaded_file::LoadedFile;
use crate::query::column_scan::{SELECTED_MAX, first_places, io_error, matches_of, scan_file};
use crate::query::matching::{estimate, for_each_entry, for_each_match};
use crate::query::page_cache::PageCache;
use crate::query::projection::{Projection, fault_of, span, trace_id};
use crate::query::snapshot::Snapshot;
use crate::write::head::GroupedRows;
use blkkin_columns::{Block, Column, PageColumns, Row, Scratch, Sorted};
use blkkin_model::{SpanRef, Status, TraceId};
use blkkin_store::{
    Condition, Durations, Order, Page, Place, Query, Summary, is_cancelled, request_start_ns,
    root_of,
};
use foldhash::fast::RandomState;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::ops::{ControlFlow, Range};

#[cfg(test)]
mod tests;

/// Columns that a request's summary needs in addition to the trace id.
const SUMMARY: [Column; 6] = [
    Column::ParentId,
    Column::Error,
    Column::Name,
    Column::Service,
    Column::StartTime,
    Column::Duration,
];

/// Columns that decide which of two spans with the same start is the root.
const TIES: [Column; 3] = [Column::SpanId, Column::Shared, Column::Kind];

/// Number of rows of a file for each fruitless read that a search may make, in files where this
/// allows more than `fruitless_reads_max` reads. A fruitless read is a read of a request that is
/// not a result. After these reads, a column scan follows, which costs about as much.
const ROWS_PER_FRUITLESS_READ: u32 = 8192;

/// Maximum number of conditions in a query that uses column scans.
const CONDITIONS_MAX: usize = 32;

/// Number of requests that the first step of a search covers in a file. Each further step is four
/// times larger.
const FIRST_ORDINALS: u32 = 4096;

/// Divisor of a file's number of rows that gives a limit on requests with the same duration code;
/// the limit is at least [`FIRST_MATCHES`]. Up to this limit, the requests are read one by one.
/// Beyond the limit, a column scan orders them.
const ROWS_PER_SIMILAR: usize = 256;

/// Number of candidates that are sorted in the first step. Each further step is four times larger.
const FIRST_MATCHES: usize = 4096;

/// Number of requests per match up to which matches are collected in a bitmap. Beyond this ratio,
/// the matches are sorted and deduplicated.
const REQUESTS_PER_MARK: usize = 16;

/// Returns the page of results that a query selects. In each file, the search may read at least
/// `fruitless_reads_max` requests that are not results, and more in a large file, before it scans
/// the file's columns.
pub(crate) fn search(
    snapshot: &Snapshot,
    query: &Query,
    fruitless_reads_max: u32,
) -> Result<Page, Error> {
    search_counted(snapshot, query, fruitless_reads_max).map(|(page, _)| page)
}

/// Returns the page of results and the number of requests that were read to find it.
fn search_counted(
    snapshot: &Snapshot,
    query: &Query,
    fruitless_reads_max: u32,
) -> Result<(Page, usize), Error> {
    let any = Condition::All(Vec::new());
    let window = query.window;
    let files = snapshot.files.iter().map(|file| &**file).filter(|file| {
        let entry = &file.entry;
        entry.min_start_ns <= window.end_ns && window.start_ns <= entry.max_start_ns
    });
    let files: Vec<&IndexedFile> = files.collect();
    let driver = match &query.conditions[..] {
        // A single condition is always the driver, so no estimate is needed.
        [only] => Some(only),
        several => several.iter().min_by_key(|condition| estimate(&files, condition)),
    };
    let mut search = Search {
        snapshot,
        query,
        driver: driver.unwrap_or(&any),
        projections: query.conditions.iter().map(Projection::of).collect(),
        found: Vec::new(),
        seen: HashSet::new(),
        pages: PageCache::default(),
        fruitless_reads_max,
        are_complete: snapshot.files.iter().all(|file| file.summary.is_whole),
        selected_ordinals: 0,
        head_lows: None,
        similar: Vec::new(),
    };
    search.run(files);
    let requests_read = search.seen.len();
    // The results are in order, and no result is on an earlier page.
    let (places, mut requests): (Vec<Place>, Vec<Summary>) = search.found.into_iter().unzip();
    let (places, next) = query.page(places);
    requests.truncate(places.len());
    Ok((Page { requests, next }, requests_read))
}

struct Search<'q> {
    snapshot: &'q Snapshot,
    query: &'q Query,
    driver: &'q Condition,
    /// Projections of the query's conditions, in order.
    projections: Vec<Projection<'q>>,
    /// Results in the query's order, starting with the page's first result.
    found: Vec<(Place, Summary)>,
    seen: HashSet<TraceId>,
    pages: PageCache,
    fruitless_reads_max: u32,
    /// Set if the indexes of all files are complete: each index covers its requests' spans in
    /// earlier files.
    are_complete: bool,
    /// Number of requests that all column scans of the search have selected so far.
    selected_ordinals: usize,
    /// Lower halves of the trace ids in memory, computed on first use.
    head_lows: Option<HashSet<u64, RandomState>>,
    /// Groups of requests in one file that have the same duration code: position in the list of
    /// files, and ordinals, ascending.
    similar: Vec<(usize, Vec<u32>)>,
}

/// Request that may be a result.
#[derive(Clone, Copy)]
struct Candidate {
    /// Upper bound of the request's duration: the time from the first start to the last end. For a
    /// request in a file, the bound is the longest duration with the same code.
    rank_ns: u64,
    location: Location,
}

/// State of the search in one file.
struct FileCursor<'q> {
    file: &'q IndexedFile,
    fruitless_reads: u32,
    has_read_columns: bool,
    /// Ordinals that the column scan selected, ascending; `None` before the scan, or if the scan
    /// was impossible, failed or had too many matches.
    selected: Option<Vec<u32>>,
}

impl<'q> FileCursor<'q> {
    fn of(file: &'q IndexedFile) -> FileCursor<'q> {
        FileCursor { file, fruitless_reads: 0, has_read_columns: false, selected: None }
    }
}

/// Start and end of a request, as far as its spans are in memory.
struct RequestTimes {
    /// Earliest start of the spans without a parent.
    root: Option<u64>,
    first: u64,
    last: u64,
}

impl Default for RequestTimes {
    fn default() -> RequestTimes {
        RequestTimes { root: None, first: u64::MAX, last: 0 }
    }
}

impl RequestTimes {
    fn add(&mut self, block: &Block, row: Row, start: u64) {
        if block.parent_id(row).is_none() {
            self.root = Some(self.root.map_or(start, |root| root.min(start)));
        }
        self.first = self.first.min(start);
        let end = start.saturating_add(block.duration_ns(row).unwrap_or(0));
        self.last = self.last.max(end);
    }

    fn began(&self) -> u64 {
        self.root.unwrap_or(self.first)
    }

    fn length(&self) -> u64 {
        self.last - self.first
    }
}

/// Location of a candidate. Candidates of the same rank are tried in this order: requests in
/// memory, single requests of each file by start, and groups of requests.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Location {
    Memory(TraceId),
    /// Position of a file in the list of files, and ordinal of the request in that file.
    Ordinal(usize, u32),
    /// Index into [`Search::similar`]: a group of requests in one file with the same duration code.
    SameDuration(usize),
}

impl<'q> Search<'q> {
    /// Runs the search. The result lacks the requests of unreadable files, which
    /// [`IndexedFile::record_error`] marks for verification.
    fn run(&mut self, mut files: Vec<&'q IndexedFile>) {
        match self.query.order {
            Order::Newest => {
                self.search_head();
                files.sort_by_key(|file| Reverse(file.entry.max_start_ns));
                for file in files {
                    if self.is_page_full_above(file.entry.max_start_ns) {
                        break;
                    }
                    let _ = self.search_file(file);
                }
            }
            Order::Slowest => {
                let mut all = self.head_candidates();
                for (place, file) in files.iter().enumerate() {
                    all.extend(self.file_candidates(place, file).unwrap_or_default());
                }
                let mut cursors: Vec<FileCursor<'_>> =
                    files.iter().map(|file| FileCursor::of(file)).collect();
                greatest_first(
                    &mut all,
                    |candidate| (candidate.rank_ns, Reverse(candidate.location)),
                    |candidate| {
                        let is_short = candidate.rank_ns < *self.query.durations.start();
                        if is_short || self.is_page_full_above(candidate.rank_ns) {
                            return ControlFlow::Break(());
                        }
                        match candidate.location {
                            Location::Memory(id) => {
                                let rank_ns = candidate.rank_ns;
                                if !self.is_past_page(Place { rank_ns, trace_id: id }) {
                                    self.try_low(id.low());
                                }
                            }
                            Location::Ordinal(place, ordinal) => {
                                let _ = self.try_ordinal(&mut cursors[place], ordinal);
                            }
                            Location::SameDuration(at) => {
                                let (place, ordinals) = std::mem::take(&mut self.similar[at]);
                                let _ = self.try_same_duration(&mut cursors[place], &ordinals);
                            }
                        }
                        ControlFlow::Continue(())
                    },
                );
            }
        }
    }

    /// Returns whether the page is full of requests with a greater rank, or the query was
    /// cancelled.
    fn is_page_full_above(&self, rank_ns: u64) -> bool {
        if is_cancelled() {
            return true;
        }
        let behind_page = self.query.limit;
        self.found.get(behind_page).is_some_and(|(place, _)| place.rank_ns > rank_ns)
    }

    /// Returns whether a position is beyond the page, that is, after the first result of the next
    /// page.
    fn is_past_page(&self, place: Place) -> bool {
        let last = self.found.get(self.query.limit);
        last.is_some_and(|(last, _)| self.query.order.compare(last, &place).is_lt())
    }

    /// Tries requests of a file with the same duration code, the slowest first. A column scan
    /// provides the ids and the exact times from first start to last end. Even if all of these
    /// times are equal, the requests after the page are not read.
    fn try_same_duration(
        &mut self,
        cursor: &mut FileCursor<'q>,
        ordinals: &[u32],
    ) -> Result<(), Error> {
        let (mut after, page) = (None, self.query.after);
        let mut some = FIRST_MATCHES.max(self.query.limit.saturating_add(1));
        loop {
            let places = first_places(cursor.file, ordinals, after, page, some)?;
            for &(place, ordinal) in &places {
                if is_cancelled() || self.is_past_page(place) {
                    return Ok(());
                }
                // A failed read does not affect other requests.
                let _ = self.try_ordinal(cursor, ordinal);
            }
            if places.len() < some {
                return Ok(());
            }
            after = places.last().map(|(place, _)| *place);
            some = some.saturating_mul(4);
        }
    }

    /// Tries the requests in memory, newest first, until the page is full.
    fn search_head(&mut self) {
        let mut matches: Vec<(u64, u64)> =
            self.head_requests().into_iter().map(|(id, times)| (times.began(), id.low())).collect();
        greatest_first(
            &mut matches,
            |found| *found,
            |(began, low)| {
                if self.is_page_full_above(began) {
                    return ControlFlow::Break(());
                }
                self.try_low(low);
                ControlFlow::Continue(())
            },
        );
    }

    /// Tries the requests of a file, newest first, until the page is full.
    fn search_file(&mut self, file: &'q IndexedFile) -> Result<(), Error> {
        let all = self.ordinals_in_window(file)?;
        let least_ns = *self.query.durations.start();
        let codes = match least_ns {
            0 => Vec::new(),
            _ => file.record_error(file.load()?.index.length_codes().map_err(io_error))?,
        };
        // The code gives the time from the first start to the last end, which no duration exceeds.
        let is_short = |ordinal: u32| {
            let code = codes.get(ordinal as usize);
            code.is_some_and(|&code| code == NO_DURATION || Durations::greatest(code) < least_ns)
        };
        let mut cursor = FileCursor::of(file);
        let (mut end, mut some) = (all.end, FIRST_ORDINALS);
        while end > all.start {
            let start = end.saturating_sub(some).max(all.start);
            for &ordinal in self.candidate_ordinals(file, start..end)?.iter().rev() {
                let is_full = self.found.len() > self.query.limit || is_cancelled();
                let began = || file.load()?.index.start_ns(ordinal).map_err(io_error);
                if is_full && self.is_page_full_above(began()?) {
                    return Ok(());
                }
                if is_short(ordinal) {
                    continue;
                }
                // A failed read does not affect other requests.
                let _ = self.try_ordinal(&mut cursor, ordinal);
            }
            (end, some) = (start, some.saturating_mul(4));
        }
        Ok(())
    }

    /// Tries a request of a file. After too many fruitless reads, a column scan of the file selects
    /// the requests to be read.
    fn try_ordinal(&mut self, cursor: &mut FileCursor<'_>, ordinal: u32) -> Result<(), Error> {
        let loaded = cursor.file.load()?;
        let fruitless_reads_max =
            self.fruitless_reads_max.max(loaded.index.directory.rows / ROWS_PER_FRUITLESS_READ);
        if cursor.fruitless_reads >= fruitless_reads_max && !cursor.has_read_columns {
            cursor.has_read_columns = true;
            cursor.selected = self.scan_columns(cursor.file, &loaded).unwrap_or(None);
        }
        let is_left_out = |only: &Vec<u32>| only.binary_search(&ordinal).is_err();
        if cursor.selected.as_ref().is_some_and(is_left_out) {
            return Ok(());
        }
        let rows = loaded.index.rows(ordinal).map_err(io_error)?;
        cursor.fruitless_reads += u32::from(!self.try_rows(cursor.file, &loaded, rows)?);
        Ok(())
    }

    /// Selects the requests of a file that meet all conditions, by a column scan. If a request has
    /// further spans in earlier files or in memory, the request is selected if it may meet the
    /// conditions. Requests with spans in later files are found through the later file. Returns
    /// `None` if a scan is impossible, this scan has too many matches, or earlier scans have
    /// selected too many requests.
    fn scan_columns(
        &mut self,
        file: &IndexedFile,
        loaded: &LoadedFile,
    ) -> Result<Option<Vec<u32>>, Error> {
        let is_possible =
            self.are_complete && (1..=CONDITIONS_MAX).contains(&self.projections.len());
        if !is_possible || self.selected_ordinals >= SELECTED_MAX {
            return Ok(None);
        }
        let Some(matches) = scan_file(file, &self.projections)? else { return Ok(None) };
        let all = ((1u64 << self.projections.len()) - 1) as u32;
        let requests = loaded.index.requests(0..loaded.index.directory.timed);
        let requests = file.record_error(requests.map_err(io_error))?;
        let elsewhere = file.record_error(loaded.index.ordinals_elsewhere().map_err(io_error))?;
        let mut elsewhere = elsewhere.into_iter().peekable();
        let snapshot = self.snapshot;
        // The index does not cover spans that arrived after the file was written and are still in
        // memory.
        let head = self.head_lows.get_or_insert_with(|| {
            snapshot.batches.iter().flat_map(|batch| batch.trace_lows()).copied().collect()
        });
        let may_be = |(ordinal, rows): &(u32, Range<u32>)| {
            let mut met = matches_of(&matches, rows).peekable();
            let low = met.peek().map(|request| request.low);
            elsewhere.next_if_eq(ordinal).is_some()
                || met.fold(0, |met, request| met | request.met) == all
                || low.is_some_and(|low| head.contains(&low))
        };
        let only: Vec<u32> = requests.iter().filter(may_be).map(|(ordinal, _)| ordinal).collect();
        self.selected_ordinals += only.len();
        Ok(Some(only))
    }

    /// Tries the request in the given rows of a file. Returns `false` if the request was tried
    /// before or is not a result.
    fn try_rows(
        &mut self,
        file: &IndexedFile,
        loaded: &LoadedFile,
        rows: Range<u32>,
    ) -> Result<bool, Error> {
        let id = self.id_of(file, loaded, &rows)?;
        if !self.seen.insert(id) {
            return Ok(false);
        }
        let snapshot = self.snapshot;
        let number = file.entry.number;
        let mut others = snapshot.files.iter().filter(|other| other.entry.number != number);
        let is_elsewhere = snapshot.batches.iter().any(|batch| batch.holds(id.low()))
            || others.any(|other| other.holds(id.low()));
        if is_elsewhere {
            let request = snapshot.request(id.low())?;
            let sorted = request.sorted();
            let rows = requests_of(&sorted).find(|rows| trace_of(&sorted, rows) == id);
            return Ok(rows.is_some_and(|rows| self.try_request(&sorted, rows)));
        }
        if !self.all_hold(file, loaded, &rows)? {
            return Ok(false);
        }
        let pages = self.pages.read_pages(file, loaded, rows.clone(), &SUMMARY)?;
        let spans = spans_of(file, &pages, id)?;
        if !has_ties(&spans) {
            let found = rank_request(self.query, &spans);
            return Ok(self.insert(found));
        }
        drop(spans);
        let pages = self.pages.read_pages(file, loaded, rows, &[&SUMMARY[..], &TIES].concat())?;
        let found = rank_request(self.query, &spans_of(file, &pages, id)?);
        Ok(self.insert(found))
    }

    fn id_of(
        &mut self,
        file: &IndexedFile,
        loaded: &LoadedFile,
        rows: &Range<u32>,
    ) -> Result<TraceId, Error> {
        let pages = self.pages.read_pages(file, loaded, rows.clone(), &[Column::TraceId])?;
        let Some((page, of_page)) = pages.first() else {
            return file.record_error(Err(file.error("it has not as many rows as its index says")));
        };
        let id = trace_id(page, of_page.start);
        file.record_error(id.map_err(|fault| fault_of(file, page, fault)))
    }

    /// Returns whether each condition holds for at least one row of the request.
    fn all_hold(
        &mut self,
        file: &IndexedFile,
        loaded: &LoadedFile,
        rows: &Range<u32>,
    ) -> Result<bool, Error> {
        for projection in &self.projections {
            let pages = self.pages.read_pages(file, loaded, rows.clone(), projection.columns())?;
            let mut holds = false;
            for (page, of_page) in pages {
                for row in of_page {
                    let of_row = projection.holds(page, row);
                    holds |=
                        file.record_error(of_row.map_err(|fault| fault_of(file, page, fault)))?;
                }
            }
            if !holds {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Tries all requests whose trace ids have the lower half `low`, reading memory and files.
    fn try_low(&mut self, low: u64) {
        // The error marks an unreadable file for verification.
        let Ok(request) = self.snapshot.request(low) else { return };
        let sorted = request.sorted();
        for rows in requests_of(&sorted) {
            if self.seen.insert(trace_of(&sorted, &rows)) {
                self.try_request(&sorted, rows);
            }
        }
    }

    /// Tries a request; returns whether it is a result. Spans are borrowed one after another, since
    /// they may share values of many megabytes.
    fn try_request(&mut self, sorted: &Sorted<'_>, rows: Range<usize>) -> bool {
        let mut unmet: Vec<&Condition> = self.query.conditions.iter().collect();
        let mut scratch = Scratch::default();
        for index in rows.clone() {
            if unmet.is_empty() || is_cancelled() {
                break;
            }
            let span = sorted.span(index, &mut scratch);
            unmet.retain(|condition| !condition.holds(&span));
        }
        if !unmet.is_empty() {
            return false;
        }
        let spans: Vec<SpanRef<'_>> = rows.map(|index| summary_span(sorted, index)).collect();
        self.insert(rank_request(self.query, &spans))
    }

    /// Inserts a result in the query's order. Returns `false` if `found` is `None`.
    fn insert(&mut self, found: Option<(Place, Summary)>) -> bool {
        let Some((place, summary)) = found else { return false };
        let query = self.query;
        let at = self.found.partition_point(|(it, _)| query.order.compare(it, &place).is_lt());
        self.found.insert(at, (place, summary));
        // One result beyond the page shows that there is a next page.
        self.found.truncate(query.limit.saturating_add(1));
        true
    }

    /// Returns the times of the requests in memory that have a span matching the search's most
    /// selective condition. Leaves out requests that began outside of the window, unless they may
    /// have spans in files.
    fn head_requests(&self) -> HashMap<TraceId, RequestTimes, RandomState> {
        let mut matching: HashSet<u64, RandomState> = HashSet::default();
        for batch in &self.snapshot.batches {
            for_each_match(batch, batch.grouped_rows(), self.driver, |row| {
                matching.insert(batch.trace_low(row));
            });
        }
        let earlier = self.snapshot.earlier.spans();
        for_each_match(earlier, &GroupedRows::of(earlier), self.driver, |row| {
            matching.insert(earlier.trace_low(row));
        });
        let mut requests: HashMap<TraceId, RequestTimes, RandomState> = HashMap::default();
        if matching.is_empty() {
            return requests;
        }
        for block in self.snapshot.blocks() {
            let mut end = 0;
            for lows in block.trace_lows().chunk_by(|one, other| one == other) {
                let rows = end..end + lows.len() as Row;
                end = rows.end;
                if !matching.contains(&lows[0]) {
                    continue;
                }
                for row in rows {
                    if let Some(start) = block.start_ns(row) {
                        let times = requests.entry(block.trace_id(row)).or_default();
                        times.add(block, row, start);
                    }
                }
            }
        }
        // Spans in files may change the start of a request in memory.
        let is_elsewhere = |low| self.snapshot.files.iter().any(|file| file.may_hold(low));
        requests
            .retain(|id, times| self.query.window.holds(times.began()) || is_elsewhere(id.low()));
        requests
    }

    fn head_candidates(&self) -> Vec<Candidate> {
        let requests = self.head_requests().into_iter();
        requests
            .map(|(id, times)| Candidate {
                rank_ns: times.length(),
                location: Location::Memory(id),
            })
            .collect()
    }

    fn file_candidates(
        &mut self,
        place: usize,
        file: &IndexedFile,
    ) -> Result<Vec<Candidate>, Error> {
        let ordinals = self.candidate_ordinals(file, self.ordinals_in_window(file)?)?;
        let loaded = file.load()?;
        let codes = file.record_error(loaded.index.length_codes().map_err(io_error))?;
        let mut elsewhere = file
            .record_error(loaded.index.ordinals_elsewhere().map_err(io_error))?
            .into_iter()
            .peekable();
        let mut candidates = Vec::new();
        let mut by_rank: HashMap<u64, Vec<u32>, RandomState> = HashMap::default();
        for ordinal in ordinals {
            let code = codes.get(ordinal as usize).copied();
            let rank_ns = code.filter(|&code| code != NO_DURATION).map_or(0, Durations::greatest);
            while elsewhere.next_if(|&other| other < ordinal).is_some() {}
            if elsewhere.peek() == Some(&ordinal) {
                // The duration of the request cannot be read from the columns of this file alone.
                candidates.push(Candidate { rank_ns, location: Location::Ordinal(place, ordinal) });
            } else {
                by_rank.entry(rank_ns).or_default().push(ordinal);
            }
        }
        let some = FIRST_MATCHES.max(loaded.index.directory.rows as usize / ROWS_PER_SIMILAR);
        for (rank_ns, ordinals) in by_rank {
            if ordinals.len() > some {
                candidates.push(Candidate {
                    rank_ns,
                    location: Location::SameDuration(self.similar.len()),
                });
                self.similar.push((place, ordinals));
                continue;
            }
            let one = |ordinal| Candidate { rank_ns, location: Location::Ordinal(place, ordinal) };
            candidates.extend(ordinals.into_iter().map(one));
        }
        Ok(candidates)
    }

    /// Returns the ordinals of a file's requests that began in the window.
    fn ordinals_in_window(&self, file: &IndexedFile) -> Result<Range<u32>, Error> {
        let loaded = file.load()?;
        file.record_error(loaded.index.ordinals(self.query.window).map_err(io_error))
    }

    /// Returns the ordinals within a range whose requests may have a span matching the search's
    /// most selective condition.
    fn candidate_ordinals(&self, file: &IndexedFile, among: Range<u32>) -> Result<Vec<u32>, Error> {
        if matches!(self.driver, Condition::All(conditions) if conditions.is_empty()) {
            return Ok(among.collect());
        }
        let loaded = file.load()?;
        let mut ordinals = Vec::new();
        let push = |_, entry: Entry, _| ordinals.push(entry.ordinal);
        file.record_error(for_each_entry(&loaded, self.driver, &among, push).map_err(io_error))?;
        if ordinals.len() < among.len() / REQUESTS_PER_MARK {
            ordinals.sort_unstable();
            ordinals.dedup();
            return Ok(ordinals);
        }
        let mut is_marked = vec![false; among.len()];
        for ordinal in ordinals {
            let mark =
                ordinal.checked_sub(among.start).and_then(|at| is_marked.get_mut(at as usize));
            mark.into_iter().for_each(|mark| *mark = true);
        }
        Ok(among.zip(is_marked).filter(|(_, is_marked)| *is_marked).map(|(it, _)| it).collect())
    }
}

/// Calls `each` with the elements in descending order. Only a few elements are sorted at a time,
/// since `each` usually breaks off early.
fn greatest_first<T: Copy, K: Ord>(
    all: &mut [T],
    key: impl Fn(&T) -> K,
    mut each: impl FnMut(T) -> ControlFlow<()>,
) {
    let key = |one: &T| Reverse(key(one));
    let (mut left, mut some) = (all, FIRST_MATCHES);
    while !left.is_empty() {
        some = some.min(left.len());
        left.select_nth_unstable_by_key(some - 1, key);
        let (next, rest) = left.split_at_mut(some);
        next.sort_unstable_by_key(key);
        if next.iter().try_for_each(|one| each(*one)).is_break() {
            return;
        }
        (left, some) = (rest, some.saturating_mul(4));
    }
}

/// Divides sorted spans into requests. Returns the index range of each request.
fn requests_of(sorted: &Sorted<'_>) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let first = start;
        let id = (first < sorted.len()).then(|| trace_of(sorted, &(first..first + 1)))?;
        while start < sorted.len() && trace_of(sorted, &(start..start + 1)) == id {
            start += 1;
        }
        Some(first..start)
    })
}

fn trace_of(sorted: &Sorted<'_>, rows: &Range<usize>) -> TraceId {
    let (block, row) = sorted.row(rows.start);
    block.trace_id(row)
}

/// Returns a span with the fields that a summary needs. The status is `Error` even if only a tag
/// reports the error.
fn summary_span<'b>(sorted: &Sorted<'b>, index: usize) -> SpanRef<'b> {
    let (block, row) = sorted.row(index);
    let status = if block.is_error(row) { Status::Error } else { Status::Ok };
    SpanRef { status, ..block.span_without_lists(row) }
}

/// Returns the position in the order of results, and the summary, of a request that meets all
/// conditions. Returns `None` if the request has no start in the window, its duration is out of
/// range, or it belongs to an earlier page.
fn rank_request(query: &Query, spans: &[SpanRef<'_>]) -> Option<(Place, Summary)> {
    let began = request_start_ns(spans).filter(|began| query.window.holds(*began))?;
    let summary = Summary::of(spans).filter(|it| query.durations.contains(&it.duration_ns))?;
    let place = query.order.place(summary.trace_id, began, summary.duration_ns);
    let is_before = query.after.is_some_and(|after| query.order.compare(&after, &place).is_ge());
    (!is_before).then_some((place, summary))
}

/// Assembles the spans of a request from the columns of the pages.
fn spans_of<'p>(
    file: &IndexedFile,
    pages: &[(&'p PageColumns, Range<usize>)],
    id: TraceId,
) -> Result<Vec<SpanRef<'p>>, Error> {
    let of_page = |(page, rows): &(&'p PageColumns, Range<usize>)| {
        let page = *page;
        let of_row = move |row| span(page, row, id).map_err(|fault| fault_of(file, page, fault));
        rows.clone().map(of_row)
    };
    file.record_error(pages.iter().flat_map(of_page).collect())
}

/// Returns whether the root of a request is ambiguous: another span has the same start, has a
/// parent if and only if the root has one, and would give a different summary.
fn has_ties(spans: &[SpanRef<'_>]) -> bool {
    let root = root_of(spans);
    root.is_some_and(|root| {
        let place = |span: &SpanRef<'_>| (span.parent_id.is_some(), span.start_ns);
        let said = |span: &SpanRef<'_>| {
            let [this, root] = [span, root].map(|it| (it.local.service, it.name, it.duration_ns));
            this != root
        };
        spans.iter().any(|span| place(span) == place(root) && said(span))
    })
}

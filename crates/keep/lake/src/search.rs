//! Finds requests. Start at [`search`].
//!
//! One condition is asked of what files are found by: the one that the fewest spans meet, as far as that is known. Each
//! request that has such a span is a candidate, and is read as a whole to see whether all holds. Candidates come in
//! order, so that this ends when there are enough requests.

use crate::Error;
use crate::head::Batch;
use crate::index::{Entry, NO_DURATION};
use crate::part::{Part, ROWS_AT_ONCE};
use crate::plan::{Common, Residual, Truth};
use crate::snapshot::Snapshot;
use blkkin_columns::{Block, Row, Scratch};
use blkkin_model::{Held, Span, SpanRef, TraceId};
use blkkin_store::{Condition, Durations, Order, Page, Place, Query, Summary, began_ns};
use foldhash::fast::RandomState;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;

/// Before so many requests are read in vain, the tags of all spans of a file are looked at instead.
const IN_VAIN_MAX: usize = 64;

/// So many of the spans in memory are put in order at once.
const SOME_MATCHES: usize = 4096;

/// Requests that are asked for.
pub(crate) fn search(snapshot: &Snapshot, query: &Query) -> Result<Page, Error> {
    let any = Condition::All(Vec::new());
    let driver = query.conditions.iter().min_by_key(|condition| estimate(snapshot, condition));
    let mut search = Search {
        snapshot,
        query,
        driver: driver.unwrap_or(&any),
        found: Vec::new(),
        seen: HashSet::new(),
        block: Block::new(),
    };
    search.run()?;
    let mut summaries: HashMap<_, _> =
        search.found.iter().map(|(place, summary)| (place.trace_id, summary.clone())).collect();
    let (places, next) = query.page(search.found.iter().map(|(place, _)| *place).collect());
    let requests = places.iter().filter_map(|place| summaries.remove(&place.trace_id));
    Ok(Page { requests: requests.collect(), next })
}

struct Search<'q> {
    snapshot: &'q Snapshot,
    query: &'q Query,
    driver: &'q Condition,
    /// In the query's order, without those before its page.
    found: Vec<(Place, Summary)>,
    seen: HashSet<u64>,
    block: Block,
}

/// A request that may be asked for.
#[derive(Clone, Copy)]
struct Candidate<'q> {
    /// At least as much as its rank is, as far as is known.
    rank_ns: u64,
    at: At<'q>,
}

/// When a request in memory was there.
struct Times {
    /// The first start of a span without a parent.
    root: Option<u64>,
    first: u64,
    last: u64,
}

impl Default for Times {
    fn default() -> Times {
        Times { root: None, first: u64::MAX, last: 0 }
    }
}

impl Times {
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

#[derive(Clone, Copy)]
enum At<'q> {
    Low(u64),
    Ordinal(&'q Part, u32),
}

impl<'q> Search<'q> {
    fn run(&mut self) -> Result<(), Error> {
        let snapshot = self.snapshot;
        let window = self.query.window;
        let parts = snapshot.parts.iter().map(|part| &**part).filter(|part| {
            let entry = &part.entry;
            entry.min_start_ns <= window.end_ns && window.start_ns <= entry.max_start_ns
        });
        match self.query.order {
            Order::Newest => {
                self.look_at_head()?;
                let mut parts: Vec<&Part> = parts.collect();
                parts.sort_by_key(|part| std::cmp::Reverse(part.entry.max_start_ns));
                for part in parts {
                    if self.is_enough(part.entry.max_start_ns) {
                        break;
                    }
                    self.look(part)?;
                }
            }
            Order::Slowest => {
                let mut all = self.head_candidates();
                for part in parts {
                    all.extend(self.part_candidates(part)?);
                }
                all.sort_by_key(|candidate| std::cmp::Reverse(candidate.rank_ns));
                for candidate in all {
                    if self.is_enough(candidate.rank_ns) {
                        break;
                    }
                    match candidate.at {
                        At::Low(low) => self.try_low(low)?,
                        At::Ordinal(part, ordinal) => {
                            let rows = part.index.rows(ordinal).map_err(io_error)?;
                            self.try_rows(part, rows)?
                        }
                    };
                }
            }
        }
        Ok(())
    }

    /// Whether what has at most this rank cannot be on the page any more.
    fn is_enough(&self, rank_ns: u64) -> bool {
        let behind_page = self.query.limit;
        self.found.get(behind_page).is_some_and(|(place, _)| place.rank_ns > rank_ns)
    }

    /// Tries the requests in memory, the newest first, until there are enough.
    fn look_at_head(&mut self) -> Result<(), Error> {
        let mut matches: Vec<(u64, u64)> =
            self.head_requests().into_iter().map(|(id, times)| (times.began(), id.low())).collect();
        let mut left = &mut matches[..];
        while !left.is_empty() {
            let some = left.len().min(SOME_MATCHES);
            left.select_nth_unstable_by_key(some - 1, |found| std::cmp::Reverse(*found));
            let (next, rest) = left.split_at_mut(some);
            next.sort_unstable_by_key(|found| std::cmp::Reverse(*found));
            for &mut (began, low) in next {
                if self.is_enough(began) {
                    return Ok(());
                }
                self.try_low(low)?;
            }
            left = rest;
        }
        Ok(())
    }

    /// Tries the requests of a file, the newest first, until there are enough.
    fn look(&mut self, part: &'q Part) -> Result<(), Error> {
        let ordinals = self.ordinals(part)?;
        let mut in_vain = 0;
        let mut holding = None;
        for &ordinal in ordinals.iter().rev() {
            let is_full = self.found.len() > self.query.limit;
            if is_full && self.is_enough(part.index.start_ns(ordinal).map_err(io_error)?) {
                return Ok(());
            }
            if in_vain == IN_VAIN_MAX && holding.is_none() && asks_spans(part, self.driver) {
                holding = Some(rows_that_hold(part, self.driver)?);
            }
            let rows = part.index.rows(ordinal).map_err(io_error)?;
            let may_hold = |holding: &BTreeSet<u32>| holding.range(rows.clone()).next().is_some();
            if holding.as_ref().is_none_or(may_hold) {
                in_vain += usize::from(!self.try_rows(part, rows)?);
            }
        }
        Ok(())
    }

    /// Reads the request that rows of a file are of, and keeps it if it is asked for.
    fn try_rows(&mut self, part: &Part, rows: Range<u32>) -> Result<bool, Error> {
        self.block.clear();
        part.rows(rows.start..rows.end.min(rows.start + 1), &mut self.block)?;
        let low = self.block.trace_lows().first().copied();
        low.map_or(Ok(false), |low| self.try_low(low))
    }

    /// Reads a request, and keeps it if it is asked for.
    fn try_low(&mut self, low: u64) -> Result<bool, Error> {
        if !self.seen.insert(low) {
            return Ok(false);
        }
        let spans = self.snapshot.spans_of(low, |_| true)?;
        let mut is_found = false;
        for request in spans.chunk_by(|one, other| one.trace_id == other.trace_id) {
            is_found |= self.try_request(request);
        }
        Ok(is_found)
    }

    fn try_request(&mut self, request: &[Span]) -> bool {
        let query = self.query;
        let held: Vec<Held<'_>> = request.iter().map(Span::hold).collect();
        let spans: Vec<SpanRef<'_>> = held.iter().map(Held::as_ref).collect();
        let Some(began) = began_ns(&spans).filter(|_| query.holds(&spans)) else { return false };
        let Some(summary) = Summary::of(&spans) else { return false };
        let place = query.order.place(summary.trace_id, began, summary.duration_ns);
        if query.after.is_some_and(|after| query.order.compare(&after, &place).is_ge()) {
            return false;
        }
        let at = self.found.partition_point(|(it, _)| query.order.compare(it, &place).is_lt());
        self.found.insert(at, (place, summary));
        // One more than the page says that there are more.
        self.found.truncate(query.limit.saturating_add(1));
        true
    }

    /// Requests in memory that have a span that meets the driving condition, and have a time.
    fn head_requests(&self) -> HashMap<TraceId, Times, RandomState> {
        let mut matching: HashSet<u64, RandomState> = HashSet::default();
        for batch in &self.snapshot.batches {
            let mut last = None;
            for_each_match(batch, self.driver, |row| {
                let low = batch.trace_low(row);
                if last != Some(low) {
                    last = Some(low);
                    matching.insert(low);
                }
            });
        }
        let mut requests: HashMap<TraceId, Times, RandomState> = HashMap::default();
        if matching.is_empty() {
            return requests;
        }
        for batch in &self.snapshot.batches {
            let mut last = (0, false);
            for (row, &low) in batch.trace_lows().iter().enumerate() {
                if last.0 != low || row == 0 {
                    last = (low, matching.contains(&low));
                }
                if let (true, Some(start)) = (last.1, batch.start_ns(row as Row)) {
                    let id = batch.trace_id(row as Row);
                    requests.entry(id).or_default().add(batch, row as Row, start);
                }
            }
        }
        requests
    }

    fn head_candidates(&self) -> Vec<Candidate<'q>> {
        let requests = self.head_requests().into_iter();
        requests
            .map(|(id, times)| Candidate { rank_ns: times.length(), at: At::Low(id.low()) })
            .collect()
    }

    fn part_candidates(&self, part: &'q Part) -> Result<Vec<Candidate<'q>>, Error> {
        let ordinals = self.ordinals(part)?;
        let codes = part.index.length_codes().map_err(io_error)?;
        let candidate = |ordinal: u32| {
            let code = codes.get(ordinal as usize).copied();
            let rank_ns = code.filter(|&code| code != NO_DURATION).map_or(0, Durations::greatest);
            Candidate { rank_ns, at: At::Ordinal(part, ordinal) }
        };
        Ok(ordinals.into_iter().map(candidate).collect())
    }

    /// Requests of a file that began in the window and have a span that meets the driving condition, or may.
    fn ordinals(&self, part: &Part) -> Result<Vec<u32>, Error> {
        let among = part.index.ordinals(self.query.window).map_err(io_error)?;
        let mut ordinals = Vec::new();
        let push = |_, entry: Entry, _| ordinals.push(entry.ordinal);
        for_each_entry(part, self.driver, &among, push).map_err(io_error)?;
        ordinals.sort_unstable();
        ordinals.dedup();
        Ok(ordinals)
    }
}

fn io_error(error: std::io::Error) -> Error {
    Error::io("an index")(error)
}

/// How many spans may meet a condition, as far as is known without looking.
fn estimate(snapshot: &Snapshot, condition: &Condition) -> u64 {
    let mut sum = 0u64;
    for part in snapshot.parts.iter() {
        for (_, residual, group) in groups(part, condition) {
            let known = group.durations.iter();
            let may = known.filter(|&&(code, _)| {
                residual.truth(code, true).max(residual.truth(code, false)) != Truth::No
            });
            let of_durations: u64 = may.map(|&(_, count)| u64::from(count)).sum();
            let without: u32 = group.durations.iter().map(|&(_, count)| count).sum();
            let without = u64::from(group.entries.saturating_sub(without));
            let may_without =
                residual.truth(NO_DURATION, true).max(residual.truth(NO_DURATION, false));
            sum += of_durations + if may_without == Truth::No { 0 } else { without };
        }
    }
    sum
}

/// The groups of a file some of whose spans may meet a condition, and what is left of it for them.
fn groups<'p>(
    part: &'p Part,
    condition: &'p Condition,
) -> impl Iterator<Item = (usize, Residual, &'p crate::index::Group)> {
    let directory = &part.index.directory;
    directory.groups.iter().enumerate().filter_map(move |(place, group)| {
        let common = Common {
            service: directory.text(group.service),
            name: directory.text(group.name),
            remote: directory.text(group.remote),
        };
        let residual = Residual::of(condition, common);
        (residual != Residual::Known(false)).then_some((place, residual, group))
    })
}

/// Whether only spans themselves can say whether they meet a condition.
pub(crate) fn asks_spans(part: &Part, condition: &Condition) -> bool {
    groups(part, condition).any(|(_, residual, _)| residual.asks_the_span())
}

/// Calls `each` with the entries, of requests of a range, of spans that meet a condition or may, and which it is.
pub(crate) fn for_each_entry(
    part: &Part,
    condition: &Condition,
    among: &Range<u32>,
    mut each: impl FnMut(usize, Entry, Truth),
) -> std::io::Result<()> {
    for (place, residual, _) in groups(part, condition) {
        for entry in part.index.entries(place, among)? {
            let truth = residual.truth(entry.code, entry.is_error);
            if truth != Truth::No {
                each(place, entry, truth);
            }
        }
    }
    Ok(())
}

/// The rows of a file for which a condition holds, found by looking at them all.
fn rows_that_hold(part: &Part, condition: &Condition) -> Result<BTreeSet<u32>, Error> {
    let mut rows = BTreeSet::new();
    for_each_row(part, |block, row, number| {
        if condition.holds(&block.span(row, &mut Scratch::default())) {
            rows.insert(number);
        }
    })?;
    Ok(rows)
}

/// Calls `each` with all rows of a file: the block that one is in, its place there, and its number in the file.
pub(crate) fn for_each_row(
    part: &Part,
    mut each: impl FnMut(&Block, Row, u32),
) -> Result<(), Error> {
    let end = part.index.directory.rows;
    let mut block = Block::new();
    let mut start = 0;
    while start < end {
        let next = end.min(start.saturating_add(ROWS_AT_ONCE));
        block.clear();
        part.rows(start..next, &mut block)?;
        for row in 0..block.len() as Row {
            each(&block, row, start + row);
        }
        start = next;
    }
    Ok(())
}

/// Calls `each` with the rows of spans that meet a condition.
pub(crate) fn for_each_match(batch: &Batch, condition: &Condition, mut each: impl FnMut(Row)) {
    let mut residuals: HashMap<[u32; 3], Residual> = HashMap::new();
    let mut last = None;
    let mut residual = Residual::Unknown;
    for row in 0..batch.len() as Row {
        let key = [batch.service_id(row), batch.name_id(row), batch.remote_service_id(row)];
        if last != Some(key) {
            last = Some(key);
            let of = || {
                let [service, name, remote] = key.map(|id| Some(batch.text(id)));
                Residual::of(condition, Common { service, name, remote })
            };
            residual = residuals.entry(key).or_insert_with(of).clone();
        }
        let code = batch.duration_ns(row).map_or(NO_DURATION, Durations::code);
        let holds = match residual.truth(code, batch.is_error(row)) {
            Truth::No => false,
            Truth::Yes => true,
            Truth::Maybe => condition.holds(&batch.span(row, &mut Scratch::default())),
        };
        if holds {
            each(row);
        }
    }
}

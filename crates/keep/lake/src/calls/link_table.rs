//! [`LinkTable`]: counts the calls between services, by the minute in which the request began.

use crate::files::index::LinkCount;
use crate::files::indexed_file::IndexedFile;
use blkkin_columns::{Block, Row, Scratch, Sorted};
use blkkin_model::{Span, SpanId, SpanRef, SpanSink, Status};
use blkkin_store::{Call, Durations, Linker, compare, fingerprint, request_start_ns};
use blkkin_sys::run_both;
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

pub(crate) const MINUTE_NS: u64 = 60_000_000_000;

/// Counts of calls by minute, caller and callee.
#[derive(Default)]
pub(crate) struct LinkTable {
    /// Sums by minute, caller and callee. Both services are indexes into `names`.
    links: HashMap<(u64, u32, u32), CallSum, RandomState>,
    names: Vec<Box<str>>,
    numbers: HashMap<Box<str>, u32, RandomState>,
}

#[derive(Clone, Default)]
struct CallSum {
    calls: i64,
    errors: i64,
    durations: BTreeMap<u16, i64>,
}

/// Maximum distance in time between a request's new spans and the starts of the spans in a near
/// file, in nanoseconds. If the request or any request of the file has no times, the file counts as
/// near. Near files are read before far files.
const ARRIVAL_DELAY_MAX_NS: u64 = 2_000_000_000;

/// Maximum number of successful reads of earlier files, for each thread of [`LinkTable::of`] and
/// for each file of a merge. A successful read finds spans of a request in an earlier file. Beyond
/// this number, calls may be counted wrongly and requests sorted wrongly, but ingest stays fast.
const READS_MAX: usize = 1024;

/// Maximum number of reads of far files, for each thread of [`LinkTable::of`]. A far file is an
/// earlier file whose spans are not close in time to the request.
const FAR_READS_MAX: usize = 128;

/// Maximum number of spans kept from earlier files, for each thread of [`LinkTable::of`] and for
/// each file of a merge. [`EARLIER_BYTES_MAX`] is the approximate limit of their memory, for each
/// thread and for a whole merge.
const EARLIER_SPANS_MAX: usize = 32 << 10;
const EARLIER_BYTES_MAX: usize = 16 << 20;

/// Number of spans up to which one thread links all spans. More spans are divided between two
/// threads.
const ONE_THREAD_SPANS_MAX: usize = 4096;

/// Spans from earlier files that belong to the linked requests.
pub(crate) struct EarlierSpans {
    spans: Block,
    /// Set if `spans` is complete: as far as is known, earlier files have no further spans of these
    /// requests.
    is_whole: bool,
    spans_max: usize,
    reads_left: usize,
    far_reads_left: usize,
}

impl Default for EarlierSpans {
    fn default() -> EarlierSpans {
        EarlierSpans::of_files(1)
    }
}

impl EarlierSpans {
    /// Creates an empty set for `count` files, with `count` times the limits of one file. Only the
    /// memory limit does not grow.
    pub(crate) fn of_files(count: usize) -> EarlierSpans {
        EarlierSpans {
            spans: Block::new(),
            is_whole: true,
            spans_max: EARLIER_SPANS_MAX * count,
            reads_left: READS_MAX * count,
            far_reads_left: FAR_READS_MAX * count,
        }
    }

    pub(crate) fn spans(&self) -> &Block {
        &self.spans
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Records that the earlier files may have further spans of these requests.
    pub(crate) fn mark_incomplete(&mut self) {
        self.is_whole = false;
    }

    /// Reads the spans of an earlier file whose trace ids have the lower half `low`, within the
    /// limits.
    pub(crate) fn read(&mut self, file: &IndexedFile, low: u64) {
        if !file.may_hold(low) {
            return;
        }
        let before = self.spans.len();
        let mut sink = LimitedSink { spans: &mut self.spans, most: self.spans_max };
        let read = if self.reads_left > 0 { file.send(low..=low, &mut sink) } else { Ok(false) };
        // A query that needs the file reports the read error.
        self.is_whole &= read.unwrap_or(false);
        self.reads_left -= usize::from(self.spans.len() > before).min(self.reads_left);
    }

    fn add(&mut self, other: &Block) {
        let is_enough = self.spans.len() + other.len() > self.spans_max
            || self.spans.memory_bytes() > EARLIER_BYTES_MAX;
        self.is_whole &= !is_enough && self.spans.append(other).is_ok();
    }
}

/// Sink that appends spans to a block, and stops at the maximum number of spans or bytes of memory.
struct LimitedSink<'b> {
    spans: &'b mut Block,
    most: usize,
}

impl SpanSink for LimitedSink<'_> {
    fn span(&mut self, span: &SpanRef<'_>) -> ControlFlow<()> {
        if self.spans.len() >= self.most || self.spans.memory_bytes() >= EARLIER_BYTES_MAX {
            return ControlFlow::Break(());
        }
        self.spans.span(span)
    }
}

/// Result of [`LinkTable::of`]: the calls of requests, derived from new spans and from spans in
/// earlier files.
pub(crate) struct LinkResult {
    /// Changes to the call counts of the earlier files: new calls, minus calls that the earlier
    /// files counted wrongly.
    pub(crate) table: LinkTable,
    /// Indexes in the sorted list: the spans that are already in earlier files.
    pub(crate) known: HashSet<usize>,
    /// Spans of the same requests in earlier files.
    pub(crate) earlier: EarlierSpans,
}

impl LinkTable {
    /// Derives the calls of requests from their spans in `sorted` and in earlier files. Calls that
    /// were derived from the earlier files alone are subtracted.
    pub(crate) fn of(sorted: &Sorted<'_>, before: &[Arc<IndexedFile>]) -> LinkResult {
        let low = |index: usize| low_of(sorted, index);
        // The spans of a request stay in the same half.
        let half =
            if sorted.len() <= ONE_THREAD_SPANS_MAX { sorted.len() } else { sorted.len() / 2 };
        let middle = half + (half..sorted.len()).take_while(|&at| low(at) == low(half)).count();
        if middle == sorted.len() {
            return LinkResult::of(sorted, 0..middle, before);
        }
        let (mut linked, other) = run_both(
            || LinkResult::of(sorted, 0..middle, before),
            || LinkResult::of(sorted, middle..sorted.len(), before),
        );
        linked.table.merge(&other.table.counts());
        linked.known.extend(other.known);
        linked.earlier.is_whole &= other.earlier.is_whole;
        // The limits are far below the capacity of a block.
        linked.earlier.is_whole &= linked.earlier.spans.append(&other.earlier.spans).is_ok();
        linked
    }

    fn add(&mut self, minute: u64, call: &Call<'_>, times: i64) {
        let key = (minute, self.number(call.parent), self.number(call.child));
        let sum = self.links.entry(key).or_default();
        sum.calls += times;
        sum.errors += if call.is_error { times } else { 0 };
        if let Some(duration) = call.duration_ns {
            *sum.durations.entry(Durations::code(duration)).or_default() += times;
        }
    }

    fn number(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.into());
        self.numbers.insert(name.into(), number);
        number
    }

    /// Adds counts of calls to the table.
    pub(crate) fn merge(&mut self, counts: &[LinkCount]) {
        for count in counts {
            let key = (count.minute, self.number(&count.parent), self.number(&count.child));
            self.links.entry(key).or_default().merge(count);
        }
    }

    /// Returns the counts of the table in order of minute, caller and callee.
    pub(crate) fn counts(self) -> Vec<LinkCount> {
        let LinkTable { links, names, .. } = self;
        let name = |number: u32| names[number as usize].clone().into_string();
        let mut counts: Vec<LinkCount> = links
            .into_iter()
            .map(|((minute, parent, child), sum)| LinkCount {
                minute,
                parent: name(parent),
                child: name(child),
                calls: sum.calls,
                errors: sum.errors,
                durations: sum.durations.into_iter().filter(|&(_, times)| times != 0).collect(),
            })
            .collect();
        counts
            .sort_by(|a, b| (a.minute, &a.parent, &a.child).cmp(&(b.minute, &b.parent, &b.child)));
        counts
    }
}

fn low_of(sorted: &Sorted<'_>, index: usize) -> u64 {
    let (block, row) = sorted.row(index);
    block.trace_low(row)
}

impl LinkResult {
    fn of(sorted: &Sorted<'_>, places: Range<usize>, before: &[Arc<IndexedFile>]) -> LinkResult {
        let mut linker = RequestLinker {
            table: LinkTable::default(),
            known: HashSet::new(),
            all_earlier: EarlierSpans::default(),
            linker: Linker::default(),
            before,
        };
        let mut start = places.start;
        while start < places.end {
            let low = low_of(sorted, start);
            let of_request = |&index: &usize| low_of(sorted, index) == low;
            let end = start + (start..places.end).take_while(of_request).count();
            linker.request(sorted, start..end, low);
            start = end;
        }
        let RequestLinker { table, known, all_earlier: earlier, .. } = linker;
        LinkResult { table, known, earlier }
    }
}

impl CallSum {
    fn merge(&mut self, count: &LinkCount) {
        self.calls = self.calls.saturating_add(count.calls);
        self.errors = self.errors.saturating_add(count.errors);
        for &(code, times) in &count.durations {
            let sum = self.durations.entry(code).or_default();
            *sum = sum.saturating_add(times);
        }
    }
}

/// Linker that derives the calls of requests, one request at a time.
struct RequestLinker<'p> {
    table: LinkTable,
    known: HashSet<usize>,
    all_earlier: EarlierSpans,
    linker: Linker,
    before: &'p [Arc<IndexedFile>],
}

impl RequestLinker<'_> {
    fn request(&mut self, sorted: &Sorted<'_>, places: Range<usize>, low: u64) {
        let outlines = places.clone().map(|index| {
            let (block, row) = sorted.row(index);
            outline(block, row)
        });
        let spans: Vec<SpanRef<'_>> = outlines.collect();
        let mut all = self.read_earlier_spans(&spans, low);
        if all.is_empty() {
            self.link(&spans, 1);
            return;
        }
        self.all_earlier.add(&all);
        // Subtract the calls that were counted when the earlier files were written. All calls of
        // the request are added below.
        self.link_block(&all, -1);
        let (mut one, mut other) = (Scratch::default(), Scratch::default());
        let mut there: HashMap<u64, Vec<Row>, RandomState> = HashMap::default();
        for row in 0..all.len() as Row {
            there.entry(fingerprint(&all.span(row, &mut other))).or_default().push(row);
        }
        let new: Vec<Span> = places
            .filter_map(|index| {
                let span = sorted.span(index, &mut one);
                let is_same = |&row: &Row| compare(&all.span(row, &mut other), &span).is_eq();
                if there.get(&fingerprint(&span)).is_some_and(|rows| rows.iter().any(is_same)) {
                    self.known.insert(index);
                    return None;
                }
                Some(span.to_owned())
            })
            .collect();
        for span in new {
            // The capacity of a block is far above the size of a request.
            let _ = all.push(&span.ref_buffer().as_ref());
        }
        self.link_block(&all, 1);
    }

    fn link_block(&mut self, block: &Block, times: i64) {
        let sorted = Sorted::of(&[block]);
        let outlines = (0..sorted.len()).map(|index| {
            let (block, row) = sorted.row(index);
            outline(block, row)
        });
        self.link(&outlines.collect::<Vec<_>>(), times);
    }

    fn link(&mut self, spans: &[SpanRef<'_>], times: i64) {
        let Some(began) = request_start_ns(spans) else { return };
        let minute = began / MINUTE_NS;
        let table = &mut self.table;
        self.linker.link(spans, |_| true, |call| table.add(minute, &call, times));
    }

    /// Reads the spans of a request from earlier files, first from files whose spans are close in
    /// time. Other files are read only while a parent span is missing.
    fn read_earlier_spans(&mut self, spans: &[SpanRef<'_>], low: u64) -> Block {
        let first = spans.iter().filter_map(|span| span.start_ns).min();
        let end = |span: &SpanRef<'_>| {
            Some(span.start_ns?.saturating_add(span.duration_ns.unwrap_or_default()))
        };
        let times = first.zip(spans.iter().filter_map(end).max());
        let is_near = |file: &IndexedFile| {
            !file.summary.all_have_times
                || times.is_none_or(|(first, last)| {
                    file.entry.min_start_ns <= last.saturating_add(ARRIVAL_DELAY_MAX_NS)
                        && first.saturating_sub(ARRIVAL_DELAY_MAX_NS) <= file.entry.max_start_ns
                })
        };
        let mut found = EarlierSpans {
            reads_left: self.all_earlier.reads_left,
            far_reads_left: self.all_earlier.far_reads_left,
            ..EarlierSpans::default()
        };
        let before = self.before;
        before.iter().filter(|file| is_near(file)).for_each(|file| found.read(file, low));
        // Newest file first, since few requests last long.
        let far = before.iter().rev().filter(|file| !is_near(file));
        let mut lacks = None;
        for file in far {
            if !*lacks.get_or_insert_with(|| lacks_parents(spans, &found.spans)) {
                break;
            }
            if file.may_hold(low) {
                let is_possible = found.far_reads_left > 0;
                found.is_whole &= is_possible;
                found.far_reads_left = found.far_reads_left.saturating_sub(1);
                if is_possible {
                    found.read(file, low);
                    lacks = None;
                }
            }
        }
        let EarlierSpans { spans, is_whole, reads_left, far_reads_left, .. } = found;
        let all = &mut self.all_earlier;
        (all.reads_left, all.far_reads_left) = (reads_left, far_reads_left);
        all.is_whole &= is_whole;
        spans
    }
}

/// Returns whether any span's parent is in neither `spans` nor `found`.
fn lacks_parents(spans: &[SpanRef<'_>], found: &Block) -> bool {
    let rows = 0..found.len() as Row;
    let mut ids: Vec<SpanId> = spans.iter().map(|span| span.id).collect();
    ids.extend(rows.clone().map(|row| found.id(row)));
    ids.sort_unstable();
    let of_spans = spans.iter().filter_map(|span| span.parent_id);
    let mut parents = of_spans.chain(rows.filter_map(|row| found.parent_id(row)));
    parents.any(|parent| ids.binary_search(&parent).is_err())
}

/// Returns a span with only the fields that linking needs. A span that failed by its tag `error`
/// gets the status [`Status::Error`], since the tags are omitted.
fn outline(block: &Block, row: Row) -> SpanRef<'_> {
    SpanRef {
        parent_id: block.parent_id(row),
        kind: block.kind(row),
        status: if block.is_error(row) { Status::Error } else { Status::Unset },
        shared: block.is_shared(row),
        start_ns: block.start_ns(row),
        duration_ns: block.duration_ns(row),
        local: block.endpoint(block.local_id(row)),
        remote: block.endpoint(block.remote_id(row)),
        ..SpanRef::new(block.trace_id(row), block.id(row))
    }
}

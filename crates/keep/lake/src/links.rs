//! Adds up which services call which, by the minute in which requests began. Start at [`LinkTable`].

use crate::index::LinkCount;
use crate::part::Part;
use blkkin_columns::{Block, Row, Scratch, Sorted};
use blkkin_model::{SpanRef, Status};
use blkkin_store::{Call, Durations, Link, Linker, Window, began_ns, compare};
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

const MINUTE_NS: u64 = 60_000_000_000;

/// Calls by minute, who calls and who is called.
#[derive(Default)]
pub(crate) struct LinkTable {
    links: HashMap<(u64, String, String), Sum, RandomState>,
}

#[derive(Default)]
struct Sum {
    calls: u64,
    errors: u64,
    durations: Durations,
}

/// Spans of a request may come so long after others that they are in another file.
const LATE_NS: u64 = 2_000_000_000;

/// So often one of the files of before is read for a request: when more spans come late than that, their calls may be
/// counted wrongly, rather than that all goes slowly.
const READS_MAX: usize = 512;

impl LinkTable {
    /// Adds the calls that requests show, and did not show by those of their spans that are in files of before.
    pub(crate) fn of(sorted: &Sorted<'_>, before: &[Arc<Part>]) -> LinkTable {
        let mut adding =
            Adding { table: LinkTable::default(), linker: Linker::default(), before, reads: 0 };
        let low = |index: usize| {
            let (block, row) = sorted.row(index);
            block.trace_low(row)
        };
        let mut start = 0;
        while start < sorted.len() {
            let of = low(start);
            let count = (start..sorted.len()).take_while(|&index| low(index) == of).count();
            adding.request(sorted, start..start + count, of);
            start += count;
        }
        adding.table
    }

    fn add(&mut self, minute: u64, call: &Call<'_>) {
        let key = (minute, call.parent.to_owned(), call.child.to_owned());
        let sum = self.links.entry(key).or_default();
        sum.calls += 1;
        sum.errors += u64::from(call.is_error);
        if let Some(duration) = call.duration_ns {
            sum.durations.add(Durations::code(duration), 1);
        }
    }

    /// Adds what was counted before.
    pub(crate) fn merge(&mut self, counts: &[LinkCount]) {
        for count in counts {
            let key = (count.minute, count.parent.clone(), count.child.clone());
            let sum = self.links.entry(key).or_default();
            sum.calls = sum.calls.saturating_add(count.calls);
            sum.errors = sum.errors.saturating_add(count.errors);
            for &(code, times) in &count.durations {
                sum.durations.add(code, times);
            }
        }
    }

    /// In order.
    pub(crate) fn counts(self) -> Vec<LinkCount> {
        let mut counts: Vec<LinkCount> = self
            .links
            .into_iter()
            .map(|((minute, parent, child), sum)| LinkCount {
                minute,
                parent,
                child,
                calls: sum.calls,
                errors: sum.errors,
                durations: sum.durations.counts().to_vec(),
            })
            .collect();
        counts
            .sort_by(|a, b| (a.minute, &a.parent, &a.child).cmp(&(b.minute, &b.parent, &b.child)));
        counts
    }
}

/// Finds the calls of requests.
struct Adding<'p> {
    table: LinkTable,
    linker: Linker,
    before: &'p [Arc<Part>],
    reads: usize,
}

impl Adding<'_> {
    fn request(&mut self, sorted: &Sorted<'_>, places: Range<usize>, low: u64) {
        let outlines = places.clone().map(|index| {
            let (block, row) = sorted.row(index);
            outline(block, row)
        });
        let spans: Vec<SpanRef<'_>> = outlines.collect();
        let earlier = self.earlier(&spans, low);
        if earlier.is_empty() {
            self.link(&spans, |_| true);
            return;
        }
        // What is sent again was counted.
        let (mut one, mut other) = (Scratch::default(), Scratch::default());
        let is_new: Vec<bool> = places
            .map(|index| {
                let span = sorted.span(index, &mut one);
                let is_same = |row| compare(&earlier.span(row, &mut other), &span).is_eq();
                !(0..earlier.len() as Row).any(is_same)
            })
            .collect();
        let new =
            spans.iter().copied().zip(is_new).filter_map(|(span, is_new)| is_new.then_some(span));
        let known = earlier.len();
        let all: Vec<SpanRef<'_>> =
            (0..known as Row).map(|row| outline(&earlier, row)).chain(new).collect();
        self.link(&all, |index| index >= known);
    }

    fn link(&mut self, spans: &[SpanRef<'_>], counts: impl Fn(usize) -> bool) {
        let Some(began) = began_ns(spans) else { return };
        let minute = began / MINUTE_NS;
        let table = &mut self.table;
        self.linker.link(spans, counts, |call| table.add(minute, &call));
    }

    /// The spans of a request that are in files of before.
    fn earlier(&mut self, spans: &[SpanRef<'_>], low: u64) -> Block {
        let mut earlier = Block::new();
        let starts = || spans.iter().filter_map(|span| span.start_ns);
        let Some((first, last)) = starts().min().zip(starts().max()) else { return earlier };
        for part in self.before {
            let is_near = part.entry.min_start_ns <= last.saturating_add(LATE_NS)
                && first.saturating_sub(LATE_NS) <= part.entry.max_start_ns;
            if is_near && self.reads < READS_MAX && part.index.may_hold(low) {
                self.reads += 1;
                // What cannot be read is told by who asks for it.
                let _ = part.between(low..=low, &mut earlier);
            }
        }
        earlier
    }
}

/// The links of a window, in order of parent and child, of calls by minute.
pub(crate) fn in_window<'c>(
    counts: impl IntoIterator<Item = &'c LinkCount>,
    window: Window,
) -> Vec<Link> {
    let minutes = window.start_ns / MINUTE_NS..=window.end_ns / MINUTE_NS;
    let mut links: BTreeMap<(&str, &str), Link> = BTreeMap::new();
    for count in counts.into_iter().filter(|count| minutes.contains(&count.minute)) {
        let link = links.entry((&count.parent, &count.child)).or_insert_with(|| Link {
            parent: count.parent.clone(),
            child: count.child.clone(),
            ..Link::default()
        });
        link.calls = link.calls.saturating_add(count.calls);
        link.errors = link.errors.saturating_add(count.errors);
        for &(code, times) in &count.durations {
            link.durations.add(code, times);
        }
    }
    links.into_values().collect()
}

/// What linking needs to know of a span.
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

//! Adds up which services call which, by the minute in which requests began. Start at [`LinkTable`].

use crate::index::LinkCount;
use crate::ledger::Calls;
use crate::part::Part;
use blkkin_columns::{Block, Row, Scratch, Sorted};
use blkkin_model::{Span, SpanId, SpanRef, Status};
use blkkin_store::{Call, Durations, Link, Linker, Window, began_ns, compare};
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use std::thread;

const MINUTE_NS: u64 = 60_000_000_000;

/// Calls by minute, who calls and who is called.
#[derive(Default)]
pub(crate) struct LinkTable {
    links: HashMap<(u64, String, String), Sum, RandomState>,
}

#[derive(Clone, Default)]
struct Sum {
    calls: i64,
    errors: i64,
    durations: BTreeMap<u16, i64>,
}

/// Spans of a request may come so long after others that they are in another file.
const LATE_NS: u64 = 2_000_000_000;

/// So often one of the files of before is read for a request: when more spans come late than that, their calls may be
/// counted wrongly, and their requests found late, rather than that all goes slowly.
pub(crate) const READS_MAX: usize = 512;

/// So many of the spans that are read so are kept.
pub(crate) const EARLIER_MAX: usize = 32 << 10;

/// What requests show, together with their spans that are in files of before.
pub(crate) struct Linked {
    /// Calls that were not shown before.
    pub(crate) table: LinkTable,
    /// Which spans are in those files already.
    pub(crate) known: HashSet<usize>,
    /// Those that are there.
    pub(crate) earlier: Block,
}

impl LinkTable {
    /// Finds the calls that requests show, and did not show by those of their spans that are in files of before.
    pub(crate) fn of(sorted: &Sorted<'_>, before: &[Arc<Part>]) -> Linked {
        let low = |index: usize| low_of(sorted, index);
        // A request is not cut in two.
        let half = sorted.len() / 2;
        let middle = half + (half..sorted.len()).take_while(|&at| low(at) == low(half)).count();
        let (mut linked, other) = thread::scope(|scope| {
            let other = scope.spawn(|| Linked::of(sorted, middle..sorted.len(), before));
            let one = Linked::of(sorted, 0..middle, before);
            (one, other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        linked.table.merge(&other.table.counts());
        linked.known.extend(other.known);
        // Both have room for twice as much.
        let _ = linked.earlier.append(&other.earlier);
        linked
    }

    fn add(&mut self, minute: u64, call: &Call<'_>, times: i64) {
        let key = (minute, call.parent.to_owned(), call.child.to_owned());
        let sum = self.links.entry(key).or_default();
        sum.calls += times;
        sum.errors += if call.is_error { times } else { 0 };
        if let Some(duration) = call.duration_ns {
            *sum.durations.entry(Durations::code(duration)).or_default() += times;
        }
    }

    /// Adds what was counted before.
    pub(crate) fn merge(&mut self, counts: &[LinkCount]) {
        for count in counts {
            let key = (count.minute, count.parent.clone(), count.child.clone());
            self.links.entry(key).or_default().merge(count);
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

impl Linked {
    fn of(sorted: &Sorted<'_>, places: Range<usize>, before: &[Arc<Part>]) -> Linked {
        let mut adding = Adding {
            table: LinkTable::default(),
            known: HashSet::new(),
            all_earlier: Block::new(),
            linker: Linker::default(),
            before,
            reads: 0,
        };
        let mut start = places.start;
        while start < places.end {
            let low = low_of(sorted, start);
            let of_request = |&index: &usize| low_of(sorted, index) == low;
            let end = start + (start..places.end).take_while(of_request).count();
            adding.request(sorted, start..end, low);
            start = end;
        }
        let Adding { table, known, all_earlier: earlier, .. } = adding;
        Linked { table, known, earlier }
    }
}

impl Sum {
    fn merge(&mut self, count: &LinkCount) {
        self.calls = self.calls.saturating_add(count.calls);
        self.errors = self.errors.saturating_add(count.errors);
        for &(code, times) in &count.durations {
            let sum = self.durations.entry(code).or_default();
            *sum = sum.saturating_add(times);
        }
    }
}

/// Finds the calls of requests.
struct Adding<'p> {
    table: LinkTable,
    known: HashSet<usize>,
    all_earlier: Block,
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
        let mut all = self.earlier(&spans, low);
        if all.is_empty() {
            self.link(&spans, 1);
            return;
        }
        if self.all_earlier.len() + all.len() <= EARLIER_MAX {
            // A block has room for far more.
            let _ = self.all_earlier.append(&all);
        }
        // What all of it shows, but for what was counted when the files of before were made.
        self.link_block(&all, -1);
        let earlier = all.len() as Row;
        let (mut one, mut other) = (Scratch::default(), Scratch::default());
        let new: Vec<Span> = places
            .filter_map(|index| {
                let span = sorted.span(index, &mut one);
                let is_same = |row| compare(&all.span(row, &mut other), &span).is_eq();
                if (0..earlier).any(is_same) {
                    self.known.insert(index);
                    return None;
                }
                Some(span.to_owned())
            })
            .collect();
        for span in new {
            // A block has room for far more than a request.
            let _ = all.push(&span.hold().as_ref());
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
        let Some(began) = began_ns(spans) else { return };
        let minute = began / MINUTE_NS;
        let table = &mut self.table;
        self.linker.link(spans, |_| true, |call| table.add(minute, &call, times));
    }

    /// The spans of a request that are in files of before.
    fn earlier(&mut self, spans: &[SpanRef<'_>], low: u64) -> Block {
        let mut earlier = Block::new();
        let first = spans.iter().filter_map(|span| span.start_ns).min();
        let end = |span: &SpanRef<'_>| {
            Some(span.start_ns?.saturating_add(span.duration_ns.unwrap_or_default()))
        };
        let times = first.zip(spans.iter().filter_map(end).max());
        let mut lacks_some = None;
        for part in self.before {
            let entry = &part.entry;
            let is_near = !part.facts.all_have_times
                || times.is_none_or(|(first, last)| {
                    entry.min_start_ns <= last.saturating_add(LATE_NS)
                        && first.saturating_sub(LATE_NS) <= entry.max_start_ns
                })
                // Whoever caused it must be somewhere, however long ago that was.
                || *lacks_some.get_or_insert_with(|| lacks_parents(spans));
            if is_near && self.reads < READS_MAX && part.may_hold(low) {
                self.reads += 1;
                // What cannot be read is told by who asks for it.
                let _ = part.between(low..=low, &mut earlier);
            }
        }
        earlier
    }
}

/// Whether parents of spans are not among them.
fn lacks_parents(spans: &[SpanRef<'_>]) -> bool {
    let mut ids: Vec<SpanId> = spans.iter().map(|span| span.id).collect();
    ids.sort_unstable();
    let mut parents = spans.iter().filter_map(|span| span.parent_id);
    parents.any(|parent| ids.binary_search(&parent).is_err())
}

/// The minutes that a window has a part in.
pub(crate) fn minutes_of(window: Window) -> RangeInclusive<u64> {
    window.start_ns / MINUTE_NS..=window.end_ns / MINUTE_NS
}

/// The links of a window, in order of parent and child, of calls by minute: those that are known of files, those that
/// must be asked of them, and the ones in memory.
pub(crate) fn in_window(
    known: Calls,
    parts: &[Arc<Part>],
    head: &[LinkCount],
    minutes: &RangeInclusive<u64>,
) -> Vec<Link> {
    let mut sums: BTreeMap<(String, String), Sum> = BTreeMap::new();
    let mut add = |count: &LinkCount| {
        let pair = (count.parent.clone(), count.child.clone());
        sums.entry(pair).or_default().merge(count);
    };
    head.iter().filter(|count| minutes.contains(&count.minute)).for_each(&mut add);
    let is_missing = |minute: &u64| known.missing.iter().any(|it| it.contains(minute));
    let has_missing = |&(first, last): &(u64, u64)| {
        known.missing.iter().any(|it| *it.start() <= last && first <= *it.end())
    };
    for part in
        parts.iter().filter(|part| part.facts.link_minutes.is_some_and(|it| has_missing(&it)))
    {
        // A file that cannot be read is counted; the others answer.
        let links = part.links().unwrap_or_default();
        links.iter().filter(|count| is_missing(&count.minute)).for_each(&mut add);
    }
    let mut links = Vec::with_capacity(known.links.len());
    for mut count in known.links {
        let pair = (std::mem::take(&mut count.parent), std::mem::take(&mut count.child));
        // Mostly there is nothing to add.
        let (calls, errors, counts) = match sums.remove(&pair) {
            None => (count.calls, count.errors, count.durations),
            Some(mut sum) => {
                sum.merge(&count);
                (sum.calls, sum.errors, sum.durations.into_iter().collect())
            }
        };
        links.extend(link_of(pair, calls, errors, &counts));
    }
    for (pair, sum) in sums {
        let counts: Vec<(u16, i64)> = sum.durations.into_iter().collect();
        links.extend(link_of(pair, sum.calls, sum.errors, &counts));
    }
    links.sort_by(|one, other| (&one.parent, &one.child).cmp(&(&other.parent, &other.child)));
    links
}

/// A link, if there are calls.
fn link_of(
    (parent, child): (String, String),
    calls: i64,
    errors: i64,
    counts: &[(u16, i64)],
) -> Option<Link> {
    let unsigned = |number: i64| u64::try_from(number).unwrap_or(0);
    let mut durations = Durations::default();
    for &(code, times) in counts {
        durations.add(code, unsigned(times));
    }
    let (calls, errors) = (unsigned(calls), unsigned(errors));
    (calls > 0).then_some(Link { parent, child, calls, errors, durations })
}

/// What linking needs to know of a span.
fn outline(block: &Block, row: Row) -> SpanRef<'_> {
    SpanRef {
        parent_id: block.parent_id(row),
        kind: block.kind(row),
        // Which of several parts of a span come first depends on it.
        name: block.text(block.name_id(row)),
        status: if block.is_error(row) { Status::Error } else { Status::Unset },
        shared: block.is_shared(row),
        start_ns: block.start_ns(row),
        duration_ns: block.duration_ns(row),
        local: block.endpoint(block.local_id(row)),
        remote: block.endpoint(block.remote_id(row)),
        ..SpanRef::new(block.trace_id(row), block.id(row))
    }
}

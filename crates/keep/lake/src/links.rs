//! Adds up which services call which, by the minute in which requests began. Start at [`LinkTable`].

use crate::index::LinkCount;
use blkkin_columns::{Block, Row, Sorted};
use blkkin_model::{SpanRef, Status};
use blkkin_store::{Call, Durations, Link, Linker, Window, began_ns};
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, HashMap};

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

impl LinkTable {
    /// Adds the calls of all requests.
    pub(crate) fn of(sorted: &Sorted<'_>) -> LinkTable {
        let mut table = LinkTable::default();
        let mut linker = Linker::default();
        let mut spans: Vec<SpanRef<'_>> = Vec::new();
        for index in 0..sorted.len() {
            let (block, row) = sorted.row(index);
            let span = outline(block, row);
            if spans.last().is_some_and(|last| last.trace_id.low() != span.trace_id.low()) {
                table.link(&mut linker, &spans);
                spans.clear();
            }
            spans.push(span);
        }
        table.link(&mut linker, &spans);
        table
    }

    fn link(&mut self, linker: &mut Linker, spans: &[SpanRef<'_>]) {
        let Some(began) = began_ns(spans) else { return };
        let minute = began / MINUTE_NS;
        linker.link(spans, |_| true, |call| self.add(minute, &call));
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

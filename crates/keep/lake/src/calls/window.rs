//! Calls of a time window, from files and from memory. Start at [`in_window`].

use crate::calls::ledger::{Adder, WindowCalls};
use crate::calls::link_table::{LinkTable, MINUTE_NS};
use crate::files::index::LinkCount;
use crate::files::indexed_file::IndexedFile;
use blkkin_store::{Link, Window};
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Returns the range of minutes that overlap a window.
pub(crate) fn minutes_of(window: Window) -> RangeInclusive<u64> {
    window.start_ns / MINUTE_NS..=window.end_ns / MINUTE_NS
}

/// Returns the calls of a window as links, in order of caller and callee. Each link is a sum of
/// three sources: the ledger (`known`), the files' counts for minutes missing in the ledger, and
/// the calls of spans in memory (`head`).
pub(crate) fn in_window(
    known: WindowCalls,
    files: &[Arc<IndexedFile>],
    head: &[LinkCount],
    minutes: &RangeInclusive<u64>,
) -> Vec<Link> {
    let is_missing = |minute: &u64| known.missing.iter().any(|it| it.contains(minute));
    let has_missing = |&(first, last): &(u64, u64)| {
        known.missing.iter().any(|it| *it.start() <= last && first <= *it.end())
    };
    let mut of_files = LinkTable::default();
    for file in
        files.iter().filter(|file| file.summary.link_minutes.is_some_and(|it| has_missing(&it)))
    {
        // The error marks an unreadable file for verification; the result lacks the file's
        // calls.
        let mut links = file.links().unwrap_or_default();
        links.retain(|count| is_missing(&count.minute));
        // Counts of all minutes are summed, so they share the minute 0.
        links.iter_mut().for_each(|count| count.minute = 0);
        of_files.merge(&links);
    }
    let of_files = of_files.counts();
    let of_head = head.iter().filter(|count| minutes.contains(&count.minute));
    let mut others: HashMap<(&str, &str), Vec<&LinkCount>, RandomState> = HashMap::default();
    for count in of_head.chain(&of_files) {
        others.entry((&count.parent, &count.child)).or_default().push(count);
    }
    let mut adder = Adder::default();
    let mut add = |mut link: LinkCount, others: Vec<&LinkCount>| {
        for (code, times) in link.durations {
            adder.add(code, times);
        }
        for other in others {
            link.calls = link.calls.saturating_add(other.calls);
            link.errors = link.errors.saturating_add(other.errors);
            other.durations.iter().for_each(|&(code, times)| adder.add(code, times));
        }
        LinkCount { durations: adder.drain(), ..link }
    };
    let mut of_known = Vec::with_capacity(known.links.len());
    for link in &known.links {
        of_known.push(others.remove(&(&link.parent[..], &link.child[..])).unwrap_or_default());
    }
    let new = others.into_iter().map(|((parent, child), others)| {
        let (parent, child) = (parent.to_owned(), child.to_owned());
        (LinkCount { parent, child, ..LinkCount::default() }, others)
    });
    let new: Vec<_> = new.collect();
    let all = known.links.into_iter().zip(of_known).chain(new);
    let links = all.map(|(link, others)| if others.is_empty() { link } else { add(link, others) });
    let links: Vec<LinkCount> = links.collect();
    let mut links: Vec<Link> = links.into_iter().filter_map(link_of).collect();
    links.sort_by(|one, other| (&one.parent, &one.child).cmp(&(&other.parent, &other.child)));
    links
}

/// Converts a count to a link; `None` if the number of calls is not positive.
fn link_of(count: LinkCount) -> Option<Link> {
    let LinkCount { minute: _, parent, child, calls, errors, durations } = count;
    let unsigned = |number: i64| u64::try_from(number).unwrap_or(0);
    let durations = durations.into_iter().map(|(code, times)| (code, unsigned(times))).collect();
    let (calls, errors) = (unsigned(calls), unsigned(errors));
    (calls > 0).then_some(Link { parent, child, calls, errors, durations })
}

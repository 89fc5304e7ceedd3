//! Tests of searches by duration. Few requests are read to find the slowest ones, even if very many
//! requests have the same duration.

use super::search_counted;
use crate::{Lake, Options};
use blkkin_model::{SpanId, SpanRef, TraceId};
use blkkin_store::{Batch, Condition, Order, Policy, Query, SpanStore};
use blkkin_wire::{Format, encode};
use std::sync::mpsc;

const REQUESTS: u64 = 100_000;

/// Maximum number of requests that may be read for one of the first three pages of results.
const READ_MAX: usize = 1000;

/// Trace id, duration and name of a request with one span.
type Request = (TraceId, Option<u64>, &'static str);

/// Generates requests in random order of ids. They have `durations` distinct durations, or no
/// durations if it is 0. Some ids have a nonzero upper half.
fn requests(durations: u64) -> Vec<Request> {
    let request = |number: u64| {
        let low = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let high = u128::from(number % 3 / 2 * (number % 5)) << 64;
        let id = TraceId::from_number(high | u128::from(low)).expect("not 0");
        let duration = number.checked_rem(durations).map(|more| 1_000_000 + more);
        (id, duration, if number.is_multiple_of(10) { "some" } else { "most" })
    };
    (1..=REQUESTS).map(request).collect()
}

/// Sends the requests. With `child_ns`, each root has a child of that duration, which is
/// asynchronous work if it is longer than the root.
fn send(lake: &Lake, requests: &[Request], child_ns: Option<u64>) {
    for some in requests.chunks(50_000) {
        let spans = some.iter().zip(1..).flat_map(|(&(trace_id, duration_ns, name), number)| {
            let id = |number| SpanId::from_number(number).expect("not 0");
            let root_id = id(2 * number);
            let start_ns = Some(1_000_000_000 + trace_id.low() % 1000);
            let root = SpanRef { name, start_ns, duration_ns, ..SpanRef::new(trace_id, root_id) };
            let child = child_ns.map(|_| SpanRef {
                parent_id: Some(root_id),
                start_ns,
                duration_ns: child_ns,
                ..SpanRef::new(trace_id, id(2 * number + 1))
            });
            [Some(root), child].into_iter().flatten()
        });
        let mut bytes = Vec::new();
        encode(Format::OtlpProto, spans, &mut bytes);
        let (tell, told) = mpsc::channel();
        let batch = Batch { format: Format::OtlpProto, bytes: &bytes, policy: Policy::Whole };
        lake.accept(batch, Box::new(move |outcome| drop(tell.send(outcome))));
        told.recv().expect("an answer").expect("taken");
    }
}

/// Asserts that three pages of results equal a sorted list of all requests. Returns the greatest
/// number of requests that were read for a page.
fn check(lake: &Lake, requests: &[Request], filter: &str, what: &str) -> usize {
    let conditions = match filter {
        "" => Vec::new(),
        filter => vec![Condition::parse(filter).expect("a filter")],
    };
    let is_asked_for = |name: &str| filter.is_empty() || filter.contains(name);
    let mut expected: Vec<(u64, TraceId)> = requests
        .iter()
        .filter(|(_, _, name)| is_asked_for(name))
        .map(|(id, duration, _)| (duration.unwrap_or(0), *id))
        .collect();
    expected.sort_by_key(|(duration, id)| (std::cmp::Reverse(*duration), *id));
    let mut query = Query { order: Order::Slowest, conditions, ..Query::new(20) };
    let mut read_max = 0;
    for number in 0..3 {
        let fruitless_reads_max = Options::default().fruitless_reads_max;
        let result = search_counted(&lake.shared.snapshot(), &query, fruitless_reads_max);
        let (page, requests_read) = result.expect("found");
        let found: Vec<(u64, TraceId)> =
            page.requests.iter().map(|it| (it.duration_ns, it.trace_id)).collect();
        assert_eq!(found, expected[number * 20..number * 20 + 20], "{what} {filter:?} {number}");
        read_max = read_max.max(requests_read);
        query.after = page.next;
    }
    read_max
}

#[test]
fn few_of_many_alike_are_read_for_the_slowest() {
    for durations in [0, 1, 7] {
        let directory = tempfile::tempdir().expect("a folder");
        let (lake, _) = Lake::open(directory.path(), Options::default()).expect("opened");
        let all = requests(durations);
        send(&lake, &all, None);
        let filters = ["", "name == \"some\""];
        let check_reads = |filter: &str, place: &str| {
            let what = format!("{durations} durations {place}");
            let read = check(&lake, &all, filter, &what);
            assert!(read <= READ_MAX, "{what}, {filter:?}: {read} requests read");
        };
        filters.iter().for_each(|filter| check_reads(filter, "in memory"));
        lake.flush().expect("written");
        filters.iter().for_each(|filter| check_reads(filter, "in a file"));
    }
}

/// Results are ordered by the duration of the root, also if other spans end later and all requests
/// take equally long from the first start to the last end.
#[test]
fn work_after_the_root_hides_no_request() {
    let directory = tempfile::tempdir().expect("a folder");
    let (lake, _) = Lake::open(directory.path(), Options::default()).expect("opened");
    // More requests than a column scan selects at first. All of them are read for each page.
    let all = requests(7)[..6000].to_vec();
    send(&lake, &all, Some(1_500_000));
    lake.flush().expect("written");
    check(&lake, &all, "", "in a file");
}

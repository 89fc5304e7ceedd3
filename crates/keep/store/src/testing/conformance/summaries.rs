//! Conformance cases for lists of names and tags, for summaries, and for durations.

use super::tested_store::{MS, NOON, SpanBuilder, Subject, condition, span, trace_id};
use crate::{Durations, Query, Window};
use blkkin_model::{Span, SpanId};
use std::collections::BTreeSet;

/// The services, a service's span names and the remote services of its spans are listed in byte
/// order, without duplicates and without empty names.
pub(super) fn names_are_listed(subject: &Subject) {
    let store = subject.store();
    let many: Vec<Span> = (0..60u64)
        .map(|at| {
            let span = span(1, at + 1, at, "front", &format!("name {:02}", at % 50));
            span.remote(&format!("yak{:02}", 59 - at))
        })
        .collect();
    subject.accept(&many);
    subject.accept(&many[..5]);
    subject.accept(&[
        span(2, 1, 0, "back", ""),
        span(3, 1, 0, "", "nobody's").remote("disk"),
        Span { start_ns: None, ..span(4, 1, 0, "timeless", "x") },
    ]);
    assert_eq!(store.services().expect("an answer"), ["back", "front", "timeless"]);
    let names: Vec<String> = (0..50).map(|at| format!("name {at:02}")).collect();
    let remotes: Vec<String> = (0..60).map(|at| format!("yak{at:02}")).collect();
    for service in ["front", "FrOnT"] {
        assert_eq!(store.span_names(service).expect("an answer"), names);
        assert_eq!(store.remote_services(service).expect("an answer"), remotes);
    }
    for service in ["back", "yak00", "front1", "fron", "disk"] {
        assert!(store.span_names(service).expect("an answer").is_empty(), "{service}");
        assert!(store.remote_services(service).expect("an answer").is_empty(), "{service}");
    }
    assert_eq!(store.span_names("timeless").expect("an answer"), ["x"]);
}

/// The keys of all tags are listed, and the first values of a key up to a limit, in byte order.
pub(super) fn tags_are_listed(subject: &Subject) {
    let store = subject.store();
    let spans: Vec<Span> = (1..30u64)
        .map(|at| {
            let span = span(at.into(), 1, at, "a", "x");
            span.tag("volume", &format!("v{:02}", at * 7 % 15)).tag("http.path", "/")
        })
        .collect();
    subject.accept(&spans);
    let keys: Vec<String> =
        store.tag_keys().expect("an answer").into_iter().map(|field| field.key).collect();
    assert_eq!(keys, ["http.path", "volume"]);
    let values: Vec<String> = (0..15).map(|at| format!("v{at:02}")).collect();
    assert_eq!(store.tag_values("volume", 100).expect("an answer"), values);
    assert_eq!(store.tag_values("volume", 4).expect("an answer"), values[..4]);
    assert_eq!(store.tag_values("http.path", 4).expect("an answer"), ["/"]);
    for key in ["Volume", "vol", "v01", ""] {
        assert!(store.tag_values(key, 9).expect("an answer").is_empty(), "{key}");
    }
}

/// A summary has the start, durations and root of a request, and lists its services with the number
/// of spans and errors of each.
pub(super) fn summaries_tell_who_took_part(subject: &Subject) {
    subject.accept(&[
        span(1, 2, 5, "b", "child").child_of(1).lasting(20 * MS).tag("error", "bad"),
        span(1, 1, 1, "c", "root").lasting(10 * MS),
    ]);
    subject.accept(&[
        span(1, 3, 0, "b", "early").child_of(1),
        span(1, 4, 2, "a", "x").child_of(1).tag("error", ""),
        Span { start_ns: None, ..span(1, 5, 0, "", "when?").child_of(1) },
    ]);
    let page = subject.page(&Query::new(5));
    let [summary] = page.requests.as_slice() else { panic!("one request: {page:?}") };
    assert_eq!((summary.start_ns, summary.duration_ns), (NOON, 10 * MS));
    assert_eq!(summary.extent_ns, 25 * MS);
    assert_eq!((summary.service.as_str(), summary.name.as_str()), ("c", "root"));
    assert_eq!((summary.spans, summary.errors), (5, 2));
    let services = summary.services.iter().map(|it| (it.service.as_str(), it.spans, it.errors));
    assert_eq!(services.collect::<Vec<_>>(), [("b", 2, 1), ("a", 1, 1), ("c", 1, 0)]);
    // The start of the root counts, although a child starts earlier by a skewed clock.
    assert!(subject.search_starts(0, MS - 1).is_empty());
    assert_eq!(subject.search_starts(MS, MS), [1]);
}

/// Latency counts the matching spans of requests that began in a window, and has example spans.
pub(super) fn latency_is_measured(subject: &Subject) {
    let spans: Vec<Span> = (1..=200u64)
        .map(|at| {
            let service = if at % 2 == 0 { "a" } else { "b" };
            span(u128::from(1 + at / 10), at, at, service, "x").lasting(at * MS)
        })
        .collect();
    subject.accept(&spans);
    subject.accept(&[
        Span { duration_ns: None, ..span(50, 1, 50, "a", "x") },
        Span { start_ns: None, ..span(51, 2, 50, "a", "x") },
    ]);
    let check = |first: u64, last: u64, filter: &str, fits: &dyn Fn(u64) -> bool| {
        let window = Window { start_ns: NOON + first * MS, end_ns: NOON + last * MS };
        let latency = subject.store().latency(window, &condition(filter)).expect("an answer");
        let is_within = |at: u64| (first..=last).contains(&(at / 10 * 10).max(1));
        let fitting = || (1..=200u64).filter(|&at| is_within(at) && fits(at));
        let expected: Durations = fitting().map(|at| at * MS).collect();
        assert_eq!(latency.durations, expected, "{first} {last} {filter}");
        assert!(latency.examples.is_sorted_by_key(|example| example.duration_ns));
        let mut powers = BTreeSet::new();
        for example in &latency.examples {
            let at = example.duration_ns / MS;
            assert!(fitting().any(|it| it == at), "an example that does not fit: {example:?}");
            let id = (trace_id((1 + at / 10).into()), SpanId::from_number(at));
            assert_eq!((example.trace_id, Some(example.id)), id);
            powers.insert(example.duration_ns.ilog2());
        }
        let expected: BTreeSet<u32> = fitting().map(|at| (at * MS).ilog2()).collect();
        assert_eq!(powers, expected, "an example for each power of two");
        assert!(latency.examples.len() <= 16 * powers.len(), "more than a few examples");
    };
    check(0, 300, "has(service)", &|_| true);
    check(50, 100, "has(service)", &|_| true);
    check(50, 50, "has(service)", &|_| true);
    check(0, 300, r#"service == "A""#, &|at| at % 2 == 0);
    check(20, 120, r#"service == "b" && duration >= 64ms"#, &|at| at % 2 == 1 && at >= 64);
    check(0, 300, r#"service == "c""#, &|_| false);
    check(301, 400, "has(service)", &|_| false);
}

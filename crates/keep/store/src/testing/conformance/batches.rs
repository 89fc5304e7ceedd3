//! Conformance cases for batches: duplicates, refusals, formats and concurrency.

use super::tested_store::{NOON, SpanBuilder, Subject, assert_same, encoded, span, trace_id};
use crate::{Counters, Policy, Query};
use blkkin_model::{Span, TraceId};
use blkkin_wire::{Decoder, End, Format};
use std::sync::mpsc;

/// Returns the store's counters. Asserts that each accepted span counts once: as kept, as a
/// duplicate, as expired or as lost.
fn assert_balanced(subject: &Subject) -> Counters {
    let counters = subject.store().counters();
    let Counters { accepted, kept, duplicates, expired, lost, .. } = counters;
    assert_eq!(accepted, kept + duplicates + expired + lost, "{counters:?}");
    counters
}

/// A span that is sent twice is stored once, whether in one batch or in two. A span that differs in
/// any field is stored separately.
pub(super) fn spans_that_come_twice_are_kept_once(subject: &Subject) {
    let one = span(1, 1, 0, "a", "x").tag("k", "v").annotation(NOON, "sent");
    let others = [
        one.clone().tag("l", "v"),
        one.clone().annotation(NOON + 1000, "sent"),
        one.clone().shared(),
        one.clone().lasting(5000),
        Span { name: "y".to_owned(), ..one.clone() },
        Span { start_ns: None, ..one.clone() },
        Span { parent_id: span(1, 7, 0, "", "").id.into(), ..one.clone() },
        Span { debug: true, ..one.clone() },
    ];
    subject.accept(&[one.clone(), one.clone()]);
    subject.assert_trace(std::slice::from_ref(&one));
    subject.accept(&others);
    subject.settle();
    subject.accept(&others);
    subject.accept(&[others[3].clone(), one.clone(), one.clone()]);
    let mut all = vec![one];
    all.extend(others);
    subject.assert_trace(&all);
    let page = subject.page(&Query::new(1));
    assert_eq!(page.requests[0].spans, 9);
    let counters = assert_balanced(subject);
    assert_eq!((counters.accepted, counters.refused), (2 + 8 + 8 + 3, 0));
}

/// Invalid spans of a batch are refused, and the outcome identifies them. The policy decides
/// whether the valid spans of the batch are refused too.
pub(super) fn bad_spans_are_refused(subject: &Subject) {
    let json = |ids: &[&str], rest: &str| {
        let spans = ids.iter().map(|id| {
            format!(r#"{{"traceId":"{id}","id":"{id}","timestamp":{},"localEndpoint":{{"serviceName":"s{id}"}}}}"#, NOON / 1000)
        });
        format!("[{}{rest}", spans.collect::<Vec<_>>().join(",")).into_bytes()
    };
    let format = Format::ZipkinJson;
    let check = |bytes: &[u8], policy, given, refused, kept: &[u128]| {
        let before = assert_balanced(subject);
        let outcome = subject.send_batch(format, bytes, policy).outcome;
        assert_eq!((outcome.accepted, outcome.refused), (given, refused), "{outcome:?}");
        let after = assert_balanced(subject);
        assert_eq!(after.accepted - before.accepted, given);
        assert!(after.refused - before.refused >= refused);
        assert_eq!(after.turned_away, 0);
        for id in 1..=9 {
            let is_there = !subject.trace(trace_id(id)).is_empty();
            assert_eq!(is_there, kept.contains(&id), "{id}");
        }
        outcome
    };
    let bad = json(&["1", "XYZ", "2", "0"], "]");
    let outcome = check(&bad, Policy::Whole, 0, 2, &[]);
    assert_eq!(outcome.refusals.iter().map(|it| it.span).collect::<Vec<_>>(), [1, 3]);
    assert!(subject.store().services().expect("an answer").is_empty());
    let outcome = check(&bad, Policy::EachSpan, 2, 2, &[1, 2]);
    assert_eq!(outcome.refusals.iter().map(|it| it.span).collect::<Vec<_>>(), [1, 3]);
    // The batch is truncated, so the spans after the fault cannot be decoded.
    let broken = json(&["3", "4"], ",{");
    let outcome = check(&broken, Policy::Whole, 0, 0, &[1, 2]);
    assert!(matches!(outcome.end, End::Broken(_)), "{outcome:?}");
    let outcome = check(&broken, Policy::EachSpan, 2, 0, &[1, 2, 3, 4]);
    assert!(matches!(outcome.end, End::Broken(_)), "{outcome:?}");
    for (at, rubbish) in [b"hello".as_slice(), b"[", b"\0\0\0", b"{}"].into_iter().enumerate() {
        for policy in [Policy::Whole, Policy::EachSpan] {
            let outcome = check(rubbish, policy, 0, 0, &[1, 2, 3, 4]);
            assert!(!outcome.is_good(), "{at} {outcome:?}");
        }
    }
    // Later batches are not affected.
    check(&json(&["5"], "]"), Policy::Whole, 1, 0, &[1, 2, 3, 4, 5]);
}

/// Empty batches are accepted under both policies.
pub(super) fn empty_batches_are_good(subject: &Subject) {
    for policy in [Policy::Whole, Policy::EachSpan] {
        for format in [Format::ZipkinJson, Format::ZipkinProto, Format::OtlpProto] {
            let outcome = subject.send_batch(format, &encoded(format, &[]), policy).outcome;
            assert!(outcome.is_good() && outcome.accepted == 0, "{format:?} {outcome:?}");
        }
    }
    assert_eq!(assert_balanced(subject).accepted, 0);
    assert!(subject.found(&Query::new(1)).is_empty());
}

/// Batches in all formats are accepted. The stored spans equal the spans that the decoder returns.
pub(super) fn all_formats_are_taken(subject: &Subject) {
    for (at, format) in (1..).zip(Format::ALL) {
        let of =
            |id| span(at, id, id, "guest", "read").child_of(id - 1).remote("disk").tag("k", "v");
        let count = if format == Format::ZipkinThriftSpan { 1 } else { 3 };
        let spans: Vec<Span> = (1..=count).map(of).collect();
        let bytes = encoded(format, &spans);
        let outcome = subject.send_batch(format, &bytes, Policy::Whole).outcome;
        assert!(outcome.is_good() && outcome.accepted == count, "{format:?} {outcome:?}");
        let mut expected: Vec<Span> = Vec::new();
        Decoder::default().decode(format, &bytes, &mut expected);
        assert_eq!(expected.len() as u64, count);
        subject.assert_trace(&expected);
    }
}

/// Concurrent batches and queries lose no span, and no query sees a part of a batch.
pub(super) fn threads_do_not_disturb_each_other(subject: &Subject) {
    const THREADS: u64 = 4;
    const BATCHES: u64 = 25;
    let store = subject.store();
    let of = |thread: u64, batch: u64| -> Vec<Span> {
        let at = thread * BATCHES + batch + 1;
        (1..=4).map(|id| span(at.into(), id, at, "a", "x").child_of(id - 1)).collect()
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let (said, heard) = mpsc::channel();
                for batch in 0..BATCHES {
                    let (format, policy) = (Format::ZipkinProto, Policy::Whole);
                    let bytes = encoded(format, &of(thread, batch));
                    let said = said.clone();
                    let done = Box::new(move |result: Result<_, _>| {
                        let _ = said.send(result.is_ok());
                    });
                    store.accept(crate::Batch { format, bytes: &bytes, policy }, done);
                    let page = store.search(&Query::new(10)).expect("an answer");
                    let is_whole = page.requests.iter().all(|summary| summary.spans == 4);
                    assert!(is_whole, "half of a batch is found: {page:?}");
                }
                drop(said);
                assert_eq!(heard.iter().filter(|is_good| *is_good).count() as u64, BATCHES);
            });
        }
    });
    let counters = assert_balanced(subject);
    assert_eq!((counters.accepted, counters.batches), (THREADS * BATCHES * 4, THREADS * BATCHES));
    let expected: Vec<u128> = (1..=u128::from(THREADS * BATCHES)).rev().collect();
    assert_eq!(subject.found(&Query::new(1000)), expected);
    for (thread, batch) in (0..THREADS).flat_map(|it| (0..BATCHES).map(move |batch| (it, batch))) {
        let spans = of(thread, batch);
        let id: TraceId = spans[0].trace_id;
        assert_same(&subject.trace(id), &spans);
    }
}

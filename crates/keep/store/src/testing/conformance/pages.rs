//! Conformance cases for the order of results and their division into pages.

use super::tested_store::{MS, NOON, SpanBuilder, Subject, condition, span};
use crate::{Order, Place, Query, Window};
use blkkin_model::Span;

/// In the order by duration, a request counts with the duration of its root, not of other spans.
pub(super) fn the_slowest_come_first(subject: &Subject) {
    subject.accept(&[
        span(1, 1, 0, "a", "x").lasting(5 * MS),
        span(2, 1, 1, "a", "x").lasting(50 * MS),
        span(3, 1, 2, "a", "x").lasting(MS),
        span(3, 2, 20, "a", "y").child_of(1).lasting(7 * MS),
        Span { duration_ns: None, ..span(4, 1, 30, "a", "x") },
        span(5, 1, 40, "a", "x").lasting(5 * MS),
    ]);
    let slowest = Query { order: Order::Slowest, ..Query::new(10) };
    assert_eq!(subject.found(&slowest), [2, 1, 5, 3, 4]);
    assert_eq!(subject.found(&Query { limit: 2, ..slowest.clone() }), [2, 1]);
    let conditions = vec![condition("duration <= 5ms")];
    assert_eq!(subject.found(&Query { conditions, ..slowest.clone() }), [1, 5, 3]);
    for order in [Order::Slowest, Order::Newest] {
        let within = |durations| subject.found(&Query { durations, order, ..slowest.clone() });
        assert_eq!(within(6 * MS..=u64::MAX), [2]);
        assert_eq!(within(0..=MS), if order == Order::Slowest { [3, 4] } else { [4, 3] });
        // Neither the child's duration of 7 ms nor the extent of the request counts.
        assert_eq!(within(7 * MS..=40 * MS), [0; 0]);
    }
}

/// The position of a request in the results depends on all of its spans. It depends neither on the
/// order of their arrival nor on the choice of the matching span.
pub(super) fn requests_are_in_order_that_come_in_parts(subject: &Subject) {
    let root =
        |trace: u128, start_ms: u64, ms: u64| span(trace, 1, start_ms, "a", "x").lasting(ms * MS);
    let asked = |trace: u128| span(trace, 2, 20, "b", "y").child_of(1).tag("pool", "rbd");
    let late = span(2, 3, 30, "c", "z").child_of(1).lasting(90 * MS);
    let apart: [&[Span]; 4] = [
        &[asked(1), root(2, 3, 5), root(3, 11, 60)],
        &[root(1, 10, 50), asked(2), root(4, 1, 5)],
        &[asked(3), root(5, 0, 5), root(6, 30, 5)],
        &[late, asked(7), root(7, 40, 5)],
    ];
    for spans in apart {
        subject.accept(spans);
        subject.settle();
    }
    for filters in
        [&[r#"service == "b""#][..], &[r#"pool == "rbd""#], &[r#"pool == "rbd""#, "root"]]
    {
        let conditions: Vec<_> = filters.iter().map(|filter| condition(filter)).collect();
        let query = Query { conditions, ..Query::new(10) };
        for (order, all) in [(Order::Slowest, [3, 1, 2, 7]), (Order::Newest, [7, 3, 1, 2])] {
            for limit in 1..=5 {
                let found = subject.found(&Query { order, limit, ..query.clone() });
                assert_eq!(found, all[..limit.min(4)], "{order:?} {filters:?}");
            }
        }
        let within = |first_ms: u64, last_ms: u64| {
            let window = Window { start_ns: NOON + first_ms * MS, end_ns: NOON + last_ms * MS };
            subject.found(&Query { window, ..query.clone() })
        };
        assert_eq!(within(0, 5), [2], "it began when its first part says: {filters:?}");
        assert_eq!(within(15, 35), [0; 0], "{filters:?}");
    }
}

/// Each request is on exactly one page, even if several have equal ranks. The last page has no
/// cursor for a next page.
pub(super) fn pages_neither_repeat_nor_lose(subject: &Subject) {
    let spans: Vec<Span> = (1..=40u64)
        .map(|at| {
            let lasting = (1 + at % 3) * MS;
            span(u128::from(at * 7 % 41), 1, at % 4, "a", "x").lasting(lasting)
        })
        .collect();
    subject.accept(&spans);
    for order in [Order::Newest, Order::Slowest] {
        let all = subject.found(&Query { order, ..Query::new(1000) });
        assert_eq!(all.len(), 40);
        for limit in [1, 2, 7, 8, 13, 39, 40, 41] {
            assert_eq!(subject.all_pages(order, limit), all, "{limit}");
        }
        let page = subject.page(&Query { order, ..Query::new(40) });
        assert_eq!(page.next, None, "there are no more");
        let page = subject.page(&Query { order, ..Query::new(39) });
        let last = page.requests.last().expect("some").trace_id;
        assert_eq!(page.next.map(|place| place.trace_id), Some(last));
        // Cursors before and after all requests, which are not the place of any request.
        let behind = |rank_ns, trace_id| {
            let after = Some(Place { rank_ns, trace_id });
            subject.found(&Query { order, after, ..Query::new(1000) })
        };
        let max = super::tested_store::trace_id(u128::MAX);
        assert!(behind(0, max).is_empty());
        assert_eq!(behind(u64::MAX, max), all);
    }
}

/// Newer requests that arrive while a client reads page by page do not shift the later pages.
pub(super) fn pages_hold_while_requests_come(subject: &Subject) {
    let at = |number: u64| span(number.into(), 1, number, "a", "x");
    subject.accept(&(1..=20).map(at).collect::<Vec<_>>());
    let mut query = Query::new(6);
    let mut all = Vec::new();
    for round in 0.. {
        let page = subject.page(&query);
        all.extend(page.requests.iter().map(|summary| summary.trace_id.number()));
        subject.accept(&[at(100 + round)]);
        match page.next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    assert_eq!(all, (1..=20).rev().collect::<Vec<_>>());
}

//! Conformance cases for heat maps, differences and start times, and for visits of single spans.

use super::tested_store::{MS, NOON, SpanBuilder, Subject, assert_same, condition, span, trace_id};
use crate::{Area, Condition, Difference, Heat, Topic, ValueCount, Window, for_each_word};
use blkkin_model::{Kind, Span, SpanId};
use std::collections::{BTreeMap, BTreeSet};

/// Creates spans of several requests, some without a start or a duration.
fn spans() -> Vec<Span> {
    let mut spans: Vec<Span> = (1..=120u64)
        .map(|at| {
            let service = ["osd.1", "osd.2", "qemu"][(at % 3) as usize];
            let span =
                span(u128::from(1 + at / 9), at, at * 7 % 100, service, "read").child_of(at / 2);
            let span = span
                .lasting((1 + at * at % 50) * MS / 4)
                .tag("pool", ["rbd", "fs"][(at / 60) as usize % 2]);
            if at % 11 == 0 { span.tag("error", "EIO").kind(Kind::Client) } else { span }
        })
        .collect();
    spans.push(Span { start_ns: None, ..span(2, 200, 0, "qemu", "when?") });
    spans.push(Span { duration_ns: None, ..span(2, 201, 3, "qemu", "how long?") });
    spans.push(Span { start_ns: None, ..span(90, 202, 0, "qemu", "when?") });
    spans
}

/// Returns each span that matches a condition, started in a window and has a duration. The start
/// and the duration are returned with the span.
pub(super) fn matching_spans<'s>(
    spans: &'s [Span],
    window: Window,
    condition: &Condition,
) -> impl Iterator<Item = (&'s Span, u64, u64)> {
    spans.iter().filter_map(move |span| {
        let (start, duration) = span.start_ns.zip(span.duration_ns)?;
        let is_like = window.holds(start) && condition.holds(&span.ref_buffer().as_ref());
        is_like.then_some((span, start, duration))
    })
}

/// Asserts that a heat map equals the counts of a scan over all spans.
pub(super) fn assert_heat(subject: &Subject, spans: &[Span], cells: &Heat, condition: &Condition) {
    let mut found = cells.clone();
    subject.store().heat(condition, &mut found).expect("an answer");
    let mut expected: BTreeMap<(u64, usize), u64> = BTreeMap::new();
    let (window, width) = (cells.window(), cells.column_ns());
    for (_, start, duration) in matching_spans(spans, window, condition) {
        let column = (start - window.start_ns) / width;
        *expected.entry((column, Heat::row(duration))).or_default() += 1;
    }
    let found: BTreeMap<(u64, usize), u64> =
        found.cells().map(|(column, row, count)| ((column as u64, row), count)).collect();
    assert_eq!(found, expected, "{window:?} {condition:?}");
}

/// Asserts that a difference equals the counts of a scan over all spans.
pub(super) fn assert_difference(
    subject: &Subject,
    spans: &[Span],
    window: Window,
    condition: &Condition,
    area: &Area,
) {
    let found = subject.store().difference(window, condition, area).expect("an answer");
    let (mut inside, mut outside) = (0, 0);
    let mut values: BTreeMap<(Topic<String>, String), [u64; 2]> = BTreeMap::new();
    for (span, start, duration) in matching_spans(spans, window, condition) {
        let is_inside =
            area.window.holds(start) && (area.least_ns <= duration && duration <= area.greatest_ns);
        *(if is_inside { &mut inside } else { &mut outside }) += 1;
        for_each_word(&span.ref_buffer().as_ref(), |topic, word| {
            let topic = match topic {
                Topic::Service => Topic::Service,
                Topic::Name => Topic::Name,
                Topic::Kind => Topic::Kind,
                Topic::Status => Topic::Status,
                Topic::Tag(key) => Topic::Tag(key.to_owned()),
            };
            let counts = values.entry((topic, word.to_owned())).or_default();
            counts[usize::from(!is_inside)] += 1;
        });
    }
    let values = values.into_iter().map(|((topic, value), [inside, outside])| ValueCount {
        topic,
        value,
        inside,
        outside,
    });
    let expected =
        Difference { inside, outside, outside_one_in: 1, values: values.collect(), omitted: 0 };
    assert_eq!(found, expected, "{window:?} {condition:?} {area:?}");
}

fn between(first_ms: u64, last_ms: u64) -> Window {
    Window { start_ns: NOON + first_ms * MS, end_ns: NOON + last_ms * MS }
}

const FILTERS: [&str; 7] = [
    "!has(tag.none)",
    r#"service == "osd.*""#,
    r#"service == "OSD.1" && duration > 2ms"#,
    "error",
    r#"pool == "rbd" || kind == client"#,
    "duration == 3ms",
    r#"service == "nobody""#,
];

/// A heat map places a span by the span's own start and duration, not by those of its request.
pub(super) fn cells_have_the_spans_of_their_time_and_duration(subject: &Subject) {
    let spans = spans();
    spans.chunks(40).for_each(|some| subject.accept(some));
    subject.accept(&spans[..20]);
    subject.settle();
    for filter in FILTERS {
        for (window, columns) in [
            (between(0, 100), 10),
            (between(0, 100), 1),
            (between(20, 30), 40),
            (between(35, 35), 3),
            (between(200, 300), 5),
            (Window { start_ns: 0, end_ns: NOON + 50 * MS }, 7),
            (Window::ALL, 2),
        ] {
            assert_heat(subject, &spans, &Heat::new(window, columns), &condition(filter));
        }
    }
}

/// A difference counts the words of matching spans, separately inside and outside of a box.
pub(super) fn words_inside_of_a_box_are_told_from_others(subject: &Subject) {
    let spans = spans();
    spans.chunks(40).for_each(|some| subject.accept(some));
    subject.accept(&spans[..20]);
    subject.settle();
    for filter in FILTERS {
        for window in [between(0, 100), between(20, 60), Window::ALL] {
            for (first, last, least_ns, greatest_ns) in
                [(0, 100, 0, u64::MAX), (10, 50, 3 * MS, 8 * MS), (30, 30, 0, 0), (300, 400, 0, 1)]
            {
                let area = Area { window: between(first, last), least_ns, greatest_ns };
                assert_difference(subject, &spans, window, &condition(filter), &area);
            }
        }
    }
}

/// A visit calls back with the spans of all requests that share the lower half of the trace id. If
/// a span id is given, spans with other span ids are skipped.
pub(super) fn spans_are_handed_over_one_by_one(subject: &Subject) {
    let wide = (7 << 64) | 3;
    let mut all: Vec<Span> =
        (1..=50).map(|id| span(3, id, id, "a", "x").child_of(id / 3)).collect();
    all.extend((1..=9).map(|id| span(wide, id, id, "b", "x").child_of(id / 3).tag("k", "v")));
    let other = span(4, 1, 0, "c", "y");
    all.chunks(20).for_each(|some| subject.accept(some));
    subject.accept(&all[..3]);
    subject.accept(std::slice::from_ref(&other));
    let check = |low: u64, id: Option<u64>, expected: &[Span]| {
        let mut found = Vec::new();
        let id = id.map(|id| SpanId::from_number(id).expect("not 0"));
        let visited = subject.store().visit(low, id, &mut |span| found.push(span.to_owned()));
        visited.expect("an answer");
        // Duplicates may be visited twice.
        found.sort_by_key(|span| (span.trace_id, span.id));
        found.dedup();
        assert_same(&found, expected);
    };
    check(3, None, &all);
    check(4, None, &[other]);
    check(5, None, &[]);
    let five = all.iter().filter(|span| span.id.number() == 5).cloned();
    check(3, Some(5), &five.collect::<Vec<Span>>());
    check(3, Some(50), &all[49..50]);
    check(3, Some(51), &[]);
    check(4, Some(2), &[]);
    let ids: BTreeSet<_> = all.iter().map(|span| span.trace_id).collect();
    assert_eq!(ids, BTreeSet::from([trace_id(3), trace_id(wide)]));
}

/// The earliest and the latest start that a store returns are taken over all spans, not only roots.
pub(super) fn it_is_known_when_spans_started(subject: &Subject) {
    let check = |expected: Option<(u64, u64)>| {
        let found = subject.store().starts().expect("an answer");
        let expected = expected.map(|(first, last)| between(first, last));
        assert_eq!(found, expected);
    };
    check(None);
    subject.accept(&[Span { start_ns: None, ..span(1, 1, 0, "a", "x") }]);
    check(None);
    subject.accept(&[span(2, 1, 50, "a", "x")]);
    check(Some((50, 50)));
    subject.accept(&[span(2, 2, 40, "a", "x").child_of(1), span(2, 3, 90, "a", "x").child_of(1)]);
    subject.settle();
    check(Some((40, 90)));
}

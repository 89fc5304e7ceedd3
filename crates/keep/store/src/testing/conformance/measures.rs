//! Conformance cases for heat maps, differences and start times, and for visits of single spans.

use super::tested_store::{MS, NOON, SpanBuilder, Subject, assert_same, condition, span, trace_id};
use crate::{
    Area, Condition, Difference, Heat, MeanTime, OwnTimeDifference, Topic, ValueCount, Window,
    for_each_word,
};
use blkkin_model::{Kind, Span, SpanId, Tag, Value};
use blkkin_wire::Format;
use std::cmp::Reverse;
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

/// Returns the own times of a span by key, as a difference must understand its tags.
fn own_times(span: &Span) -> BTreeMap<&str, u64> {
    let of_tag = |tag: &Tag| match &tag.value {
        Value::Int(number) => u64::try_from(*number).ok(),
        Value::Str(text) => text.parse().ok(),
        _ => None,
    };
    let is_time = |tag: &&Tag| {
        tag.key != "blkkin.own.bands"
            && (tag.key.starts_with("blkkin.own.") || tag.key.starts_with("blkkin.disk."))
    };
    let tags = span.tags.iter().filter(is_time);
    let times: BTreeMap<&str, u64> =
        tags.filter_map(|tag| Some((tag.key.as_str(), of_tag(tag)?))).collect();
    let is_known = times.keys().any(|key| key.starts_with("blkkin.own."));
    if is_known { times } else { BTreeMap::new() }
}

/// Returns the means of own times, from the own times of all spans inside a box and outside.
fn own_time_difference(sides: [Vec<BTreeMap<&str, u64>>; 2]) -> OwnTimeDifference {
    let known = sides.each_ref().map(|side| side.iter().filter(|times| !times.is_empty()).count());
    let unknown = [0, 1].map(|side| (sides[side].len() - known[side]) as u64);
    let keys: BTreeSet<&str> = sides.iter().flatten().flat_map(BTreeMap::keys).copied().collect();
    let mean = |key: &str, side: usize| {
        let sum: u64 = sides[side].iter().filter_map(|times| times.get(key)).sum();
        (sum as f64 / known[side] as f64).round() as u64
    };
    let times = keys.into_iter().map(|key| MeanTime {
        key: key.to_owned(),
        inside_ns: mean(key, 0),
        outside_ns: mean(key, 1),
    });
    let mut times: Vec<MeanTime> = times.collect();
    times.sort_by_key(|time| Reverse(time.inside_ns.abs_diff(time.outside_ns)));
    times.retain(|_| !known.contains(&0));
    OwnTimeDifference {
        inside: known[0] as u64,
        outside: known[1] as u64,
        unknown_inside: unknown[0],
        unknown_outside: unknown[1],
        times,
        omitted: 0,
    }
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
    let mut times = [Vec::new(), Vec::new()];
    let mut values: BTreeMap<(Topic<String>, String), [u64; 2]> = BTreeMap::new();
    for (span, start, duration) in matching_spans(spans, window, condition) {
        let is_inside =
            area.window.holds(start) && (area.least_ns <= duration && duration <= area.greatest_ns);
        *(if is_inside { &mut inside } else { &mut outside }) += 1;
        times[usize::from(!is_inside)].push(own_times(span));
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
    let expected = Difference {
        inside,
        outside,
        outside_one_in: 1,
        values: values.collect(),
        own_time: own_time_difference(times),
        omitted: 0,
    };
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

/// A difference has the means of own times inside and outside of a box. Times may be integers or
/// text; other values, and spans of which no own time is known, do not count.
pub(super) fn own_times_inside_of_a_box_are_told_from_others(subject: &Subject) {
    let tagged = |id: u64, ms: u64, tags: &[(&str, Value)]| {
        let tags = tags.iter().map(|(key, value)| Tag {
            key: (*key).to_owned(),
            value: value.clone(),
            origin: Default::default(),
        });
        Span { tags: tags.collect(), ..span(1 + u128::from(id % 3), id, id, "osd", "read") }
            .lasting(ms * MS)
    };
    let text = |text: &str| Value::Str(text.to_owned());
    let as_text = [
        tagged(1, 9, &[("blkkin.own.disk", text("6000000")), ("blkkin.own.running", text("1001"))]),
        tagged(2, 9, &[("blkkin.own.disk", text("4000000")), ("pool", text("rbd"))]),
        tagged(3, 9, &[("blkkin.own.bands", text("disk 0 5")), ("blkkin.own.disk", text("soon"))]),
        tagged(4, 1, &[("blkkin.own.disk", text("-5")), ("blkkin.own.running", text("500"))]),
        tagged(5, 1, &[("pool", text("rbd"))]),
    ];
    let as_integers = [
        tagged(
            6,
            9,
            &[
                ("blkkin.disk.vda.queued", Value::Int(2_500_000)),
                ("blkkin.disk.vda.served", Value::Int(500_000)),
                ("blkkin.own.bands", text("disk 0 2000000 vda")),
                ("blkkin.own.disk", Value::Int(2_000_000)),
            ],
        ),
        tagged(
            7,
            1,
            &[
                ("blkkin.own.disk", Value::Double(1.5)),
                ("blkkin.own.lock", Value::Int(1_000_000)),
                ("blkkin.own.network", Value::Int(-1)),
            ],
        ),
        tagged(8, 1, &[("blkkin.disk.vda.served", Value::Int(7_000_000))]),
        tagged(9, 1, &[("blkkin.own.disk", Value::Int(0)), ("pool", text("fs"))]),
    ];
    subject.accept_as(Format::ZipkinJson, &as_text);
    subject.accept_as(Format::OtlpProto, &as_integers);
    subject.settle();
    let compare = |least_ns: u64| {
        let area = Area { window: Window::ALL, least_ns, greatest_ns: u64::MAX };
        subject.store().difference(Window::ALL, &condition("has(duration)"), &area)
    };
    let found = compare(2 * MS).expect("an answer");
    assert_eq!((found.inside, found.outside), (4, 5));
    let tags: Vec<(&Topic<String>, &str)> = found
        .values
        .iter()
        .filter(|word| matches!(word.topic, Topic::Tag(_)))
        .map(|word| (&word.topic, word.value.as_str()))
        .collect();
    let pool = Topic::Tag("pool".to_owned());
    assert_eq!(tags, [(&pool, "fs"), (&pool, "rbd")]);
    let mean = |key: &str, inside_ns: u64, outside_ns: u64| MeanTime {
        key: key.to_owned(),
        inside_ns,
        outside_ns,
    };
    let expected = OwnTimeDifference {
        inside: 3,
        outside: 3,
        unknown_inside: 1,
        unknown_outside: 2,
        times: vec![
            mean("blkkin.own.disk", 4_000_000, 0),
            mean("blkkin.disk.vda.queued", 833_333, 0),
            mean("blkkin.own.lock", 0, 333_333),
            mean("blkkin.disk.vda.served", 166_667, 0),
            mean("blkkin.own.running", 334, 167),
        ],
        omitted: 0,
    };
    assert_eq!(found.own_time, expected);
    // With all spans on one side there is nothing to compare.
    let found = compare(0).expect("an answer");
    let expected = OwnTimeDifference { inside: 6, unknown_inside: 3, ..Default::default() };
    assert_eq!(found.own_time, expected);
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

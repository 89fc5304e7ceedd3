//! Conformance case that compares answers to random queries with the answers of a [`MemoryStore`].

use super::measures::{assert_difference, assert_heat};
use super::tested_store::{MS, NOON, Subject, condition, endpoint, span};
use crate::{
    Area, Condition, Heat, MemoryStore, Order, Place, Query, SpanStore, Window, request_start_ns,
};
use blkkin_model::{Annotation, Kind, Span, SpanId, SpanRef, SpanRefBuffer, Tag, Value};
use blkkin_sys::testing::Random;
use std::sync::Arc;

const SEEDS: u64 = 4;
const SPAN_COUNT: usize = 400;
const QUESTION_COUNT: usize = 150;
const SERVICES: [&str; 5] = ["", "guest", "qemu", "osd.1", "osd.2"];
const NAMES: [&str; 4] = ["", "read", "write", "flush"];
const KINDS: [Kind; 5] =
    [Kind::Unspecified, Kind::Client, Kind::Server, Kind::Producer, Kind::Consumer];
const FILTERS: [&str; 28] = [
    r#"service == "osd.*""#,
    r#"service == "guest""#,
    r#"service != "qemu""#,
    "has(service)",
    r#"remote == "osd.1""#,
    "has(remote)",
    r#"name == "READ""#,
    r#"name != "*e*""#,
    "kind == client",
    "has(kind)",
    "error",
    "root",
    "status == ok",
    "status == unset",
    r#"trace_id == "3""#,
    r#"trace_id != "3""#,
    "has(duration)",
    "duration > 3ms",
    "duration <= 2ms",
    "has(start)",
    "offset >= 2",
    "offset != 1",
    r#"offset == "x*""#,
    "has(offset)",
    r#"volume == "v1""#,
    r#"volume != "v2""#,
    r#"annotation == "sent""#,
    "has(annotation)",
];

/// The answers to random queries equal those of a [`MemoryStore`]. The seeds are `TEST_SEED` and
/// the next number, or else those from 1 to `SEEDS`.
pub(super) fn answers_are_those_of_the_plain_store(subject: &Subject) {
    let seed = std::env::var("TEST_SEED").ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match seed {
        Some(seed) => seed..seed + 2,
        None => 1..1 + SEEDS,
    };
    // The reference store. Each query covers the spans of all seeds so far.
    let plain = Arc::new(MemoryStore::default());
    let plain = Subject::settling(plain, || {});
    // The first half of the seeds send requests whole, the second half split over batches.
    let middle = seeds.start + (seeds.end - seeds.start) / 2;
    for seed in seeds {
        let are_whole = seed < middle;
        let mut random = Random::new(seed);
        send(&mut random, seed, are_whole, &[subject, &plain]);
        subject.settle();
        compare_lists(subject, &plain, seed);
        let all = all_of(&plain);
        for _ in 0..QUESTION_COUNT {
            compare_pages(&mut random, subject, &plain, seed, are_whole || !subject.measures_parts);
            if are_whole || !subject.measures_parts {
                measure(&mut random, subject, &all);
            }
        }
    }
}

/// Sends the same random spans to all subjects. Batches have random sizes, and some spans are sent
/// again. If `are_whole` is set, each request arrives in one batch, apart from duplicates.
fn send(random: &mut Random, seed: u64, are_whole: bool, subjects: &[&Subject]) {
    let mut spans: Vec<Span> = (0..SPAN_COUNT).map(|_| random_span(random, seed)).collect();
    if are_whole {
        spans.sort_by_key(|span| span.trace_id.low());
    }
    let mut at = 0;
    while at < spans.len() {
        let mut end = (at + 1 + random.below(40)).min(spans.len());
        while are_whole && end < spans.len() && is_one_request(&spans[end - 1..=end]) {
            end += 1;
        }
        let again = random.below(at + 1);
        let mut batch = spans[at..end].to_vec();
        batch.extend_from_slice(&spans[again..(again + random.below(4)).min(at)]);
        subjects.iter().for_each(|subject| subject.accept(&batch));
        at = end;
    }
}

fn is_one_request(spans: &[Span]) -> bool {
    spans.iter().all(|span| span.trace_id.low() == spans[0].trace_id.low())
}

/// Creates a random span with one of 60 lower halves of trace ids. Some lower halves are shared by
/// up to three requests.
fn random_span(random: &mut Random, seed: u64) -> Span {
    let request = 1 + random.below(60u64);
    let high = if request.is_multiple_of(7) { u128::from(random.below(3u64)) << 64 } else { 0 };
    let trace = high | u128::from(request + 100 * seed);
    let id = 1 + random.below(8u64);
    let start_ms = request * 3 + random.below(6u64);
    let text = |random: &mut Random, key: &str, values: &[&str]| Tag {
        key: key.to_owned(),
        value: Value::Str(random.one_of(values).to_owned()),
        origin: Default::default(),
    };
    let mut tags = Vec::new();
    for key in ["blkkin.disk.vda.served", "blkkin.own.bands", "blkkin.own.disk", "blkkin.own.lock"]
    {
        if random.chance(30) {
            tags.push(text(random, key, &["0", "1", "40000", "5000000", "-1", "soon"]));
        }
    }
    if random.chance(10) {
        tags.push(text(random, "error", &["", "timeout"]));
    }
    if random.chance(50) {
        tags.push(text(random, "offset", &["", "1", "2", "3.5", "-1", "xyz"]));
    }
    if random.chance(50) {
        tags.push(text(random, "volume", &["v1", "v2", "v3"]));
    }
    let mut annotations: Vec<Annotation> = (0..random.below(3u64))
        .map(|at| Annotation {
            time_ns: NOON + (start_ms + at) * MS,
            value: random.one_of(&["sent", "received", "acked"]).to_owned(),
        })
        .collect();
    annotations.sort();
    let kind = random.one_of(&KINDS);
    Span {
        parent_id: SpanId::from_number(random.below(id)),
        kind,
        shared: kind == Kind::Server && random.chance(30),
        start_ns: random.chance(90).then_some(NOON + start_ms * MS),
        duration_ns: random.chance(80).then(|| (1 + random.below(5u64)) * MS),
        remote: endpoint(random.one_of(&SERVICES)),
        tags,
        annotations,
        ..span(trace, id, 0, random.one_of(&SERVICES), random.one_of(&NAMES))
    }
}

/// Asserts that both stores list the same services, names, tags and links, and count the same
/// spans.
fn compare_lists(subject: &Subject, plain: &Subject, seed: u64) {
    let (one, other) = (subject.store(), plain.store());
    assert_eq!(one.services().expect("an answer"), other.services().expect("an answer"));
    for service in SERVICES {
        let names = |store: &dyn SpanStore| store.span_names(service).expect("an answer");
        let remotes = |store: &dyn SpanStore| store.remote_services(service).expect("an answer");
        // An empty service name cannot be queried.
        if !service.is_empty() {
            assert_eq!(names(one), names(other), "seed {seed}");
            assert_eq!(remotes(one), remotes(other), "seed {seed}");
        }
    }
    let keys = |store: &dyn SpanStore| -> Vec<String> {
        store.tag_keys().expect("an answer").into_iter().map(|field| field.key).collect()
    };
    assert_eq!(keys(one), keys(other), "seed {seed}");
    let values = |store: &dyn SpanStore| store.tag_values("volume", 9).expect("an answer");
    assert_eq!(values(one), values(other), "seed {seed}");
    let links = |store: &dyn SpanStore| store.links(Window::ALL).expect("an answer");
    assert_eq!(links(one), links(other), "seed {seed}");
    let counted = |store: &dyn SpanStore| {
        let counters = store.counters();
        let gone = counters.expired + counters.lost;
        (counters.accepted, counters.kept + counters.duplicates, gone, counters.refused)
    };
    assert_eq!(counted(one), counted(other), "seed {seed}");
}

/// Returns up to three random filters. Some of them combine several conditions.
fn random_conditions(random: &mut Random) -> Vec<String> {
    let one = |random: &mut Random| random.one_of(&FILTERS).to_owned();
    let joined = |random: &mut Random| {
        let (left, right) = (one(random), one(random));
        match random.below(4) {
            0 => format!("({left}) && ({right})"),
            1 => format!("({left}) || !({right})"),
            2 => format!("!({left} || {right})"),
            _ => left,
        }
    };
    (0..random.below(4)).map(|_| joined(random)).collect()
}

/// Asserts that both stores return the same pages for a random query. If `is_measured` is set,
/// asserts that the durations for the query's first condition are the same too.
fn compare_pages(
    random: &mut Random,
    subject: &Subject,
    plain: &Subject,
    seed: u64,
    is_measured: bool,
) {
    let filters = random_conditions(random);
    let first = NOON + random.below(200u64) * MS;
    let window = match random.below(3) {
        0 => Window::ALL,
        1 => Window { start_ns: first, end_ns: first + random.below(60u64) * MS },
        _ => Window { start_ns: first, end_ns: u64::MAX },
    };
    let mut query = Query {
        window,
        conditions: filters.iter().map(|filter| condition(filter)).collect(),
        durations: match random.below(3) {
            0 => random.below(4u64) * MS..=random.below(400u64) * MS,
            _ => 0..=u64::MAX,
        },
        order: random.one_of(&[Order::Newest, Order::Slowest]),
        limit: 1 + random.below(12),
        after: None,
    };
    let context = format!("TEST_SEED={seed} {filters:?} {query:?}");
    // All pages for a quarter of the queries, otherwise only the first page.
    for _ in 0..if random.chance(25) { 100 } else { 1 } {
        let page = subject.store().search(&query).expect("an answer");
        assert_eq!(page, plain.store().search(&query).expect("an answer"), "{context}");
        for summary in page.requests.iter().take(1) {
            let id = summary.trace_id;
            let spans = subject.trace(id);
            super::tested_store::assert_same(&spans, &plain.trace(id));
            check_place(&spans, &query, page.next.filter(|next| next.trace_id == id));
        }
        match page.next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    if let Some(condition) = query.conditions.first().filter(|_| is_measured) {
        let durations = |subject: &Subject| {
            subject.store().latency(query.window, condition).expect("an answer").durations
        };
        assert_eq!(durations(subject), durations(plain), "{context}");
    }
}

/// Returns all spans of the reference store, except spans of requests without a start.
fn all_of(plain: &Subject) -> Vec<Span> {
    let page = plain.store().search(&Query::new(usize::MAX)).expect("an answer");
    page.requests.iter().flat_map(|summary| plain.trace(summary.trace_id)).collect()
}

/// Asserts that heat maps and differences equal the counts of a scan over all spans.
fn measure(random: &mut Random, subject: &Subject, all: &[Span]) {
    let window = |random: &mut Random| {
        let first = NOON + random.below(200u64) * MS;
        Window { start_ns: first, end_ns: first + random.below(100u64) * MS }
    };
    let windows = [Window::ALL, window(random), window(random)];
    let filters = random_conditions(random);
    let condition = Condition::All(filters.iter().map(|filter| condition(filter)).collect());
    let heat = Heat::new(random.one_of(&windows), 1 + random.below(30));
    assert_heat(subject, all, &heat, &condition);
    let least_ns = random.below(6u64) * MS;
    let greatest_ns = least_ns + random.below(3u64) * MS;
    let area = Area { window: window(random), least_ns, greatest_ns };
    assert_difference(subject, all, random.one_of(&windows), &condition, &area);
}

/// Asserts that a request matches the query. In the order [`Order::Newest`], asserts that the rank
/// of `place` is the request's start.
fn check_place(spans: &[Span], query: &Query, place: Option<Place>) {
    let held: Vec<SpanRefBuffer<'_>> = spans.iter().map(Span::ref_buffer).collect();
    let spans: Vec<SpanRef<'_>> = held.iter().map(SpanRefBuffer::as_ref).collect();
    assert!(query.holds(&spans));
    if let (Some(place), Order::Newest) = (place, query.order) {
        assert_eq!(Some(place.rank_ns), request_start_ns(&spans));
    }
}

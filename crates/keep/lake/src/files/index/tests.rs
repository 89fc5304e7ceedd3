//! Tests of the index: building, reading, damage and size.

use super::{Builder, Entry, Index, LinkCount, NO_DURATION, OpenError, Row, links};
use blkkin_journal::testing::SimulatedDisk;
use blkkin_journal::{Disk, File};
use blkkin_model::{SpanRef, SpanSink};
use blkkin_store::testing::requests::{self, Requests};
use blkkin_store::{Durations, Window};
use std::collections::BTreeSet;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Arc;
use std::{env, fs};

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % bound
    }
}

struct Span {
    low: u64,
    start: Option<u64>,
    duration: Option<u64>,
    is_root: bool,
    is_error: bool,
    service: String,
    name: String,
}

fn spans(random: &mut Random, requests: u64) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut low = 0;
    for _ in 0..requests {
        low += 1 + random.below(1 << 40);
        let base = 1_000_000_000 + random.below(1 << 30);
        for place in 0..1 + random.below(5) {
            spans.push(Span {
                low,
                start: (random.below(8) != 0).then(|| base + random.below(1000)),
                duration: (random.below(8) != 0).then(|| random.below(1 << 20)),
                is_root: place == random.below(3),
                is_error: random.below(5) == 0,
                service: format!("service {}", random.below(4)),
                name: format!("name {}", random.below(3)),
            });
        }
    }
    spans
}

fn bytes_of(spans: &[Span]) -> Vec<u8> {
    let mut builder = Builder::default();
    for (span, id) in spans.iter().zip(1..) {
        builder.push(&Row {
            trace_low: span.low,
            trace_high: 0,
            id,
            start_ns: span.start,
            duration_ns: span.duration,
            is_root: span.is_root,
            is_error: span.is_error,
            service: &span.service,
            name: &span.name,
            remote: "",
        });
    }
    builder.finish(&[], Vec::new()).expect("encoded").1
}

fn file_of(bytes: &[u8]) -> Arc<dyn File> {
    let file = SimulatedDisk::new(1).create("index").expect("created");
    file.write_at(bytes, 0).expect("written");
    file
}

fn open(bytes: &[u8]) -> Result<Index, OpenError> {
    Index::open(file_of(bytes))
}

/// Returns the start of a request: the earliest start of its root spans, or of all spans if no root
/// span has a start.
fn start_of(request: &[Span]) -> Option<u64> {
    let root = request.iter().filter(|span| span.is_root).filter_map(|span| span.start).min();
    root.or_else(|| request.iter().filter_map(|span| span.start).min())
}

#[test]
fn pushed_spans_are_found() {
    let mut random = Random(7);
    for requests in [0, 1, 2, 15, 16, 17, 500] {
        let spans = spans(&mut random, requests);
        let file = file_of(&bytes_of(&spans));
        let index = Index::open(Arc::clone(&file)).expect("opened");
        assert_eq!(index.directory.requests as u64, requests);
        let mut row = 0;
        let mut timed = Vec::new();
        for request in spans.chunk_by(|one, other| one.low == other.low) {
            let rows = row..row + request.len() as u32;
            row = rows.end;
            assert!(index.may_hold(request[0].low));
            let bloom = &index.sections.bloom;
            let of_file = super::may_hold(&*file, bloom, request[0].low).expect("read");
            assert!(of_file, "what is not in memory is as what is");
            let other = request[0].low + 1;
            let of_file = super::may_hold(&*file, bloom, other).expect("read");
            assert_eq!(of_file, index.may_hold(other));
            timed.extend(start_of(request).map(|start| (start, rows, request)));
        }
        timed.sort_by_key(|(start, ..)| *start);
        assert_eq!(index.directory.timed as usize, timed.len());
        let codes = index.length_codes().expect("read");
        for (ordinal, (start, rows, request)) in timed.iter().enumerate() {
            let ordinal = ordinal as u32;
            assert_eq!(index.start_ns(ordinal).expect("read"), *start);
            assert_eq!(index.rows(ordinal).expect("read"), *rows);
            let first = request.iter().filter_map(|span| span.start).min().expect("timed");
            let ends = request.iter().filter_map(|s| Some(s.start? + s.duration.unwrap_or(0)));
            let length = ends.max().expect("timed") - first;
            assert_eq!(codes[ordinal as usize], Durations::code(length));
        }
        check_windows(&index, &timed.iter().map(|(start, ..)| *start).collect::<Vec<_>>());
        check_groups(&index, &timed.iter().map(|(_, _, request)| *request).collect::<Vec<_>>());
    }
}

/// Spans in other files count for the times and groups of a request. They do not count as spans in
/// this file.
#[test]
fn spans_elsewhere_are_found_and_not_counted() {
    let row =
        |low: u64, start_ns: u64, duration_ns: u64, is_root: bool, service: &'static str| Row {
            trace_low: low,
            trace_high: 0,
            id: 1,
            start_ns: Some(start_ns),
            duration_ns: Some(duration_ns),
            is_root,
            is_error: false,
            service,
            name: "x",
            remote: "",
        };
    let mut builder = Builder::default();
    for low in [3, 5, 8] {
        builder.push(&row(low, 100 * low, 10, false, "here"));
    }
    builder.push_elsewhere(&row(3, 900, 100, true, "there"));
    builder.push_elsewhere(&row(8, 850, 10, false, "here"));
    builder.push_elsewhere(&row(4, 1, 1, true, "of a request that is not here"));
    let index = open(&builder.finish(&[], Vec::new()).expect("encoded").1).expect("opened");
    let directory = &index.directory;
    assert_eq!((directory.rows, directory.requests), (3, 3));
    assert_eq!((directory.min_start_ns, directory.max_start_ns), (500, 900));
    let starts: Vec<u64> = (0..3).map(|at| index.start_ns(at).expect("read")).collect();
    assert_eq!(starts, [500, 800, 900], "the root of the first one is elsewhere");
    let lengths = [10, 60, 700].map(Durations::code);
    assert_eq!(index.length_codes().expect("read"), lengths);
    assert_eq!(index.ordinals_elsewhere().expect("read"), [1, 2]);
    assert_eq!(directory.lows_elsewhere, [3, 8]);
    assert_eq!(directory.groups.iter().map(|group| group.spans).sum::<u32>(), 3);
    let found = |service: &str| -> Vec<u32> {
        let groups = directory.all_groups().enumerate();
        let of = groups.filter(|(_, group)| directory.text(group.service) == Some(service));
        let entries = of.flat_map(|(place, _)| index.entries(place, &(0..3)).expect("read"));
        entries.map(|entry| entry.ordinal).collect()
    };
    assert_eq!(found("there"), [2]);
    assert_eq!(found("here"), [0, 1, 2, 1]);
    assert!(found("of a request that is not here").is_empty());
}

fn check_windows(index: &Index, starts: &[u64]) {
    let times = starts.iter().flat_map(|&start| [start - 1, start, start + 1]);
    let times: Vec<u64> = times.chain([0, u64::MAX]).step_by(7).collect();
    for &start_ns in &times {
        for &end_ns in &times {
            let window = Window { start_ns, end_ns };
            let found = index.ordinals(window).expect("read");
            let expected = (0..starts.len()).filter(|&at| window.holds(starts[at]));
            assert!(found.map(|at| at as usize).eq(expected), "{window:?}");
        }
    }
}

fn check_groups(index: &Index, requests: &[&[Span]]) {
    let mut entries = 0;
    for (place, group) in index.directory.groups.iter().enumerate() {
        let service = index.directory.text(group.service).expect("a service");
        let name = index.directory.text(group.name).expect("a name");
        let mut expected = Vec::new();
        for (ordinal, request) in requests.iter().enumerate() {
            for span in request.iter().filter(|s| s.service == service && s.name == name) {
                let code = span.duration.map_or(NO_DURATION, Durations::code);
                expected.push(Entry { ordinal: ordinal as u32, is_error: span.is_error, code });
            }
        }
        let all = 0..requests.len() as u32;
        assert_eq!(index.entries(place, &all).expect("read"), expected);
        let some = all.end / 3..all.end / 2;
        expected.retain(|entry| some.contains(&entry.ordinal));
        assert_eq!(index.entries(place, &some).expect("read"), expected);
        entries += group.entries.len;
        let counted = |counts: &[(u16, u32)]| counts.iter().map(|&(_, count)| count).sum::<u32>();
        let all = index.entries(place, &all).expect("read");
        let known = all.iter().filter(|entry| entry.code != NO_DURATION);
        assert_eq!(counted(&group.durations) as usize, known.clone().count());
        let failed = known.clone().filter(|entry| entry.is_error);
        assert_eq!(counted(&group.failed) as usize, failed.count());
        assert_eq!(group.errors as usize, all.iter().filter(|entry| entry.is_error).count());
        // Each group has samples for each power of two of the duration, with and without an error,
        // and the fields of each sample are those of a span.
        let power = |code| Durations::least(code).checked_ilog2().unwrap_or(0);
        let kinds = |entries: &mut dyn Iterator<Item = (u16, bool)>| -> BTreeSet<(u32, bool)> {
            entries.map(|(code, is_error)| (power(code), is_error)).collect()
        };
        let sampled = group.samples.iter().map(|it| (Durations::code(it.duration_ns), it.is_error));
        assert_eq!(
            kinds(&mut sampled.clone()),
            kinds(&mut known.map(|entry| (entry.code, entry.is_error)))
        );
        assert!(group.samples.len() <= 2 * kinds(&mut sampled.clone()).len());
        for (sample, (code, is_error)) in group.samples.iter().zip(sampled) {
            assert!(all.contains(&Entry { ordinal: sample.ordinal, code, is_error }));
            assert_eq!(requests[sample.ordinal as usize][0].low, sample.trace_low);
        }
    }
    assert_eq!(entries as usize, requests.iter().map(|request| request.len()).sum::<usize>());
}

#[test]
fn names_that_never_recur_share_a_group() {
    let mut builder = Builder::default();
    for number in 0..40_000u64 {
        builder.push(&Row {
            trace_low: number,
            trace_high: 0,
            id: 1,
            start_ns: Some(number),
            duration_ns: Some(1),
            is_root: true,
            is_error: false,
            service: "web",
            name: &format!("GET /{number}"),
            remote: "",
        });
    }
    let (directory, _) = builder.finish(&[], Vec::new()).expect("encoded");
    assert!(directory.groups.len() < 17_000);
    let web = |group: &&super::Group| directory.text(group.service) == Some("web");
    assert_eq!(directory.groups.iter().filter(web).map(|group| group.spans).sum::<u32>(), 40_000);
}

/// Fields of a generated span, for the measurement of the index's size.
struct GeneratedSpan {
    ids: (u64, u64, u64),
    times: (Option<u64>, Option<u64>),
    flags: (bool, bool),
    texts: [String; 3],
}

struct GeneratedSpans(Vec<GeneratedSpan>);

impl SpanSink for GeneratedSpans {
    fn span(&mut self, span: &SpanRef<'_>) -> ControlFlow<()> {
        let texts = [span.local.service, span.name, span.remote.service].map(str::to_owned);
        self.0.push(GeneratedSpan {
            ids: (span.trace_id.low(), span.trace_id.high(), span.id.number()),
            times: (span.start_ns, span.duration_ns),
            flags: (span.parent_id.is_none(), span.is_error()),
            texts,
        });
        ControlFlow::Continue(())
    }
}

/// The entries of groups take fewer than 3 bytes for each span. They are the largest part of an
/// index of half a megabyte or more.
#[test]
fn an_index_takes_few_bytes_a_span() {
    let spans = env::var("SPANS").map_or(200_000, |it| it.parse().expect("a number"));
    let options = requests::Options {
        shared: false,
        wide: true,
        typed: true,
        gap_ns: 69_000_000,
        ..requests::Options::default()
    };
    let mut all = GeneratedSpans(Vec::new());
    Requests::new(options).fill(spans, &mut all);
    let mut made = all.0;
    made.sort_by_key(|it| (it.ids.0, it.times.0));
    let mut builder = Builder::default();
    for GeneratedSpan { ids, times, flags, texts } in &made {
        builder.push(&Row {
            trace_low: ids.0,
            trace_high: ids.1,
            id: ids.2,
            start_ns: times.0,
            duration_ns: times.1,
            is_root: flags.0,
            is_error: flags.1,
            service: &texts[0],
            name: &texts[1],
            remote: &texts[2],
        });
    }
    let (directory, bytes) = builder.finish(&[], Vec::new()).expect("encoded");
    let index = open(&bytes).expect("opened");
    let each = |bytes: u64| bytes as f64 / made.len() as f64;
    let section = |of: &Range<u64>| each(of.end - of.start);
    let sections = &index.sections;
    let entries: u64 = sections.groups.iter().map(|of| of.end - of.start).sum();
    let known = postcard::to_allocvec(&directory).expect("encoded").len() as u64;
    let sizes = format!(
        "{:.2} bytes a span: directory {:.2}, starts {:.2}, rows {:.2}, spans {:.2}, \
         lengths {:.2}, entries {:.2} in {} groups, filter {:.2}",
        each(bytes.len() as u64),
        each(known),
        section(&sections.starts),
        section(&sections.rows),
        section(&sections.spans),
        section(&sections.lengths),
        each(entries),
        sections.groups.len(),
        section(&sections.bloom),
    );
    assert!(each(entries) < 3.0, "{sizes}");
}

#[test]
fn damage_is_found() {
    let bytes = bytes_of(&spans(&mut Random(3), 20));
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert!(open(&damaged).is_err(), "byte {at}");
        assert!(open(&bytes[..at]).is_err(), "cut at {at}");
    }
}

#[test]
fn calls_that_cannot_be_are_damage() {
    let read = |count: LinkCount| {
        let (_, bytes) = Builder::default().finish(&[count], Vec::new()).expect("encoded");
        let section = open(&bytes).expect("an index").sections.links.clone();
        links(&*file_of(&bytes), &section).map(|links| links.len())
    };
    let one = || LinkCount { calls: 1, durations: vec![(7, 2)], ..LinkCount::default() };
    assert!(read(one()).is_ok_and(|count| count == 1));
    assert!(read(LinkCount { minute: u64::MAX, ..one() }).is_err());
    assert!(read(LinkCount { calls: i64::MAX, ..one() }).is_err());
    assert!(read(LinkCount { errors: i64::MIN, ..one() }).is_err());
    assert!(read(LinkCount { durations: vec![(7, i64::MIN)], ..one() }).is_err());
}

/// The fuzzer's seeds have the current format. The test rewrites them if `WRITE_SEEDS` is set.
#[test]
fn seeds_are_what_is_written() {
    let link = |minute| LinkCount {
        minute,
        parent: "guest".to_owned(),
        child: "disk".to_owned(),
        calls: 3,
        errors: -1,
        durations: vec![(7, 2), (900, 1)],
    };
    let (_, calls) = Builder::default().finish(&[link(1), link(9)], Vec::new()).expect("encoded");
    let of_requests = |requests| bytes_of(&spans(&mut Random(7), requests));
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/lake_index");
    for (name, bytes) in [
        ("no-request", of_requests(0)),
        ("one-request", of_requests(1)),
        ("ten-requests", of_requests(10)),
        ("calls", calls),
    ] {
        let path = corpus.join(name);
        if env::var_os("WRITE_SEEDS").is_some() {
            fs::write(&path, &bytes).expect("written");
        }
        let is_same = fs::read(&path).is_ok_and(|seed| seed == bytes);
        assert!(is_same, "{name} is old; run this test with WRITE_SEEDS=1");
    }
}

//! Tests that generated requests have the documented properties.

use super::*;
use crate::{Linker, compare};
use blkkin_model::{Span, SpanRefBuffer};
use blkkin_wire::{Decoder, Encoder, Format};
use std::collections::{BTreeMap, BTreeSet};

fn requests(options: Options, count: usize) -> Vec<Vec<Span>> {
    let mut requests = Requests::new(options);
    let mut request = || {
        let mut spans = Vec::new();
        assert!(requests.next(&mut spans).is_continue());
        spans
    };
    (0..count).map(|_| request()).collect()
}

#[test]
fn requests_are_as_they_should_be() {
    for (shared, wide, typed) in [(true, false, false), (false, true, true)] {
        let options = Options { shared, wide, typed, ..Options::default() };
        let all = requests(options, 4000);
        let count: usize = all.iter().map(Vec::len).sum();
        assert!((4000 * 7..4000 * 9).contains(&count), "{count}");
        assert!(all.iter().all(|spans| (4..=40).contains(&spans.len())));
        assert!(all.iter().any(|spans| spans.len() == 4));
        assert!(all.iter().any(|spans| spans.len() > 30));
        let ids: BTreeSet<TraceId> = all.iter().map(|spans| spans[0].trace_id).collect();
        assert_eq!(ids.len(), all.len());
        assert!(ids.iter().all(|id| id.is_wide() == wide));
        let starts = all.iter().map(|spans| spans.iter().filter_map(|span| span.start_ns).min());
        let starts: Vec<u64> = starts.flatten().collect();
        assert!(starts.is_sorted() && starts[0] == options.start_ns);
        let span_ns = starts[3999] - starts[0];
        assert!((3_800_000_000..4_200_000_000).contains(&span_ns), "{span_ns}");
        let mut errors = 0;
        for spans in &all {
            let held: Vec<SpanRefBuffer<'_>> = spans.iter().map(Span::ref_buffer).collect();
            for span in held.iter().map(SpanRefBuffer::as_ref) {
                assert_eq!(span.trace_id, spans[0].trace_id);
                assert!(span.annotations.is_sorted_by(|a, b| a < b), "{span:?}");
                assert!(span.tags.is_sorted_by(|a, b| a.key < b.key), "{span:?}");
                assert!(span.annotations.len() <= 4 && span.tags.len() <= 7);
                errors += u64::from(span.is_error());
                let end = |span: &Span| span.start_ns.zip(span.duration_ns).map(|(a, b)| a + b);
                let parent = spans.iter().find(|it| Some(it.id) == span.parent_id);
                assert_eq!(parent.is_some(), span.parent_id.is_some());
                if let Some(parent) = parent {
                    assert!(parent.start_ns <= span.start_ns);
                    assert!(end(parent) >= end(&span.to_owned()));
                }
            }
            // The linker counts each call once.
            let spans: Vec<SpanRef<'_>> = held.iter().map(SpanRefBuffer::as_ref).collect();
            let mut calls = 0;
            Linker::default().link(&spans, |_| true, |_| calls += 1);
            let servers = spans.iter().filter(|span| span.kind == Kind::Server).count();
            let disks = spans.iter().filter(|span| span.remote.service == "disk").count();
            assert_eq!(calls, servers + disks);
        }
        assert!((20..80).contains(&errors), "{errors}");
    }
}

#[test]
fn seeds_give_the_same_requests_again() {
    let seeded = |seed| requests(Options { seed, ..Options::default() }, 50);
    assert_eq!(seeded(3), seeded(3));
    assert_ne!(seeded(3), seeded(4));
}

/// In each format for several spans, a round trip keeps the ids, kinds and names of generated
/// spans. In Zipkin's protobuf it keeps all fields, with times truncated to microseconds.
#[test]
fn all_formats_hold_them() {
    for format in Format::ALL {
        if format == Format::ZipkinThriftSpan {
            continue;
        }
        let is_otlp = matches!(format, Format::OtlpProto | Format::OtlpJson);
        let options = Options { shared: !is_otlp, typed: is_otlp, ..Options::default() };
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(format, &mut bytes);
        let count = Requests::new(options).fill(500, &mut encoder);
        encoder.finish();
        assert!((500..540).contains(&count));
        let mut back: Vec<Span> = Vec::new();
        let outcome = Decoder::default().decode(format, &bytes, &mut back);
        assert!(outcome.is_good() && outcome.accepted == count, "{format:?} {outcome:?}");
        let mut spans: Vec<Span> = Vec::new();
        assert_eq!(Requests::new(options).fill(500, &mut spans), count);
        let key = |span: &Span| (span.trace_id, span.id, span.kind, span.name.clone());
        let keys = |spans: &[Span]| spans.iter().map(key).collect::<BTreeSet<_>>();
        assert_eq!(keys(&back), keys(&spans), "{format:?}");
        if format == Format::ZipkinProto {
            // Zipkin's formats truncate times to microseconds.
            for span in spans.iter_mut() {
                span.start_ns = span.start_ns.map(|time| time / 1000 * 1000);
                span.duration_ns = span.duration_ns.map(|time| time / 1000 * 1000);
                for annotation in &mut span.annotations {
                    annotation.time_ns = annotation.time_ns / 1000 * 1000;
                }
                span.annotations.sort();
            }
            for (one, other) in spans.iter().zip(&back) {
                assert!(
                    compare(&one.ref_buffer().as_ref(), &other.ref_buffer().as_ref()).is_eq(),
                    "{one:?} {other:?}"
                );
            }
        }
    }
}

#[test]
fn vocabularies_are_those_of_the_business() {
    let all = requests(Options::default(), 3000);
    let spans: Vec<&Span> = all.iter().flatten().collect();
    let services: BTreeSet<&str> = spans.iter().map(|span| span.local.service.as_str()).collect();
    assert_eq!(services.len(), 2 + MIDDLES.len() + OSDS, "{services:?}");
    let names: BTreeSet<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    assert_eq!(names, ["flush", "journal", "read", "replicate", "write"]);
    let mut tags: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for tag in spans.iter().flat_map(|span| &span.tags) {
        tags.entry(&tag.key).or_default().insert(format!("{:?}", tag.value));
    }
    let keys: Vec<&str> = tags.keys().copied().collect();
    assert_eq!(
        keys,
        ["error", "http.method", "http.path", "http.status_code", "length", "offset", "volume"]
    );
    assert!((900..=1000).contains(&tags["volume"].len()));
    let annotated = spans.iter().filter(|span| !span.annotations.is_empty()).count();
    assert!((spans.len() / 4..spans.len() / 3).contains(&annotated));
    // The slowest spans take many times as long as the median.
    let mut durations: Vec<u64> = spans.iter().filter_map(|span| span.duration_ns).collect();
    durations.sort_unstable();
    let (median, last) = (durations[durations.len() / 2], durations[durations.len() * 999 / 1000]);
    assert!((200_000..1_000_000).contains(&median) && last > 8 * median, "{median} {last}");
}

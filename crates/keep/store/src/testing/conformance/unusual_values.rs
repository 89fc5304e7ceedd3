//! Conformance cases for spans with unusual values.

use super::tested_store::{NOON, SpanBuilder, Subject, encoded, span};
use crate::zipkin::Parameters;
use crate::{Order, Policy, Query, Window};
use blkkin_model::{Endpoint, Kind, Origin, Span, Status, Tag, Value};
use blkkin_wire::{Decoder, Format};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Sends spans in OTLP. Returns the spans that a decoder reads from the same batch.
fn accept_otlp(subject: &Subject, spans: &[Span]) -> Vec<Span> {
    let bytes = encoded(Format::OtlpProto, spans);
    let outcome = subject.send_batch(Format::OtlpProto, &bytes, Policy::Whole).outcome;
    assert!(outcome.is_good(), "{outcome:?}");
    let mut decoded: Vec<Span> = Vec::new();
    Decoder::default().decode(Format::OtlpProto, &bytes, &mut decoded);
    assert_eq!(decoded.len(), spans.len());
    decoded
}

/// Extreme and odd start times and durations are stored exactly.
pub(super) fn odd_times_are_kept(subject: &Subject) {
    let at = |trace, start_ns, duration_ns| Span {
        start_ns: Some(start_ns),
        duration_ns: Some(duration_ns),
        ..span(trace, 1, 0, "a", "x")
    };
    let spans = [
        at(1, 1, 0),
        at(2, NOON + 1, 1),
        at(3, NOON + 2, 999),
        at(4, u64::MAX, 0),
        at(5, u64::MAX - 5, 5),
        at(6, i64::MAX as u64, 1),
        at(7, i64::MAX as u64 + 1, 1),
        at(8, 1, u64::MAX - 1),
    ];
    let decoded = accept_otlp(subject, &spans);
    for span in &decoded {
        subject.assert_trace(std::slice::from_ref(span));
    }
    assert_eq!(decoded[3].start_ns, Some(u64::MAX));
    assert_eq!(subject.found(&Query::new(10)), [4, 5, 7, 6, 3, 2, 1, 8]);
    let slowest = Query { order: Order::Slowest, ..Query::new(3) };
    assert_eq!(subject.found(&slowest)[0], 8);
    let within = |start_ns, end_ns| {
        let window = Window { start_ns, end_ns };
        subject.found(&Query { window, ..Query::new(10) })
    };
    assert_eq!(within(NOON + 1, NOON + 1), [2]);
    assert_eq!(within(NOON + 2, u64::MAX), [4, 5, 7, 6, 3]);
    assert_eq!(within(u64::MAX, u64::MAX), [4]);
    assert_eq!(within(0, 0), [0; 0]);
    assert_eq!(within(1, 1), [1, 8]);
    assert_eq!(subject.search_filter("duration == 999"), [3]);
    assert_eq!(subject.search_filter("duration == 1 && start > 0"), [7, 6, 2]);
    assert_eq!(subject.search_filter("duration > 9223372036854775807"), [8]);
    // A duration of 0 differs from a missing duration.
    assert_eq!(subject.search_filter("duration == 0 || duration == 5"), {
        let known = |span: &&Span| matches!(span.duration_ns, Some(0 | 5));
        let mut found: Vec<&Span> = decoded.iter().filter(known).collect();
        found.sort_by_key(|span| std::cmp::Reverse(span.start_ns));
        found.iter().map(|span| span.trace_id.number()).collect::<Vec<_>>()
    });
}

/// Texts that are empty or very long, or contain unusual characters, are stored exactly.
pub(super) fn odd_texts_are_kept(subject: &Subject) {
    let long = "long ".repeat((1 << 20) / 5);
    let texts = [
        "nul\0and on",
        "{\"json\": [\"x\"]}",
        "a.b.c",
        "tab\tline\nü 日本 🦀",
        " ",
        "%*\\'\"",
        &long,
    ];
    for (trace, text) in (1..).zip(texts) {
        let mut odd = span(trace, 1, trace as u64, text, text).remote(text).tag("text", text);
        odd = odd.annotation(NOON, text).tag(text, "key");
        let bare = Span {
            local: Endpoint::default(),
            name: String::new(),
            ..span(trace, 2, trace as u64 + 100, "", "").child_of(1)
        };
        subject.accept(&[odd.clone(), bare.clone()]);
        subject.assert_trace(&[odd, bare]);
        let ask = Parameters::default();
        for asked in [
            Parameters { service: text, ..ask },
            Parameters { remote_service: text, ..ask },
            Parameters { span_name: text, ..ask },
        ] {
            assert_eq!(subject.search_zipkin(&asked), [trace], "{text:.20}");
        }
        assert!(subject.store().services().expect("an answer").iter().any(|it| it == text));
        assert_eq!(subject.store().span_names(text).expect("an answer"), [text]);
        assert!(
            subject.store().tag_values("text", 100).expect("an answer").iter().any(|it| it == text)
        );
    }
    assert_eq!(subject.search_filter(r#"annotation == "nul\0and on""#), [1]);
    assert_eq!(subject.search_filter(r#"tag.text == "long *""#), [7]);
    assert_eq!(subject.search_filter(r#"name == "%\*\\'\"""#), [6]);
    assert_eq!(subject.store().services().expect("an answer").len(), texts.len());
}

/// The value of a tag keeps its type (number, boolean, bytes). The tag may belong to the span, the
/// resource or the scope.
pub(super) fn typed_tags_are_kept(subject: &Subject) {
    let values = [
        ("bool", Value::Bool(true)),
        ("bytes", Value::Bytes(vec![0, 255, 128])),
        ("double", Value::Double(-0.0)),
        ("huge", Value::Double(f64::MAX)),
        ("int", Value::Int(i64::MIN)),
        ("nan", Value::Double(f64::NAN)),
        ("number", Value::Int(5)),
        ("text", Value::Str("5".to_owned())),
    ];
    let mut spans = Vec::new();
    for (trace, origin) in [(1, Origin::Span), (2, Origin::Resource), (3, Origin::Scope)] {
        let mut one = span(trace, 1, trace as u64, "a", "x");
        let tag = |(key, value): &(&str, Value)| Tag {
            key: (*key).to_owned(),
            value: value.clone(),
            origin,
        };
        one.tags = values.iter().map(tag).collect();
        spans.push(one);
    }
    let decoded = accept_otlp(subject, &spans);
    accept_otlp(subject, &spans);
    for span in &decoded {
        assert!(span.tags.len() >= values.len(), "{span:?}");
        subject.assert_trace(std::slice::from_ref(span));
    }
    for filter in [
        "number == 5",
        "text == 5.0",
        r#"number == "5" && text == "5""#,
        r#"bool == "true""#,
        "int < -9223372036854775807",
        "double == 0",
        "huge > 1e308",
        "has(nan) && !(nan < 5) && !(nan >= 5)",
    ] {
        assert_eq!(subject.search_filter(filter), [3, 2, 1], "{filter}");
    }
    assert_eq!(subject.store().tag_values("number", 5).expect("an answer"), ["5"]);
    assert_eq!(subject.store().tag_values("bool", 5).expect("an answer"), ["true"]);
}

/// Spans that differ only in a flag, kind or endpoint are stored separately, each with its own
/// fields. The status of a span is stored, and the filter `error` matches it.
pub(super) fn flags_are_kept(subject: &Subject) {
    let base = || span(1, 1, 0, "a", "x");
    let address = Endpoint {
        ipv4: Some(Ipv4Addr::new(10, 1, 2, 3)),
        ipv6: Some(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
        port: 65535,
        service: "a".to_owned(),
    };
    let mut spans = vec![
        base(),
        base().shared(),
        Span { debug: true, ..base() },
        Span { local: address.clone(), ..base() },
        Span { remote: address.clone(), ..base() },
        Span { remote: Endpoint { service: String::new(), ..address }, ..base() },
    ];
    let kinds = [Kind::Client, Kind::Server, Kind::Producer, Kind::Consumer];
    spans.extend(kinds.map(|kind| base().kind(kind)));
    subject.accept(&spans);
    subject.assert_trace(&spans);
    let stated = [Status::Unset, Status::Ok, Status::Error].map(|status| {
        let spans = [Span { status, ..span(2, status as u64 + 1, 5, "b", "x") }];
        accept_otlp(subject, &spans)
    });
    subject.assert_trace(&stated.concat());
    assert_eq!(subject.search_filter(r#"error && service == "b""#), [2]);
    assert!(subject.search_filter(r#"error && service == "a""#).is_empty());
}

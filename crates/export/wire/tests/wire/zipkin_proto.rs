//! Tests of Zipkin v2 as protobuf, compared with prost's messages of the same definition.

use crate::check::{damaged, good, read, refusal};
use crate::random::Random;
use blkkin_model::{Kind, SpanId, TraceId, Value};
use blkkin_wire::Format::ZipkinProto;
use blkkin_wire::{Decoder, End, Limits};
use prost::Message;
use std::collections::BTreeMap;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListOfSpans {
    #[prost(message, repeated, tag = "1")]
    pub(crate) spans: Vec<Span>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Span {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) parent_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) id: Vec<u8>,
    #[prost(int32, tag = "4")]
    pub(crate) kind: i32,
    #[prost(string, tag = "5")]
    pub(crate) name: String,
    #[prost(fixed64, tag = "6")]
    pub(crate) timestamp: u64,
    #[prost(uint64, tag = "7")]
    pub(crate) duration: u64,
    #[prost(message, optional, tag = "8")]
    pub(crate) local_endpoint: Option<Endpoint>,
    #[prost(message, optional, tag = "9")]
    pub(crate) remote_endpoint: Option<Endpoint>,
    #[prost(message, repeated, tag = "10")]
    pub(crate) annotations: Vec<Annotation>,
    #[prost(btree_map = "string, string", tag = "11")]
    pub(crate) tags: BTreeMap<String, String>,
    #[prost(bool, tag = "12")]
    pub(crate) debug: bool,
    #[prost(bool, tag = "13")]
    pub(crate) shared: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Endpoint {
    #[prost(string, tag = "1")]
    pub(crate) service_name: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) ipv4: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) ipv6: Vec<u8>,
    #[prost(int32, tag = "4")]
    pub(crate) port: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Annotation {
    #[prost(fixed64, tag = "1")]
    pub(crate) timestamp: u64,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

/// Converts a span to prost's message of Zipkin's format.
pub(crate) fn message(span: &blkkin_model::Span) -> Span {
    let wide = span.trace_id.number().to_be_bytes();
    let us = |ns: Option<u64>| ns.unwrap_or(0) / 1000;
    Span {
        trace_id: if span.trace_id.is_wide() { wide.to_vec() } else { wide[8..].to_vec() },
        parent_id: span.parent_id.map(bytes).unwrap_or_default(),
        id: bytes(span.id),
        kind: match span.kind {
            Kind::Unspecified | Kind::Internal => 0,
            Kind::Client => 1,
            Kind::Server => 2,
            Kind::Producer => 3,
            Kind::Consumer => 4,
        },
        name: span.name.clone(),
        timestamp: us(span.start_ns),
        duration: us(span.duration_ns),
        local_endpoint: endpoint(&span.local),
        remote_endpoint: endpoint(&span.remote),
        annotations: span
            .annotations
            .iter()
            .map(|it| Annotation { timestamp: it.time_ns / 1000, value: it.value.clone() })
            .collect(),
        tags: span
            .tags
            .iter()
            .map(|tag| match &tag.value {
                Value::Str(text) => (tag.key.clone(), text.clone()),
                other => panic!("{other:?} in a span of Zipkin's"),
            })
            .collect(),
        debug: span.debug,
        shared: span.shared,
    }
}

fn bytes(id: SpanId) -> Vec<u8> {
    id.number().to_be_bytes().to_vec()
}

fn endpoint(endpoint: &blkkin_model::Endpoint) -> Option<Endpoint> {
    (!endpoint.as_ref().is_none()).then(|| Endpoint {
        service_name: endpoint.service.clone(),
        ipv4: endpoint.ipv4.map(|it| it.octets().to_vec()).unwrap_or_default(),
        ipv6: endpoint.ipv6.map(|it| it.octets().to_vec()).unwrap_or_default(),
        port: endpoint.port.into(),
    })
}

/// Returns a valid span with only its ids.
fn plain() -> Span {
    Span { trace_id: vec![0, 0, 1], id: vec![2], ..Span::default() }
}

fn list(spans: impl IntoIterator<Item = Span>) -> Vec<u8> {
    ListOfSpans { spans: spans.into_iter().collect() }.encode_to_vec()
}

#[test]
fn what_prost_writes_is_read() {
    let mut random = Random(1);
    for round in 0..500 {
        let spans: Vec<_> = (0..round % 5).map(|_| random.zipkin_span()).collect();
        assert_eq!(good(ZipkinProto, &list(spans.iter().map(message))), spans);
    }
}

#[test]
fn damaged_bytes_are_read_as_prost_reads_them_or_refused() {
    let make = |random: &mut Random| list((0..3).map(|_| message(&random.zipkin_span())));
    let mut compared = 0;
    damaged(ZipkinProto, 2, make, |batch, spans, outcome| {
        let Ok(list) = ListOfSpans::decode(batch) else { return };
        if outcome.refused > 0 || !outcome.is_good() || list.spans.len() != spans.len() {
            return;
        }
        for (span, theirs) in spans.iter().zip(&list.spans) {
            // After damage, only fields without additional rules of Zipkin are comparable.
            let ours = message(span);
            // prost accepts a map entry regardless of the wire type in its key.
            if ours.tags.len() != theirs.tags.len() {
                continue;
            }
            assert_eq!((&ours.name, &ours.tags), (&theirs.name, &theirs.tags));
            let wide = |id: &[u8]| id.iter().fold(0, |sum: u128, it| sum << 8 | u128::from(*it));
            assert_eq!(wide(&ours.id), wide(&theirs.id));
            assert_eq!(wide(&ours.trace_id), wide(&theirs.trace_id));
            compared += 1;
        }
    });
    assert!(compared > 500, "{compared}");
}

#[test]
fn values_are_taken_by_zipkins_rules() {
    fn check(change: impl FnOnce(&mut Span), expected: impl FnOnce(&mut blkkin_model::Span)) {
        let (mut sent, mut span) = (plain(), good(ZipkinProto, &list([plain()])).remove(0));
        change(&mut sent);
        expected(&mut span);
        assert_eq!(good(ZipkinProto, &list([sent])), [span]);
    }
    check(|_| {}, |span| assert_eq!((span.trace_id.number(), span.id.number()), (1, 2)));
    check(
        |sent| sent.trace_id = vec![1; 16],
        |span| span.trace_id = TraceId::from_number(u128::MAX / 255).expect("not 0"),
    );
    check(|sent| sent.parent_id = vec![2], |_| {});
    check(|sent| sent.parent_id = vec![0; 8], |_| {});
    check(|sent| sent.parent_id = vec![3], |span| span.parent_id = SpanId::from_number(3));
    check(|sent| sent.kind = 5, |_| {});
    check(|sent| sent.kind = -1, |_| {});
    check(|sent| sent.timestamp = u64::MAX, |_| {});
    check(|sent| sent.duration = 1 << 63, |_| {});
    check(|sent| sent.duration = 3, |span| span.duration_ns = Some(3000));
    check(|sent| sent.name = "GET".into(), |span| span.name = "GET".into());
    check(|sent| sent.local_endpoint = Some(Endpoint::default()), |_| {});
    let port = |port| Some(Endpoint { port, ..Endpoint::default() });
    check(|sent| sent.remote_endpoint = port(-1), |_| {});
    check(|sent| sent.remote_endpoint = port(80), |span| span.remote.port = 80);
    let note = |timestamp, value: &str| Annotation { timestamp, value: value.into() };
    check(|sent| sent.annotations = vec![note(0, "a"), note(1, "")], |_| {});
    check(
        |sent| {
            sent.shared = true;
            sent.kind = 1;
        },
        |span| span.kind = Kind::Client,
    );
    check(
        |sent| sent.annotations = vec![note(2, "b"), note(2, "a"), note(1, "c"), note(2, "b")],
        |span| {
            let note =
                |time_ns, value: &str| blkkin_model::Annotation { time_ns, value: value.into() };
            span.annotations = vec![note(1000, "c"), note(2000, "a"), note(2000, "b")];
        },
    );
}

#[test]
fn bad_spans_are_refused_alone_and_named() {
    fn check(change: impl FnOnce(&mut Span), expected: &str) {
        let mut bad = plain();
        change(&mut bad);
        let batch = list([plain(), bad, plain()]);
        let (spans, outcome) = read(ZipkinProto, &batch);
        assert_eq!((spans.len(), outcome.refused, &outcome.end), (2, 1, &End::Whole));
        assert_eq!(outcome.refusals[0].to_string(), expected);
        let mut kept = Vec::new();
        let strict = Decoder::default().strict(true).decode(ZipkinProto, &batch, &mut kept);
        assert_eq!((kept.len(), strict.accepted, strict.refusals), (0, 0, outcome.refusals));
    }
    check(|bad| bad.trace_id.clear(), "span 1, byte 11: traceId is missing");
    check(|bad| bad.id.clear(), "span 1, byte 11: id is missing");
    check(|bad| bad.trace_id = vec![0; 16], "span 1, byte 13: traceId is 0");
    check(
        |bad| bad.trace_id = vec![1; 17],
        "span 1, byte 13: traceId has size 17, which may be at most 16",
    );
    check(|bad| bad.id = vec![0; 8], "span 1, byte 18: id is 0");
    check(|bad| bad.id = vec![1; 9], "span 1, byte 18: id has size 9, which may be at most 8");
    check(
        |bad| bad.parent_id = vec![1; 9],
        "span 1, byte 18: parentId has size 9, which may be at most 8",
    );
    check(|bad| bad.timestamp = 1 << 62, "span 1, byte 21: timestamp is out of range");
    check(|bad| bad.duration = 1 << 62, "span 1, byte 21: duration is out of range");
    check(
        |bad| bad.local_endpoint = Some(Endpoint { port: 65536, ..Endpoint::default() }),
        "span 1, byte 23: localEndpoint is out of range",
    );
    check(
        |bad| bad.name = "x".repeat(1 << 21),
        "span 1, byte 24: name has more than 1048576 bytes",
    );
    check(
        |bad| bad.tags = (0..1025).map(|n| (n.to_string(), String::new())).collect(),
        "span 1, byte 7105: tags has more than 1024 tags",
    );
}

#[test]
fn broken_batches_give_what_is_before() {
    fn check(batch: &[u8], given: u64, expected: &str) {
        let (_, outcome) = read(ZipkinProto, batch);
        assert_eq!(outcome.accepted, given, "{outcome:?}");
        match outcome.end {
            End::Broken(refusal) => assert_eq!(refusal.to_string(), expected),
            other => panic!("{other:?}"),
        }
    }
    let batch = list([plain(), plain()]);
    check(&batch[..15], 1, "span 1, byte 11: ends early");
    check(&[&batch[..], &[0x0a]].concat(), 2, "span 2, byte 21: ends early");
    check(&[&batch[..], &[0x03]].concat(), 2, "span 2, byte 20: should be a field's key");
    check(&[&batch[..], &[0x0b]].concat(), 2, "span 2, byte 21: should be a field's key");
    check(&[0xff; 11], 0, "span 0, byte 0: should be a number of 64 bits");
    assert_eq!(refusal(ZipkinProto, &[0x0a, 0]), "span 0, byte 1: traceId is missing");
    assert_eq!(refusal(ZipkinProto, &[]), "nothing");
    // Unknown fields of each wire type are skipped.
    let others = [0x10, 0x80, 1, 0x11, 1, 2, 3, 4, 5, 6, 7, 8, 0x1a, 1, 9, 0x25, 1, 2, 3, 4];
    assert_eq!(good(ZipkinProto, &[&others[..], &batch[..]].concat()).len(), 2);
}

#[test]
fn batches_are_limited() {
    let batch = list([plain(), plain(), plain()]);
    let check = |limits: Limits, given: u64, expected: &str| {
        let outcome = Decoder::new(limits).decode(ZipkinProto, &batch, &mut Vec::new());
        let refusal = outcome.first_refusal().map(ToString::to_string);
        assert_eq!((outcome.accepted, refusal.as_deref()), (given, Some(expected)));
    };
    let limits = Limits::default();
    check(Limits { spans: 2, ..limits }, 2, "span 2, byte 21: has more than 2 spans");
    check(Limits { batch_bytes: 29, ..limits }, 0, "span 0, byte 29: has more than 29 bytes");
}

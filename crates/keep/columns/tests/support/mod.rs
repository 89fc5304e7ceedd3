//! Generators of random spans for property tests.
#![allow(dead_code, reason = "each test uses a part")]

use blkkin_model::{Annotation, Endpoint, Kind, Origin, Span, SpanId, Status, Tag, TraceId, Value};
use proptest::prelude::*;

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(vec!["", "a", "b", "read", "osd.0", "error", "\0", "ä\u{10ffff}"])
            .prop_map(str::to_owned),
        1 => ".{0,20}",
    ]
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..3_u64, any::<u64>(), Just(u64::MAX), Just(1 << 63)]
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => text().prop_map(Value::Str),
        1 => any::<i64>().prop_map(Value::Int),
        1 => any::<bool>().prop_map(Value::Bool),
        1 => any::<u64>().prop_map(|bits| Value::Double(f64::from_bits(bits))),
        1 => prop::sample::select(vec![0.0, -0.0, 1.5, f64::NAN, f64::INFINITY, -1e300])
            .prop_map(Value::Double),
        1 => prop::collection::vec(any::<u8>(), 0..5).prop_map(Value::Bytes),
    ]
}

fn origin() -> impl Strategy<Value = Origin> {
    prop::sample::select(vec![Origin::Resource, Origin::Scope, Origin::Span])
}

fn endpoint() -> impl Strategy<Value = Endpoint> {
    let addresses = (prop::option::of(0..3_u32), prop::option::of(any::<u128>()), 0..3_u16);
    (text(), addresses).prop_map(|(service, (ipv4, ipv6, port))| Endpoint {
        service,
        ipv4: ipv4.map(Into::into),
        ipv6: ipv6.map(Into::into),
        port: if port == 2 { 65535 } else { port },
    })
}

/// Generates arbitrary spans, including spans that no decoder produces.
pub(crate) fn span() -> impl Strategy<Value = Span> {
    let ids = (
        prop_oneof![1..9_u128, any::<u128>(), (1..3_u128).prop_map(|high| high << 64)],
        number(),
        prop::option::of(number()),
    );
    let kinds = [
        Kind::Unspecified,
        Kind::Internal,
        Kind::Client,
        Kind::Server,
        Kind::Producer,
        Kind::Consumer,
    ];
    let flags = (
        prop::sample::select(kinds.to_vec()),
        prop::sample::select(vec![Status::Unset, Status::Ok, Status::Error]),
        any::<bool>(),
        any::<bool>(),
    );
    let times = (prop::option::of(number()), prop::option::of(number()));
    let annotation = (number(), text()).prop_map(|(time_ns, value)| Annotation { time_ns, value });
    let tag =
        (text(), value(), origin()).prop_map(|(key, value, origin)| Tag { key, value, origin });
    let lists = (prop::collection::vec(annotation, 0..4), prop::collection::vec(tag, 0..6));
    (ids, flags, times, text(), endpoint(), endpoint(), lists).prop_map(
        |(ids, flags, times, name, local, remote, (annotations, tags))| Span {
            trace_id: TraceId::from_number(ids.0.max(1)).expect("not 0"),
            id: SpanId::from_number(ids.1.max(1)).expect("not 0"),
            parent_id: ids.2.and_then(SpanId::from_number),
            kind: flags.0,
            status: flags.1,
            debug: flags.2,
            shared: flags.3,
            name,
            start_ns: times.0,
            duration_ns: times.1,
            local,
            remote,
            annotations,
            tags,
        },
    )
}

/// Generates lists with fewer than `most` spans.
pub(crate) fn spans(most: usize) -> impl Strategy<Value = Vec<Span>> {
    prop::collection::vec(span(), 0..most)
}

/// Returns a text that is equal for equal spans; a NaN equals itself.
pub(crate) fn comparable_text(span: &Span) -> String {
    let mut span = span.clone();
    let mut doubles = Vec::new();
    for tag in &mut span.tags {
        if let Value::Double(number) = tag.value {
            doubles.push(number.to_bits());
            tag.value = Value::Double(0.0);
        }
    }
    format!("{span:?} {doubles:?}")
}

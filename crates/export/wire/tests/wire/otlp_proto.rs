//! Tests of OpenTelemetry's traces as protobuf, compared with the types of OpenTelemetry's own
//! library.

use crate::check::{damaged, good, read, refusal};
use crate::random::Random;
use blkkin_model::{Kind, Origin, Span as Ours, Status as OurStatus, Value};
use blkkin_wire::Format::OtlpProto;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest as Request;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Theirs;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message;

/// Returns an OpenTelemetry attribute with this key and value.
pub(crate) fn pair(key: &str, value: Theirs) -> KeyValue {
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

fn text(text: &str) -> Theirs {
    Theirs::StringValue(text.to_owned())
}

fn value(value: &Value) -> Theirs {
    match value {
        Value::Str(text) => Theirs::StringValue(text.clone()),
        Value::Int(number) => Theirs::IntValue(*number),
        Value::Bool(flag) => Theirs::BoolValue(*flag),
        Value::Double(number) => Theirs::DoubleValue(*number),
        Value::Bytes(bytes) => Theirs::BytesValue(bytes.clone()),
    }
}

fn attributes(span: &Ours, origin: Origin) -> Vec<KeyValue> {
    let of_origin = span.tags.iter().filter(|tag| tag.origin == origin);
    of_origin.map(|tag| pair(&tag.key, value(&tag.value))).collect()
}

/// Converts a span to OpenTelemetry's protobuf message.
pub(crate) fn message(span: &Ours) -> Span {
    let start = span.start_ns.unwrap_or(0);
    Span {
        trace_id: span.trace_id.number().to_be_bytes().to_vec(),
        span_id: span.id.number().to_be_bytes().to_vec(),
        parent_span_id: span
            .parent_id
            .map(|id| id.number().to_be_bytes().to_vec())
            .unwrap_or_default(),
        name: span.name.clone(),
        kind: match span.kind {
            Kind::Unspecified => 0,
            Kind::Internal => 1,
            Kind::Server => 2,
            Kind::Client => 3,
            Kind::Producer => 4,
            Kind::Consumer => 5,
        },
        start_time_unix_nano: start,
        end_time_unix_nano: span.duration_ns.map_or(0, |duration| start + duration),
        attributes: attributes(span, Origin::Span),
        events: span
            .annotations
            .iter()
            .map(|it| Event {
                time_unix_nano: it.time_ns,
                name: it.value.clone(),
                ..Event::default()
            })
            .collect(),
        status: Some(Status {
            code: match span.status {
                OurStatus::Unset => 0,
                OurStatus::Ok => 1,
                OurStatus::Error => 2,
            },
            message: String::new(),
        }),
        ..Span::default()
    }
}

/// Returns a request with one resource and scope for each span.
pub(crate) fn request(spans: &[Ours]) -> Request {
    let resource_spans = spans.iter().map(|span| {
        let mut of_resource = attributes(span, Origin::Resource);
        of_resource.push(pair("service.name", text(&span.local.service)));
        let scope = InstrumentationScope {
            attributes: attributes(span, Origin::Scope),
            ..InstrumentationScope::default()
        };
        let spans = vec![message(span)];
        ResourceSpans {
            resource: Some(Resource { attributes: of_resource, ..Resource::default() }),
            scope_spans: vec![ScopeSpans { scope: Some(scope), spans, ..ScopeSpans::default() }],
            ..ResourceSpans::default()
        }
    });
    Request { resource_spans: resource_spans.collect() }
}

fn plain() -> Span {
    Span { trace_id: vec![1; 16], span_id: vec![2; 8], ..Span::default() }
}

fn of_resource(resource: Vec<KeyValue>, spans: Vec<Span>) -> Request {
    let resource = Some(Resource { attributes: resource, ..Resource::default() });
    let scope_spans = vec![ScopeSpans { spans, ..ScopeSpans::default() }];
    Request {
        resource_spans: vec![ResourceSpans { resource, scope_spans, ..ResourceSpans::default() }],
    }
}

fn bytes(spans: Vec<Span>) -> Vec<u8> {
    of_resource(Vec::new(), spans).encode_to_vec()
}

/// Formats the tags of a span as text. Tags of the resource begin with `/`, tags of the scope with
/// `+`.
fn tags(span: &Ours) -> String {
    let tags = span.tags.iter().map(|tag| {
        let mark = ["/", "+", ""][tag.origin as usize];
        let value = match &tag.value {
            Value::Str(text) => text.clone(),
            other => format!("{other:?}"),
        };
        format!("{mark}{}={value}", tag.key)
    });
    tags.collect::<Vec<_>>().join(" ")
}

#[test]
fn what_prost_writes_is_read() {
    let mut random = Random(3);
    for round in 0..500 {
        let spans: Vec<_> = (0..round % 5).map(|_| random.otlp_span()).collect();
        assert_eq!(good(OtlpProto, &request(&spans).encode_to_vec()), spans);
    }
}

#[test]
fn damaged_bytes_are_read_as_prost_reads_them_or_refused() {
    let make =
        |random: &mut Random| request(&[random.otlp_span(), random.otlp_span()]).encode_to_vec();
    let mut compared = 0;
    damaged(OtlpProto, 4, make, |batch, spans, outcome| {
        let Ok(request) = Request::decode(batch) else { return };
        let theirs = request.resource_spans.iter().flat_map(|it| &it.scope_spans);
        let theirs: Vec<&Span> = theirs.flat_map(|it| &it.spans).collect();
        if outcome.refused > 0 || !outcome.is_good() || theirs.len() != spans.len() {
            return;
        }
        for (span, theirs) in spans.iter().zip(theirs) {
            let ours = message(span);
            assert_eq!(
                (&ours.name, ours.start_time_unix_nano),
                (&theirs.name, theirs.start_time_unix_nano)
            );
            assert_eq!((&ours.trace_id, &ours.span_id), (&theirs.trace_id, &theirs.span_id));
            compared += 1;
        }
    });
    assert!(compared > 300, "{compared}");
}

#[test]
fn resources_and_scopes_become_tags() {
    let resource = Resource {
        attributes: vec![pair("host", text("h")), pair("service.name", text("Svc"))],
        ..Resource::default()
    };
    let scope = |name: &str, key: &str| InstrumentationScope {
        name: name.to_owned(),
        version: "1".to_owned(),
        attributes: vec![pair(key, Theirs::BoolValue(true))],
        ..InstrumentationScope::default()
    };
    let own = Span { attributes: vec![pair("host", text("own")), pair("b", text(""))], ..plain() };
    let of_scope =
        |scope, span| ScopeSpans { scope: Some(scope), spans: vec![span], ..ScopeSpans::default() };
    let scope_spans = vec![of_scope(scope("s", "a"), own), of_scope(scope("", "z"), plain())];
    let all = ResourceSpans { resource: Some(resource), scope_spans, ..ResourceSpans::default() };
    let spans = good(OtlpProto, &Request { resource_spans: vec![all] }.encode_to_vec());
    assert_eq!(
        spans.iter().map(tags).collect::<Vec<_>>(),
        [
            "+a=Bool(true) b= /host=h host=own +otel.scope.name=s +otel.scope.version=1",
            "/host=h +otel.scope.version=1 +z=Bool(true)",
        ]
    );
    assert!(spans.iter().all(|span| span.local.service == "Svc"));
}

#[test]
fn a_resource_behind_its_spans_counts() {
    let all = of_resource(vec![pair("service.name", text("late"))], vec![plain()]);
    let [both] = &all.resource_spans[..] else { panic!("one resource") };
    let part = |resource, scope_spans| {
        ResourceSpans { resource, scope_spans, ..ResourceSpans::default() }.encode_to_vec()
    };
    let mut inner = part(None, both.scope_spans.clone());
    inner.extend(part(both.resource.clone(), Vec::new()));
    let mut batch = vec![0x0a, inner.len() as u8];
    batch.extend(inner);
    assert_eq!(good(OtlpProto, &batch)[0].local.service, "late");
}

#[test]
fn services_have_names() {
    fn check(resource: &[(&str, Theirs)], service: &str, left: &str) {
        let resource = resource.iter().map(|(key, value)| pair(key, value.clone())).collect();
        let spans = good(OtlpProto, &of_resource(resource, vec![plain()]).encode_to_vec());
        assert_eq!((spans[0].local.service.as_str(), tags(&spans[0]).as_str()), (service, left));
    }
    check(&[], "unknown_service", "");
    check(&[("service.name", text(""))], "unknown_service", "");
    check(&[("service.name", Theirs::IntValue(1))], "unknown_service", "/service.name=Int(1)");
    check(&[("faas.name", text("f")), ("service.name", text("s"))], "s", "/faas.name=f");
    check(&[("process.executable.name", text("p"))], "p", "/process.executable.name=p");
    let both = [("process.executable.name", text("p")), ("k8s.deployment.name", text("k"))];
    check(&both, "k", "/k8s.deployment.name=k /process.executable.name=p");
}

#[test]
fn values_are_taken_by_the_mapping() {
    fn check(span: Span, expected: &str) {
        assert_eq!(tags(&good(OtlpProto, &bytes(vec![span]))[0]), expected);
    }
    let tagged = |value| Span { attributes: vec![pair("k", value)], ..plain() };
    let list = |values: Vec<Theirs>| {
        let values = values.into_iter().map(|value| AnyValue { value: Some(value) }).collect();
        Theirs::ArrayValue(ArrayValue { values })
    };
    check(tagged(Theirs::IntValue(-1)), "k=Int(-1)");
    check(tagged(Theirs::BytesValue(vec![1])), "k=Bytes([1])");
    check(tagged(list(vec![])), "k=[]");
    let mixed = vec![
        text("a\"b"),
        Theirs::IntValue(-5),
        Theirs::BoolValue(true),
        Theirs::DoubleValue(1.5),
        Theirs::BytesValue(b"foo".to_vec()),
        list(vec![Theirs::DoubleValue(f64::NAN)]),
    ];
    check(tagged(list(mixed)), r#"k=["a\"b",-5,true,1.5,"Zm9v",["NaN"]]"#);
    let map = KeyValueList { values: vec![pair("x", Theirs::IntValue(1)), KeyValue::default()] };
    check(tagged(Theirs::KvlistValue(map)), r#"k={"x":1,"":null}"#);
    let bare = KeyValue { key: "k".to_owned(), ..KeyValue::default() };
    check(Span { attributes: vec![bare], ..plain() }, "k=");
    let twice = vec![pair("k", text("1")), pair("a", text("2")), pair("k", text("3"))];
    check(Span { attributes: twice, ..plain() }, "a=2 k=3");
    check(Span { trace_state: "a=b".to_owned(), ..plain() }, "w3c.tracestate=a=b");
    check(
        Span {
            dropped_attributes_count: 1,
            dropped_events_count: 2,
            dropped_links_count: 3,
            ..plain()
        },
        "otel.dropped_attributes_count=Int(1) otel.dropped_events_count=Int(2) otel.dropped_links_count=Int(3)",
    );
    let link = |state: &str, attributes| Link {
        trace_id: vec![0xab; 16],
        span_id: vec![0xcd; 8],
        trace_state: state.to_owned(),
        attributes,
        dropped_attributes_count: 7,
        ..Link::default()
    };
    let links = vec![link("s", vec![pair("k", text("v"))]), link("", vec![])];
    let (trace, span) = ("ab".repeat(16), "cd".repeat(8));
    check(
        Span { links, ..plain() },
        &format!(
            "otlp.link.0={trace}|{span}|s|{{\"k\":\"v\"}}|7 otlp.link.1={trace}|{span}||{{}}|7"
        ),
    );
}

#[test]
fn errors_are_tags_too() {
    fn check(
        code: i32,
        message: &str,
        attribute: Option<Theirs>,
        status: OurStatus,
        expected: &str,
    ) {
        let attributes = attribute.map(|value| pair("error", value)).into_iter().collect();
        let status_sent = Some(Status { code, message: message.to_owned() });
        let sent = Span { attributes, status: status_sent, ..plain() };
        let span = good(OtlpProto, &bytes(vec![sent])).remove(0);
        assert_eq!((span.status, tags(&span).as_str()), (status, expected));
    }
    check(0, "", None, OurStatus::Unset, "");
    check(0, "unheard", None, OurStatus::Unset, "");
    check(1, "unheard", None, OurStatus::Ok, "");
    check(2, "", None, OurStatus::Error, "error=");
    check(2, "gone", None, OurStatus::Error, "error=gone");
    check(2, "gone", Some(text("own")), OurStatus::Error, "error=own");
    check(2, "gone", Some(Theirs::BoolValue(false)), OurStatus::Error, "error=gone");
    check(0, "", Some(Theirs::BoolValue(false)), OurStatus::Unset, "error=Bool(false)");
    check(9, "", None, OurStatus::Unset, "");
}

#[test]
fn times_and_events_are_taken() {
    fn check(start: u64, end: u64, expected: (Option<u64>, Option<u64>)) {
        let sent = Span { start_time_unix_nano: start, end_time_unix_nano: end, ..plain() };
        let span = good(OtlpProto, &bytes(vec![sent])).remove(0);
        assert_eq!((span.start_ns, span.duration_ns), expected);
    }
    check(0, 0, (None, None));
    check(0, 5, (None, None));
    check(5, 0, (Some(5), None));
    check(5, 5, (Some(5), Some(0)));
    check(5, u64::MAX, (Some(5), Some(u64::MAX - 5)));
    let event = |time_unix_nano, name: &str, attributes| Event {
        time_unix_nano,
        name: name.to_owned(),
        attributes,
        ..Event::default()
    };
    let events = vec![event(2, "b", vec![pair("k", Theirs::IntValue(1))]), event(1, "a", vec![])];
    let span = good(OtlpProto, &bytes(vec![Span { events, ..plain() }])).remove(0);
    let found: Vec<_> = span.annotations.iter().map(|it| (it.time_ns, it.value.as_str())).collect();
    assert_eq!(found, [(1, "a"), (2, r#""b": {"k":1}"#)]);
}

#[test]
fn bad_spans_are_refused_alone_and_named() {
    fn check(change: impl FnOnce(&mut Span), expected: &str) {
        let mut bad = plain();
        change(&mut bad);
        let (spans, outcome) = read(OtlpProto, &bytes(vec![plain(), bad, plain()]));
        assert_eq!((spans.len(), outcome.refused), (2, 1));
        assert!(outcome.refusals[0].to_string().ends_with(expected), "{}", outcome.refusals[0]);
        assert!(outcome.refusals[0].to_string().starts_with("span 1, byte "));
    }
    check(|bad| bad.trace_id.clear(), "traceId is missing");
    check(|bad| bad.span_id.clear(), "id is missing");
    check(|bad| bad.trace_id = vec![1; 8], "traceId should be an id of 16 bytes");
    check(|bad| bad.trace_id = vec![0; 16], "traceId is 0");
    check(|bad| bad.span_id = vec![0; 8], "spanId is 0");
    check(|bad| bad.span_id = vec![1; 9], "spanId should be an id of 8 bytes");
    check(|bad| bad.parent_span_id = vec![1; 7], "parentSpanId should be an id of 8 bytes");
    check(|bad| bad.links = vec![Link::default()], "links is missing");
    let deep = (0..40).fold(Theirs::IntValue(1), |inner, _| {
        Theirs::ArrayValue(ArrayValue { values: vec![AnyValue { value: Some(inner) }] })
    });
    check(|bad| bad.attributes = vec![pair("k", deep)], "attributes is nested too deep");
    check(
        |bad| bad.attributes = vec![pair(&"k".repeat(1 << 21), text(""))],
        "attributes has more than 1048576 bytes",
    );
    let shared = (0..129).map(|n| pair(&n.to_string(), text(""))).collect();
    let batch = of_resource(shared, vec![plain()]).encode_to_vec();
    assert!(refusal(OtlpProto, &batch).ends_with("resource has more than 128 tags"));
    assert_eq!(refusal(OtlpProto, &[]), "nothing");
}

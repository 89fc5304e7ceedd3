//! Tests that this crate and other libraries decode encoded spans to the original spans, and that
//! thrift and Zipkin's JSON equal the expected output byte for byte.

use crate::check::good;
use crate::random::Random;
use crate::thrift::structure;
use crate::{otlp_proto, zipkin_json, zipkin_proto};
use blkkin_model::{
    Annotation, Endpoint, Kind, Origin, Span, SpanId, SpanRef, SpanSink, Status, Tag, TraceId,
    Value,
};
use blkkin_wire::Format::{
    self, OtlpJson, OtlpProto, ZipkinJson, ZipkinProto, ZipkinThrift, ZipkinThriftSpan,
    ZipkinV1Json,
};
use blkkin_wire::{Batch, Decoder, Encoder};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest as Request;
use prost::Message;
use serde_json::Value as Json;

fn encode(format: Format, spans: &[Span]) -> Vec<u8> {
    let mut out = b"before".to_vec();
    let mut encoder = Encoder::new(format, &mut out);
    for span in spans {
        encoder.span(&span.ref_buffer().as_ref());
    }
    let size = encoder.size();
    encoder.finish();
    let batch = out.split_off(b"before".len());
    assert!(size <= batch.len() && batch.len() - size < 120, "{size} of {}", batch.len());
    let mut own = Batch::new(format);
    spans.iter().for_each(|span| own.span(&span.ref_buffer().as_ref()));
    assert_eq!((own.count(), own.size()), (spans.len(), size));
    assert_eq!(own.finish(), batch);
    batch
}

fn text(format: Format, spans: &[Span]) -> String {
    String::from_utf8(encode(format, spans)).expect("text")
}

/// Returns a random span that Zipkin's v1 and v2 formats can both represent.
fn for_both(random: &mut Random) -> Span {
    let span = random.zipkin_span();
    let is_shared = span.kind == Kind::Server && random.one_in(2);
    // In the v1 format, a duration without a start is ambiguous, and a kind needs a start.
    let has_kind = span.kind != Kind::Unspecified && span.start_ns.is_some();
    let unheard_remote = !has_kind && !span.remote.as_ref().is_none();
    Span {
        kind: if has_kind { span.kind } else { Kind::Unspecified },
        shared: has_kind && is_shared,
        duration_ns: span.start_ns.and(span.duration_ns),
        local: Endpoint { service: "here".to_owned(), ..span.local },
        remote: if unheard_remote { Endpoint::default() } else { span.remote },
        ..span
    }
}

/// A span whose end exceeds the range of times is encoded in every format as a single span with its
/// start.
#[test]
fn an_end_beyond_time() {
    let start = u64::MAX - 5000;
    for kind in [Kind::Client, Kind::Server, Kind::Producer, Kind::Consumer, Kind::Internal] {
        let span = SpanRef {
            kind,
            start_ns: Some(start),
            duration_ns: Some(u64::MAX),
            ..SpanRef::new(TraceId::from_number(7).unwrap(), SpanId::from_number(8).unwrap())
        };
        let span = span.to_owned();
        for format in Format::ALL {
            let read = good(format, &encode(format, std::slice::from_ref(&span)));
            assert_eq!(read.len(), 1, "{format:?} {kind:?}");
            assert_eq!(read[0].start_ns.unwrap() / 1000, start / 1000, "{format:?} {kind:?}");
        }
    }
}

#[test]
fn what_is_written_is_read_again() {
    let mut random = Random(13);
    for round in 0..400 {
        let make = |make: fn(&mut Random) -> Span, random: &mut Random| -> Vec<Span> {
            (0..round % 5).map(|_| make(random)).collect()
        };
        let zipkin = make(Random::zipkin_span, &mut random);
        let both = make(for_both, &mut random);
        let otlp = make(Random::otlp_span, &mut random);
        for format in [ZipkinJson, ZipkinProto] {
            assert_eq!(good(format, &encode(format, &zipkin)), zipkin, "{format:?}");
        }
        for format in [OtlpProto, OtlpJson] {
            assert_eq!(good(format, &encode(format, &otlp)), otlp, "{format:?}");
        }
        for format in [ZipkinV1Json, ZipkinThrift] {
            assert_eq!(good(format, &encode(format, &both)), both, "{format:?}");
        }
        for span in both {
            let one = std::slice::from_ref(&span);
            assert_eq!(good(ZipkinThriftSpan, &encode(ZipkinThriftSpan, one)), one);
        }
    }
}

#[test]
fn others_read_the_same() {
    let mut random = Random(14);
    for _ in 0..300 {
        let zipkin = [random.zipkin_span(), random.zipkin_span()];
        let list = zipkin_proto::ListOfSpans::decode(&*encode(ZipkinProto, &zipkin)).expect("good");
        assert_eq!(list.spans, zipkin.iter().map(zipkin_proto::message).collect::<Vec<_>>());
        let json: Vec<Json> = serde_json::from_str(&text(ZipkinJson, &zipkin)).expect("JSON");
        for (written, span) in json.iter().zip(&zipkin) {
            let mut expected = zipkin_json::object(span);
            tidy(&mut expected);
            let mut written = written.clone();
            // Zipkin has its own notation for addresses, which another test checks.
            addresses(&mut expected);
            addresses(&mut written);
            assert_eq!(written, expected);
        }
        let otlp = [random.otlp_span(), random.otlp_span()];
        let mut expected = otlp_proto::request(&otlp);
        let mut found = Request::decode(&*encode(OtlpProto, &otlp)).expect("good");
        let mut json: Request = serde_json::from_str(&text(OtlpJson, &otlp)).expect("JSON");
        for request in [&mut expected, &mut found, &mut json] {
            comparable(request);
        }
        assert_eq!(found, expected);
        assert_eq!(json, expected);
    }
}

/// Removes empty, null and false fields, which Zipkin omits.
fn tidy(span: &mut Json) {
    let Json::Object(span) = span else { panic!("no object") };
    span.retain(|_, value| match value {
        Json::Null | Json::Bool(false) => false,
        Json::String(text) => !text.is_empty(),
        Json::Array(items) => !items.is_empty(),
        Json::Object(map) => !map.is_empty(),
        _ => true,
    });
}

fn addresses(span: &mut Json) {
    for key in ["localEndpoint", "remoteEndpoint"] {
        if let Some(Json::String(text)) = span.pointer_mut(&format!("/{key}/ipv6")) {
            *text = text.parse::<std::net::Ipv6Addr>().expect("an address").to_string();
        }
    }
}

/// Sorts the attributes of resources, adds absent resources and removes unset statuses, so that
/// requests can be compared.
fn comparable(request: &mut Request) {
    for group in &mut request.resource_spans {
        let resource = group.resource.get_or_insert_default();
        resource.attributes.sort_by(|a, b| a.key.cmp(&b.key));
        for spans in &mut group.scope_spans {
            for span in &mut spans.spans {
                span.status = span.status.take().filter(|status| status.code != 0);
            }
        }
    }
}

#[test]
fn thrift_is_written_as_zipkin_does() {
    let mut random = Random(15);
    for _ in 0..300 {
        let mut span = for_both(&mut random);
        (span.kind, span.shared, span.remote) = (Kind::Unspecified, false, Endpoint::default());
        if span.annotations.is_empty() && span.tags.is_empty() {
            let value = Value::Str("x".to_owned());
            span.tags.push(Tag { key: "k".to_owned(), value, origin: Origin::Span });
        }
        let expected = structure(&span);
        let found = encode(ZipkinThriftSpan, std::slice::from_ref(&span));
        // The encoder omits a false flag and writes the parent before the lists.
        assert_eq!(found, crate::thrift::in_writers_order(expected).bytes());
    }
}

/// Returns a span in which all properties but the status and `shared` are set.
fn full() -> Span {
    let trace_id = blkkin_model::TraceId::from_number(0x7180_c278_b62e_8f6a_216a_2aea_4d08_fc6d);
    let tag = |key: &str, value| Tag { key: key.to_owned(), value, origin: Origin::Span };
    Span {
        trace_id: trace_id.expect("not 0"),
        id: blkkin_model::SpanId::from_number(0x5b4185666d50f68b).expect("not 0"),
        parent_id: blkkin_model::SpanId::from_number(0x6b221d5bc9e6496c),
        kind: Kind::Client,
        status: Status::Unset,
        debug: true,
        shared: false,
        name: "GET".to_owned(),
        start_ns: Some(1_472_470_996_199_000_999),
        duration_ns: Some(207_000_999),
        local: Endpoint {
            service: "Frontend".to_owned(),
            ipv4: "127.0.0.1".parse().ok(),
            ..Endpoint::default()
        },
        remote: Endpoint {
            service: "backend".to_owned(),
            ipv4: "192.168.99.101".parse().ok(),
            ipv6: "2001:0:0:4::".parse().ok(),
            port: 9000,
        },
        annotations: vec![
            Annotation { time_ns: 1_472_470_996_238_000_000, value: "foo".to_owned() },
            Annotation { time_ns: 1_472_470_996_403_000_000, value: "\"bar\"".to_owned() },
        ],
        tags: vec![
            tag("clnt/finagle.version", Value::Str("6.45.0".to_owned())),
            tag("http.path", Value::Str("/a\u{2028}".to_owned())),
            tag("size", Value::Int(5)),
        ],
    }
}

#[test]
fn zipkins_json_is_zipkins() {
    fn check(format: Format, change: impl FnOnce(&mut Span), expected: &str) {
        let mut span = full();
        change(&mut span);
        assert_eq!(text(format, &[span]), expected);
    }
    check(
        ZipkinJson,
        |_| {},
        concat!(
            r#"[{"traceId":"7180c278b62e8f6a216a2aea4d08fc6d","parentId":"6b221d5bc9e6496c","#,
            r#""id":"5b4185666d50f68b","kind":"CLIENT","name":"get","#,
            r#""timestamp":1472470996199000,"duration":207000,"#,
            r#""localEndpoint":{"serviceName":"frontend","ipv4":"127.0.0.1"},"#,
            r#""remoteEndpoint":{"serviceName":"backend","ipv4":"192.168.99.101","#,
            r#""ipv6":"2001::4:0:0:0:0","port":9000},"#,
            r#""annotations":[{"timestamp":1472470996238000,"value":"foo"},"#,
            r#"{"timestamp":1472470996403000,"value":"\"bar\""}],"#,
            r#""tags":{"clnt/finagle.version":"6.45.0","http.path":"/a\u2028","size":"5"},"#,
            r#""debug":true}]"#,
        ),
    );
    let bare = |span: &mut Span| {
        *span = Span {
            trace_id: blkkin_model::TraceId::from_number(1).expect("not 0"),
            parent_id: None,
            kind: Kind::Internal,
            debug: false,
            shared: true,
            name: String::new(),
            start_ns: Some(999),
            duration_ns: Some(0),
            local: Endpoint::default(),
            remote: Endpoint::default(),
            annotations: Vec::new(),
            tags: Vec::new(),
            ..full()
        }
    };
    check(
        ZipkinJson,
        bare,
        r#"[{"traceId":"0000000000000001","id":"5b4185666d50f68b","duration":1,"shared":true}]"#,
    );
    check(
        ZipkinV1Json,
        bare,
        r#"[{"traceId":"0000000000000001","id":"5b4185666d50f68b","name":""}]"#,
    );
    let here = r#""endpoint":{"serviceName":"frontend","ipv4":"127.0.0.1"}"#;
    check(
        ZipkinV1Json,
        |span| {
            span.tags.truncate(1);
            span.annotations.truncate(1);
        },
        &[
            r#"[{"traceId":"7180c278b62e8f6a216a2aea4d08fc6d","parentId":"6b221d5bc9e6496c","#,
            r#""id":"5b4185666d50f68b","name":"get","timestamp":1472470996199000,"duration":207000,"#,
            r#""annotations":[{"timestamp":1472470996199000,"value":"cs","#, here, "},",
            r#"{"timestamp":1472470996238000,"value":"foo","#, here, "},",
            r#"{"timestamp":1472470996406000,"value":"cr","#, here, "}],",
            r#""binaryAnnotations":[{"key":"clnt/finagle.version","value":"6.45.0","#, here, "},",
            r#"{"key":"sa","value":true,"endpoint":{"serviceName":"backend","ipv4":"192.168.99.101","#,
            r#""ipv6":"2001::4:0:0:0:0","port":9000}}],"debug":true}]"#,
        ]
        .concat(),
    );
    check(
        ZipkinV1Json,
        |span| {
            bare(span);
            span.local.service = "x".to_owned();
        },
        concat!(
            r#"[{"traceId":"0000000000000001","id":"5b4185666d50f68b","name":"","#,
            r#""binaryAnnotations":[{"key":"lc","value":"","endpoint":{"serviceName":"x"}}]}]"#,
        ),
    );
    assert_eq!(text(ZipkinJson, &[]), "[]");
    assert_eq!(text(ZipkinV1Json, &[]), "[]");
    assert_eq!(text(OtlpJson, &[]), "{}");
    assert_eq!(encode(ZipkinThrift, &[]), [12, 0, 0, 0, 0]);
    assert!(encode(ZipkinProto, &[]).is_empty());
    assert!(encode(OtlpProto, &[]).is_empty());
}

#[test]
fn what_were_fields_become_fields_again() {
    let tag = |key: &str, value, origin| Tag { key: key.to_owned(), value, origin };
    let text_of = |text: &str| Value::Str(text.to_owned());
    let span = Span {
        status: Status::Error,
        debug: false,
        start_ns: Some(5),
        duration_ns: Some(0),
        remote: Endpoint { service: "db".to_owned(), port: 7, ..Endpoint::default() },
        local: Endpoint { service: "s".to_owned(), ..Endpoint::default() },
        annotations: Vec::new(),
        tags: vec![
            tag("error", text_of("gone"), Origin::Span),
            tag("net.peer.port", Value::Int(7), Origin::Span),
            tag("otel.dropped_attributes_count", Value::Int(1), Origin::Span),
            tag("otel.dropped_events_count", Value::Int(2), Origin::Span),
            tag("otel.dropped_links_count", Value::Int(3), Origin::Span),
            tag("otel.scope.name", text_of("lib"), Origin::Scope),
            tag("otel.scope.version", text_of("1"), Origin::Scope),
            tag("peer.service", text_of("db"), Origin::Span),
            tag("w3c.tracestate", text_of("a=b"), Origin::Span),
        ],
        ..full()
    };
    let expected = concat!(
        r#"{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"s"}}]},"#,
        r#""scopeSpans":[{"scope":{"name":"lib","version":"1"},"spans":[{"#,
        r#""traceId":"7180c278b62e8f6a216a2aea4d08fc6d","spanId":"5b4185666d50f68b","#,
        r#""parentSpanId":"6b221d5bc9e6496c","traceState":"a=b","name":"GET","kind":3,"#,
        r#""startTimeUnixNano":"5","endTimeUnixNano":"5","attributes":["#,
        r#"{"key":"net.peer.port","value":{"intValue":"7"}},"#,
        r#"{"key":"peer.service","value":{"stringValue":"db"}}],"droppedAttributesCount":1,"#,
        r#""droppedEventsCount":2,"droppedLinksCount":3,"#,
        r#""status":{"message":"gone","code":2}}]}]}]}"#,
    );
    assert_eq!(text(OtlpJson, std::slice::from_ref(&span)), expected);
    for format in [OtlpJson, OtlpProto] {
        let one = std::slice::from_ref(&span);
        assert_eq!(good(format, &encode(format, one)), one);
    }
}

#[test]
fn spans_of_zipkins_keep_their_ends_in_open_telemetrys() {
    for format in [OtlpJson, OtlpProto] {
        let span = good(format, &encode(format, &[full()])).remove(0);
        assert_eq!(span.local, full().local);
        // OpenTelemetry has room for one address.
        assert_eq!(span.remote, Endpoint { ipv6: None, ..full().remote });
        let keys: Vec<&str> = span.tags.iter().map(|tag| tag.key.as_str()).collect();
        let expected = [
            "clnt/finagle.version",
            "http.path",
            "network.local.address",
            "network.peer.address",
            "network.peer.port",
            "peer.service",
            "size",
        ];
        assert_eq!(keys, expected);
        let failed =
            Tag { key: "error".into(), value: Value::Str("x".into()), origin: Origin::Span };
        let span = Span { tags: vec![failed.clone()], ..full() };
        let span = good(format, &encode(format, &[span])).remove(0);
        assert_eq!((span.status, span.tags.contains(&failed)), (Status::Error, true));
    }
}

#[test]
fn groups_are_of_what_follows_each_other() {
    let of = |service: &str| Span {
        local: Endpoint { service: service.to_owned(), ..Endpoint::default() },
        ..full()
    };
    let spans = [of("a"), of("a"), of("b"), of("a")];
    let request = Request::decode(&*encode(OtlpProto, &spans)).expect("good");
    let sizes: Vec<usize> =
        request.resource_spans.iter().map(|it| it.scope_spans[0].spans.len()).collect();
    assert_eq!(sizes, [2, 1, 1]);
}

#[test]
fn an_encoder_is_a_sink() {
    let batch = encode(ZipkinJson, &[full(), full()]);
    let mut out = Vec::new();
    let mut encoder = Encoder::new(ZipkinJson, &mut out);
    let outcome = Decoder::default().decode(ZipkinJson, &batch, &mut encoder);
    assert_eq!(outcome.accepted, 2);
    encoder.finish();
    assert_eq!(out, batch);
    let mut kept = Vec::new();
    assert!(SpanSink::span(&mut kept, &full().ref_buffer().as_ref()).is_continue());
    let spans = kept.iter().map(Span::ref_buffer).collect::<Vec<_>>();
    let mut one = Vec::new();
    blkkin_wire::encode(ZipkinJson, spans.iter().map(|held| held.as_ref()), &mut one);
    assert_eq!(one, encode(ZipkinJson, &[full()]));
}

//! Tests of spans received over HTTP: accepted and refused batches, and the answers to them.

use crate::support::{Reply, connect, gzip, head, request, start, start_with, until};
use blkkin_model::{SpanId, SpanRef, TraceId};
use blkkin_store::Policy;
use blkkin_wire::{Format, encode};
use std::io::{Read, Write};
use std::sync::atomic::Ordering;

const JSON: &str = "application/json";
const PROTO: &str = "application/x-protobuf";

/// Returns an encoded batch of spans with these ids.
fn batch(format: Format, ids: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let spans = ids.into_iter().map(|id| SpanRef {
        name: "work",
        ..SpanRef::new(
            TraceId::from_number(7).expect("not 0"),
            SpanId::from_number(id).expect("not 0"),
        )
    });
    encode(format, spans, &mut bytes);
    bytes
}

fn kept(tested: &crate::support::TestServer) -> usize {
    match tested.get("/api/v2/trace/7") {
        Reply { status: 404, .. } => 0,
        reply => reply.json().as_array().expect("a list").len(),
    }
}

#[test]
fn each_format_is_taken() {
    for (path, kind, format, status) in [
        ("/api/v2/spans", JSON, Format::ZipkinJson, 202),
        ("/api/v2/spans", "application/json; charset=utf-8", Format::ZipkinJson, 202),
        ("/api/v2/spans", "text/plain", Format::ZipkinJson, 202),
        ("/api/v2/spans", PROTO, Format::ZipkinProto, 202),
        ("/api/v1/spans", JSON, Format::ZipkinV1Json, 202),
        ("/api/v1/spans", "application/x-thrift", Format::ZipkinThrift, 202),
        ("/v1/traces", PROTO, Format::OtlpProto, 200),
        ("/v1/traces", JSON, Format::OtlpJson, 200),
    ] {
        let tested = start();
        let one = tested.post(path, kind, &batch(format, [1]));
        assert_eq!(one.status, status, "{path} {kind} {one:?}");
        // This batch is larger than the buffer of the first read.
        let many = batch(format, 2..1000);
        let packed = gzip(&many);
        assert_eq!(tested.post(path, kind, &many[..]).status, status, "{path} {kind}");
        let headers = [("content-type", kind), ("content-encoding", "gzip")];
        let reply = request(tested.web(), "POST", path, &headers, &packed);
        assert_eq!(reply.status, status, "{path} {kind} {reply:?}");
        assert_eq!(kept(&tested), 999, "{path} {kind}");
        let transport = if status == 202 { "http" } else { "otlp-http" };
        let metric = |name: &str| {
            tested.metric(&format!("zipkin_collector_{name}{{transport=\"{transport}\"}}"))
        };
        assert_eq!(metric("messages_total"), 3);
        assert_eq!(metric("spans_total"), 1997);
        assert_eq!(metric("spans_dropped_total"), 0);
        assert_eq!(metric("bytes_total"), (2 * many.len() + batch(format, [1]).len()) as u64);
        assert_eq!(metric("message_spans"), 998);
    }
}

#[test]
fn nothing_is_taken_of_nothing() {
    let tested = start();
    for (path, kind, status, bodies) in [
        ("/api/v2/spans", JSON, 202, vec![&b""[..], b"[]", b"[ ]"]),
        ("/api/v1/spans", JSON, 202, vec![b"", b"[]", b"[ ]"]),
        ("/api/v2/spans", PROTO, 202, vec![b""]),
        ("/v1/traces", PROTO, 200, vec![b""]),
        ("/v1/traces", JSON, 200, vec![b"{}"]),
    ] {
        for body in bodies {
            let reply = tested.post(path, kind, body);
            assert_eq!(reply.status, status, "{path} {kind} {reply:?}");
        }
    }
    assert_eq!(tested.metric("blkkin_store_spans_accepted_total"), 0);
}

#[test]
fn what_is_wrong_is_said_as_zipkin_says_it() {
    let tested = start();
    let check = |path: &str, kind: &str, body: &[u8], expected: &str| {
        let reply = tested.post(path, kind, body);
        assert_eq!((reply.status, reply.text().as_str()), (400, expected), "{path} {kind}");
    };
    let v2 = "/api/v2/spans";
    check(v2, JSON, b"{}", "Expected a JSON_V2 encoded list\n");
    check(v2, JSON, b" []", "Expected a JSON_V2 encoded list\n");
    check(v2, PROTO, b"[]", "Expected a PROTO3 encoded list\n");
    check("/api/v1/spans", "application/x-thrift", b"[]", "Expected a THRIFT encoded list\n");
    check(
        v2,
        JSON,
        br#"[{"traceId":"1","id":"1","binaryAnnotations":[]}]"#,
        "Expected a JSON_V2 encoded list, but received: JSON_V1\n",
    );
    check(
        "/api/v1/spans",
        JSON,
        br#"[{"traceId":"1","id":"1","tags":{}}]"#,
        "Expected a JSON_V1 encoded list, but received: JSON_V2\n",
    );
    check(
        v2,
        JSON,
        br#"[{"traceId":"1","id":"1"},{"traceId":"0","id":"1"}]"#,
        "traceId is all zeros reading List<Span> from json (span 1, byte 37)",
    );
    check(
        v2,
        JSON,
        br#"[{"id":"1"}]"#,
        "traceId is missing reading List<Span> from json (span 0, byte 1)",
    );
    let text = tested.post(v2, JSON, br#"[{"traceId":"1","id":"1"}"#).text();
    assert!(text.starts_with("ends early reading List<Span> from json"), "{text}");
    assert_eq!(tested.metric("blkkin_store_spans_accepted_total"), 0, "none of them");
    assert_eq!(tested.metric("zipkin_collector_messages_dropped_total{transport=\"http\"}"), 9);
}

#[test]
fn good_spans_are_taken_from_bad_ones_by_choice() {
    let tested = start_with(|settings| settings.collector.policy = Policy::EachSpan);
    let body = br#"[{"traceId":"7","id":"1"},{"traceId":"7","id":"0"},{"traceId":"7","id":"2"}]"#;
    let reply = tested.post("/api/v2/spans", JSON, body);
    assert_eq!(reply.status, 400);
    assert!(reply.text().contains("(span 1, byte"), "{}", reply.text());
    assert!(reply.text().ends_with("2 others were taken)"), "{}", reply.text());
    assert_eq!(kept(&tested), 2);
}

#[test]
fn opentelemetry_is_told_how_many_were_not_taken() {
    let tested = start();
    let span = |id: &str| {
        format!(r#"{{"traceId":"00000000000000000000000000000007","spanId":"{id}","name":"x"}}"#)
    };
    let (one, bad) = (span("0000000000000001"), span("0000000000000000"));
    let body =
        format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{bad},{one},{bad}]}}]}}]}}"#);
    let reply = tested.post("/v1/traces", JSON, body.as_bytes());
    assert_eq!((reply.status, reply.header("content-type")), (200, JSON));
    let partial = &reply.json()["partialSuccess"];
    assert_eq!(partial["rejectedSpans"], "2");
    assert!(partial["errorMessage"].as_str().expect("text").starts_with("span 0, byte"));
    assert_eq!(kept(&tested), 1);

    let mut proto = batch(Format::OtlpProto, [2, 3]);
    let id = 2u64.to_be_bytes();
    let at = proto.windows(8).position(|eight| eight == id).expect("its id");
    proto[at..at + 8].fill(0);
    let reply = tested.post("/v1/traces", PROTO, &proto);
    assert_eq!((reply.status, reply.header("content-type")), (200, PROTO));
    // The answer is partial_success { rejected_spans: 1, error_message: … }.
    assert_eq!((reply.body[0], &reply.body[2..5]), (0x0a, &[8, 1, 0x12][..]), "{reply:?}");
    assert_eq!(kept(&tested), 2);
    let good = tested.post("/v1/traces", PROTO, &batch(Format::OtlpProto, [4]));
    assert_eq!((good.status, good.header("content-type"), good.body.len()), (200, PROTO, 0));
}

#[test]
fn opentelemetry_is_told_why_not() {
    let tested = start();
    let reply = tested.post("/v1/traces", JSON, b"[");
    assert_eq!((reply.status, &reply.json()["code"]), (400, &3.into()));
    let reply = tested.post("/v1/traces", PROTO, b"\x0a\x05x");
    assert_eq!((reply.status, &reply.body[..3]), (400, &[8, 3, 0x12][..]));
    assert_eq!(reply.header("content-type"), PROTO);
    let reply = tested.post("/v1/traces", "text/plain", b"x");
    assert_eq!(reply.status, 415);
    let headers = [("content-type", JSON), ("content-encoding", "br")];
    let reply = request(tested.web(), "POST", "/v1/traces", &headers, b"x");
    assert_eq!((reply.status, &reply.json()["code"]), (415, &12.into()));
}

#[test]
fn who_is_turned_away_is_told_when_to_come_again() {
    let tested = start();
    tested.store.refuses.store(true, Ordering::SeqCst);
    let reply = tested.post("/api/v2/spans", JSON, &batch(Format::ZipkinJson, [1]));
    assert_eq!((reply.status, reply.header("retry-after")), (503, "3"));
    assert_eq!(reply.text(), "the disk is full");
    let reply = tested.post("/v1/traces", JSON, &batch(Format::OtlpJson, [1]));
    assert_eq!((reply.status, reply.header("retry-after")), (503, "3"));
    assert_eq!(reply.json()["message"], "the disk is full");
    for transport in ["http", "otlp-http"] {
        let name =
            format!("zipkin_collector_messages_turned_away_total{{transport=\"{transport}\"}}");
        assert_eq!(tested.metric(&name), 1);
    }
    tested.store.refuses.store(false, Ordering::SeqCst);
    assert_eq!(tested.post("/api/v2/spans", JSON, &batch(Format::ZipkinJson, [1])).status, 202);
}

#[test]
fn nothing_is_said_before_it_is_stored() {
    let tested = start();
    tested.store.delays.store(true, Ordering::SeqCst);
    let body = batch(Format::ZipkinJson, [1]);
    let mut stream = connect(tested.web());
    let head = head(tested.web(), "POST", "/api/v2/spans", &[("content-type", JSON)], body.len());
    stream.write_all(head.as_bytes()).expect("sent");
    stream.write_all(&body).expect("sent");
    until("it is given to the store", || {
        !tested.store.delayed.lock().expect("no panic").is_empty()
    });
    // Until the batch is acknowledged, the server answers other requests, but not this one.
    assert_eq!(tested.get("/api/v2/services").status, 200);
    stream.set_nonblocking(true).expect("not waiting");
    let error = stream.read(&mut [0]).expect_err("no answer yet");
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    stream.set_nonblocking(false).expect("waiting");
    for done in tested.store.delayed.lock().expect("no panic").drain(..) {
        done();
    }
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an answer");
    assert_eq!(Reply::parse(&bytes).status, 202);
}

#[test]
fn a_store_that_fails_takes_nobody_with_it() {
    let tested = start();
    tested.store.panics.store(true, Ordering::SeqCst);
    let body = batch(Format::ZipkinJson, 1..1000);
    let reply = tested.post("/api/v2/spans", JSON, &body);
    assert_eq!((reply.status, reply.header("retry-after")), (503, "1"));
    assert_eq!(tested.get("/api/v2/services").status, 500);
    tested.store.panics.store(false, Ordering::SeqCst);
    assert_eq!(tested.post("/api/v2/spans", JSON, &body).status, 202);
    assert_eq!(tested.get("/api/v2/services").status, 200);
}

#[test]
fn what_is_posted_in_pieces_is_put_together() {
    let tested = start();
    let body = batch(Format::ZipkinJson, 1..2000);
    let mut stream = connect(tested.web());
    let head = format!(
        "POST /api/v2/spans HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n",
        tested.web()
    );
    stream.write_all(head.as_bytes()).expect("sent");
    for piece in body.chunks(1013) {
        write!(stream, "{:x}\r\n", piece.len()).expect("sent");
        stream.write_all(piece).expect("sent");
        stream.write_all(b"\r\n").expect("sent");
    }
    stream.write_all(b"0\r\n\r\n").expect("sent");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an answer");
    assert_eq!(Reply::parse(&bytes).status, 202);
    assert_eq!(kept(&tested), 1999);
}

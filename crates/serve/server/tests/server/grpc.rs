//! Tests of spans and health checks received over gRPC, with requests and responses as raw bytes.

use crate::calls::{OTLP, ZIPKIN, call, framed};
use crate::support::{gzip, request, start, start_with};
use blkkin_model::{SpanId, SpanRef, TraceId};
use blkkin_wire::{Format, encode};
use std::sync::atomic::Ordering;

fn batch(format: Format, ids: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let trace_id = TraceId::from_number(7).expect("not 0");
    let spans =
        ids.into_iter().map(|id| SpanRef::new(trace_id, SpanId::from_number(id).expect("not 0")));
    let mut bytes = Vec::new();
    encode(format, spans, &mut bytes);
    bytes
}

#[test]
fn spans_are_taken() {
    for (path, format, transport) in
        [(OTLP, Format::OtlpProto, "otlp-grpc"), (ZIPKIN, Format::ZipkinProto, "grpc")]
    {
        let tested = start();
        for address in [tested.web(), tested.running.otlp_grpc[0]] {
            let ended = call(address, path, &[], framed(0, &batch(format, 1..500)));
            assert_eq!((ended.http, ended.status.as_str()), (200, "0"), "{ended:?}");
            assert_eq!(ended.message, [0; 5], "an empty message");
            let packed = framed(1, &gzip(&batch(format, 500..900)));
            let ended = call(address, path, &[("grpc-encoding", "gzip")], packed);
            assert_eq!((ended.status.as_str(), ended.message), ("0", vec![0; 5]));
            let ended = call(address, path, &[], framed(0, b""));
            assert_eq!((ended.status.as_str(), ended.message), ("0", vec![0; 5]));
        }
        let spans = tested.get("/api/v2/trace/7").json();
        assert_eq!(spans.as_array().map(Vec::len), Some(899));
        let name = format!("zipkin_collector_spans_total{{transport=\"{transport}\"}}");
        assert_eq!(tested.metric(&name), 2 * 899);
    }
}

#[test]
fn what_is_no_call_is_refused() {
    let tested = start_with(|settings| settings.collector.message_bytes = 10_000);
    let check = |path: &str, headers: &[(&str, &str)], body: Vec<u8>, status: &str, text: &str| {
        let ended = call(tested.web(), path, headers, body);
        assert_eq!((ended.http, ended.status.as_str()), (200, status), "{ended:?}");
        assert!(ended.text.contains(text), "{ended:?}");
    };
    check("/nothing.Service/Call", &[], framed(0, b""), "12", "there is no /nothing.Service/Call");
    check(OTLP, &[], vec![], "3", "call has no message");
    check(OTLP, &[], vec![0; 4], "3", "call has no message");
    check(OTLP, &[], vec![0, 0, 0, 0, 9], "3", "message ends early");
    check(OTLP, &[], [framed(0, b""), framed(0, b"")].concat(), "3", "more than one message");
    check(OTLP, &[], framed(2, b""), "3", "neither 0 nor 1");
    check(OTLP, &[], framed(1, b""), "12", "encoding \"identity\" is not known");
    check(OTLP, &[("grpc-encoding", "snappy")], framed(1, b""), "12", "\"snappy\" is not known");
    check(OTLP, &[("grpc-encoding", "zstd")], framed(1, b"x"), "3", "Cannot decompress");
    check(OTLP, &[("grpc-encoding", "deflate")], framed(1, b"x"), "3", "Cannot inflate");
    check(OTLP, &[("grpc-encoding", "gzip")], framed(1, b"x"), "3", "Cannot gunzip");
    check(OTLP, &[], framed(0, b"\x0a\x05x"), "3", "span 0");
    check(OTLP, &[], framed(0, &[0; 10_000]), "8", "larger than 10000 bytes");
    let bomb = framed(1, &gzip(&vec![0; 1 << 20]));
    check(OTLP, &[("grpc-encoding", "gzip")], bomb, "8", "larger than 10000 bytes");
    // A span of 2 bytes, with the key of the trace id's field and a length of 0.
    let bad = b"\x0a\x02\x0a\x00".to_vec();
    check(ZIPKIN, &[], framed(0, &bad), "3", "reading List<Span> from proto3 (span 0, byte");
}

#[test]
fn bad_spans_are_counted_and_good_ones_taken() {
    let tested = start();
    let mut batch = batch(Format::OtlpProto, [1, 2]);
    let id = 1u64.to_be_bytes();
    let at = batch.windows(8).position(|eight| eight == id).expect("its id");
    batch[at..at + 8].fill(0);
    let ended = call(tested.web(), OTLP, &[], framed(0, &batch));
    assert_eq!(ended.status, "0");
    assert_eq!((ended.message[5], &ended.message[7..10]), (0x0a, &[8, 1, 0x12][..]), "{ended:?}");
    let spans = tested.get("/api/v2/trace/7").json();
    assert_eq!(spans.as_array().map(Vec::len), Some(1));
}

#[test]
fn who_is_turned_away_is_told_when_to_come_again() {
    let tested = start();
    tested.store.refuses.store(true, Ordering::SeqCst);
    for (path, format) in [(OTLP, Format::OtlpProto), (ZIPKIN, Format::ZipkinProto)] {
        let ended = call(tested.web(), path, &[], framed(0, &batch(format, [1])));
        assert_eq!((ended.status.as_str(), ended.text.as_str()), ("14", "the disk is full"));
        // The details are a google.rpc.Status with a RetryInfo of 2.5 s.
        let mut details = Vec::new();
        blkkin_scribe::base64::decode(ended.details.as_bytes(), &mut details).expect("base64");
        let retry = b"type.googleapis.com/google.rpc.RetryInfo\x12\x0a\x0a\x08\x08\x02\x10\x80\xca\xb5\xee\x01";
        let (head, tail) = details.split_at(details.len() - retry.len());
        assert_eq!(tail, &retry[..]);
        assert_eq!(head[..4], [8, 14, 0x12, 16], "{details:?}");
    }
}

#[test]
fn calls_need_tokens_too() {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    std::io::Write::write_all(&mut file, b"known").expect("written");
    let path = Some(file.path().to_owned());
    let tested = start_with(|settings| settings.token_file = path);
    let address = tested.running.otlp_grpc[0];
    assert_eq!(call(address, OTLP, &[], framed(0, b"")).http, 401);
    let known = [("authorization", "Bearer known")];
    assert_eq!(call(address, OTLP, &known, framed(0, b"")).status, "0");
}

/// A health check needs no token, and reports the health of the whole server or of one of its
/// services.
#[test]
fn health_is_told() {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    std::io::Write::write_all(&mut file, b"known").expect("written");
    let path = Some(file.path().to_owned());
    let tested = start_with(|settings| settings.token_file = path);
    let address = tested.running.otlp_grpc[0];
    let check = |service: &str, expected: (&str, &[u8])| {
        let mut question = Vec::new();
        if !service.is_empty() {
            question.extend([0x0a, service.len() as u8]);
            question.extend(service.as_bytes());
        }
        let ended = call(address, "/grpc.health.v1.Health/Check", &[], framed(0, &question));
        assert_eq!((ended.status.as_str(), ended.message.as_slice()), expected, "{ended:?}");
    };
    let serving = ("0", &framed(0, &[8, 1])[..]);
    for service in
        ["", "zipkin.proto3.SpanService", "opentelemetry.proto.collector.trace.v1.TraceService"]
    {
        check(service, serving);
    }
    check("other.Service", ("5", b""));
    for nonsense in [&b"\x0a"[..], b"\x0a\x05x", b"\x08\x01", b"\x0a\xff\xff", b"\x0a\x01\xff"] {
        let ended = call(address, "/grpc.health.v1.Health/Check", &[], framed(0, nonsense));
        assert_eq!(ended.status, "5", "{ended:?}");
    }
    tested.store.refuses.store(true, Ordering::SeqCst);
    let known = [("authorization", "Bearer known")];
    let spans = framed(0, &batch(Format::OtlpProto, [1]));
    assert_eq!(call(address, OTLP, &known, spans.clone()).status, "14");
    check("", ("0", &framed(0, &[8, 2])));
    tested.store.refuses.store(false, Ordering::SeqCst);
    assert_eq!(call(address, OTLP, &known, spans).status, "0");
    check("", serving);
}

/// Spans are accepted in each supported compression, both over gRPC and over HTTP.
#[test]
fn packed_spans_are_taken() {
    let tested = start();
    let plain = batch(Format::OtlpProto, 1..100);
    let zlib = {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, &plain).expect("to memory");
        encoder.finish().expect("to memory")
    };
    let zstd = zstd::stream::encode_all(&plain[..], 3).expect("to memory");
    for (name, packed) in [("gzip", gzip(&plain)), ("deflate", zlib), ("zstd", zstd)] {
        let ended = call(tested.web(), OTLP, &[("grpc-encoding", name)], framed(1, &packed));
        assert_eq!(ended.status, "0", "{name} {ended:?}");
        let headers = [("content-type", "application/x-protobuf"), ("content-encoding", name)];
        let reply = request(tested.web(), "POST", "/v1/traces", &headers, &packed);
        assert_eq!(reply.status, 200, "{name} {reply:?}");
    }
    assert_eq!(tested.metric("zipkin_collector_spans_total{transport=\"otlp-grpc\"}"), 3 * 99);
    assert_eq!(tested.metric("zipkin_collector_spans_total{transport=\"otlp-http\"}"), 3 * 99);
    let headers = [("content-type", "application/x-protobuf"), ("content-encoding", "snappy")];
    let reply = request(tested.web(), "POST", "/v1/traces", &headers, b"x");
    assert_eq!(reply.status, 415);
    assert!(reply.text().contains("identity,gzip,deflate,zstd are"), "{}", reply.text());
}

//! Fuzzes the receivers of spans over HTTP and gRPC: each message is answered, and all spans
//! counted as accepted are in the store.
//!
//! The first byte selects the path and the compression header, the rest is the body.
#![no_main]

use blkkin_collector::{Collector, Settings, Transport, Version};
use blkkin_store::{Capacity, MemoryStore, SpanStore};
use blkkin_wire::Limits;
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use libfuzzer_sys::fuzz_target;
use std::sync::{Arc, LazyLock};
use tokio::runtime::{Builder, Runtime};

/// Paths to which spans are sent, with their content types.
const ROUTES: [(&str, &str); 8] = [
    ("/api/v2/spans", "application/json"),
    ("/api/v2/spans", "application/x-protobuf"),
    ("/api/v1/spans", "application/json"),
    ("/api/v1/spans", "application/x-thrift"),
    ("/v1/traces", "application/x-protobuf"),
    ("/v1/traces", "application/json"),
    ("/opentelemetry.proto.collector.trace.v1.TraceService/Export", "application/grpc"),
    ("/zipkin.proto3.SpanService/Report", "application/grpc"),
];

const PACKED: u8 = 1 << 3;

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().enable_time().build().expect("a runtime"));

fuzz_target!(|input: &[u8]| {
    let Some((&first, body)) = input.split_first() else { return };
    let way = usize::from(first) % ROUTES.len();
    let (path, kind) = ROUTES[way];
    let is_grpc = kind == "application/grpc";
    let mut request = Request::post(path).header("content-type", kind);
    if first & PACKED != 0 {
        let name = if is_grpc { "grpc-encoding" } else { "content-encoding" };
        request = request.header(name, "gzip");
    }
    let request = request.body(Full::new(Bytes::copy_from_slice(body))).expect("a request");
    let store = Arc::new(MemoryStore::new(Capacity::default(), Limits::default()));
    let settings =
        Settings { message_bytes: 1 << 20, flight_bytes: 8 << 20, ..Settings::default() };
    let collector = Collector::new(store.clone(), settings);
    let answer = RUNTIME.block_on(async {
        match way {
            0 | 1 => collector.zipkin(Version::V2, request).await,
            2 | 3 => collector.zipkin(Version::V1, request).await,
            4 | 5 => collector.otlp(request).await,
            _ => collector.grpc(request).await,
        }
    });
    let status = answer.status().as_u16();
    if is_grpc {
        assert_eq!(status, 200, "what went wrong is in the trailers");
    } else {
        assert!(matches!(status, 200 | 202 | 400 | 413 | 415 | 429), "{status}");
    }
    let counters = Transport::ALL.map(|transport| collector.counters(transport));
    let sum = |of: fn(&blkkin_collector::Counters) -> u64| counters.iter().map(of).sum::<u64>();
    assert_eq!(sum(|way| way.messages), 1);
    assert_eq!(sum(|way| way.spans), store.counters().accepted);
    let refused = sum(|way| way.messages_dropped) + sum(|way| way.spans_dropped);
    assert!(is_grpc || status < 400 || refused > 0);
});

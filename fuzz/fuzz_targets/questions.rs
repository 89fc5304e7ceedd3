//! Fuzzes queries for stored spans over HTTP: each query gets an answer with a defined status, and
//! an answer of type JSON is valid JSON.
//!
//! The input is the part of a URL that follows the prefix of a query API. Zipkin's and BlkKin's API
//! are queried.
#![no_main]

use blkkin_query::{Api, ApiQuery, Kind, Params, Settings};
use blkkin_store::{Batch, Capacity, MemoryStore, Policy, SpanStore};
use blkkin_wire::{Format, Limits};
use libfuzzer_sys::fuzz_target;
use std::sync::{Arc, LazyLock};

const NOW_NS: u64 = 1_795_262_400_000_000_000;

/// Spans of two requests, one of which has an error.
const SPANS: &str = r#"[
    {"traceId":"000000000000000a","id":"1","kind":"CLIENT","name":"read","timestamp":1795262399000000,"duration":5000,
     "localEndpoint":{"serviceName":"qemu","ipv4":"10.0.0.1"},"remoteEndpoint":{"serviceName":"osd.3"},
     "tags":{"volume":"vol-7","bytes":"4096"}},
    {"traceId":"000000000000000a","parentId":"1","id":"2","kind":"SERVER","name":"object","timestamp":1795262399001000,
     "duration":3000,"localEndpoint":{"serviceName":"osd.3"},"tags":{"error":"EIO"},
     "annotations":[{"timestamp":1795262399002000,"value":"journaled"}]},
    {"traceId":"0000000000000001000000000000000b","id":"3","name":"write","timestamp":1795262398000000,"duration":90,
     "localEndpoint":{"serviceName":"qemu"}}]"#;

static API: LazyLock<Api> = LazyLock::new(|| {
    let store = Arc::new(MemoryStore::new(Capacity::default(), Limits::default()));
    let batch =
        Batch { format: Format::ZipkinJson, bytes: SPANS.as_bytes(), policy: Policy::Whole };
    store.accept(batch, Box::new(|taken| assert_eq!(taken.expect("room").outcome.accepted, 3)));
    Api::new(store, Settings::default())
});

fuzz_target!(|text: &str| {
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    for ask in [Api::zipkin, Api::own] {
        let question = ApiQuery { path, params: Params::parse(query), now_ns: NOW_NS };
        let answer = ask(&API, &question);
        assert!(matches!(answer.status, 200 | 400 | 404), "{answer:?}");
        match answer.kind {
            Kind::Json => {
                drop(serde_json::from_slice::<serde_json::Value>(&answer.body).expect("JSON"))
            }
            Kind::Text => assert!(std::str::from_utf8(&answer.body).is_ok()),
        }
    }
});

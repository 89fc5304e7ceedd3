//! Tests of spans received over Scribe.

use crate::support::{TestServer, start};
use blkkin_model::{SpanId, SpanRef, TraceId};
use blkkin_scribe::{Batch, Client, ClientOptions, Entry, ResultCode, base64};
use blkkin_wire::{Format, encode};
use std::sync::atomic::Ordering;

/// Returns the message of a Scribe entry: a span with this id, encoded in Thrift and base64.
fn message(id: u64) -> String {
    let trace_id = TraceId::from_number(7).expect("not 0");
    let span =
        SpanRef { name: "work", ..SpanRef::new(trace_id, SpanId::from_number(id).expect("not 0")) };
    let mut bytes = Vec::new();
    encode(Format::ZipkinThriftSpan, [span], &mut bytes);
    in_base64(&bytes)
}

fn in_base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    base64::encode(bytes, &mut text);
    text
}

fn log(tested: &TestServer, entries: &[(&str, &str)]) -> ResultCode {
    let address = tested.running.scribe()[0];
    let mut client = Client::connect(address, ClientOptions::default()).expect("a connection");
    let mut batch = Batch::default();
    for (category, message) in entries {
        batch.push(Entry { category: category.as_bytes(), message: message.as_bytes() });
    }
    client.log(&mut batch).expect("an answer")
}

fn kept(tested: &TestServer) -> usize {
    let reply = tested.get("/api/v2/trace/7");
    if reply.status == 404 { 0 } else { reply.json().as_array().expect("a list").len() }
}

#[test]
fn spans_of_a_call_are_taken() {
    let tested = start();
    let (one, two) = (message(1), message(2));
    let lines = one.as_bytes().chunks(20).map(|line| String::from_utf8_lossy(line).into_owned());
    let broken = lines.collect::<Vec<_>>().join("\r\n") + "\n";
    let code = log(&tested, &[("zipkin", &broken), ("ZIPKIN", &two), ("other", "what ever")]);
    assert_eq!((code, kept(&tested)), (ResultCode::Ok, 2));
    let metric = |name: &str| {
        tested.metric(&format!("zipkin_collector_{name}_total{{transport=\"scribe\"}}"))
    };
    assert_eq!((metric("messages"), metric("spans"), metric("spans_dropped")), (1, 2, 0));
}

#[test]
fn entries_of_which_nothing_can_be_made_are_counted() {
    let tested = start();
    let cut = in_base64(&[12, 0, 1]);
    let zero = in_base64(&[0]);
    let good = message(3);
    let entries = [
        ("zipkin", "!"),
        ("zipkin", ""),
        ("zipkin", cut.as_str()),
        ("zipkin", good.as_str()),
        ("zipkin", zero.as_str()),
    ];
    assert_eq!(log(&tested, &entries), ResultCode::Ok);
    assert_eq!(kept(&tested), 1);
    assert_eq!(tested.metric("zipkin_collector_spans_dropped_total{transport=\"scribe\"}"), 4);
    assert_eq!(log(&tested, &entries[..2]), ResultCode::Ok);
    assert_eq!(tested.metric("zipkin_collector_spans_dropped_total{transport=\"scribe\"}"), 6);
}

#[test]
fn who_cannot_be_served_is_told_to_try_later() {
    let tested = start();
    tested.store.refuses.store(true, Ordering::SeqCst);
    let one = message(1);
    assert_eq!(log(&tested, &[("zipkin", &one)]), ResultCode::TryLater);
    assert_eq!(kept(&tested), 0);
    tested.store.refuses.store(false, Ordering::SeqCst);
    assert_eq!(log(&tested, &[("zipkin", &one)]), ResultCode::Ok);
    assert_eq!(kept(&tested), 1);
    let name = "zipkin_collector_messages_turned_away_total{transport=\"scribe\"}";
    assert_eq!(tested.metric(name), 1);
}

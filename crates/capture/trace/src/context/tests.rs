//! Tests of the context formats, with tables of headers and the contexts parsed from them. A
//! context is written as trace id, span id, parent span id (or `-`) and decision, followed by
//! `random` if the trace id is random.

mod b3_tables;
mod properties;
mod w3c_tables;

use super::{ContextError, Decision, Incoming, SpanContext, packed};
use crate::id::{SpanId, TraceId};

fn shown(context: &SpanContext) -> String {
    let parent = context.parent_span_id.map_or("-".to_owned(), |id| id.to_string());
    let random = if context.random_trace_id { " random" } else { "" };
    format!("{} {} {parent} {:?}{random}", context.trace_id, context.span_id, context.decision)
}

fn shown_result(result: Result<Option<Incoming>, ContextError>) -> String {
    match result {
        Ok(Some(Incoming::Context(context))) => shown(&context),
        Ok(Some(Incoming::Decision(decision))) => format!("{decision:?}"),
        Ok(None) => "nothing".to_owned(),
        Err(error) => format!("error: {error}"),
    }
}

fn context(trace_id: u128, span_id: u64, parent: u64, decision: Decision) -> SpanContext {
    SpanContext {
        trace_id: TraceId::from_number(trace_id).expect("not zero"),
        span_id: SpanId::from_number(span_id).expect("not zero"),
        parent_span_id: SpanId::from_number(parent),
        decision,
        random_trace_id: false,
    }
}

/// Parses the packed context that consists of `words`, and checks the result. `expected` is the
/// context, the error, or "nothing" for `None`.
#[track_caller]
fn check_packed(words: &[u64], expected: &str) {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    let read = packed::read(&bytes).map(|context| context.map(Incoming::Context));
    assert_eq!(shown_result(read), expected);
}

#[test]
fn packed_is_read() {
    check_packed(&[1, 2, 3], "0000000000000001 0000000000000002 0000000000000003 Yes");
    check_packed(&[u64::MAX, 1 << 63, 0], "ffffffffffffffff 8000000000000000 - Yes");
    // For blkin and for Ceph, a trace id of 0 means that the request is not sampled.
    check_packed(&[0, 0, 0], "nothing");
    check_packed(&[0, 2, 3], "nothing");
    check_packed(&[1, 0, 3], "error: packed context, byte 8: an id that is 0");
    check_packed(&[1, 2], "error: packed context: 16 bytes, but should have 24");
    check_packed(&[], "error: packed context: 0 bytes, but should have 24");
    check_packed(&[1, 2, 3, 4], "error: packed context: 32 bytes, but should have 24");
    let odd = packed::read(&[1; 25]).map(|_| ()).map_err(|error| error.to_string());
    assert_eq!(odd, Err("packed context: 25 bytes, but should have 24".to_owned()));
}

#[test]
fn packed_is_written() {
    let check = |context: SpanContext, expected: &str| {
        let text: String = packed::write(&context).map(|byte| format!("{byte:02x}")).concat();
        assert_eq!(text, expected);
    };
    let followed = "000000000000000100000000000000020000000000000003";
    let not_followed = "000000000000000000000000000000000000000000000000";
    check(context(1, 2, 3, Decision::Yes), followed);
    check(context(1, 2, 3, Decision::Debug), followed);
    check(context(1, 2, 3, Decision::No), not_followed);
    check(context(1, 2, 3, Decision::Deferred), not_followed);
    check(context(1, 2, 0, Decision::Yes), "000000000000000100000000000000020000000000000000");
    // Only the lower half of a wide trace id is written.
    check(context(5 << 64 | 1, 2, 3, Decision::Yes), followed);
}

/// The lower half of a root's trace id is its span id. Children have the same trace id, and the
/// span id of their parent as parent span id.
#[test]
fn roots_and_children() {
    for root in [SpanContext::root(Decision::Yes), SpanContext::root_wide(Decision::Debug)] {
        assert_eq!(root.trace_id.low(), root.span_id.number());
        assert_eq!(root.parent_span_id, None);
        let child = root.child();
        assert_ne!(child.span_id, root.span_id);
        let expected =
            SpanContext { span_id: child.span_id, parent_span_id: Some(root.span_id), ..root };
        assert_eq!(child, expected);
        assert_eq!(child.child().parent_span_id, Some(child.span_id));
    }
    assert!(!SpanContext::root(Decision::No).trace_id.is_wide());
    assert!(SpanContext::root_wide(Decision::No).trace_id.is_wide());
}

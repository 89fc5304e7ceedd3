//! Tables of valid and invalid B3 headers, in the single-header and the multi-header form, after
//! the examples and rules of the B3 specification.

use super::{context, shown_result};
use crate::context::{Decision, SpanContext, b3};

#[track_caller]
fn check(header: &str, expected: &str) {
    let read = b3::read(header.as_bytes()).map(Some);
    assert_eq!(shown_result(read), expected, "{header}");
}

#[test]
fn one_header() {
    check(
        "80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-1-05e3ac9a4f6e3b90",
        "80f198ee56343ba864fe8b2a57d3eff7 e457b5a2e4d86bd1 05e3ac9a4f6e3b90 Yes",
    );
    check(
        "80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-0-05e3ac9a4f6e3b90",
        "80f198ee56343ba864fe8b2a57d3eff7 e457b5a2e4d86bd1 05e3ac9a4f6e3b90 No",
    );
    check("64fe8b2a57d3eff7-e457b5a2e4d86bd1-d", "64fe8b2a57d3eff7 e457b5a2e4d86bd1 - Debug");
    check("64fe8b2a57d3eff7-e457b5a2e4d86bd1", "64fe8b2a57d3eff7 e457b5a2e4d86bd1 - Deferred");
    check(" 64fe8b2a57d3eff7-e457b5a2e4d86bd1\t", "64fe8b2a57d3eff7 e457b5a2e4d86bd1 - Deferred");
    check(
        "000000000000000064fe8b2a57d3eff7-e457b5a2e4d86bd1-1",
        "64fe8b2a57d3eff7 e457b5a2e4d86bd1 - Yes",
    );
    // A root whose sender writes a parent of 0.
    check(
        "64fe8b2a57d3eff7-e457b5a2e4d86bd1-1-0000000000000000",
        "64fe8b2a57d3eff7 e457b5a2e4d86bd1 - Yes",
    );
    check("0", "No");
    check("1", "Yes");
    check("d", "Debug");
}

#[test]
fn one_bad_header() {
    let bad = |header: &str, expected: &str| check(header, &format!("error: b3, byte {expected}"));
    bad("", "0: ends where a trace id should be");
    bad("-", "0: '-' where a decision, one of 1, 0 and d, should be");
    bad("2", "0: '2' where a decision, one of 1, 0 and d, should be");
    bad("--", "0: '-' where a trace id should be");
    bad("1-", "0: a trace id has 16 or 32 digits, not 1");
    bad("64fe8b2a57d3eff-e457b5a2e4d86bd1", "0: a trace id has 16 or 32 digits, not 15");
    bad("64fe8b2a57d3eff7", "16: ends where '-' should be");
    bad("64fe8b2a57d3eff7-", "17: ends where a digit of 0-9a-f should be");
    bad("64FE8b2a57d3eff7-e457b5a2e4d86bd1", "2: 'F' where a digit of 0-9a-f should be");
    bad("0000000000000000-e457b5a2e4d86bd1", "0: an id that is 0");
    bad("64fe8b2a57d3eff7-0000000000000000-1", "17: an id that is 0");
    bad("64fe8b2a57d3eff7-e457b5a2e4d86bd-1", "32: '-' where a digit of 0-9a-f should be");
    bad("64fe8b2a57d3eff7-e457b5a2e4d86bd11", "33: '1' where '-' should be");
    bad(
        "64fe8b2a57d3eff7-e457b5a2e4d86bd1-",
        "34: ends where a decision, one of 1, 0 and d, should be",
    );
    bad(
        "64fe8b2a57d3eff7-e457b5a2e4d86bd1-D",
        "34: 'D' where a decision, one of 1, 0 and d, should be",
    );
    // A parent without a decision is invalid.
    bad("64fe8b2a57d3eff7-e457b5a2e4d86bd1-05e3ac9a4f6e3b90", "35: '5' where '-' should be");
    bad("64fe8b2a57d3eff7-e457b5a2e4d86bd1-1-", "36: ends where a digit of 0-9a-f should be");
    bad("64fe8b2a57d3eff7-e457b5a2e4d86bd1-1-05", "38: ends where a digit of 0-9a-f should be");
    bad("64fe8b2a57d3eff7-e457b5a2e4d86bd1-1-05e3ac9a4f6e3b90-", "52: goes on where it should end");
}

#[track_caller]
fn check_parts(headers: &[(&str, &str)], expected: &str) {
    let mut found = b3::Headers::default();
    for (name, value) in headers {
        found.add(name.as_bytes(), value.as_bytes());
    }
    assert_eq!(shown_result(found.read()), expected, "{headers:?}");
}

const TRACE: (&str, &str) = ("X-B3-TraceId", "80f198ee56343ba864fe8b2a57d3eff7");
const SPAN: (&str, &str) = ("X-B3-SpanId", "e457b5a2e4d86bd1");
const PARENT: (&str, &str) = ("X-B3-ParentSpanId", "05e3ac9a4f6e3b90");
const YES: (&str, &str) = ("X-B3-Sampled", "1");

#[test]
fn several_headers() {
    let ids = "80f198ee56343ba864fe8b2a57d3eff7 e457b5a2e4d86bd1";
    let check_ids = |headers: &[(&str, &str)], rest: &str| {
        check_parts(headers, &format!("{ids} {rest}"));
    };
    check_ids(&[TRACE, SPAN, PARENT, YES], "05e3ac9a4f6e3b90 Yes");
    check_ids(&[("Host", "example"), SPAN, TRACE, ("traceparent", "x")], "- Deferred");
    check_ids(&[TRACE, SPAN, ("X-B3-Sampled", "0")], "- No");
    check_ids(&[TRACE, SPAN, ("x-b3-sampled", "true")], "- Yes");
    check_ids(&[TRACE, SPAN, ("X-B3-SAMPLED", "False ")], "- No");
    check_ids(&[TRACE, SPAN, ("X-B3-Flags", "1")], "- Debug");
    check_ids(&[TRACE, SPAN, ("X-B3-Flags", "1"), ("X-B3-Sampled", "0")], "- Debug");
    check_ids(&[TRACE, SPAN, YES, ("X-B3-Flags", "0")], "- Yes");
    check_ids(&[TRACE, SPAN, ("X-B3-ParentSpanId", "0000000000000000")], "- Deferred");
    // The first of several headers with the same name is kept.
    check_ids(&[TRACE, SPAN, YES, ("X-B3-Sampled", "0")], "- Yes");
    check_parts(
        &[("x-b3-traceid", "64fe8b2a57d3eff7"), ("x-b3-spanid", " e457b5a2e4d86bd1 ")],
        "64fe8b2a57d3eff7 e457b5a2e4d86bd1 - Deferred",
    );
}

#[test]
fn several_headers_without_ids() {
    check_parts(&[], "nothing");
    check_parts(&[("b", "3"), ("X-B3-Other", "1")], "nothing");
    check_parts(&[YES], "Yes");
    check_parts(&[("X-B3-Sampled", "0")], "No");
    check_parts(&[("X-B3-Flags", "1")], "Debug");
    check_parts(&[("X-B3-Flags", "8")], "nothing");
}

#[test]
fn several_bad_headers() {
    let bad = |headers: &[(&str, &str)], expected: &str| {
        check_parts(headers, &format!("error: {expected}"));
    };
    bad(&[TRACE], "x-b3-spanid: missing, though other parts are there");
    bad(&[SPAN, YES], "x-b3-traceid: missing, though other parts are there");
    bad(&[("X-B3-TraceId", ""), SPAN], "x-b3-traceid, byte 0: ends where a trace id should be");
    bad(
        &[("X-B3-TraceId", "80f198ee56343ba8-64fe8b2a57d3eff7"), SPAN],
        "x-b3-traceid, byte 16: goes on where it should end",
    );
    bad(
        &[("X-B3-TraceId", "80f198ee56343ba80"), SPAN],
        "x-b3-traceid, byte 0: a trace id has 16 or 32 digits, not 17",
    );
    bad(&[TRACE, ("X-B3-SpanId", "0000000000000000")], "x-b3-spanid, byte 0: an id that is 0");
    bad(
        &[TRACE, ("X-B3-SpanId", "e457b5a2e4d86bd1e")],
        "x-b3-spanid, byte 16: goes on where it should end",
    );
    bad(
        &[TRACE, SPAN, ("X-B3-ParentSpanId", "z")],
        "x-b3-parentspanid, byte 0: 'z' where a digit of 0-9a-f should be",
    );
    bad(
        &[TRACE, SPAN, ("X-B3-Sampled", "yes")],
        "x-b3-sampled, byte 0: 'y' where 1 or 0, and nothing else, should be",
    );
    bad(
        &[("X-B3-Sampled", "")],
        "x-b3-sampled, byte 0: ends where 1 or 0, and nothing else, should be",
    );
}

#[test]
fn one_header_wins_over_several() {
    check_parts(&[TRACE, SPAN, YES, ("b3", "0")], "No");
    check_parts(
        &[("B3", "64fe8b2a57d3eff7-e457b5a2e4d86bd1-d"), TRACE, SPAN, YES],
        "64fe8b2a57d3eff7 e457b5a2e4d86bd1 - Debug",
    );
    // An invalid single header is ignored if the others are valid.
    check_parts(&[("b3", "-"), YES], "Yes");
    let bad = "error: b3, byte 0: '-' where a decision, one of 1, 0 and d, should be";
    check_parts(&[("b3", "-")], bad);
    check_parts(&[("b3", "-"), TRACE], bad);
}

#[test]
fn written() {
    let check = |context: SpanContext, one: &str, several: &str| {
        assert_eq!(b3::write(&context).as_str(), one);
        let written = b3::write_parts(&context);
        let lines: Vec<String> =
            written.headers().map(|(name, value)| format!("{name}: {value}")).collect();
        assert_eq!(lines.join(", "), several);
    };
    check(
        context(0x80f198ee56343ba8_64fe8b2a57d3eff7, 0xab, 0xcd, Decision::Yes),
        "80f198ee56343ba864fe8b2a57d3eff7-00000000000000ab-1-00000000000000cd",
        "X-B3-TraceId: 80f198ee56343ba864fe8b2a57d3eff7, X-B3-SpanId: 00000000000000ab, \
         X-B3-ParentSpanId: 00000000000000cd, X-B3-Sampled: 1",
    );
    check(
        context(0xab, 0xab, 0, Decision::No),
        "00000000000000ab-00000000000000ab-0",
        "X-B3-TraceId: 00000000000000ab, X-B3-SpanId: 00000000000000ab, X-B3-Sampled: 0",
    );
    check(
        context(0xab, 0xcd, 0xab, Decision::Debug),
        "00000000000000ab-00000000000000cd-d-00000000000000ab",
        "X-B3-TraceId: 00000000000000ab, X-B3-SpanId: 00000000000000cd, \
         X-B3-ParentSpanId: 00000000000000ab, X-B3-Flags: 1",
    );
    check(
        context(0xab, 0xcd, 0xab, Decision::Deferred),
        "00000000000000ab-00000000000000cd",
        "X-B3-TraceId: 00000000000000ab, X-B3-SpanId: 00000000000000cd, \
         X-B3-ParentSpanId: 00000000000000ab",
    );
}

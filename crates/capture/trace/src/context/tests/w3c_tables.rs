//! Tables of valid and invalid `traceparent` headers, after the examples and rules of the W3C
//! specification.

use super::{context, shown_result};
use crate::context::{Decision, Incoming, SpanContext, w3c};

#[track_caller]
fn check(header: &str, expected: &str) {
    let read = w3c::read(header.as_bytes()).map(|context| Some(Incoming::Context(context)));
    assert_eq!(shown_result(read), expected, "{header}");
}

const IDS: &str = "4bf92f3577b34da6a3ce929d0e0e4736 00f067aa0ba902b7 -";

#[test]
fn good_ones() {
    let good = |header: &str, rest: &str| check(header, &format!("{IDS} {rest}"));
    good("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "Yes");
    good("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", "No");
    good("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-02", "No random");
    good("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-03", "Yes random");
    // Undefined flags are ignored.
    good("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff", "Yes random");
    good("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-fc", "No");
    good(" \t00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 ", "Yes");
    // The trace id has 64 bits.
    check(
        "00-0000000000000000a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "a3ce929d0e0e4736 00f067aa0ba902b7 - Yes",
    );
}

#[test]
fn versions_to_come() {
    let good = |header: &str, rest: &str| check(header, &format!("{IDS} {rest}"));
    good("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "Yes");
    good("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "Yes");
    good("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what the future brings", "Yes");
    good("fe-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00-", "No");
    check(
        "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.what",
        "error: traceparent, byte 55: goes on where it should end",
    );
    check(
        "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
        "error: traceparent, byte 54: ends where a digit of 0-9a-f should be",
    );
    check(
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "error: traceparent, byte 0: version ff, which is forbidden",
    );
}

#[test]
fn bad_ones() {
    let bad = |header: &str, expected: &str| {
        check(header, &format!("error: traceparent, byte {expected}"));
    };
    bad("", "0: ends where a digit of 0-9a-f should be");
    bad("  ", "2: ends where a digit of 0-9a-f should be");
    bad("00", "2: ends where '-' should be");
    bad("00-", "3: ends where a digit of 0-9a-f should be");
    bad("00-00000000000000000000000000000000-00f067aa0ba902b7-01", "3: an id that is 0");
    bad("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", "36: an id that is 0");
    bad(
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "4: 'B' where a digit of 0-9a-f should be",
    );
    bad(
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00F067aa0ba902b7-01",
        "38: 'F' where a digit of 0-9a-f should be",
    );
    bad(
        "0A-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "1: 'A' where a digit of 0-9a-f should be",
    );
    bad(
        "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
        "34: '-' where a digit of 0-9a-f should be",
    );
    bad("00-4bf92f3577b34da6a3ce929d0e0e47366-00f067aa0ba902b7-01", "35: '6' where '-' should be");
    bad(
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b-01",
        "51: '-' where a digit of 0-9a-f should be",
    );
    bad("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7", "52: ends where '-' should be");
    bad(
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1",
        "54: ends where a digit of 0-9a-f should be",
    );
    bad(
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-011",
        "55: goes on where it should end",
    );
    // A trailing dash is valid only in later versions.
    bad(
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
        "55: goes on where it should end",
    );
    bad("00_4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7_01", "2: '_' where '-' should be");
    bad(
        " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0\u{e9}",
        "55: '\\xc3' where a digit of 0-9a-f should be",
    );
    // Two joined headers.
    bad(
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01,00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "55: goes on where it should end",
    );
}

#[test]
fn written() {
    let check = |context: SpanContext, expected: &str| {
        assert_eq!(w3c::write(&context).as_str(), expected);
    };
    let wide = 0x4bf92f3577b34da6_a3ce929d0e0e4736;
    let head = "00-4bf92f3577b34da6a3ce929d0e0e4736-00000000000000ab";
    check(context(wide, 0xab, 7, Decision::Yes), &format!("{head}-01"));
    check(context(wide, 0xab, 7, Decision::Debug), &format!("{head}-01"));
    check(context(wide, 0xab, 0, Decision::No), &format!("{head}-00"));
    check(context(wide, 0xab, 0, Decision::Deferred), &format!("{head}-00"));
    let random = SpanContext { random_trace_id: true, ..context(wide, 0xab, 0, Decision::Yes) };
    check(random, &format!("{head}-03"));
    check(
        context(0xa3ce, 1, 0, Decision::Yes),
        "00-0000000000000000000000000000a3ce-0000000000000001-01",
    );
}

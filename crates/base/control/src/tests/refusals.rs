//! Texts and positions of errors in received streams, and texts of errors in messages to be sent.

use super::{decode, frame, unfit};
use crate::limits::{
    FIELDS_MAX, FILTER_SIZE_MAX, MESSAGE_SIZE_MAX, NAME_SIZE_MAX, OPENING_SIZE_MAX, PATTERNS_MAX,
    REASON_SIZE_MAX,
};
use crate::message::{Kind, Messages};
use crate::{
    AddChannel, Answer, Channel, ChannelRule, Clock, Context, Decoder, EventRule, EventType,
    Events, Failed, Field, FieldKind, FromApplication, Hello, Level, NewChannel, Opening, Refused,
    Reply, Request, Role, Selection, Session, ToApplication, Version, Width,
};

fn frame_of(kind: u16, body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_le_bytes()[..], &kind.to_le_bytes(), body].concat()
}

#[test]
fn frames() {
    fn check<M: Messages>(bytes: &[u8], descriptors: usize, expected: &str) {
        let mut decoder: Decoder<M, usize> = Decoder::new();
        let (all, end) = decode(&mut decoder, bytes, super::descriptors(descriptors));
        assert_eq!((all, end), (vec![], Err(expected.to_owned())));
    }
    check::<Request>(
        &frame(&Reply::Done),
        0,
        "byte 4: frame, kind: a message of kind 0x0401 is unknown",
    );
    check::<Request>(
        b"\x01\x00\x10\x00\x01\x03",
        0,
        "byte 0: frame, size: 1048577 bytes, not up to 1048576",
    );
    check::<Opening>(
        b"\x01\x10\x00\x00\x01\x00",
        0,
        &format!("byte 0: frame, size: 4097 bytes, not up to {OPENING_SIZE_MAX}"),
    );
    check::<Opening>(
        b"GET / HTTP/1.1\r\n",
        0,
        "byte 4: frame, kind: a message of kind 0x202f is unknown",
    );
    let channel = AddChannel { channel: 1, session: "s".into(), contexts: vec![], replaces: None };
    let add_channel = frame(&ToApplication::AddChannel(channel));
    let missing = "byte 0: frame, descriptors: 1 came, not 2";
    check::<ToApplication>(&add_channel, 1, missing);
    let left = |count| format!("byte 0: frame, descriptors: {count} that belong to no message");
    check::<ToApplication>(&add_channel[..10], 3, &left(3));
    check::<ToApplication>(&add_channel[..3], 5, &left(5));
    check::<ToApplication>(b"", 1, &left(1));
    let ping = frame(&FromApplication::Ping(1));
    check::<FromApplication>(&ping[..7], 1, &left(1));
}

/// A descriptor sent with a message whose kind has none is an error at the message's end.
#[test]
fn descriptors_behind_a_message() {
    let mut decoder: Decoder<ToApplication, usize> = Decoder::new();
    let ping = frame(&ToApplication::Ping(1));
    let (all, end) = decode(&mut decoder, &ping, vec![1]);
    assert_eq!(all.len(), 1);
    let error = end.expect_err("one descriptor");
    assert!(error.starts_with("byte 14: frame, descriptors: 1 that belong"), "{error}");
}

#[test]
fn bodies() {
    fn check<M: Messages>(kind: u16, body: &[u8], expected: &str) {
        let Kind { name, .. } = M::KINDS.iter().find(|known| known.number == kind).expect("known");
        let bytes = frame_of(kind, body);
        let (all, end) = decode(&mut Decoder::<M, usize>::new(), &bytes, vec![]);
        let (at, what) = expected.split_once(' ').expect("two parts");
        assert_eq!((all, end), (vec![], Err(format!("byte {}: {name}{what}", at))));
    }
    // Offsets are positions in the stream: a body starts at 6.
    check::<FromApplication>(0x0103, b"1234567", "6 , number: ends too early (bytes missing: 1)");
    check::<FromApplication>(
        0x0103,
        b"123456789",
        "14 , end: goes on where it should end (bytes left: 1)",
    );
    check::<FromApplication>(0x0102, b"?", "6 , end: goes on where it should end (bytes left: 1)");
    let start = |text: &[u8]| [&(text.len() as u32).to_le_bytes()[..], text].concat();
    let session = |text: &[u8], expected: &str| check::<Request>(0x0302, &start(text), expected);
    session(b"", "10 , session: is empty");
    session(b"../etc", "10 , session: '/' where printable characters other than '/' may be");
    session(b"..", "10 , session: a name that starts with '.'");
    session(
        b"a\x1b[31m",
        "10 , session: '\\u{1b}' where printable characters other than '/' may be",
    );
    session(
        "a\u{9b}".as_bytes(),
        "10 , session: '\\u{9b}' where printable characters other than '/' may be",
    );
    session(b"a\0", "10 , session: '\\0' where printable characters other than '/' may be");
    session(b"\xff", "10 , session: not UTF-8");
    session(&[b'x'; NAME_SIZE_MAX + 1], "6 , session: 201 bytes, not up to 200");
    check::<Request>(0x0302, b"\xff\xff\xff\xff", "6 , session: 4294967295 bytes, not up to 200");
    check::<Request>(0x0302, b"\xc8\0\0\0abc", "10 , session: ends too early (bytes missing: 197)");
    check::<Request>(0x0307, b"\x02", "6 , session: 2 is no flag");
    check::<Reply>(
        0x040a,
        &start(b"tmp"),
        "10 , path: a path that does not start with '/', or holds a NUL",
    );
    check::<Reply>(
        0x040a,
        &start(b"/a\0b"),
        "10 , path: a path that does not start with '/', or holds a NUL",
    );
    check::<Reply>(
        0x0402,
        &start(b"No such"),
        "10 , code: 'N' where lower-case letters and '-' may be",
    );
    let event = |level: u8, rest: &[u8]| {
        let head = [&[0; 4][..], &start(b"a:b"), &[level], &start(b""), &[0; 4], rest].concat();
        move |expected: &str| check::<Reply>(0x0407, &head, expected)
    };
    event(15, b"")("17 , level: 15 is no level");
    event(14, b"\x01\x01")("26 , fields: 257 items, not 0 to 256");
    event(14, b"\x00\x01")("28 , name: ends too early (bytes missing: 4)");
    let field = |name: &[u8], kind: &[u8]| [&b"\x01\0"[..], &start(name), kind].concat();
    let letters = "where letters, '_' and, but at the start, digits may be";
    event(14, &field(b"a;b", b"\x03"))(&format!("32 , name: ';' {letters}"));
    event(14, &field(b"1b", b"\x03"))(&format!("32 , name: '1' {letters}"));
    event(14, &field("ä".as_bytes(), b"\x03"))(&format!("32 , name: 'ä' {letters}"));
    event(14, &field(b"a", b"\x0a"))("33 , kind: 10 is no FieldKind");
    event(14, &field(b"a", b"\x00\x04"))("34 , kind: 4 is no Width");
    event(14, &[&b"\x02\0"[..], &field(b"a", b"\x03")[2..], &field(b"a", b"\x03")[2..]].concat())(
        "39 , fields: two have the same name",
    );
}

#[test]
fn versions() {
    let check = |body: &[u8], expected: &str, refused: &str| {
        let mut decoder: Decoder<Opening, usize> = Decoder::new();
        decoder.feed(&frame_of(1, body), []);
        let error = decoder.take().expect_err("it does not fit");
        assert_eq!(error.to_string(), expected);
        let answer = Refused::because(&error);
        assert_eq!((answer.reason.as_str(), answer.try_again), (refused, false));
        frame(&Answer::Refused(answer));
    };
    check(
        b"blkkin\x02\0\x03\0 whatever comes then",
        "the other side speaks version 2.3 of BlkKin's protocol, this one 1.2; install the same \
         release on both sides, and start them again",
        "this program speaks version 2.3 of BlkKin's protocol and the daemon of this machine 1.2; \
         update the daemon, and restart it",
    );
    check(
        b"blkkin\0\0\x03\0",
        "the other side speaks version 0.3 of BlkKin's protocol, this one 1.2; install the same \
         release on both sides, and start them again",
        "this program speaks version 0.3 of BlkKin's protocol and the daemon of this machine 1.2; \
         update BlkKin's library, or rebuild the program with it, and restart the program",
    );
    check(
        b"GET / HTTP/1.1",
        "the other side does not speak BlkKin's protocol",
        "the daemon does not understand this program: the other side does not speak BlkKin's \
         protocol",
    );
    check(
        b"blkkin\x01\0\0\0\x03",
        "byte 16: Hello, role: 3 is no Role",
        "the daemon does not understand this program: byte 16: Hello, role: 3 is no Role",
    );
}

/// A message that the receiver would refuse cannot be encoded.
#[test]
fn what_is_sent() {
    fn check<M: Messages>(message: M, expected: &str) {
        assert_eq!(unfit(&message).to_string(), expected);
    }
    let text = |size: usize| "x".repeat(size);
    let role = Role::Command;
    let hello = Hello { version: Version::OURS, role, program: "a\n".into(), release: "".into() };
    check(Opening::Hello(hello), "Hello, program: '\\n' where printable characters may be");
    let clock = Clock::Monotonic;
    let role = Role::Application { pid: 1, clock };
    let program = text(256);
    let hello = Hello { version: Version::OURS, role, program, release: "".into() };
    check(Opening::Hello(hello), "Hello, program: 256 bytes, not up to 255");
    let reason = text(REASON_SIZE_MAX + 1);
    let refused = Refused { version: Version::OURS, try_again: false, reason };
    check(Answer::Refused(refused), "Refused, reason: 1025 bytes, not up to 1024");
    let field =
        Field { name: "a".into(), kind: FieldKind::Signed { width: Width::Bits8, hex: false } };
    let event_type = |fields| {
        Reply::EventType(EventType {
            index: 0,
            name: "a:b".into(),
            level: Level::Info,
            file: "".into(),
            line: 0,
            fields,
        })
    };
    let twice = vec![field.clone(), field.clone()];
    check(event_type(twice), "EventType, fields: two have the same name");
    let fields: Vec<Field> = (0..=FIELDS_MAX)
        .map(|index| Field { name: format!("f{index}"), ..field.clone() })
        .collect();
    check(event_type(fields), "EventType, fields: 257 items, not 0 to 256");
    let contexts = vec![Context::Pid, Context::Supplied { name: "pid".into() }];
    let channel = Channel { contexts: contexts.clone(), ..Channel::named("c") };
    let message = NewChannel { session: "s".into(), channel };
    check(Request::CreateChannel(message), "CreateChannel, contexts: two have the same name");
    let rule = EventRule { filter: Some(text(FILTER_SIZE_MAX + 1)), ..EventRule::for_names(["*"]) };
    let rule = ToApplication::Rule(ChannelRule { channel: 0, rule });
    check(rule, "Rule, filter: 65537 bytes, not up to 65536");
    let session = |output: &str| {
        let purpose = crate::Purpose::Record;
        let output = Some(output.into());
        Request::CreateSession(Session { name: "s".into(), purpose, output })
    };
    let path = "CreateSession, output: a path that does not start with '/', or holds a NUL";
    check(session("traces"), path);
    check(session(""), path);
    check(
        session(&format!("/{}", text(4095))),
        "CreateSession, output: 4096 bytes, not up to 4095",
    );
    let events = |names: Vec<String>| {
        Request::EnableEvents(Events {
            session: "s".into(),
            channel: None,
            selection: Selection::for_names(names),
        })
    };
    check(events(vec![]), "EnableEvents, names: 0 items, not 1 to 512");
    check(
        events(vec!["*".into(); PATTERNS_MAX + 1]),
        "EnableEvents, names: 513 items, not 1 to 512",
    );
    let failed =
        |code: &str, message| Reply::Failed(Failed { code: code.into(), message, hint: None });
    check(failed("", text(1)), "Failed, code: is empty");
    check(failed("x", text(MESSAGE_SIZE_MAX + 1)), "Failed, message: 8193 bytes, not up to 8192");
}

//! Valid streams, and streams of peers with another version. Each message is decoded as soon as its
//! last byte has arrived, however the socket splits the stream.

use super::{Random, decode, descriptors, frame, received};
use crate::limits::{
    DESCRIPTORS_MAX, EVENT_NAME_SIZE_MAX, EXECUTABLES_MAX, FIELD_NAME_SIZE_MAX, FIELDS_MAX,
    FILE_SIZE_MAX, FILTER_SIZE_MAX, NAME_SIZE_MAX, PATH_SIZE_MAX, PATTERNS_MAX, PIDS_MAX,
    PROGRAM_SIZE_MAX, REASON_SIZE_MAX, REDACTIONS_MAX, RELEASE_SIZE_MAX,
};
use crate::message::{Body, HEADER_SIZE, Kind, Messages};
use crate::{
    Answer, Clock, Decoder, EventType, Events, Field, FieldKind, FromApplication, Hello, Level,
    Levels, Opening, Processes, Received, RedactedEvents, Redaction, RedactionMethod, Refused,
    Reply, Request, Role, Selection, StateRecord, ToApplication, Version, Width,
};

/// Calls a generic test function for every message type of a connection.
macro_rules! for_all {
    ($test:ident) => {
        $test::<Opening>();
        $test::<Answer>();
        $test::<FromApplication>();
        $test::<ToApplication>();
        $test::<Request>();
        $test::<Reply>();
    };
}

#[test]
fn any_message_arrives() {
    fn check<M: Messages>() {
        let mut random = Random::new(1);
        for kind in M::KINDS {
            for _ in 0..200 {
                let message = M::make(*kind, &mut random);
                let bytes = frame(&message);
                assert!(bytes.len() <= HEADER_SIZE + M::BODY_SIZE_MAX);
                let decoder = &mut Decoder::new();
                let all = decode(decoder, &bytes, descriptors(kind.descriptors()));
                assert_eq!(all, (vec![received(message)], Ok(())));
                assert_eq!(decoder.end(), Ok(()));
            }
        }
    }
    for_all!(check);
}

/// A message received byte by byte is decoded with its last byte, and not earlier. A prefix of a
/// message is an error only if the connection ends there.
#[test]
fn messages_arrive_with_their_last_byte() {
    fn check<M: Messages>() {
        let mut random = Random::new(2);
        let mut decoder: Decoder<M, usize> = Decoder::new();
        for _ in 0..300 {
            if M::ONCE {
                decoder = Decoder::new();
            }
            let kind = M::KINDS[random.below(M::KINDS.len())];
            let message = M::make(kind, &mut random);
            let bytes = frame(&message);
            let mut with_it = descriptors(kind.descriptors());
            for (place, byte) in bytes[..bytes.len() - 1].iter().enumerate() {
                assert_eq!(decode(&mut decoder, &[*byte], with_it), (vec![], Ok(())));
                let cut = decoder.end().expect_err("it is cut").to_string();
                assert!(cut.ends_with("frame: the connection ended within a message"), "{place}");
                with_it = vec![];
            }
            let all = decode(&mut decoder, &bytes[bytes.len() - 1..], with_it);
            assert_eq!(all, (vec![received(message)], Ok(())));
            assert_eq!(decoder.end(), Ok(()));
        }
    }
    for_all!(check);
}

/// The decoded messages do not depend on the pieces in which a stream arrives. As with sockets, a
/// piece may end anywhere, but a piece with descriptors contains no bytes after the message to
/// which the descriptors belong.
#[test]
fn messages_arrive_in_any_pieces() {
    let mut random = Random::new(3);
    for _ in 0..200 {
        let mut decoder: Decoder<ToApplication, usize> = Decoder::new();
        let (mut sent, mut arrived) = (Vec::new(), Vec::new());
        // Bytes sent and not read yet.
        let mut waiting: Vec<u8> = Vec::new();
        for number in 0..20 {
            let kind = ToApplication::KINDS[random.below(ToApplication::KINDS.len())];
            let message = ToApplication::make(kind, &mut random);
            let bytes = frame(&message);
            let own: Vec<usize> =
                (0..kind.descriptors()).map(|place| 10 * number + place).collect();
            let (begin, rest) = bytes.split_at(1 + random.below(bytes.len()));
            waiting.extend(begin);
            if !own.is_empty() || random.below(3) == 0 {
                let (all, end) = decode(&mut decoder, &waiting, own.clone());
                assert_eq!(end, Ok(()));
                arrived.extend(all);
                waiting.clear();
            }
            waiting.extend(rest);
            sent.push(Received::Message { message, descriptors: own });
        }
        arrived.extend(decode(&mut decoder, &waiting, vec![]).0);
        assert_eq!(arrived, sent);
        assert_eq!(decoder.end(), Ok(()));
    }
}

/// Returns the `Hello` of a peer whose minor version is newer by `newer`.
fn hello(newer: u16) -> Opening {
    let version = Version { minor: Version::OURS.minor + newer, ..Version::OURS };
    let role = Role::Application { pid: 1, clock: Clock::Tsc };
    Opening::Hello(Hello { version, role, program: "p".into(), release: "1".into() })
}

/// Returns a message's frame with extra bytes at the end of its body, as a newer peer may send.
fn longer<M: Messages>(message: &M, more: &[u8]) -> Vec<u8> {
    let mut bytes = [&frame(message), more].concat();
    let size = (bytes.len() - HEADER_SIZE) as u32;
    bytes[..4].copy_from_slice(&size.to_le_bytes());
    bytes
}

fn unknown(kind: u16, size: u32) -> Vec<u8> {
    [&size.to_le_bytes()[..], &kind.to_le_bytes(), &vec![7; size as usize]].concat()
}

/// The decoder retains bytes after the opening, so that a client can send its next message before
/// it has received the answer.
#[test]
fn what_follows_the_opening_is_kept() {
    let bytes = [frame(&hello(0)), frame(&FromApplication::Ping(5))].concat();
    for cut in 0..bytes.len() {
        let mut decoder: Decoder<Opening, usize> = Decoder::new();
        decoder.feed(&bytes[..cut], []);
        let first = decoder.take().expect("sound");
        let opened = first.is_some();
        assert_eq!(opened, cut >= frame(&hello(0)).len());
        decoder.feed(&bytes[cut..], []);
        let first = first.or_else(|| decoder.take().expect("sound"));
        assert_eq!(first, Some(received(hello(0))));
        assert_eq!(decoder.take(), Ok(None));
        assert_eq!(decoder.peer(), Some(Version::OURS));
        let mut decoder: Decoder<FromApplication, usize> = decoder.followed_by();
        assert_eq!(decoder.take(), Ok(Some(received(FromApplication::Ping(5)))));
        assert_eq!(decoder.take(), Ok(None));
        assert_eq!(decoder.end(), Ok(()));
    }
}

/// Messages and fields of a newer minor version are skipped, whatever the pieces of the stream.
/// With a skipped message, the decoder discards as many descriptors as the message's kind states.
#[test]
fn a_newer_minor_version_is_understood_as_far_as_known() {
    let bytes = [
        longer(&hello(1), b"more"),
        unknown(0x01ff, 300),
        longer(&FromApplication::Goodbye, b"why"),
        unknown(0x21ff, 0),
        unknown(0x01fe, 2),
        frame(&FromApplication::Ping(5)),
    ];
    let expected = [
        Received::Unknown { kind: 0x01ff },
        received(FromApplication::Goodbye),
        Received::Unknown { kind: 0x21ff },
        Received::Unknown { kind: 0x01fe },
        received(FromApplication::Ping(5)),
    ];
    for size in 1..400 {
        let mut decoder: Decoder<Opening, usize> = Decoder::new();
        decoder.feed(&bytes[0], []);
        assert_eq!(decoder.take(), Ok(Some(received(hello(1)))));
        let mut decoder: Decoder<FromApplication, usize> = decoder.followed_by();
        let mut arrived = Vec::new();
        for frame in &bytes[1..] {
            for (place, piece) in frame.chunks(size).enumerate() {
                let with_descriptors = place == 0 && frame[5] == 0x21;
                let own = descriptors(if with_descriptors { 2 } else { 0 });
                let (all, end) = decode(&mut decoder, piece, own);
                assert_eq!(end, Ok(()));
                arrived.extend(all);
            }
            assert_eq!(decoder.end(), Ok(()));
        }
        assert_eq!(arrived, expected);
    }
}

/// Error offsets include skipped bytes. Bytes that cannot be skipped are an error even from a peer
/// with a newer minor version.
#[test]
fn a_newer_minor_version_may_be_wrong_too() {
    let check = |bytes: &[u8], expected: &str| {
        for size in [1, 7, usize::MAX] {
            let mut decoder: Decoder<Opening, usize> = Decoder::new();
            decoder.feed(&frame(&hello(1)), []);
            assert_eq!(decoder.take(), Ok(Some(received(hello(1)))));
            let mut decoder: Decoder<FromApplication, usize> = decoder.followed_by();
            let mut end = Ok(());
            for piece in bytes.chunks(size) {
                end = end.and(decode(&mut decoder, piece, vec![]).1);
            }
            let end = end.and(decoder.end().map_err(|error| error.to_string()));
            assert_eq!(end, Err(expected.to_owned()));
        }
    };
    assert_eq!(frame(&hello(1)).len(), 32);
    let long = unknown(0x01ff, 300);
    let cut = "frame: the connection ended within a message";
    check(&long[..305], &format!("byte 337: {cut}"));
    check(
        &[&long[..], &unknown(0x0103, 2)].concat(),
        "byte 344: Ping, number: ends too early (bytes missing: 6)",
    );
    let descriptors = "byte 32: frame, descriptors: 0 came, not 4";
    check(&unknown(0x41ff, 0), descriptors);
    check(&unknown(0x51ff, 0), "byte 36: frame, kind: a message of kind 0x51ff is unknown");
    let size = "byte 32: frame, size: 4097 bytes, not up to 4096";
    check(&unknown(0x01ff, (4 << 10) + 1)[..6], size);
}

/// A peer of another major version can refuse a connection and state the reason.
#[test]
fn another_major_version_can_refuse() {
    let version = Version { major: 2, minor: 0 };
    let refused = Refused { version, try_again: false, reason: "too old".into() };
    let answer = Answer::Refused(refused);
    let mut decoder = Decoder::new();
    assert_eq!(decode(&mut decoder, &longer(&answer, b"!"), vec![]).0, [received(answer)]);
    assert_eq!(decoder.peer(), Some(version));
}

/// A message fits into a frame even if all of its texts and lists, except lists of labels, have
/// their maximum size.
#[test]
fn the_largest_messages_fit() {
    let text = |size: usize| "x".repeat(size);
    let path = || format!("/{}", text(PATH_SIZE_MAX - 1));
    let opening = Opening::Hello(Hello {
        version: Version::OURS,
        role: Role::Application { pid: 1, clock: Clock::Tsc },
        program: text(PROGRAM_SIZE_MAX),
        release: text(RELEASE_SIZE_MAX),
    });
    frame(&opening);
    let reason = text(REASON_SIZE_MAX);
    frame(&Answer::Refused(Refused { version: Version::OURS, try_again: true, reason }));
    let field = |index: usize| Field {
        name: format!("f{index:0width$}", width = FIELD_NAME_SIZE_MAX - 1),
        kind: FieldKind::Unsigned { width: Width::Bits64, hex: true },
    };
    let event_type = EventType {
        index: 1,
        name: text(EVENT_NAME_SIZE_MAX),
        level: Level::Debug,
        file: text(FILE_SIZE_MAX),
        line: 1,
        fields: (0..FIELDS_MAX).map(field).collect(),
    };
    frame(&Reply::EventType(event_type));
    let patterns = vec![text(EVENT_NAME_SIZE_MAX); PATTERNS_MAX];
    let events = Events {
        session: text(NAME_SIZE_MAX),
        channel: Some(text(NAME_SIZE_MAX)),
        selection: Selection {
            names: patterns.clone(),
            excluded: patterns,
            levels: Levels::Exactly { level: Level::Info },
            filter: Some(text(FILTER_SIZE_MAX)),
            processes: Processes {
                pids: vec![1; PIDS_MAX],
                executables: vec![path(); EXECUTABLES_MAX],
                children: true,
            },
        },
    };
    frame(&Request::EnableEvents(events.clone()));
    let redaction = Redaction {
        events: Some(text(EVENT_NAME_SIZE_MAX)),
        field: text(FIELD_NAME_SIZE_MAX),
        method: RedactionMethod::Length,
    };
    let redactions = vec![redaction; REDACTIONS_MAX];
    frame(&Request::EnableRedactedEvents(RedactedEvents { events, redactions }));
}

/// No two directions share a kind, so a misdirected message is not decoded as another type. The
/// number of each kind states how many descriptors are passed with the message.
#[test]
fn kinds_are_told_apart() {
    let mut all: Vec<Kind> = Vec::new();
    for kinds in [
        Opening::KINDS,
        Answer::KINDS,
        FromApplication::KINDS,
        ToApplication::KINDS,
        Request::KINDS,
        Reply::KINDS,
        StateRecord::KINDS,
    ] {
        all.extend(kinds);
    }
    for (index, kind) in all.iter().enumerate() {
        assert!(all[..index].iter().all(|other| other.number & 0xfff != kind.number & 0xfff));
        let expected = match kind.name {
            "AddChannel" => 2,
            "Catalog" | "Orphan" | "KernelRings" => 1,
            _ => 0,
        };
        assert_eq!(kind.descriptors(), expected);
        assert!(kind.descriptors() <= DESCRIPTORS_MAX);
    }
}

//! Tests of the encoding, and of the service's answers to unusual calls. The references are
//! captured messages of clients and servers of 2012 and of today, and Thrift's own library, which
//! writes calls to the service and reads its replies.

use blkkin_scribe::{
    Answer, Batch, ConnectionAction, Entries, Entry, Frames, Handler, Header, Limits, Reason,
    Request, ResultCode, Service, Status, read_reply, read_request,
};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Mutex;
use thrift::protocol::{
    TBinaryInputProtocol, TBinaryOutputProtocol, TFieldIdentifier, TInputProtocol, TListIdentifier,
    TMapIdentifier, TMessageIdentifier, TMessageType, TOutputProtocol, TType,
};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("digits"), 16);
    digits.chunks(2).map(|pair| byte(pair).expect("hex")).collect()
}

const OLD: &str = "0000002c 00000003 4c6f67 01 00000000 0f 0001 0c 00000001 \
                   0b 0001 00000006 7a69706b696e 0b 0002 00000002 6869 00 00";
const STRICT: &str = "0000002f 80010001 00000003 4c6f67 00000000 0f 0001 0c 00000001 \
                      0b 0001 00000006 7a69706b696e 0b 0002 00000002 6869 00 00";

fn from() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 1).into()
}

/// Handler that stores the names of control requests and, unless `is_full` is set, all entries.
#[derive(Default)]
struct StoringHandler {
    entries: Mutex<Vec<(Vec<u8>, Vec<u8>)>>,
    control_requests: Mutex<Vec<&'static str>>,
    is_full: bool,
}

impl Handler for StoringHandler {
    fn log(&self, entries: &Entries<'_>) -> ResultCode {
        if self.is_full {
            return ResultCode::TryLater;
        }
        let mut kept = self.entries.lock().expect("no panic");
        kept.extend(entries.iter().map(|entry| (entry.category.to_vec(), entry.message.to_vec())));
        ResultCode::Ok
    }

    fn status(&self) -> Status {
        Status::Warning
    }

    fn status_details(&self) -> String {
        "why".to_owned()
    }

    fn counters(&self) -> BTreeMap<String, i64> {
        BTreeMap::from([("a:received good".to_owned(), 1 << 40), ("b".to_owned(), -1)])
    }

    fn reinitialize(&self, _: SocketAddr) {
        self.control_requests.lock().expect("no panic").push("reinitialize");
    }

    fn shutdown(&self, _: SocketAddr) {
        self.control_requests.lock().expect("no panic").push("shutdown");
    }
}

/// Returns the service's reply to one frame; empty without a reply. Panics if the service closes
/// the connection.
fn answer(service: &Service<StoringHandler>, bytes: &[u8]) -> Vec<u8> {
    let frames = Frames { frame_bytes_max: 1 << 20 };
    let (body, size) = frames.next(bytes).expect("a frame").expect("all of it");
    assert_eq!(size, bytes.len());
    let mut out = Vec::new();
    assert_eq!(service.answer(body, from(), &mut out), ConnectionAction::Continue);
    out
}

#[test]
fn captured_batches_are_read() {
    for text in [OLD, STRICT] {
        let service = Service::new(StoringHandler::default(), Limits::default());
        let reply = answer(&service, &hex(text));
        let kept = service.handler().entries.lock().expect("no panic").clone();
        assert_eq!(kept, [(b"zipkin".to_vec(), b"hi".to_vec())]);
        // The reply is in the strict encoding, whatever the call's encoding, as all clients read
        // it.
        let expected = "00000017 80010002 00000003 4c6f67 00000000 08 0000 00000000 00";
        assert_eq!(reply, hex(expected));
    }
}

#[test]
fn captured_batches_are_written() {
    for (is_strict, text) in [(false, OLD), (true, STRICT)] {
        let mut batch = Batch::new(is_strict);
        batch.push(Entry { category: b"other", message: b"gone" });
        batch.frame(7);
        batch.clear();
        let entry = Entry { category: b"zipkin", message: b"hi" };
        batch.push(entry);
        assert_eq!(batch.frame_bytes(), hex(text).len());
        assert_eq!(batch.frame(0), hex(text));
        // The batch can be sent again with another number, and entries can still be added.
        assert_eq!(batch.frame(0), hex(text));
        let again = batch.frame(5).to_vec();
        let (header, _) = Header::read(&again[4..]).expect("a header");
        assert_eq!((header.sequence, header.is_strict), (5, is_strict));
        batch.push(entry);
        assert_eq!((batch.len(), batch.payload_bytes()), (2, 16));
        let (_, request) =
            read_request(&batch.frame(1)[4..], &Limits::default()).expect("a request");
        let Ok(Request::Log(entries)) = request else { panic!("{request:?}") };
        assert_eq!(entries.iter().collect::<Vec<_>>(), [entry, entry]);
    }
}

/// Replies of servers of 2012 (old encoding) and of today's servers (strict encoding) are read.
/// Malformed replies and replies to a different call give a fault.
#[test]
fn captured_replies_are_read() {
    let check = |text: &str, expected| {
        let read = read_reply(&hex(text), b"Log", 7);
        assert_eq!(read.map_err(|fault| (fault.reason, fault.offset)), expected, "{text}");
    };
    check("00000003 4c6f67 02 00000007 08 0000 00000000 00", Ok(Answer::I32(0)));
    check("80010002 00000003 4c6f67 00000007 08 0000 00000001 00", Ok(Answer::I32(1)));
    check("00000003 4c6f67 02 00000008 08 0000 00000000 00", Err((Reason::WrongReply, 0)));
    check("00000003 4c6f68 02 00000007 08 0000 00000000 00", Err((Reason::WrongReply, 0)));
    check("00000003 4c6f67 01 00000007 08 0000 00000000 00", Err((Reason::Kind(1), 0)));
    check("00000003 4c6f67 02 00000007 00", Ok(Answer::Void));
    check("00000003 4c6f67 02 00000007 08 0000 0000", Err((Reason::Ends, 15)));
    check("80020002 00000003 4c6f67 00000007 00", Err((Reason::Version(0x8002), 0)));
    check("ffffffff", Err((Reason::Version(0xffff), 0)));
    check("00000003 4c6f67 02 00000007 0c 0001 00 00", Err((Reason::NoResult, 15)));
    let exception = "80010003 00000003 4c6f67 00000007 0b 0001 00000002 6e6f 08 0002 00000006 00";
    check(exception, Ok(Answer::Exception { message: b"no".to_vec(), kind: 6 }));
}

/// Returns a frame with a message written by Thrift's library.
fn written(
    name: &str,
    kind: TMessageType,
    is_strict: bool,
    arguments: impl FnOnce(&mut dyn TOutputProtocol) -> thrift::Result<()>,
) -> Vec<u8> {
    let mut body = Vec::new();
    let mut protocol = TBinaryOutputProtocol::new(&mut body, is_strict);
    let begin = TMessageIdentifier::new(name, kind, 9);
    protocol.write_message_begin(&begin).expect("a message");
    arguments(&mut protocol).expect("arguments");
    protocol.write_field_stop().expect("the end");
    protocol.write_message_end().expect("the end");
    let mut frame = (body.len() as u32).to_be_bytes().to_vec();
    frame.append(&mut body);
    frame
}

fn begin(protocol: &mut dyn TOutputProtocol, kind: TType, id: i16) -> thrift::Result<()> {
    protocol.write_field_begin(&TFieldIdentifier::new("", kind, id))
}

fn put(protocol: &mut dyn TOutputProtocol, id: i16, text: &[u8]) -> thrift::Result<()> {
    begin(protocol, TType::String, id)?;
    protocol.write_bytes(text)
}

/// Writes fields of seven types that the reader must skip: six with unknown ids, and an `i64` with
/// the known id 1.
fn put_unknown(protocol: &mut dyn TOutputProtocol) -> thrift::Result<()> {
    begin(protocol, TType::Bool, 20)?;
    protocol.write_bool(true)?;
    begin(protocol, TType::I08, 21)?;
    protocol.write_i8(1)?;
    begin(protocol, TType::I16, 22)?;
    protocol.write_i16(1)?;
    begin(protocol, TType::I64, 1)?;
    protocol.write_i64(1)?;
    begin(protocol, TType::Double, 24)?;
    protocol.write_double(0.5)?;
    begin(protocol, TType::Map, 25)?;
    protocol.write_map_begin(&TMapIdentifier::new(TType::String, TType::Struct, 1))?;
    protocol.write_string("key")?;
    put(protocol, 1, b"within")?;
    protocol.write_field_stop()?;
    begin(protocol, TType::List, 26)?;
    protocol.write_list_begin(&TListIdentifier::new(TType::I32, 2))?;
    protocol.write_i32(1)?;
    protocol.write_i32(2)
}

#[test]
fn what_thrift_writes_is_read() {
    for (is_strict, kind) in [(true, TMessageType::Call), (false, TMessageType::Call)] {
        let service = Service::new(StoringHandler::default(), Limits::default());
        let messages: [&[u8]; 4] = [b"one", b"\0\xff\xfe", b"", &[b'x'; 70_000]];
        let frame = written("Log", kind, is_strict, |protocol| {
            put_unknown(protocol)?;
            begin(protocol, TType::List, 1)?;
            let count = messages.len() as i32;
            protocol.write_list_begin(&TListIdentifier::new(TType::Struct, count))?;
            for message in messages {
                // The fields in the opposite order.
                put(protocol, 2, message)?;
                put_unknown(protocol)?;
                put(protocol, 1, b"category")?;
                protocol.write_field_stop()?;
            }
            put_unknown(protocol)
        });
        answer(&service, &frame);
        let kept = service.handler().entries.lock().expect("no panic");
        let expected = messages.map(|message| (b"category".to_vec(), message.to_vec()));
        assert_eq!(kept[..], expected);
    }
}

/// A `Log` call without a list, or with a list of another type, counts as empty. An entry without
/// category and message is accepted.
#[test]
fn what_is_missing_is_empty() {
    let check = |expected: usize, arguments: fn(&mut dyn TOutputProtocol) -> thrift::Result<()>| {
        let service = Service::new(StoringHandler::default(), Limits::default());
        answer(&service, &written("Log", TMessageType::Call, true, arguments));
        assert_eq!(service.handler().entries.lock().expect("no panic").len(), expected);
    };
    check(0, |_| Ok(()));
    check(0, |protocol| put(protocol, 1, b"no list"));
    check(0, |protocol| {
        begin(protocol, TType::List, 1)?;
        protocol.write_list_begin(&TListIdentifier::new(TType::I16, 1))?;
        protocol.write_i16(7)
    });
    check(1, |protocol| {
        begin(protocol, TType::List, 1)?;
        protocol.write_list_begin(&TListIdentifier::new(TType::Struct, 1))?;
        protocol.write_field_stop()
    });
}

/// Reads a reply with Thrift's library; `read` reads the result.
fn reading<R>(
    reply: &[u8],
    name: &str,
    read: impl FnOnce(&mut dyn TInputProtocol) -> thrift::Result<R>,
) -> R {
    let mut protocol = TBinaryInputProtocol::new(&reply[4..], true);
    let head = protocol.read_message_begin().expect("a message");
    assert_eq!((head.name.as_str(), head.sequence_number), (name, 9));
    assert_eq!(head.message_type, TMessageType::Reply);
    let field = protocol.read_field_begin().expect("a field");
    assert_eq!(field.id, Some(0));
    let result = read(&mut protocol).expect("a result");
    let end = protocol.read_field_begin().expect("the end");
    assert_eq!(end.field_type, TType::Stop);
    result
}

#[test]
fn thrift_reads_what_is_answered() {
    let service = Service::new(
        StoringHandler { is_full: true, ..StoringHandler::default() },
        Limits::default(),
    );
    let ask = |name: &str, arguments: &[&[u8]]| {
        answer(
            &service,
            &written(name, TMessageType::Call, false, |protocol| {
                for (id, argument) in (1..).zip(arguments) {
                    put(protocol, id, argument)?;
                }
                Ok(())
            }),
        )
    };
    let text = |name: &str, arguments: &[&[u8]]| {
        reading(&ask(name, arguments), name, |protocol| protocol.read_string())
    };
    let number = |name: &str, arguments: &[&[u8]]| {
        reading(&ask(name, arguments), name, |protocol| protocol.read_i64())
    };
    assert_eq!(reading(&ask("Log", &[]), "Log", |protocol| protocol.read_i32()), 1);
    assert_eq!(reading(&ask("getStatus", &[]), "getStatus", |protocol| protocol.read_i32()), 5);
    assert_eq!(text("getStatusDetails", &[]), "why");
    assert_eq!((text("getName", &[]), text("getVersion", &[])), ("Scribe".into(), "2.2".into()));
    assert_eq!(text("getCpuProfile", &[]), "");
    assert_eq!(number("getCounter", &[b"a:received good"]), 1 << 40);
    assert_eq!(number("getCounter", &[b"\xff"]), 0);
    assert!(number("aliveSince", &[]) > 1_700_000_000);
    let counters = reading(&ask("getCounters", &[]), "getCounters", |protocol| {
        let map = protocol.read_map_begin()?;
        let one = |_| Ok((protocol.read_string()?, protocol.read_i64()?));
        (0..map.size).map(one).collect::<thrift::Result<Vec<_>>>()
    });
    assert_eq!(counters, [("a:received good".to_owned(), 1 << 40), ("b".to_owned(), -1)]);
    assert_eq!(text("getOption", &[b"k"]), "");
    let nothing = ask("setOption", &[b"k", b"v"]);
    let mut protocol = TBinaryInputProtocol::new(&nothing[4..], true);
    protocol.read_message_begin().expect("a message");
    assert_eq!(protocol.read_field_begin().expect("the end").field_type, TType::Stop);
    assert_eq!(text("getOption", &[b"k"]), "v");
    let options = reading(&ask("getOptions", &[]), "getOptions", |protocol| {
        protocol.read_map_begin()?;
        Ok((protocol.read_string()?, protocol.read_string()?))
    });
    assert_eq!(options, ("k".to_owned(), "v".to_owned()));
}

/// `reinitialize` and `shutdown` get no reply: old clients send them as calls, today's clients as
/// one-way calls, and neither client waits. Other methods get no reply to a one-way call.
#[test]
fn what_is_one_way_is_never_answered() {
    for kind in [TMessageType::Call, TMessageType::OneWay] {
        let service = Service::new(StoringHandler::default(), Limits::default());
        for name in ["reinitialize", "shutdown"] {
            assert!(answer(&service, &written(name, kind, true, |_| Ok(()))).is_empty());
        }
        let told = service.handler().control_requests.lock().expect("no panic");
        assert_eq!(told[..], ["reinitialize", "shutdown"]);
    }
    let service = Service::new(StoringHandler::default(), Limits::default());
    for name in ["getStatus", "noSuchMethod"] {
        assert!(
            answer(&service, &written(name, TMessageType::OneWay, true, |_| Ok(()))).is_empty()
        );
    }
}

fn exception(reply: &[u8]) -> (i32, String) {
    let (header, _) = Header::read(&reply[4..]).expect("a header");
    match read_reply(&reply[4..], header.name, header.sequence) {
        Ok(Answer::Exception { message, kind }) => {
            (kind, String::from_utf8(message).expect("text"))
        }
        answer => panic!("{answer:?}"),
    }
}

/// A call of an unknown method gets an exception, and the connection continues. Finagle makes such
/// a call.
#[test]
fn unknown_methods_are_exceptions() {
    let service = Service::new(StoringHandler::default(), Limits::default());
    let name = "__can__finagle__trace__v3__";
    let reply = answer(&service, &written(name, TMessageType::Call, true, put_unknown));
    assert_eq!(exception(&reply), (1, format!("there is no method {name}")));
}

/// A message that is truncated at any position, or has invalid arguments, ends the connection with
/// a fault at its position. If the header of a truncated message is complete, the reply is an
/// exception with the fault.
#[test]
fn bad_arguments_are_exceptions_with_their_byte() {
    let service =
        Service::new(StoringHandler::default(), Limits { entries_max: 2, ..Limits::default() });
    let whole = &hex(STRICT)[4..];
    let (_, arguments_at) = Header::read(whole).expect("a header");
    for cut in 0..whole.len() {
        let mut out = Vec::new();
        let ConnectionAction::Close(fault) = service.answer(&whole[..cut], from(), &mut out) else {
            panic!("{cut} bytes are enough");
        };
        assert!(fault.offset <= cut);
        assert_eq!(out.is_empty(), cut < arguments_at);
        if cut >= arguments_at {
            assert_eq!(exception(&out), (7, fault.to_string()));
        }
    }
    assert!(service.handler().entries.lock().expect("no panic").is_empty());

    let check = |bytes: &str, expected: &str| {
        let bytes = hex(&format!("80010001 00000003 4c6f67 00000000 {bytes}"));
        let mut out = Vec::new();
        let ConnectionAction::Close(fault) = service.answer(&bytes, from(), &mut out) else {
            panic!("{bytes:?} is good");
        };
        assert_eq!(fault.to_string(), expected);
    };
    check("0f 0001 0c 00000003 00 00 00 00", "byte 18: more than 2 entries");
    check("0f 0001 0c 7fffffff 00 00 00 00", "byte 18: more than 2 entries");
    check("0f 0001 0c ffffffff 00", "byte 19: a length below zero");
    check("0f 0001 08 7fffffff 00", "byte 23: the message ends within what begins here");
    check("0d 0005 0b 0b 7fffffff 00", "byte 24: the message ends within what begins here");
    check("0b 0001 7fffffff 00", "byte 18: the message ends within what begins here");
    check("05 0001 00", "byte 18: no such type: 5");
    check(&format!("{}00", "0c 0005 ".repeat(40)), "byte 114: values too deep within each other");
}

/// The options set by `setOption` use at most 64 KiB in total; further options are refused.
#[test]
fn options_are_bounded() {
    let service = Service::new(StoringHandler::default(), Limits::default());
    let value = [b'v'; 1000];
    let mut refused = 0;
    for number in 0..100_u8 {
        let frame = written("setOption", TMessageType::Call, true, |protocol| {
            put(protocol, 1, &[number])?;
            put(protocol, 2, &value)
        });
        let reply = answer(&service, &frame);
        let (header, _) = Header::read(&reply[4..]).expect("a header");
        refused += usize::from(header.kind == 3);
    }
    assert_eq!(refused, 100 - (64 << 10) / (1000 + 1 + 64));
}

//! Messages of real peers, decoded and encoded again; messages in random states; hostile fields.

use super::*;
use crate::PacketIndex;
use crate::fault::Reason;
use blkkin_ctf::clock_offsets::Measurement;
use blkkin_ctf::schema::Uuid;

/// Returns the bytes of hexadecimal text. Quoted parts are text.
fn bytes(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, part) in text.split('"').enumerate() {
        if number % 2 == 1 {
            out.extend_from_slice(part.as_bytes());
            continue;
        }
        let digits: Vec<u8> = part.bytes().filter(|byte| byte.is_ascii_hexdigit()).collect();
        for pair in digits.chunks(2) {
            let pair = std::str::from_utf8(pair).unwrap();
            out.push(u8::from_str_radix(pair, 16).unwrap());
        }
    }
    out
}

/// Checks that `bytes` decode to `command`, and that no prefix of them does.
fn check_decodes(bytes: &[u8], minor: u32, command: &Command) {
    assert_eq!(Command::decode(bytes, minor), Ok(Some((command.clone(), bytes.len()))));
    for size in 0..bytes.len() {
        assert_eq!(Command::decode(&bytes[..size], minor), Ok(None), "{size}");
    }
}

/// Checks that `bytes` decode to `command`, and `command` encodes to `bytes`.
fn check(text: &str, command: &Command) {
    let bytes = bytes(text);
    check_decodes(&bytes, MINOR, command);
    let mut out = Vec::new();
    command.encode(&mut out);
    assert_eq!(out, bytes, "{command:?}");
}

#[test]
fn commands_of_lttng_decode() {
    check(
        "0000000000000000 0000000000000008 00000005 00000000 00000002 0000000d",
        &Command::version(),
    );
    check(
        "0000000000000000 0000000000000008 00000016 00000000 0000000000000000",
        &Command::GetConfiguration,
    );
    check(
        "0000000000000000 0000000000000045 00000002 00000000
         00000003 00000006 00000001 00000000 00 00 a5f7afc792ff46719493b1899d62455f
         0000000000000000 000000006b001100 00 0000000000000000 733100 6e6f64653100 00",
        &Command::CreateSession(CreateSession {
            name: "s1".to_owned(),
            host: "node1".to_owned(),
            producer: *b"\xa5\xf7\xaf\xc7\x92\xff\x46\x71\x94\x93\xb1\x89\x9d\x62\x45\x5f",
            created_s: 0x6b00_1100,
            ..CreateSession::default()
        }),
    );
    check(
        "0000000000000000 0000000000000037 00000001 00000000
         00000006 00000011 0000000000000000 0000000000000000 0000000000000000
         \"ch0_0\" 00 \"ust/uid/0/64-bit\" 00",
        &Command::AddStream(AddStream {
            name: "ch0_0".to_owned(),
            path: "ust/uid/0/64-bit".to_owned(),
            ..AddStream::default()
        }),
    );
    check(
        "0000000000000000 0000000000000050 0000000d 00000000
         0000000000000002 0000000000000000 0000000000008000 0000000000000f60 0000012aacaef83d
         0000012aec427780 0000000000000000 0000000000000000 0000000000000001 0000000000000000",
        &Command::SendIndex(Index {
            stream: 2,
            packet: PacketIndex {
                packet_bits: 0x8000,
                content_bits: 0xf60,
                begin: 0x0000_012a_acae_f83d,
                end: 0x0000_012a_ec42_7780,
                ..PacketIndex::default()
            },
            instance: Some(1),
            packet_sequence: Some(0),
            ..Index::default()
        }),
    );
}

#[test]
fn positions_of_rotations_follow_padding_of_any_architecture() {
    let positions = vec![(0x11, 1), (0x12, 1)];
    let rotation = Command::RotateStreams(Rotation { chunk: Some(1), positions });
    let after =
        "0000000000000001 0000000000000011 0000000000000001 0000000000000012 0000000000000001";
    for (padding, size) in [("000000df624091", 0x34), ("aabbcc", 0x30), ("", 0x2d)] {
        let text = format!(
            "0000000000000000 00000000000000{size:02x} 00000012 00000000 00000002 01 {padding} {after}"
        );
        check_decodes(&bytes(&text), MINOR, &rotation);
    }
}

#[test]
fn commands_of_older_producers_decode() {
    let mut fields = b"pm4\0".to_vec();
    fields.resize(255, b'?');
    fields.extend_from_slice(b"node1\0");
    fields.resize(255 + 64, 0);
    fields.extend_from_slice(&[0, 0, 0, 9, 0, 0, 0, 0]);
    let old = [&bytes("0000000000000000 0000000000000147 00000002 00000000")[..], &fields].concat();
    let command = Command::CreateSession(CreateSession {
        name: "pm4".to_owned(),
        host: "node1".to_owned(),
        live_timer_us: 9,
        ..CreateSession::default()
    });
    check_decodes(&old, 10, &command);
    let mut fields = b"ch0_0\0".to_vec();
    fields.resize(264, 0);
    fields.extend_from_slice(b"/node1/pm4-20261120-092452/ust\0");
    fields.resize(264 + 4096 + 16, 0);
    let old = [&bytes("0000000000000000 0000000000001118 00000001 00000000")[..], &fields].concat();
    let command = Command::AddStream(AddStream {
        name: "ch0_0".to_owned(),
        path: "node1/pm4-20261120-092452/ust".to_owned(),
        ..AddStream::default()
    });
    check_decodes(&old, 4, &command);
}

#[test]
fn commands_encode_as_they_decode() {
    let metadata =
        |bytes: &[u8]| Command::SendMetadata { stream: 3, padding: 813, bytes: bytes.to_vec() };
    for command in [
        metadata(b"some"),
        metadata(b""),
        Command::StreamsSent,
        Command::ResetMetadata { stream: 4, version: 5 },
        Command::CloseStream { stream: 4, last: None },
        Command::DataPending { stream: 4, last: Some(0) },
        Command::QuiescentControl { stream: 7 },
        Command::BeginDataPending { session: 8 },
        Command::EndDataPending { session: 8 },
        Command::SendIndex(Index {
            instance: Some(0),
            packet_sequence: Some(0),
            ..Index::beacon(4, None, 1, 99)
        }),
        Command::RotateStreams(Rotation { chunk: None, positions: vec![] }),
        Command::CreateChunk(CreateChunk { id: 1, created_s: 2, name: None }),
        Command::CreateChunk(CreateChunk { id: 1, created_s: 2, name: Some("n-1".to_owned()) }),
        Command::CloseChunk { id: 0, closed_s: 1, action: None },
        Command::CloseChunk { id: 0, closed_s: 1, action: Some(ChunkAction::Complete) },
        Command::CloseChunk { id: 0, closed_s: 1, action: Some(ChunkAction::Keep) },
        Command::CloseChunk { id: 0, closed_s: 1, action: Some(ChunkAction::Delete) },
        Command::ChunkExists { id: 3 },
        Command::StartData,
        Command::Data(vec![]),
        Command::Data(vec![1, 2, 3]),
        Command::Index(Index {
            instance: Some(0),
            packet_sequence: Some(0),
            ..Index::beacon(4, None, 1, 99)
        }),
        Command::Complete { until_ns: 1_795_000_000_000_000_000 },
        Command::GetTime,
        Command::ReportClocks {
            boot: Uuid(*b"0123456789abcdef"),
            measurement: Measurement { monotonic_ns: 1, tsc: 2, reference_ns: 3, error_ns: 4 },
        },
        Command::Unknown(99),
    ] {
        let mut out = Vec::new();
        command.encode(&mut out);
        check_decodes(&out, MINOR, &command);
    }
}

#[test]
fn hostile_fields_are_refused_with_their_place() {
    let check = |text: &str, message: &str, offset: usize| {
        let fault = Command::decode(&bytes(text), MINOR).unwrap_err();
        assert_eq!((fault.message, fault.offset), (message, offset), "{fault}");
    };
    let add = "0000000000000000 0000000000000037 00000001 00000000";
    let rest = "0000000000000000 0000000000000000 0000000000000000";
    check("0000000000000000 0000000000010001 00000001 00000000", "ADD_STREAM", 8);
    check("0000000000000000 ffffffffffffffff 00000006 00000000", "SEND_METADATA", 8);
    check(
        &format!("{add} 00000006 ffffffff {rest} \"ch0_0\" 00 \"ust/uid/0/64-bit\" 00"),
        "ADD_STREAM",
        28,
    );
    check(
        &format!("{add} 00000006 00000011 {rest} \"ch0/0\" 00 \"ust/uid/0/64-bit\" 00"),
        "ADD_STREAM",
        56,
    );
    check(
        &format!("{add} 00000006 00000011 {rest} \"ch0_0\" 00 \"ust/../../../bit\" 00"),
        "ADD_STREAM",
        62,
    );
    check(
        &format!("{add} 00000006 00000012 {rest} \"ch0_0\" 00 \"ust/uid/0/64-bit\" 00"),
        "ADD_STREAM",
        62,
    );
    let rotate = "0000000000000000 0000000000000014 00000012 00000000";
    check(&format!("{rotate} 10000000 01 {} {rest}", "00".repeat(7)), "ROTATE_STREAMS", 28);
    let large = DataHeader { stream: 1, net_sequence: 0, data_size: u32::MAX, padding_size: 1 };
    let mut out = Vec::new();
    large.encode(&mut out);
    assert!(matches!(DataHeader::decode(&out).unwrap_err().reason, Reason::Size { .. }));
}

#[test]
fn packets_have_a_header() {
    let header = "0000000000000000 0000000000000002 0000000000000000 000001ec 00000e14";
    let expected = DataHeader { stream: 2, net_sequence: 0, data_size: 492, padding_size: 3604 };
    assert_eq!(DataHeader::decode(&bytes(header)), Ok(Some(expected)));
    assert_eq!(DataHeader::decode(&bytes(header)[..31]), Ok(None));
    let mut out = Vec::new();
    expected.encode(&mut out);
    assert_eq!(out, bytes(header));
}

#[test]
fn replies_of_lttng_decode() {
    let check = |kind: CommandKind, text: &str, reply: &Reply| {
        let bytes = bytes(text);
        assert_eq!(Reply::decode(kind, &bytes), Ok(Some((reply.clone(), bytes.len()))));
        for size in 0..bytes.len() {
            assert_eq!(Reply::decode(kind, &bytes[..size]), Ok(None), "{size}");
        }
        let mut out = Vec::new();
        reply.encode(&mut out);
        assert_eq!(out, bytes, "{reply:?}");
    };
    check(CommandKind::Version, "00000002 0000000d", &Reply::Version { major: 2, minor: 13 });
    check(CommandKind::GetConfiguration, "0000000a 0000000000000001", &Reply::Configuration(1));
    check(
        CommandKind::CreateSession,
        "0000000000000001 0000000a 00000019 \"node1/s1-20261120-092104\" 00",
        &Reply::Session(Created {
            handle: 1,
            code: code::OK,
            path: Some("node1/s1-20261120-092104".to_owned()),
        }),
    );
    check(
        CommandKind::AddStream,
        "0000000000000001 0000000a",
        &Reply::Stream { handle: 1, code: code::OK },
    );
    check(
        CommandKind::CloseChunk,
        "0000000a 0000001a \"node1/rot-20261120-093544\" 00",
        &Reply::ChunkClosed { code: code::OK, path: "node1/rot-20261120-093544".to_owned() },
    );
    check(
        CommandKind::ChunkExists,
        "0000000a 00",
        &Reply::ChunkExists { code: code::OK, exists: false },
    );
    check(CommandKind::GetTime, "0000000000000102", &Reply::Time(258));
    check(CommandKind::Other, "0000000b", &Reply::Code(code::UNKNOWN));
}

//! Tests of packet headers, packet contexts and event headers: their values, their errors, and
//! their effects on the machine's clock.

use super::header::Header;
use super::*;

/// Makes metadata with `context` as packet context and `header` as event header. The types `u8` to
/// `u64` are integers, and `t8` to `t64` are integers of the clock. Events 0 and 3 have one field.
fn metadata(context: &str, header: &str) -> String {
    let mut types = String::new();
    for size in [8, 16, 32, 64] {
        let integer = format!("integer {{ size = {size}; align = 8;");
        let _ = writeln!(types, "typealias {integer} }} := u{size};");
        let _ = writeln!(types, "typealias {integer} map = clock.c.value; }} := t{size};");
    }
    format!(
        "/* CTF 1.8 */ trace {{ major = 1; minor = 8; byte_order = le; }};
        clock {{ name = c; }}; {types}
        stream {{ packet.context := struct {{ {context} }}; event.header := struct {{ {header} }} align(8); }};
        event {{ name = zero; id = 0; fields := struct {{ u8 x; }}; }};
        event {{ name = three; id = 3; fields := struct {{ u8 x; }}; }};"
    )
}

/// Checks the clock after the packet's start and after each event. Each event has a payload of one
/// byte.
#[track_caller]
fn check_clock(context: &str, header: &str, before: u64, hex: &str, expected: &[u64]) {
    let decoder = decoder(&metadata(context, header));
    let bytes = bytes(hex);
    let mut machine = decoder.machine();
    machine.clock = before;
    let view = View::whole(&bytes);
    let packet = decoder.packet(view, &mut machine).expect("a packet");
    let mut clocks = vec![machine.clock];
    let mut position = packet.first_event;
    while position < view.end_bits() {
        (_, position) = event(&decoder, view, position, &mut machine).expect("an event");
        clocks.push(machine.clock);
    }
    assert_eq!(clocks, expected);
}

#[test]
fn clock_is_set_by_the_packet_and_advanced_by_events() {
    check_clock(
        "t64 timestamp_begin;",
        "u8 id; t64 timestamp;",
        0,
        "0500000000000000  00 0700000000000000 aa  03 0900000000000000 aa",
        &[5, 7, 9],
    );
    // The time has 16 bits of a larger clock. A smaller value means a wrap, an equal one does not.
    check_clock(
        "t64 timestamp_begin;",
        "u8 id; t16 timestamp;",
        0,
        "fcff010000000000  00 feff aa  00 0100 aa  00 0100 aa  00 0000 aa",
        &[0x1fffc, 0x1fffe, 0x20001, 0x20001, 0x30000],
    );
    // A time of 64 bits may decrease.
    check_clock(
        "t64 timestamp_begin;",
        "u8 id; t64 timestamp;",
        0,
        "0900000000000000  00 0700000000000000 aa",
        &[9, 7],
    );
    // In a packet without a time, the clock continues.
    check_clock(
        "u8 n;",
        "u8 id; t8 timestamp;",
        0x1f0,
        "07  00 f1 aa  00 02 aa",
        &[0x1f0, 0x1f1, 0x202],
    );
    // The time of the packet's end does not set the clock.
    check_clock(
        "t64 timestamp_begin; t64 timestamp_end;",
        "u8 id; t8 timestamp;",
        0,
        "0100000000000000 ff00000000000000  00 02 aa",
        &[1, 2],
    );
}

const LARGE: &str = "enum : u16 { compact = 0 ... 65534, extended = 65535 } id;
    variant <id> { struct { t32 timestamp; } compact; struct { u32 id; t64 timestamp; } extended; } v;";
const COMPACT: &str = "enum : integer { size = 5; align = 1; } { compact = 0 ... 30, extended = 31 } id;
    variant <id> { struct { integer { size = 27; align = 1; map = clock.c.value; } timestamp; } compact;
        struct { u32 id; t64 timestamp; } extended; } v;";

#[test]
fn headers_of_lttng() {
    // A short header, an extended one and a short one, at which the clock wraps.
    check_clock(
        "t64 timestamp_begin;",
        LARGE,
        0,
        "0100000000000000  0300 05000000 aa  ffff 03000000 0900000001000000 aa  0000 08000000 aa",
        &[1, 5, 0x1_0000_0009, 0x2_0000_0008],
    );
    // Id 0 in the low 5 bits, with time 5; then id 31 in a byte of its own.
    check_clock(
        "t64 timestamp_begin;",
        COMPACT,
        0,
        "0100000000000000  a0000000 aa  1f 03000000 0900000001000000 aa  03010000 aa",
        &[1, 5, 0x1_0000_0009, 0x1_0800_0008],
    );
}

/// Recognised headers give the same result as the general program. A reference from the payload
/// prevents the recognition of a header.
#[test]
fn recognised_headers_read_as_others_do() {
    for (header, hex) in [
        (LARGE, "0300 05000000 aa  ffff 03000000 0900000001000000 aa"),
        (COMPACT, "a0000000 aa  1f 03000000 0900000001000000 aa"),
    ] {
        let metadata = metadata("t64 timestamp_begin;", header);
        let recognised = decoder(&metadata);
        let length = "fields := struct { u8 x; u8 y[stream.event.header.id]; }; };";
        let other = format!("{metadata} event {{ name = five; id = 5; {length}");
        let other = decoder(&other);
        assert!(!matches!(recognised.streams[0].event_header, Header::Program(_)));
        assert!(matches!(other.streams[0].event_header, Header::Program(_)));
        let bytes = bytes(hex);
        let (mut one, mut two) = (recognised.machine(), other.machine());
        let mut position = 0;
        while position < bytes.len() as u64 * 8 {
            let view = View::whole(&bytes);
            let expected = event(&other, view, position, &mut two).expect("an event");
            let got = event(&recognised, view, position, &mut one).expect("an event");
            assert_eq!((&got, one.clock), (&expected, two.clock));
            position = got.1;
        }
    }
}

const SIZES: &str = "u32 content_size; u32 packet_size;";

/// Decodes a packet whose packet context has the fields `context`. Returns the packet, or the kind
/// of its error.
fn packet(context: &str, hex: &str) -> Result<Packet, DecodeErrorKind> {
    let decoder = decoder(&metadata(context, "u8 id;"));
    match decoder.packet(View::whole(&bytes(hex)), &mut decoder.machine()) {
        Ok(packet) => Ok(packet),
        Err(Stop::Invalid(error)) => Err(error.kind),
        Err(Stop::Incomplete) => panic!("more bytes are wanted"),
    }
}

#[test]
fn sizes_of_packets() {
    let sizes = |context, hex| packet(context, hex).map(|p| (p.content_bits, p.total_bits));
    assert_eq!(sizes(SIZES, "50000000 60000000"), Ok((Some(80), Some(96))));
    assert_eq!(sizes("u32 packet_size;", "60000000"), Ok((Some(96), Some(96))));
    assert_eq!(sizes("u32 content_size;", "60000000"), Ok((Some(96), Some(96))));
    assert_eq!(sizes("u8 n;", "60"), Ok((None, None)));
    assert_eq!(
        sizes(SIZES, "61000000 60000000"),
        Err(DecodeErrorKind::ContentBeyondPacket { content: 97, total: 96 })
    );
    assert_eq!(
        sizes(SIZES, "3f000000 60000000"),
        Err(DecodeErrorKind::ContentBeforeEvents { content: 63, header: 64 })
    );
    assert_eq!(sizes(SIZES, "50000000 61000000"), Err(DecodeErrorKind::PacketSize(97)));
}

#[test]
fn roles_of_the_packet_context() {
    let context =
        "u64 packet_seq_num; u16 events_discarded; t64 timestamp_begin; t64 timestamp_end;";
    let got = packet(context, "0200000000000000 0300 0400000000000000 0500000000000000")
        .expect("a packet");
    assert_eq!((got.seq, got.discarded, got.discarded_bits), (Some(2), Some(3), 16));
    assert_eq!((got.begin, got.end), (Some(4), Some(5)));
    assert_eq!((got.stream, got.instance, got.first_event), (0, None, 26 * 8));
}

#[test]
fn packet_header() {
    let metadata = r#"/* CTF 1.8 */
        typealias integer { size = 8; align = 8; } := u8;
        typealias integer { size = 32; align = 8; } := u32;
        trace { major = 1; minor = 8; byte_order = le; uuid = "00010203-0405-0607-0809-0a0b0c0d0e0f";
            packet.header := struct { u32 magic; u8 uuid[16]; u8 stream_id; u8 stream_instance_id; }; };
        stream { id = 4; event.header := struct { u8 id; }; };
        stream { id = 7; event.header := struct { u8 id; }; };
        event { name = e; id = 0; stream_id = 7; };"#;
    let decoder = decoder(metadata);
    let packet = |hex: &str| decoder.packet(View::whole(&bytes(hex)), &mut decoder.machine());
    let kind = |hex: &str| match packet(hex) {
        Err(Stop::Invalid(error)) => error.kind,
        other => panic!("{other:?}"),
    };
    let uuid = "000102030405060708090a0b0c0d0e0f";
    let good = packet(&format!("c11ffcc1 {uuid} 07 09")).expect("a packet");
    assert_eq!((good.stream, good.instance), (1, Some(9)));
    assert_eq!(kind(&format!("c21ffcc1 {uuid} 07 09")), DecodeErrorKind::Magic(0xc1fc_1fc2));
    assert_eq!(kind(&format!("c11ffcc1 {uuid} 05 09")), DecodeErrorKind::UnknownStream(5));
    let other = "ff".repeat(16);
    let foreign = packet(&format!("c11ffcc1 {other} 07 09")).expect("a packet");
    assert_eq!(good.foreign_uuid, None);
    assert_eq!(foreign.foreign_uuid, Some(crate::schema::Uuid([255; 16])));
    assert_eq!(packet(&format!("c11ffcc1 {uuid} 07")), Err(Stop::Incomplete));
}

#[test]
fn events_that_nobody_described() {
    let decoder = decoder(&metadata("u8 n;", "u8 id;"));
    let result = event(&decoder, View::whole(&[2, 1]), 0, &mut decoder.machine());
    let Err(Stop::Invalid(error)) = result else { panic!("{result:?}") };
    assert_eq!(error.kind, DecodeErrorKind::UnknownEvent(2));
}

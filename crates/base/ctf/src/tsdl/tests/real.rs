//! Tests of metadata in the form that LTTng writes.

use super::{parse_and_write, show};
use crate::metadata;
use crate::schema::{ByteOrder, Scope, Uuid};

const LTTNG: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 16; align = 8; signed = false; } := uint16_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
typealias integer { size = 64; align = 8; signed = false; } := unsigned long;
typealias integer { size = 5; align = 1; signed = false; } := uint5_t;
trace {
    major = 1; minor = 8; byte_order = le;
    uuid = "c824ab8a-ad4a-47ca-83be-357379637a5e";
    packet.header := struct {
        uint32_t magic; uint8_t  uuid[16]; uint32_t stream_id; uint64_t stream_instance_id;
    };
};
env { domain = "ust"; tracer_name = "lttng-ust"; tracer_major = 2; };
clock {
    name = "monotonic"; freq = 1000000000; /* Frequency, in Hz */
    offset = 1795242405560785323;
};
typealias integer {
    size = 27; align = 1; signed = false; map = clock.monotonic.value;
} := uint27_clock_monotonic_t;
typealias integer {
    size = 64; align = 8; signed = false; map = clock.monotonic.value;
} := uint64_clock_monotonic_t;
struct packet_context {
    uint64_clock_monotonic_t timestamp_begin;
    uint64_clock_monotonic_t timestamp_end;
    uint64_t content_size;
    uint64_t packet_size;
    uint64_t packet_seq_num;
    unsigned long events_discarded;
    uint32_t cpu_id;
};
struct event_header_compact {
    enum : uint5_t { compact = 0 ... 30, extended = 31 } id;
    variant <id> {
        struct { uint27_clock_monotonic_t timestamp; } compact;
        struct { uint32_t id; uint64_clock_monotonic_t timestamp; } extended;
    } v;
} align(8);
stream {
    id = 0;
    event.header := struct event_header_compact;
    packet.context := struct packet_context;
    event.context := struct {
        integer { size = 32; align = 8; signed = 1; encoding = none; base = 10; } _vpid;
        integer { size = 8; align = 8; signed = 1; encoding = UTF8; base = 10; } _procname[17];
    };
};
event {
    name = "demo:hello"; id = 0; stream_id = 0; loglevel = 6;
    model.emf.uri = "http://example.com/x?a=1";
    fields := struct {
        integer { size = 64; align = 8; signed = 0; encoding = none; base = 16; } _event;
        string _who;
        integer { size = 64; align = 8; signed = 0; encoding = none; base = 10; } __text_length;
        integer { size = 8; align = 8; signed = 1; encoding = UTF8; base = 10; } _text[ __text_length ];
        integer { size = 8; align = 8; signed = 0; encoding = none; base = 10; } __seq_length;
        integer { size = 32; align = 8; signed = 1; encoding = none; base = 10; } _seq[ __seq_length ];
        floating_point { exp_dig = 8; mant_dig = 24; align = 8; } _f;
        integer { size = 16; align = 8; signed = 0; encoding = none; base = 10; byte_order = be; } _net;
        enum : integer { size = 32; align = 8; signed = 1; encoding = none; base = 10; } {
            "RED" = 0,
            "GREEN" = 1 ... 5,
            "BLUE",
        } _color;
    };
};
event { name = "demo:empty"; id = 1; stream_id = 0; loglevel = 13; fields := struct { }; };
"#;

#[test]
fn lttng() {
    let schema = parse_and_write(LTTNG).unwrap();
    let clock = &schema.clocks[0];
    assert_eq!((clock.offset_seconds, clock.offset_cycles), (1_795_242_405, 560_785_323));
    assert_eq!(schema.trace.env_str("domain"), Some("ust"));
    let stream = &schema.streams[0];
    let event = &stream.events[0];
    let scopes = [
        (Scope::PacketHeader, &schema.trace.packet_header),
        (Scope::PacketContext, &stream.packet_context),
        (Scope::EventHeader, &stream.event_header),
        (Scope::CommonContext, &stream.common_context),
        (Scope::Payload, &event.payload),
    ];
    let shown: Vec<String> = scopes
        .iter()
        .map(|(scope, class)| format!("{scope:?} {}", show(class.as_ref().unwrap())))
        .collect();
    assert_eq!(
        shown,
        [
            "PacketHeader {magic: u32!Magic, uuid: [16]byte!Uuid, stream_id: u32!StreamClassId, \
             stream_instance_id: u64!StreamInstanceId}",
            "PacketContext {timestamp_begin: u64#0!Timestamp, timestamp_end: u64#0!PacketEnd, \
             content_size: u64!ContentSize, packet_size: u64!PacketSize, \
             packet_seq_num: u64!PacketSeqNum, events_discarded: u64!EventsDiscarded, cpu_id: u32}",
            "EventHeader {id: u5@1{compact=0..30 extended=31}!EventClassId, \
             v: <eh.id>(compact=0..30: {timestamp: u27@1#0!Timestamp}, \
             extended=31: {id: u32!EventClassId, timestamp: u64#0!Timestamp})}@8",
            "CommonContext {vpid: i32, procname: [17]Utf8}",
            "Payload {event: u64x, who: string(Utf8), _text_length: u64, \
             text: [ef._text_length]Utf8, _seq_length: u8, seq: [ef._seq_length]i32, f: f32(8), \
             net: u16be, color: i32{RED=0 GREEN=1..5 BLUE=6}}",
        ]
    );
}

#[test]
fn packets_and_plain_text_mean_the_same() {
    let plain = metadata::parse(LTTNG.as_bytes());
    assert!(plain.is_ok());
    for byte_order in [ByteOrder::Little, ByteOrder::Big] {
        let packed = metadata::pack(LTTNG, Uuid([1; 16]), byte_order);
        assert_eq!(metadata::parse(&packed), plain);
    }
}

/// Each damaged text gives a schema or an error, without a panic.
#[test]
fn damaged_text_is_no_reason_to_panic() {
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below
    };
    const PIECES: [&str; 16] = [
        "{",
        "}",
        "[",
        "]",
        ";",
        "variant <id>",
        "struct",
        "enum",
        "\\",
        "\"",
        "0",
        "_",
        ":=",
        "-1",
        "typealias",
        "é",
    ];
    for _ in 0..2000 {
        let mut text = LTTNG.to_owned();
        for _ in 0..=random(3) {
            let mut start = random(text.len());
            while !text.is_char_boundary(start) {
                start -= 1;
            }
            let mut end = (start + random(12)).min(text.len());
            while !text.is_char_boundary(end) {
                end += 1;
            }
            text.replace_range(start..end, PIECES[random(PIECES.len())]);
        }
        // Writing may fail, but written text can be parsed.
        if let Ok(schema) = super::parse(&text)
            && let Ok(written) = super::write(&schema)
        {
            assert_eq!(super::parse(&written), Ok(schema), "{text}");
        }
    }
}

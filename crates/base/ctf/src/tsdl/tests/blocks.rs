//! Tests of trace, environment, clocks, streams and events, and of the roles of fields by name.

use super::{TRACE, located, parse, parse_and_write, show};
use crate::schema::{ByteOrder, ClockOrigin, EnvValue, FieldClass, Schema, Uuid, Version};

const TYPES: &str =
    "typealias integer { size = 8; } := u8; typealias integer { size = 32; } := u32;
     typealias integer { size = 64; } := u64;";

#[track_caller]
fn schema(text: &str) -> Schema {
    parse_and_write(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Checks the error for `text` after the trace block, which is on line 1.
#[track_caller]
fn check_error(text: &str, expected: &str) {
    assert_eq!(parse_and_write(&format!("{TRACE}\n{text}")).unwrap_err().to_string(), expected);
}

fn show_all(class: &Option<FieldClass>) -> String {
    class.as_ref().map_or("none".to_owned(), show)
}

#[test]
fn trace_blocks() {
    let text = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = be; unknown = 1; \
                uuid = \"2a6422d0-6cee-11e0-8c08-cb07d7b3a564\"; };";
    let schema = schema(text);
    assert_eq!(schema.version, Version::Ctf1);
    assert_eq!(schema.trace.byte_order, ByteOrder::Big);
    let uuid: Uuid = "2a6422d0-6cee-11e0-8c08-cb07d7b3a564".parse().unwrap();
    assert_eq!(schema.trace.uuid, Some(uuid));
    assert_eq!((schema.trace.packet_header, schema.streams.len()), (None, 0));
}

#[test]
fn trace_block_errors() {
    let check = |text: &str, expected: &str| {
        assert_eq!(parse_and_write(text).unwrap_err().to_string(), expected)
    };
    check("", "line 1, column 1 (offset 0): there is no `trace` block");
    check("\n ", "line 2, column 2 (offset 2): there is no `trace` block");
    check(
        "trace { major = 1; minor = 8; };",
        "line 1, column 1 (offset 0): `trace` block without `byte_order`",
    );
    check(
        "trace { byte_order = native; };",
        "line 1, column 22 (offset 21): a trace's byte order is be, le or network",
    );
    check(
        "trace { byte_order = le; minor = 8; };",
        "line 1, column 1 (offset 0): `trace` block without `major`",
    );
    check(
        "trace { byte_order = le; major = 2; };",
        "line 1, column 34 (offset 33): `major` is 2, expected 1: only CTF 1.8 is written in TSDL",
    );
    check(
        "trace { byte_order = le; minor = 7; };",
        "line 1, column 34 (offset 33): `minor` is 7, expected 8: only CTF 1.8 is written in TSDL",
    );
    check(
        "trace { byte_order = le; uuid = \"abc\"; };",
        "line 1, column 33 (offset 32): `uuid` is `abc`, expected a UUID such as \
         \"2a6422d0-…-cb07d7b3a564\"",
    );
    check(
        "trace { byte_order = le; packet.header := string; };",
        "line 1, column 43 (offset 42): trace.packet.header is a string, not a structure",
    );
    check(
        "trace { byte_order = le; packet.header = struct { }; };",
        "line 1, column 49 (offset 48): expected `;`, found `{`",
    );
    check(
        "trace { byte_order = le; packet.header : struct { }; };",
        "line 1, column 40 (offset 39): expected `=`, found `:` (a type is assigned with `:=`)",
    );
    check("trace { byte_order = le;", "line 1, column 7 (offset 6): `{` without its `}`");
    check(
        "trace { byte_order = le; }",
        "line 1, column 27 (offset 26): expected `;`, found the end of the metadata",
    );
    check("event", "line 1, column 1 (offset 0): expected a type, found `event`");
    check(
        "u8 x;",
        "line 1, column 4 (offset 3): expected `;`, found `x` \
         (fields are declared in structures, types with `typedef` or `typealias`)",
    );
    check_error(TRACE, "line 2, column 1 (offset 50): 2nd `trace` block");
}

#[test]
fn environments() {
    let text = format!(
        "{TRACE} env {{ a = 1; b = -2; c = \"x\\ty\"; domain = ust; int = 7; \"two words\" = 3; }};
         env {{ d.e = f.g; a = 0xffffffffffffffff; }};"
    );
    let text_of = |text: &str| EnvValue::Str(text.to_owned());
    let expected = [
        ("a", EnvValue::Int(-1)),
        ("b", EnvValue::Int(-2)),
        ("c", text_of("x\ty")),
        ("domain", text_of("ust")),
        ("int", EnvValue::Int(7)),
        ("two words", EnvValue::Int(3)),
        ("d.e", text_of("f.g")),
    ];
    assert_eq!(schema(&text).trace.env, expected.map(|(key, value)| (key.to_owned(), value)));
    check_error(
        "env { a = -0xffffffffffffffff; };",
        "line 2, column 11 (offset 60): `a` is -18446744073709551615, expected an integer of 64 \
         bits",
    );
}

/// Checks frequency, seconds, cycles and origin of a clock.
#[track_caller]
fn check_clock(attributes: &str, expected: (u64, i64, i64, ClockOrigin)) {
    let schema = schema(&format!("{TRACE} clock {{ name = c; {attributes} }};"));
    let clock = &schema.clocks[0];
    let found = (clock.frequency, clock.offset_seconds, clock.offset_cycles, clock.origin.clone());
    assert_eq!(found, expected);
}

#[test]
fn clocks() {
    use ClockOrigin::{UnixEpoch, Unknown};
    check_clock("", (1_000_000_000, 0, 0, Unknown));
    check_clock("freq = 10; offset_s = 5; offset = 7; unknown = x;", (10, 5, 7, Unknown));
    check_clock("absolute = true;", (1_000_000_000, 0, 0, UnixEpoch));
    check_clock("absolute = FALSE;", (1_000_000_000, 0, 0, Unknown));
    // Whole seconds move from the cycles to the seconds.
    check_clock("freq = 10; offset_s = 5; offset = 27;", (10, 7, 7, Unknown));
    check_clock("freq = 10; offset_s = -5; offset = -1;", (10, -6, 9, Unknown));
    check_clock("freq = 10; offset = -20;", (10, -2, 0, Unknown));
    check_clock(
        "offset = 18446744073709551615;",
        (1_000_000_000, 18_446_744_073, 709_551_615, Unknown),
    );
    let text = format!(
        "{TRACE} clock {{ name = \"c\"; uuid = \"dfc575eb-59bc-4c85-b9d4-fe758d6a569e\";
         description = \"a clock\"; precision = 3; }};"
    );
    let clock = &schema(&text).clocks[0];
    assert_eq!(clock.uuid.unwrap().to_string(), "dfc575eb-59bc-4c85-b9d4-fe758d6a569e");
    assert_eq!((clock.description.as_deref(), clock.precision), (Some("a clock"), Some(3)));
}

#[test]
fn clock_of_lttng_counts_from_the_epoch() {
    let origin = |tracer: &str, clock: &str| {
        let env = format!("env {{ tracer_name = \"{tracer}\"; }};");
        let mut schema = schema(&format!("{TRACE} {env} clock {{ name = {clock}; }};"));
        schema.clocks.remove(0).origin
    };
    assert_eq!(origin("lttng-ust", "monotonic"), ClockOrigin::UnixEpoch);
    assert_eq!(origin("lttng-modules", "monotonic"), ClockOrigin::UnixEpoch);
    assert_eq!(origin("lttng-ust", "other"), ClockOrigin::Unknown);
    assert_eq!(origin("barectf", "monotonic"), ClockOrigin::Unknown);
}

#[test]
fn clock_errors() {
    check_error("clock { };", "line 2, column 1 (offset 50): `clock` block without `name`");
    check_error(
        "clock { name = c; freq = 0; };",
        "line 2, column 26 (offset 75): `freq` is 0, expected cycles a second",
    );
    check_error(
        "clock { name = c; }; clock { name = c; };",
        "line 2, column 22 (offset 71): 2nd clock named `c`",
    );
    check_error(
        "clock { name = c; freq = 1; offset = 18446744073709551615; };",
        "line 2, column 1 (offset 50): clock's offset needs more than 64 bits",
    );
    check_error(
        "clock { name = mono; }; typealias integer { size = 8; map = clock.mona.value; } := x;",
        "line 2, column 61 (offset 110): there is no clock `mona` (did you mean `mono`?)",
    );
}

#[test]
fn streams_and_events_find_each_other() {
    let header = "packet.header := struct { u8 stream_id; };";
    let text = format!(
        "{TYPES} trace {{ major = 1; minor = 8; byte_order = le; {header} }};
         event {{ name = a; id = 7; stream_id = 2; loglevel = 6; model.emf.uri = \"http://x\"; }};
         event {{ name = \"b:c\"; id = 3; stream_id = 0x1; context := struct {{ u8 x; }}; }};
         event {{ name = d; id = 8; stream_id = 2; fields := struct {{ }}; }};
         stream {{ id = 1; }}; callsite {{ name = a; func = \"f\"; }};
         stream {{ id = 2; event.header := struct {{ u8 id; }}; unknown = 3; }};"
    );
    let schema = schema(&text);
    let shown: Vec<String> = schema
        .streams
        .iter()
        .flat_map(|stream| stream.events.iter().map(move |event| (stream.id, event)))
        .map(|(stream, event)| {
            let name = event.name.as_deref().unwrap_or("?");
            let context = show_all(&event.specific_context);
            format!("{stream}/{}: {name} {context} {}", event.id, show_all(&event.payload))
        })
        .collect();
    assert_eq!(shown, ["1/3: b:c {x: u8} none", "2/7: a none none", "2/8: d none {}"]);
    let event = &schema.streams[1].events[0];
    assert_eq!((event.log_level, event.emf_uri.as_deref()), (Some(6), Some("http://x")));
}

#[test]
fn ids_may_be_missing_once() {
    let ids = |text: &str| {
        let schema = schema(&format!("{TRACE} {text}"));
        let streams = schema.streams.iter();
        let ids: Vec<_> = streams
            .map(|stream| (stream.id, stream.events.iter().map(|event| event.id).collect()))
            .collect();
        ids
    };
    assert_eq!(ids("event { name = a; };"), [(0, vec![0])]);
    assert_eq!(ids("stream { }; event { name = a; };"), [(0, vec![0])]);
    assert_eq!(ids("stream { id = 5; }; event { id = 4; };"), [(5, vec![4])]);
    assert_eq!(ids("stream { };"), [(0, vec![])]);
    let check = |text: &str, expected: &str| {
        let error = parse_and_write(&format!("{TRACE}\n{text}")).unwrap_err();
        assert_eq!(located(error).split_once(' ').unwrap().1, expected);
    };
    check(
        "stream { }; stream { };",
        "`stream` block without `id` (only a trace's first stream can do without)",
    );
    check("stream { id = 1; }; stream { id = 1; };", "2nd stream with id 1");
    check(
        "stream { id = 1; }; stream { id = 2; };",
        "packet header without `stream_id` for 2 streams",
    );
    check(
        "stream { id = 1; }; stream { id = 2; }; event { };",
        "`event` block without `stream_id` (the trace has 2 streams)",
    );
    check("stream { id = 1; }; event { stream_id = 3; };", "there is no stream 3");
    check("event { stream_id = 0; };", "there is no stream 0");
    check(
        "event { }; event { };",
        "`event` block without `id` (only a stream's first event can do without)",
    );
    check("event { id = 1; }; event { id = 1; };", "2nd event with id 1 in stream 0");
    check(
        "event { id = 1; }; event { id = 2; };",
        "stream's event header without `id` for 2 events",
    );
    check("event { id = 1; id = 2; };", "`id` for the 2nd time");
    check("event { fields := struct { }; fields := struct { }; };", "`fields` for the 2nd time");
    check("event { id = x; };", "`id` is `x`, expected an unsigned integer");
    check("event { name = 3; };", "`name` is 3, expected a string");
}

/// Makes the text of a trace with a clock and one stream, with the given packet header, packet
/// context and event header.
fn one_stream(header: &str, context: &str, event_header: &str) -> String {
    format!(
        "{TYPES} clock {{ name = c; }}; typealias integer {{ size = 32; map = clock.c.value; }} := ts;
         trace {{ major = 1; minor = 8; byte_order = le; packet.header := struct {{ {header} }}; }};
         stream {{ packet.context := struct {{ {context} }};
         event.header := struct {{ {event_header} }}; }};"
    )
}

#[track_caller]
fn check_parts(header: &str, context: &str, event_header: &str, expected: &[&str; 3]) {
    let schema = schema(&one_stream(header, context, event_header));
    let stream = &schema.streams[0];
    let parts = [&schema.trace.packet_header, &stream.packet_context, &stream.event_header];
    assert_eq!(parts.map(show_all), expected.map(|part| format!("{{{part}}}")));
}

#[test]
fn names_give_fields_their_roles() {
    check_parts(
        "u32 magic; u8 uuid[16]; u32 stream_id; u64 stream_instance_id; u8 other;",
        "ts timestamp_begin; ts timestamp_end; u64 content_size; u64 packet_size;
         u64 packet_seq_num; u32 events_discarded; u32 cpu_id;",
        "u32 id; ts timestamp;",
        &[
            "magic: u32!Magic, uuid: [16]byte!Uuid, stream_id: u32!StreamClassId, \
             stream_instance_id: u64!StreamInstanceId, other: u8",
            "timestamp_begin: u32#0!Timestamp, timestamp_end: u32#0!PacketEnd, \
             content_size: u64!ContentSize, packet_size: u64!PacketSize, \
             packet_seq_num: u64!PacketSeqNum, events_discarded: u32!EventsDiscarded, cpu_id: u32",
            "id: u32!EventClassId, timestamp: u32#0!Timestamp",
        ],
    );
}

#[test]
fn only_the_plain_names_of_their_scope_have_roles() {
    check_parts(
        "u8 _magic; struct { u8 stream_id; } s; u8 id; u8 content_size;",
        "u8 id; u8 magic; u8 _packet_size; u8 _timestamp_end; struct { u8 content_size; } s;",
        "u8 _id; u8 _timestamp; u8 magic; u8 timestamp_begin;",
        &[
            "magic: u8, s: {stream_id: u8}, id: u8, content_size: u8",
            "id: u8, magic: u8, packet_size: u8, timestamp_end: u8, s: {content_size: u8}",
            "id: u8, timestamp: u8, magic: u8, timestamp_begin: u8",
        ],
    );
}

#[test]
fn event_ids_are_found_at_any_depth() {
    check_parts(
        "",
        "",
        "enum : u8 { small = 0 ... 254, big = 255 } id;
         variant <id> { struct { ts timestamp; } small; struct { u32 id; u64 timestamp; } big; } v;",
        &[
            "",
            "",
            "id: u8{small=0..254 big=255}!EventClassId, v: <eh.id>(\
             small=0..254: {timestamp: u32#0!Timestamp}, \
             big=255: {id: u32!EventClassId, timestamp: u64#0!Timestamp})",
        ],
    );
    // The name of an option is a label, not the name of a field.
    check_parts(
        "",
        "",
        "enum : u8 { id, x } t; variant <t> { u8 id; struct { u8 id[2]; string x; } x; } v;",
        &["", "", "t: u8{id=0 x=1}, v: <eh.t>(id=0: u8, x=1: {id: [2]u8, x: string(Utf8)})"],
    );
}

#[test]
fn reserved_names_need_the_right_type() {
    let check = |header: &str, context: &str, event_header: &str, expected: &str| {
        let error = parse_and_write(&one_stream(header, context, event_header)).unwrap_err();
        assert_eq!(error.message, expected);
    };
    check("u8 x; u32 magic;", "", "", "`magic` is not the packet header's start");
    check("u8 magic;", "", "", "`magic` is an integer, expected an unsigned integer of 32 bits");
    check("u8 uuid[15];", "", "", "`uuid` is an array, expected an array of 16 unsigned bytes");
    check("string uuid;", "", "", "`uuid` is a string, expected an array of 16 unsigned bytes");
    check("string stream_id;", "", "", "`stream_id` is a string, expected an unsigned integer");
    check("", "u64 packet_size[1];", "", "`packet_size` is an array, expected an unsigned integer");
    check(
        "",
        "integer { size = 8; signed = 1; } content_size;",
        "",
        "`content_size` is a signed integer, expected an unsigned integer",
    );
    check("", "", "string id;", "`id` is a string, expected an unsigned integer");
}

#[test]
fn timestamps_without_a_clock_have_the_only_one() {
    check_parts(
        "",
        "u64 timestamp_begin; u64 timestamp_end; u64 timestamp;",
        "struct { u32 timestamp; } s; u32 timestamp_begin;",
        &[
            "",
            "timestamp_begin: u64#0!Timestamp, timestamp_end: u64#0!PacketEnd, timestamp: u64",
            "s: {timestamp: u32#0!Timestamp}, timestamp_begin: u32",
        ],
    );
    // A trace without any clock gets one in nanoseconds.
    let text =
        format!("{TYPES} {TRACE} stream {{ event.header := struct {{ u64 timestamp; }}; }};");
    let schema = schema(&text);
    let clock = &schema.clocks[0];
    assert_eq!((clock.name.as_str(), clock.frequency), ("default", 1_000_000_000));
    assert_eq!(clock.origin, ClockOrigin::Unknown);
    assert_eq!(show_all(&schema.streams[0].event_header), "{timestamp: u64#0!Timestamp}");
    assert_eq!(schema.streams[0].clock, Some(0));
    check_error(
        "clock { name = a; }; clock { name = b; };
stream { event.header := struct { integer { size = 8; } timestamp; }; };",
        "line 3, column 57 (offset 148): `timestamp` names none of the 2 clocks \
         (add `map = clock.NAME.value;` to its type)",
    );
}

/// Checks the clock that a stream gets in a trace with two clocks, and the roles in its packet
/// context and payload. The types `a` and `b` are mapped to the clocks of these names.
#[track_caller]
fn check_two_clocks(context: &str, event: &str, clock: Option<usize>, expected: [&str; 2]) {
    let text = format!(
        "{TRACE} clock {{ name = a; }}; clock {{ name = b; }};
         typealias integer {{ size = 8; map = clock.a.value; }} := a;
         typealias integer {{ size = 8; map = clock.b.value; }} := b;
         stream {{ packet.context := struct {{ {context} }}; }};
         event {{ fields := struct {{ {event} }}; }};"
    );
    let schema = schema(&text);
    let stream = &schema.streams[0];
    assert_eq!(stream.clock, clock);
    let parts = [&stream.packet_context, &stream.events[0].payload];
    assert_eq!(parts.map(show_all), expected.map(|part| format!("{{{part}}}")));
}

#[test]
fn a_streams_clock_is_the_one_its_fields_are_mapped_to() {
    check_two_clocks("", "", None, ["", ""]);
    check_two_clocks("", "b x;", Some(1), ["", "x: u8#1!Timestamp"]);
    check_two_clocks(
        "a x; b timestamp_begin;",
        "a x; b y; b z[2];",
        Some(1),
        [
            "x: u8#0, timestamp_begin: u8#1!Timestamp",
            "x: u8#0, y: u8#1!Timestamp, z: [2]u8#1!Timestamp",
        ],
    );
    check_two_clocks(
        "a x; b timestamp_end;",
        "a x;",
        Some(1),
        ["x: u8#0, timestamp_end: u8#1!PacketEnd", "x: u8#0"],
    );
    check_two_clocks("a x;", "b y;", Some(0), ["x: u8#0", "y: u8#1"]);
    // Signed integers do not set clocks.
    check_two_clocks(
        "",
        "integer { size = 8; signed = 1; map = clock.a.value; } x; a y;",
        Some(0),
        ["", "x: i8#0, y: u8#0!Timestamp"],
    );
}

#[test]
fn a_text_that_describes_too_much_is_refused_where_it_does() {
    let check = |before: &str, piece: &str, after: &str| {
        let pieces = (0..60_000).map(|number| piece.replace('#', &number.to_string()) + "\n");
        let text = format!("{TRACE} {before}\n{}{after}", pieces.collect::<String>());
        let error = parse(&text).unwrap_err();
        assert!(error.message.ends_with(" MiB of memory"), "{error}");
        let (line, _) = error.position.unwrap();
        let line = text.lines().nth(line as usize - 1).unwrap();
        assert!(line.starts_with(piece.split('#').next().unwrap()), "{error}, in {line}");
    };
    let header = "stream { event.header := struct { integer { size = 32; } id; }; };";
    check(header, "event { id = #; };", "");
    check("", "stream { id = #; };", "");
    check("", "clock { name = c#; };", "");
    check("event { fields := struct {", "string s#;", "}; };");
}

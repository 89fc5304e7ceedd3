//! Tests of the sequence of fragments, and of their contents apart from field classes.

use super::*;

#[track_caller]
fn check_place(text: &str, expected: &str) {
    assert_eq!(parse(text).expect_err("no error").to_string(), expected);
}

#[test]
fn sequence_of_fragments() {
    let text = format!(" \n\u{1e}\u{1e} {PREAMBLE}\n\n\u{1e}{STREAM}");
    let schema = parse(&text).unwrap();
    assert_eq!((schema.version, schema.streams.len()), (Version::Ctf2, 1));

    check_place("", "line 1, column 1 (offset 0): there is no fragment");
    check_place(" \u{1e} ", "line 1, column 4 (offset 3): there is no fragment");
    check_place(
        "{}",
        "line 1, column 1 (offset 0): text before the first fragment \
         (each fragment starts with the record separator, 0x1e)",
    );
}

#[test]
fn errors_point_into_the_text() {
    let text = sequence(&[PREAMBLE]);
    check_place(
        &format!("{text}\u{1e}\n{{\"type\": \"clock-class\",\n  \"id\": tru }}"),
        "line 4, column 12 (offset 73): fragment 2: not JSON: expected ident",
    );
    check_place(
        &format!("{text}\u{1e}  {{\"type\": "),
        "line 2, column 13 (offset 48): fragment 2: not JSON: EOF while parsing a value",
    );
    check_place(
        &format!("{text}\u{1e}\n  {{\"type\": \"clock-class\"}}"),
        "line 3, column 3 (offset 40): fragment 2 (clock-class): `id` is missing",
    );
    check_place(
        &format!("{text}\u{1e}{{\"type\": \"trace-class\"}} 1"),
        "line 2, column 26 (offset 61): fragment 2: not JSON: trailing characters",
    );
    let deep = format!("{text}\u{1e}{}", "[".repeat(1000));
    check_place(
        &deep,
        "line 2, column 129 (offset 164): fragment 2: not JSON: recursion limit exceeded",
    );
}

#[test]
fn preamble() {
    let uuid = r#"{"type": "preamble", "version": 2, "extensions": {"my.tracer": {}},
        "uuid": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]}"#;
    let schema = parse_fragments(&[uuid]).unwrap();
    let expected = "00010203-0405-0607-0809-0a0b0c0d0eff".parse().unwrap();
    assert_eq!(schema.trace.uuid, Some(expected));

    check_error(
        &[STREAM],
        "fragment 1 (data-stream-class): the first fragment, and only it, must be a preamble",
    );
    check_error(
        &[PREAMBLE, PREAMBLE],
        "fragment 2 (preamble): the first fragment, and only it, must be a preamble",
    );
    check_error(
        &[r#"{"type": "preamble", "version": 3}"#],
        "fragment 1 (preamble): version 3 is not supported, only 2 is",
    );
    check_error(&[r#"{"type": "preamble"}"#], "fragment 1 (preamble): `version` is missing");
    check_error(
        &[r#"{"type": "preamble", "version": 2, "uuid": [1, 2]}"#],
        "fragment 1 (preamble): uuid: a UUID is 16 integers from 0 to 255",
    );
    check_error(
        &[r#"{"type": "preamble", "version": 2, "extensions": {"my.tracer": {"piano": null}}}"#],
        "fragment 1 (preamble): extensions: the extension `piano` of `my.tracer` is not supported",
    );
    check_error(
        &[r#"{"type": "preamble", "version": 2, "extensions": {"my.tracer": "piano"}}"#],
        "fragment 1 (preamble): extensions: `my.tracer`: \
         an object is needed, not the string `piano`",
    );
}

#[test]
fn fragment_types() {
    check_error(&["[]"], "fragment 1: an object is needed, not an array");
    check_error(&["{}"], "fragment 1: `type` is missing");
    check_error(&[PREAMBLE, r#"{"type": 3}"#], "fragment 2: type: a string is needed, not 3");
    check_error(
        &[PREAMBLE, r#"{"type": "event-class"}"#],
        "fragment 2: type: `event-class` is not known here (known are `preamble`, \
         `field-class-alias`, `trace-class`, `clock-class`, `data-stream-class`, \
         `event-record-class`)",
    );
    check_error(
        &[PREAMBLE, r#"{"type": "clock_class"}"#],
        "fragment 2: type: `clock_class` is not known here (did you mean `clock-class`?)",
    );
}

#[test]
fn trace_class() {
    let schema = parse_fragments(&[
        PREAMBLE,
        r#"{"type": "trace-class", "namespace": "ns", "name": "n", "uid": "u", "other": 1,
            "environment": {"z": "text", "a": -7, "big": 18446744073709551615}}"#,
    ]);
    let trace = schema.unwrap().trace;
    let strings = [&trace.namespace, &trace.name, &trace.uid].map(Option::as_deref);
    assert_eq!(strings, [Some("ns"), Some("n"), Some("u")]);
    let expected = [
        ("z", EnvValue::Str("text".to_owned())),
        ("a", EnvValue::Int(-7)),
        ("big", EnvValue::Str("18446744073709551615".to_owned())),
    ];
    assert_eq!(trace.env, expected.map(|(name, value)| (name.to_owned(), value)));

    let trace_class = r#"{"type": "trace-class", "environment": null}"#;
    check_error(
        &[PREAMBLE, trace_class, trace_class],
        "fragment 3 (trace-class): there is a second trace class",
    );
    check_error(
        &[PREAMBLE, STREAM, trace_class],
        "fragment 3 (trace-class): the trace class must come before all data stream classes",
    );
    check_error(
        &[PREAMBLE, r#"{"type": "trace-class", "environment": {"a": 1.5}}"#],
        "fragment 2 (trace-class): environment: `a`: an integer of at most 64 bits is needed, \
         not 1.5",
    );
    check_error(
        &[PREAMBLE, r#"{"type": "trace-class", "uid": 1}"#],
        "fragment 2 (trace-class): uid: a string is needed, not 1",
    );
    check_error(
        &[PREAMBLE, r#"{"type": "trace-class", "extensions": {"a": {"b": 1}}}"#],
        "fragment 2 (trace-class): extensions: the extension `b` of `a` is not supported",
    );
}

#[track_caller]
fn check_clock(properties: &str, expected: Clock) {
    let fragment = format!(r#"{{"type": "clock-class", {properties}}}"#);
    let schema = parse_fragments(&[PREAMBLE, &fragment]).unwrap();
    assert_eq!(schema.clocks, [expected]);
}

#[test]
fn clock_classes() {
    check_clock(r#""id": "c""#, clock("c"));
    check_clock(r#""name": "old style""#, clock("old style"));
    let identity = ClockIdentity {
        namespace: Some("ns".to_owned()),
        name: Some("n".to_owned()),
        uid: Some("u".to_owned()),
    };
    check_clock(
        r#""id": "c", "namespace": "ns", "name": "n", "uid": "u", "description": "d",
           "frequency": 8, "precision": 1, "accuracy": 2, "origin": "unix-epoch",
           "offset-from-origin": {"seconds": -5, "cycles": 7}"#,
        Clock {
            identity: Some(identity.clone()),
            description: Some("d".to_owned()),
            frequency: 8,
            precision: Some(1),
            accuracy: Some(2),
            offset_seconds: -5,
            offset_cycles: 7,
            origin: ClockOrigin::UnixEpoch,
            ..clock("c")
        },
    );
    check_clock(
        r#""id": "c", "origin": {"namespace": "ns", "name": "n", "uid": "u"},
           "offset-from-origin": {}"#,
        Clock { origin: ClockOrigin::Custom(identity), ..clock("c") },
    );

    for (properties, expected) in [
        (r#""id": "c", "frequency": 0"#, "frequency: must not be 0"),
        (r#""id": "c", "origin": {"name": "n"}"#, "origin: `uid` is missing"),
        (
            r#""id": "c", "origin": "unix_epoch""#,
            "origin: `unix_epoch` is not known here (did you mean `unix-epoch`?)",
        ),
        (
            r#""id": "c", "precision": -1"#,
            "precision: an integer from 0 up, of at most 64 bits is needed, not -1",
        ),
        (
            r#""id": "c", "offset-from-origin": {"seconds": 9223372036854775808}"#,
            "offset-from-origin: seconds: a signed integer of at most 64 bits is needed, \
             not 9223372036854775808",
        ),
    ] {
        let fragment = format!(r#"{{"type": "clock-class", {properties}}}"#);
        let expected = format!("fragment 2 (clock-class): {expected}");
        check_error(&[PREAMBLE, &fragment], &expected);
    }
    let fragment = r#"{"type": "clock-class", "id": "c"}"#;
    check_error(
        &[PREAMBLE, fragment, fragment],
        "fragment 3 (clock-class): there is a second clock class `c`",
    );
}

#[test]
fn data_stream_classes() {
    let schema = parse_fragments(&[
        PREAMBLE,
        r#"{"type": "clock-class", "id": "a"}"#,
        r#"{"type": "clock-class", "id": "b"}"#,
        r#"{"type": "data-stream-class", "id": 18446744073709551615, "namespace": "ns",
            "name": "n", "uid": "u", "default-clock-class-id": "b"}"#,
        r#"{"type": "data-stream-class", "id": 3, "default-clock-class-name": "a",
            "packet-context-field-class": {"type": "structure"},
            "event-record-header-field-class": {"type": "structure", "minimum-alignment": 8},
            "event-record-common-context-field-class": {"type": "structure"}}"#,
        STREAM,
    ]);
    let full = StreamClass {
        id: u64::MAX,
        namespace: Some("ns".to_owned()),
        name: Some("n".to_owned()),
        uid: Some("u".to_owned()),
        clock: Some(1),
        ..StreamClass::default()
    };
    let old = StreamClass {
        id: 3,
        clock: Some(0),
        packet_context: Some(structure(Vec::new())),
        event_header: Some(FieldClass::Struct(StructClass { members: Vec::new(), align: 8 })),
        common_context: Some(structure(Vec::new())),
        ..StreamClass::default()
    };
    assert_eq!(schema.unwrap().streams, [full, old, StreamClass::default()]);

    check_error(
        &[PREAMBLE, STREAM, STREAM],
        "fragment 3 (data-stream-class): there is a second data stream class 0",
    );
    check_error(
        &[PREAMBLE, r#"{"type": "data-stream-class", "default-clock-class-id": "c"}"#],
        "fragment 2 (data-stream-class): default-clock-class-id: \
         no clock class `c` comes before this",
    );
    check_error(
        &[
            PREAMBLE,
            r#"{"type": "data-stream-class",
                "packet-context-field-class": {"type": "null-terminated-string"}}"#,
        ],
        "fragment 2 (data-stream-class): packet-context-field-class: \
         the field class of a scope must be a structure",
    );
}

#[test]
fn event_record_classes() {
    let schema = parse_fragments(&[
        PREAMBLE,
        STREAM,
        r#"{"type": "data-stream-class", "id": 1}"#,
        r#"{"type": "event-record-class", "id": 7, "data-stream-class-id": 1, "namespace": "ns",
            "name": "n", "uid": "u", "specific-context-field-class": {"type": "structure"},
            "payload-field-class": {"type": "structure"},
            "attributes": {"lttng.org,2009": {"log-level": "info", "emf-uri": "e"}}}"#,
        r#"{"type": "event-record-class", "data-stream-class-id": 1}"#,
        r#"{"type": "event-record-class"}"#,
    ]);
    let streams = schema.unwrap().streams;
    let full = EventClass {
        namespace: Some("ns".to_owned()),
        name: Some("n".to_owned()),
        uid: Some("u".to_owned()),
        log_level: Some(6),
        emf_uri: Some("e".to_owned()),
        specific_context: Some(structure(Vec::new())),
        payload: Some(structure(Vec::new())),
        ..event_class(7)
    };
    assert_eq!(streams[0].events, [event_class(0)]);
    assert_eq!(streams[1].events, [full, event_class(0)]);

    let plain = r#"{"type": "event-record-class"}"#;
    check_error(
        &[PREAMBLE, STREAM, plain, plain],
        "fragment 4 (event-record-class): data stream class 0 has a second event class 0",
    );
    check_error(
        &[PREAMBLE, plain, STREAM],
        "fragment 2 (event-record-class): data-stream-class-id: \
         no data stream class 0 comes before this",
    );
}

#[test]
fn event_attributes() {
    let check = |attributes: &str, log_level: Option<i64>, emf_uri: Option<&str>| {
        let event = format!(r#"{{"type": "event-record-class", "attributes": {attributes}}}"#);
        let schema = parse_fragments(&[PREAMBLE, STREAM, &event]).unwrap();
        let event = &schema.streams[0].events[0];
        assert_eq!((event.log_level, event.emf_uri.as_deref()), (log_level, emf_uri));
    };
    let words = [
        "emergency",
        "alert",
        "critical",
        "error",
        "warning",
        "notice",
        "info",
        "debug:system",
        "debug:program",
        "debug:process",
        "debug:module",
        "debug:unit",
        "debug:function",
        "debug:line",
        "debug",
    ];
    for (level, word) in words.into_iter().enumerate() {
        let attributes = format!(r#"{{"lttng.org,2009": {{"log-level": "{word}"}}}}"#);
        check(&attributes, Some(level as i64), None);
    }
    let both = r#"{"babeltrace.org,2020": {"log-level": "alert", "emf-uri": "b"},
        "lttng.org,2009": {"log-level": "debug"}}"#;
    check(both, Some(14), Some("b"));
    // Malformed and unknown attributes are ignored.
    check(r#"{"lttng.org,2009": {"log-level": "loud", "emf-uri": 3}}"#, None, None);
    check(r#"{"lttng.org,2009": [], "my.tracer": true}"#, None, None);
    check("7", None, None);
    check(r#"{"lttng.org,2009": {"log-level": 99}}"#, Some(99), None);
}

#[test]
fn byte_order() {
    let check = |fragments: &[&str], expected: ByteOrder| {
        let fragments = [&[PREAMBLE], fragments].concat();
        assert_eq!(parse_fragments(&fragments).unwrap().trace.byte_order, expected);
    };
    let field = |name: &str, byte_order: &str, more: &str| {
        format!(
            r#"{{"name": "{name}", "field-class": {{"type": "fixed-length-unsigned-integer",
                "length": 32, "byte-order": "{byte_order}"{more}}}}}"#
        )
    };
    check(&[STREAM], ByteOrder::Little);
    let big = event(&field("a", "big-endian", ""));
    check(&[STREAM, &big], ByteOrder::Big);
    let magic = field("m", "little-endian", r#", "roles": ["packet-magic-number"]"#);
    let id = field("id", "big-endian", r#", "roles": ["data-stream-class-id"]"#);
    let trace = format!(
        r#"{{"type": "trace-class", "packet-header-field-class":
            {{"type": "structure", "member-classes": [{magic}, {id}]}}}}"#
    );
    check(&[&trace, STREAM, &big], ByteOrder::Little);
}

//! Tests of written schemas: their text, the result of parsing it again (also after damage), and
//! the losses where CTF 2 cannot express a property.

use super::*;
use blkkin_sys::testing::Random;

#[track_caller]
fn read_back(schema: &Schema) -> Schema {
    let text = write(schema);
    parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn random_schemas() {
    let mut class_count = 0;
    for seed in 0..2000 {
        let mut schema = random::schema(&mut Random::new(seed));
        let read = read_back(&schema);
        schema.trace.byte_order = read.trace.byte_order;
        assert!(read == schema, "seed {seed}\n{schema:#?}\n{read:#?}");
        assert_eq!(write(&read), write(&schema), "seed {seed}");
        class_count += write(&schema).matches("\"type\"").count();
    }
    // Guards against a generator that produces too few classes.
    assert!(class_count > 50_000, "{class_count}");
}

#[test]
fn damaged_texts_do_no_harm() {
    const PIECES: [&str; 14] = [
        "",
        "{",
        "}",
        "[",
        "]",
        "\"",
        ":",
        ",",
        "null",
        "-1",
        "0",
        "18446744073709551615",
        "\u{1e}",
        "é",
    ];
    let (mut errors, mut count) = (0, 0);
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let text: Vec<char> = write(&random::schema(&mut random)).chars().collect();
        for _ in 0..10 {
            let at = random.below(text.len());
            let end = (at + random.below(4)).min(text.len());
            let piece = PIECES[random.below(PIECES.len())];
            let (before, after) = (text[..at].iter(), text[end..].iter());
            let damaged: String =
                before.copied().chain(piece.chars()).chain(after.copied()).collect();
            count += 1;
            if let Err(error) = parse(&damaged) {
                assert!(error.offset <= damaged.len());
                errors += 1;
            }
        }
    }
    assert!(errors > count / 2 && errors < count, "{errors} of {count}");
}

/// Makes a schema with one stream and one event, like one parsed from CTF 1.8.
fn schema_of(payload: Vec<Member>) -> Schema {
    let event = EventClass { payload: Some(structure(payload)), ..event_class(0) };
    let stream = StreamClass { events: vec![event], ..StreamClass::default() };
    let (trace, clocks) = (TraceClass::default(), Vec::new());
    Schema { version: Version::Ctf1, trace, clocks, streams: vec![stream] }
}

/// Makes a schema with LTTng's event header and packet context, and some fields.
fn lttng_schema() -> Schema {
    let with = |size, roles: Roles, clock| {
        int(IntClass {
            bits: bits(size, 8, ByteOrder::Little),
            base: Base::Decimal,
            roles,
            clock,
            ..unsigned(size)
        })
    };
    let plain = |size| with(size, Roles::NONE, None);
    let uuid = Uuid([1; 16]);
    let mut schema = schema_of(vec![
        member("len", plain(16)),
        member(
            "text",
            FieldClass::Text(TextClass {
                length: Length::Dynamic(field_ref(Scope::Payload, "len")),
                encoding: Encoding::Utf8,
            }),
        ),
        member(
            "name",
            FieldClass::Text(TextClass { length: Length::Static(17), encoding: Encoding::Utf8 }),
        ),
        member("message", FieldClass::String(StringClass { encoding: Encoding::Utf8 })),
        member(
            "numbers",
            FieldClass::Array(Box::new(ArrayClass {
                length: Length::Static(2),
                element: plain(32),
                align: 1,
            })),
        ),
    ]);
    schema.trace.uuid = Some(uuid);
    schema.trace.env = vec![
        ("domain".to_owned(), EnvValue::Str("ust".to_owned())),
        ("tracer_major".to_owned(), EnvValue::Int(2)),
    ];
    schema.trace.packet_header = Some(structure(vec![
        member("magic", with(32, Role::Magic.into(), None)),
        member(
            "uuid",
            FieldClass::Blob(BlobClass { roles: Role::Uuid.into(), ..blob(Length::Static(16)) }),
        ),
        member("stream_id", with(32, Role::StreamClassId.into(), None)),
        member("stream_instance_id", with(64, Role::StreamInstanceId.into(), None)),
    ]));
    schema.clocks = vec![Clock {
        offset_seconds: 1,
        offset_cycles: 5,
        origin: ClockOrigin::UnixEpoch,
        ..clock("monotonic")
    }];
    let id = int(IntClass {
        bits: bits(16, 8, ByteOrder::Little),
        mappings: Some(
            [mapping("compact", &[(0, 65534)]), mapping("extended", &[(65535, 65535)])].into(),
        ),
        roles: Role::EventClassId.into(),
        ..unsigned(16)
    });
    let option = |name: &str, range: (i128, i128), members| VariantOption {
        name: Some(name.to_owned()),
        ranges: Ranges(vec![range]),
        class: structure(members),
    };
    let short = vec![member("timestamp", with(32, Role::Timestamp.into(), Some(0)))];
    let long = vec![
        member("id", with(32, Role::EventClassId.into(), None)),
        member("timestamp", with(64, Role::Timestamp.into(), Some(0))),
    ];
    let variant = VariantClass {
        selector: field_ref(Scope::EventHeader, "id"),
        options: vec![
            option("compact", (0, 65534), short),
            option("extended", (65535, 65535), long),
        ],
    };
    let stream = &mut schema.streams[0];
    stream.clock = Some(0);
    stream.packet_context = Some(structure(vec![
        member("timestamp_begin", with(64, Role::Timestamp.into(), Some(0))),
        member("timestamp_end", with(64, Role::PacketEnd.into(), Some(0))),
        member("content_size", with(64, Role::ContentSize.into(), None)),
        member("packet_size", with(64, Role::PacketSize.into(), None)),
        member("packet_seq_num", with(64, Role::PacketSeqNum.into(), None)),
        member("events_discarded", with(64, Role::EventsDiscarded.into(), None)),
        member("cpu_id", plain(32)),
    ]));
    stream.event_header = Some(FieldClass::Struct(StructClass {
        members: vec![member("id", id), member("v", FieldClass::Variant(variant))],
        align: 8,
    }));
    stream.events[0].name = Some("demo:hello".to_owned());
    stream.events[0].log_level = Some(6);
    stream.events[0].emf_uri = Some("http://example.com".to_owned());
    schema
}

#[test]
fn lttng_reads_back() {
    let schema = lttng_schema();
    assert_eq!(read_back(&schema), Schema { version: Version::Ctf2, ..schema });
}

#[test]
fn text_of_a_schema() {
    let mut schema = schema_of(vec![
        member("n", int(IntClass { base: Base::Hexadecimal, ..unsigned(8) })),
        member(
            "v",
            FieldClass::Variant(VariantClass {
                selector: field_ref(Scope::Payload, "n"),
                options: vec![VariantOption {
                    name: None,
                    ranges: Ranges(vec![(0, 1), (5, 5)]),
                    class: FieldClass::String(StringClass { encoding: Encoding::Utf16Le }),
                }],
            }),
        ),
    ]);
    schema.trace.uuid = Some(Uuid(std::array::from_fn(|index| index as u8)));
    schema.trace.env = vec![("a \"b\"".to_owned(), EnvValue::Int(-1))];
    schema.clocks = vec![Clock { offset_seconds: 3, ..clock("c") }];
    schema.streams[0].clock = Some(0);
    schema.streams[0].events[0].log_level = Some(7);
    let expected = r#"~{
  "type": "preamble",
  "version": 2,
  "uuid": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
}
~{
  "type": "trace-class",
  "environment": {
    "a \"b\"": -1
  }
}
~{
  "type": "clock-class",
  "id": "c",
  "frequency": 1000000000,
  "offset-from-origin": {
    "seconds": 3,
    "cycles": 0
  }
}
~{
  "type": "data-stream-class",
  "id": 0,
  "default-clock-class-id": "c"
}
~{
  "type": "event-record-class",
  "id": 0,
  "data-stream-class-id": 0,
  "attributes": {
    "lttng.org,2009": {
      "log-level": "debug:system"
    }
  },
  "payload-field-class": {
    "type": "structure",
    "member-classes": [
      {
        "name": "n",
        "field-class": {
          "type": "fixed-length-unsigned-integer",
          "length": 8,
          "byte-order": "little-endian",
          "preferred-display-base": 16
        }
      },
      {
        "name": "v",
        "field-class": {
          "type": "variant",
          "selector-field-location": {
            "origin": "event-record-payload",
            "path": ["n"]
          },
          "options": [
            {
              "selector-field-ranges": [[0, 1], [5, 5]],
              "field-class": {
                "type": "null-terminated-string",
                "encoding": "utf-16le"
              }
            }
          ]
        }
      }
    ]
  }
}
"#;
    assert_eq!(write(&schema), expected.replace('~', "\u{1e}"));
}

/// Text in the style of LTTng is accepted: sorted keys, no line feed at the end, null for an empty
/// object.
#[test]
fn lttng_text() {
    let text = "\u{1e}{\n  \"type\": \"preamble\",\n  \"uuid\": [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, \
         1, 1, 1, 1],\n  \"version\": 2\n}\u{1e}{\n  \"environment\": null,\n  \"name\": \"\",\n  \
         \"namespace\": \"lttng.org,2009\",\n  \"type\": \"trace-class\",\n  \"uid\": \"u\"\n}\u{1e}{\
         \n  \"id\": 0,\n  \"type\": \"data-stream-class\"\n}";
    let trace = parse(text).unwrap().trace;
    assert_eq!((trace.uuid, trace.env), (Some(Uuid([1; 16])), Vec::new()));
    assert_eq!(trace.name.as_deref(), Some(""));
}

#[track_caller]
fn check_class(class: FieldClass, expected: FieldClass) {
    let first = member("n", FieldClass::Int(unsigned(8)));
    let schema = schema_of(vec![first.clone(), member("f", class)]);
    let expected = schema_of(vec![first, member("f", expected)]);
    assert_eq!(read_back(&schema).streams, expected.streams);
}

#[test]
fn classes_that_lose_something() {
    let plain = || int(unsigned(8));
    check_class(int(IntClass { clock: Some(0), ..unsigned(8) }), plain());
    check_class(int(IntClass { roles: Role::Timestamp.into(), ..unsigned(8) }), plain());
    let labels = vec![
        mapping("a", &[(0, 0)]),
        mapping("b", &[(i128::MIN, 5)]),
        mapping("a", &[(3, i128::MAX)]),
        mapping("never", &[(1 << 100, 1 << 101)]),
    ];
    let merged =
        vec![mapping("a", &[(0, 0), (3, u64::MAX.into())]), mapping("b", &[(i64::MIN.into(), 5)])];
    check_class(
        int(IntClass { mappings: Some(labels.into()), ..unsigned(8) }),
        int(IntClass { mappings: Some(merged.into()), ..unsigned(8) }),
    );
    check_class(
        int(IntClass { kind: IntKind::Bool, base: Base::Binary, ..unsigned(8) }),
        int(IntClass { kind: IntKind::Bool, ..unsigned(8) }),
    );
    check_class(
        int(IntClass { kind: IntKind::BitMap, mappings: Some([].into()), ..unsigned(8) }),
        int(IntClass { kind: IntKind::BitArray, ..unsigned(8) }),
    );
    check_class(
        FieldClass::String(StringClass { encoding: Encoding::Ascii }),
        FieldClass::String(StringClass { encoding: Encoding::Utf8 }),
    );
    check_class(FieldClass::Struct(StructClass::default()), structure(Vec::new()));

    let float = |size: u32, align, exponent| {
        FieldClass::Float(FloatClass {
            bits: bits(size, align, ByteOrder::Little),
            exponent,
            mantissa: size - exponent,
        })
    };
    let bit_array = |size, align| {
        let bits = bits(size, align, ByteOrder::Little);
        int(IntClass { bits, kind: IntKind::BitArray, ..unsigned(size) })
    };
    let array = |count, element, align| {
        let length = Length::Static(count);
        FieldClass::Array(Box::new(ArrayClass { length, element, align }))
    };
    let ten_bytes = || FieldClass::Blob(blob(Length::Static(10)));
    check_class(float(24, 4, 6), bit_array(24, 4));
    check_class(float(32, 8, 9), bit_array(32, 8));
    check_class(float(80, 8, 15), ten_bytes());
    check_class(float(80, 128, 15), array(1, ten_bytes(), 128));
    check_class(float(80, 2, 15), array(80, bit_array(1, 1), 2));
}

#[test]
fn variants_that_lose_something() {
    let variant = |options: &[(&str, &[(i128, i128)])]| {
        let option = |(name, ranges): &(&str, &[(i128, i128)])| VariantOption {
            name: Some((*name).to_owned()),
            ranges: Ranges(ranges.to_vec()),
            class: int(unsigned(8)),
        };
        FieldClass::Variant(VariantClass {
            selector: field_ref(Scope::Payload, "n"),
            options: options.iter().map(option).collect(),
        })
    };
    check_class(
        variant(&[
            ("a", &[(5, 9), (7, 8)]),
            ("no value", &[]),
            ("b", &[(0, 20), (6, 6), (30, 31)]),
            ("hidden", &[(10, 11), (5, 5)]),
            ("c", &[(19, 32), (21, 21), (32, 40)]),
        ]),
        variant(&[
            ("a", &[(5, 9), (7, 8)]),
            ("b", &[(0, 4), (10, 20), (30, 31)]),
            ("c", &[(21, 29), (32, 32), (33, 40)]),
        ]),
    );
    check_class(variant(&[("never", &[])]), structure(Vec::new()));
}

#[test]
fn roles_that_are_lost() {
    let roles = Roles::from(Role::Magic);
    let mut schema = lttng_schema();
    schema.trace.uuid = None;
    schema.trace.packet_header = Some(structure(vec![
        member(
            "uuid",
            FieldClass::Blob(BlobClass { roles: Role::Uuid.into(), ..blob(Length::Static(16)) }),
        ),
        member("magic", int(IntClass { roles, ..unsigned(32) })),
        member(
            "id",
            int(IntClass {
                kind: IntKind::Signed,
                roles: Role::StreamClassId.into(),
                ..unsigned(32)
            }),
        ),
    ]));
    let expected = structure(vec![
        member("uuid", FieldClass::Blob(blob(Length::Static(16)))),
        member("magic", int(unsigned(32))),
        member("id", int(IntClass { roles: Role::StreamClassId.into(), ..unsigned(32) })),
    ]);
    assert_eq!(read_back(&schema).trace.packet_header, Some(expected));
}

#[track_caller]
fn check_clock(before: Clock, expected: Clock) {
    let schema = Schema { clocks: vec![before], ..schema_of(Vec::new()) };
    assert_eq!(read_back(&schema).clocks, [expected]);
}

#[test]
fn clocks_that_lose_something() {
    let at = |offset_seconds, offset_cycles| Clock { offset_seconds, offset_cycles, ..clock("c") };
    check_clock(at(0, 1_795_165_182_279_448_621), at(1_795_165_182, 279_448_621));
    check_clock(at(2, -1), at(1, 999_999_999));
    // This offset is too far from zero to be normalised.
    check_clock(at(i64::MAX, 1_000_000_000), at(i64::MAX, 1_000_000_000));
    let uid = "01010101-0101-0101-0101-010101010101".to_owned();
    let identity = ClockIdentity { namespace: None, name: Some("c".to_owned()), uid: Some(uid) };
    check_clock(
        Clock { uuid: Some(Uuid([1; 16])), ..clock("c") },
        Clock { identity: Some(identity), ..clock("c") },
    );
}

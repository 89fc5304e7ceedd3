//! Tests of field classes, their roles, and aliases.

use super::*;

/// Parses `class` as the only member of a payload, and checks the resulting class.
#[track_caller]
fn check(class: &str, expected: FieldClass) {
    let members = payload(&format!(r#"{{"name": "f", "field-class": {class}}}"#));
    assert_eq!(members.unwrap_or_else(|error| panic!("{error}")), [member("f", expected)]);
}

#[track_caller]
fn check_fails(class: &str, expected: &str) {
    let members = format!(r#"{{"name": "f", "field-class": {class}}}"#);
    let message = error(&[PREAMBLE, STREAM, &event(&members)]);
    let way = "fragment 3 (event-record-class): payload-field-class: member-classes[0]: \
               field-class: ";
    assert_eq!(message.strip_prefix(way), Some(expected), "{message}");
}

const UNSIGNED_8: &str =
    r#"{"type": "fixed-length-unsigned-integer", "length": 8, "byte-order": "little-endian"}"#;

#[test]
fn fixed_length_bits() {
    let with = |kind| IntClass { kind, ..unsigned(16) };
    for (name, kind) in [
        ("bit-array", IntKind::BitArray),
        ("boolean", IntKind::Bool),
        ("unsigned-integer", IntKind::Unsigned),
        ("signed-integer", IntKind::Signed),
        ("unsigned-enumeration", IntKind::Unsigned),
        ("signed-enumeration", IntKind::Signed),
    ] {
        let class = format!(
            r#"{{"type": "fixed-length-{name}", "length": 16, "byte-order": "little-endian"}}"#
        );
        check(&class, int(with(kind)));
    }
    let reversed = Bits { bit_order: BitOrder::FirstToLast, ..bits(3, 32, ByteOrder::Big) };
    check(
        r#"{"type": "fixed-length-bit-array", "length": 3, "byte-order": "big-endian",
            "bit-order": "first-to-last", "alignment": 32, "attributes": {"my.tracer": 1}}"#,
        int(IntClass { bits: reversed, ..with(IntKind::BitArray) }),
    );
    check(
        r#"{"type": "fixed-length-bit-map", "length": 64, "byte-order": "big-endian",
            "flags": {"shock": [[3, 3]], "cord": [[4, 4], [8, 10]]}}"#,
        int(IntClass {
            bits: bits(64, 1, ByteOrder::Big),
            mappings: Some(
                [mapping("shock", &[(3, 3)]), mapping("cord", &[(4, 4), (8, 10)])].into(),
            ),
            ..with(IntKind::BitMap)
        }),
    );
}

#[test]
fn fixed_length_bits_gone_wrong() {
    let with = |properties: &str| {
        format!(r#"{{"type": "fixed-length-bit-array", "byte-order": "big-endian", {properties}}}"#)
    };
    for (properties, expected) in [
        (r#""length": 0"#, "length: must be from 1 to 4294967295 bits"),
        (r#""length": 4294967296"#, "length: must be from 1 to 4294967295 bits"),
        (r#""length": 8.5"#, "length: an integer from 0 up, of at most 64 bits is needed, not 8.5"),
        (r#""alignment": 8"#, "`length` is missing"),
        (r#""length": 8, "alignment": 0"#, "alignment: 0 is not a power of two"),
        (r#""length": 8, "alignment": 6"#, "alignment: 6 is not a power of two"),
        (
            r#""length": 8, "bit-order": "up""#,
            "bit-order: `up` is not known here (known are `first-to-last`, `last-to-first`)",
        ),
        (
            r#""length": 8, "extensions": {"a": {"b": 0}}"#,
            "extensions: the extension `b` of `a` is not supported",
        ),
    ] {
        check_fails(&with(properties), expected);
    }
    check_fails(r#"{"type": "fixed-length-boolean", "length": 8}"#, "`byte-order` is missing");
    check_fails(
        r#"{"type": "fixed-length-boolean", "length": 8, "byte-order": "little"}"#,
        "byte-order: `little` is not known here (known are `little-endian`, `big-endian`)",
    );
    check_fails(
        r#"{"type": "fixed-length-bool", "length": 8}"#,
        "type: `fixed-length-bool` is not known here (did you mean `fixed-length-boolean`?)",
    );
    check_fails(
        r#"{"type": "fixed-length-bit-map", "length": 8, "byte-order": "big-endian", "flags": {}}"#,
        "flags: a bit map needs a flag",
    );
    check_fails("5", "an object is needed, not 5");
    check_fails(
        &with(&format!(r#""length": 8, "byte-order": "{}""#, "x\\n".repeat(100))),
        &format!(
            "byte-order: `{}…` is not known here (known are `little-endian`, `big-endian`)",
            "x\\n".repeat(32)
        ),
    );
}

#[test]
fn integers() {
    let bases = [(2, Base::Binary), (8, Base::Octal), (10, Base::Decimal), (16, Base::Hexadecimal)];
    for (number, base) in bases {
        let class = UNSIGNED_8.replace('}', &format!(r#", "preferred-display-base": {number}}}"#));
        check(&class, int(IntClass { base, ..unsigned(8) }));
    }
    check(
        &UNSIGNED_8.replace(
            '}',
            r#", "mappings": {"b": [[18446744073709551615, 18446744073709551615]],
                "a": [[-9223372036854775808, 1], [84, 84]]}}"#,
        ),
        int(IntClass {
            mappings: Some(
                [
                    mapping("b", &[(u64::MAX.into(), u64::MAX.into())]),
                    mapping("a", &[(i64::MIN.into(), 1), (84, 84)]),
                ]
                .into(),
            ),
            ..unsigned(8)
        }),
    );
    let none = IntClass { mappings: Some([].into()), ..unsigned(8) };
    check(&UNSIGNED_8.replace('}', r#", "mappings": {}}"#), int(none));
    let variable =
        |signed| VarIntClass { signed, base: Base::Decimal, mappings: None, roles: Roles::NONE };
    let unsigned_name = r#"{"type": "variable-length-unsigned-integer"}"#;
    check(unsigned_name, FieldClass::VarInt(variable(false)));
    check(
        r#"{"type": "variable-length-signed-integer", "preferred-display-base": 16,
            "mappings": {"a": [[-1, 1]]}}"#,
        FieldClass::VarInt(VarIntClass {
            base: Base::Hexadecimal,
            mappings: Some([mapping("a", &[(-1, 1)])].into()),
            ..variable(true)
        }),
    );
    let enumeration = unsigned_name.replace("integer", "enumeration");
    check(&enumeration, FieldClass::VarInt(variable(false)));
    check(&enumeration.replace("unsigned", "signed"), FieldClass::VarInt(variable(true)));

    for (properties, expected) in [
        (r#""preferred-display-base": 3"#, "preferred-display-base: must be 2, 8, 10 or 16, not 3"),
        (r#""mappings": []"#, "mappings: an object is needed, not an array"),
        (r#""mappings": {"a": []}"#, "mappings: `a`: a range is needed"),
        (r#""mappings": {"a": [[2, 1]]}"#, "mappings: `a`: 2 is above 1"),
        (r#""mappings": {"a": [[2]]}"#, "mappings: `a`: a range needs a lower and an upper bound"),
        (
            r#""mappings": {"a": [[0, 1e3]]}"#,
            "mappings: `a`: an integer of at most 64 bits is needed, not 1000.0",
        ),
        (r#""roles": ["magic"]"#, "roles: `magic` is not known here"),
        (r#""roles": [1]"#, "roles: a string is needed, not 1"),
        (
            r#""roles": ["data-stream-cls-id"]"#,
            "roles: `data-stream-cls-id` is not known here (did you mean `data-stream-class-id`?)",
        ),
    ] {
        check_fails(&UNSIGNED_8.replace('}', &format!(", {properties}}}")), expected);
    }
}

#[test]
fn integers_of_more_than_64_bits() {
    let class = |length: u32, align: u32| {
        format!(
            r#"{{"type": "fixed-length-unsigned-integer", "length": {length},
                "byte-order": "big-endian", "alignment": {align}}}"#
        )
    };
    let bytes = |count| FieldClass::Blob(blob(Length::Static(count)));
    check(&class(72, 8), bytes(9));
    check(&class(128, 8), bytes(16));
    let aligned = ArrayClass { length: Length::Static(1), element: bytes(16), align: 32 };
    check(&class(128, 32), FieldClass::Array(Box::new(aligned)));
    let hint = "with an `alignment` and a `length` that are multiples of 8";
    for (length, align) in [(65, 8), (128, 1), (128, 4)] {
        let expected = format!("{length} bits are only supported if byte-aligned ({hint})");
        check_fails(&class(length, align), &expected);
    }
}

#[test]
fn floating_point_numbers() {
    let class = |length: u32| {
        format!(
            r#"{{"type": "fixed-length-floating-point-number", "length": {length},
                "byte-order": "big-endian", "alignment": 8}}"#
        )
    };
    for (exponent, mantissa) in [(5, 11), (8, 24), (11, 53), (15, 113), (16, 144), (19, 237)] {
        let bits = bits(exponent + mantissa, 8, ByteOrder::Big);
        let float = FloatClass { bits, exponent, mantissa };
        check(&class(bits.size), FieldClass::Float(float));
    }
    for length in [8, 80, 96, 136] {
        let hint = "16, 32, 64, 128 or a larger multiple of 32";
        let expected = format!("length: no floating-point format has {length} bits ({hint})");
        check_fails(&class(length), &expected);
    }
}

#[test]
fn strings_and_blobs() {
    check(
        r#"{"type": "null-terminated-string"}"#,
        FieldClass::String(StringClass { encoding: Encoding::Utf8 }),
    );
    for (word, encoding) in [
        ("utf-8", Encoding::Utf8),
        ("utf-16be", Encoding::Utf16Be),
        ("utf-16le", Encoding::Utf16Le),
        ("utf-32be", Encoding::Utf32Be),
        ("utf-32le", Encoding::Utf32Le),
    ] {
        check(
            &format!(r#"{{"type": "null-terminated-string", "encoding": "{word}"}}"#),
            FieldClass::String(StringClass { encoding }),
        );
        check(
            &format!(r#"{{"type": "static-length-string", "length": 0, "encoding": "{word}"}}"#),
            FieldClass::Text(TextClass { length: Length::Static(0), encoding }),
        );
    }
    check(
        r#"{"type": "static-length-blob", "length": 18446744073709551615}"#,
        FieldClass::Blob(blob(Length::Static(u64::MAX))),
    );
    check(
        r#"{"type": "static-length-blob", "length": 5, "media-type": "image/tiff"}"#,
        FieldClass::Blob(BlobClass {
            media_type: Some("image/tiff".to_owned()),
            ..blob(Length::Static(5))
        }),
    );
    check_fails(
        r#"{"type": "static-length-string", "length": 1, "encoding": "utf-16"}"#,
        "encoding: `utf-16` is not known here (did you mean `utf-16be`?)",
    );
    check_fails(r#"{"type": "static-length-blob"}"#, "`length` is missing");
    check_fails(r#"{"type": "dynamic-length-blob"}"#, "`length-field-location` is missing");
}

/// Parses `class` as a payload member `f`, after an unsigned `n`, a signed `i` and a boolean `b`.
fn after_selectors(class: &str) -> Result<FieldClass, MetadataError> {
    let members = format!(
        r#"{{"name": "n", "field-class": {UNSIGNED_8}}},
            {{"name": "i", "field-class": {{"type": "variable-length-signed-integer"}}}},
            {{"name": "b", "field-class": {{"type": "fixed-length-boolean", "length": 8,
                "byte-order": "little-endian"}}}},
            {{"name": "f", "field-class": {class}}}"#
    );
    payload(&members).map(|mut members| members.remove(3).class)
}

#[track_caller]
fn check_selected(class: &str, expected: FieldClass) {
    assert_eq!(after_selectors(class).unwrap_or_else(|error| panic!("{error}")), expected);
}

#[track_caller]
fn check_selected_fails(class: &str, expected: &str) {
    let message = after_selectors(class).expect_err("no error").message;
    let way = "fragment 3 (event-record-class): payload-field-class: member-classes[3]: \
               field-class: ";
    assert_eq!(message.strip_prefix(way), Some(expected), "{message}");
}

#[test]
fn dynamic_lengths() {
    let length = || Length::Dynamic(field_ref(Scope::Payload, "n"));
    let class = |name: &str, more: &str| {
        format!(
            r#"{{"type": "dynamic-length-{name}", "length-field-location": {{"path": ["n"]}}{more}}}"#
        )
    };
    check_selected(
        &class("string", r#", "encoding": "utf-32be""#),
        FieldClass::Text(TextClass { length: length(), encoding: Encoding::Utf32Be }),
    );
    check_selected(
        &class("blob", r#", "media-type": "text/csv""#),
        FieldClass::Blob(BlobClass { media_type: Some("text/csv".to_owned()), ..blob(length()) }),
    );
    let element = format!(r#", "minimum-alignment": 64, "element-field-class": {UNSIGNED_8}"#);
    let array = ArrayClass { length: length(), element: int(unsigned(8)), align: 64 };
    check_selected(&class("array", &element), FieldClass::Array(Box::new(array)));
    check_selected_fails(
        &class("blob", "").replace(r#"["n"]"#, r#"["i"]"#),
        "length-field-location: the field there is not an unsigned integer",
    );
}

#[test]
fn structures_and_arrays() {
    check(r#"{"type": "structure"}"#, structure(Vec::new()));
    check(
        &format!(
            r#"{{"type": "structure", "minimum-alignment": 16, "member-classes": [
                {{"name": "b", "field-class": {UNSIGNED_8}, "attributes": {{}}}},
                {{"name": "a", "field-class": {{"type": "structure"}}}}]}}"#
        ),
        FieldClass::Struct(StructClass {
            members: vec![member("b", int(unsigned(8))), member("a", structure(Vec::new()))],
            align: 16,
        }),
    );
    let array = ArrayClass { length: Length::Static(3), element: int(unsigned(8)), align: 1 };
    let array = FieldClass::Array(Box::new(array));
    let class = format!(
        r#"{{"type": "static-length-array", "length": 3, "element-field-class": {UNSIGNED_8}}}"#
    );
    check(&class, array.clone());
    check(
        &class.replace(UNSIGNED_8, &class),
        FieldClass::Array(Box::new(ArrayClass {
            length: Length::Static(3),
            element: array,
            align: 1,
        })),
    );

    let twice = r#"{"type": "structure", "member-classes": [
        {"name": "a", "field-class": {"type": "structure"}},
        {"name": "a", "field-class": {"type": "structure"}}]}"#;
    check_fails(twice, "member-classes[1]: the structure has two members named `a`");
    check_fails(
        r#"{"type": "structure", "member-classes": [{"name": "a"}]}"#,
        "member-classes[0]: `field-class` is missing",
    );
    check_fails(
        r#"{"type": "structure", "member-classes": [{"field-class": "a"}]}"#,
        "member-classes[0]: `name` is missing",
    );
    check_fails(
        r#"{"type": "static-length-array", "length": 1}"#,
        "`element-field-class` is missing",
    );
    check_fails(
        r#"{"type": "structure", "minimum-alignment": 3}"#,
        "minimum-alignment: 3 is not a power of two",
    );
}

#[test]
fn depth() {
    let nested = |depth: usize| {
        let open = r#"{"type": "static-length-array", "length": 1, "element-field-class": "#;
        format!("{}{UNSIGNED_8}{}", open.repeat(depth), "}".repeat(depth))
    };
    let class = |depth| format!(r#"{{"name": "f", "field-class": {}}}"#, nested(depth));
    // The structure of the payload and the integer are two further levels.
    assert!(payload(&class(62)).is_ok());
    let error = payload(&class(63)).expect_err("no error").message;
    assert!(error.ends_with("field-class: field classes nest deeper than 64"), "{error}");
}

#[test]
fn optionals() {
    let class = |selector: &str, more: &str| {
        format!(
            r#"{{"type": "optional", "selector-field-location": {{"path": ["{selector}"]}},
                "field-class": {UNSIGNED_8}{more}}}"#
        )
    };
    let expected = |selector: &str, ranges: Option<&[(i128, i128)]>| {
        FieldClass::Optional(Box::new(OptionalClass {
            selector: field_ref(Scope::Payload, selector),
            ranges: ranges.map(|ranges| Ranges(ranges.to_vec())),
            content: int(unsigned(8)),
        }))
    };
    let ranges = r#", "selector-field-ranges": [[-12, -12], [15, 35]]"#;
    check_selected(&class("b", ""), expected("b", None));
    check_selected(&class("b", ranges), expected("b", None));
    check_selected(&class("n", ranges), expected("n", Some(&[(-12, -12), (15, 35)])));
    check_selected(&class("i", ranges), expected("i", Some(&[(-12, -12), (15, 35)])));
    check_selected_fails(
        &class("i", ""),
        "`selector-field-ranges` is missing: the selector is an integer",
    );
    let text = r#"{"type": "static-length-string", "length": 1}"#;
    let message = payload(&format!(
        r#"{{"name": "t", "field-class": {text}}}, {{"name": "f", "field-class": {}}}"#,
        class("t", "")
    ));
    assert_eq!(
        message.expect_err("no error").message,
        "fragment 3 (event-record-class): payload-field-class: member-classes[1]: field-class: \
         selector-field-location: the field there is neither a boolean nor an integer"
    );
}

#[test]
fn variants() {
    let class = |selector: &str, options: &str| {
        format!(
            r#"{{"type": "variant", "selector-field-location": {{"path": ["{selector}"]}},
                "options": [{options}]}}"#
        )
    };
    let option = |name: &str, ranges: &str| {
        format!(r#"{{{name} "selector-field-ranges": {ranges}, "field-class": {UNSIGNED_8}}}"#)
    };
    let two = [option(r#""name": "x","#, "[[0, 4], [2, 3]]"), option("", "[[-9, -1]]")].join(", ");
    let expected_option = |name: Option<&str>, ranges: &[(i128, i128)]| VariantOption {
        name: name.map(str::to_owned),
        ranges: Ranges(ranges.to_vec()),
        class: int(unsigned(8)),
    };
    for selector in ["n", "i"] {
        let expected = VariantClass {
            selector: field_ref(Scope::Payload, selector),
            options: vec![
                expected_option(Some("x"), &[(0, 4), (2, 3)]),
                expected_option(None, &[(-9, -1)]),
            ],
        };
        check_selected(&class(selector, &two), FieldClass::Variant(expected));
    }

    check_selected_fails(
        &class("b", &two),
        "selector-field-location: the field there is not an integer",
    );
    check_selected_fails(&class("n", ""), "options: a variant needs an option");
    check_selected_fails(&class("n", "{}"), "options[0]: `selector-field-ranges` is missing");
    let named = option(r#""name": "x","#, "[[0, 0]]");
    check_selected_fails(
        &class("n", &format!("{named}, {}", named.replace("0, 0", "1, 1"))),
        "options[1]: the variant has two options named `x`",
    );
    let overlapping = [option("", "[[5, 9], [1, 1]]"), option("", "[[3, 4], [7, 20]]")];
    check_selected_fails(
        &class("n", &overlapping.join(", ")),
        "options[1]: selector-field-ranges: 7 already selects an earlier option",
    );
}

/// Makes the fragments of a trace with `role` on the only member of a scope's structure.
fn with_role(scope: Scope, class: &str, role: &str, surroundings: [&str; 2]) -> Vec<String> {
    let [preamble, stream] = surroundings;
    let key = match scope {
        Scope::PacketHeader => "packet-header-field-class",
        Scope::PacketContext => "packet-context-field-class",
        Scope::EventHeader => "event-record-header-field-class",
        Scope::CommonContext => "event-record-common-context-field-class",
        Scope::SpecificContext => "specific-context-field-class",
        Scope::Payload => "payload-field-class",
    };
    let class = class.replace('}', &format!(r#", "roles": ["{role}"]}}"#));
    let root = format!(
        r#""{key}": {{"type": "structure", "member-classes": [
            {{"name": "f", "field-class": {class}}}]}}"#
    );
    let into = |fragment_type: &str, scopes: &[Scope]| {
        let root = if scopes.contains(&scope) { format!(", {root}") } else { String::new() };
        format!(r#"{{"type": "{fragment_type}"{root}"#)
    };
    vec![
        preamble.to_owned(),
        into("trace-class", &[Scope::PacketHeader]) + "}",
        r#"{"type": "clock-class", "id": "c"}"#.to_owned(),
        into(
            "data-stream-class",
            &[Scope::PacketContext, Scope::EventHeader, Scope::CommonContext],
        ) + stream
            + "}",
        into("event-record-class", &[Scope::SpecificContext, Scope::Payload]) + "}",
    ]
}

const UUID_PREAMBLE: &str = r#"{"type": "preamble", "version": 2,
    "uuid": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]}"#;
const CLOCK: &str = r#", "default-clock-class-id": "c""#;

fn only_member(schema: &Schema, scope: Scope) -> FieldClass {
    let stream = &schema.streams[0];
    let root = match scope {
        Scope::PacketHeader => &schema.trace.packet_header,
        Scope::PacketContext => &stream.packet_context,
        Scope::EventHeader => &stream.event_header,
        Scope::CommonContext => &stream.common_context,
        Scope::SpecificContext => &stream.events[0].specific_context,
        Scope::Payload => &stream.events[0].payload,
    };
    match root {
        Some(FieldClass::Struct(structure)) => structure.members[0].class.clone(),
        other => panic!("not a structure: {other:?}"),
    }
}

#[test]
fn roles() {
    use Scope::*;
    let unsigned_32 = UNSIGNED_8.replace("8", "32");
    let all = [PacketHeader, PacketContext, EventHeader, CommonContext, SpecificContext, Payload];
    for (name, role, scopes) in [
        ("packet-magic-number", Role::Magic, &[PacketHeader][..]),
        ("data-stream-class-id", Role::StreamClassId, &[PacketHeader]),
        ("data-stream-id", Role::StreamInstanceId, &[PacketHeader]),
        ("packet-total-length", Role::PacketSize, &[PacketContext]),
        ("packet-content-length", Role::ContentSize, &[PacketContext]),
        ("packet-sequence-number", Role::PacketSeqNum, &[PacketContext]),
        ("discarded-event-record-counter-snapshot", Role::EventsDiscarded, &[PacketContext]),
        ("packet-end-default-clock-timestamp", Role::PacketEnd, &[PacketContext]),
        ("default-clock-timestamp", Role::Timestamp, &[PacketContext, EventHeader]),
        ("event-record-class-id", Role::EventClassId, &[EventHeader]),
        ("metadata-stream-uuid", Role::Uuid, &[PacketHeader]),
    ] {
        for scope in all {
            let roles = if scopes.contains(&scope) { Roles::from(role) } else { Roles::NONE };
            let parse = |class: &str| {
                let fragments = with_role(scope, class, name, [UUID_PREAMBLE, CLOCK]);
                let fragments: Vec<&str> = fragments.iter().map(String::as_str).collect();
                let schema = parse_fragments(&fragments);
                only_member(&schema.unwrap_or_else(|error| panic!("{error}")), scope)
            };
            if role == Role::Uuid {
                let expected = BlobClass { roles, ..blob(Length::Static(16)) };
                let found = parse(r#"{"type": "static-length-blob", "length": 16}"#);
                assert_eq!(found, FieldClass::Blob(expected), "{name} {scope:?}");
                continue;
            }
            let is_timestamp = matches!(role, Role::Timestamp | Role::PacketEnd);
            let clock = Some(0).filter(|_| is_timestamp && !roles.is_empty());
            let expected = int(IntClass { roles, clock, ..unsigned(32) });
            assert_eq!(parse(&unsigned_32), expected, "{name} {scope:?}");
            if role != Role::Magic {
                let (base, mappings) = (Base::Decimal, None);
                let expected = VarIntClass { signed: false, base, mappings, roles };
                let found = parse(r#"{"type": "variable-length-unsigned-integer"}"#);
                assert_eq!(found, FieldClass::VarInt(expected), "{name} {scope:?}");
            }
        }
    }
}

#[test]
fn roles_gone_wrong() {
    let check = |scope, class: &str, role: &str, surroundings, expected: &str| {
        let fragments = with_role(scope, class, role, surroundings);
        let fragments: Vec<&str> = fragments.iter().map(String::as_str).collect();
        let message = error(&fragments);
        let (_, found) = message.split_once("roles: ").unwrap_or(("", &message));
        assert_eq!(found, format!("{role}: {expected}"));
    };
    let both = [UUID_PREAMBLE, CLOCK];
    let (header, context) = (Scope::PacketHeader, Scope::PacketContext);
    let signed = r#"{"type": "variable-length-signed-integer"}"#;
    let variable = r#"{"type": "variable-length-unsigned-integer"}"#;
    let blob = r#"{"type": "static-length-blob", "length": 16}"#;
    check(context, signed, "packet-total-length", both, "a signed integer cannot have a role");
    let magic = "packet-magic-number";
    check(header, variable, magic, both, "the magic number must have 32 fixed bits");
    check(header, UNSIGNED_8, magic, both, "the magic number must have 32 fixed bits");
    let uuid = "metadata-stream-uuid";
    check(header, UNSIGNED_8, uuid, both, "only a blob of 16 bytes can have this role");
    check(header, &blob.replace("16", "15"), uuid, both, "the field must have 16 bytes");
    check(header, blob, uuid, [PREAMBLE, CLOCK], "the preamble has no UUID");
    check(header, blob, "data-stream-id", both, "only an unsigned integer can have this role");
    for role in ["default-clock-timestamp", "packet-end-default-clock-timestamp"] {
        let no_clock = [PREAMBLE, ""];
        let expected = "the data stream class has no default clock class";
        check(context, variable, role, no_clock, expected);
    }

    let unsigned_32 = UNSIGNED_8.replace('8', "32").replace('}', r#", "roles": [ROLE]}"#);
    let trace = format!(
        r#"{{"type": "trace-class", "packet-header-field-class": {{"type": "structure",
            "member-classes": [{{"name": "a", "field-class": {UNSIGNED_8}}},
                {{"name": "b", "field-class": {}}}]}}}}"#,
        unsigned_32.replace("ROLE", r#""packet-magic-number""#)
    );
    check_error(
        &[PREAMBLE, &trace],
        "fragment 2 (trace-class): packet-header-field-class: member-classes[1]: field-class: \
         roles: packet-magic-number: the magic number must come first in the packet header",
    );
    let wide = UNSIGNED_8.replace('8', "128").replace('}', r#", "alignment": 8}"#);
    let fragments = with_role(context, &wide, "packet-total-length", both);
    let fragments: Vec<&str> = fragments.iter().map(String::as_str).collect();
    check_error(
        &fragments,
        "fragment 4 (data-stream-class): packet-context-field-class: member-classes[0]: \
         field-class: 128 bits are too many for a role",
    );
}

fn alias(name: &str, class: &str) -> String {
    format!(r#"{{"type": "field-class-alias", "name": "{name}", "field-class": {class}}}"#)
}

#[test]
fn aliases() {
    let array = r#"{"type": "static-length-array", "length": 2, "element-field-class": "u8"}"#;
    let aliases = [alias("u8", UNSIGNED_8), alias("byte", r#""u8""#), alias("pair", array)];
    let members = r#"{"name": "a", "field-class": "byte"}, {"name": "b", "field-class": "pair"}"#;
    let root = alias("root", &format!(r#"{{"type": "structure", "member-classes": [{members}]}}"#));
    let event = r#"{"type": "event-record-class", "payload-field-class": "root"}"#;
    let fragments = [PREAMBLE, &aliases[0], &aliases[1], &aliases[2], &root, STREAM, event];
    let schema = parse_fragments(&fragments).unwrap();
    let pair = ArrayClass { length: Length::Static(2), element: int(unsigned(8)), align: 1 };
    let expected = structure(vec![
        member("a", int(unsigned(8))),
        member("b", FieldClass::Array(Box::new(pair))),
    ]);
    assert_eq!(schema.streams[0].events[0].payload, Some(expected));

    check_error(
        &[PREAMBLE, &aliases[1], &aliases[0]],
        "fragment 2 (field-class-alias): field-class: \
         no field class alias `u8` is declared before this",
    );
    check_error(
        &[PREAMBLE, &alias("me", r#""me""#)],
        "fragment 2 (field-class-alias): field-class: \
         no field class alias `me` is declared before this",
    );
    check_error(
        &[PREAMBLE, &aliases[0], &aliases[0]],
        "fragment 3 (field-class-alias): the alias `u8` is declared twice",
    );
    // The declaration of an alias is checked even if the alias is not used.
    check_error(
        &[PREAMBLE, &alias("bad", r#"{"type": "static-length-blob"}"#)],
        "fragment 2 (field-class-alias): field-class: `length` is missing",
    );
    check_error(
        &[PREAMBLE, &aliases[0], STREAM, &event.replace("root", "u8")],
        "fragment 4 (event-record-class): payload-field-class: \
         the field class of a scope must be a structure",
    );
}

#[test]
fn aliases_cannot_explode() {
    // Each level contains the level below twice.
    let doubled = |deepest: &str, levels: usize| {
        let mut fragments = vec![PREAMBLE.to_owned(), alias("a0", deepest)];
        for level in 1..=levels {
            let below = level - 1;
            let members = format!(
                r#"{{"name": "x", "field-class": "a{below}"}},
                    {{"name": "y", "field-class": "a{below}"}}"#
            );
            let class = format!(r#"{{"type": "structure", "member-classes": [{members}]}}"#);
            fragments.push(alias(&format!("a{level}"), &class));
        }
        fragments.push(STREAM.to_owned());
        let payload = format!(r#""payload-field-class": "a{levels}""#);
        fragments.push(format!(r#"{{"type": "event-record-class", {payload}}}"#));
        fragments
    };
    let message = |fragments: Vec<String>| {
        let fragments: Vec<&str> = fragments.iter().map(String::as_str).collect();
        error(&fragments)
    };
    let many = message(doubled(UNSIGNED_8, 25));
    let memory = ": its types, fields and labels would take more than 12 MiB of memory";
    assert!(many.contains(memory), "{many}");
    // There are few classes, but the innermost one has a long text.
    let filling = format!(r#", "attributes": "{}"}}"#, "x".repeat(1 << 20));
    let long = UNSIGNED_8.replace('}', &filling);
    let much = message(doubled(&long, 10));
    assert!(much.ends_with(": aliases expand to more than 268435456 bytes"), "{much}");
    let chain = message(doubled(UNSIGNED_8, 40));
    assert!(chain.ends_with("field classes nest deeper than 64"), "{chain}");
}

//! Tests of the written text, and of errors for schemas that cannot be written.

use super::{TRACE, parse, write};
use crate::schema::{ArrayClass, ClockOrigin, Encoding, FloatClass};
use crate::schema::{
    Base, BitOrder, Bits, BlobClass, ByteOrder, EnvValue, FieldClass, FieldRef, IntClass, IntKind,
    Length, Mapping, Member, OptionalClass, Ranges, Role, Roles, Schema, Scope, StreamClass,
    StringClass, StructClass, TextClass, VarIntClass, VariantClass, VariantOption,
};
use crate::tsdl::{WriteProgress, write_additions};

fn int(change: impl FnOnce(&mut IntClass)) -> FieldClass {
    let bit_order = ByteOrder::Little.usual_bit_order();
    let mut int = IntClass {
        bits: Bits { size: 8, align: 8, byte_order: ByteOrder::Little, bit_order },
        kind: IntKind::Unsigned,
        base: Base::Decimal,
        mappings: None,
        roles: Roles::NONE,
        clock: None,
    };
    change(&mut int);
    FieldClass::Int(int)
}

fn string(encoding: Encoding) -> FieldClass {
    FieldClass::String(StringClass { encoding })
}

fn structure(members: Vec<(&str, FieldClass)>) -> FieldClass {
    let members = members.into_iter();
    let members = members.map(|(name, class)| Member { name: name.to_owned(), class }).collect();
    FieldClass::Struct(StructClass { members, align: 1 })
}

fn field(scope: Scope, path: &str) -> FieldRef {
    FieldRef { scope, path: path.split('.').map(str::to_owned).collect() }
}

/// Makes the schema of a trace with one event, and applies `change` to it.
fn schema(change: impl FnOnce(&mut Schema)) -> Schema {
    let text = format!("{TRACE} clock {{ name = c; }}; event {{ name = e; }};");
    let mut schema = parse(&text).unwrap();
    change(&mut schema);
    schema
}

/// Returns the lines written for the members of a payload, or the error message.
fn payload(members: Vec<(&str, FieldClass)>) -> String {
    let schema = schema(|schema| {
        schema.streams[0].events[0].payload = Some(structure(members));
    });
    match write(&schema) {
        Err(error) => error.to_string(),
        Ok(text) => {
            assert_eq!(parse(&text), Ok(schema), "{text}");
            let (_, fields) = text.split_once("fields := struct {\n").unwrap();
            let (fields, _) = fields.rsplit_once("\n\t};").unwrap();
            fields.replace("\n\t\t", "\n").trim_start_matches('\t').to_owned()
        }
    }
}

/// Checks the text of a single field named `x`.
#[track_caller]
fn check(class: FieldClass, expected: &str) {
    assert_eq!(payload(vec![("x", class)]), expected);
}

#[track_caller]
fn check_refused(class: FieldClass, expected: &str) {
    assert_eq!(payload(vec![("x", class)]), format!("event.fields.x of event `e`: {expected}"));
}

#[test]
fn numbers_say_everything() {
    check(
        int(|_| ()),
        "integer { size = 8; align = 8; signed = false; encoding = none; base = 10; } _x;",
    );
    check(
        int(|int| {
            int.bits = Bits {
                size: 5,
                align: 1,
                byte_order: ByteOrder::Big,
                bit_order: BitOrder::LastToFirst,
            };
            int.kind = IntKind::Signed;
            int.base = Base::Hexadecimal;
        }),
        "integer { size = 5; align = 1; signed = true; encoding = none; base = 16; \
         byte_order = be; } _x;",
    );
    let label = |label: &str, ranges: &[(i128, i128)]| Mapping {
        label: label.to_owned(),
        ranges: Ranges(ranges.to_vec()),
    };
    check(
        int(|int| {
            int.mappings =
                Some([label("a \"b\"\n\u{1}é", &[(1, 2), (9, 9)]), label("c", &[(0, 0)])].into());
        }),
        "enum : integer { size = 8; align = 8; signed = false; encoding = none; base = 10; } \
         { \"a \\\"b\\\"\\n\\001é\" = 1 ... 2, \"a \\\"b\\\"\\n\\001é\" = 9, \"c\" = 0, } _x;",
    );
    let bits = Bits {
        size: 64,
        align: 32,
        byte_order: ByteOrder::Little,
        bit_order: BitOrder::FirstToLast,
    };
    check(
        FieldClass::Float(FloatClass { bits, exponent: 11, mantissa: 53 }),
        "floating_point { exp_dig = 11; mant_dig = 53; align = 32; } _x;",
    );
}

#[test]
fn strings_and_arrays() {
    check(string(Encoding::Utf8), "string _x;");
    check(string(Encoding::Ascii), "string { encoding = ASCII; } _x;");
    let text = |encoding| FieldClass::Text(TextClass { length: Length::Static(4), encoding });
    check(
        text(Encoding::Ascii),
        "integer { size = 8; align = 8; signed = false; encoding = ASCII; base = 10; } _x[4];",
    );
    let array = |element, length| {
        FieldClass::Array(Box::new(ArrayClass {
            length: Length::Static(length),
            element,
            align: 1,
        }))
    };
    check(array(array(string(Encoding::Utf8), 3), 2), "string _x[2][3];");
    check(
        array(text(Encoding::Utf8), 2),
        "integer { size = 8; align = 8; signed = false; encoding = UTF8; base = 10; } _x[2][4];",
    );
    check(
        array(structure(vec![("a", string(Encoding::Utf8))]), 2),
        "struct {\n\tstring _a;\n} _x[2];",
    );
    check_refused(string(Encoding::Utf16Le), "text encoded as Utf16Le");
    check_refused(text(Encoding::Utf32Be), "text encoded as Utf32Be");
}

#[test]
fn names_are_escaped() {
    let names = |names: &[&str]| {
        let text = payload(names.iter().map(|name| (*name, string(Encoding::Utf8))).collect());
        text.replace("string ", "").replace(";\n", " ")
    };
    assert_eq!(names(&["a", "int", "_b", "1c", "é"]), "_a _int __b _1c _\\u00e9;");
    assert_eq!(names(&["a", "_a"]), "a __a;");
    assert_eq!(names(&["_a", "a", "__a"]), "__a a ___a;");
    assert_eq!(names(&["_a", "___a"]), "__a ____a;");
    assert_eq!(names(&["_a", "__a"]), "__a ___a;");
    assert_eq!(names(&["int", "_int"]), "_int __int;");
    assert_eq!(names(&["a", "_a", "__a"]), "a __a ___a;");
    let refused =
        |name| format!("event.fields of event `e`: `{name}` cannot be the name of a field");
    assert_eq!(names(&["a b"]), refused("a b"));
    assert_eq!(names(&["a-b"]), refused("a-b"));
    assert_eq!(names(&[""]), refused(""));
    assert_eq!(names(&["a", "a"]), refused("a"));
}

#[test]
fn header_names_are_escaped_only_where_they_would_mislead() {
    let role = |role: Role| int(|int| int.roles = role.into());
    let schema = schema(|schema| {
        schema.trace.packet_header = Some(structure(vec![
            ("stream_id", role(Role::StreamClassId)),
            ("stream_instance_id", int(|_| ())),
            ("uuid", string(Encoding::Utf8)),
            ("trace", string(Encoding::Utf8)),
            ("id", int(|_| ())),
        ]));
        schema.streams[0].packet_context = Some(structure(vec![
            ("timestamp_begin", int(|_| ())),
            ("content_size", role(Role::ContentSize)),
            ("packet_size", string(Encoding::Utf8)),
            ("_x", int(|_| ())),
            ("cpu_id", int(|_| ())),
        ]));
        schema.streams[0].event_header = Some(structure(vec![
            ("id", role(Role::EventClassId)),
            ("timestamp", int(|_| ())),
            ("s", structure(vec![("id", int(|_| ())), ("timestamp", int(|_| ()))])),
        ]));
    });
    let text = write(&schema).unwrap();
    assert_eq!(parse(&text), Ok(schema), "{text}");
    let names: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("\t\t"))
        .filter_map(|line| line.rsplit([' ', '\t']).next())
        .collect();
    assert_eq!(
        names.join(" "),
        "stream_id; _stream_instance_id; _uuid; _trace; id; \
         _timestamp_begin; content_size; _packet_size; __x; cpu_id; \
         id; _timestamp; { _id; _timestamp; s;"
    );
}

#[test]
fn roles_must_follow_from_names_and_clocks() {
    check_refused(
        int(|int| int.roles = Role::Magic.into()),
        "its roles are {Magic}, but its name and clock say {}",
    );
    check_refused(
        int(|int| int.roles = Role::Timestamp.into()),
        "its roles are {Timestamp}, but its name and clock say {}",
    );
    // Timestamps without a clock get the stream's clock.
    let mut schema = schema(|schema| {
        schema.streams[0].clock = Some(0);
        let stamp = int(|int| int.roles = Role::Timestamp.into());
        schema.streams[0].event_header = Some(structure(vec![("timestamp", stamp)]));
    });
    let parsed = parse(&write(&schema).unwrap()).unwrap();
    let stamp = int(|int| {
        int.roles = Role::Timestamp.into();
        int.clock = Some(0);
    });
    schema.streams[0].event_header = Some(structure(vec![("timestamp", stamp)]));
    assert_eq!(parsed, schema);
}

#[test]
fn what_only_ctf_2_knows_is_refused() {
    check_refused(int(|int| int.kind = IntKind::Bool), "boolean");
    check_refused(int(|int| int.kind = IntKind::BitArray), "array of bits");
    check_refused(int(|int| int.kind = IntKind::BitMap), "map of bits");
    check_refused(int(|int| int.bits.size = 65), "integer of 65 bits");
    check_refused(int(|int| int.bits.align = 3), "alignment 3 is no power of two");
    check_refused(
        int(|int| int.bits.bit_order = BitOrder::LastToFirst),
        "bit order that does not go with the byte order",
    );
    check_refused(int(|int| int.mappings = Some([].into())), "enumeration without labels");
    let (signed, base, mappings, roles) = (false, Base::Decimal, None, Roles::NONE);
    let var_int = VarIntClass { signed, base, mappings, roles };
    check_refused(FieldClass::VarInt(var_int), "variable-length integer");
    let content = string(Encoding::Utf8);
    let selector = field(Scope::Payload, "x");
    let optional = OptionalClass { selector, ranges: None, content };
    check_refused(FieldClass::Optional(Box::new(optional)), "optional field");
    let blob =
        |length| FieldClass::Blob(BlobClass { length, media_type: None, roles: Roles::NONE });
    check_refused(blob(Length::Static(8)), "bytes that are neither a UUID nor a wide integer");
    check(blob(Length::Static(9)), "integer { size = 72; align = 8; signed = false; } _x;");
    let element = int(|_| ());
    let array = ArrayClass { length: Length::Static(1), element, align: 16 };
    check_refused(FieldClass::Array(Box::new(array)), "array aligned on 16 bits");
}

/// Returns the text written for the tag `t` and a variant with one option, or the error. The tag
/// is an integer with the labels `a` = 1 and `int` = 2.
fn variant(label: Option<&str>, values: (i128, i128)) -> String {
    let tag = int(|int| {
        let labels = [("a", 1), ("int", 2)].map(|(label, value)| Mapping {
            label: label.to_owned(),
            ranges: Ranges(vec![(value, value)]),
        });
        int.mappings = Some(labels.into());
    });
    let option = VariantOption {
        name: label.map(str::to_owned),
        ranges: Ranges(vec![values]),
        class: string(Encoding::Utf8),
    };
    let selector = field(Scope::Payload, "t");
    let variant = FieldClass::Variant(VariantClass { selector, options: vec![option] });
    payload(vec![("t", tag), ("x", variant)])
}

#[test]
fn variants_need_labels() {
    let written = variant(Some("a"), (1, 1));
    assert!(written.ends_with("variant <_t> {\n\tstring a;\n} _x;"), "{written}");
    let refused = |label, values| {
        let message = variant(label, values);
        message.strip_prefix("event.fields.x of event `e`: ").unwrap_or(&message).to_owned()
    };
    assert_eq!(refused(Some("a"), (1, 2)), "option `a` has other values than its tag's label");
    assert_eq!(refused(Some("b"), (1, 1)), "option `b` has other values than its tag's label");
    assert_eq!(refused(None, (1, 1)), "option `` has other values than its tag's label");
    assert_eq!(refused(Some("int"), (2, 2)), "`int` cannot be the name of an option");
    let selector = field(Scope::Payload, "t");
    let plain = FieldClass::Variant(VariantClass { selector, options: vec![] });
    assert_eq!(
        payload(vec![("t", int(|_| ())), ("x", plain)]),
        "event.fields.x of event `e`: it depends on event.fields.t, not an enumeration"
    );
}

/// Returns the written length of the array `x`, or the error message.
fn length_of(members: Vec<(&str, FieldClass)>) -> String {
    let text = payload(members);
    match text.rsplit_once("_x[") {
        Some((_, rest)) => rest.split(']').next().unwrap().to_owned(),
        None => text,
    }
}

fn sequence(path: &str) -> FieldClass {
    let length = Length::Dynamic(field(Scope::Payload, path));
    FieldClass::Array(Box::new(ArrayClass { length, element: string(Encoding::Utf8), align: 1 }))
}

#[test]
fn references_are_as_short_as_they_can_be() {
    let n = || ("n", int(|_| ()));
    assert_eq!(length_of(vec![n(), ("x", sequence("n"))]), "_n");
    assert_eq!(length_of(vec![n(), ("s", structure(vec![("x", sequence("n"))]))]), "_n");
    assert_eq!(length_of(vec![("s", structure(vec![n(), ("x", sequence("s.n"))]))]), "_n");
    // An inner field of the same name hides the outer one.
    assert_eq!(
        length_of(vec![n(), ("s", structure(vec![n(), ("x", sequence("n"))]))]),
        "event.fields._n"
    );
    assert_eq!(length_of(vec![n(), ("s", structure(vec![("x", sequence("n")), n()]))]), "_n");
    assert_eq!(
        length_of(vec![("s", structure(vec![n()])), ("x", sequence("s.n"))]),
        "event.fields._s._n"
    );
    let refused = "event.fields.x of event `e`: it depends on event.fields";
    assert_eq!(length_of(vec![("x", sequence("n"))]), format!("{refused}.n, which is no integer"));
    let signed = int(|int| int.kind = IntKind::Signed);
    assert_eq!(
        length_of(vec![("n", signed), ("x", sequence("n"))]),
        format!("{refused}.n, not an unsigned integer")
    );
}

#[test]
fn blocks() {
    let mut schema = schema(|schema| {
        schema.trace.byte_order = ByteOrder::Big;
        schema.trace.uuid = Some("2a6422d0-6cee-11e0-8c08-cb07d7b3a564".parse().unwrap());
        schema.trace.env = vec![
            ("a".to_owned(), EnvValue::Int(i64::MIN)),
            ("int".to_owned(), EnvValue::Str("\\".to_owned())),
        ];
        schema.clocks[0].origin = ClockOrigin::UnixEpoch;
        schema.clocks[0].offset_seconds = -1;
        schema.clocks[0].offset_cycles = 5;
        schema.streams[0].events[0].log_level = Some(14);
        schema.streams[0].events[0].emf_uri = Some("http://x".to_owned());
    });
    let text = write(&schema).unwrap();
    assert_eq!(parse(&text).as_ref(), Ok(&schema));
    assert_eq!(
        text,
        "/* CTF 1.8 */

trace {
\tmajor = 1;
\tminor = 8;
\tuuid = \"2a6422d0-6cee-11e0-8c08-cb07d7b3a564\";
\tbyte_order = be;
};

env {
\ta = -9223372036854775808;
\t\"int\" = \"\\\\\";
};

clock {
\tname = \"c\";
\tfreq = 1000000000;
\toffset_s = -1;
\toffset = 5;
\tabsolute = TRUE;
};

stream {
};

event {
\tname = \"e\";
\tid = 0;
\tstream_id = 0;
\tloglevel = 14;
\tmodel.emf.uri = \"http://x\";
};
"
    );
    // Cycles are normalised, because babeltrace2 cannot read negative ones.
    schema.clocks[0].offset_cycles = -5;
    assert!(write(&schema).unwrap().contains("offset_s = -2;\n\toffset = 999999995;\n"));
    schema.clocks[0].frequency = 0;
    assert_eq!(write(&schema).unwrap_err().to_string(), "clock `c`: its frequency is none");
    schema.streams[0].event_header = Some(string(Encoding::Utf8));
    schema.clocks.clear();
    assert_eq!(
        write(&schema).unwrap_err().to_string(),
        "stream.event.header of stream 0: not a structure"
    );
}

/// Streams and events that are added during a recording are appended; text written earlier stays
/// valid.
#[test]
fn what_is_added_later_is_written_behind() {
    let byte = "integer { size = 8; align = 8; }";
    let stream = format!("event.header := struct {{ {byte} id; {byte} n; }};");
    let mut text = format!(
        "/* CTF 1.8 */ trace {{ major = 1; minor = 8; byte_order = le;
         packet.header := struct {{ {byte} stream_id; }}; }};
         stream {{ id = 0; {stream} }}; stream {{ id = 1; {stream} }};"
    );
    for (stream, id) in [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)] {
        text.push_str(&format!(
            "event {{ name = e; stream_id = {stream}; id = {id};
             fields := struct {{ {byte} a[stream.event.header.n]; }}; }};"
        ));
    }
    let full = parse(&text).unwrap();
    let mut grown = full.clone();
    grown.streams.truncate(1);
    grown.streams[0].events.truncate(1);
    let mut written = WriteProgress::default();
    let mut text = write_additions(&grown, &mut written).unwrap();
    assert_eq!(text, write(&grown).unwrap());
    assert_eq!(write_additions(&grown, &mut written).unwrap(), "");
    let steps = [(0, 2), (1, 1), (0, 4), (1, 2)];
    for (stream, events) in steps {
        if grown.streams.len() == stream {
            grown.streams.push(StreamClass { events: vec![], ..full.streams[stream].clone() });
        }
        grown.streams[stream].events = full.streams[stream].events[..events].to_vec();
        text.push_str(&write_additions(&grown, &mut written).unwrap());
        assert_eq!(parse(&text), Ok(grown.clone()), "{text}");
    }
    assert_eq!(grown, full);
}

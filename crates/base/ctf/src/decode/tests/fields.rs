//! Tests of each field class, from hand-written bytes.

use super::*;

#[test]
fn events_share_the_nodes_of_their_common_context() {
    let metadata = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; };
        typealias integer { size = 8; align = 8; } := u8;
        stream {
            event.header := struct { u8 id; };
            event.context := struct { u8 n; u8 s[n]; integer { size = 4; } bits; };
        };
        event { name = a; id = 0; fields := struct { u8 x; }; };
        event { name = b; id = 1; fields := struct { integer { size = 4; } y; }; };";
    let decoder = decoder(metadata);
    // Nodes: the context with three members and one element, and for each event a scope and a
    // member.
    assert_eq!(decoder.nodes().len(), 5 + 2 * 2);
    let check = |hex: &str, expected: &str| {
        let bytes = bytes(hex);
        let machine = &mut decoder.machine();
        let (text, end) = event(&decoder, View::whole(&bytes), 0, machine).expect("an event");
        assert_eq!((text.as_str(), end.div_ceil(8)), (expected, bytes.len() as u64));
    };
    check("00 01 07 05 09", "event-record-common-context{n=1 s=1[7] bits=5} x=9");
    check("01 00 65", "event-record-common-context{n=0 s=0[] bits=5} y=6");
}

/// Makes metadata with the integer types that the tests use, and one stream whose events have no
/// header.
fn metadata(order: &str, fields: &str) -> String {
    format!(
        "/* CTF 1.8 */ trace {{ major = 1; minor = 8; byte_order = {order}; }};
        typealias integer {{ size = 8; align = 8; }} := u8;
        typealias integer {{ size = 16; align = 8; }} := u16;
        typealias integer {{ size = 32; align = 8; }} := u32;
        typealias integer {{ size = 64; align = 8; }} := u64;
        typealias integer {{ size = 8; align = 8; encoding = UTF8; }} := utf8;
        typealias integer {{ size = 3; align = 1; }} := bits3;
        stream {{ }}; event {{ name = e; fields := struct {{ {fields} }}; }};"
    )
}

/// Decodes one event from `hex`, and checks the text of its fields. The event must use all bytes,
/// the last one at least in part, and must be incomplete in each shorter view.
#[track_caller]
fn check_in(order: &str, fields: &str, hex: &str, expected: &str) {
    check_metadata(&metadata(order, fields), hex, expected);
}

#[track_caller]
fn check_metadata(metadata: &str, hex: &str, expected: &str) {
    let decoder = decoder(metadata);
    let bytes = bytes(hex);
    let (text, end) =
        event(&decoder, View::whole(&bytes), 0, &mut decoder.machine()).expect("an event");
    assert_eq!(text, expected);
    assert_eq!(end.div_ceil(8), bytes.len() as u64, "all bytes are used");
    // Each shorter view is reported as too short.
    for length in 0..bytes.len() {
        let view = View::whole(&bytes[..length]);
        assert_eq!(
            event(&decoder, view, 0, &mut decoder.machine()),
            Err(Stop::Incomplete),
            "{length}"
        );
    }
}

#[track_caller]
fn check(fields: &str, hex: &str, expected: &str) {
    check_in("le", fields, hex, expected);
}

#[track_caller]
fn check_be(fields: &str, hex: &str, expected: &str) {
    check_in("be", fields, hex, expected);
}

/// Checks an event of a CTF 2 trace with one stream whose events have no header.
#[track_caller]
fn check_json(members: &[(&str, &str)], hex: &str, expected: &str) {
    let members: Vec<String> = members
        .iter()
        .map(|(name, class)| format!(r#"{{"name": "{name}", "field-class": {{ {class} }} }}"#))
        .collect();
    let metadata = format!(
        "\u{1e}{{\"type\": \"preamble\", \"version\": 2}}
        \u{1e}{{\"type\": \"data-stream-class\"}}
        \u{1e}{{\"type\": \"event-record-class\", \"payload-field-class\":
            {{\"type\": \"structure\", \"member-classes\": [ {} ]}} }}",
        members.join(", ")
    );
    check_metadata(&metadata, hex, expected);
}

#[test]
fn integers_of_whole_bytes() {
    check(
        "u8 a; u16 b; u32 c; u64 d;",
        "01 0201 04030201 0807060504030201",
        "a=1 b=258 c=16909060 d=72623859790382856",
    );
    check_be(
        "u8 a; u16 b; u32 c; u64 d;",
        "01 0102 01020304 0102030405060708",
        "a=1 b=258 c=16909060 d=72623859790382856",
    );
    check("integer { size = 16; align = 8; byte_order = be; } a;", "0102", "a=258");
    check_be("integer { size = 16; align = 8; byte_order = le; } a;", "0102", "a=513");
    check("integer { size = 24; align = 8; } a; u8 b;", "030201 07", "a=66051 b=7");
    check_be("integer { size = 24; align = 8; } a; u8 b;", "010203 07", "a=66051 b=7");
}

#[test]
fn signed_integers() {
    let fields = "integer { size = 8; align = 8; signed = true; } a;
        integer { size = 16; align = 8; signed = true; } b;
        integer { size = 64; align = 8; signed = true; } c;
        integer { size = 4; align = 1; signed = true; } d;
        integer { size = 1; align = 1; signed = true; } e;";
    check(fields, "ff 0080 feffffffffffffff 18", "a=-1 b=-32768 c=-2 d=-8 e=-1");
    check_be(fields, "7f 8000 fffffffffffffffe 88", "a=+127 b=-32768 c=-2 d=-8 e=-1");
}

#[test]
fn integers_across_bytes() {
    // Little-endian fields start at the low bits of a byte: 101, then 13 bits.
    check("bits3 a; integer { size = 13; align = 1; } b;", "05 01", "a=5 b=32");
    check("bits3 a; integer { size = 13; align = 1; } b;", "fd ff", "a=5 b=8191");
    check("bits3 a; integer { size = 64; align = 1; } b;", "0d 00000000000000 00", "a=5 b=1");
    check(
        "bits3 a; integer { size = 64; align = 1; } b;",
        "05 00000000000000 04",
        "a=5 b=9223372036854775808",
    );
    // Big-endian fields start at the high bits of a byte.
    check_be("bits3 a; integer { size = 13; align = 1; } b;", "a0 01", "a=5 b=1");
    check_be("bits3 a; integer { size = 64; align = 1; } b;", "a0 00000000000000 20", "a=5 b=1");
    check_be("bits3 a; integer { size = 5; align = 1; } b; u8 c;", "a1 07", "a=5 b=1 c=7");
}

#[test]
fn alignment() {
    check("u8 a; integer { size = 32; align = 32; } b;", "01 ffffff 02000000", "a=1 b=2");
    check("bits3 a; u8 b;", "05 07", "a=5 b=7");
    check("bits3 a; integer { size = 4; align = 4; } b;", "f5", "a=5 b=15");
    check(
        "u8 a; struct { u8 x; integer { size = 16; align = 16; } y; } b;",
        "01ff 02ff 0300",
        "a=1 b={x=2 y=3}",
    );
    check("u8 a; struct { u8 x; } align(32) b; u8 c;", "01ffffff 02 03", "a=1 b={x=2} c=3");
    check("u8 n; integer { size = 16; align = 16; } a[n]; u8 b;", "00ff 07", "n=0 a=0[] b=7");
}

#[test]
fn floats() {
    let single = "floating_point { exp_dig = 8; mant_dig = 24; align = 8; } a;";
    check(single, "0000c03f", "a=1.5");
    check_be(single, "3fc00000", "a=1.5");
    let double = "floating_point { exp_dig = 11; mant_dig = 53; align = 8; } a;";
    check(double, "00000000000002c0", "a=-2.25");
    check_be(double, "fff0000000000000", "a=-inf");
    // The single-precision number again, after three bits.
    let single = "bits3 p; floating_point { exp_dig = 8; mant_dig = 24; align = 1; } a;";
    check(single, "05 00 00 fe 01", "p=5 a=1.5");
    check_be(single, "a7 f8 00 00 00", "p=5 a=1.5");
}

#[test]
fn strings() {
    check("string a; string b;", "6869 00 00", r#"a="hi" b="""#);
    check("bits3 p; string a;", "05 6869 00", r#"p=5 a="hi""#);
    check("string a; bits3 p; string b;", "ff 00 05 c3bc 00", r#"a="\xff" p=5 b="\xc3\xbc""#);
    check("utf8 a[4];", "68690061", r#"a="hi""#);
    check("utf8 a[2]; u8 b;", "6869 07", r#"a="hi" b=7"#);
    check("u8 n; utf8 a[n]; u8 b;", "03 616263 07", r#"n=3 a="abc" b=7"#);
    check("u8 n; utf8 a[n]; u8 b;", "00 07", r#"n=0 a="" b=7"#);
    check("bits3 n; utf8 a[n];", "02 6162", r#"n=2 a="ab""#);
    // This string is so long that the search for its end needs several steps.
    let (hex, text) = ("61".repeat(100) + "00 07", "a".repeat(100));
    check("string a; u8 b;", &hex, &format!(r#"a="{text}" b=7"#));
}

#[test]
fn arrays() {
    check("u16 a[2];", "0100 0200", "a=2[1 2]");
    check("u8 a[2][3];", "010203 040506", "a=2[3[1 2 3] 3[4 5 6]]");
    check("u8 n; u16 a[n];", "02 0100 0200", "n=2 a=2[1 2]");
    check("bits3 p; integer { size = 5; align = 1; } a[3];", "0d 02 00", "p=5 a=3[1 2 0]");
    check(
        "u8 n; struct { u8 m; u8 b[m]; } a[n];",
        "02 01 07 02 0809",
        "n=2 a=2[{m=1 b=1[7]} {m=2 b=2[8 9]}]",
    );
    check("struct { } a[3]; u8 b;", "07", "a=3[{} {} {}] b=7");
    check("string a[2];", "6100 00", r#"a=2["a" ""]"#);
    check("u8 a[0]; u8 b;", "07", "a=0[] b=7");
    check("u8 n; u8 a[n][2];", "02 0102 0304", "n=2 a=2[2[1 2] 2[3 4]]");
}

#[test]
fn variants() {
    let fields = "enum : u8 { a, b = 5 ... 7 } t; variant <t> { u8 a; string b; } v; u8 after;";
    check(fields, "00 01 07", "t=0 v=0<a=1> after=7");
    check(fields, "06 6100 07", r#"t=6 v=1<b="a"> after=7"#);
    let signed =
        "enum : integer { size = 8; align = 8; signed = true; } { minus = -5 ... -1, zero = 0 } t;
        variant <t> { u8 minus; u16 zero; } v;";
    check(signed, "fb 01", "t=-5 v=0<minus=1>");
    check(signed, "00 0100", "t=+0 v=1<zero=1>");
    check("enum : bits3 { a, b } t; variant <t> { u8 a; bits3 b; } v;", "09", "t=1 v=1<b=1>");
}

#[test]
fn selector_that_no_option_has() {
    let fields = "enum : u8 { a, b } t; variant <t> { u8 a; u8 b; } v;";
    let decoder = decoder(&metadata("le", fields));
    let result = event(&decoder, View::whole(&[9, 1]), 0, &mut decoder.machine());
    let Err(Stop::Invalid(error)) = result else { panic!("{result:?}") };
    assert_eq!(error.kind, DecodeErrorKind::NoOption(9));
    assert_eq!(error.at_bits, 8);
}

const U8: &str =
    r#""type": "fixed-length-unsigned-integer", "length": 8, "byte-order": "little-endian""#;
const BIT: &str =
    r#""type": "fixed-length-unsigned-integer", "length": 1, "byte-order": "little-endian""#;

#[test]
fn variable_length_integers() {
    let unsigned = ("a", r#""type": "variable-length-unsigned-integer""#);
    let signed = ("a", r#""type": "variable-length-signed-integer""#);
    for (hex, expected) in [
        ("00", "a=0"),
        ("7f", "a=127"),
        ("8001", "a=128"),
        ("e58e26", "a=624485"),
        ("8000", "a=0"),
        ("ffffffffffffffffff01", "a=18446744073709551615"),
    ] {
        check_json(&[unsigned], hex, expected);
    }
    for (hex, expected) in [
        ("00", "a=+0"),
        ("7f", "a=-1"),
        ("3f", "a=+63"),
        ("40", "a=-64"),
        ("c0bb78", "a=-123456"),
        ("ff7f", "a=-1"),
        ("8080808080808080807f", "a=-9223372036854775808"),
        ("ffffffffffffffffff00", "a=+9223372036854775807"),
    ] {
        check_json(&[signed], hex, expected);
    }
    check_json(&[("p", BIT), unsigned], "01 8001", "p=1 a=128");
}

#[test]
fn booleans_and_bits() {
    let boolean = r#""type": "fixed-length-boolean", "length": 3, "byte-order": "little-endian""#;
    check_json(&[("a", boolean), ("b", boolean)], "20", "a=0 b=4");
    let map = r#""type": "fixed-length-bit-map", "length": 4, "byte-order": "big-endian", "flags": { "x": [[0, 1]] }"#;
    check_json(&[("a", map)], "70", "a=7");
    let reversed = r#""type": "fixed-length-bit-array", "length": 4, "byte-order": "little-endian", "bit-order": "last-to-first""#;
    check_json(&[("a", reversed), ("b", reversed)], "5a", "a=5 b=10");
}

#[test]
fn strings_of_wide_characters() {
    let utf16 = r#""type": "null-terminated-string", "encoding": "utf-16le""#;
    check_json(&[("a", utf16)], "6100 0062 0000", r#"a="a\x00\x00b""#);
    let utf32 = r#""type": "static-length-string", "length": 8, "encoding": "utf-32be""#;
    check_json(&[("p", BIT), ("a", utf32)], "01 00000061 00000000", r#"p=1 a="\x00\x00\x00a""#);
}

#[test]
fn blobs() {
    let blob = r#""type": "static-length-blob", "length": 2"#;
    check_json(&[("p", BIT), ("a", blob)], "01 0102", "p=1 a=[01, 02]");
    let counted = r#""type": "dynamic-length-blob", "length-field-location": { "path": ["n"] }"#;
    check_json(&[("n", U8), ("a", counted)], "02 0102", "n=2 a=[01, 02]");
    check_json(&[("n", U8), ("a", counted)], "00", "n=0 a=[]");
}

#[test]
fn optionals() {
    let boolean = r#""type": "fixed-length-boolean", "length": 8, "byte-order": "little-endian""#;
    let optional = format!(
        r#""type": "optional", "selector-field-location": {{ "path": ["b"] }}, "field-class": {{ {U8} }}"#
    );
    check_json(&[("b", boolean), ("a", &optional)], "80 07", "b=128 a=(7)");
    check_json(&[("b", boolean), ("a", &optional)], "00", "b=0 a=none()");
    let ranges = format!(
        r#""type": "optional", "selector-field-location": {{ "path": ["n"] }},
        "selector-field-ranges": [[2, 3]], "field-class": {{ {U8} }}"#
    );
    check_json(&[("n", U8), ("a", &ranges)], "03 07", "n=3 a=(7)");
    check_json(&[("n", U8), ("a", &ranges)], "04", "n=4 a=none()");
}

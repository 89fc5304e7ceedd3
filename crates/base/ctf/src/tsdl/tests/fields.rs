//! Tests of each kind of type, its defaults and its errors.

use super::{TRACE, check_error, check_fields, parse, payload};
use crate::schema::FieldClass;
use std::sync::Arc;

/// Checks the attributes of `integer { … }`.
#[track_caller]
fn check_integer(attributes: &str, expected: &str) {
    check_fields(&format!("integer {{ {attributes} }} x;"), &format!("x: {expected}"));
}

#[test]
fn integers() {
    check_integer("size = 8;", "u8");
    check_integer("size = 32; align = 32;", "u32@32");
    check_integer("size = 5;", "u5@1");
    check_integer("size = 5; align = 4;", "u5@4");
    check_integer("size = 0x10; signed = 1;", "i16");
    check_integer("size = 020; signed = true;", "i16");
    check_integer("size = (16); signed = TRUE;", "i16");
    check_integer("size = +16; signed = false;", "u16");
    check_integer("size = 64; signed = 0; encoding = none;", "u64");
    check_integer("size = 16; byte_order = be;", "u16be");
    check_integer("size = 16; byte_order = network;", "u16be");
    check_integer("size = 16; byte_order = le;", "u16");
    check_integer("size = 16; byte_order = native;", "u16");
    check_integer("size = 8; encoding = UTF8;", "u8");
    check_integer("size = 8; unknown = whatever; other = \"x\"; third = 3;", "u8");
    check_integer("\"size\" = 8;", "u8");
}

#[test]
fn bases() {
    let check = |values: &[&str], expected| {
        for value in values {
            check_integer(&format!("size = 8; base = {value};"), expected);
        }
    };
    check(&["2", "binary", "b"], "u8b");
    check(&["8", "octal", "oct", "o"], "u8o");
    check(&["10", "decimal", "dec", "d", "i", "u"], "u8");
    check(&["16", "hexadecimal", "hex", "x", "X", "p"], "u8x");
}

#[test]
fn integer_errors() {
    let check = |attributes: &str, expected: &str| {
        check_error(&format!("integer {{ {attributes} }} x;"), expected);
    };
    check("align = 8;", "3:1 integer without `size`");
    check("size = 0;", "3:18 `size` is 0, expected a positive integer");
    check("size = -8;", "3:18 `size` is -8, expected an unsigned integer");
    check("size = x;", "3:18 `size` is `x`, expected an unsigned integer");
    check("size = 8; size = 8;", "3:21 `size` for the 2nd time");
    check("align = 12; size = 8;", "3:19 `align` is 12, expected a power of two");
    check("signed = maybe; size = 8;", "3:20 `signed` is `maybe`, expected true or false");
    check("base = 3; size = 8;", "3:18 `base` is 3, expected 2, 8, 10 or 16");
    check(
        "byte_order = middle; size = 8;",
        "3:24 `byte_order` is `middle`, expected be, le, network or \
         native",
    );
    check(
        "encoding = UTF16; size = 8;",
        "3:22 `encoding` is `UTF16`, expected none, UTF8 or ASCII",
    );
    check("map = clock.x; size = 8;", "3:17 `map` is `clock.x`, expected clock.NAME.value");
    check("map = clock.x.value; size = 8;", "3:17 there is no clock `x`");
    check(
        "size = 65;",
        "3:1 integer of 65 bits, aligned on 1 \
         (over 64 bits, only whole bytes aligned on 8 bits can be read)",
    );
}

#[test]
fn wide_integers_are_bytes() {
    check_integer("size = 128;", "[16]byte");
    check_integer("size = 72; align = 8; signed = true;", "[9]byte");
}

#[test]
fn floats() {
    let check = |attributes: &str, expected: &str| {
        check_fields(&format!("floating_point {{ {attributes} }} x;"), &format!("x: {expected}"));
    };
    check("exp_dig = 8; mant_dig = 24;", "f32(8)");
    check("exp_dig = 11; mant_dig = 53; align = 64; byte_order = be;", "f64@64be(11)");
    check("exp_dig = 5; mant_dig = 11; align = 1; unknown = 1;", "f16@1(5)");
    check("exp_dig = 15; mant_dig = 65;", "f80(15)");
    check("exp_dig = 15; mant_dig = 113;", "f128(15)");
    check_error(
        "floating_point { exp_dig = 8; } x;",
        "3:1 floating point number without `mant_dig`",
    );
    check_error(
        "floating_point { exp_dig = 8; mant_dig = 25; } x;",
        "3:1 floating point number of 33 bits \
         (`exp_dig` and `mant_dig` add up to 16, 32, 64, 80 or 128)",
    );
}

#[test]
fn strings_and_text() {
    check_fields("string x;", "x: string(Utf8)");
    check_fields("string { encoding = ASCII; } x;", "x: string(Ascii)");
    check_fields("string { } x;", "x: string(Utf8)");
    check_fields("string { encoding = none; } x;", "x: string(Utf8)");
    let array = |attributes: &str| format!("integer {{ size = 8; {attributes} }} x[4];");
    check_fields(&array("encoding = UTF8;"), "x: [4]Utf8");
    check_fields(&array("encoding = \"utf-8\"; signed = true;"), "x: [4]Utf8");
    check_fields(&array("encoding = ascii;"), "x: [4]Ascii");
    check_fields(&array("encoding = none;"), "x: [4]u8");
    // An integer can only be a character if it has one byte.
    check_fields(&array("encoding = UTF8; align = 16;"), "x: [4]u8@16");
    check_fields("integer { size = 16; encoding = UTF8; } x[4];", "x: [4]u16");
    check_fields(
        "integer { size = 8; } n; integer { size = 8; encoding = UTF8; } x[n], y[2][n];",
        "n: u8, x: [ef.n]Utf8, y: [2][ef.n]Utf8",
    );
}

#[test]
fn arrays() {
    check_fields("integer { size = 8; } x[4];", "x: [4]u8");
    check_fields("integer { size = 8; } x[0];", "x: [0]u8");
    check_fields("integer { size = 8; } x[2][3][4];", "x: [2][3][4]u8");
    check_fields("string x[2];", "x: [2]string(Utf8)");
    check_fields("integer { size = 8; } a, b[2], _c[a];", "a: u8, b: [2]u8, c: [ef.a]u8");
    check_fields(
        "struct { integer { size = 8; } n; string s[n]; } x[3];",
        "x: [3]{n: u8, s: [ef.x.n]string(Utf8)}",
    );
    check_error("string x[-1];", "3:10 -1 is no number of elements");
    check_error("string x[];", "3:10 expected a value, found `]`");
}

#[test]
fn structures() {
    check_fields("", "");
    check_fields("struct { } x;", "x: {}");
    check_fields("struct { string a; } align(32) x;", "x: {a: string(Utf8)}@32");
    check_fields("struct { struct { string a; } b; } x;", "x: {b: {a: string(Utf8)}}");
    check_error("struct { string a; } align(3) x;", "3:28 alignment 3, expected a power of two");
    check_error(
        "string a;\nstring b, a;",
        "4:11 2nd field named `a` (the 1st is on line 3, column 8)",
    );
    check_error("string;", "3:7 expected the name of a field, found `;`");
    check_error(
        "string event;",
        "3:8 expected a name, found `event` \
         (it is a keyword; producers write `_event`)",
    );
    check_error(
        "integer { size = 8; } x : 3;",
        "3:25 expected `;`, found `:` \
         (bit fields of C are written as `integer { size = …; align = 1; }`)",
    );
    check_error("string a", "4:1 expected `;`, found `}`");
}

#[test]
fn one_leading_underscore_is_removed_unless_the_name_is_taken() {
    let check = |names: &str, expected: &[&str]| {
        let expected: Vec<String> =
            expected.iter().map(|name| format!("{name}: string(Utf8)")).collect();
        check_fields(&format!("string {names};"), &expected.join(", "));
    };
    check("a, _b, __c", &["a", "b", "_c"]);
    check("a, _a", &["a", "_a"]);
    check("_a, a", &["_a", "a"]);
    check("_a, __a", &["a", "_a"]);
    check("_a, __a, ___a", &["a", "_a", "__a"]);
    check("a, _a, __a", &["a", "_a", "__a"]);
    check("__a, ___a", &["_a", "__a"]);
    check("_int, __int", &["int", "_int"]);
    check("_, __", &["_", "__"]);
    check("_1a", &["1a"]);
    check("caf\\u00e9, _\\U0001d4b3", &["café", "𝒳"]);
}

#[test]
fn enumerations() {
    let check = |labels: &str, expected: &str| {
        let fields = format!("enum : integer {{ size = 8; }} {{ {labels} }} x;");
        check_fields(&fields, &format!("x: u8{{{expected}}}"));
    };
    check("A", "A=0");
    check("A, B, C,", "A=0 B=1 C=2");
    check("A = 5, B, C = 0x10 ... 0x1f, D", "A=5 B=6 C=16..31 D=32");
    check("A = (3), B = +4", "A=3 B=4");
    check(
        "\"a b\" = 1, \"\\\"\\n\" = 2, é = 3".replace('é', "\\u00e9").as_str(),
        "a b=1 \"\n=2 é=3",
    );
    check("int = 1, struct, _x", "int=1 struct=2 _x=3");
    // Labels may overlap, and a label may have many ranges.
    check("A = 0 ... 9, B = 5, A = 20, C", "A=0..9|20 B=5 C=21");
    check("A = -1", "A=18446744073709551615");
    check_fields(
        "enum : integer { size = 8; signed = true; base = hex; } { A = -3, B, C = -1 ... 1 } x;",
        "x: i8x{A=-3 B=-2 C=-1..1}",
    );
    check_fields(
        "enum : integer { size = 64; signed = true; } { A = 0xffffffffffffffff } x;",
        "x: i64{A=-1}",
    );
}

#[test]
fn enumerations_without_a_type_are_int() {
    let int = "typealias integer { size = 32; signed = true; } := int;";
    assert_eq!(payload(int, "struct { enum { A } x; }").unwrap(), "{x: i32{A=0}}");
    check_error(
        "enum { A } x;",
        "3:1 enumeration without a type \
         (write `enum : type { … }`, or declare a type `int`)",
    );
}

#[test]
fn enumeration_errors() {
    let check = |labels: &str, expected: &str| {
        check_error(&format!("enum : integer {{ size = 8; }} {{ {labels} }} x;"), expected);
    };
    check("", "3:33 expected a label, found `}`");
    check("A B", "3:34 expected `,` or `}`, found `B`");
    check("A = x", "3:36 expected an integer, found `x`");
    check("A = 2 ... 1", "3:32 label `A`: no values from 2 to 1");
    check(
        "A = 0xffffffffffffffff, B",
        "3:56 label `B`: 18446744073709551616 needs more than 64 bits",
    );
    check_error(
        "enum : integer { size = 72; } { A } x;",
        "3:8 enumeration over an integer of more than 64 bits, not an integer",
    );
    check_error("enum x y;", "3:1 unknown type `enum x`");
}

#[test]
fn variants() {
    let tag = "enum : integer { size = 8; } { A = 0 ... 3, B = 4, \"C d\" = 5, B = 9 } t;";
    check_fields(
        &format!("{tag} variant <t> {{ string A; struct {{ string x; }} B; }} v;"),
        "t: u8{A=0..3 B=4|9 C d=5}, \
         v: <ef.t>(A=0..3: string(Utf8), B=4|9: {x: string(Utf8)})",
    );
    check_fields(
        &format!("{tag} variant <t> {{ string A[2]; }} v[3];"),
        "t: u8{A=0..3 B=4|9 C d=5}, v: [3]<ef.t>(A=0..3: [2]string(Utf8))",
    );
    check_error(
        &format!("{tag} variant <t> {{ string Cd; }} v;"),
        "3:95 option `Cd` is no label of the variant's tag",
    );
    check_error(
        "enum : integer { size = 8; } { big } t; variant <t> { string bigg; } v;",
        "3:62 option `bigg` is no label of the variant's tag (did you mean `big`?)",
    );
    check_error(
        &format!("{tag} variant {{ string A; }} v;"),
        "3:74 variant without a tag \
         (write `variant <tag> …` with the name of an enumeration)",
    );
    check_error(
        &format!("{tag} variant <t> {{ string A, A; }} v;"),
        "3:98 2nd field named `A` (the 1st is on line 3, column 95)",
    );
    check_error(
        "integer { size = 8; } t; variant <t> { string A; } v;",
        "3:35 tag `t` is an integer, expected an enumeration",
    );
}

#[test]
fn options_find_their_label_without_the_underscore() {
    // The exact label has precedence.
    check_fields(
        "enum : integer { size = 8; } { _a, a, b } t; variant <t> { string _a; string a, _b; } v;",
        "t: u8{_a=0 a=1 b=2}, \
         v: <ef.t>(_a=0: string(Utf8), a=1: string(Utf8), b=2: string(Utf8))",
    );
    check_error(
        "enum : integer { size = 8; } { b } t; variant <t> { string b; string _b; } v;",
        "3:70 2nd option for the label `b`",
    );
}

#[test]
fn depth_is_limited() {
    let nested = |levels: usize| {
        format!("{}string s;{}", "struct { ".repeat(levels), " } x;".repeat(levels))
    };
    let check_depth = |before: &str, fields: &str| {
        let error = payload(before, fields).unwrap_err();
        assert_eq!(error.message, "nested more than 64 levels deep");
    };
    assert!(payload("", &format!("struct {{ {} }}", nested(63))).is_ok());
    check_depth("", &format!("struct {{ {} }}", nested(64)));
    check_depth("", &format!("struct {{ {} }}", nested(100_000)));
    check_fields(
        &format!("string x{};", "[1]".repeat(63)),
        &format!("x: {}string(Utf8)", "[1]".repeat(63)),
    );
    check_depth("", &format!("struct {{ string x{}; }}", "[1]".repeat(64)));
    check_depth("", &format!("struct {{ string x{}; }}", "[1]".repeat(65)));
    check_depth(&format!("env {{ a = {}", "(".repeat(100_000)), "x");
    // Aliases can nest types without nesting in the text.
    let mut aliases = "struct s0 { string s; };".to_owned();
    for level in 1..100 {
        aliases += &format!("struct s{level} {{ struct s{} s; }};", level - 1);
    }
    check_depth(&aliases, "struct s99");
}

#[test]
fn aliases_cannot_blow_up() {
    let check_size = |before: &str, fields: &str| {
        let error = payload(before, fields).unwrap_err();
        let expected = "its types, fields and labels would take more than 12 MiB of memory";
        assert_eq!(error.message, expected);
    };
    let mut aliases = "struct s0 { string a; string b; };".to_owned();
    for level in 1..60 {
        aliases += &format!("struct s{level} {{ struct s{0} a; struct s{0} b; }};", level - 1);
    }
    check_size(&aliases, "struct s59");
    // Unused aliases are not expanded, so they need little memory.
    assert_eq!(payload(&aliases, "struct s0").unwrap(), "{a: string(Utf8), b: string(Utf8)}");
    // A variant copies the label of each option, with all ranges of the label.
    let labels = "l,".repeat(10_000);
    let fields: String = (0..100).map(|field| format!("variant v <t> f{field};")).collect();
    let types = format!("typealias enum : integer {{ size = 8; }} {{ {labels} }} := e;");
    let types = types + "variant v { string l; };";
    check_size(&types, &format!("struct {{ e t; {fields} }}"));
    // Nested variants copy the labels too, each before its inner variants are made.
    let types = (1..60).fold(types, |types, level| {
        let inner = if level == 1 { "v".to_owned() } else { format!("v{}", level - 1) };
        types + &format!("variant v{level} {{ variant {inner} <t> l; }};")
    });
    check_size(&types, "struct { e t; variant v59 <t> v; }");
}

#[test]
fn enumerations_are_shared() {
    let labels: String = (0..2000).map(|label| format!("l{label},")).collect();
    let fields: String = (0..1000).map(|field| format!("e f{field};")).collect();
    let text = format!(
        "{TRACE} typealias enum : integer {{ size = 8; }} {{ {labels} }} := e;
         event {{ fields := struct {{ {fields} }}; }};"
    );
    let schema = parse(&text).unwrap();
    let Some(FieldClass::Struct(payload)) = &schema.streams[0].events[0].payload else {
        panic!("no payload");
    };
    let labels_of = |index: usize| match &payload.members[index].class {
        FieldClass::Int(int) => int.mappings.as_ref().unwrap(),
        _ => panic!("no enumeration"),
    };
    assert!(Arc::ptr_eq(labels_of(0), labels_of(999)));
}

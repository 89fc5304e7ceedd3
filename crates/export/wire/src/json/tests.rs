//! Tests of the JSON reader. Skipped values and strings are compared with serde_json.

use super::*;

fn limits() -> Limits {
    Limits { depth: 120, ..Limits::default() }
}

#[test]
fn values_are_passed_over_as_serde_json_reads_them() {
    let limits = limits();
    let good = [
        "1",
        "-0",
        "1.5e+3",
        "\"\"",
        r#""a\"b\\""#,
        "true",
        "false",
        "null",
        "[]",
        "{}",
        " [ ] ",
        "[1,2]",
        r#"{"a":1}"#,
        r#"{ "a" : [ { } , [ [ ] ] , "]" ] , "b" : null }"#,
        "[[[[1]]],2]",
        "\"\u{7f}ü\"",
        r#"{"":{"":{"":[]}}}"#,
    ];
    let bad = [
        "",
        " ",
        "[",
        "]",
        "{",
        "}",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{1:2}",
        r#"{"a"}"#,
        r#"{"a":}"#,
        r#"{"a":1,}"#,
        r#"{"a":1"#,
        r#"{"a" 1}"#,
        "\"",
        "\"\\\"",
        "nul",
        "tru",
        "-",
        "01",
        "1.",
        "'a'",
        "[1}",
        r#"{"a":1]"#,
        "[}",
        "{]",
        "\\",
        "/",
    ];
    for text in good.iter().chain(&bad) {
        let arena = Arena::default();
        let mut reader = Reader::new(text.as_bytes(), &arena, &limits);
        let ours = reader.skip().is_ok() && reader.is_at_end();
        let theirs = serde_json::from_str::<serde_json::Value>(text).is_ok();
        assert_eq!((ours, theirs), (good.contains(text), good.contains(text)), "{text}");
    }
}

#[test]
fn depth_is_limited() {
    let limits = Limits { depth: 3, ..limits() };
    let check = |text: &str, expected: &str| {
        let arena = Arena::default();
        let fault = Reader::new(text.as_bytes(), &arena, &limits).skip().err();
        assert_eq!(fault.map_or("fine".to_owned(), |it| it.to_string()), expected, "{text}");
    };
    check("[[[1]]]", "fine");
    check("[[[[]]]]", "fine");
    check("[[[[1]]]]", "byte 4: is nested too deep");
    check(r#"{"a":{"a":{"a":{"a":1}}}}"#, "byte 16: is nested too deep");
}

#[test]
fn strings_are_what_serde_json_reads() {
    let limits = limits();
    for text in [
        r#""""#,
        r#""plain""#,
        r#""a\"b\\c\/d\b\f\n\r\t""#,
        r#""\u0041\u00fc\u65e5""#,
        r#""\ud83e\udd80!""#,
        r#""ends with \\""#,
        "\"日本語 und ü\"",
        r#""日\n本""#,
    ] {
        let arena = Arena::default();
        let mut reader = Reader::new(text.as_bytes(), &arena, &limits);
        let theirs: String = serde_json::from_str(text).expect("good");
        assert_eq!(reader.string().expect("good"), theirs);
        assert!(reader.is_at_end());
    }
    let check = |text: &[u8], expected: &str| {
        let arena = Arena::default();
        let mut reader = Reader::new(text, &arena, &limits);
        let found = reader.string().map_or_else(|fault| fault.to_string(), str::to_owned);
        assert_eq!(found, expected);
    };
    // The first six are invalid for serde_json, but accepted by Zipkin.
    check(b"\"\n\x01\"", "\n\x01");
    check(br#""\ud83ex""#, "\u{fffd}x");
    check(br#""\ud83e\u0041""#, "\u{fffd}A");
    check(br#""\udd80""#, "\u{fffd}");
    check(b"\"\xff\"", "\u{fffd}");
    check(b"\"\xff\\n\"", "\u{fffd}\n");
    check(br#""\x""#, "byte 2: should be an escape");
    check(br#""\u00g0""#, "byte 3: should be four hexadecimal digits");
    check(br#""\u00"#, "byte 5: ends early");
    check(br#""abc"#, "byte 4: ends early");
    check(br#""abc\"#, "byte 5: ends early");
    check(b"1", "byte 0: should be text");
}

#[test]
fn integers_are_read() {
    let limits = limits();
    let check = |text: &str, expected: &str| {
        let arena = Arena::default();
        let mut reader = Reader::new(text.as_bytes(), &arena, &limits);
        let found = reader.integer().map_or_else(|fault| fault.to_string(), |it| it.to_string());
        assert_eq!(found, expected, "{text}");
    };
    for number in ["0", "7", "12345678", "123456789", "1472470996199000", "999999999999999999"] {
        for behind in [",", "}", "]", " ", "\n", ""] {
            check(&format!(" {number}{behind}"), number);
        }
    }
    check("-5,", "-5");
    check("\"15\",", "15");
    check("12.0,", "12");
    check("1e3,", "1000");
    check("9223372036854775807,", "9223372036854775807");
    check("9223372036854775808,", "9223372036854775807");
    check("12.5,", "byte 0: should be a whole number");
    check("\"x\",", "byte 0: should be a whole number");
    check("\"\",", "byte 0: should be a whole number");
    check("01,", "byte 0: should be a number");
    check("true,", "byte 0: should be a number");
    check("12x", "12");
}

keys! {
    /// Two short keys and a key longer than 16 bytes, for the tests.
    table { A = "a", LONG = "a key that has more than sixteen bytes", B = "b", }
}

#[test]
fn keys_are_known_in_any_order_and_form() {
    let limits = limits();
    let mut order = table::Keys::default();
    let mut check = |text: &str, expected: &str| {
        let arena = Arena::default();
        let mut reader = Reader::new(text.as_bytes(), &arena, &limits);
        let mut found = Vec::new();
        let read = reader.object(&table::NAMES, &mut order, |reader, key| {
            found.push(format!("{}{}", ["a", "L", "b"][key], reader.integer()?));
            Ok(())
        });
        let end = read.err().map(|fault| fault.to_string());
        found.extend(end);
        assert_eq!(found.join(" "), expected, "{text}");
    };
    let long = "\"a key that has more than sixteen bytes\"";
    for _ in 0..2 {
        check("{}", "");
        check(&format!("{{\"a\":1,{long}:2,\"b\":3}}"), "a1 L2 b3");
        check(&format!("{{\"b\":1,{long}:2,\"a\":3}}"), "b1 L2 a3");
        check(&format!("{{ \"b\" : 1 , {long}  : 2 }}"), "b1 L2");
        check(r#"{"x":{"a":1},"b":2,"":[],"a":3,"a":4}"#, "b2 a3 a4");
        check(r#"{"\u0061":1,"a key that has more than sixteen bytez":2}"#, "a1");
        check(r#"{"a":1"#, "a1 byte 6: ends early");
        check(r#"{"a":1,}"#, "a1 byte 7: should be text");
        check(r#"{"a":1;}"#, "a1 byte 6: should be ',' or '}'");
        check(r#"{"b" 1}"#, "byte 5: should be ':'");
    }
}

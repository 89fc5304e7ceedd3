//! Tests of the results of filters on constants and on a sample event.

use super::{State, eval};
use crate::{Filter, Integer, Severity, Value};

const FIELDS: &[(&str, Value<'static>)] = &[
    ("zero", Value::Uint(0)),
    ("one", Value::Uint(1)),
    ("minus", Value::Int(-5)),
    ("plus", Value::Int(7)),
    ("big", Value::Uint(u64::MAX)),
    ("least", Value::Int(i64::MIN)),
    ("half", Value::Float(0.5)),
    ("nan", Value::Float(f64::NAN)),
    ("msg", Value::Str(b"foobar")),
    ("empty", Value::Str(b"")),
    ("bytes", Value::Str(b"\xff\x00*")),
    ("hdr", Value::Present),
    ("state", Value::Enum(Integer::Unsigned(1), &State)),
    ("other_state", Value::Enum(Integer::Unsigned(0), &State)),
    ("broken", Value::Enum(Integer::Signed(-1), &State)),
    ("unlabelled", Value::Enum(Integer::Unsigned(3), &State)),
    ("$ctx.vpid", Value::Int(1)),
];

#[track_caller]
fn holds(texts: &[&str]) {
    for text in texts {
        assert!(eval(text, FIELDS), "should hold: {text}");
    }
}

#[track_caller]
fn fails(texts: &[&str]) {
    for text in texts {
        assert!(!eval(text, FIELDS), "should not hold: {text}");
    }
}

#[test]
fn logic() {
    holds(&["one", "!zero", "1 && one", "0 || one", "!(0 || 0)", "minus", "half", "state", "nan"]);
    fails(&["zero", "!one", "1 && 0", "0 || 0", "0.0", "other_state", "msg", "hdr", "empty"]);
}

#[test]
fn comparisons() {
    holds(&["1 == 1", "1 != 2", "1 < 2", "2 <= 2", "3 > 2", "2 >= 2", "1.5 < 2", "2.0 == 2"]);
    fails(&["1 == 2", "1 != 1", "2 < 2", "3 <= 2", "2 > 2", "1 >= 2", "2 < 1.5", "2.5 == 2"]);
    holds(&["nan != nan", "nan != 1"]);
    fails(&["nan == nan", "nan < 1", "nan >= 1"]);
    // A comparison is 1 or 0 as a number.
    holds(&["(1 < 2) == 1", "(1 > 2) + 1 == 1", "1 >= (1 >= 1)", "-(1 == 1) < 0"]);
}

/// Each operator gets its sides in order, also if the right side needs more values and is evaluated
/// first. A filter may need eight values on the stack, but not nine.
#[test]
fn sides_that_are_nested() {
    holds(&["9 - (8 - (7 - (6 - 5))) == 7", "((9 - 8) - 7) - 6 == -12", "2 > (1 == (3 > 2)) - 1"]);
    holds(&["(1 - 2) * ((3 - 5) * ((7 - 4) - (2 - 9))) == 20", "1 << (2 + (zero || one)) == 8"]);
    fails(&["(zero || (one && (zero || minus - 5 == 10)))", "!(one && !(zero && one))"]);
    let balanced =
        |depth: u32| (0..depth).fold("a".to_owned(), |term, _| format!("({term} + {term})"));
    super::parse(&balanced(7));
    let error = Filter::parse(&balanced(8)).expect_err("it needs nine values");
    assert!(error.to_string().contains("too many parentheses within both sides"), "{error}");
}

#[test]
fn signedness() {
    holds(&["minus < zero", "minus < big", "least < minus", "-1 != big", "-1 < 0", "minus == -5"]);
    holds(&[
        "big == 0xffffffffffffffff",
        "big > least",
        "plus > one",
        "least == -9223372036854775808",
    ]);
    fails(&["big < zero", "big == -1", "minus > one", "zero > minus == 0"]);
}

#[test]
fn arithmetic() {
    holds(&["one + 1 == 2", "plus - 10 == -3", "plus * 2 == 14", "plus / 2 == 3", "plus % 4 == 3"]);
    holds(&["minus / 2 == -2", "minus % 3 == -2", "minus + 4 == -1", "minus * minus == 25"]);
    holds(&[
        "one + half == 1.5",
        "half * 4 == 2",
        "one / 2.0 == half",
        "-half < 0",
        "half - 1 < 0",
    ]);
    holds(&["state + 1 == 2", "broken - 1 == -2", "-broken == 1"]);
    // Two unsigned integers give an unsigned result, but a difference is signed.
    holds(&["big + 1 == 0", "big * 2 == 18446744073709551614", "big / 2 == 0x7fffffffffffffff"]);
    holds(&["big % 16 == 15", "zero - one == -1", "zero - one < 0", "-one == -1"]);
    // One signed operand makes the result signed.
    holds(&["big + minus == -6", "least - 1 == 0x7fffffffffffffff", "least / -1 == least"]);
    holds(&["least % -1 == 0", "-least == least"]);
}

#[test]
fn bits() {
    holds(&["6 & 3 == 2", "6 | 3 == 7", "6 ^ 3 == 5", "1 << 4 == 16", "256 >> 4 == 16"]);
    holds(&["~0 == 0xffffffffffffffff", "~0 & 0xff == 255", "~minus == 4", "minus & 0xff == 0xfb"]);
    holds(&[
        "~0 >> 4 == 0x0fffffffffffffff",
        "minus >> 60 == 15",
        "1 << 63 == 9223372036854775808",
    ]);
    holds(&["big & (1 << 63) == 1 << 63", "(one & 1) - 2 < 0", "state | 2 == 3"]);
    // Shifts by less than 0 or more than 63 are absent.
    fails(&["1 << 64 == 0", "1 << 64 != 0", "1 << -1", "1 >> 64 == 0", "1 << 10000", "1 << big"]);
    // Bit operations on values other than integers are absent.
    fails(&["half & 1 == 0", "half & 1 != 0", "~half", "msg | 1", "half % 1 == 0"]);
}

#[test]
fn division_by_zero_is_absent() {
    fails(&[
        "1 / zero == 0",
        "1 / zero != 0",
        "1 % zero == 0",
        "1 / 0.0 > 1",
        "1 / 0",
        "half / zero",
    ]);
    holds(&["!(1 / zero == 0)", "zero == 0 || 1 / zero == 3"]);
}

#[test]
fn absent_fields() {
    fails(&["nix", "nix == 0", "nix != 0", "nix < 1", "nix >= 0", "nix == nix", "nix != nix"]);
    fails(&[
        "nix + 1 == 1",
        "nix + 1 != 1",
        "-nix == 0",
        "~nix != 0",
        "nix == \"\"",
        "nix != \"\"",
    ]);
    fails(&["nix == \"*\"", "nix != \"a*\"", "has(nix)", "nix & 1", "nix.a[3] == 0"]);
    holds(&["!nix", "!(nix == 0)", "!has(nix)", "!has(nix) || nix == 1", "has(one)", "has(hdr)"]);
    holds(&["has(empty)", "has($ctx.vpid)"]);
}

#[test]
fn structures_are_only_present() {
    fails(&["hdr", "hdr == 0", "hdr != 0", "hdr == \"\"", "hdr != \"*\"", "hdr == hdr", "hdr + 1"]);
}

#[test]
fn strings() {
    holds(&["msg == \"foobar\"", "msg != \"foo\"", "\"foobar\" == msg", "msg == msg"]);
    holds(&[
        "msg < \"foobaz\"",
        "msg <= \"foobar\"",
        "msg > \"fo\"",
        "empty < msg",
        "empty == \"\"",
    ]);
    holds(&[r#"bytes == "\xff\0\*""#, "\"a\" == \"a*\"", "\"a\" == \"a\""]);
    fails(&["msg == \"foo\"", "msg != \"foobar\"", "msg < \"foo\"", "msg == \"Foobar\""]);
    // Comparisons of strings with numbers are false.
    fails(&["msg == 1", "msg != 1", "msg < 1", "one == \"1\"", "one != \"1\"", "one != msg"]);
    fails(&["msg + 1 == 1", "-msg", "!!msg"]);
}

#[test]
fn globs() {
    holds(&["msg == \"foo*\"", "msg == \"*bar\"", "msg == \"f*o*r\"", "\"*ob*\" == msg"]);
    holds(&["msg == \"*\"", "empty == \"*\"", "msg != \"bar*\"", r#"bytes == "*\*""#]);
    fails(&[
        "msg == \"bar*\"",
        "msg != \"foo*\"",
        r#"msg == "foo\*""#,
        "one == \"*\"",
        "one != \"a*\"",
    ]);
}

#[test]
fn enumerations() {
    holds(&["state == 1", "state == \"RUNNING\"", "state == \"ACTIVE\"", "\"RUNNING\" == state"]);
    holds(&["state != \"IDLE\"", "state == \"RUN*\"", "state == \"ACT*\"", "state > other_state"]);
    holds(&["broken == \"BROKEN\"", "broken == -1", "unlabelled != \"IDLE\"", "unlabelled == 3"]);
    fails(&["state != 1", "state == \"IDLE\"", "state != \"RUNNING\"", "state != \"ACT*\""]);
    fails(&["state < \"Z\"", "state > \"A\"", "unlabelled == \"*\"", "state == other_state"]);
    fails(&["state == msg"]);
    holds(&["state != msg"]);
}

#[test]
fn severity() {
    let check = |text: &str, level: Severity, expected: bool| {
        assert_eq!(eval(text, &[("severity", level.value())]), expected, "{text} {level:?}");
    };
    check("severity <= warning", Severity::Error, true);
    check("severity <= warning", Severity::Warning, true);
    check("severity <= warning", Severity::Info, false);
    check("emerg < severity", Severity::Alert, true);
    check("severity == 14", Severity::Debug, true);
    check("severity == \"warning\"", Severity::Warning, true);
    check("severity == \"debug_*\"", Severity::DebugLine, true);
    check("severity == \"debug_*\"", Severity::Debug, false);
}

#[test]
fn times() {
    let at = |time: u64| [("time", Value::Uint(time))];
    assert!(eval("time - 1000s >= 5ms", &at(1_000_005_000_000)));
    assert!(!eval("time - 1000s >= 5ms", &at(1_000_004_999_999)));
}

#[test]
fn contexts() {
    holds(&["$ctx.vpid == 1 && msg == \"foo*\""]);
    fails(&["vpid == 1", "$app.a:vpid == 1", "$env.vpid == 1"]);
}

#[test]
fn values_by_index() {
    let filter = Filter::parse("a > 1 && b == \"x\"").expect("it is a filter");
    assert!(filter.eval(&[Value::Int(2), Value::Str(b"x")][..]));
    assert!(!filter.eval(&[Value::Int(2)][..]));
}

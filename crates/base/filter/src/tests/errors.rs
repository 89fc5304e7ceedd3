//! Tests of the error messages for invalid filters.

use super::parse;
use crate::tree::DEPTH_MAX;
use crate::{FILTER_SIZE_MAX, Filter, FilterError};

fn fail(text: &str) -> FilterError {
    match Filter::parse(text) {
        Ok(filter) => panic!("should not parse: {text} as {filter}"),
        Err(error) => error,
    }
}

/// Checks the rendered error of the invalid filter `text`. `expected` lacks the initial
/// `bad filter: `.
#[track_caller]
fn check(text: &str, expected: &str) {
    let rendered = fail(text).render(false);
    assert_eq!(rendered.trim_start_matches("bad filter: "), expected.trim());
}

#[test]
fn other_languages_operators() {
    check(
        "cpu = 3",
        r#"
unknown operator `=`
  cpu = 3
      ^
hint: did you mean `==`?
"#,
    );
    check(
        "pid == 1 and cpu == 2",
        r#"
unknown operator `and`
  pid == 1 and cpu == 2
           ^^^
hint: did you mean `&&`?
"#,
    );
    check(
        "not has(x)",
        r#"
unknown operator `not`
  not has(x)
  ^^^
hint: did you mean `!`?
"#,
    );
    check(
        "not (a == 1)",
        r#"
unknown function `not`
  not (a == 1)
  ^^^
hint: did you mean `!`?
"#,
    );
    check(
        "a <> 1",
        r#"
unknown operator `<>`
  a <> 1
    ^^
hint: did you mean `!=`?
"#,
    );
    for (text, hint) in [
        ("a OR b", "did you mean `||`?"),
        ("NOT a", "did you mean `!`?"),
        ("a === 1", "did you mean `==`?"),
        ("a =~ \"x\"", "did you mean `==`?"),
        ("name like \"x\"", "did you mean `==`?"),
        ("a => 1", "did you mean `>=`?"),
        ("a == 1, b == 2", "did you mean `&&`?"),
    ] {
        assert_eq!(fail(text).hint.as_deref(), Some(hint), "{text}");
    }
}

#[test]
fn syntax() {
    check(
        "a == ",
        r#"
the filter ends where a field or value is missing
  a == 
       ^
"#,
    );
    check(
        "(a == 1",
        r#"
this parenthesis is not closed
  (a == 1
  ^
"#,
    );
    check(
        "a == 1)",
        r#"
this parenthesis was never opened
  a == 1)
        ^
"#,
    );
    check(
        "a == 1 b == 2",
        r#"
expected an operator before `b`
  a == 1 b == 2
         ^
hint: conditions are joined by `&&` or `||`
"#,
    );
    check(
        "a == \"x",
        r#"
this string has no end
  a == "x
       ^
hint: add `"`; a new line within is written `\n`
"#,
    );
    check(
        r#"a == "\q""#,
        r#"
unknown escape `\q`
  a == "\q"
        ^^
hint: a backslash itself is written `\\`
"#,
    );
    check(
        "a == “x”",
        r#"
unexpected character `“`
  a == “x”
       ^
hint: write strings in straight double quotes
"#,
    );
    check(
        "a == 'foo'",
        r#"
a character constant holds one byte
  a == 'foo'
       ^^^^^
hint: write strings in double quotes
"#,
    );
    check(
        "exists(a)",
        r#"
unknown function `exists`
  exists(a)
  ^^^^^^
hint: the only one is `has(FIELD)`: whether the event has the field
"#,
    );
    check(
        "has(3)",
        r#"
`has` needs a field
  has(3)
      ^
hint: write `has(FIELD)`
"#,
    );
    check(
        "seq[i]",
        r#"
an index is a number, 0 or more, or a name in quotes
  seq[i]
      ^
"#,
    );
    for (text, message) in [
        ("", "the filter is empty"),
        (" // nothing", "the filter is empty"),
        ("a /* b", "this comment has no end"),
        ("a.", "expected the name of a field"),
        ("a->1", "expected the name of a field"),
        ("a.5", "expected an operator here"),
        ("a[1", "expected `]` after the index"),
        ("a[-1]", "an index is a number, 0 or more, or a name in quotes"),
        ("has(a", "expected `)` after the field of `has`"),
        ("has()", "`has` needs a field"),
        ("a && || b", "expected a field or value before `||`"),
        ("a == 'x", "this character constant has no end"),
        ("''", "a character constant holds one byte"),
        ("a == \"\\", "a backslash with nothing behind"),
        (r#"a == "\x""#, "an escape without digits"),
        (r#"a == "\777""#, "an escape larger than a byte"),
        ("a == \"x\ny\"", "this string has no end"),
        ("a \u{7} b", "unexpected character `\\u{7}`"),
        ("a ? b", "expected an operator before `?`"),
    ] {
        assert_eq!(fail(text).message, message, "{text}");
    }
}

#[test]
fn numbers() {
    check(
        "a == 99999999999999999999",
        r#"
this number does not fit in 64 bits
  a == 99999999999999999999
       ^^^^^^^^^^^^^^^^^^^^
"#,
    );
    check(
        "a > 5min",
        r#"
unknown unit `min`
  a > 5min
      ^^^^
hint: durations are written with ns, us, ms, s, m or h, as in `5ms`
"#,
    );
    check(
        "a == 089",
        r#"
`8` is not a digit in base 8
  a == 089
       ^^^
hint: a number with a leading 0 is octal
"#,
    );
    for (text, message) in [
        ("18446744073709551616", "this number does not fit in 64 bits"),
        ("0x10000000000000000", "this number does not fit in 64 bits"),
        ("-9223372036854775809", "this number does not fit in 64 bits"),
        ("18446744073709551615us", "this number does not fit in 64 bits"),
        ("1e30s", "this number does not fit in 64 bits"),
        ("1e999", "this number is too large for a float"),
        ("0x1p9999", "this number is too large for a float"),
        ("0x1p99999999999", "this hexadecimal float has no digits or too many"),
        ("0x", "a number without digits"),
        ("0b", "a number without digits"),
        ("0b12", "`2` is not a digit in base 2"),
        ("010ms", "a duration starts with a 0"),
        ("12abc", "unknown unit `abc`"),
        ("0x5ms", "unknown unit `ms`"),
        ("1.5u", "unknown unit `u`"),
    ] {
        assert_eq!(fail(text).message, message, "{text}");
    }
}

#[test]
fn scopes() {
    check(
        "$ctxt.vpid == 1",
        r#"
unknown scope `$ctxt`
  $ctxt.vpid == 1
  ^^^^^
hint: did you mean `$ctx`?
"#,
    );
    check(
        "$event.tme > 1",
        r#"
unknown field `$event.tme`
  $event.tme > 1
  ^^^^^^^^^^
hint: did you mean `$event.time`?
"#,
    );
    for (text, message) in [
        ("$", "`$` without a name"),
        ("$ctx == 0", "`$ctx` without a name"),
        ("$ctx[1]", "`$ctx` without a name"),
        ("$event.name->x", "`$event.name` has no parts"),
        ("$global.value", "unknown scope `$global`"),
        ("$app.user", "an application's context has a provider and a type"),
        ("$event.name.x", "`$event.name` has no parts"),
        ("$event.cpu[0]", "`$event.cpu` has no parts"),
    ] {
        assert_eq!(fail(text).message, message, "{text}");
    }
}

#[test]
fn types() {
    check(
        "flags & 1.5 == 1",
        r#"
`&` needs an integer, but this is a float
  flags & 1.5 == 1
          ^^^
"#,
    );
    check(
        "$event.cpu == \"3\"",
        r#"
cannot compare a string with a number
  $event.cpu == "3"
  ^^^^^^^^^^^^^^^^^
hint: write the number without quotes
"#,
    );
    check(
        "a == 1 && \"x\"",
        r#"
a string is neither true nor false
  a == 1 && "x"
            ^^^
hint: compare it, as in `name == "open*"`, or ask for the field by `has(FIELD)`
"#,
    );
    check(
        "name < \"open*\"",
        r#"
`<` cannot compare with a pattern
  name < "open*"
         ^^^^^^^
hint: use `==` or `!=`; a literal star is written `\*`
"#,
    );
    for (text, message) in [
        ("1 == \"a\"", "cannot compare a string with a number"),
        ("\"a\" < 1.5", "cannot compare a string with a number"),
        ("(a == 1) == \"x\"", "cannot compare a string with a truth value"),
        ("\"a*\" == 1", "cannot compare a string with a number"),
        ("\"a*\" == \"*b\"", "cannot compare two patterns"),
        ("\"a*\"", "a pattern can only be compared, with `==` or `!=`"),
        ("\"a*\" + 1", "a pattern can only be compared, with `==` or `!=`"),
        ("\"a\"", "a string is neither true nor false"),
        ("!\"a\"", "a string is neither true nor false"),
        ("$event.name || 1", "a string is neither true nor false"),
        ("-\"a\"", "`-` needs a number, but this is a string"),
        ("+\"a\"", "`+` needs a number, but this is a string"),
        ("~\"a\"", "`~` needs an integer, but this is a string"),
        ("~1.5", "`~` needs an integer, but this is a float"),
        ("a + \"x\"", "`+` needs a number, but this is a string"),
        ("a % 1.5", "`%` needs an integer, but this is a float"),
        ("1.5 << a", "`<<` needs an integer, but this is a float"),
        ("(a + 1.5) | 1", "`|` needs an integer, but this is a float"),
        ("-$event.name == 1", "`-` needs a number, but this is a string"),
    ] {
        assert_eq!(fail(text).message, message, "{text}");
    }
}

#[test]
fn one_line() {
    let check = |text: &str, expected: &str| assert_eq!(fail(text).to_string(), expected);
    check("cpu = 3", "column 5: unknown operator `=` (did you mean `==`?)");
    check("größe & 1.5", "column 9: `&` needs an integer, but this is a float");
    check("a == 1 &&\n b = 2", "line 2, column 4: unknown operator `=` (did you mean `==`?)");
}

#[test]
fn lines_and_columns() {
    check(
        "a == 1 &&\n\tb = 2 &&\nc == 3",
        "
unknown operator `=`
   b = 2 &&
     ^
hint: did you mean `==`?
",
    );
    // Only the part on the first line is underlined.
    check(
        "a == 1 && (1 <\n \"x\")",
        "
cannot compare a string with a number
  a == 1 && (1 <
             ^^^
",
    );
}

#[test]
fn color() {
    assert_eq!(
        fail("cpu = 3").render(true),
        "\x1b[1;31mbad filter\x1b[0m: unknown operator `=`\n  cpu = 3\n      \x1b[1;31m^\x1b[0m\n\
         \x1b[1;36mhint\x1b[0m: did you mean `==`?"
    );
}

#[test]
fn long_lines_are_cut() {
    let before = "a == 1 && ".repeat(20);
    let after = " && b == 2".repeat(20);
    let rendered = fail(&format!("{before}cpu = 3{after}")).render(false);
    let lines: Vec<&str> = rendered.lines().collect();
    let caret = lines[2].find('^').expect("there is a caret");
    assert_eq!(lines[1].chars().nth(caret), Some('='));
    assert_eq!(lines[1].chars().count(), 2 + 1 + 100 + 1);
    assert!(lines[1].starts_with("  …") && lines[1].ends_with('…'));
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    let rendered = fail("a \u{1b}[31m b").render(false);
    assert!(!rendered.contains('\u{1b}'), "{rendered:?}");
    let rendered = fail("cpu = \"\u{1b}[31m\"").render(false);
    assert!(!rendered.contains('\u{1b}'), "{rendered:?}");
}

#[test]
fn unknown_fields() {
    let check = |text: &str, operand: usize, candidates: &[&str], expected: &str| {
        let error = FilterError::unknown_field(&parse(text), operand, candidates.iter().copied());
        assert_eq!(error.to_string(), expected, "{text}");
    };
    let names = &["trace_id", "span_id", "msg.len", "$ctx.vpid"];
    check(
        "span_id == 1 && trce_id == 2",
        1,
        names,
        "column 17: unknown field `trce_id` (did you mean `trace_id`?)",
    );
    check("zzz", 0, names, "column 1: unknown field `zzz`");
    check(
        "msg.len + msg.lne",
        1,
        names,
        "column 11: unknown field `msg.lne` (did you mean `msg.len`?)",
    );
    check(
        "$ctx.vpdi",
        0,
        names,
        "column 1: unknown context `$ctx.vpdi` (did you mean `$ctx.vpid`?)",
    );
    check("$env.x", 0, names, "column 1: unknown environment entry `$env.x`");
    check(
        "severity < warnign",
        1,
        names,
        "column 12: unknown field `warnign` (did you mean `warning`?)",
    );
    check("a < warnign", 1, names, "column 5: unknown field `warnign`");
    check("a", 7, names, "column 1: there is no operand 7");
}

#[test]
fn limits() {
    let error = fail(&"a".repeat(FILTER_SIZE_MAX + 1));
    assert_eq!(error.message, "the filter has 65537 bytes; at most 65536 are accepted");
    assert_eq!(error.render(false), format!("bad filter: {}", error.message));
    parse(&"a".repeat(FILTER_SIZE_MAX));

    let nested = |depth: usize| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
    parse(&nested(DEPTH_MAX - 1));
    let deep = |text: &str| assert_eq!(fail(text).message, "nested more than 64 deep");
    deep(&nested(DEPTH_MAX));
    deep(&nested(30_000));
    deep(&"!".repeat(60_000));
    deep(&"(".repeat(60_000));
    deep(&"a && (b || ".repeat(5_000));
    deep(&"-(1 + ".repeat(5_000));
    parse(&vec!["a"; DEPTH_MAX].join(" + "));
    deep(&vec!["a"; DEPTH_MAX + 1].join(" + "));
    deep(&vec!["a"; 12_000].join(" == "));
    // A high tree without deeply nested parentheses.
    deep(&format!("({}) * {}", vec!["a"; 40].join(" + "), vec!["b"; 40].join(" * ")));
}

#[test]
fn messages_stay_short() {
    let error = fail(&format!("{}(a)", "x".repeat(60_000)));
    assert!(error.to_string().len() < 1000);
    assert!(error.render(false).len() < 1000);
}

/// A filter for recording may not use time, stream, trace, environment and packet, which exist only
/// once the event is recorded. It may use the event's name, contexts and payload, also a payload
/// field `time` that it tests by `has`.
#[test]
fn filters_for_recording() {
    for (text, field) in [
        ("time > 0", "time"),
        ("len > 1 && stream == 3", "stream"),
        ("trace == \"x\"", "trace"),
        ("$event.time > 0", "$event.time"),
        ("has($event.time) && $event.time > 0", "$event.time"),
        ("$env.hostname == \"store07\"", "$env.hostname"),
        ("$packet.cpu_id == 1", "$packet.cpu_id"),
    ] {
        assert!(Filter::parse(text).is_ok(), "{text}");
        let error = Filter::parse_for_recording(text).expect_err(text).to_string();
        let expected = format!("`{field}` does not exist while events are recorded");
        assert!(error.contains(&expected), "{text}: {error}");
    }
    for text in
        ["has(time) && time > 0", "name == \"a:b\" && pid == 3 && $ctx.vtid == 4", "timed > 1"]
    {
        assert!(Filter::parse_for_recording(text).is_ok(), "{text}");
    }
}

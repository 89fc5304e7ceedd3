//! Tests of properties on random input. The generator is small and has fixed seeds.

use super::State;
use crate::eval::evaluate;
use crate::program::Program;
use crate::tree::Type;
use crate::{FILTER_SIZE_MAX, Filter, Integer, Value};
use blkkin_sys::testing::Random;

const FIELDS: [&str; 10] = [
    "a",
    "b.c",
    "d[3].e",
    "$ctx.vpid",
    "$app.x:y",
    "$event.cpu",
    "$env.z",
    "$packet.w",
    "time",
    "severity",
];
const NUMBERS: [&str; 9] =
    ["0", "1", "-1", "0x10", "18446744073709551615", "-9223372036854775808", "'a'", "5ms", "63"];
const FLOATS: [&str; 4] = ["0.5", "-1e300", "0x1p-3", "0.0"];
const STRINGS: [&str; 6] =
    [r#""""#, r#""foo""#, r#""\xff\"\\""#, r#""a\*b""#, "\"\u{7f}é\"", r#""\x00z""#];
const GLOBS: [&str; 4] = [r#""*""#, r#""a*b\**""#, r#""**\xff*""#, r#""f*""#];
const COMPARISONS: [&str; 6] = ["==", "!=", "<", "<=", ">", ">="];
const BITS: [&str; 6] = ["&", "|", "^", "<<", ">>", "%"];
const SUMS: [&str; 4] = ["+", "-", "*", "/"];

/// Makes a well-typed expression. The operands of each operator are in parentheses, so that the
/// parser's precedences do not matter.
fn expression(random: &mut Random, ty: Type, depth: usize) -> String {
    if depth == 0 {
        return match ty {
            Type::Int => random.one_of(&NUMBERS).to_string(),
            Type::Float => random.one_of(&FLOATS).to_string(),
            Type::String => random.one_of(&STRINGS).to_string(),
            Type::Bool => format!("has({})", random.one_of(&FIELDS)),
            Type::Unknown => random.one_of(&FIELDS).to_string(),
        };
    }
    let depth = random.below(depth);
    let mut child = |ty| expression(random, ty, depth);
    let (integer, number) = (child(Type::Int), child(Type::Float));
    let (field, other_field) = (child(Type::Unknown), child(Type::Unknown));
    let (one, two, three) = (child(Type::Bool), child(Type::Bool), child(Type::Bool));
    let (string, other_string) = (child(Type::String), child(Type::String));
    let comparison = random.one_of(&COMPARISONS);
    match (ty, random.below(8)) {
        (Type::Int, 0) => format!("~({integer})"),
        (Type::Int, 1) => format!("-(({one}) - ({two}))"),
        (Type::Int, _) => format!("({integer}) {} ({field})", random.one_of(&BITS)),
        (Type::Float, 0) => format!("-({number})"),
        (Type::Float, _) => format!("({number}) {} ({integer})", random.one_of(&SUMS)),
        (Type::String, _) => string,
        (Type::Bool, 0) => format!("!({one})"),
        (Type::Bool, 1) => format!("({one}) && ({two}) && ({three})"),
        (Type::Bool, 2) => format!("({one}) || (({two}) || ({three}))"),
        (Type::Bool, 3) => format!("({one}) && (({two}) || ({field}))"),
        (Type::Bool, 4) => format!("({string}) {comparison} ({other_string})"),
        (Type::Bool, 5) => {
            format!("({other_string}) {} ({})", random.one_of(&["==", "!="]), random.one_of(&GLOBS))
        }
        (Type::Bool, 6) => format!("(severity) {comparison} (warning)"),
        (Type::Bool, _) => format!("({number}) {comparison} ({one})"),
        (Type::Unknown, 0) => format!("-({field})"),
        (Type::Unknown, _) => format!("({field}) {} ({other_field})", random.one_of(&SUMS)),
    }
}

fn value(random: &mut Random) -> Value<'static> {
    match random.below(9) {
        0 => Value::Absent,
        1 => Value::Present,
        2 => Value::Int(random.next().cast_signed()),
        3 => Value::Int(random.next().cast_signed() % 3),
        4 => Value::Uint(random.next()),
        5 => Value::Uint(random.next() % 3),
        6 => Value::Float(f64::from_bits(random.next())),
        7 => Value::Str(random.one_of(&[b"foo".as_slice(), b"", b"a*b", b"\xff"])),
        _ => Value::Enum(Integer::Signed(random.next().cast_signed() % 3), &State),
    }
}

/// A filter's canonical text parses to the same tree, gives the same results for events, and is its
/// own canonical text. Recursion and the compiled program also give the same results.
#[test]
fn canonical_text_parses_to_the_same_tree() {
    let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
    for _ in 0..4000 {
        let text = expression(&mut random, Type::Bool, 5);
        let filter = match Filter::parse(&text) {
            Ok(filter) => filter,
            Err(error) => panic!("{}", error.render(false)),
        };
        let canonical = filter.to_string();
        let again = match Filter::parse(&canonical) {
            Ok(again) => again,
            Err(error) => panic!("{text}\n{}", error.render(false)),
        };
        assert_eq!(filter.root(), again.root(), "{text}\n{canonical}");
        assert_eq!(canonical, again.to_string());
        for _ in 0..5 {
            let values: Vec<Value<'_>> =
                filter.operands().iter().map(|_| value(&mut random)).collect();
            let expected = evaluate(filter.root(), &values[..]);
            let program = Program::new(filter.root()).expect("it needs few values");
            assert_eq!(program.matches(&values[..]), expected, "{text}");
            assert_eq!(filter.eval(&values[..]), expected, "{text}");
            assert_eq!(again.eval(&values[..]), expected, "{text}");
        }
    }
}

/// Parses any text. An error must be displayable. A filter must be evaluable, and its canonical
/// text must parse to the same tree unless it is too long. Returns true if the text is a valid
/// filter.
fn try_everything(text: &str, random: &mut Random) -> bool {
    match Filter::parse(text) {
        Err(error) => {
            assert!(!error.render(true).is_empty() && !error.to_string().is_empty());
            false
        }
        Ok(filter) => {
            let values: Vec<Value<'_>> = filter.operands().iter().map(|_| value(random)).collect();
            filter.eval(&values[..]);
            let canonical = filter.to_string();
            // Spaces and escapes may make the canonical text longer than the original.
            if canonical.len() <= FILTER_SIZE_MAX {
                let again = Filter::parse(&canonical).map(|again| again.root().clone());
                assert!(again.as_ref() == Ok(filter.root()), "{text:.200}\n{canonical:.200}");
            }
            true
        }
    }
}

#[test]
fn random_bytes_do_no_harm() {
    let mut random = Random::new(42);
    for _ in 0..20_000 {
        let length = random.below(24);
        let bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        try_everything(&String::from_utf8_lossy(&bytes), &mut random);
    }
}

#[test]
fn random_tokens_do_no_harm() {
    const OTHERS: [&str; 24] = [
        "(", ")", "[", "]", ".", "!", "~", "-", "+", "&&", "||", "has(", "$ctx.", "\"", "'", "\\",
        "/*", "//", "0x", "1e", "=", " ", "\n", "é",
    ];
    let mut random = Random::new(7);
    let mut parsed = 0;
    for _ in 0..40_000 {
        let mut text = String::new();
        for _ in 0..random.below(9) {
            text += match random.below(8) {
                0 => random.one_of(&FIELDS),
                1 => random.one_of(&NUMBERS),
                2 => random.one_of(&STRINGS),
                3 => random.one_of(&COMPARISONS),
                4 => random.one_of(&BITS),
                5 => random.one_of(&GLOBS),
                _ => random.one_of(&OTHERS),
            };
        }
        parsed += usize::from(try_everything(&text, &mut random));
    }
    assert!(parsed > 500, "too few of the texts are filters to show anything: {parsed}");
}

/// A valid filter with a random character deleted, doubled or replaced causes no panic.
#[test]
fn damaged_filters_do_no_harm() {
    let mut random = Random::new(1234);
    for _ in 0..5000 {
        let mut characters: Vec<char> = expression(&mut random, Type::Bool, 3).chars().collect();
        let place = random.below(characters.len());
        match random.below(3) {
            0 => drop(characters.remove(place)),
            1 => characters.insert(place, characters[place]),
            _ => {
                characters[place] =
                    random.one_of(&["x", "\"", "(", ".", "9", "*"]).chars().next().unwrap_or('x')
            }
        }
        try_everything(&characters.iter().collect::<String>(), &mut random);
    }
}

/// Parsing, printing and evaluation take time linear in the length of the text.
#[test]
fn long_hostile_texts_end_soon() {
    let mut random = Random::new(99);
    let distinct: Vec<String> = (0..8000).map(|number| format!("a{number}")).collect();
    assert!(try_everything(&distinct.join("||"), &mut random));
    let long = |unit: &str| unit.repeat(65_000 / unit.len());
    for text in [
        format!("a{}", long(".a")),
        format!("a{}", long("[1]")),
        format!("a==\"{}\"", long("*")),
        format!("a==\"{}\"", long("a*")),
        format!("a==\"{}\"", long("\\x00")),
        long("/**/"),
        long("a&&"),
        long("a "),
        long("$ctx.a "),
        long("1"),
        long("1."),
        long("\"\\\""),
        format!("a{}", long("\n")),
        format!("0x.{}1p3", long("0")),
        format!("perf:{}", long("-a")),
    ] {
        try_everything(&text, &mut random);
    }
}

//! Spelling of names and strings in TSDL text.

use crate::tsdl::lexer;

/// Returns whether a name needs neither quotes nor escapes, so that all readers read it alike.
pub(super) fn is_plain(name: &str) -> bool {
    name.is_ascii() && is_identifier(name)
}

/// Returns whether a name is an identifier and no keyword. Letters beyond ASCII need escapes.
pub(super) fn is_identifier(name: &str) -> bool {
    let mut letters = name.chars();
    let is_start = |letter: char| letter == '_' || letter.is_alphabetic();
    letters.next().is_some_and(is_start)
        && letters.all(|letter| is_start(letter) || letter.is_ascii_digit())
        && !lexer::is_keyword(name)
}

/// Escapes the letters of a name beyond ASCII.
pub(super) fn escaped(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for letter in name.chars() {
        match u32::from(letter) {
            0..0x80 => out.push(letter),
            code @ 0x80..0x1_0000 => out.push_str(&format!("\\u{code:04x}")),
            code => out.push_str(&format!("\\U{code:08x}")),
        }
    }
    out
}

/// Writes a string literal. Numeric escapes are octal, because babeltrace2 reads up to three digits
/// after `\x`.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            control if control.is_ascii_control() => {
                out.push_str(&format!("\\{:03o}", u32::from(control)));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

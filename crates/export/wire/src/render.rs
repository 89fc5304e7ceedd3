//! JSON writer for the JSON formats and for tags with lists or maps. Also encodes and decodes
//! base64.

use blkkin_model::hex;
use std::fmt::Write;
use std::net::Ipv4Addr;

/// Writes a quoted string. Escapes the same characters as Zipkin: those that JSON requires, and
/// U+2028 and U+2029, which end a line in JavaScript.
pub(crate) fn string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    escaped(out, text);
    out.push(b'"');
}

/// Writes the contents of a string, without quotes.
pub(crate) fn escaped(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    let (mut plain, mut at) = (0, 0);
    while let Some(byte) = bytes.get(at) {
        if let Some(word) = bytes.get(at..).and_then(<[u8]>::first_chunk)
            && is_plain(u64::from_le_bytes(*word))
        {
            at += 8;
        } else if NOT_PLAIN[usize::from(*byte)] {
            out.extend_from_slice(bytes.get(plain..at).unwrap_or_default());
            let size = escape(out, bytes.get(at..).unwrap_or_default());
            plain = at + size;
            at += size.max(1);
        } else {
            at += 1;
        }
    }
    out.extend_from_slice(bytes.get(plain..).unwrap_or_default());
}

/// Returns true if the eight bytes contain no byte below 0x20, no quote, no backslash and no
/// non-ASCII byte.
#[inline]
fn is_plain(word: u64) -> bool {
    let all = |byte: u8| u64::from_le_bytes([byte; 8]);
    let zero = |word: u64| word.wrapping_sub(all(1)) & !word;
    let control = word.wrapping_sub(all(0x20)) & !word;
    let odd = control | zero(word ^ all(b'"')) | zero(word ^ all(b'\\')) | word;
    odd & all(0x80) == 0
}

/// Writes the escape of the first character and returns the number of bytes that the escape
/// replaces. Returns 0 if the first byte is part of a character without an escape.
fn escape(out: &mut Vec<u8>, bytes: &[u8]) -> usize {
    let escape: &[u8] = match *bytes {
        [b'"', ..] => b"\\\"",
        [b'\\', ..] => b"\\\\",
        [b'\t', ..] => b"\\t",
        [0x08, ..] => b"\\b",
        [b'\n', ..] => b"\\n",
        [b'\r', ..] => b"\\r",
        [0x0c, ..] => b"\\f",
        // U+2028 and U+2029.
        [0xe2, 0x80, 0xa8, ..] => b"\\u2028",
        [0xe2, 0x80, 0xa9, ..] => b"\\u2029",
        [byte @ ..0x20, ..] => {
            let [high, low] = hex::byte_digits(byte);
            &[b'\\', b'u', b'0', b'0', high, low]
        }
        _ => return 0,
    };
    out.extend_from_slice(escape);
    if bytes.first() == Some(&0xe2) { 3 } else { 1 }
}

const NOT_PLAIN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = true;
        byte += 1;
    }
    table[b'"' as usize] = true;
    table[b'\\' as usize] = true;
    table[0xe2] = true;
    table
};

/// Writes a 64-bit id as 16 hexadecimal digits.
pub(crate) fn hex(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&hex::digits(number));
}

/// Writes an unsigned integer in decimal.
pub(crate) fn unsigned(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Writes a signed integer in decimal.
pub(crate) fn signed(out: &mut Vec<u8>, number: i64) {
    if number < 0 {
        out.push(b'-');
    }
    unsigned(out, number.unsigned_abs());
}

/// Writes an IPv4 address in dotted decimal notation.
pub(crate) fn ipv4(out: &mut Vec<u8>, address: Ipv4Addr) {
    for (index, part) in address.octets().into_iter().enumerate() {
        if index > 0 {
            out.push(b'.');
        }
        unsigned(out, part.into());
    }
}

/// Writes a floating-point number; NaN and infinities become strings.
pub(crate) fn double(out: &mut Vec<u8>, number: f64) {
    if number.is_finite() {
        display(out, number);
    } else {
        string(out, not_finite(number));
    }
}

/// Returns the name of NaN or an infinity, as in protobuf's JSON mapping.
pub(crate) fn not_finite(number: f64) -> &'static str {
    match number {
        number if number.is_nan() => "NaN",
        f64::INFINITY => "Infinity",
        _ => "-Infinity",
    }
}

/// Writes a value by its `Display` implementation.
pub(crate) fn display(out: &mut Vec<u8>, value: impl std::fmt::Display) {
    let mut text = Utf8(out);
    // Writing to memory does not fail.
    let _ = write!(text, "{value}");
}

struct Utf8<'o>(&'o mut Vec<u8>);

impl Write for Utf8<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// Writes bytes as base64.
pub(crate) fn base64(out: &mut Vec<u8>, bytes: &[u8]) {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for chunk in bytes.chunks(3) {
        let three = [0, 1, 2].map(|index| chunk.get(index).copied().unwrap_or(0));
        let number = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for index in 0..4 {
            let letter = LETTERS[(number >> (18 - 6 * index)) as usize & 63];
            out.push(if index <= chunk.len() { letter } else { b'=' });
        }
    }
}

/// Decodes base64 in either alphabet, with or without padding.
pub(crate) fn from_base64(text: &[u8]) -> Option<Vec<u8>> {
    let filled = text.iter().rev().take_while(|letter| **letter == b'=').count();
    let letters = text.get(..text.len() - filled)?;
    if letters.len() % 4 == 1 || filled > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(letters.len() / 4 * 3 + 2);
    for chunk in letters.chunks(4) {
        let mut number = 0;
        for letter in chunk {
            number = number << 6 | u32::from(value_of_letter(*letter)?);
        }
        let [_, three @ ..] = (number << (6 * (4 - chunk.len()))).to_be_bytes();
        bytes.extend_from_slice(three.get(..chunk.len() - 1)?);
    }
    Some(bytes)
}

fn value_of_letter(letter: u8) -> Option<u8> {
    Some(match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(write: impl FnOnce(&mut Vec<u8>), expected: &str) {
        let mut out = Vec::new();
        write(&mut out);
        assert_eq!(String::from_utf8(out).expect("text"), expected);
    }

    #[test]
    fn text_is_escaped() {
        check(|out| string(out, "a/<b>\u{7f}ü"), "\"a/<b>\u{7f}ü\"");
        check(|out| string(out, "\"\\\t\n\r\u{8}\u{c}"), r#""\"\\\t\n\r\b\f""#);
        check(|out| string(out, "\0\u{1f}"), r#""\u0000\u001f""#);
        check(|out| string(out, "\u{2028}x\u{2029}"), r#""\u2028x\u2029""#);
        check(|out| string(out, "€\u{2027}"), "\"€\u{2027}\"");
        for odd in ["\"", "\\", "\n", "\u{1f}", "\u{2028}", "ü", "€", " ", "\u{7f}", "\u{2027}"]
        {
            for size in 0..20 {
                let text = format!("{}{odd}{odd}{}", "x".repeat(size), "!~#[]/".repeat(3));
                let mut out = Vec::new();
                string(&mut out, &text);
                let again: String = serde_json::from_slice(&out).expect("JSON");
                assert_eq!(again, text);
                let needs = odd < " " || ["\"", "\\", "\u{2028}"].contains(&odd);
                assert_eq!(out.len() > text.len() + 2, needs, "{text}");
            }
        }
    }

    #[test]
    fn numbers_are_written() {
        check(|out| hex(out, 0x1f), "000000000000001f");
        check(|out| hex(out, u64::MAX - 1), "fffffffffffffffe");
        check(|out| unsigned(out, 0), "0");
        check(|out| unsigned(out, u64::MAX), &u64::MAX.to_string());
        check(|out| signed(out, i64::MIN), &i64::MIN.to_string());
        check(|out| ipv4(out, Ipv4Addr::new(0, 10, 255, 99)), "0.10.255.99");
        check(|out| double(out, 0.5), "0.5");
        check(|out| double(out, 1e21), "1000000000000000000000");
        check(|out| double(out, f64::NEG_INFINITY), "\"-Infinity\"");
        check(|out| double(out, f64::NAN), "\"NaN\"");
    }

    #[test]
    fn bytes_are_written() {
        check(|out| base64(out, b""), "");
        check(|out| base64(out, b"f"), "Zg==");
        check(|out| base64(out, b"fo"), "Zm8=");
        check(|out| base64(out, b"foo"), "Zm9v");
        check(|out| base64(out, &[0xff, 0xef, 0xbe, 0]), "/+++AA==");
    }

    #[test]
    fn base64_is_read() {
        for size in 0..20 {
            let bytes: Vec<u8> = (0..size).map(|n: u8| n.wrapping_mul(37)).collect();
            let mut text = Vec::new();
            base64(&mut text, &bytes);
            assert_eq!(from_base64(&text).as_ref(), Some(&bytes));
            text.retain(|letter| *letter != b'=');
            assert_eq!(from_base64(&text).as_ref(), Some(&bytes));
        }
        assert_eq!(from_base64(b"_-++"), Some(vec![0xff, 0xef, 0xbe]));
        for none in ["a", "a===", "ab=c", "a b", "ab\n", "===="] {
            assert_eq!(from_base64(none.as_bytes()), None, "{none}");
        }
    }
}

//! Lexer that splits TSDL text into [`Token`]s on demand. It skips comments and white space, and
//! resolves escapes in strings and identifiers.

use crate::metadata::error::MetadataError;
use std::borrow::Cow;

/// A token and its position in the text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token<'t> {
    /// Byte offset of the token's start.
    pub(super) at: usize,
    pub(super) kind: Kind<'t>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind<'t> {
    /// An identifier or keyword, with its escapes resolved.
    Word(Cow<'t, str>),
    /// A string or character literal, without its quotes and with its escapes resolved.
    Text(Cow<'t, str>),
    Integer(u64),
    Symbol(&'static str),
    End,
}

impl Kind<'_> {
    /// Describes the token for an error message.
    pub(super) fn describe(&self) -> String {
        match self {
            Kind::Word(word) => format!("`{}`", shortened(word)),
            Kind::Text(text) => format!("string \"{}\"", shortened(text)),
            Kind::Integer(value) => format!("{value}"),
            Kind::Symbol(symbol) => format!("`{symbol}`"),
            Kind::End => "the end of the metadata".to_owned(),
        }
    }
}

/// Keywords of TSDL, which cannot be names of fields. The keywords that [`is_type_keyword`] accepts
/// may be part of a type's name.
const KEYWORDS: [&str; 28] = [
    "align",
    "callsite",
    "char",
    "clock",
    "const",
    "double",
    "enum",
    "env",
    "event",
    "float",
    "floating_point",
    "int",
    "integer",
    "long",
    "short",
    "signed",
    "stream",
    "string",
    "struct",
    "trace",
    "typealias",
    "typedef",
    "unsigned",
    "variant",
    "void",
    "_Bool",
    "_Complex",
    "_Imaginary",
];

/// Returns whether `word` is a keyword of TSDL, which cannot name a field.
pub(crate) fn is_keyword(word: &str) -> bool {
    KEYWORDS.contains(&word)
}

/// Returns whether `word` is a keyword of C's basic types, such as `unsigned`, which names of types
/// may contain.
pub(super) fn is_type_keyword(word: &str) -> bool {
    matches!(
        word,
        "void"
            | "char"
            | "short"
            | "int"
            | "long"
            | "float"
            | "double"
            | "signed"
            | "unsigned"
            | "_Bool"
            | "_Complex"
            | "_Imaginary"
    )
}

/// Shortens a text to 80 characters and an ellipsis for an error message.
pub(super) fn shortened(text: &str) -> Cow<'_, str> {
    const LENGTH_MAX: usize = 80;
    match text.char_indices().nth(LENGTH_MAX) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// Lexer that returns the tokens of a text in sequence.
pub(super) struct Lexer<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Lexer<'t> {
    /// Makes a lexer that starts at the offset of a token.
    pub(super) fn new(text: &'t str, at: usize) -> Lexer<'t> {
        Lexer { text, at }
    }

    /// Returns the next token. At the end of the text, each call returns [`Kind::End`].
    pub(super) fn next(&mut self) -> Result<Token<'t>, MetadataError> {
        self.skip_blanks()?;
        let at = self.at;
        let bytes = self.text.as_bytes();
        let kind = match bytes.get(at) {
            None => Kind::End,
            Some(b'0'..=b'9') => self.integer()?,
            Some(&quote @ (b'"' | b'\'')) => self.literal(quote)?,
            // A wide string is read like any other: its prefix only affects storage in C.
            Some(b'L') if matches!(bytes.get(at + 1), Some(b'"' | b'\'')) => {
                self.at += 1;
                self.literal(bytes[at + 1])?
            }
            Some(b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'\\') => self.word()?,
            Some(_) => self.symbol()?,
        };
        Ok(Token { at, kind })
    }

    fn error(&self, at: usize, message: impl Into<String>) -> MetadataError {
        MetadataError::at(self.text, at, message)
    }

    fn skip_blanks(&mut self) -> Result<(), MetadataError> {
        let bytes = self.text.as_bytes();
        loop {
            let rest = &bytes[self.at..];
            self.at += match rest {
                [b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c, ..] => 1,
                [b'/', b'/', ..] => memchr::memchr(b'\n', rest).unwrap_or(rest.len()),
                [b'/', b'*', content @ ..] => match memchr::memmem::find(content, b"*/") {
                    Some(length) => length + 4,
                    None => return Err(self.error(self.at, "comment without end")),
                },
                _ => return Ok(()),
            };
        }
    }

    fn symbol(&mut self) -> Result<Kind<'t>, MetadataError> {
        // Each symbol stands before its own prefixes, so that the longest match is found first.
        const SYMBOLS: [&str; 19] = [
            "...", ":=", "->", "{", "}", ";", "=", "[", "]", "(", ")", "<", ">", ",", ".", ":",
            "*", "+", "-",
        ];
        let rest = &self.text[self.at..];
        match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            Some(symbol) => {
                self.at += symbol.len();
                Ok(Kind::Symbol(symbol))
            }
            None => {
                let letter = rest.chars().next().unwrap_or_default();
                let error = self.error(self.at, format!("unexpected character {letter:?}"));
                Err(if letter.is_alphabetic() {
                    error.hint(format!("in a name it is written \\u{:04x}", u32::from(letter)))
                } else {
                    error
                })
            }
        }
    }

    fn integer(&mut self) -> Result<Kind<'t>, MetadataError> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let length = bytes[start..]
            .iter()
            .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_')
            .count();
        self.at += length;
        let literal = &self.text[start..self.at];
        let digits = literal.trim_end_matches(['u', 'U', 'l', 'L']);
        let (digits, radix) = match digits.as_bytes() {
            [b'0', b'x' | b'X', ..] => (&digits[2..], 16),
            [b'0', b'b' | b'B', ..] => (&digits[2..], 2),
            [b'0', _, ..] => (&digits[1..], 8),
            _ => (digits, 10),
        };
        if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
            let message = format!("`{}` is no integer of base {radix}", shortened(literal));
            return Err(self.error(start, message));
        }
        match u64::from_str_radix(digits, radix) {
            Ok(value) => Ok(Kind::Integer(value)),
            Err(_) => {
                let message = format!("integer {} needs more than 64 bits", shortened(literal));
                Err(self.error(start, message))
            }
        }
    }

    fn word(&mut self) -> Result<Kind<'t>, MetadataError> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let plain_end = |from: usize| {
            from + bytes[from..]
                .iter()
                .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_')
                .count()
        };
        self.at = plain_end(start);
        if bytes.get(self.at) != Some(&b'\\') {
            return Ok(Kind::Word(Cow::Borrowed(&self.text[start..self.at])));
        }
        let mut word = self.text[start..self.at].to_owned();
        while bytes.get(self.at) == Some(&b'\\') {
            let escape = self.at;
            self.at += 1;
            match bytes.get(self.at) {
                Some(b'u' | b'U') => word.push(self.universal_character(escape)?),
                _ => return Err(self.error(escape, "unexpected character '\\\\'")),
            }
            let end = plain_end(self.at);
            word.push_str(&self.text[self.at..end]);
            self.at = end;
        }
        Ok(Kind::Word(Cow::Owned(word)))
    }

    /// Reads `u` with four or `U` with eight hexadecimal digits, after the backslash at `escape`.
    fn universal_character(&mut self, escape: usize) -> Result<char, MetadataError> {
        let length = if self.text.as_bytes()[self.at] == b'u' { 4 } else { 8 };
        let start = self.at + 1;
        let character = self
            .text
            .get(start..start + length)
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
            .and_then(char::from_u32);
        match character {
            Some(character) => {
                self.at = start + length;
                Ok(character)
            }
            None => {
                let message = format!("escape needs {length} hexadecimal digits of a character");
                Err(self.error(escape, message))
            }
        }
    }

    /// Reads a literal, including its quotes.
    fn literal(&mut self, quote: u8) -> Result<Kind<'t>, MetadataError> {
        let bytes = self.text.as_bytes();
        let opening = self.at;
        self.at += 1;
        let start = self.at;
        // Unescaped content, once an escape has been found; without escapes the literal borrows the
        // text.
        let mut escaped: Option<Vec<u8>> = None;
        loop {
            let Some(length) = memchr::memchr2(quote, b'\\', &bytes[self.at..]) else {
                return Err(self.error(opening, "string without end"));
            };
            let piece = &bytes[self.at..self.at + length];
            self.at += length;
            if bytes[self.at] == quote {
                let literal = match escaped {
                    None => Cow::Borrowed(&self.text[start..self.at]),
                    Some(mut content) => {
                        content.extend_from_slice(piece);
                        let content = String::from_utf8(content).map_err(|_| {
                            self.error(opening, "string with escapes that are not UTF-8")
                        })?;
                        Cow::Owned(content)
                    }
                };
                self.at += 1;
                return Ok(Kind::Text(literal));
            }
            let content = escaped.get_or_insert_default();
            content.extend_from_slice(piece);
            self.escape(content)?;
        }
    }

    /// Reads an escape, including its backslash.
    fn escape(&mut self, content: &mut Vec<u8>) -> Result<(), MetadataError> {
        let bytes = self.text.as_bytes();
        let backslash = self.at;
        self.at += 1;
        let letter = bytes.get(self.at).copied();
        content.push(match letter {
            Some(b'0'..=b'7') => self.numeric_escape(backslash, 8)?,
            Some(b'x') => {
                self.at += 1;
                self.numeric_escape(backslash, 16)?
            }
            Some(b'u' | b'U') => {
                let character = self.universal_character(backslash)?;
                content.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            _ => {
                self.at += 1;
                match letter {
                    Some(b'a') => 7,
                    Some(b'b') => 8,
                    Some(b't') => b'\t',
                    Some(b'n') => b'\n',
                    Some(b'v') => 11,
                    Some(b'f') => 12,
                    Some(b'r') => b'\r',
                    Some(same @ (b'\\' | b'\'' | b'"' | b'?')) => same,
                    _ => return Err(self.error(backslash, "unknown escape in a string")),
                }
            }
        });
        Ok(())
    }

    /// Reads up to three digits of base `radix` as the value of a byte.
    fn numeric_escape(&mut self, backslash: usize, radix: u32) -> Result<u8, MetadataError> {
        let bytes = self.text.as_bytes();
        let digits = bytes[self.at..]
            .iter()
            .take(3)
            .take_while(|byte| char::from(**byte).is_digit(radix))
            .count();
        let value = u8::from_str_radix(&self.text[self.at..self.at + digits], radix);
        self.at += digits;
        value.map_err(|_| self.error(backslash, "escape is not the number of a byte"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let mut lexer = Lexer::new(text, 0);
        let mut shown = Vec::new();
        loop {
            match lexer.next() {
                Ok(Token { kind: Kind::End, .. }) => break,
                Ok(Token { kind: Kind::Text(text), .. }) => shown.push(format!("{text:?}")),
                Ok(Token { kind: Kind::Word(text), .. }) => shown.push(text.into_owned()),
                Ok(token) => shown.push(token.kind.describe().replace('`', "")),
                Err(error) => {
                    shown.push(format!("<{error}>"));
                    break;
                }
            }
        }
        assert_eq!(shown.join(" "), expected, "tokens of {text:?}");
    }

    #[test]
    fn blanks_and_comments_vanish() {
        check("", "");
        check(" a\t/* b\n * c **/ d // e\nf// g", "a d f");
        check("a/**/b", "a b");
        check("a /* b", "a <line 1, column 3 (offset 2): comment without end>");
        check("a / b", "a <line 1, column 3 (offset 2): unexpected character '/'>");
    }

    #[test]
    fn symbols_are_taken_as_long_as_possible() {
        check("a:=b:c=d...e.f->g", "a := b : c = d ... e . f -> g");
        check("{}[]()<>;,*+-", "{ } [ ] ( ) < > ; , * + -");
        check("\n  $", "<line 2, column 3 (offset 3): unexpected character '$'>");
    }

    #[test]
    fn integers_of_all_bases() {
        check("0 7 42 052 0x2a 0X2A 0b101010", "0 7 42 42 42 42 42");
        check("1u 2UL 3ull 0x10LLU 4L", "1 2 3 16 4");
        check(
            "18446744073709551615 0xffffffffffffffff",
            "18446744073709551615 18446744073709551615",
        );
        check(
            "18446744073709551616",
            "<line 1, column 1 (offset 0): integer 18446744073709551616 needs more than 64 bits>",
        );
        check("08", "<line 1, column 1 (offset 0): `08` is no integer of base 8>");
        check("0x", "<line 1, column 1 (offset 0): `0x` is no integer of base 16>");
        check("12ab", "<line 1, column 1 (offset 0): `12ab` is no integer of base 10>");
    }

    #[test]
    fn words_may_hold_escaped_characters() {
        check("_a9 Lx caf\\u00e9s \\U0001F600", "_a9 Lx cafés 😀");
        check(
            "a \\u12",
            "a <line 1, column 3 (offset 2): escape needs 4 hexadecimal digits of a character>",
        );
        check(
            "\\ud800",
            "<line 1, column 1 (offset 0): escape needs 4 hexadecimal digits of a character>",
        );
        check("a\\b", "<line 1, column 2 (offset 1): unexpected character '\\\\'>");
        check(
            "é",
            "<line 1, column 1 (offset 0): unexpected character 'é' \
             (in a name it is written \\u00e9)>",
        );
    }

    #[test]
    fn strings_and_their_escapes() {
        check(r#""" "a b" 'c' L"w""#, r#""" "a b" "c" "w""#);
        check(r#""\n\t\r\a\b\v\f\\\'\"\?""#, r#""\n\t\r\u{7}\u{8}\u{b}\u{c}\\'\"?""#);
        check(r#""\101\0\x41-\xc3\xa9\u00e9é/*x*/""#, r#""A\0A-ééé/*x*/""#);
        check("\"two\nlines\"", "\"two\\nlines\"");
        check("a \"b", "a <line 1, column 3 (offset 2): string without end>");
        check("\"b\\\"", "<line 1, column 1 (offset 0): string without end>");
        check(r#""a\q""#, "<line 1, column 3 (offset 2): unknown escape in a string>");
        check(r#""a\x""#, "<line 1, column 3 (offset 2): escape is not the number of a byte>");
        check(r#""\777""#, "<line 1, column 2 (offset 1): escape is not the number of a byte>");
        check(r#""\xff""#, "<line 1, column 1 (offset 0): string with escapes that are not UTF-8>");
    }

    #[test]
    fn keywords_are_listed_once() {
        assert!(is_keyword("struct") && !is_keyword("structure") && is_type_keyword("unsigned"));
        assert!(KEYWORDS.iter().enumerate().all(|(n, word)| !KEYWORDS[..n].contains(word)));
    }
}

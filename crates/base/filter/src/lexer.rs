//! Lexer that splits a filter's text into tokens on demand. Start at [`Lexer::next`].

use crate::fault::Fault;
use crate::number;
use crate::token::{Token, TokenKind};
use crate::tree::Span;

/// List of all symbols. Each symbol precedes its own prefixes. The symbols in the first and the
/// last row are no part of the language; the parser refuses them, and for common mistakes suggests
/// an operator.
const SYMBOLS: &[&str] = &[
    "===", "!==", "=~", "=<", "=>", "<>", ":=", //
    "->", "&&", "||", "==", "!=", "<=", ">=", "<<", ">>", "!", "<", ">", "&", "|", "^", "~", "+",
    "-", "*", "/", "%", "(", ")", "[", "]", ".", //
    "=", "?", ":", ",", ";", "{", "}", "@", "#",
];

/// Lexer that returns the tokens of a text in sequence.
pub(crate) struct Lexer<'t> {
    text: &'t str,
    position: usize,
}

impl<'t> Lexer<'t> {
    pub(crate) fn new(text: &'t str) -> Lexer<'t> {
        Lexer { text, position: 0 }
    }

    /// Returns the next token. Returns [`TokenKind::End`] in every call at the end of the text.
    pub(crate) fn next(&mut self) -> Result<Token<'t>, Fault> {
        self.skip_space()?;
        let start = self.position;
        let rest = self.rest().as_bytes();
        let kind = match rest {
            [] => TokenKind::End,
            [b'0'..=b'9', ..] | [b'.', b'0'..=b'9', ..] => {
                let (kind, length) = number::lex(self.rest(), start)?;
                self.position += length;
                kind
            }
            // Wide literals of C, which LTTng also accepts.
            [b'L', b'"', ..] => self.string(2)?,
            [b'L', b'\'', ..] => self.character(2)?,
            [b'"', ..] => self.string(1)?,
            [b'\'', ..] => self.character(1)?,
            [b'$', ..] => self.scope()?,
            _ if self.name_length() > 0 => TokenKind::Name(self.take(self.name_length())),
            _ => self.symbol()?,
        };
        Ok(Token { kind, span: self.span_from(start) })
    }

    fn rest(&self) -> &'t str {
        &self.text[self.position..]
    }

    fn take(&mut self, length: usize) -> &'t str {
        let taken = &self.rest()[..length];
        self.position += length;
        taken
    }

    fn span_from(&self, start: usize) -> Span {
        Span { start, end: self.position }
    }

    /// Skips white space and comments.
    fn skip_space(&mut self) -> Result<(), Fault> {
        loop {
            let rest = self.rest();
            if let Some(comment) = rest.strip_prefix("/*") {
                let Some(length) = comment.find("*/") else {
                    let span = Span { start: self.position, end: self.position + 2 };
                    return Err(Fault::new(span, "this comment has no end").hint("add `*/`"));
                };
                self.position += length + 4;
            } else if rest.starts_with("//") {
                self.position += rest.find('\n').unwrap_or(rest.len());
            } else {
                let length = rest.len() - rest.trim_start().len();
                if length == 0 {
                    return Ok(());
                }
                self.position += length;
            }
        }
    }

    fn name_length(&self) -> usize {
        name_length(self.rest())
    }

    fn scope(&mut self) -> Result<TokenKind<'t>, Fault> {
        let start = self.position;
        self.position += 1;
        match self.name_length() {
            0 => Err(Fault::new(self.span_from(start), "`$` without a name")
                .hint("write `$ctx.NAME`, `$app.PROVIDER:TYPE`, `$event.NAME`, `$env.NAME` or `$packet.NAME`")),
            length => Ok(TokenKind::Scope(self.take(length))),
        }
    }

    fn symbol(&mut self) -> Result<TokenKind<'t>, Fault> {
        let rest = self.rest();
        if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            self.position += symbol.len();
            return Ok(TokenKind::Symbol(symbol));
        }
        let start = self.position;
        let character = rest.chars().next().unwrap_or_default();
        self.position += character.len_utf8();
        let shown = character.escape_debug();
        let fault = Fault::new(self.span_from(start), format!("unexpected character `{shown}`"));
        Err(match character {
            '“' | '”' | '„' | '‘' | '’' => {
                fault.hint("write strings in straight double quotes")
            }
            '≤' | '≥' | '≠' => fault.hint("write `<=`, `>=` or `!=`"),
            _ => fault,
        })
    }

    /// Reads a string literal. `opening` is the size of its prefix and opening quote in bytes.
    fn string(&mut self, opening: usize) -> Result<TokenKind<'t>, Fault> {
        let start = self.position;
        self.position += opening;
        let mut pieces = Vec::new();
        let mut piece = Vec::new();
        while let Some(byte) = self.literal_byte(b'"', start)? {
            match byte {
                LiteralByte::Byte(byte) => piece.push(byte),
                LiteralByte::Star if pieces.is_empty() || !piece.is_empty() => {
                    pieces.push(std::mem::take(&mut piece));
                }
                // Adjacent stars are merged.
                LiteralByte::Star => {}
            }
        }
        pieces.push(piece);
        Ok(TokenKind::Text(pieces))
    }

    /// Reads a character constant. `opening` is the size of its prefix and opening quote in bytes.
    fn character(&mut self, opening: usize) -> Result<TokenKind<'t>, Fault> {
        let start = self.position;
        self.position += opening;
        let mut bytes = Vec::new();
        while let Some(byte) = self.literal_byte(b'\'', start)? {
            bytes.push(match byte {
                LiteralByte::Star => b'*',
                LiteralByte::Byte(byte) => byte,
            });
        }
        match bytes.as_slice() {
            [byte] => Ok(TokenKind::Integer(u64::from(*byte))),
            _ => Err(Fault::new(self.span_from(start), "a character constant holds one byte")
                .hint("write strings in double quotes")),
        }
    }

    /// Reads the next byte of a quoted literal, whose prefix or quote is at `start`. Returns `None`
    /// at the closing quote.
    fn literal_byte(&mut self, quote: u8, start: usize) -> Result<Option<LiteralByte>, Fault> {
        let bytes = self.text.as_bytes();
        let byte = match bytes.get(self.position) {
            None | Some(b'\n') => {
                let what = if quote == b'"' { "string" } else { "character constant" };
                let span = Span { start, end: start + 1 };
                let quote = quote as char;
                return Err(Fault::new(span, format!("this {what} has no end"))
                    .hint(format!("add `{quote}`; a new line within is written `\\n`")));
            }
            Some(byte) => *byte,
        };
        self.position += 1;
        Ok(match byte {
            b'\\' => Some(LiteralByte::Byte(self.escape()?)),
            b'*' => Some(LiteralByte::Star),
            _ if byte == quote => None,
            _ => Some(LiteralByte::Byte(byte)),
        })
    }

    /// Reads an escape sequence after its backslash. Returns the byte that the sequence stands for.
    fn escape(&mut self) -> Result<u8, Fault> {
        let start = self.position - 1;
        let Some(character) = self.rest().chars().next() else {
            return Err(Fault::new(self.span_from(start), "a backslash with nothing behind"));
        };
        if let '0'..='7' = character {
            return self.escaped_digits(start, 8, 3);
        }
        self.position += character.len_utf8();
        Ok(match character {
            'n' => b'\n',
            't' => b'\t',
            'r' => b'\r',
            'a' => 0x07,
            'b' => 0x08,
            'f' => 0x0c,
            'v' => 0x0b,
            '\\' | '"' | '\'' | '?' | '*' => character as u8,
            'x' => return self.escaped_digits(start, 16, 2),
            _ => {
                let message = format!("unknown escape `\\{}`", character.escape_debug());
                return Err(Fault::new(self.span_from(start), message)
                    .hint("a backslash itself is written `\\\\`"));
            }
        })
    }

    /// Reads 1 to `digits_max` digits of an escape sequence that starts at `start`. Returns the
    /// byte that they encode.
    fn escaped_digits(&mut self, start: usize, base: u32, digits_max: usize) -> Result<u8, Fault> {
        let digits = self.rest().bytes().take(digits_max);
        let length = digits.take_while(|digit| (*digit as char).is_digit(base)).count();
        let digits = self.take(length);
        u8::from_str_radix(digits, base).map_err(|_| {
            let reason = if digits.is_empty() { "without digits" } else { "larger than a byte" };
            Fault::new(self.span_from(start), format!("an escape {reason}"))
        })
    }
}

enum LiteralByte {
    /// Unescaped `*`: any bytes in a string, the byte `*` in a character constant.
    Star,
    Byte(u8),
}

/// Returns true if the whole text is a name, which needs no quotes.
pub(crate) fn is_name(text: &str) -> bool {
    !text.is_empty() && name_length(text) == text.len()
}

/// Returns the length of the name at the start of a text, in bytes. A name may contain colons. The
/// name of a perf counter (`perf:cpu:branch-misses`) may also contain hyphens in front of letters.
fn name_length(rest: &str) -> usize {
    let perf = rest.starts_with("perf:");
    let mut chars = rest.char_indices().peekable();
    while let Some((index, c)) = chars.next() {
        let next = chars.peek().map(|(_, next)| *next);
        let fits = match c {
            '_' => true,
            ':' => index > 0,
            '-' => perf && next.is_some_and(char::is_alphabetic),
            _ if index == 0 => c.is_alphabetic(),
            _ => c.is_alphanumeric(),
        };
        if !fits {
            return index;
        }
    }
    rest.len()
}

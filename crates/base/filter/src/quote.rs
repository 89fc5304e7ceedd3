//! Writes string literals in the form that the parser reads.

use std::fmt::{self, Write};

/// Writes a string literal in quotes. Between two pieces, writes an unescaped star.
pub(crate) fn write_string<'b>(
    f: &mut fmt::Formatter<'_>,
    pieces: impl IntoIterator<Item = &'b [u8]>,
) -> fmt::Result {
    f.write_char('"')?;
    for (position, piece) in pieces.into_iter().enumerate() {
        if position > 0 {
            f.write_char('*')?;
        }
        for chunk in piece.utf8_chunks() {
            chunk.valid().chars().try_for_each(|character| write_character(f, character))?;
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
    }
    f.write_char('"')
}

fn write_character(f: &mut fmt::Formatter<'_>, character: char) -> fmt::Result {
    match character {
        '"' | '\\' | '*' => write!(f, "\\{character}"),
        '\n' => f.write_str("\\n"),
        '\t' => f.write_str("\\t"),
        _ if character.is_control() => {
            let mut bytes = [0; 4];
            let encoded = character.encode_utf8(&mut bytes);
            encoded.bytes().try_for_each(|byte| write!(f, "\\x{byte:02x}"))
        }
        _ => f.write_char(character),
    }
}

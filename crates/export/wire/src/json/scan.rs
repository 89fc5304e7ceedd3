//! Reads strings: searches for their ends and decodes escapes.

use super::Reader;
use crate::error::{Fault, Reason, Result};

/// Size of a word in bytes. The search for the end of a string examines two words at once.
const WORD: usize = 8;
const ONES: u64 = u64::from_le_bytes([1; WORD]);
const TOPS: u64 = ONES << 7;

/// Sets the top bit of each byte that equals `byte`. Only the lowest set bit is reliable.
#[inline]
fn mark_byte(word: u64, byte: u8) -> u64 {
    let differs = word ^ (ONES * byte as u64);
    differs.wrapping_sub(ONES) & !differs & TOPS
}

/// Sets the top bit of each quote and backslash. Only the lowest set bit is reliable.
#[inline]
fn mark_special(bytes: [u8; WORD]) -> u64 {
    let word = u64::from_le_bytes(bytes);
    mark_byte(word, b'"') | mark_byte(word, b'\\')
}

/// Returns the number of bytes before the next quote or backslash; `None` if there is neither.
#[inline]
fn plain_size(bytes: &[u8]) -> Option<usize> {
    let mut size = 0;
    // Two words at once: most strings end within them, and one branch covers both.
    while let Some(chunk) = bytes.get(size..).and_then(<[u8]>::first_chunk::<{ 2 * WORD }>) {
        let (first, second) = chunk.split_at(WORD);
        let words = [first, second].map(|word| word.try_into().map_or(0, mark_special));
        if words[0] | words[1] != 0 {
            let (word, before) = if words[0] != 0 { (words[0], 0) } else { (words[1], WORD) };
            return Some(size + before + word.trailing_zeros() as usize / 8);
        }
        size += 2 * WORD;
    }
    let rest = bytes.get(size..)?;
    rest.iter().position(|byte| matches!(byte, b'"' | b'\\')).map(|more| size + more)
}

impl<'t> Reader<'t> {
    /// Reads a string and decodes its escapes.
    #[inline]
    pub(crate) fn string(&mut self) -> Result<&'t str> {
        let start = self.open_string()?;
        let size = self.plain(start)?;
        let end = start + size;
        if self.bytes[end] != b'"' {
            return self.escaped(start);
        }
        if size > self.limits.text_bytes {
            return Err(self.too_long(start));
        }
        self.at = end + 1;
        Ok(match self.text {
            // A quote is never part of a multi-byte character.
            Some(text) => text.get(start..end).unwrap_or_default(),
            None => self.arena.text(self.bytes.get(start..end).unwrap_or_default()),
        })
    }

    #[inline]
    fn open_string(&self) -> Result<usize> {
        match self.bytes.get(self.at) {
            Some(b'"') => Ok(self.at + 1),
            _ => Err(self.expected("text")),
        }
    }

    #[inline]
    fn plain(&self, from: usize) -> Result<usize> {
        let rest = self.bytes.get(from..).unwrap_or_default();
        plain_size(rest).ok_or_else(|| Reason::Ends.at(self.bytes.len()))
    }

    #[cold]
    pub(super) fn too_long(&self, offset: usize) -> Box<Fault> {
        let count_max = self.limits.text_bytes as u64;
        Reason::TooMany { what: "bytes", count_max }.at(offset)
    }

    /// Decodes a string with escapes. `start` is the offset of its first character.
    #[cold]
    fn escaped(&mut self, start: usize) -> Result<&'t str> {
        let (mut text, mut at) = (Vec::new(), start);
        loop {
            let size = self.plain(at)?;
            text.extend_from_slice(self.bytes.get(at..at + size).unwrap_or_default());
            at += size;
            if text.len() > self.limits.text_bytes {
                return Err(self.too_long(start));
            }
            if self.bytes[at] == b'"' {
                break;
            }
            at = self.escape(at + 1, &mut text)?;
        }
        self.at = at + 1;
        let text = String::from_utf8(text);
        let text = text.unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned());
        Ok(self.arena.store(text))
    }

    /// Decodes the escape whose backslash is before `at`. Returns the offset of its end.
    fn escape(&self, at: usize, text: &mut Vec<u8>) -> Result<usize> {
        let byte = match self.bytes.get(at) {
            Some(byte @ (b'"' | b'\\' | b'/')) => *byte,
            Some(b'b') => b'\x08',
            Some(b'f') => b'\x0c',
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => return self.unicode(at + 1, text),
            Some(_) => return Err(Reason::Expected("an escape").at(at)),
            None => return Err(Reason::Ends.at(at)),
        };
        text.push(byte);
        Ok(at + 1)
    }

    /// Decodes a `\u` escape or a surrogate pair. A lone surrogate becomes U+FFFD.
    fn unicode(&self, at: usize, text: &mut Vec<u8>) -> Result<usize> {
        let unit = self.unit(at)?;
        let low = match unit {
            0xd800..0xdc00 if self.bytes.get(at + 4..at + 6) == Some(br"\u") => {
                self.unit(at + 6).ok()
            }
            _ => None,
        };
        let units = [unit, low.unwrap_or(0)];
        let (found, end) = match low {
            Some(0xdc00..0xe000) => (&units[..], at + 10),
            _ => (&units[..1], at + 4),
        };
        let found = char::decode_utf16(found.iter().copied()).next();
        let found = found.and_then(Result::ok).unwrap_or(char::REPLACEMENT_CHARACTER);
        text.extend_from_slice(found.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(end)
    }

    fn unit(&self, at: usize) -> Result<u16> {
        let digits: &[u8; 4] = self
            .bytes
            .get(at..)
            .and_then(<[u8]>::first_chunk)
            .ok_or_else(|| Reason::Ends.at(self.bytes.len()))?;
        digits.iter().try_fold(0, |number, digit| {
            let value = char::from(*digit).to_digit(16);
            let value = value.ok_or_else(|| Reason::Expected("four hexadecimal digits").at(at))?;
            Ok(number << 4 | value as u16)
        })
    }

    /// Skips a string without decoding its escapes.
    pub(super) fn skip_string(&mut self) -> Result<()> {
        let mut at = self.open_string()?;
        loop {
            at += self.plain(at)?;
            if self.bytes[at] == b'"' {
                self.at = at + 1;
                return Ok(());
            }
            at += 2;
        }
    }

    /// Reads a quoted id of 16 or 32 digits; `None` if there is no closing quote after 16 or 32
    /// bytes. The caller must check the digits.
    #[inline]
    pub(crate) fn quoted_digits(&mut self) -> Option<&'t [u8]> {
        let rest = self.bytes.get(self.at..)?;
        let size = match (rest.get(17), rest.get(33)) {
            (Some(b'"'), _) => 16,
            (_, Some(b'"')) => 32,
            _ => return None,
        };
        let digits = rest.get(1..=size).filter(|_| rest.first() == Some(&b'"'))?;
        // If the string ends earlier or has an escape, the caller's check of the digits fails.
        self.at += size + 2;
        Some(digits)
    }
}

#[cfg(test)]
mod tests {
    use super::plain_size;

    #[test]
    fn ends_are_found_wherever_they_are() {
        for size in 0..40 {
            for odd in [b'"', b'\\'] {
                for other in [b'a', b'!', b'#', b'[', b']', 0, 0x22 ^ 0x80, 0xff] {
                    let mut bytes = vec![other; size];
                    assert_eq!(plain_size(&bytes), None);
                    bytes.push(odd);
                    bytes.extend([b'"'; 9]);
                    assert_eq!(plain_size(&bytes), Some(size), "{size} {odd} {other}");
                }
            }
        }
    }
}

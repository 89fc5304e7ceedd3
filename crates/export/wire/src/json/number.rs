//! Reads numbers, with or without quotes.

use super::Reader;
use crate::error::{Reason, Result};

impl<'t> Reader<'t> {
    /// Reads an integer: `12`, `"12"`, `12.0` or `1e3`. Values outside of `i64` saturate.
    #[inline]
    pub(crate) fn integer(&mut self) -> Result<i64> {
        self.peek()?;
        let start = self.at;
        let rest = self.bytes.get(start..).unwrap_or_default();
        let (mut number, mut size) = (0, 0);
        // Times have 16 digits, so two blocks of eight digits usually suffice.
        while size < 16
            && let Some(eight) =
                rest.get(size..).and_then(<[u8]>::first_chunk).and_then(parse_eight_digits)
        {
            number = number * 100_000_000 + eight;
            size += 8;
        }
        while size < 18
            && let Some(digit @ b'0'..=b'9') = rest.get(size)
        {
            number = number * 10 + u64::from(digit - b'0');
            size += 1;
        }
        let is_whole = matches!(rest.get(size), Some(b',' | b'}' | b']' | b' '));
        if !is_whole || size == 0 || (rest[0] == b'0' && size > 1) {
            return self.integer_slow();
        }
        self.at = start + size;
        Ok(number as i64)
    }

    /// Reads an unsigned integer, usually a quoted time.
    #[inline]
    pub(crate) fn unsigned(&mut self) -> Result<u64> {
        let is_quoted = self.peek()? == b'"';
        let start = self.at;
        let rest = self.bytes.get(start + usize::from(is_quoted)..).unwrap_or_default();
        let (mut number, mut size): (u64, _) = (0, 0);
        while size < 16
            && let Some(eight) =
                rest.get(size..).and_then(<[u8]>::first_chunk).and_then(parse_eight_digits)
        {
            number = number * 100_000_000 + eight;
            size += 8;
        }
        while size < 19
            && let Some(digit @ b'0'..=b'9') = rest.get(size)
        {
            number = number * 10 + u64::from(digit - b'0');
            size += 1;
        }
        if is_quoted && size > 0 && rest.get(size) == Some(&b'"') {
            self.at = start + size + 2;
            return Ok(number);
        }
        self.unsigned_slow()
    }

    #[cold]
    fn unsigned_slow(&mut self) -> Result<u64> {
        let start = self.at;
        let text = match self.peek()? {
            b'"' => self.string()?,
            _ => self.number()?,
        };
        let number = text.parse().ok().or_else(|| parse_integer(text)?.try_into().ok());
        number.ok_or_else(|| Reason::Expected("a whole number of at least 0").at(start))
    }

    /// Reads a number, which may be quoted, or a quoted NaN or infinity.
    pub(crate) fn double(&mut self) -> Result<f64> {
        let start = self.at;
        let text = match self.peek()? {
            b'"' => self.string()?,
            _ => self.number()?,
        };
        let number = match text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => text.parse().ok().filter(|_| number_size(text.as_bytes()) == Some(text.len())),
        };
        number.ok_or_else(|| Reason::Expected("a number").at(start))
    }

    #[cold]
    fn integer_slow(&mut self) -> Result<i64> {
        let start = self.at;
        let text = match self.peek()? {
            b'"' => self.string()?,
            _ => self.number()?,
        };
        parse_integer(text).ok_or_else(|| Reason::Expected("a whole number").at(start))
    }

    /// Reads a number without converting it, and returns its text.
    pub(crate) fn number(&mut self) -> Result<&'t str> {
        let start = self.at;
        let rest = self.bytes.get(start..).unwrap_or_default();
        let size = number_size(rest).ok_or_else(|| self.expected("a number"))?;
        if size > self.limits.text_bytes {
            return Err(self.too_long(start));
        }
        self.at = start + size;
        Ok(std::str::from_utf8(rest.get(..size).unwrap_or_default()).unwrap_or_default())
    }
}

/// Parses eight decimal digits at once; `None` if a byte is no digit.
#[inline]
fn parse_eight_digits(digits: &[u8; 8]) -> Option<u64> {
    let word = u64::from_le_bytes(*digits);
    let all = |byte: u8| u64::from_le_bytes([byte; 8]);
    let high = word & all(0xf0);
    let carried = word.wrapping_add(all(6)) & all(0xf0);
    if high != all(0x30) || carried != all(0x30) {
        return None;
    }
    // Combine pairs of digits, then fours, then all eight.
    let word = (word & all(0x0f)).wrapping_mul(10 << 8 | 1) >> 8 & 0x00ff_00ff_00ff_00ff;
    let word = word.wrapping_mul(100 << 16 | 1) >> 16 & 0x0000_ffff_0000_ffff;
    Some(word.wrapping_mul(10_000 << 32 | 1) >> 32)
}

/// Returns the length of the JSON number at the start of `bytes`; `None` if there is no number.
fn number_size(bytes: &[u8]) -> Option<usize> {
    let digits = |from: usize| {
        let rest = bytes.get(from..).unwrap_or_default();
        rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let whole = usize::from(bytes.first() == Some(&b'-'));
    let mut size = whole + digits(whole);
    if size == whole || (bytes[whole] == b'0' && size > whole + 1) {
        return None;
    }
    if bytes.get(size) == Some(&b'.') {
        let fraction = digits(size + 1);
        size += if fraction > 0 { 1 + fraction } else { return None };
    }
    if matches!(bytes.get(size), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(size + 1), Some(b'-' | b'+')));
        let exponent = digits(size + 1 + sign);
        size += if exponent > 0 { 1 + sign + exponent } else { return None };
    }
    Some(size)
}

/// Parses an integer, also one written with a fraction of 0 or an exponent. Values outside of `i64`
/// saturate.
pub(crate) fn parse_integer(text: &str) -> Option<i64> {
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let largest = if is_negative { i64::MIN } else { i64::MAX };
        return Some(text.parse().unwrap_or(largest));
    }
    if number_size(text.as_bytes()) != Some(text.len()) {
        return None;
    }
    let number: f64 = text.parse().ok()?;
    (number.fract() == 0.0).then_some(number as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_digits_are_read() {
        for number in [0, 1, 12_345_678, 99_999_999, 10_000_000, 90_807_060] {
            let text = format!("{number:08}");
            let digits = text.as_bytes().try_into().expect("eight");
            assert_eq!(parse_eight_digits(digits), Some(number));
        }
        for place in 0..8 {
            for odd in [b'/', b':', b' ', b'a', b'.', 0, 0xff, 0xb0] {
                let mut digits = *b"12345678";
                digits[place] = odd;
                assert_eq!(parse_eight_digits(&digits), None, "{place} {odd}");
            }
        }
    }

    #[test]
    fn numbers_have_sizes() {
        let check =
            |text: &str, expected| assert_eq!(number_size(text.as_bytes()), expected, "{text}");
        check("0", Some(1));
        check("-12,", Some(3));
        check("1.50]", Some(4));
        check("1e3", Some(3));
        check("1E-30x", Some(5));
        for none in ["", "-", "01", "-01", "1.", "1.e1", "1e", "1e+", ".5", "+1", "a"] {
            check(none, None);
        }
    }

    #[test]
    fn whole_numbers_are_found() {
        let check = |text, expected| assert_eq!(parse_integer(text), expected, "{text}");
        check("12", Some(12));
        check("-12", Some(-12));
        check("12.0", Some(12));
        check("1e3", Some(1000));
        check("12.5", None);
        check("9223372036854775808", Some(i64::MAX));
        check("-99999999999999999999", Some(i64::MIN));
        check("1e30", Some(i64::MAX));
        for none in ["", "-", "x", "1x", " 1", "NaN", "inf", "1_0"] {
            check(none, None);
        }
    }
}

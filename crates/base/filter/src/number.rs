//! Number literals: C's numbers with their suffixes, and durations such as `5ms`. Start at [`lex`].

use crate::fault::Fault;
use crate::token::TokenKind;
use crate::tree::Span;

/// Suffixes of duration literals, with the length of each time unit in nanoseconds.
const UNITS: [(&str, u64); 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Reads the number literal at the start of `text`. Returns the token and the literal's length in
/// bytes. `offset` is the position of `text` in the filter.
pub(crate) fn lex(text: &str, offset: usize) -> Result<(TokenKind<'static>, usize), Fault> {
    let hexadecimal = text.starts_with("0x") || text.starts_with("0X");
    let binary = text.starts_with("0b") || text.starts_with("0B");
    let prefix = if hexadecimal || binary { 2 } else { 0 };
    let digits = Digits::of(&text[prefix..], if hexadecimal { 16 } else { 10 });
    let number_end = prefix + digits.length;
    let suffix = text[number_end..].find(|c: char| !c.is_alphanumeric() && c != '_');
    let end = suffix.map_or(text.len(), |length| number_end + length);
    let number = Number {
        digits: &text[prefix..number_end],
        suffix: &text[number_end..end],
        span: Span { start: offset, end: offset + end },
    };
    let kind = if hexadecimal && digits.float {
        TokenKind::Float(number.hexadecimal_float()?)
    } else if hexadecimal {
        TokenKind::Integer(number.integer(16)?)
    } else if binary {
        TokenKind::Integer(number.integer(2)?)
    } else {
        number.decimal(digits.float)?
    };
    Ok((kind, end))
}

/// Digits of a number literal. Their length includes a dot and an exponent.
struct Digits {
    length: usize,
    /// True if the number has a dot or an exponent.
    float: bool,
}

impl Digits {
    fn of(text: &str, base: u32) -> Digits {
        let bytes = text.as_bytes();
        let digits_from = |start: usize, base: u32| -> usize {
            let digits = bytes.get(start..).unwrap_or_default().iter();
            start + digits.take_while(|byte| (**byte as char).is_digit(base)).count()
        };
        let mut length = digits_from(0, base);
        let mut float = false;
        if bytes.get(length) == Some(&b'.') {
            float = true;
            length = digits_from(length + 1, base);
        }
        let exponent = if base == 16 { b'p' } else { b'e' };
        if bytes.get(length).is_some_and(|byte| byte.to_ascii_lowercase() == exponent) {
            let sign = matches!(bytes.get(length + 1), Some(b'+' | b'-'));
            let start = length + 1 + usize::from(sign);
            let end = digits_from(start, 10);
            if end > start {
                float = true;
                length = end;
            }
        }
        Digits { length, float }
    }
}

/// Number literal, split into digits and suffix.
struct Number<'t> {
    digits: &'t str,
    suffix: &'t str,
    span: Span,
}

impl Number<'_> {
    fn decimal(&self, float: bool) -> Result<TokenKind<'static>, Fault> {
        let unit = UNITS.iter().find(|(unit, _)| *unit == self.suffix);
        let octal = !float && self.digits.len() > 1 && self.digits.starts_with('0');
        match unit {
            Some(_) if octal => Err(Fault::new(self.span, "a duration starts with a 0")
                .hint("a number with a leading 0 is octal; drop the 0")),
            Some((_, scale)) if float => self.rounded_duration(*scale),
            Some((_, scale)) => {
                let duration = self.digits.parse::<u64>().ok();
                let duration = duration.and_then(|number| number.checked_mul(*scale));
                duration.map(TokenKind::Integer).ok_or_else(|| self.too_large())
            }
            None if float => self.float().map(TokenKind::Float),
            None if octal => self.integer(8).map(TokenKind::Integer),
            None => self.integer(10).map(TokenKind::Integer),
        }
    }

    fn integer(&self, base: u32) -> Result<u64, Fault> {
        self.check_suffix(&["u", "l", "ul", "lu", "ll", "ull", "llu"])?;
        if let Some(wrong) = self.digits.chars().find(|digit| !digit.is_digit(base)) {
            let fault = Fault::new(self.span, format!("`{wrong}` is not a digit in base {base}"));
            return Err(match base {
                8 => fault.hint("a number with a leading 0 is octal"),
                _ => fault,
            });
        }
        if self.digits.is_empty() {
            return Err(Fault::new(self.span, "a number without digits"));
        }
        u64::from_str_radix(self.digits, base).map_err(|_| self.too_large())
    }

    fn float(&self) -> Result<f64, Fault> {
        self.check_suffix(&["f", "l"])?;
        match self.digits.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number),
            _ => Err(Fault::new(self.span, "this number is too large for a float")),
        }
    }

    /// Parses a duration such as `1.5ms`, and rounds it to whole nanoseconds.
    fn rounded_duration(&self, scale: u64) -> Result<TokenKind<'static>, Fault> {
        let duration = self.digits.parse::<f64>().unwrap_or(f64::INFINITY) * scale as f64;
        // `u64::MAX as f64` rounds up to 2^64, so the comparison is strict.
        if duration.round() < u64::MAX as f64 {
            Ok(TokenKind::Integer(duration.round() as u64))
        } else {
            Err(self.too_large())
        }
    }

    /// Parses `HEX.HEXpDECIMAL`: a mantissa times a power of two. The fraction or the exponent may
    /// be missing.
    fn hexadecimal_float(&self) -> Result<f64, Fault> {
        self.check_suffix(&["f", "l"])?;
        let (mantissa, exponent) = match self.digits.split_once(['p', 'P']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()),
            None => (self.digits, Some(0)),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mantissa = u64::from_str_radix(&format!("{whole}{fraction}"), 16).ok();
        let (Some(mantissa), Some(exponent)) = (mantissa, exponent) else {
            return Err(Fault::new(self.span, "this hexadecimal float has no digits or too many")
                .hint("16 digits are enough for any float"));
        };
        let exponent = exponent.saturating_sub(4 * fraction.len() as i32);
        // Scales in two steps, so that small results do not underflow halfway.
        let half = exponent / 2;
        let number = mantissa as f64 * 2f64.powi(half) * 2f64.powi(exponent - half);
        match number.is_finite() {
            true => Ok(number),
            false => Err(Fault::new(self.span, "this number is too large for a float")),
        }
    }

    /// Checks that the suffix is empty or one of `known`. Case does not count.
    fn check_suffix(&self, known: &[&str]) -> Result<(), Fault> {
        let suffix = self.suffix.to_ascii_lowercase();
        if suffix.is_empty() || known.contains(&suffix.as_str()) {
            return Ok(());
        }
        Err(Fault::new(self.span, format!("unknown unit `{}`", self.suffix))
            .hint("durations are written with ns, us, ms, s, m or h, as in `5ms`"))
    }

    fn too_large(&self) -> Fault {
        Fault::new(self.span, "this number does not fit in 64 bits")
    }
}

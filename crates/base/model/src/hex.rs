//! Hexadecimal digits in lower case, the text form of ids.

/// The digits by value.
pub const DIGITS: [u8; 16] = *b"0123456789abcdef";

/// Value of each digit, by its ASCII byte; above 15 for other bytes.
const VALUES: [u8; 256] = {
    let mut values = [0xff; 256];
    let mut value = 0;
    while value < DIGITS.len() {
        values[DIGITS[value] as usize] = value as u8;
        value += 1;
    }
    values
};

/// Returns the 16 digits of a number, with leading zeros.
#[inline]
pub fn digits(number: u64) -> [u8; 16] {
    let mut text = [0; 16];
    for (pair, byte) in text.chunks_exact_mut(2).zip(number.to_be_bytes()) {
        pair.copy_from_slice(&byte_digits(byte));
    }
    text
}

/// Returns the two digits of a byte.
#[inline]
pub fn byte_digits(byte: u8) -> [u8; 2] {
    [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
}

/// Parses at most 16 digits; no digits give 0. Returns `None` if a byte is not a digit.
#[inline]
pub fn parse(digits: &[u8]) -> Option<u64> {
    debug_assert!(digits.len() <= 16, "{} digits", digits.len());
    let (mut number, mut all) = (0, 0);
    for digit in digits {
        let value = VALUES[usize::from(*digit)];
        number = number << 4 | u64::from(value);
        all |= value;
    }
    (all < 16).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::{digits, parse};

    #[test]
    fn digits_are_parsed_to_their_number() {
        for number in [0, 1, 0x1f, 0x0123_4567_89ab_cdef, u64::MAX] {
            let text = digits(number);
            assert_eq!(text, *format!("{number:016x}").as_bytes());
            assert_eq!(parse(&text), Some(number));
        }
        assert_eq!(parse(b""), Some(0));
        assert_eq!(parse(b"a0"), Some(160));
    }

    #[test]
    fn other_bytes_are_no_digits() {
        for byte in 0..=u8::MAX {
            let is_digit = matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            assert_eq!(parse(&[b'0', byte]).is_some(), is_digit, "{byte}");
            assert_eq!(parse(&[byte, b'0']).is_some(), is_digit, "{byte}");
        }
    }
}

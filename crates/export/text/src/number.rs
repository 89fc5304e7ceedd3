//! Numbers as C's `printf` writes them, appended to a buffer.

/// Appends a decimal number.
#[inline]
pub(crate) fn unsigned(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends a decimal number.
#[inline]
pub(crate) fn signed(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends `value` (below 10^9) with nine digits.
#[inline]
pub(crate) fn nanoseconds(out: &mut Vec<u8>, value: u32) {
    let mut digits = [0; 9];
    let mut rest = value;
    let pair = |value: u32| [b'0' + (value / 10) as u8, b'0' + (value % 10) as u8];
    for at in [7, 5, 3, 1] {
        digits[at..at + 2].copy_from_slice(&pair(rest % 100));
        rest /= 100;
    }
    digits[0] = b'0' + (rest % 10) as u8;
    out.extend_from_slice(&digits);
}

/// Appends an uppercase hexadecimal number.
pub(crate) fn hexadecimal(out: &mut Vec<u8>, value: u64) {
    digits(out, value, 4);
}

/// Appends an octal number.
pub(crate) fn octal(out: &mut Vec<u8>, value: u64) {
    digits(out, value, 3);
}

fn digits(out: &mut Vec<u8>, value: u64, bits: u32) {
    let count = (64 - value.leading_zeros()).div_ceil(bits).max(1);
    for index in (0..count).rev() {
        let digit = value.checked_shr(index * bits).unwrap_or(0) & ((1 << bits) - 1);
        out.push(b"0123456789ABCDEF"[digit as usize]);
    }
}

/// Appends a number as `%g` does: six significant digits, no trailing zeros, an exponent only
/// for very small and very large numbers.
pub(crate) fn general(out: &mut Vec<u8>, value: f64) {
    const DIGITS: i32 = 6;
    if value.is_nan() {
        let text: &[u8] = if value.is_sign_negative() { b"-nan" } else { b"nan" };
        return out.extend_from_slice(text);
    }
    if value.is_infinite() {
        return out.extend_from_slice(if value < 0.0 { b"-inf" } else { b"inf" });
    }
    let scientific = format!("{:.*e}", DIGITS as usize - 1, value);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..DIGITS).contains(&exponent) {
        out.extend_from_slice(without_zeros(mantissa).as_bytes());
        out.push(b'e');
        out.push(if exponent < 0 { b'-' } else { b'+' });
        out.extend_from_slice(format!("{:02}", exponent.abs()).as_bytes());
    } else {
        let decimals = (DIGITS - 1 - exponent) as usize;
        let fixed = format!("{value:.decimals$}");
        out.extend_from_slice(without_zeros(&fixed).as_bytes());
    }
}

fn without_zeros(text: &str) -> &str {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(write: impl Fn(&mut Vec<u8>), expected: &str) {
        let mut out = Vec::new();
        write(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn as_printf_writes_them() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.5, "1.5"),
            (-2.25, "-2.25"),
            (100000.0, "100000"),
            (1000000.0, "1e+06"),
            (123456789.0, "1.23457e+08"),
            (0.0001, "0.0001"),
            (0.00001234567, "1.23457e-05"),
            (999999.5, "1e+06"),
            (3.0e100, "3e+100"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            check(|out| general(out, value), expected);
        }
        check(|out| general(out, f64::NAN), "nan");
        check(|out| hexadecimal(out, 0xdead), "DEAD");
        check(|out| hexadecimal(out, 0), "0");
        check(|out| hexadecimal(out, u64::MAX), "FFFFFFFFFFFFFFFF");
        check(|out| octal(out, 8), "10");
        check(|out| octal(out, u64::MAX), "1777777777777777777777");
        check(|out| nanoseconds(out, 42), "000000042");
        check(|out| nanoseconds(out, 987654321), "987654321");
    }
}

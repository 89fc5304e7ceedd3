//! Formatting of numbers as C's `printf` does, into a buffer.

use blkkin_reader::Text;

/// Appends a decimal number.
#[inline(always)]
pub(crate) fn unsigned(out: &mut Text, value: u64) {
    out.push_with(|place: &mut [u8; NUMBER_SIZE]| put_unsigned(place, 0, value));
}

/// Appends a signed decimal number.
#[inline(always)]
pub(crate) fn signed(out: &mut Text, value: i64) {
    out.push_with(|place: &mut [u8; NUMBER_SIZE]| put_signed(place, 0, value));
}

/// Size in bytes of a buffer that is large enough for [`put_signed`] and [`put_unsigned`] with any
/// number; the bytes after a shorter number are garbage.
pub(crate) const NUMBER_SIZE: usize = 1 + 3 * 8;

/// Writes a decimal number at `at`; returns the position after it.
#[inline(always)]
pub(crate) fn put_unsigned(place: &mut [u8], at: usize, value: u64) -> usize {
    match value {
        0..TEN_POW_8 => put_up_to_eight(place, at, value as u32),
        TEN_POW_8..TEN_POW_16 => {
            let end = put_up_to_eight(place, at, (value / TEN_POW_8) as u32);
            put_eight(place, end, (value % TEN_POW_8) as u32)
        }
        _ => put_long(place, at, value),
    }
}

#[inline(always)]
fn put_up_to_eight(place: &mut [u8], at: usize, value: u32) -> usize {
    let digits = eight_digits(value);
    let zeros = (digits | 1 << 56).trailing_zeros() / 8;
    let text = (digits | ASCII_ZEROS) >> (8 * zeros);
    place[at..at + 8].copy_from_slice(&text.to_le_bytes());
    at + 8 - zeros as usize
}

/// Writes a signed decimal number at `at`; returns the position after it.
#[inline(always)]
pub(crate) fn put_signed(place: &mut [u8], at: usize, value: i64) -> usize {
    if value >= 0 {
        return put_unsigned(place, at, value as u64);
    }
    place[at] = b'-';
    put_unsigned(place, at + 1, value.unsigned_abs())
}

/// Smallest number with more than eight digits.
const TEN_POW_8: u64 = 100_000_000;
/// Smallest number with more than sixteen digits.
const TEN_POW_16: u64 = TEN_POW_8 * TEN_POW_8;

#[inline(never)]
fn put_long(place: &mut [u8], at: usize, value: u64) -> usize {
    let (high, low) = (value / TEN_POW_16, value % TEN_POW_16);
    let end = put_up_to_eight(place, at, high as u32);
    let end = put_eight(place, end, (low / TEN_POW_8) as u32);
    put_eight(place, end, (low % TEN_POW_8) as u32)
}

#[inline(always)]
fn put_eight(place: &mut [u8], at: usize, value: u32) -> usize {
    let digits = eight_digits(value) | ASCII_ZEROS;
    place[at..at + 8].copy_from_slice(&digits.to_le_bytes());
    at + 8
}

/// Writes `value` (below 10^9) with nine digits at `at`; returns the position after them.
#[inline(always)]
pub(crate) fn put_nanoseconds(place: &mut [u8], at: usize, value: u32) -> usize {
    place[at] = b'0' + (value / 100_000_000) as u8;
    put_eight(place, at + 1, value % 100_000_000)
}

const ASCII_ZEROS: u64 = u64::from_ne_bytes([b'0'; 8]);

/// Returns the eight digits of `value` (below 10^8), with the first digit in the lowest byte.
/// Both halves, and then all quarters, are split in parallel within one word. These divisions are
/// multiplications by a reciprocal, which are exact in this range.
#[inline]
fn eight_digits(value: u32) -> u64 {
    let (high, low) = (u64::from(value / 10_000), u64::from(value % 10_000));
    let halves = high | low << 32;
    let hundreds = ((halves * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let quarters = hundreds | ((halves - 100 * hundreds) << 16);
    let tens = ((quarters * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | ((quarters - 10 * tens) << 8)
}

/// Appends an uppercase hexadecimal number.
pub(crate) fn hexadecimal(out: &mut Text, value: u64) {
    digits(out, value, 4);
}

/// Appends an octal number.
pub(crate) fn octal(out: &mut Text, value: u64) {
    digits(out, value, 3);
}

fn digits(out: &mut Text, value: u64, bits: u32) {
    let count = (64 - value.leading_zeros()).div_ceil(bits).max(1);
    for index in (0..count).rev() {
        let digit = value.checked_shr(index * bits).unwrap_or(0) & ((1 << bits) - 1);
        out.push(b"0123456789ABCDEF"[digit as usize]);
    }
}

/// Appends a number as `%g` does: six significant digits without trailing zeros, and an exponent
/// only for very small and very large numbers.
pub(crate) fn general(out: &mut Text, value: f64) {
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

    fn check(write: impl Fn(&mut Text), expected: &str) {
        let out = Text::from_print(write);
        assert_eq!(String::from_utf8(out.to_vec()).unwrap(), expected);
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
        for value in [0, 1, 9, 10, 99, 100, 12345, 99_999_999, 100_000_000, 1 << 40, u64::MAX] {
            check(|out| unsigned(out, value), &value.to_string());
            check(|out| signed(out, value as i64), &(value as i64).to_string());
        }
        for power in 0..20 {
            for value in
                [10u64.pow(power) - 1, 10u64.pow(power), (10u64.pow(power) / 3).wrapping_mul(7)]
            {
                check(|out| unsigned(out, value), &value.to_string());
            }
        }
        check(|out| hexadecimal(out, 0xdead), "DEAD");
        check(|out| hexadecimal(out, 0), "0");
        check(|out| hexadecimal(out, u64::MAX), "FFFFFFFFFFFFFFFF");
        check(|out| octal(out, 8), "10");
        check(|out| octal(out, u64::MAX), "1777777777777777777777");
        let nanoseconds = |value| {
            move |out: &mut Text| {
                out.push_with(|place: &mut [u8; 9]| put_nanoseconds(place, 0, value))
            }
        };
        check(nanoseconds(42), "000000042");
        check(nanoseconds(987654321), "987654321");
    }
}

//! Conversion between IEEE 754 binary numbers of any permitted width and `f64`.

use crate::bits;
use crate::schema::{Bits, ByteOrder, FloatClass};

/// Reads a number at bit `position`. The caller has checked that `bytes` contains the whole number.
/// A number of a format larger than `f64` loses precision, and becomes infinity or zero if it is
/// outside of the range of `f64`.
pub(crate) fn read(bytes: &[u8], position: u64, class: &FloatClass) -> f64 {
    let size = class.bits.size;
    if size <= 64 {
        let raw = bits::read(bytes, position, class.bits);
        return match size {
            32 => f64::from(f32::from_bits(raw as u32)),
            64 => f64::from_bits(raw),
            _ => assemble(u128::from(raw), class.exponent, size),
        };
    }
    // A number of 65 to 128 bits is read as a low half of 64 bits and a high half.
    let low_size = 64;
    let high_size = size - 64;
    let half = |size, offset: u32| {
        bits::read(bytes, position + u64::from(offset), Bits { size, ..class.bits })
    };
    let (low, high) = match class.bits.byte_order {
        ByteOrder::Little => (half(low_size, 0), half(high_size, 64)),
        ByteOrder::Big => (half(low_size, high_size), half(high_size, 0)),
    };
    assemble(u128::from(high) << 64 | u128::from(low), class.exponent, size)
}

/// Writes a number at bit `position`. The bits there must be zero, and `bytes` must be long enough.
/// A number outside of the format's range becomes infinity or zero.
pub(crate) fn write(bytes: &mut [u8], position: u64, class: &FloatClass, value: f64) {
    let size = class.bits.size;
    match size {
        32 => return bits::write(bytes, position, class.bits, u64::from((value as f32).to_bits())),
        64 => return bits::write(bytes, position, class.bits, value.to_bits()),
        _ => {}
    }
    let raw = disassemble(value, class.exponent, size);
    if size < 64 {
        return bits::write(bytes, position, class.bits, raw as u64);
    }
    let high_size = size - 64;
    let mut half = |size, offset: u32, raw: u128| {
        let part = Bits { size, ..class.bits };
        bits::write(bytes, position + u64::from(offset), part, raw as u64);
    };
    match class.bits.byte_order {
        ByteOrder::Little => {
            half(64, 0, raw);
            half(high_size, 64, raw >> 64);
        }
        ByteOrder::Big => {
            half(high_size, 0, raw >> 64);
            half(64, high_size, raw);
        }
    }
}

/// Converts `value` to the bits of a format with `size` bits, of which `exponent_bits` are the
/// exponent. The inverse of [`assemble`].
fn disassemble(value: f64, exponent_bits: u32, size: u32) -> u128 {
    let fraction_bits = size - 1 - exponent_bits;
    let exponent_max = (1i64 << exponent_bits) - 1;
    let bias = (1i64 << (exponent_bits - 1)) - 1;
    let sign = u128::from(value.is_sign_negative()) << (size - 1);
    let special = |fraction: u128| sign | (exponent_max as u128) << fraction_bits | fraction;
    if value.is_nan() {
        return special(1 << (fraction_bits - 1));
    }
    let raw = value.to_bits();
    let stored = (raw >> 52 & 0x7ff) as i64;
    let fraction = u128::from(raw & ((1 << 52) - 1));
    if value == 0.0 {
        return sign;
    }
    if value.is_infinite() {
        return special(0);
    }
    // value = mantissa * 2^power, with the mantissa's top bit at bit 52.
    let (mut mantissa, mut power) = match stored {
        0 => (fraction, -1074),
        _ => (fraction | 1 << 52, stored - 1075),
    };
    while mantissa >> 52 == 0 {
        mantissa <<= 1;
        power -= 1;
    }
    let exponent = power + 52 + bias;
    if exponent >= exponent_max {
        return special(0);
    }
    // A subnormal result has the minimum exponent; its mantissa loses low bits instead.
    let missing = (1 - exponent).max(0);
    let shift = i64::from(fraction_bits) - 52 - missing;
    let shifted = match shift {
        0.. => mantissa << shift,
        -127..0 => {
            let down = -shift as u32;
            let kept = mantissa >> down;
            let rest = mantissa & ((1 << down) - 1);
            let half = 1 << (down - 1);
            // Rounding to nearest, ties to even.
            kept + u128::from(rest > half || rest == half && kept & 1 == 1)
        }
        _ => 0,
    };
    // A carry out of the fraction correctly increments the exponent.
    match exponent {
        1.. => sign | (((exponent as u128 - 1) << fraction_bits) + shifted),
        _ => sign | shifted,
    }
}

fn assemble(raw: u128, exponent_bits: u32, size: u32) -> f64 {
    let fraction_bits = size - 1 - exponent_bits;
    let negative = raw >> (size - 1) & 1 == 1;
    let exponent = (raw >> fraction_bits) as u64 & ((1 << exponent_bits) - 1);
    let fraction = raw & ((1 << fraction_bits) - 1);
    let bias = (1i64 << (exponent_bits - 1)) - 1;
    let scale = |mantissa: f64, power: i64| {
        // Multiplies in two steps: a single power of two may overflow although the product does
        // not.
        let half = power / 2;
        mantissa * exp2(half) * exp2(power - half)
    };
    let magnitude = if exponent == (1 << exponent_bits) - 1 {
        if fraction == 0 { f64::INFINITY } else { f64::NAN }
    } else if exponent == 0 {
        scale(fraction as f64, 1 - bias - i64::from(fraction_bits))
    } else {
        let mantissa = fraction | 1 << fraction_bits;
        scale(mantissa as f64, exponent as i64 - bias - i64::from(fraction_bits))
    };
    if negative { -magnitude } else { magnitude }
}

fn exp2(power: i64) -> f64 {
    2f64.powi(power.clamp(-4096, 4096) as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], exponent: u32, expected: f64) {
        let size = bytes.len() as u32 * 8;
        let class = FloatClass {
            bits: bits::usual(size, 8, ByteOrder::Big),
            exponent,
            mantissa: size - exponent,
        };
        let value = read(bytes, 0, &class);
        assert!(value == expected || value.is_nan() && expected.is_nan(), "{value} {expected}");
        let mut written = vec![0; bytes.len()];
        write(&mut written, 0, &class, expected);
        assert!(written == bytes || expected.is_nan(), "{written:x?} {bytes:x?}");
        let swapped: Vec<u8> = bytes.iter().rev().copied().collect();
        let class = FloatClass { bits: bits::usual(size, 8, ByteOrder::Little), ..class };
        assert_eq!(read(&swapped, 0, &class).to_bits(), value.to_bits());
    }

    #[test]
    fn all_widths() {
        check(&[0x3c, 0x00], 5, 1.0);
        check(&[0xc0, 0x00], 5, -2.0);
        check(&[0x00, 0x01], 5, 2f64.powi(-24));
        check(&[0x7c, 0x00], 5, f64::INFINITY);
        check(&[0x7e, 0x00], 5, f64::NAN);
        check(&1.5f32.to_be_bytes(), 8, 1.5);
        check(&(-2.25f64).to_be_bytes(), 11, -2.25);
        let mut quad = [0; 16];
        quad[..2].copy_from_slice(&[0x3f, 0xff]);
        check(&quad, 15, 1.0);
        quad[2] = 0x80;
        check(&quad, 15, 1.5);
    }
}

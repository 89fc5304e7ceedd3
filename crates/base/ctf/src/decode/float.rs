//! IEEE 754 binary numbers of any legal width, as `f64`.

use super::bits;
use crate::schema::{Bits, ByteOrder, FloatClass};

/// Reads a float at bit `position`; the caller has checked that it is there. Widths beyond 64
/// bits lose what a `f64` cannot hold.
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
    // 65 to 128 bits: two halves, least significant first.
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

fn assemble(raw: u128, exponent_bits: u32, size: u32) -> f64 {
    let fraction_bits = size - 1 - exponent_bits;
    let negative = raw >> (size - 1) & 1 == 1;
    let exponent = (raw >> fraction_bits) as u64 & ((1 << exponent_bits) - 1);
    let fraction = raw & ((1 << fraction_bits) - 1);
    let bias = (1i64 << (exponent_bits - 1)) - 1;
    let scale = |mantissa: f64, power: i64| {
        // In two steps, since one alone may overflow where the product does not.
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

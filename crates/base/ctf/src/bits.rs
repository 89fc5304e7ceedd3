//! Integers that are not whole, aligned bytes: any width up to 64 bits, at any bit.

use crate::schema::{BitOrder, Bits, ByteOrder};

/// Reads `bits.size` (1 to 64) bits at bit `position`; the caller has checked that they are there.
#[inline]
pub(crate) fn read(bytes: &[u8], position: u64, bits: Bits) -> u64 {
    let first = (position / 8) as usize;
    let shift = (position % 8) as u32;
    let size = bits.size;
    let count = (shift + size).div_ceil(8) as usize;
    let window = &bytes[first..first + count];
    let value = match bits.byte_order {
        ByteOrder::Little => {
            let mut buffer = [0; 16];
            buffer[..count].copy_from_slice(window);
            (u128::from_le_bytes(buffer) >> shift) as u64
        }
        ByteOrder::Big => {
            let mut buffer = [0; 16];
            buffer[16 - count..].copy_from_slice(window);
            (u128::from_be_bytes(buffer) >> (count as u32 * 8 - shift - size)) as u64
        }
    };
    let value = if size == 64 { value } else { value & ((1 << size) - 1) };
    match bits.bit_order == bits.byte_order.usual_bit_order() {
        true => value,
        false => reversed(value, size),
    }
}

/// Writes the low `bits.size` bits of `value` at bit `position`; `bytes` is zero there and long
/// enough.
pub(crate) fn write(bytes: &mut [u8], position: u64, bits: Bits, value: u64) {
    let value = if bits.size == 64 { value } else { value & ((1 << bits.size) - 1) };
    let value = match bits.bit_order == bits.byte_order.usual_bit_order() {
        true => value,
        false => reversed(value, bits.size),
    };
    let first = (position / 8) as usize;
    let shift = (position % 8) as u32;
    let count = (shift + bits.size).div_ceil(8) as usize;
    let window = &mut bytes[first..first + count];
    let spread = match bits.byte_order {
        ByteOrder::Little => u128::from(value) << shift,
        ByteOrder::Big => u128::from(value) << (count as u32 * 8 - shift - bits.size),
    };
    match bits.byte_order {
        ByteOrder::Little => {
            for (byte, part) in window.iter_mut().zip(spread.to_le_bytes()) {
                *byte |= part;
            }
        }
        ByteOrder::Big => {
            for (byte, part) in window.iter_mut().zip(&spread.to_be_bytes()[16 - count..]) {
                *byte |= part;
            }
        }
    }
}

/// The low `size` bits of `value`, the last one first.
fn reversed(value: u64, size: u32) -> u64 {
    value.reverse_bits() >> (64 - size)
}

/// `value`'s low `size` bits as a two's complement number.
#[inline]
pub(crate) fn sign_extend(value: u64, size: u32) -> i64 {
    let unused = 64 - size;
    ((value << unused) as i64) >> unused
}

/// What a usual field of `size` bits in `byte_order` looks like, for tests and the encoder.
pub(crate) fn usual(size: u32, align: u64, byte_order: ByteOrder) -> Bits {
    let bit_order = match byte_order {
        ByteOrder::Little => BitOrder::FirstToLast,
        ByteOrder::Big => BitOrder::LastToFirst,
    };
    Bits { size, align, byte_order, bit_order }
}

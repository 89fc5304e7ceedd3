//! Reading and writing of integers of 1 to 64 bits at any bit position.

use crate::schema::{Bits, ByteOrder};

/// Reads an integer of `bits.size` (1 to 64) bits at bit `position`. The caller has checked that
/// `bytes` contains the whole integer.
#[inline]
pub(crate) fn read(bytes: &[u8], position: u64, bits: Bits) -> u64 {
    let first = (position / 8) as usize;
    let shift = (position % 8) as u32;
    let count = (shift + bits.size).div_ceil(8) as usize;
    let mut window = [0; 16];
    window[..count].copy_from_slice(&bytes[first..first + count]);
    let value = match bits.byte_order {
        ByteOrder::Little => u128::from_le_bytes(window) >> shift,
        ByteOrder::Big => u128::from_be_bytes(window) >> (128 - shift - bits.size),
    };
    in_order(low(value as u64, bits.size), bits)
}

/// Writes the low `bits.size` bits of `value` at bit `position`. The bits there must be zero, and
/// `bytes` must be long enough.
pub(crate) fn write(bytes: &mut [u8], position: u64, bits: Bits, value: u64) {
    let value = u128::from(in_order(low(value, bits.size), bits));
    let first = (position / 8) as usize;
    let shift = (position % 8) as u32;
    let count = (shift + bits.size).div_ceil(8) as usize;
    let window = match bits.byte_order {
        ByteOrder::Little => (value << shift).to_le_bytes(),
        ByteOrder::Big => (value << (128 - shift - bits.size)).to_be_bytes(),
    };
    for (byte, part) in bytes[first..first + count].iter_mut().zip(window) {
        *byte |= part;
    }
}

/// Returns the low `size` bits of `value`.
#[inline]
pub(crate) fn low(value: u64, size: u32) -> u64 {
    if size >= 64 { value } else { value & ((1 << size) - 1) }
}

/// Reverses the low `bits.size` bits of `value` if the field's bit order differs from the one that
/// is usual for its byte order. Reading and writing need the same reversal.
#[inline]
fn in_order(value: u64, bits: Bits) -> u64 {
    match bits.bit_order == bits.byte_order.usual_bit_order() {
        true => value,
        false => value.reverse_bits() >> (64 - bits.size),
    }
}

/// Interprets the low `size` bits of `value` as a two's complement number.
#[inline]
pub(crate) fn sign_extend(value: u64, size: u32) -> i64 {
    let unused = 64 - size;
    ((value << unused) as i64) >> unused
}

/// Returns the layout of a field of `size` bits with the usual bit order of `byte_order`. `align`
/// is in bits.
pub(crate) fn usual(size: u32, align: u64, byte_order: ByteOrder) -> Bits {
    Bits { size, align, byte_order, bit_order: byte_order.usual_bit_order() }
}

//! Bit-packed integers of a fixed width with random access.

/// Maximum width of a packed number, in bits.
pub(crate) const WIDTH_MAX: u32 = u64::BITS;

/// Size of the padding after the numbers, in bytes. A number occupies up to 9 bytes, and 16 bytes
/// are read at once.
pub(crate) const PADDING_BYTES: usize = 16;

/// Extracts the number of `width` bits that starts at bit `bit % 8` of the bytes.
#[inline]
pub(crate) fn extract(bytes: [u8; PADDING_BYTES], bit: usize, width: u32) -> u64 {
    (u128::from_le_bytes(bytes) >> (bit % 8)) as u64 & mask(width)
}

#[inline]
const fn mask(width: u32) -> u64 {
    ((1u128 << width) - 1) as u64
}

/// List of bit-packed numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packed<'a> {
    bytes: &'a [u8],
    width: u32,
    len: usize,
}

/// Returns the width in bits for numbers from 0 to `greatest`.
pub(crate) fn width_of(greatest: u64) -> u32 {
    u64::BITS - greatest.leading_zeros()
}

/// Returns the size of `len` packed numbers in bytes, with padding; `None` on overflow.
pub(crate) fn packed_bytes(len: usize, width: u32) -> Option<usize> {
    let bits = len.checked_mul(width as usize)?;
    bits.div_ceil(8).checked_add(PADDING_BYTES)
}

/// Appends the lower `width` bits of each number, followed by padding.
pub(crate) fn pack(numbers: impl IntoIterator<Item = u64>, width: u32, to: &mut Vec<u8>) {
    let mask = mask(width);
    let (mut held, mut count) = (0u128, 0u32);
    for number in numbers {
        held |= u128::from(number & mask) << count;
        count += width;
        if count >= u64::BITS {
            to.extend_from_slice(&(held as u64).to_le_bytes());
            held >>= u64::BITS;
            count -= u64::BITS;
        }
    }
    let rest = held.to_le_bytes();
    to.extend_from_slice(&rest[..count.div_ceil(8) as usize]);
    to.extend_from_slice(&[0; PADDING_BYTES]);
}

impl<'a> Packed<'a> {
    /// Opens a list of `len` numbers; `None` if `width` exceeds [`WIDTH_MAX`] or the size of
    /// `bytes` does not fit.
    pub(crate) fn new(bytes: &'a [u8], width: u32, len: usize) -> Option<Packed<'a>> {
        let fits = width <= WIDTH_MAX && packed_bytes(len, width)? == bytes.len();
        fits.then_some(Packed { bytes, width, len })
    }

    /// Returns the number at `index`, which must be less than `len`.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> u64 {
        let bit = index * self.width as usize;
        let bytes = self.bytes[bit / 8..].first_chunk().expect("padding");
        extract(*bytes, bit, self.width)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = u64> + use<'a> {
        let this = *self;
        (0..self.len).map(move |index| this.get(index))
    }
}

#[cfg(test)]
mod tests {
    use super::{Packed, WIDTH_MAX, pack, packed_bytes, width_of};

    #[test]
    fn packed_numbers_are_read_back() {
        for width in 0..=WIDTH_MAX {
            for len in [0, 1, 2, 7, 8, 9, 100] {
                let mask = super::mask(width);
                let numbers: Vec<u64> = (1..=len)
                    .map(|n| (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask)
                    .collect();
                let mut bytes = Vec::new();
                pack(numbers.iter().copied(), width, &mut bytes);
                assert_eq!(Some(bytes.len()), packed_bytes(len, width));
                let packed = Packed::new(&bytes, width, len).expect("as many as they take");
                assert_eq!(packed.iter().collect::<Vec<_>>(), numbers, "{width} {len}");
                assert!(Packed::new(&bytes, width, len + 64).is_none() || width == 0);
            }
        }
    }

    #[test]
    fn widths_hold_the_greatest() {
        assert_eq!([0, 1, 2, 255, 256].map(width_of), [0, 1, 2, 8, 9]);
        assert_eq!(width_of(u64::MAX), WIDTH_MAX);
    }
}

//! Finds the ends of strings.
//!
//! Strings in traces are short and follow each other closely, so that looking for one end after
//! the other is a chain of dependent loads. Instead the NULs of 64 bytes are found at once, as a
//! mask, in which the ends of several strings are then a few shifts.

use wide::u8x16;

/// The NULs of 64 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct NulScan {
    /// Where the 64 bytes start.
    start: usize,
    /// A bit for each byte; 0 as long as nothing has been looked at.
    mask: u64,
}

const SPAN: usize = 64;

impl NulScan {
    pub(super) fn new() -> NulScan {
        NulScan { start: 0, mask: 0 }
    }

    /// Index of the first NUL in `bytes` from `at` on.
    #[inline(always)]
    pub(super) fn find(&mut self, bytes: &[u8], at: usize) -> Option<usize> {
        let offset = at.wrapping_sub(self.start);
        let mut rest = if offset < SPAN { self.mask >> offset } else { 0 };
        if rest == 0 {
            let Some(span) = bytes.get(at..).and_then(|bytes| bytes.first_chunk()) else {
                return find_in_tail(bytes, at);
            };
            *self = NulScan { start: at, mask: nuls(span) };
            rest = self.mask;
            if rest == 0 {
                return find_in_tail(bytes, at + SPAN);
            }
        }
        Some(at + rest.trailing_zeros() as usize)
    }
}

#[cold]
fn find_in_tail(bytes: &[u8], at: usize) -> Option<usize> {
    memchr::memchr(0, bytes.get(at..)?).map(|index| at + index)
}

/// A bit for each byte that is 0.
#[inline(always)]
fn nuls(span: &[u8; SPAN]) -> u64 {
    let (lanes, _) = span.as_chunks::<16>();
    let part = |index: usize| {
        let zeros = u8x16::new(lanes[index]).simd_eq(u8x16::ZERO);
        u64::from(zeros.to_bitmask()) << (16 * index)
    };
    part(0) | part(1) | part(2) | part(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_a_plain_search_finds() {
        for length in [0, 1, 63, 64, 65, 127, 128, 129, 300] {
            for every in [1, 2, 7, 63, 64, 65, 200] {
                let bytes: Vec<u8> = (0..length).map(|i| u8::from(i % every != 0)).collect();
                let mut scan = NulScan::new();
                for at in 0..=length {
                    let plain = bytes[at..].iter().position(|&b| b == 0).map(|i| at + i);
                    assert_eq!(scan.find(&bytes, at), plain, "{length} {every} {at}");
                }
            }
        }
    }
}

//! Finds the ends of strings.
//!
//! Strings in traces are short and follow each other closely, so that looking for one end after
//! the other is a chain of dependent loads. Instead the NULs of 64 bytes are found at once, as a
//! mask, in which the ends of several strings are then a few shifts.

use wide::u8x16;

/// A search that goes forward through `bytes`, 64 of them at a time.
///
/// The next 64 are always those right behind, wherever the search stands: so the processor knows
/// their place, and can look at them, before it knows where the current string ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct NulScan<'b> {
    bytes: &'b [u8],
    /// Where the current 64 bytes start.
    start: usize,
    /// A bit for each of them that is NUL.
    mask: u64,
    /// Where what has been looked at ends.
    seen: usize,
}

const SPAN: usize = 64;

impl<'b> NulScan<'b> {
    /// A search that starts at `start`.
    #[inline(always)]
    pub(super) fn new(bytes: &'b [u8], start: usize) -> NulScan<'b> {
        match bytes.get(start..).and_then(|rest| rest.first_chunk()) {
            Some(span) => NulScan { bytes, start, mask: nuls(span), seen: start + SPAN },
            None => NulScan { bytes, start, mask: 0, seen: start },
        }
    }

    /// Index of the first NUL at or after `at`, or of the `count`th one. `at` must not go back.
    #[inline(always)]
    pub(super) fn find(&mut self, at: usize, count: u32) -> Option<usize> {
        let (mut at, mut count) = (at, count);
        loop {
            let offset = at.wrapping_sub(self.start);
            let mut rest = if offset < SPAN { self.mask >> offset } else { 0 };
            while rest != 0 {
                if count <= 1 {
                    return Some(at + rest.trailing_zeros() as usize);
                }
                rest &= rest - 1;
                count -= 1;
            }
            at = at.max(self.seen);
            // Far jumps, over large fields, would else be made in steps of 64.
            let next = if at - self.seen < SPAN { self.seen } else { at };
            let span = self.bytes.get(next..).and_then(|rest| rest.first_chunk());
            let Some(span) = span else { return find_in_tail(self.bytes, at, count) };
            (self.start, self.mask, self.seen) = (next, nuls(span), next + SPAN);
        }
    }
}

#[cold]
fn find_in_tail(bytes: &[u8], at: usize, count: u32) -> Option<usize> {
    let mut nuls = memchr::memchr_iter(0, bytes.get(at..)?);
    nuls.nth(count.saturating_sub(1) as usize).map(|index| at + index)
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
                let nuls_from = |at: usize| (at..length).filter(|&i| bytes[i] == 0);
                for gap in [0, 1, 5, 64, 150] {
                    let mut scan = NulScan::new(&bytes, 0);
                    let mut at = 0;
                    while let Some(found) = scan.find(at, 1) {
                        assert_eq!(Some(found), nuls_from(at).next(), "{length} {every} {at}");
                        at = found + 1 + gap;
                    }
                    assert_eq!(nuls_from(at).next(), None, "{length} {every} {at}");
                }
                for at in 0..=length {
                    let third = nuls_from(at).nth(2);
                    assert_eq!(NulScan::new(&bytes, at).find(at, 3), third, "{length} {at}");
                }
            }
        }
    }
}

//! Search for the NULs that terminate strings.
//!
//! Strings in traces are short and adjacent, so a search for one end after the other is a chain of
//! dependent loads. The search here computes a mask of the NULs in 64 bytes at once; a few shift
//! operations on the mask then give the ends of several strings.

use blkkin_sys::{SPAN, zeros, zeros_of_all};

/// A forward search through `bytes` in windows of 64 bytes.
///
/// The next window directly follows the current one, except after a jump over 64 bytes or more. The
/// address of the next window is therefore known before the end of the current string, so the
/// processor can examine that window ahead of time.
#[derive(Clone, Copy, Debug)]
pub(super) struct NulScan<'b> {
    bytes: &'b [u8],
    /// Start of the current window.
    start: usize,
    /// Mask with a bit for each NUL in the current window.
    mask: u64,
    /// End of the examined bytes, where the next window starts.
    seen: usize,
}

impl<'b> NulScan<'b> {
    /// Starts a search at `start`.
    #[inline(always)]
    pub(super) fn new(bytes: &'b [u8], start: usize) -> NulScan<'b> {
        match bytes.get(start..).and_then(|rest| rest.first_chunk()) {
            Some(span) => NulScan { bytes, start, mask: zeros(span), seen: start + SPAN },
            None => NulScan { bytes, start, mask: 0, seen: start },
        }
    }

    /// Returns the index of a NUL at or after `at`: the first one if `more` is 0, the second one if
    /// `more` is 1, and so on. Returns `None` if there are too few NULs. `at` must not be before
    /// the search's start or the last NUL found.
    #[inline(always)]
    pub(super) fn find(&mut self, at: usize, more: u32) -> Option<usize> {
        let (mut at, mut more) = (at, more);
        loop {
            let offset = at.wrapping_sub(self.start);
            let mut rest = if offset < SPAN { self.mask >> offset } else { 0 };
            while rest != 0 {
                if more == 0 {
                    return Some(at + rest.trailing_zeros() as usize);
                }
                rest &= rest - 1;
                more -= 1;
            }
            at = at.max(self.seen);
            // A jump over a large field moves the window at once, instead of in steps of 64 bytes.
            let next = if at - self.seen < SPAN { self.seen } else { at };
            let span = self.bytes.get(next..).and_then(|rest| rest.first_chunk());
            let Some(span) = span else { return find_in_tail(self.bytes, at, more) };
            (self.start, self.mask, self.seen) = (next, zeros(span), next + SPAN);
        }
    }
}

#[cold]
fn find_in_tail(bytes: &[u8], at: usize, more: u32) -> Option<usize> {
    let mut nuls = memchr::memchr_iter(0, bytes.get(at..)?);
    nuls.nth(more as usize).map(|index| at + index)
}

/// A bitmap of the NULs in a few kilobytes, for finding the ends of many events. Positions are
/// relative to the map's start.
#[derive(Debug)]
pub(super) struct NulMap<'b> {
    /// Bytes from the map's start to the end of the view.
    rest: &'b [u8],
    /// Bitmap of the NULs in the first [`MAP_SIZE`] bytes of `rest`.
    bits: [u8; MAP_SIZE / 8],
    /// True if the bitmap has been computed. An uncomputed bitmap is all zeros, as if there were no
    /// NULs.
    is_computed: bool,
}

/// Number of bytes that a map covers.
const MAP_SIZE: usize = 4096;

impl<'b> NulMap<'b> {
    /// Makes a map at the start of `rest`, without computing it yet.
    pub(super) fn new(rest: &'b [u8]) -> NulMap<'b> {
        NulMap { rest, bits: [0; MAP_SIZE / 8], is_computed: false }
    }

    /// Returns all bytes from the map's start.
    #[inline(always)]
    pub(super) fn rest(&self) -> &'b [u8] {
        self.rest
    }

    /// Moves the map's start to `at`, and computes the bitmap. If the bitmap is computed and `at`
    /// is in its first half, returns `false` without a change.
    #[inline(never)]
    pub(super) fn move_to(&mut self, at: usize) -> bool {
        let is_worth_it = !self.is_computed || at >= MAP_SIZE / 2;
        if is_worth_it {
            self.rest = self.rest.get(at..).unwrap_or(&[]);
            self.compute();
        }
        is_worth_it
    }

    fn compute(&mut self) {
        self.is_computed = true;
        let (spans, tail) = self.rest.as_chunks();
        let (masks, _) = self.bits.as_chunks_mut();
        zeros_of_all(spans, masks);
        if let Some((last, others)) = masks.get_mut(spans.len()..).and_then(<[_]>::split_first_mut)
        {
            let mut span = [1; SPAN];
            span[..tail.len()].copy_from_slice(tail);
            *last = zeros(&span).to_le_bytes();
            others.fill([0; 8]);
        }
    }

    /// Returns the index of a NUL at or after `at`: the first one if `more` is 0, the second one if
    /// `more` is 1, and so on. Returns `None` if the map ends before that NUL; a NUL in the map's
    /// last 64 bytes may also be missed.
    #[inline(always)]
    pub(super) fn find(&self, mut at: usize, mut more: u32) -> Option<usize> {
        loop {
            // The next event depends on this result, so the search takes a single load, at any
            // address, and one shift.
            let span = u64::from_le_bytes(*self.bits.get(at / 8..)?.first_chunk()?);
            let mut span = span >> (at % 8);
            while more > 0 && span != 0 {
                span &= span - 1;
                more -= 1;
            }
            if span != 0 {
                return Some(at + span.trailing_zeros() as usize);
            }
            at += SPAN - at % 8;
        }
    }
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
                    while let Some(found) = scan.find(at, 0) {
                        assert_eq!(Some(found), nuls_from(at).next(), "{length} {every} {at}");
                        at = found + 1 + gap;
                    }
                    assert_eq!(nuls_from(at).next(), None, "{length} {every} {at}");
                }
                for at in 0..=length {
                    let third = nuls_from(at).nth(2);
                    assert_eq!(NulScan::new(&bytes, at).find(at, 2), third, "{length} {at}");
                }
            }
        }
    }

    #[test]
    fn a_map_finds_what_a_plain_search_finds() {
        for length in [0, 1, 63, 64, 65, 4095, 4096, 4097, 10_000] {
            for every in [1, 2, 7, 64, 65, 200, 3000] {
                let bytes: Vec<u8> = (0..length).map(|i| u8::from(i % every != 0)).collect();
                for (more, gap) in [(0, 0), (2, 0), (1, 5), (0, 64), (3, 1000)] {
                    let mut map = NulMap::new(&bytes);
                    let (mut base, mut at) = (0, 0);
                    loop {
                        let nul = (base + at..length).filter(|&i| bytes[i] == 0).nth(more as usize);
                        let place = format!("{length} {every} {more} {gap} {base} {at}");
                        match map.find(at, more) {
                            Some(found) => {
                                assert_eq!(Some(base + found), nul, "{place}");
                                at = found + 1 + gap;
                            }
                            None if map.move_to(at) => (base, at) = (base + at, 0),
                            None => {
                                let is_outside = |nul| nul - base > MAP_SIZE - SPAN;
                                assert!(nul.is_none_or(is_outside), "{place}");
                                break;
                            }
                        }
                    }
                }
            }
        }
    }
}

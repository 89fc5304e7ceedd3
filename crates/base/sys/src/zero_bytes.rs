//! Search for zero bytes in memory, 64 bytes at a time.

use wide::u8x16;

/// Number of bytes that are examined together. Such a group of bytes is called a span here; it has
/// nothing to do with the spans of requests.
pub const SPAN: usize = 64;

/// Returns a mask in which bit N is set if byte N of `span` is zero.
#[inline(always)]
pub fn zeros(span: &[u8; SPAN]) -> u64 {
    let (lanes, _) = span.as_chunks::<16>();
    let part = |index: usize| {
        let zeros = u8x16::new(lanes[index]).simd_eq(u8x16::ZERO);
        u64::from(zeros.to_bitmask()) << (16 * index)
    };
    part(0) | part(1) | part(2) | part(3)
}

/// Writes the mask of each span, as [`zeros`] returns it, in little-endian order. Ends at the last
/// span or the last mask, whichever comes first. Uses the widest registers that the processor has.
pub fn zeros_of_all(spans: &[[u8; SPAN]], masks: &mut [[u8; 8]]) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512bw") {
            // SAFETY: the processor has AVX-512BW.
            #[expect(unsafe_code, reason = "calls a function for some processors only")]
            return unsafe { wide_registers::with_avx512(spans, masks) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            #[expect(unsafe_code, reason = "calls a function for some processors only")]
            return unsafe { wide_registers::with_avx2(spans, masks) };
        }
    }
    with_any(spans, masks);
}

fn with_any(spans: &[[u8; SPAN]], masks: &mut [[u8; 8]]) {
    for (span, mask) in spans.iter().zip(masks) {
        *mask = zeros(span).to_le_bytes();
    }
}

/// Variants of [`zeros_of_all`] with wide registers, which not every x86-64 processor has.
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "loads through pointers into registers")]
mod wide_registers {
    use crate::zero_bytes::SPAN;
    use std::arch::x86_64::{
        _mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_movemask_epi8, _mm256_setzero_si256,
        _mm512_loadu_si512, _mm512_testn_epi8_mask,
    };

    #[target_feature(enable = "avx512bw")]
    pub(super) fn with_avx512(spans: &[[u8; SPAN]], masks: &mut [[u8; 8]]) {
        for (span, mask) in spans.iter().zip(masks) {
            // SAFETY: a span has the 64 bytes that are loaded; the load needs no alignment.
            let bytes = unsafe { _mm512_loadu_si512(span.as_ptr().cast()) };
            *mask = _mm512_testn_epi8_mask(bytes, bytes).to_le_bytes();
        }
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn with_avx2(spans: &[[u8; SPAN]], masks: &mut [[u8; 8]]) {
        for (span, mask) in spans.iter().zip(masks) {
            let (halves, _) = span.as_chunks::<32>();
            let part = |half: &[u8; 32]| {
                // SAFETY: a half has the 32 bytes that are loaded; the load needs no alignment.
                let bytes = unsafe { _mm256_loadu_si256(half.as_ptr().cast()) };
                _mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, _mm256_setzero_si256())) as u32
            };
            *mask = (u64::from(part(&halves[0])) | u64::from(part(&halves[1])) << 32).to_le_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Function type of the variants of [`zeros_of_all`].
    type OfAll = fn(&[[u8; SPAN]], &mut [[u8; 8]]);

    /// Returns the name and function of each variant of [`zeros_of_all`] that this processor
    /// supports.
    fn ways() -> Vec<(&'static str, OfAll)> {
        #[cfg_attr(not(target_arch = "x86_64"), expect(unused_mut, reason = "there are no others"))]
        let mut ways: Vec<(_, OfAll)> = vec![("chosen", zeros_of_all), ("any", with_any)];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512bw") {
                // SAFETY: the processor has AVX-512BW.
                #[expect(unsafe_code)]
                ways.push(("AVX-512", |spans, masks| unsafe {
                    wide_registers::with_avx512(spans, masks);
                }));
            }
            if is_x86_feature_detected!("avx2") {
                // SAFETY: the processor has AVX2.
                #[expect(unsafe_code)]
                ways.push(("AVX2", |spans, masks| unsafe {
                    wide_registers::with_avx2(spans, masks);
                }));
            }
        }
        ways
    }

    #[test]
    fn all_ways_find_the_same() {
        let mut seed = 1u64;
        let mut byte = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Zeros often, and bytes with a single bit set.
            [0, 0, 1, 0x80, b'a', 0xff, 0x10, (seed >> 48) as u8][(seed >> 61) as usize]
        };
        for count in [0usize, 1, 2, 7, 64] {
            let spans: Vec<[u8; SPAN]> =
                (0..count).map(|_| std::array::from_fn(|_| byte())).collect();
            let expected: Vec<[u8; 8]> = spans
                .iter()
                .map(|span| {
                    let bit = |index| u64::from(span[index] == 0) << index;
                    (0..SPAN).map(bit).fold(0u64, |all, bit| all | bit).to_le_bytes()
                })
                .collect();
            for (name, zeros_of_all) in ways() {
                // One mask more or fewer than spans is no error.
                for masks in [count, count + 1, count.saturating_sub(1)] {
                    let mut found = vec![[0x55; 8]; masks];
                    zeros_of_all(&spans, &mut found);
                    let both = masks.min(count);
                    assert_eq!(found[..both], expected[..both], "{name}");
                    assert!(found[both..].iter().all(|mask| *mask == [0x55; 8]), "{name}");
                }
            }
        }
    }
}

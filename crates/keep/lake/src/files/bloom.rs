//! Bloom filter of trace ids with 12 bits for each id. The bits of an id lie in one block of 64
//! bytes, so a lookup touches two cache lines at most.

use std::ops::Range;

/// Number of the filter's bits for each key. With [`BITS_SET`] bits set for each key, the false
/// positive rate is about 0.4 %.
const BITS_PER_KEY: usize = 12;
const BITS_SET: u32 = 6;
const BLOCK_BITS: usize = 512;
const BLOCK_BYTES: usize = BLOCK_BITS / 8;

/// Builds the filter of a set of keys. A key is the lower half of a trace id.
pub(crate) fn make(keys: &[u64]) -> Vec<u8> {
    let blocks = (keys.len() * BITS_PER_KEY).div_ceil(BLOCK_BITS).max(1);
    let mut bytes = vec![0; blocks * BLOCK_BYTES];
    for &key in keys {
        let (start, bits) = place(key, blocks);
        for bit in bits {
            bytes[start + bit / 8] |= 1 << (bit % 8);
        }
    }
    bytes
}

/// Returns whether a key may be in the set.
pub(crate) fn may_hold(bytes: &[u8], key: u64) -> bool {
    let blocks = bytes.len() / BLOCK_BYTES;
    if blocks == 0 {
        return true;
    }
    let (start, mut bits) = place(key, blocks);
    bits.all(|bit| bytes[start + bit / 8] & (1 << (bit % 8)) != 0)
}

/// Locates a key in a filter of `bytes` bytes. Returns the byte range of the key's block, and the
/// key's bits in that block; `None` if the filter is empty.
pub(crate) fn block_of(bytes: u64, key: u64) -> Option<(Range<u64>, Vec<usize>)> {
    let blocks = usize::try_from(bytes).ok()? / BLOCK_BYTES;
    if blocks == 0 {
        return None;
    }
    let (start, bits) = place(key, blocks);
    Some((start as u64..(start + BLOCK_BYTES) as u64, bits.collect()))
}

/// Returns the offset of a key's block, and the key's bits in it. The key is hashed, since trace
/// ids need not be random.
fn place(key: u64, blocks: usize) -> (usize, impl Iterator<Item = usize>) {
    let mixed = mix(key);
    let block = ((u128::from(mixed) * blocks as u128) >> u64::BITS) as usize;
    let bits = mix(mixed);
    let bits = (0..BITS_SET).map(move |n| (bits >> (9 * n)) as usize % BLOCK_BITS);
    (block * BLOCK_BYTES, bits)
}

/// Hashes a key with the finalizer of MurmurHash3: each bit of the key affects each bit of the
/// hash.
fn mix(mut key: u64) -> u64 {
    key ^= key >> 33;
    key = key.wrapping_mul(0xff51_afd7_ed55_8ccd);
    key ^= key >> 33;
    key = key.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    key ^ (key >> 33)
}

#[cfg(test)]
mod tests {
    use super::{make, may_hold};

    #[test]
    fn all_keys_are_held_and_few_others() {
        let keys: Vec<u64> = (0..10_000).map(|n| n * 3).collect();
        let bytes = make(&keys);
        assert!(keys.iter().all(|&key| may_hold(&bytes, key)));
        let others = (0..10_000).filter(|n| may_hold(&bytes, n * 3 + 1)).count();
        assert!(others < 300, "{others} of 10000 others are held");
        assert!(!may_hold(&make(&[]), 1));
    }
}

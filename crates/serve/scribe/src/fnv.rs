//! FNV-1a hash for the names of journals and of reading positions on disk.

/// Computes the 64-bit FNV-1a hash. Names on disk contain the hash, so it must not change between
/// releases.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

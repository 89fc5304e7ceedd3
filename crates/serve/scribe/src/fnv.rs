//! FNV-1a hash for the names of journals and of reading positions on disk.

/// FNV-1a of 64 bits. Names on disk contain it, so it must be the same in every release.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

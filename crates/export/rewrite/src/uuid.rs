//! UUIDs for traces that are written.
//!
//! Readers take directories of one UUID for parts of one trace, whose packets follow each other.
//! A part or a copy beside its source is not that: babeltrace2 would refuse both. So what is
//! written has a UUID of its own. Its first ten bytes are those of the source, because readers
//! order events of the same nanosecond by their traces' UUIDs.

use blkkin_ctf::schema::Uuid;
use std::hash::{BuildHasher, Hasher, RandomState};

/// Bytes that stay.
const KEPT: usize = 10;

/// A new UUID for each of `sources`, in the same order.
pub(crate) fn renewed(sources: &[Option<Uuid>]) -> Vec<Option<Uuid>> {
    // Keyed by the operating system, and differently each time.
    let random = RandomState::new().build_hasher().finish() >> 17;
    let mut sorted: Vec<Uuid> = sources.iter().flatten().copied().collect();
    sorted.sort();
    let renew = |uuid: Uuid| {
        let rank = sorted.partition_point(|other| *other < uuid) as u64;
        let mut bytes = uuid.0;
        // Far fewer traces than would carry over into a seventh byte.
        bytes[KEPT..].copy_from_slice(&(random + rank).to_be_bytes()[2..]);
        Uuid(bytes)
    };
    sources.iter().map(|uuid| uuid.map(renew)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each is new, what was told apart still is, and the order stays.
    #[test]
    fn uuids_are_new_and_in_order() {
        let uuid = |first, last| {
            let mut bytes = [7; 16];
            (bytes[0], bytes[15]) = (first, last);
            Uuid(bytes)
        };
        let sources = [uuid(1, 255), uuid(1, 0), uuid(0, 9), uuid(2, 0), uuid(1, 254)].map(Some);
        let sources = [&sources[..], &[None]].concat();
        let new = renewed(&sources);
        assert_ne!(new, renewed(&sources));
        assert_eq!(new[5], None);
        let order = |uuids: &[Option<Uuid>]| {
            let mut order: Vec<usize> = (0..uuids.len()).collect();
            order.sort_by_key(|&index| uuids[index]);
            order
        };
        assert_eq!(order(&new), order(&sources));
        for (new, old) in new.iter().flatten().zip(sources.iter().flatten()) {
            assert!(new != old && new.0[..KEPT] == old.0[..KEPT], "{new} for {old}");
        }
    }
}

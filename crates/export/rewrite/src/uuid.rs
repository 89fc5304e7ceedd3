//! UUIDs for written traces.
//!
//! Readers treat directories with the same UUID as parts of one trace, whose packets follow each
//! other. A written copy next to its source would violate that, and babeltrace2 would refuse both,
//! so a written trace has a new UUID. Its first ten bytes are those of the source, because readers
//! order events of the same nanosecond by the UUIDs of their traces.

use blkkin_ctf::schema::Uuid;
use std::hash::{BuildHasher, Hasher, RandomState};

/// Number of leading bytes that a new UUID copies from the source.
const PREFIX_BYTES: usize = 10;

/// Returns a new UUID for each of `sources`, in the same order; `None` for a source without a UUID.
pub(crate) fn renew(sources: &[Option<Uuid>]) -> Vec<Option<Uuid>> {
    // The hasher's keys are random, and different for each `RandomState`.
    let random = RandomState::new().build_hasher().finish() >> 17;
    let mut sorted: Vec<Uuid> = sources.iter().flatten().copied().collect();
    sorted.sort();
    let with_rank = |uuid: Uuid| {
        let rank = sorted.partition_point(|other| *other < uuid) as u64;
        let mut bytes = uuid.0;
        // There are far too few traces for a carry into a seventh byte.
        bytes[PREFIX_BYTES..].copy_from_slice(&(random + rank).to_be_bytes()[2..]);
        Uuid(bytes)
    };
    sources.iter().map(|uuid| uuid.map(with_rank)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each UUID is replaced by a new one; an absent UUID stays absent. The new UUIDs keep the
    /// order and the leading bytes of the sources.
    #[test]
    fn uuids_are_new_and_in_order() {
        let uuid = |first, last| {
            let mut bytes = [7; 16];
            (bytes[0], bytes[15]) = (first, last);
            Uuid(bytes)
        };
        let sources = [uuid(1, 255), uuid(1, 0), uuid(0, 9), uuid(2, 0), uuid(1, 254)].map(Some);
        let sources = [&sources[..], &[None]].concat();
        let new = renew(&sources);
        assert_ne!(new, renew(&sources));
        assert_eq!(new[5], None);
        let order = |uuids: &[Option<Uuid>]| {
            let mut order: Vec<usize> = (0..uuids.len()).collect();
            order.sort_by_key(|&index| uuids[index]);
            order
        };
        assert_eq!(order(&new), order(&sources));
        for (new, old) in new.iter().flatten().zip(sources.iter().flatten()) {
            assert!(
                new != old && new.0[..PREFIX_BYTES] == old.0[..PREFIX_BYTES],
                "{new} for {old}"
            );
        }
    }
}

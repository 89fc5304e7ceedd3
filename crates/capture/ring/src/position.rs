//! Positions in a ring: byte counters that wrap at 2^64.

use crate::shape::Shape;

/// Whether one position comes before another, as both wrap.
pub(crate) fn is_before(one: u64, other: u64) -> bool {
    other.wrapping_sub(one).wrapping_sub(1) < 1 << 63
}

/// Where `RESTART` says that the ring went on at its start, and the index of the sub-buffer that was left
/// for that; `None` if positions have not come so far: there was none, or its writer did not get to the end.
pub(crate) fn restart_of(shape: &Shape, restart: u64, write: u64) -> Option<(u64, u64)> {
    let left = restart % shape.ring_size() as u64;
    let start = restart - left;
    (restart != 0 && !is_before(write, start)).then_some((start, left))
}

/// Bytes between the reader's position and the writers', without those that were passed over.
pub(crate) fn unread(shape: &Shape, restart: u64, (read, write): (u64, u64)) -> u64 {
    match restart_of(shape, restart, write) {
        Some((start, _)) if is_before(read, start) => {
            let size = shape.subbuffer_size as u64;
            (size - read % size).saturating_add(write.wrapping_sub(start))
        }
        _ => write.wrapping_sub(read),
    }
}

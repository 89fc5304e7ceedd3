//! Positions in a ring: byte counters that wrap at 2^64.

use crate::shape::Shape;

/// Returns true if position `one` is before position `other`, at a distance of at most 2^63.
pub(crate) fn is_before(one: u64, other: u64) -> bool {
    other.wrapping_sub(one).wrapping_sub(1) < 1 << 63
}

/// Decodes `RESTART` into the position at which the ring restarted, and the index of the sub-buffer
/// that was left. Returns `None` if `RESTART` is 0, or if a writer was interrupted before it
/// completed the restart.
pub(crate) fn restart_of(shape: &Shape, restart: u64, write: u64) -> Option<(u64, u64)> {
    let left = restart % shape.ring_size() as u64;
    let start = restart - left;
    (restart != 0 && !is_before(write, start)).then_some((start, left))
}

/// Returns the number of bytes from the reader's position to the writers'. Excludes the sub-buffers
/// that a restart skipped.
pub(crate) fn unread(shape: &Shape, restart: u64, read: u64, write: u64) -> u64 {
    match restart_of(shape, restart, write) {
        Some((start, _)) if is_before(read, start) => {
            let size = shape.subbuffer_size as u64;
            (size - read % size).saturating_add(write.wrapping_sub(start))
        }
        _ => write.wrapping_sub(read),
    }
}

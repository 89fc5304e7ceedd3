//! Position at which a stream of an earlier agent is continued. It is computed from the size of the
//! stream's file, and from the writes that the earlier agent announced in the rings' memory.

use blkkin_ring::ReaderState;

/// Position at which a stream is continued: in its file, and in the rings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResumePoint {
    /// Size in bytes to which the file is truncated before packets are appended.
    pub(crate) size: u64,
    /// Index of the set of rings to read next. The older sets are drained.
    pub(crate) set: usize,
    /// Position in the ring of this set from which to read; `None` for the ring's start.
    pub(crate) position: Option<u64>,
}

/// Returns where to continue a stream whose file has `size` bytes. `sets` are the states of the
/// stream's ring in each set, the oldest set first.
///
/// Before each write, an agent announces the write in the memory of its own set. Its first write
/// may contain all packets of the older sets; its later writes contain packets of its own set.
pub(crate) fn resume(sets: &[ReaderState], mut size: u64) -> ResumePoint {
    for (set, left) in sets.iter().enumerate().rev() {
        if left.size_after == 0 && left.next == left.start && left.read == left.start {
            // The agent of this set has not written anything.
            if left.is_cleared {
                return ResumePoint { size, set, position: None };
            }
            continue;
        }
        let is_done = size == left.size_after;
        if left.next != left.start || left.read != left.start {
            if left.next != left.read && !is_done {
                size = size.min(left.size_before);
            }
            let position = Some(if is_done { left.next } else { left.read });
            return ResumePoint { size, set, position };
        }
        if is_done {
            return ResumePoint { size, set, position: None };
        }
        size = size.min(left.size_before);
    }
    ResumePoint { size, set: 0, position: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;

    /// Returns the state of a ring whose agent freed the packets up to `read` and announced the
    /// packets up to `next`. `sizes` are the sizes of the file before and after its last write.
    fn left(read: u64, next: u64, sizes: Range<u64>) -> ReaderState {
        let (discarded_before, discarded_forgotten, is_first) = (0, 0, false);
        ReaderState {
            start: 0,
            read,
            next,
            size_before: sizes.start,
            size_after: sizes.end,
            discarded_before,
            discarded_forgotten,
            is_cleared: is_first,
        }
    }

    #[test]
    fn streams_are_gone_on_with_where_they_end() {
        let check = |sets: &[ReaderState], size, expected: (u64, usize, Option<u64>)| {
            let found = resume(sets, size);
            assert_eq!((found.size, found.set, found.position), expected, "{sets:?} {size}");
        };
        check(&[], 0, (0, 0, None));
        check(&[left(0, 0, 0..0)], 0, (0, 0, None));
        // The agent was killed before the write, during the write, after the write, and after
        // freeing the written packets.
        check(&[left(0, 100, 0..90)], 0, (0, 0, Some(0)));
        check(&[left(0, 100, 0..90)], 50, (0, 0, Some(0)));
        check(&[left(0, 100, 0..90)], 90, (90, 0, Some(100)));
        check(&[left(100, 100, 0..90)], 90, (90, 0, Some(100)));
        check(&[left(100, 300, 90..250)], 91, (90, 0, Some(100)));
        // The next agent was killed before, during, and after its write of the first agent's
        // packets.
        let first = left(100, 300, 90..250);
        check(&[first, left(0, 0, 0..0)], 90, (90, 0, Some(100)));
        check(&[first, left(0, 0, 90..500)], 400, (90, 0, Some(100)));
        check(&[first, left(0, 0, 90..500)], 500, (500, 1, None));
        check(&[first, left(0, 70, 500..570)], 500, (500, 1, Some(0)));
        check(&[first, left(70, 70, 500..570), left(0, 0, 0..0)], 570, (570, 1, Some(70)));
        // The session was cleared, and then nothing was recorded in the last set.
        let cleared = ReaderState { is_cleared: true, ..left(0, 0, 0..0) };
        check(&[first, cleared], 0, (0, 1, None));
    }
}

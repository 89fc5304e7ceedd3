//! Waiting for room in a full ring, for channels whose users would rather wait than lose events.
//!
//! The reader is another process that never waits for this one, so a writer may wait anywhere, also in a
//! signal handler: it holds no lock meanwhile. It polls, so that the reader need not know of it. An end comes in
//! any case: when the channel's time is over, or when nothing has been read for [`IDLE_MAX_NS`], as the
//! reader is gone or cannot write. Then no event waits until something is read again.

use crate::cells::{Cells, Word};
use crate::shape::{Shape, WAIT_FOREVER};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What `Writer::stalled` is while events may wait.
pub(crate) const NOT_STALLED: u64 = u64::MAX;

/// Nanoseconds without anything read after which nobody waits any longer.
const IDLE_MAX_NS: u64 = 10_000_000_000;

/// Nanoseconds between looks: at first, and at last.
const PAUSE_NS: std::ops::RangeInclusive<u64> = 20_000..=1_000_000;

/// Waiting of one event.
#[derive(Debug)]
pub(crate) struct RoomWait {
    wait_us: u32,
    pause_ns: u64,
    progress: Option<WaitProgress>,
}

#[derive(Debug)]
struct WaitProgress {
    started_ns: u64,
    /// How much had been read at first, and at the last look, and when that changed.
    read_at_start: u64,
    read_at_last_poll: u64,
    changed_ns: u64,
}

impl RoomWait {
    pub(crate) fn new(wait_us: u32) -> RoomWait {
        RoomWait { wait_us, pause_ns: *PAUSE_NS.start(), progress: None }
    }

    /// Whether an event that finds no room now may find some later.
    pub(crate) fn may_wait(&mut self, cells: &Cells, shape: &Shape, stalled: &AtomicU64) -> bool {
        if self.wait_us == 0 {
            return false;
        }
        let (now, read) = (blkkin_sys::monotonic_ns(), read_so_far(cells, shape));
        let progress = self.progress.get_or_insert(WaitProgress {
            started_ns: now,
            read_at_start: read,
            read_at_last_poll: read,
            changed_ns: now,
        });
        if read != progress.read_at_last_poll {
            (progress.read_at_last_poll, progress.changed_ns) = (read, now);
        }
        if stalled.load(Relaxed) == read {
            return false;
        }
        let is_late = self.wait_us != WAIT_FOREVER
            && now.saturating_sub(progress.started_ns) >= u64::from(self.wait_us) * 1000;
        if is_late || now.saturating_sub(progress.changed_ns) >= IDLE_MAX_NS {
            if read == progress.read_at_start {
                stalled.store(read, Relaxed);
            }
            return false;
        }
        true
    }

    /// Lets a moment pass.
    pub(crate) fn pause(&mut self) {
        blkkin_sys::sleep_ns(self.pause_ns);
        self.pause_ns = (2 * self.pause_ns).min(*PAUSE_NS.end());
    }
}

/// A number that changes when something has been read.
fn read_so_far(cells: &Cells, shape: &Shape) -> u64 {
    let read = |ring| cells.load(shape.control_of(ring), Word::Read, Relaxed);
    let sum = (0..shape.rings).map(read).fold(0, u64::wrapping_add);
    sum.min(NOT_STALLED - 1)
}

//! Back-pressure: waiting for room in a full ring, for channels that prefer delay to loss.
//!
//! The reader is another process that never waits for this one, so a writer may wait anywhere, also
//! in a signal handler. A waiting writer holds no lock. It polls, so that the reader needs no code
//! for waiting writers. A wait without success ends at the channel's time limit, or when the reader
//! has freed nothing for [`IDLE_MAX_NS`], because it has exited or cannot write. After a wait in
//! which nothing was freed, all events that find a ring full are discarded at once, also those that
//! wait already, until the reader frees events again.

use crate::cells::{Cells, Word};
use crate::shape::{Shape, WAIT_FOREVER};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Initial value of `Writer::stalled`, until a wait for room has ended with nothing freed. No sum
/// of read positions has this value.
pub(crate) const NOT_STALLED: u64 = u64::MAX;

/// Time without progress of the reader after which a writer stops waiting, in nanoseconds.
const IDLE_MAX_NS: u64 = 10_000_000_000;

/// Range of the pause between polls, in nanoseconds. The pause is doubled after each poll.
const PAUSE_NS: std::ops::RangeInclusive<u64> = 20_000..=1_000_000;

/// State of one event's wait for room in a full ring.
#[derive(Debug)]
pub(crate) struct RoomWait {
    wait_us: u32,
    pause_ns: u64,
    progress: Option<WaitProgress>,
}

#[derive(Debug)]
struct WaitProgress {
    started_ns: u64,
    /// Sum of all rings' read positions when the wait started.
    read_at_start: u64,
    /// Sum of all rings' read positions at the last poll.
    read_at_last_poll: u64,
    /// Time of the last poll that found the sum of read positions changed; at first the start of
    /// the wait.
    changed_ns: u64,
}

impl RoomWait {
    pub(crate) fn new(wait_us: u32) -> RoomWait {
        RoomWait { wait_us, pause_ns: *PAUSE_NS.start(), progress: None }
    }

    /// Returns true if an event that finds the ring full may wait for room.
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

    /// Sleeps until the next poll, and doubles the following pause.
    pub(crate) fn pause(&mut self) {
        blkkin_sys::sleep_ns(self.pause_ns);
        self.pause_ns = (2 * self.pause_ns).min(*PAUSE_NS.end());
    }
}

/// Returns the sum of all rings' read positions. The sum changes whenever a reader frees events.
fn read_so_far(cells: &Cells, shape: &Shape) -> u64 {
    let read = |ring| cells.load(shape.control_of(ring), Word::Read, Relaxed);
    let sum = (0..shape.rings).map(read).fold(0, u64::wrapping_add);
    sum.min(NOT_STALLED - 1)
}

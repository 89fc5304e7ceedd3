//! Writing with a lock on the ring, where there are no restartable sequences.
//!
//! Nobody waits for the lock. Who does not get one ring takes another; a signal handler that finds
//! its own thread's lock does so too. What a holder writes counts from its last store on, as with a
//! sequence, so a holder that dies leaves nothing but the lock, which is taken from it.

use crate::cells::{Cells, Word};
use crate::shape::Shape;
use crate::write::Switch;
use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A ring that this thread may write to, until it is dropped.
pub(crate) struct Held<'c> {
    cells: &'c Cells,
    control: usize,
    pub(crate) ring: usize,
}

/// Takes the lock of one of `rings`, the current processor's first.
pub(crate) fn hold_one<'c>(
    cells: &'c Cells,
    shape: &Shape,
    rings: Range<usize>,
) -> Option<Held<'c>> {
    let count = rings.len();
    let own = identity::cpu() % count;
    let thread = identity::thread();
    for _ in 0..ROUNDS {
        for offset in 0..count {
            let ring = rings.start + (own + offset) % count;
            let control = shape.control_of(ring);
            let owner = cells.word(control, Word::Owner);
            // Acquire: pairs with the release when the last holder was done; its words and bytes
            // are seen.
            if owner.compare_exchange(0, thread, Acquire, Relaxed).is_ok() {
                return Some(Held { cells, control, ring });
            }
        }
        identity::pause();
    }
    take_over(cells, shape, rings, thread)
}

/// How often all rings are tried. Holders need some ten nanoseconds, unless they are preempted.
const ROUNDS: usize = if cfg!(loom) { 1 } else { 64 };

/// Takes a ring whose holder has died.
#[cold]
fn take_over<'c>(
    cells: &'c Cells,
    shape: &Shape,
    rings: Range<usize>,
    thread: u64,
) -> Option<Held<'c>> {
    for ring in rings {
        let control = shape.control_of(ring);
        let owner = cells.word(control, Word::Owner);
        let holder = owner.load(Relaxed);
        // Acquire: as above; of a dead holder, what it wrote before its last release counts.
        if holder != 0
            && holder != thread
            && !identity::exists(holder)
            && owner.compare_exchange(holder, thread, Acquire, Relaxed).is_ok()
        {
            return Some(Held { cells, control, ring });
        }
    }
    None
}

impl Held<'_> {
    /// Appends an event.
    pub(crate) fn append(&self, place: usize, bytes: &[u8], write: u64, time: u64) {
        self.cells.copy_in(place, bytes);
        self.publish(write.wrapping_add(bytes.len() as u64), time);
    }

    /// Leaves a sub-buffer and begins the next one.
    pub(crate) fn switch(&self, switch: &Switch) {
        if let Some((place, end, discarded)) = &switch.leave {
            self.cells.copy_in(place + crate::packet::LAST_TIME, end);
            self.cells.copy_in(place + crate::packet::DISCARDED, discarded);
        }
        self.cells.copy_in(switch.begin.0, &switch.begin.1);
        self.publish(switch.write, switch.time);
    }

    fn publish(&self, write: u64, time: u64) {
        self.cells.store(self.control, Word::LastTime, time, Relaxed);
        // Release: pairs with the reader's acquire in `Reader::take`; who sees the position sees
        // the bytes before it.
        self.cells.store(self.control, Word::Write, write, Release);
    }

    /// Counts an event that found no room.
    pub(crate) fn count_lost(&self) {
        let lost = self.cells.load_own(self.control, Word::Lost);
        self.cells.store(self.control, Word::Lost, lost + 1, Relaxed);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Release: pairs with the next holder's acquire in `hold_one`.
        self.cells.store(self.control, Word::Owner, 0, Release);
    }
}

/// Who asks, and who is still there.
#[cfg(not(loom))]
mod identity {
    pub(super) fn thread() -> u64 {
        blkkin_sys::thread_id().into()
    }

    pub(super) fn cpu() -> usize {
        blkkin_sys::current_cpu()
    }

    pub(super) fn exists(thread: u64) -> bool {
        u32::try_from(thread).is_ok_and(blkkin_sys::thread_exists)
    }

    pub(super) fn pause() {
        std::hint::spin_loop();
    }
}

/// As models have it: threads that never die, on one processor.
#[cfg(loom)]
mod identity {
    use std::hash::{DefaultHasher, Hash, Hasher};

    pub(super) fn thread() -> u64 {
        let mut hasher = DefaultHasher::new();
        loom::thread::current().id().hash(&mut hasher);
        hasher.finish() | 1
    }

    pub(super) fn cpu() -> usize {
        0
    }

    pub(super) fn exists(_: u64) -> bool {
        true
    }

    pub(super) fn pause() {}
}

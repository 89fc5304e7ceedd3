//! Sleep and wake-up of the reader: flags in the set header that the reader sets and writers clear.

use crate::cells::Cells;
use crate::shape::{DOZING, SLEEPING};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

impl Cells {
    /// Says that the reader is about to sleep. In this order:
    ///
    /// 1. It says so in all sets of rings, by this function.
    /// 2. It calls [`blkkin_sys::barrier_for_all`], once for all.
    /// 3. It looks at all rings once more, and does not sleep if there is something.
    /// 4. It sleeps until it is woken; for a bounded time, in which what it is not woken for may wait,
    ///    if there was no barrier, or a program does not heed any.
    ///
    /// A writer stores `WRITE`, then loads `SLEEPING`, and has no barrier between them, which would
    /// cost as much as the event. The reader's is one in the writer as well. If it comes before the
    /// load, the load finds that the reader sleeps. If it comes after it, and so after the store, the
    /// reader finds the event.
    pub fn fall_asleep(&self) {
        // Sequentially consistent: before the reader's next look at the rings, also where it has no
        // other barrier.
        self.set_flag(SLEEPING, 1, SeqCst);
    }

    /// Whether the reader sleeps; if so it no longer counts as sleeping, and the caller wakes it. The
    /// reader calls it when it goes on by itself.
    pub fn wake(&self) -> bool {
        // Relaxed: a glance; most often nobody sleeps. What puts it behind the writer's store is said
        // above.
        self.flag(SLEEPING, Relaxed) != 0 && self.set_flag(SLEEPING, 0, SeqCst) != 0
    }

    /// Says that the reader comes by itself, but not before long: who finds a ring filling up is to wake it.
    pub fn doze(&self) {
        // Relaxed: to miss it is to be as late as without it.
        if self.flag(DOZING, Relaxed) == 0 {
            self.set_flag(DOZING, 1, Relaxed);
        }
    }

    /// Whether the reader dozes; if so it no longer counts as dozing, and the caller wakes it. The reader calls it
    /// when it comes often.
    pub fn rouse(&self) -> bool {
        self.flag(DOZING, Relaxed) != 0 && self.set_flag(DOZING, 0, Relaxed) != 0
    }
}

//! Sleep and wake-up of the reader, by flags in the set header. The reader sets a flag; a writer
//! clears it and wakes the reader.

use crate::cells::Cells;
use crate::shape::{DOZING, REGISTERED, SLEEPING};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

impl Cells {
    /// Announces that the reader is about to sleep. The protocol:
    ///
    /// 1. The reader sets the flag of each set of rings with this function.
    /// 2. The reader calls [`blkkin_sys::barrier_for_all`], once for all sets.
    /// 3. The reader checks all rings again, and does not sleep if there is an event.
    /// 4. The reader sleeps until it is woken. Without a barrier, or with a program that is not
    ///    registered for barriers, one wake-up may be missed. So the reader first sleeps for a
    ///    bounded time, and then repeats steps 1 to 3, unless there was a barrier and all sets
    ///    have `REGISTERED` set.
    ///
    /// A writer stores `WRITE` and then loads `SLEEPING`, without a barrier between them, which
    /// would cost as much as the event. The reader's barrier acts in the writer as well. If it acts
    /// before the writer's load, the load finds the flag set. If it acts after the load, and thus
    /// after the store, the reader finds the event.
    pub fn fall_asleep(&self) {
        // Sequentially consistent: precedes the reader's next check of the rings, even where it has
        // no other barrier.
        self.set_flag(SLEEPING, 1, SeqCst);
    }

    /// Sets `REGISTERED`: all threads that write into these rings are registered for barriers.
    pub(crate) fn set_registered(&self) {
        // Relaxed: a reader that misses the flag looks once more than it must.
        self.set_flag(REGISTERED, 1, Relaxed);
    }

    /// Returns whether all threads that write into these rings are registered for barriers.
    pub fn is_registered(&self) -> bool {
        self.flag(REGISTERED, Relaxed) != 0
    }

    /// Clears `SLEEPING`. Returns true if the flag was set; the caller then wakes the reader. The
    /// reader calls this too, when it continues without a wake-up.
    pub fn wake(&self) -> bool {
        // Relaxed: a first check, as the reader is usually awake. The barrier described above
        // orders it after the writer's store.
        self.flag(SLEEPING, Relaxed) != 0 && self.set_flag(SLEEPING, 0, SeqCst) != 0
    }

    /// Returns true if `SLEEPING` is set: no writer has woken the reader since
    /// [`fall_asleep`](Self::fall_asleep).
    pub fn is_reader_asleep(&self) -> bool {
        self.flag(SLEEPING, Relaxed) != 0
    }

    /// Sets `DOZING`: the reader polls at a long interval, and a writer whose ring fills up wakes
    /// it.
    pub fn doze(&self) {
        // Relaxed: if a writer misses the flag, the reader still polls at its interval.
        if self.flag(DOZING, Relaxed) == 0 {
            self.set_flag(DOZING, 1, Relaxed);
        }
    }

    /// Clears `DOZING`. Returns true if the flag was set; the caller then wakes the reader. The
    /// reader calls this too, when it polls at a short interval again.
    pub fn rouse(&self) -> bool {
        self.flag(DOZING, Relaxed) != 0 && self.set_flag(DOZING, 0, Relaxed) != 0
    }
}

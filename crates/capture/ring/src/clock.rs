//! Clocks that give the times of the events in a set of rings.

/// Source of the times of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The processor's time-stamp counter.
    Tsc,
    /// `CLOCK_MONOTONIC`, in nanoseconds.
    Monotonic,
    /// `CLOCK_MONOTONIC` of another time namespace: this namespace's clock plus this many
    /// nanoseconds.
    MonotonicAhead(i64),
    /// A fixed time, for tests.
    Test(u64),
}

impl Clock {
    /// Returns the current time. Correct only if all earlier events were recorded on this
    /// processor.
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    #[inline(always)]
    pub(crate) fn now(self) -> u64 {
        match self {
            Clock::Tsc => blkkin_sys::tsc(),
            _ => self.now_after_loads(),
        }
    }

    /// Returns the current time, ordered after earlier loads, because earlier events may have been
    /// recorded on other processors.
    #[inline]
    pub fn now_after_loads(self) -> u64 {
        match self {
            Clock::Tsc => blkkin_sys::tsc_after_loads(),
            Clock::Monotonic => blkkin_sys::monotonic_ns(),
            Clock::MonotonicAhead(ns) => blkkin_sys::monotonic_ns().saturating_add_signed(ns),
            Clock::Test(time) => time,
        }
    }
}

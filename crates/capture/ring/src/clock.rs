//! The clock of a set of rings.

/// Where times come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The processor's counter.
    Tsc,
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    Monotonic,
    /// The same in a time namespace, as seen from another one where it shows so many nanoseconds less.
    MonotonicAhead(i64),
    /// A number that a test has chosen.
    Test(u64),
}

impl Clock {
    /// Now, where all that happened before did so on this processor.
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    #[inline(always)]
    pub(crate) fn now(self) -> u64 {
        match self {
            Clock::Tsc => blkkin_sys::tsc(),
            _ => self.now_after_loads(),
        }
    }

    /// Now, where others may have written on other processors.
    #[inline]
    pub(crate) fn now_after_loads(self) -> u64 {
        match self {
            Clock::Tsc => blkkin_sys::tsc_after_loads(),
            Clock::Monotonic => blkkin_sys::monotonic_ns(),
            Clock::MonotonicAhead(ns) => blkkin_sys::monotonic_ns().saturating_add_signed(ns),
            Clock::Test(time) => time,
        }
    }
}

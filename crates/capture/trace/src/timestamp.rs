//! Start times of spans and runs, measured by the clock of the channels' rings.

use blkkin_ring::Clock;
use blkkin_sys::{monotonic_ns, tsc};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Clock of the most recently attached channel. The module [`daemon`](crate::daemon) chooses one
/// clock for all channels of a process; a forked child may have another clock than its parent.
static CLOCK: AtomicU8 = AtomicU8::new(NO_CLOCK);

const NO_CLOCK: u8 = 0;
const TSC: u8 = 1;
const MONOTONIC: u8 = 2;

/// Selects the clock that gives the start times of spans.
pub(crate) fn set_clock(clock: Clock) {
    CLOCK.store(if clock == Clock::Tsc { TSC } else { MONOTONIC }, Relaxed);
}

/// A time of the rings' clock, or [`NONE`](Self::NONE).
#[derive(Clone, Copy, Debug)]
pub struct Timestamp {
    time: u64,
    clock: u8,
}

impl Timestamp {
    /// The absence of a time: no clock is known, or a span is not to be recorded.
    pub const NONE: Timestamp = Timestamp { time: 0, clock: NO_CLOCK };

    /// Returns the current time; [`NONE`](Self::NONE) if no channel has been attached yet, because
    /// the clock is then unknown.
    #[inline(always)]
    pub fn now() -> Timestamp {
        let clock = CLOCK.load(Relaxed);
        let time = match clock {
            TSC => tsc(),
            NO_CLOCK => 0,
            _ => monotonic_ns(),
        };
        Timestamp { time, clock }
    }

    /// Returns true unless this is [`NONE`](Self::NONE).
    #[inline(always)]
    pub const fn is_some(self) -> bool {
        self.clock != NO_CLOCK
    }

    /// Returns the time as two words, of which the first is 0 for [`NONE`](Self::NONE) only.
    pub(crate) const fn words(self) -> [u64; 2] {
        [self.clock as u64, self.time]
    }

    /// Returns a time from the result of [`words`](Self::words).
    pub(crate) const fn from_words([clock, time]: [u64; 2]) -> Timestamp {
        Timestamp { time, clock: clock as u8 }
    }

    /// Returns this time and the time elapsed since then, in units of the clock. Returns `None` if
    /// the clock has changed, or for [`NONE`](Self::NONE).
    #[inline(always)]
    pub fn elapsed(self) -> Option<(u64, u64)> {
        let now = Timestamp::now();
        // Time-stamp counters of two processors may differ by a few cycles.
        let duration = now.time.saturating_sub(self.time);
        (self.is_some() && now.clock == self.clock).then_some((self.time, duration))
    }
}

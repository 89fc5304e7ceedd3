//! When a span starts, by the clock that the channels' rings have.

use blkkin_ring::Clock;
use blkkin_sys::{monotonic_ns, tsc};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// What the channel has that was attached last. All of a process have the same, unless a daemon that
/// knows better has come meanwhile.
static CLOCK: AtomicU8 = AtomicU8::new(NO_CLOCK);

const NO_CLOCK: u8 = 0;
const TSC: u8 = 1;
const MONOTONIC: u8 = 2;

/// Has spans take their times from this clock.
pub(crate) fn set_clock(clock: Clock) {
    CLOCK.store(if clock == Clock::Tsc { TSC } else { MONOTONIC }, Relaxed);
}

/// A time of the clock that events' times are of, or none.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    time: u64,
    clock: u8,
}

impl Moment {
    /// No time at all.
    pub const NONE: Moment = Moment { time: 0, clock: NO_CLOCK };

    /// Now; none if there is no channel yet, and thus no clock.
    #[inline(always)]
    pub fn now() -> Moment {
        let clock = CLOCK.load(Relaxed);
        let time = match clock {
            TSC => tsc(),
            NO_CLOCK => 0,
            _ => monotonic_ns(),
        };
        Moment { time, clock }
    }

    /// Whether it is one.
    #[inline(always)]
    pub const fn is_some(self) -> bool {
        self.clock != NO_CLOCK
    }

    /// This moment and the time since, in units of the clock; none if there is another clock now.
    #[inline(always)]
    pub fn elapsed(self) -> Option<(u64, u64)> {
        let now = Moment::now();
        // Counters of two processors may differ by a few cycles.
        let duration = now.time.saturating_sub(self.time);
        (self.is_some() && now.clock == self.clock).then_some((self.time, duration))
    }
}

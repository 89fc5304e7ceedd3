//! The clocks that programs take times from, and how they relate to the time of day.
//!
//! The processor's counter has no frequency that one could ask for, so it is measured: between the
//! daemon's start and each new trace, the longer the better. Both ends are read as close together as the
//! machine lets us, some ten nanoseconds.

use blkkin_control::Clock;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const SECOND: u64 = 1_000_000_000;
/// A trace that begins sooner after the daemon waits until so much has passed. The error of the frequency
/// is then some parts in a million, and less for all later traces.
const SHORTEST: Duration = Duration::from_millis(20);

/// What a trace's metadata says of its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    /// Ticks in a second.
    pub(crate) frequency: u64,
    /// What the clock showed in 1970, in nanoseconds before then.
    pub(crate) offset_ns: u128,
}

/// Measures the clocks.
#[derive(Debug)]
pub(crate) struct Clocks {
    start: Moment,
}

/// All clocks at one moment.
#[derive(Clone, Copy, Debug)]
struct Moment {
    tsc: u64,
    monotonic_ns: u64,
    since_1970_ns: u128,
}

impl Clocks {
    pub(crate) fn new() -> Clocks {
        Clocks { start: Moment::now() }
    }

    /// How a clock runs, as far as is known now.
    pub(crate) fn rate(&self, clock: Clock) -> Rate {
        let mut now = Moment::now();
        if clock == Clock::Monotonic {
            let offset_ns = now.since_1970_ns.saturating_sub(u128::from(now.monotonic_ns));
            return Rate { frequency: SECOND, offset_ns };
        }
        let passed = Duration::from_nanos(now.monotonic_ns - self.start.monotonic_ns);
        if passed < SHORTEST {
            sleep(SHORTEST - passed);
            now = Moment::now();
        }
        let ticks = u128::from(now.tsc.wrapping_sub(self.start.tsc)) * u128::from(SECOND);
        let passed = u128::from(now.monotonic_ns - self.start.monotonic_ns).max(1);
        let frequency = u64::try_from((ticks + passed / 2) / passed).unwrap_or(SECOND).max(1);
        let shown_ns = u128::from(now.tsc) * u128::from(SECOND) / u128::from(frequency);
        Rate { frequency, offset_ns: now.since_1970_ns.saturating_sub(shown_ns) }
    }
}

impl Moment {
    fn now() -> Moment {
        let once = || {
            let before = blkkin_sys::tsc();
            let monotonic_ns = blkkin_sys::monotonic_ns();
            let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let after = blkkin_sys::tsc();
            let took = after.wrapping_sub(before);
            let tsc = before.wrapping_add(took / 2);
            (took, Moment { tsc, monotonic_ns, since_1970_ns: since_1970.as_nanos() })
        };
        let first = once();
        let best = (1..64)
            .map(|_| once())
            .fold(first, |best, one| if one.0 < best.0 { one } else { best });
        best.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In nanoseconds since 1970.
    fn time(rate: Rate, shown: u64) -> u128 {
        rate.offset_ns + u128::from(shown) * u128::from(SECOND) / u128::from(rate.frequency)
    }

    #[test]
    fn clocks_show_the_time_of_day() {
        let clocks = Clocks::new();
        for clock in [Clock::Tsc, Clock::Monotonic] {
            if clock == Clock::Tsc && !blkkin_sys::tsc_is_steady() {
                continue;
            }
            let rate = clocks.rate(clock);
            let now = Moment::now();
            let shown = if clock == Clock::Tsc { now.tsc } else { now.monotonic_ns };
            let difference = time(rate, shown).abs_diff(now.since_1970_ns);
            // A machine that is busy may take a while; a wrong unit takes longer.
            assert!(difference < u128::from(SECOND), "{clock:?} is {difference} ns off");
        }
    }
}

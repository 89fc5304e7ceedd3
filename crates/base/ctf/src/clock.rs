//! Conversion between a clock's cycles and nanoseconds.

use crate::schema::Clock;

const NS: i64 = 1_000_000_000;

/// Conversion between readings of one clock, in cycles, and nanoseconds from the clock's origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeScale {
    frequency: u64,
    /// Time at a clock reading of 0, in nanoseconds from the clock's origin.
    base_ns: i64,
}

impl TimeScale {
    /// Makes the conversion for `clock`. A clock offset of more than 64 bits of nanoseconds is
    /// clipped.
    pub fn new(clock: &Clock) -> TimeScale {
        let base = base_ns(clock).clamp(i64::MIN.into(), i64::MAX.into());
        TimeScale { frequency: clock.frequency.max(1), base_ns: base as i64 }
    }

    /// Makes the conversion for `clock`; `None` if the clock's offset exceeds 64 bits of
    /// nanoseconds.
    pub fn checked(clock: &Clock) -> Option<TimeScale> {
        i64::try_from(base_ns(clock)).is_ok().then(|| TimeScale::new(clock))
    }

    /// Converts a clock reading of `cycles` to nanoseconds from the clock's origin; saturates.
    #[inline]
    pub fn ns(&self, cycles: u64) -> i64 {
        if self.frequency == NS as u64 {
            return self.base_ns.saturating_add_unsigned(cycles);
        }
        self.base_ns.saturating_add_unsigned(scaled(cycles, self.frequency))
    }

    /// Returns the last clock reading, in cycles, at or before `ns` nanoseconds from the origin;
    /// saturates.
    pub fn cycles(&self, ns: i64) -> u64 {
        let distance = i128::from(ns) - i128::from(self.base_ns);
        let cycles = (distance * i128::from(self.frequency)).div_euclid(i128::from(NS));
        cycles.clamp(0, u64::MAX.into()) as u64
    }
}

/// Returns the time at a clock reading of 0, in nanoseconds from the clock's origin.
fn base_ns(clock: &Clock) -> i128 {
    let frequency = clock.frequency.max(1);
    let cycles = i128::from(clock.offset_cycles);
    let whole = cycles.div_euclid(i128::from(frequency));
    let rest = cycles.rem_euclid(i128::from(frequency)) as u64;
    let seconds = i128::from(clock.offset_seconds) + whole;
    seconds * i128::from(NS) + i128::from(scaled(rest, frequency))
}

/// Converts cycles to nanoseconds, in floating point as babeltrace2 does, so that both tools show
/// the same times.
#[inline]
fn scaled(cycles: u64, frequency: u64) -> u64 {
    if frequency == NS as u64 {
        return cycles;
    }
    ((1e9 * cycles as f64) / frequency as f64) as u64
}

//! Measurement of durations in nanoseconds. The processor's counter is several times cheaper to
//! read than the system's clock; its rate is measured against that clock.

use blkkin_sys::{monotonic_ns, tsc, tsc_is_steady};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Nanoseconds for one tick, as a fixed-point number with [`FRACTION`] bits; 0 while the system's
/// clock is used.
static NS_OF_TICK: AtomicU64 = AtomicU64::new(0);
const FRACTION: u32 = 32;

/// Both clocks at the library's start, in ticks and in nanoseconds.
static START_TICKS: AtomicU64 = AtomicU64::new(0);
static START_NS: AtomicU64 = AtomicU64::new(0);

/// Maximum number of ticks within which both clocks are read, if the thread is not interrupted.
const CLOSE_TICKS: u64 = 500;
/// Minimum time from the start to a measurement, in nanoseconds. The two clocks are read within
/// about 100 ns, so the error of the rate is below 1 in 2000.
const MEASURED_NS_MIN: u64 = 200_000;
/// Duration of a call, in ticks, from which on the rate is measured again: about a third of a
/// millisecond. The call started after the library, so the time since the library's start is then
/// long enough for a measurement.
const LONG_TICKS: u64 = 1 << 20;
/// Divisor for the largest plausible deviation from the first measurement. The counter and the
/// system's clock differ by more after a suspension of the machine.
const DEVIATION_DIVISOR: u64 = 256;

/// Time at the start of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StartTime {
    time: u64,
    ns_of_tick: u64,
}

/// Reads both clocks. Called once, at the library's start.
pub(crate) fn start() {
    if tsc_is_steady() {
        let (ticks, ns) = both_clocks();
        START_TICKS.store(ticks, Relaxed);
        START_NS.store(ns, Relaxed);
    }
}

/// Measures the rate of the counter, if it is usable. Waits until the measurement is precise
/// enough: at most [`MEASURED_NS_MIN`] after the start.
pub(crate) fn measure() {
    let start = START_NS.load(Relaxed);
    if start == 0 || NS_OF_TICK.load(Relaxed) != 0 {
        return;
    }
    while monotonic_ns().saturating_sub(start) < MEASURED_NS_MIN {
        std::hint::spin_loop();
    }
    if let Some(rate) = rate_now() {
        NS_OF_TICK.store(rate, Relaxed);
    }
}

/// Reads both clocks at once: the counter is read before and after the system's clock. Repeats that
/// if the thread was interrupted meanwhile, and returns the best of all attempts.
fn both_clocks() -> (u64, u64) {
    const ATTEMPTS_MAX: u32 = 20;
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..ATTEMPTS_MAX {
        let (before, ns, after) = (tsc(), monotonic_ns(), tsc());
        let distance = after.saturating_sub(before);
        if distance < best.0 {
            best = (distance, before + distance / 2, ns);
        }
        if distance < CLOSE_TICKS {
            break;
        }
    }
    (best.1, best.2)
}

/// Returns the rate of the counter since the start; `None` if the counter went back.
fn rate_now() -> Option<u64> {
    let (ticks, ns) = both_clocks();
    let ticks = ticks.checked_sub(START_TICKS.load(Relaxed)).filter(|ticks| *ticks > 0)?;
    let ns = ns.saturating_sub(START_NS.load(Relaxed));
    u64::try_from((u128::from(ns) << FRACTION) / u128::from(ticks)).ok().filter(|rate| *rate > 0)
}

impl StartTime {
    /// Returns the present time.
    #[inline(always)]
    pub(crate) fn now() -> StartTime {
        let ns_of_tick = NS_OF_TICK.load(Relaxed);
        let time = if ns_of_tick != 0 { tsc() } else { monotonic_ns() };
        StartTime { time, ns_of_tick }
    }

    /// Returns the nanoseconds since this time.
    #[inline(always)]
    pub(crate) fn elapsed_ns(self) -> u64 {
        if self.ns_of_tick == 0 {
            return monotonic_ns().saturating_sub(self.time);
        }
        // Counters of two processors may differ by a few ticks.
        let ticks = tsc().saturating_sub(self.time);
        if ticks < LONG_TICKS { scale(ticks, self.ns_of_tick) } else { self.long_ns(ticks) }
    }

    #[cold]
    #[inline(never)]
    fn long_ns(self, ticks: u64) -> u64 {
        let known = self.ns_of_tick;
        let is_plausible = |rate: &u64| rate.abs_diff(known) <= known / DEVIATION_DIVISOR;
        let rate = rate_now().filter(is_plausible).unwrap_or(known);
        NS_OF_TICK.store(rate, Relaxed);
        scale(ticks, rate)
    }
}

fn scale(ticks: u64, ns_of_tick: u64) -> u64 {
    ((u128::from(ticks) * u128::from(ns_of_tick)) >> FRACTION) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// Durations by the counter agree with those by the system's clock, from the first measurement
    /// on.
    #[test]
    fn durations_are_in_nanoseconds() {
        start();
        measure();
        for pause in [Duration::from_micros(50), Duration::from_millis(20)] {
            let (outer, start) = (Instant::now(), StartTime::now());
            let inner = Instant::now();
            std::thread::sleep(pause);
            let least = inner.elapsed().as_nanos() as u64;
            let found = start.elapsed_ns();
            let most = outer.elapsed().as_nanos() as u64;
            let slack = most / 500 + 200;
            assert!((least - slack..=most + slack).contains(&found), "{least} {found} {most}");
        }
    }
}

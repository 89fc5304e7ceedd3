//! Rates of the clocks that programs read, and their relation to the time of day.
//!
//! The frequency of the processor's counter cannot be queried. The agent measures it from its own
//! start to the first trace of each session; a longer measurement is more precise. At both ends,
//! all clocks are read within tens of nanoseconds of each other. The measurement starts anew if the
//! machine was suspended, or if the counter was reset or has jumped, as in a migration.
//!
//! As long as the agent runs and the measurement does not start anew, all traces of a session
//! describe a clock in the same way. Events of several programs therefore stay in order when the
//! time of day is set. A time of day that was wrong at a session's first trace is wrong in all its
//! traces.

use blkkin_control::Clock;
use blkkin_ctf::clock_offsets::tsc_uuid;
use blkkin_ctf::schema::Uuid;
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const SECOND: u64 = 1_000_000_000;
/// Minimum duration of a measurement. A trace that begins earlier waits until the measurement is
/// this long. The error of the frequency is then some parts in a million, and less for later
/// traces.
const SHORTEST: Duration = Duration::from_millis(20);

/// Number of readings of which the shortest gives the origin of the monotonic clock.
const ORIGIN_READINGS: usize = 20;

/// Frequency and offset of a clock, as in a trace's metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    /// Ticks per second.
    pub(crate) frequency: u64,
    /// Time in nanoseconds since 1970 at which the clock showed 0.
    pub(crate) offset_ns: u128,
}

impl Rate {
    /// Returns the duration of a number of the clock's ticks.
    pub(crate) fn duration(self, ticks: u64) -> Duration {
        let ns = u128::from(ticks) * u128::from(SECOND) / u128::from(self.frequency.max(1));
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Returns the number of the clock's ticks in a duration.
    pub(crate) fn ticks(self, duration: Duration) -> u64 {
        let ticks = duration.as_nanos().saturating_mul(self.frequency.into()) / u128::from(SECOND);
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }

    /// Returns the rate of a clock that is ahead of this one by `ahead_ns`.
    pub(crate) fn ahead(self, ahead_ns: i64) -> Rate {
        let ns = u128::from(ahead_ns.unsigned_abs());
        let offset_ns = match ahead_ns > 0 {
            true => self.offset_ns.saturating_sub(ns),
            false => self.offset_ns.saturating_add(ns),
        };
        Rate { offset_ns, ..self }
    }
}

/// Rates that all traces of a session share. Later measurements do not change a valid rate, so
/// events of several programs stay in order even when the time of day is set.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rates {
    /// Rate of the processor's counter, with the value of [`Clocks::restarts`] at its measurement.
    /// The rate is valid until that value changes.
    tsc: Option<(u64, Rate)>,
    /// Rate of the monotonic clock, with the machine's suspended time at its measurement, in
    /// nanoseconds. The rate is valid until the suspended time changes.
    monotonic: Option<(u64, Rate)>,
}

/// Values of the clocks that programs may read, at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) tsc: u64,
    pub(crate) monotonic_ns: u64,
}

impl Reading {
    pub(crate) fn now() -> Reading {
        Reading { tsc: blkkin_sys::tsc(), monotonic_ns: blkkin_sys::monotonic_ns() }
    }

    /// Returns the earlier value of each clock.
    pub(crate) fn earlier(self, other: Reading) -> Reading {
        Reading {
            tsc: self.tsc.min(other.tsc),
            monotonic_ns: self.monotonic_ns.min(other.monotonic_ns),
        }
    }
}

impl Rates {
    /// Returns the time that a clock shows in the traces of the session, in nanoseconds since 1970;
    /// `None` if no trace has this clock.
    pub(crate) fn time_ns(&self, clock: Clock, shown: u64) -> Option<u64> {
        let rate = match clock {
            Clock::Tsc => self.tsc,
            Clock::Monotonic => self.monotonic,
        };
        let (_, rate) = rate?;
        u64::try_from(rate.offset_ns + rate.duration(shown).as_nanos()).ok()
    }

    /// Returns the earliest of the times that the clocks of the session's traces show; `None` if
    /// the session has no traces.
    pub(crate) fn earliest_ns(&self, now: Reading) -> Option<u64> {
        let tsc = self.time_ns(Clock::Tsc, now.tsc);
        let monotonic = self.time_ns(Clock::Monotonic, now.monotonic_ns);
        tsc.into_iter().chain(monotonic).min()
    }
}

/// Measurement of the frequency of the processor's counter, since the agent's start or the last
/// restart of the measurement.
#[derive(Debug)]
pub(crate) struct Clocks {
    /// Values of the clocks at the start of the measurement.
    start: Moment,
    /// Last measured frequency, in ticks per second; `None` before the first result.
    frequency: Option<u64>,
    /// Number of restarts of the measurement: after a suspension of the machine, after a reset or a
    /// jump of the counter, and after a failed attempt to measure.
    restarts: u64,
}

/// Values of all clocks at one moment.
#[derive(Clone, Copy, Debug)]
struct Moment {
    tsc: u64,
    monotonic_ns: u64,
    /// Total time that the machine was suspended, in nanoseconds. The monotonic clock does not
    /// count that time.
    suspended_ns: u64,
    since_1970_ns: u128,
}

/// Divisor for the largest plausible deviation: an eighth of the last measured frequency. A larger
/// deviation means that the counter has jumped, because the kernel's clock discipline changes the
/// clocks' speed by about a tenth at most.
const DIFFERENT_PART: u64 = 8;

/// Tolerance when two suspended times are compared, in nanoseconds. A suspended time is the
/// difference of two clocks that are not read at the same moment.
const SUSPENDED_NS: u64 = 1_000_000;

/// Lowest plausible frequency of the processor's counter, in ticks per second.
const FREQUENCY_MIN: u64 = 1_000_000;

/// Maximum number of attempts to measure the frequency. An attempt fails if the counter went back
/// or is slower than [`FREQUENCY_MIN`].
const TRIES: usize = 3;

impl Clocks {
    pub(crate) fn new() -> Clocks {
        Clocks { start: Moment::now(), frequency: None, restarts: 0 }
    }

    /// Returns the rate of `clock` for a session: the rate in `rates` while that is valid.
    /// Otherwise measures the rate, and stores it in `rates`.
    pub(crate) fn rate(&mut self, rates: &mut Rates, clock: Clock) -> Rate {
        let mut look = |after: Duration| {
            if !after.is_zero() {
                sleep(after);
            }
            Moment::now()
        };
        match clock {
            Clock::Tsc => self.tsc_rate(rates, &mut look),
            Clock::Monotonic => {
                let now = look(Duration::ZERO);
                if let Some((suspended_ns, rate)) = rates.monotonic
                    && now.suspended_ns.abs_diff(suspended_ns) <= SUSPENDED_NS
                {
                    return rate;
                }
                let offset_ns = now.since_1970_ns.saturating_sub(u128::from(now.monotonic_ns));
                let rate = Rate { frequency: SECOND, offset_ns };
                rates.monotonic = Some((now.suspended_ns, rate));
                rate
            }
        }
    }

    /// Returns the rate of the processor's counter for a session. If all attempts to measure the
    /// frequency fail, uses the last measured one, or else 1 GHz. `look` waits for the given time,
    /// and then reads the clocks.
    fn tsc_rate(&mut self, rates: &mut Rates, look: &mut dyn FnMut(Duration) -> Moment) -> Rate {
        let mut now = look(Duration::ZERO);
        if !self.has_continued(&now) {
            self.begin_at(now);
        }
        if let Some((begun, rate)) = rates.tsc
            && begun == self.restarts
        {
            return rate;
        }
        for _ in 0..TRIES {
            let passed = now.since(&self.start);
            if passed < SHORTEST {
                now = look(SHORTEST - passed);
            }
            if let Some(frequency) = now.frequency_since(&self.start) {
                self.frequency = Some(frequency);
                break;
            }
            self.begin_at(now);
        }
        let frequency = self.frequency.unwrap_or(SECOND);
        let shown_ns = u128::from(now.tsc) * u128::from(SECOND) / u128::from(frequency);
        let rate = Rate { frequency, offset_ns: now.since_1970_ns.saturating_sub(shown_ns) };
        rates.tsc = Some((self.restarts, rate));
        rate
    }

    /// Returns false if the machine was suspended, or if the counter was reset or has jumped, since
    /// the start of the measurement. A jump forward is detected only if the frequency is known and
    /// the measurement is at least as long as [`SHORTEST`].
    fn has_continued(&self, now: &Moment) -> bool {
        if now.tsc < self.start.tsc
            || now.suspended_ns.abs_diff(self.start.suspended_ns) > SUSPENDED_NS
        {
            return false;
        }
        match self.frequency {
            Some(known) if now.since(&self.start) >= SHORTEST => {
                let is_same = |new: u64| new.abs_diff(known) <= known / DIFFERENT_PART;
                now.frequency_since(&self.start).is_some_and(is_same)
            }
            _ => true,
        }
    }

    fn begin_at(&mut self, now: Moment) {
        self.start = now;
        self.restarts += 1;
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
            let since_1970_ns = since_1970.as_nanos();
            (took, Moment { tsc, monotonic_ns, suspended_ns: 0, since_1970_ns })
        };
        let first = once();
        let (_, best) = (1..64)
            .map(|_| once())
            .fold(first, |best, one| if one.0 < best.0 { one } else { best });
        Moment { suspended_ns: suspended_ns(), ..best }
    }

    fn since(&self, start: &Moment) -> Duration {
        Duration::from_nanos(self.monotonic_ns.saturating_sub(start.monotonic_ns))
    }

    /// Returns the counter's frequency since `start`; `None` if the counter went back or is slower
    /// than [`FREQUENCY_MIN`].
    fn frequency_since(&self, start: &Moment) -> Option<u64> {
        let ticks = u128::from(self.tsc.checked_sub(start.tsc)?) * u128::from(SECOND);
        let passed = u128::from(self.monotonic_ns.checked_sub(start.monotonic_ns)?).max(1);
        let frequency = u64::try_from((ticks + passed / 2) / passed).ok()?;
        (frequency >= FREQUENCY_MIN).then_some(frequency)
    }
}

/// Returns the UUID of a clock of this machine and boot, by which offsets that were measured are
/// found; `None` if the system does not tell the boot.
pub(crate) fn clock_uuid(clock: Clock) -> Option<Uuid> {
    static BOOT: OnceLock<Option<Uuid>> = OnceLock::new();
    let boot = *BOOT.get_or_init(|| blkkin_sys::boot_id()?.parse().ok());
    match clock {
        Clock::Tsc => boot.map(tsc_uuid),
        Clock::Monotonic => boot,
    }
}

/// Returns the total time that the machine was suspended, in nanoseconds. Uses the least of several
/// readings, as other programs may run between the reads of the two clocks.
fn suspended_ns() -> u64 {
    let once = || {
        let monotonic_ns = blkkin_sys::monotonic_ns();
        blkkin_sys::boottime_ns().saturating_sub(monotonic_ns)
    };
    (0..8).map(|_| once()).min().unwrap_or(0)
}

/// Returns the time of the monotonic clock's zero, in nanoseconds since 1970. Of several readings,
/// the one that took the shortest time is used.
pub(crate) fn monotonic_origin_ns() -> u64 {
    let read = || {
        let before = blkkin_sys::monotonic_ns();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let after = blkkin_sys::monotonic_ns();
        let middle = before + (after - before) / 2;
        (after - before, (now.as_nanos() as u64).saturating_sub(middle))
    };
    (0..ORIGIN_READINGS).map(|_| read()).min().map_or(0, |(_, origin)| origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the time at which a clock has the value `shown`, in nanoseconds since 1970.
    fn time(rate: Rate, shown: u64) -> u128 {
        rate.offset_ns + u128::from(shown) * u128::from(SECOND) / u128::from(rate.frequency)
    }

    #[test]
    fn clocks_show_the_time_of_day() {
        let mut clocks = Clocks::new();
        for clock in [Clock::Tsc, Clock::Monotonic] {
            if clock == Clock::Tsc && !blkkin_sys::tsc_is_steady() {
                continue;
            }
            let rate = clocks.rate(&mut Rates::default(), clock);
            let now = Moment::now();
            let shown = if clock == Clock::Tsc { now.tsc } else { now.monotonic_ns };
            let difference = time(rate, shown).abs_diff(now.since_1970_ns);
            // A busy machine may delay the second reading, so the tolerance is a second. A wrong
            // unit would cause a larger difference.
            assert!(difference < u128::from(SECOND), "{clock:?} is {difference} ns off");
        }
        assert_eq!(clocks.restarts, 0, "nothing has jumped");
    }

    const FREQUENCY: u64 = 2_600_000_000;
    const DAY: Duration = Duration::from_secs(86400);
    const NOON_NS: u128 = 1_795_000_000_000_000_000;

    /// Simulated machine, whose clocks the test sets.
    struct Machine {
        clocks: Clocks,
        now: Moment,
        /// Frequency of the counter in ticks per second.
        ticks: u64,
    }

    impl Machine {
        fn new(tsc: u64) -> Machine {
            let now = Moment { tsc, monotonic_ns: SECOND, suspended_ns: 0, since_1970_ns: NOON_NS };
            let clocks = Clocks { start: now, frequency: None, restarts: 0 };
            Machine { clocks, now, ticks: FREQUENCY }
        }

        fn run(&mut self, time: Duration) {
            let ns = time.as_nanos();
            let ticks = ns * u128::from(self.ticks) / u128::from(SECOND);
            self.now.tsc = self.now.tsc.wrapping_add(ticks as u64);
            self.now.monotonic_ns += ns as u64;
            self.now.since_1970_ns += ns;
        }

        fn rate(&mut self, rates: &mut Rates) -> Rate {
            let mut clocks = std::mem::replace(&mut self.clocks, Clocks::new());
            let rate = clocks.tsc_rate(rates, &mut |after| {
                self.run(after);
                self.now
            });
            self.clocks = clocks;
            rate
        }

        /// Asserts that the rate of a new session has the right frequency, and that the time
        /// computed from the rate is right.
        #[track_caller]
        fn check(&mut self) {
            let rate = self.rate(&mut Rates::default());
            assert!(rate.frequency.abs_diff(self.ticks) < 1000, "{rate:?} of {}", self.ticks);
            let off = time(rate, self.now.tsc).abs_diff(self.now.since_1970_ns);
            assert!(off < 1000, "{off} ns off: {rate:?}");
        }
    }

    #[test]
    fn a_counter_that_begins_anew_or_jumps_is_measured_anew() {
        let begins = |tsc: u64, before: Duration, measured: bool, jump: &dyn Fn(&mut Machine)| {
            let mut machine = Machine::new(tsc);
            if measured {
                machine.check();
            }
            machine.run(before);
            if measured {
                machine.check();
            }
            jump(&mut machine);
            machine.check();
            machine.run(DAY);
            machine.check();
        };
        for before in [Duration::ZERO, Duration::from_millis(5), DAY, DAY * 300] {
            for measured in [false, true] {
                // Suspension that resets the counter.
                begins(1 << 50, before, measured, &|machine| {
                    machine.now.tsc = 1000;
                    machine.now.suspended_ns += 3600 * SECOND;
                    machine.now.since_1970_ns += 3600 * u128::from(SECOND);
                });
                // Reset of the counter that no other clock shows.
                begins(1 << 50, before, measured, &|machine| machine.now.tsc = 0);
                // Suspension of 600 s during which the counter continues and the monotonic clock
                // stands.
                begins(1 << 50, before, measured, &|machine| {
                    machine.now.suspended_ns += 600 * SECOND;
                    machine.now.since_1970_ns += 600 * u128::from(SECOND);
                    machine.now.tsc += 600 * FREQUENCY;
                });
            }
            // Migration to another machine.
            begins(1 << 50, before.max(SHORTEST), true, &|machine| {
                machine.now.tsc += 1 << 59;
                machine.ticks = 1_000_000_000;
            });
            // Overflow of the counter.
            begins(u64::MAX - FREQUENCY / 100, before.min(DAY), true, &|_| {});
        }
    }

    #[test]
    fn a_counter_that_stands_keeps_its_last_frequency() {
        let mut machine = Machine::new(0);
        machine.run(DAY);
        machine.check();
        machine.ticks = 0;
        machine.now.suspended_ns += SECOND;
        assert_eq!(machine.rate(&mut Rates::default()).frequency.abs_diff(FREQUENCY), 0);
        let mut machine = Machine { ticks: 0, ..Machine::new(0) };
        assert_eq!(machine.rate(&mut Rates::default()).frequency, SECOND);
    }

    #[test]
    fn a_session_has_one_rate_whatever_the_time_of_day_does() {
        const YEAR_NS: u128 = 365 * 86400 * SECOND as u128;
        let mut machine = Machine::new(5);
        let mut rates = Rates::default();
        let first = machine.rate(&mut rates);
        for jump in [0, YEAR_NS] {
            machine.run(DAY);
            machine.now.since_1970_ns = NOON_NS + jump;
            assert_eq!(machine.rate(&mut rates), first, "its programs' events stay in order");
            machine.check();
        }
        // Values of a counter before a reset say nothing about its present value.
        machine.now.tsc = 7;
        assert_ne!(machine.rate(&mut rates), first);
        machine.check();
        // A time of day before the counter's start gives the offset 0, not a negative one.
        machine.now.since_1970_ns = 0;
        assert_eq!(machine.rate(&mut Rates::default()).offset_ns, 0);

        let (mut clocks, mut rates) = (Clocks::new(), Rates::default());
        let monotonic = clocks.rate(&mut rates, Clock::Monotonic);
        assert_eq!(clocks.rate(&mut rates, Clock::Monotonic), monotonic);
        assert!(rates.tsc.is_none());
        // The clock of another time namespace shows another value at the same moment.
        for ahead_ns in [0, 5, -5, i64::MAX / 2] {
            let other = monotonic.ahead(ahead_ns);
            let (here, there) = (SECOND << 33, (SECOND << 33).saturating_add_signed(ahead_ns));
            let expected = time(monotonic, here).max(u128::from(there));
            assert_eq!(time(other, there), expected, "{ahead_ns}");
        }
    }
}

//! Polling interval: the time between drains of a program's rings.
//!
//! A program that seldom records an event wakes the agent, which writes the event at once. While
//! further events follow, the agent polls, so that no event costs a system call. The interval is
//! short at first: if a single program records a thousand events a second, each event is written
//! within a fraction of a millisecond. While each drain finds packets, the interval grows, so that
//! packets hold more than a few events. Rings that fill up shorten the interval. If they fill up
//! suddenly, the program wakes the agent.
//!
//! A program whose events are further apart wakes the agent for each of them. The agent then does
//! not poll after a drain, which saves a second wake-up.
//!
//! A program may record events just so far apart that the drains in between find none. Such a
//! program would wake the agent for each event, thousands of times a second. If a program wakes the
//! agent that often, the interval grows. Events may therefore wait as long as the longest interval
//! if a program records more than a thousand events a second, or if several programs record fewer
//! events each.

use std::time::{Duration, Instant};

const SHORTEST: Duration = Duration::from_micros(150);
const LONGEST: Duration = Duration::from_millis(10);
/// Minimum polling interval at which a program wakes the agent when a ring fills up.
pub(crate) const DOZE: Duration = Duration::from_millis(2);
/// Non-empty drains in a row before the interval grows.
const PATIENCE: u32 = 8;
/// Time between wake-ups below which polling is cheaper. The time is multiplied by the number of
/// programs that record, up to half of [`LONGEST`], so that up to seven programs together wake the
/// agent no more often than one program.
const WAKE_UP_GAP_MIN: Duration = Duration::from_micros(700);
/// Time without events after which the history of a program is ignored.
const IDLE_TIME: Duration = Duration::from_millis(10);
/// Fill level above which the interval shrinks, in parts of 256.
const HIGH_FILL: u64 = 64;
/// Fill level below which the interval may grow, in parts of 256.
const LOW_FILL: u64 = 32;

/// Polling interval of a program, and the history that determines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    interval: Duration,
    /// Number of non-empty drains since the agent last stopped polling. `found_before` is the
    /// number in the polling period before that.
    found: u32,
    found_before: u32,
    /// Start of the first drain after the last wake-up. `last_empty_drain` is the time of the last
    /// empty drain.
    last_wake_up: Option<Instant>,
    last_empty_drain: Option<Instant>,
}

/// Returns the time between wake-ups below which polling is cheaper, if `programs` record.
fn wake_up_gap_min(programs: u32) -> Duration {
    (WAKE_UP_GAP_MIN * programs).min(LONGEST / 2)
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            interval: SHORTEST,
            found: 0,
            found_before: 0,
            last_wake_up: None,
            last_empty_drain: None,
        }
    }
}

impl Pace {
    /// Returns the time until the next drain, after a drain that found packets. `fullest` is the
    /// fill level of the fullest ring, `programs` the number of programs that record now.
    pub(crate) fn after(&mut self, now: Instant, fullest: u64, programs: u32) -> Duration {
        if self.found == 0 {
            let since = |then: Option<Instant>| {
                then.map_or(IDLE_TIME, |then| now.saturating_duration_since(then))
            };
            // Drains that are further apart find packets less often.
            let too_soon = wake_up_gap_min(programs);
            let often = too_soon.max(self.interval * 3 / 2) * self.found_before;
            self.interval = if since(self.last_empty_drain) >= IDLE_TIME {
                SHORTEST
            } else if since(self.last_wake_up) < often {
                (self.interval * 2).min(LONGEST)
            } else {
                (self.interval / 2).max(SHORTEST)
            };
            self.last_wake_up = Some(now);
        }
        self.found = self.found.saturating_add(1);
        if fullest > HIGH_FILL {
            self.interval = (self.interval / 2).max(SHORTEST);
        } else if fullest < LOW_FILL && self.found > PATIENCE {
            self.interval = (self.interval * 2).min(LONGEST);
        }
        self.interval
    }

    /// Returns whether the agent should not poll after the first drain of a wake-up: the program
    /// has last woken it for a single drain, and some time ago.
    pub(crate) fn is_sparse(&self, now: Instant, programs: u32) -> bool {
        let gap = self.last_wake_up.map(|last| now.saturating_duration_since(last));
        let is_long_ago = gap.is_some_and(|gap| gap >= wake_up_gap_min(programs));
        self.found == 0 && self.found_before == 1 && is_long_ago
    }

    /// Returns whether the program has recorded events lately.
    pub(crate) fn is_busy(&self, now: Instant) -> bool {
        let is_recent = |then: Instant| now.saturating_duration_since(then) < IDLE_TIME;
        self.found > 0 || self.last_empty_drain.is_some_and(is_recent)
    }

    /// Handles an empty drain. From now on the agent does not poll, and the next event of the
    /// program wakes it.
    pub(crate) fn begin_idle(&mut self, now: Instant) {
        self.found_before = std::mem::take(&mut self.found);
        self.last_empty_drain = Some(now);
    }
}

/// Rate limit for wake-ups. A well-behaved program wakes the agent once per drain. A program that
/// wakes the agent more often is muted until the next drain, so that it cannot keep the agent busy.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WakeUpLimiter {
    last: Option<Instant>,
    is_muted: bool,
    /// Set when the eventfd is unmuted, until its next report. That report may be spurious: the
    /// kernel reports an unmuted eventfd even without a write to it.
    was_muted: bool,
}

impl WakeUpLimiter {
    /// Handles a wake-up, and decides whether to mute the program until the next drain. Returns the
    /// time of that drain.
    pub(crate) fn wake_up(&mut self, now: Instant) -> Instant {
        let is_soon = self.last.is_some_and(|last| now < last + SHORTEST);
        let was_muted = std::mem::take(&mut self.was_muted);
        self.is_muted = is_soon && !was_muted;
        self.last = Some(now);
        if self.is_muted { now + SHORTEST } else { now }
    }

    pub(crate) fn is_muted(&self) -> bool {
        self.is_muted
    }

    /// Handles a drain. Returns true if the program was muted, and must be unmuted.
    pub(crate) fn drain(&mut self) -> bool {
        self.was_muted |= self.is_muted;
        std::mem::take(&mut self.is_muted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_wakes_again_at_once_is_not_heard() {
        let mut hearing = WakeUpLimiter::default();
        let start = Instant::now();
        let at = |microseconds| start + Duration::from_micros(microseconds);
        for begin in [0, 1000] {
            // The first wake-up has the rings drained at once.
            assert_eq!((hearing.wake_up(at(begin)), hearing.is_muted()), (at(begin), false));
            assert!(!hearing.drain());
            let next = at(begin + 10) + SHORTEST;
            assert_eq!((hearing.wake_up(at(begin + 10)), hearing.is_muted()), (next, true));
            assert!(hearing.drain());
            // The eventfd was unmuted, which is reported once; the next wake-up is the program's.
            assert_eq!(
                (hearing.wake_up(at(begin + 161)), hearing.is_muted()),
                (at(begin + 161), false)
            );
            assert!(!hearing.drain());
            hearing.wake_up(at(begin + 162));
            assert!(hearing.is_muted());
            assert!(hearing.drain());
            hearing.wake_up(at(begin + 320));
            assert!(!hearing.drain());
        }
    }

    #[test]
    fn looks_become_rarer_and_come_back() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        assert_eq!(pace.after(now, 0, 1), SHORTEST);
        for _ in 0..20 {
            pace.after(now, 1, 1);
        }
        assert_eq!(pace.after(now, 1, 1), LONGEST);
        for _ in 0..10 {
            pace.after(now, 200, 1);
        }
        assert_eq!(pace.after(now, 40, 1), SHORTEST);
        for _ in 0..20 {
            pace.after(now, 1, 1);
        }
        pace.begin_idle(now);
        assert_eq!(pace.after(now + IDLE_TIME, 1, 1), SHORTEST);
    }

    #[test]
    fn sparse_events_are_not_polled_for() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        let mut wake = |microseconds: u64, drains: u32| {
            let now = start + Duration::from_micros(microseconds);
            let is_sparse = pace.is_sparse(now, 1);
            for _ in 0..drains {
                pace.after(now, 1, 1);
            }
            pace.begin_idle(now);
            is_sparse
        };
        // Nothing is known before the first wake-up.
        assert!(!wake(0, 1));
        assert!(wake(1000, 1));
        assert!(wake(2000, 1));
        assert!(!wake(2300, 2));
        // The last wake-up was for a burst.
        assert!(!wake(50_000, 1));
        assert!(wake(51_000, 1));
    }

    /// Simulates a program for one second, and returns the number of wake-ups. `apart` returns the
    /// time to the next event; `late` is the maximum delay of a drain.
    fn wakes(mut apart: impl FnMut(f64) -> Duration, late: Duration, programs: u32) -> u32 {
        let mut random = 1u64;
        let mut share = || {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((random >> 33) + 1) as f64 / (1u64 << 31) as f64
        };
        let (mut pace, start) = (Pace::default(), Instant::now());
        let (mut now, mut event, mut wakes) = (start, start, 0);
        let end = start + Duration::from_secs(1);
        while event < end {
            now = now.max(event);
            wakes += 1;
            while event <= now && event < end {
                while event <= now {
                    event += apart(share());
                }
                now += pace.after(now, 1, programs) + late.mul_f64(share());
            }
            pace.begin_idle(now);
        }
        wakes
    }

    #[test]
    fn events_that_are_just_too_far_apart_do_not_wake_it_each() {
        for late in [0, 20, 200].map(Duration::from_micros) {
            for microseconds in [100, 160, 240, 450, 650] {
                let wakes = wakes(|_| Duration::from_micros(microseconds), late, 1);
                assert!(wakes < 20, "{microseconds}, {late:?}: {wakes}");
            }
            // Exponentially distributed intervals between events.
            let by_chance = |share: f64| Duration::from_micros((-share.ln() * 500.0) as u64 + 1);
            let wakes_by_chance = wakes(by_chance, late, 1);
            assert!(wakes_by_chance < 200, "{late:?}: {wakes_by_chance}");
            // Polling would cost more than wake-ups: each event wakes the agent, and is written at
            // once.
            for microseconds in [1000, 5000, 100_000] {
                let wakes = wakes(|_| Duration::from_micros(microseconds), late, 1);
                assert_eq!(wakes, 1_000_000 / microseconds as u32, "{microseconds}, {late:?}");
            }
            // Many programs would cause too many wake-ups.
            let wakes = wakes(|_| Duration::from_micros(1500), late, 5);
            assert!(wakes < 20, "{late:?}: {wakes}");
        }
    }
}

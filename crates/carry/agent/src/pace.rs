//! How often a program's rings are looked at while events come.
//!
//! A program that records seldom wakes the daemon, and its event is written at once. While more comes, the
//! daemon looks by itself, so that no event costs a system call: at first soon, so that even at a thousand
//! events a second each is written within a fraction of a millisecond; then, as long as it finds something
//! each time, less and less often, so that packets hold more than a few events. Rings that fill up bring it
//! back sooner, and where that is sudden, the program wakes it.
//!
//! A program whose events are just so far apart that looks in between find none would wake it for each of
//! them, thousands of times a second: while there is something that often, it looks later. So of programs
//! that have more than a thousand events a second, each may wait as long as the longest pause.

use std::time::{Duration, Instant};

const SHORTEST: Duration = Duration::from_micros(150);
const LONGEST: Duration = Duration::from_millis(10);
/// Whoever looks this seldom has himself be woken when a ring fills up.
pub(crate) const DOZE: Duration = Duration::from_millis(2);
/// So often something is found before looks become rarer.
const PATIENCE: u32 = 8;
/// A program that has something so often is better looked at than waited for. Of several programs that record at a
/// time, each may wake the daemon less often: as often as one alone in all.
const TOO_SOON: Duration = Duration::from_micros(700);
/// After so long a sleep, nothing of what was before counts any more.
const LONG_AGO: Duration = Duration::from_millis(10);
/// A ring is to be no fuller than that, in parts of 256, …
const FULL: u64 = 64;
/// … and worth a packet at that.
const WORTH: u64 = 32;

/// The time between looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    interval: Duration,
    /// How often something was found since the program woke the daemon, and from that time to the one before.
    found: u32,
    found_before: u32,
    /// When it did, and when nothing was found last.
    woken: Option<Instant>,
    rested: Option<Instant>,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { interval: SHORTEST, found: 0, found_before: 0, woken: None, rested: None }
    }
}

impl Pace {
    /// How long until the next look, after one that found something.
    /// So many programs record at this time.
    pub(crate) fn after(&mut self, now: Instant, fullest: u64, programs: u32) -> Duration {
        if self.found == 0 {
            let since = |then: Option<Instant>| {
                then.map_or(LONG_AGO, |then| now.saturating_duration_since(then))
            };
            // Looks that are further apart find something less often.
            let too_soon = (TOO_SOON * programs).min(LONGEST / 2);
            let often = too_soon.max(self.interval * 3 / 2) * self.found_before;
            self.interval = if since(self.rested) >= LONG_AGO {
                SHORTEST
            } else if since(self.woken) < often {
                (self.interval * 2).min(LONGEST)
            } else {
                (self.interval / 2).max(SHORTEST)
            };
            self.woken = Some(now);
        }
        self.found = self.found.saturating_add(1);
        if fullest > FULL {
            self.interval = (self.interval / 2).max(SHORTEST);
        } else if fullest < WORTH && self.found > PATIENCE {
            self.interval = (self.interval * 2).min(LONGEST);
        }
        self.interval
    }

    /// Whether the program has recorded something lately.
    pub(crate) fn is_busy(&self, now: Instant) -> bool {
        let is_recent = |then: Instant| now.saturating_duration_since(then) < LONG_AGO;
        self.found > 0 || self.rested.is_some_and(is_recent)
    }

    /// Nothing was found; the program wakes the daemon from now on.
    pub(crate) fn rest(&mut self, now: Instant) {
        self.found_before = std::mem::take(&mut self.found);
        self.rested = Some(now);
    }
}

/// Whether a program is heard when it wakes the daemon. One that keeps to the rules does so once until its
/// rings have been looked at. Another one could do nothing else, and have the daemon do nothing else: it is
/// not heard until the next look.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hearing {
    last: Option<Instant>,
    is_deaf: bool,
    /// To listen again is to be woken, whether anything has happened or not.
    is_anew: bool,
}

impl Hearing {
    /// It was woken; gives when to look at the rings, and notes whether not to listen until then.
    pub(crate) fn woken(&mut self, now: Instant) -> Instant {
        let is_soon = self.last.is_some_and(|last| now < last + SHORTEST);
        let is_anew = std::mem::take(&mut self.is_anew);
        self.is_deaf = is_soon && !is_anew;
        self.last = Some(now);
        if self.is_deaf { now + SHORTEST } else { now }
    }

    pub(crate) fn is_deaf(&self) -> bool {
        self.is_deaf
    }

    /// The rings are looked at; whether it is to listen again.
    pub(crate) fn looked(&mut self) -> bool {
        self.is_anew |= self.is_deaf;
        std::mem::take(&mut self.is_deaf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_wakes_again_at_once_is_not_heard() {
        let mut hearing = Hearing::default();
        let start = Instant::now();
        let at = |microseconds| start + Duration::from_micros(microseconds);
        for begin in [0, 1000] {
            // As soon as may be.
            assert_eq!((hearing.woken(at(begin)), hearing.is_deaf()), (at(begin), false));
            assert!(!hearing.looked());
            let next = at(begin + 10) + SHORTEST;
            assert_eq!((hearing.woken(at(begin + 10)), hearing.is_deaf()), (next, true));
            assert!(hearing.looked());
            // That is from listening again; and the next one is the program.
            assert_eq!(
                (hearing.woken(at(begin + 161)), hearing.is_deaf()),
                (at(begin + 161), false)
            );
            assert!(!hearing.looked());
            hearing.woken(at(begin + 162));
            assert!(hearing.is_deaf());
            assert!(hearing.looked());
            hearing.woken(at(begin + 320));
            assert!(!hearing.looked());
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
        pace.rest(now);
        assert_eq!(pace.after(now + LONG_AGO, 1, 1), SHORTEST);
    }

    /// How often a program wakes the daemon in a second in which its events come so far apart, and looks are up to so
    /// much too late.
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
            pace.rest(now);
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
            // As they come by chance.
            let by_chance = |share: f64| Duration::from_micros((-share.ln() * 500.0) as u64 + 1);
            let wakes_by_chance = wakes(by_chance, late, 1);
            assert!(wakes_by_chance < 200, "{late:?}: {wakes_by_chance}");
            // To look again and again would not be worth it; and each is written at once.
            for microseconds in [1000, 5000, 100_000] {
                let wakes = wakes(|_| Duration::from_micros(microseconds), late, 1);
                assert_eq!(wakes, 1_000_000 / microseconds as u32, "{microseconds}, {late:?}");
            }
            // Of many programs that would be too much.
            let wakes = wakes(|_| Duration::from_micros(1500), late, 5);
            assert!(wakes < 20, "{late:?}: {wakes}");
        }
    }
}

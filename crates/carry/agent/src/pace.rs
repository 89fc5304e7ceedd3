//! How often a program's rings are looked at while events come.
//!
//! A program that records seldom wakes the daemon, and its event is written at once. While more comes, the
//! daemon looks by itself, so that no event costs a system call: at first soon, so that even at a thousand
//! events a second each is written within a fraction of a millisecond; then, as long as it finds something
//! each time, less and less often, so that packets hold more than a few events. Rings that fill up bring it
//! back sooner.

use std::time::{Duration, Instant};

const SHORTEST: Duration = Duration::from_micros(150);
const LONGEST: Duration = Duration::from_millis(4);
/// So often something is found before looks become rarer.
const PATIENCE: u32 = 8;
/// A ring is to be no fuller than that, in parts of 256, …
const FULL: u64 = 64;
/// … and worth a packet at that.
const WORTH: u64 = 8;

/// The time between looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    interval: Duration,
    found: u32,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { interval: SHORTEST, found: 0 }
    }
}

impl Pace {
    /// How long until the next look, after one that found something.
    pub(crate) fn after(&mut self, fullest: u64) -> Duration {
        self.found = self.found.saturating_add(1);
        if fullest > FULL {
            self.interval = (self.interval / 2).max(SHORTEST);
        } else if fullest < WORTH && self.found > PATIENCE {
            self.interval = (self.interval * 2).min(LONGEST);
        }
        self.interval
    }

    /// Nothing was found.
    pub(crate) fn rest(&mut self) {
        *self = Pace::default();
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
        let mut pace = Pace::default();
        assert_eq!(pace.after(0), SHORTEST);
        for _ in 0..20 {
            pace.after(1);
        }
        assert_eq!(pace.after(1), LONGEST);
        for _ in 0..10 {
            pace.after(200);
        }
        assert_eq!(pace.after(20), SHORTEST);
        pace.rest();
        assert_eq!(pace, Pace::default());
    }
}

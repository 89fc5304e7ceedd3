//! How often a program's rings are looked at while events come.
//!
//! A program that records seldom wakes the daemon, and its event is written at once. While more comes, the
//! daemon looks by itself, so that no event costs a system call: at first soon, so that even at a thousand
//! events a second each is written within a fraction of a millisecond; then, as long as it finds something
//! each time, less and less often, so that packets hold more than a few events. Rings that fill up bring it
//! back sooner.

use std::time::Duration;

const SHORTEST: Duration = Duration::from_micros(150);
const LONGEST: Duration = Duration::from_millis(2);
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

#[cfg(test)]
mod tests {
    use super::*;

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

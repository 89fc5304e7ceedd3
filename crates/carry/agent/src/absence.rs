//! Absence of a program: the time from the end of its connection until the program reconnects or
//! the agent stops waiting for it.

use crate::process::may_run;
use std::time::{Duration, Instant};

/// Deadlines for a program that has disconnected and may reconnect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Absence {
    since: Instant,
    until: Instant,
    /// Time of the next check whether the process still runs.
    check: Instant,
    /// Time between the last check and `check`; grows from [`FIRST_PAUSE`] to [`LAST_PAUSE`].
    pause: Duration,
}

/// Maximum absence of a program whose rings are all sealed. The traces stay open meanwhile, because
/// the confined agent cannot reopen them: see `confine`.
const ABSENCE_MAX: Duration = Duration::from_secs(8);
/// Maximum absence of a program with unsealed rings. A program that has not reconnected by then has
/// unmapped its rings.
const UNSEALED_ABSENCE_MAX: Duration = Duration::from_secs(65);
/// First pause between checks whether the process still runs. It is short, because a connection
/// often ends a moment before its process does.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LAST_PAUSE: Duration = Duration::from_secs(1);

impl Absence {
    /// Begins an absence. `has_unsealed` selects the longer deadline, because the program may still
    /// map unsealed rings whose descriptors it has received. The agent does not read these rings
    /// meanwhile.
    pub(crate) fn begin(since: Instant, has_unsealed: bool) -> Absence {
        let until = since + if has_unsealed { UNSEALED_ABSENCE_MAX } else { ABSENCE_MAX };
        Absence { since, until, check: since + FIRST_PAUSE, pause: FIRST_PAUSE }
    }

    /// Returns the time of the next deadline or check.
    pub(crate) fn next(&self) -> Instant {
        self.check.min(self.until)
    }

    /// Returns true if the deadline has passed, or if a check is due and process `pid` has ended.
    /// If a check is due and the process may still run, schedules the next check.
    pub(crate) fn is_over(&mut self, pid: u32, now: Instant) -> bool {
        if self.until <= now || (self.check <= now && !may_run(pid)) {
            return true;
        }
        if self.check <= now {
            self.pause = (self.pause * 4).min(LAST_PAUSE);
            self.check = now + self.pause;
        }
        false
    }

    /// Returns whether the program has had time to unmap its rings, so that it cannot reconnect
    /// with them.
    pub(crate) fn has_outlasted_rings(&self, now: Instant) -> bool {
        self.since + UNSEALED_ABSENCE_MAX <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_become_rarer_until_the_deadline() {
        let (own, start) = (std::process::id(), Instant::now());
        let mut absence = Absence::begin(start, false);
        let mut checks = Vec::new();
        while !absence.is_over(own, absence.next()) {
            checks.push(absence.pause);
        }
        let expected = [40, 160, 640].map(Duration::from_millis).into_iter();
        let expected: Vec<Duration> = expected.chain([LAST_PAUSE; 8]).collect();
        assert_eq!(checks, expected);
        assert_eq!(absence.next(), start + ABSENCE_MAX);
        assert!(!absence.has_outlasted_rings(start + ABSENCE_MAX));
        assert!(Absence::begin(start, true).has_outlasted_rings(start + UNSEALED_ABSENCE_MAX));
    }
}

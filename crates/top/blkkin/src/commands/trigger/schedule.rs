//! Decision when a trigger acts: after its delay, and not too often.

use std::time::{Duration, Instant};

/// Schedule of a trigger.
#[derive(Debug)]
pub(super) struct Schedule {
    delay: Duration,
    every: Duration,
    /// Number of further actions; `None` for no limit.
    left: Option<u64>,
    pending: Option<(Instant, Cause)>,
    /// End of the time in which the trigger does not act again.
    rest: Option<Instant>,
}

/// Reason for which a trigger acts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cause {
    /// Number of events.
    pub(super) events: u64,
    /// First event as JSON, or another condition in words.
    pub(super) text: String,
}

impl Schedule {
    pub(super) fn new(delay: Duration, every: Duration, left: Option<u64>) -> Schedule {
        Schedule { delay, every, left, pending: None, rest: None }
    }

    /// Takes a reason to act. Returns false if it has no consequence, because the trigger has acted
    /// a short time ago.
    pub(super) fn add(&mut self, now: Instant, cause: Cause) -> bool {
        let is_resting = self.rest.is_some_and(|rest| now < rest) || self.is_over();
        match &mut self.pending {
            Some((_, pending)) => pending.events += cause.events,
            None if is_resting => return false,
            none => *none = Some((now + self.delay, cause)),
        }
        true
    }

    /// Returns when to act next.
    pub(super) fn due(&self) -> Option<Instant> {
        self.pending.as_ref().map(|(due, _)| *due)
    }

    /// Returns the reason to act now, if it is due.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Cause> {
        let (_, cause) = self.pending.take_if(|(due, _)| *due <= now)?;
        self.rest = Some(now + self.every);
        self.left = self.left.map(|left| left.saturating_sub(1));
        Some(cause)
    }

    /// Returns whether the trigger has acted as often as it may.
    pub(super) fn is_over(&self) -> bool {
        self.left == Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(events: u64) -> Cause {
        Cause { events, text: events.to_string() }
    }

    #[test]
    fn causes_are_joined_until_they_are_due() {
        let (begin, second) = (Instant::now(), Duration::from_secs(1));
        let mut schedule = Schedule::new(2 * second, 10 * second, Some(2));
        assert!(schedule.add(begin, cause(1)));
        assert!(schedule.add(begin + second, cause(2)));
        assert_eq!(schedule.due(), Some(begin + 2 * second));
        assert_eq!(schedule.take_due(begin + second), None);
        let first = Cause { events: 3, text: "1".to_owned() };
        assert_eq!(schedule.take_due(begin + 2 * second), Some(first));
        assert_eq!(schedule.due(), None);
        // The trigger rests.
        assert!(!schedule.add(begin + 11 * second, cause(4)));
        assert!(schedule.add(begin + 12 * second, cause(5)));
        assert!(!schedule.is_over());
        assert_eq!(schedule.take_due(begin + 20 * second), Some(cause(5)));
        assert!(schedule.is_over());
        assert!(!schedule.add(begin + 100 * second, cause(6)));
    }
}

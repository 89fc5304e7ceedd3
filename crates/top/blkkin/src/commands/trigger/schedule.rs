//! Decision when a trigger acts: after its delay, and not too often.

use super::matching::REQUESTS_MAX;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Schedule of a trigger.
#[derive(Debug)]
pub(super) struct Schedule {
    delay: Duration,
    every: Duration,
    /// Number of further actions; `None` for no limit.
    left: Option<u64>,
    /// When to act, when the first reason came, and the reasons.
    pending: Option<(Instant, Instant, Cause)>,
    /// End of the time in which the trigger does not act again.
    rest: Option<Instant>,
    /// Number of requests that were too many to send.
    left_out: u64,
}

/// Reason for which a trigger acts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cause {
    /// Number of events.
    pub(super) events: u64,
    /// First event as JSON, or another condition in words.
    pub(super) text: String,
    /// Lower halves of the trace ids of requests to send.
    pub(super) requests: BTreeSet<u64>,
    /// Time from the first event to the action.
    pub(super) waited: Duration,
}

impl Cause {
    /// Adds a later reason.
    pub(super) fn join(&mut self, mut later: Cause) {
        if self.events == 0 {
            self.text = later.text;
        }
        self.events += later.events;
        self.requests.append(&mut later.requests);
    }
}

impl Schedule {
    pub(super) fn new(delay: Duration, every: Duration, left: Option<u64>) -> Schedule {
        Schedule { delay, every, left, pending: None, rest: None, left_out: 0 }
    }

    /// Takes a reason to act. Returns false if it has no consequence, because the trigger has acted
    /// a short time ago. Requests are sent all the same, after the rest.
    pub(super) fn add(&mut self, now: Instant, cause: Cause) -> bool {
        let rest = self.rest.filter(|rest| now < *rest);
        if self.is_over() {
            return false;
        }
        if let Some((_, _, pending)) = &mut self.pending {
            pending.join(cause);
            while pending.requests.len() > REQUESTS_MAX {
                pending.requests.pop_first();
                self.left_out += 1;
            }
            return true;
        }
        if rest.is_some() && cause.requests.is_empty() {
            return false;
        }
        let due = (now + self.delay).max(rest.unwrap_or(now));
        self.pending = Some((due, now, cause));
        true
    }

    /// Takes the number of requests that are not sent, because there were too many.
    pub(super) fn take_left_out(&mut self) -> u64 {
        std::mem::take(&mut self.left_out)
    }

    /// Returns the reason to act next.
    pub(super) fn pending(&self) -> Option<&Cause> {
        self.pending.as_ref().map(|(.., cause)| cause)
    }

    /// Returns when to act next.
    pub(super) fn due(&self) -> Option<Instant> {
        self.pending.as_ref().map(|(due, ..)| *due)
    }

    /// Returns the reason to act now, if it is due.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Cause> {
        let (_, first, mut cause) = self.pending.take_if(|(due, ..)| *due <= now)?;
        cause.waited += now.saturating_duration_since(first);
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
        Cause { events, text: events.to_string(), ..Cause::default() }
    }

    #[test]
    fn causes_are_joined_until_they_are_due() {
        let (begin, second) = (Instant::now(), Duration::from_secs(1));
        let mut schedule = Schedule::new(2 * second, 10 * second, Some(2));
        assert!(schedule.add(begin, cause(1)));
        assert!(schedule.add(begin + second, cause(2)));
        assert_eq!(schedule.due(), Some(begin + 2 * second));
        assert_eq!(schedule.take_due(begin + second), None);
        let first = Cause { events: 3, waited: 2 * second, ..cause(1) };
        assert_eq!(schedule.take_due(begin + 2 * second), Some(first));
        assert_eq!(schedule.due(), None);
        // The trigger rests.
        assert!(!schedule.add(begin + 11 * second, cause(4)));
        assert!(schedule.add(begin + 12 * second, cause(5)));
        assert!(!schedule.is_over());
        assert_eq!(schedule.take_due(begin + 20 * second).map(|cause| cause.events), Some(5));
        assert!(schedule.is_over());
        assert!(!schedule.add(begin + 100 * second, cause(6)));
    }

    #[test]
    fn requests_wait_for_the_end_of_the_rest() {
        let (begin, second) = (Instant::now(), Duration::from_secs(1));
        let mut schedule = Schedule::new(second, 10 * second, None);
        let of = |requests: &[u64]| Cause {
            events: requests.len() as u64,
            requests: requests.iter().copied().collect(),
            ..Cause::default()
        };
        assert!(schedule.add(begin, of(&[1])));
        assert!(schedule.take_due(begin + second).is_some());
        assert!(schedule.add(begin + 2 * second, of(&[2, 3])));
        assert!(schedule.add(begin + 3 * second, of(&[3, 4])));
        assert_eq!(schedule.due(), Some(begin + 11 * second));
        let cause = schedule.take_due(begin + 11 * second).expect("due");
        assert_eq!((cause.events, cause.requests), (4, [2, 3, 4].into()));
        assert_eq!(cause.waited, 9 * second);
        let many: Vec<u64> = (0..REQUESTS_MAX as u64 + 5).collect();
        assert!(schedule.add(begin + 12 * second, of(&[1])));
        assert!(schedule.add(begin + 12 * second, of(&many)));
        assert_eq!(schedule.take_left_out(), 5);
    }
}

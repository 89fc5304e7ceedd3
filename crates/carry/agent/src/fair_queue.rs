//! Fair scheduling between users. Connections of the users on whom the agent has spent the least
//! time are served first.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Time limit for serving connections once. Each turn of the loop serves connections with events
/// before rings are drained, and commands with further requests afterwards.
pub(crate) const TURN: Duration = Duration::from_millis(20);
/// Time limit for serving connections in the last turn, when the agent ends.
pub(crate) const LAST_TURN: Duration = Duration::from_secs(1);
/// Time spent on one user at which the times spent on all users are halved.
const SPENT_MAX: Duration = Duration::from_secs(10);

/// Time that the agent has spent on each user. It is reset when no connection has to wait.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    spent: HashMap<u32, Duration>,
}

/// A run of serving connections, with its time limit. A turn of the event loop has up to two runs:
/// see [`TURN`].
#[derive(Debug)]
pub(crate) struct Turn {
    begun: Instant,
    at: Instant,
    length: Duration,
}

impl Turns {
    /// Sorts connections by the time spent on their users, the longest first. Among equal times,
    /// the order of arrival is reversed, because the last element is to be served first.
    pub(crate) fn sort<T>(&self, ready: &mut [T], uid_of: impl Fn(&T) -> u32) {
        ready.reverse();
        if !self.spent.is_empty() {
            let spent = |one: &T| self.spent.get(&uid_of(one)).copied().unwrap_or(Duration::ZERO);
            ready.sort_by_cached_key(|one| std::cmp::Reverse(spent(one)));
        }
    }

    pub(crate) fn begin(&self, length: Duration) -> Turn {
        let begun = Instant::now();
        Turn { begun, at: begun, length }
    }

    /// Charges a user for the time since the last call or the start of the turn. Returns whether
    /// the turn's time is used up.
    pub(crate) fn charge(&mut self, turn: &mut Turn, uid: u32, now: Instant) -> bool {
        *self.spent.entry(uid).or_default() += now - turn.at;
        turn.at = now;
        now - turn.begun > turn.length
    }

    /// Ends a turn. If all connections were served within [`TURN`], resets the times spent on all
    /// users. Otherwise halves them if one exceeds [`SPENT_MAX`].
    pub(crate) fn end(&mut self, turn: &Turn, is_all_served: bool) {
        if is_all_served && turn.at - turn.begun <= TURN {
            self.spent.clear();
        } else if self.spent.values().any(|spent| *spent > SPENT_MAX) {
            self.spent.values_mut().for_each(|spent| *spent /= 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_who_had_less_time_come_first() {
        let mut turns = Turns::default();
        let order = |turns: &Turns| {
            let mut ready = [7, 8, 9];
            turns.sort(&mut ready, |uid| *uid);
            ready
        };
        assert_eq!(order(&turns), [9, 8, 7], "in the order of arrival, from the end");
        let mut turn = turns.begin(TURN);
        let start = turn.begun;
        assert!(!turns.charge(&mut turn, 7, start + TURN));
        assert!(turns.charge(&mut turn, 8, start + TURN * 3 / 2));
        assert_eq!(order(&turns), [7, 8, 9]);
        turns.end(&turn, false);
        assert_eq!(order(&turns), [7, 8, 9], "somebody waits");
        assert!(turns.charge(&mut turn, 9, start + SPENT_MAX * 3));
        turns.end(&turn, false);
        assert!(turns.spent[&9] < SPENT_MAX * 3 / 2);
        turns.end(&turns.begin(TURN), true);
        assert!(turns.spent.is_empty());
    }
}

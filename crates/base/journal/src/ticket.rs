//! What who appends gets: a [`Ticket`] for what it appended, with which it can wait or ask. All that is written
//! together shares a [`Group`].

use crate::error::Refusal;
use crate::shared::lock;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What becomes of an append: durable, or refused. If refused, it may be in the journal all the same.
pub type Outcome = Result<(), Refusal>;

/// Is called once with what has become of an append, from the thread that writes. It should not take long.
pub(crate) type Callback = Box<dyn FnOnce(Outcome) + Send>;

/// Stands for records that were appended and may not be durable yet.
#[derive(Clone, Debug)]
#[must_use = "nothing is known to be durable before the ticket says so"]
pub struct Ticket {
    pub(crate) group: Arc<Group>,
    pub(crate) sequences: Range<u64>,
}

impl Ticket {
    /// The sequence numbers that the records have.
    pub fn sequences(&self) -> Range<u64> {
        self.sequences.clone()
    }

    /// What has become of them; `None` if that is not known yet. Never waits.
    pub fn outcome(&self) -> Option<Outcome> {
        lock(&self.group.outcome).clone()
    }

    /// Waits until they are durable, or refused.
    pub fn wait(&self) -> Outcome {
        let mut outcome = lock(&self.group.outcome);
        loop {
            if let Some(outcome) = &*outcome {
                return outcome.clone();
            }
            outcome = self.group.done.wait(outcome).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits at most for `timeout`.
    pub fn wait_timeout(&self, timeout: Duration) -> Option<Outcome> {
        let deadline = Instant::now() + timeout;
        let mut outcome = lock(&self.group.outcome);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if outcome.is_some() || left.is_zero() {
                return outcome.clone();
            }
            let waited = self.group.done.wait_timeout(outcome, left);
            outcome = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// What is written together, and so has one outcome.
#[derive(Debug, Default)]
pub(crate) struct Group {
    outcome: Mutex<Option<Outcome>>,
    done: Condvar,
}

impl Group {
    /// The first outcome is the one that counts.
    pub(crate) fn finish(&self, outcome: &Outcome) {
        lock(&self.outcome).get_or_insert_with(|| outcome.clone());
        self.done.notify_all();
    }
}

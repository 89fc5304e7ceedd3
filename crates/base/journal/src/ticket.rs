//! Handles of appended records. A [`Ticket`] waits for the outcome or polls it. All appends that
//! are written together share a [`Group`].

use crate::error::Refusal;
use parking_lot::{Condvar, Mutex};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Outcome of an append: success, which means durable, or a refusal. Refused records may be in the
/// journal nevertheless.
pub type Outcome = Result<(), Refusal>;

/// Callback for the outcome of an append that was not refused at once. The writing thread calls the
/// callback; for an empty append, the appending thread does. A callback should return quickly.
pub(crate) type Callback = Box<dyn FnOnce(Outcome) + Send>;

/// Handle of appended records that may not be durable yet.
#[derive(Clone, Debug)]
#[must_use = "nothing is known to be durable before the ticket says so"]
pub struct Ticket {
    pub(crate) group: Arc<Group>,
    pub(crate) sequences: Range<u64>,
}

impl Ticket {
    /// Returns the range of the sequence numbers of the appended records.
    pub fn sequences(&self) -> Range<u64> {
        self.sequences.clone()
    }

    /// Returns the outcome of the append; `None` while it is pending. Never waits.
    pub fn outcome(&self) -> Option<Outcome> {
        self.group.outcome.lock().clone()
    }

    /// Waits for the outcome: until the records are durable or refused.
    pub fn wait(&self) -> Outcome {
        let mut outcome = self.group.outcome.lock();
        loop {
            if let Some(outcome) = &*outcome {
                return outcome.clone();
            }
            self.group.done.wait(&mut outcome);
        }
    }

    /// Waits for the outcome, at most for `timeout`. Returns `None` if the append is still pending
    /// afterwards.
    pub fn wait_timeout(&self, timeout: Duration) -> Option<Outcome> {
        let deadline = Instant::now() + timeout;
        let mut outcome = self.group.outcome.lock();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if outcome.is_some() || left.is_zero() {
                return outcome.clone();
            }
            self.group.done.wait_for(&mut outcome, left);
        }
    }
}

/// Group of appends that are written together and share one outcome.
#[derive(Debug, Default)]
pub(crate) struct Group {
    outcome: Mutex<Option<Outcome>>,
    done: Condvar,
}

impl Group {
    /// Sets the outcome of the group, unless it has been set before. Wakes all waiting threads.
    pub(crate) fn finish(&self, outcome: &Outcome) {
        self.outcome.lock().get_or_insert_with(|| outcome.clone());
        self.done.notify_all();
    }
}

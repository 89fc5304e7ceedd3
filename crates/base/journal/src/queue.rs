//! The buffer of pending records. Appenders fill one group while the writer writes the previous
//! group. Memory is bounded: an append that would have to wait for space is refused with
//! [`Refusal::TryAgain`].

use crate::batch::{Batch, Payload};
use crate::error::{Error, ErrorKind, Refusal};
use crate::layout::Identity;
use crate::ticket::{Callback, Group, Outcome, Ticket};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct Queue {
    state: Mutex<QueueState>,
    /// Condition variable, notified when the writer has work.
    work: Condvar,
    limits: Limits,
}

#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) identity: Identity,
    pub(crate) waiting_bytes_max: usize,
    pub(crate) payload_bytes_max: u32,
}

struct QueueState {
    batch: Batch,
    group: Arc<Group>,
    callbacks: Vec<Callback>,
    /// Size in bytes of the batch that is being written.
    writing_bytes: usize,
    /// Refusal from the most recent write or probe; while set, all appends are refused with it.
    refusal: Option<Refusal>,
    /// Set if the writer should retry now: space may be free, or the retry delay has passed.
    is_changed: bool,
    is_closed: bool,
}

/// Next task of the writing thread.
pub(crate) enum Work {
    Write(PendingBatch),
    /// Attempt to start a segment, which shows if writing is possible again.
    Probe,
    Close,
}

/// Batch with the tickets and callbacks of its appenders. Every appender receives an outcome, even
/// if the writer panics.
pub(crate) struct PendingBatch {
    pub(crate) batch: Batch,
    group: Arc<Group>,
    callbacks: Vec<Callback>,
}

impl Queue {
    pub(crate) fn new(limits: Limits, next_sequence: u64) -> Queue {
        let state = QueueState {
            batch: Batch::reuse(Vec::new(), next_sequence),
            group: Arc::default(),
            callbacks: Vec::new(),
            writing_bytes: 0,
            refusal: None,
            is_changed: false,
            is_closed: false,
        };
        Queue { state: Mutex::new(state), work: Condvar::new(), limits }
    }

    /// Adds all payloads to the pending batch, or none of them.
    pub(crate) fn append(
        &self,
        payloads: &[Payload<'_>],
        callback: Option<Callback>,
    ) -> Result<Ticket, Refusal> {
        let bytes = self.check(payloads)?;
        if payloads.is_empty() {
            return Ok(self.empty_ticket(callback));
        }
        let mut state = self.state();
        if state.is_closed {
            return Err(Refusal::Closed);
        }
        if let Some(refusal) = &state.refusal {
            return Err(refusal.clone());
        }
        if state.writing_bytes + state.batch.bytes() + bytes > self.limits.waiting_bytes_max {
            return Err(Refusal::TryAgain);
        }
        let first = state.batch.next();
        if first.checked_add(payloads.len() as u64).is_none() {
            return Err(Error::new("", ErrorKind::NumbersExhausted).into());
        }
        let was_empty = state.batch.is_empty();
        payloads.iter().for_each(|payload| state.batch.push(payload, self.limits.identity));
        state.callbacks.extend(callback);
        let sequences = first..state.batch.next();
        let ticket = Ticket { group: Arc::clone(&state.group), sequences };
        drop(state);
        if was_empty {
            self.work.notify_one();
        }
        Ok(ticket)
    }

    /// Makes the ticket for an append without payloads, which succeeds at once, even if the journal
    /// is closed. Calls the callback.
    fn empty_ticket(&self, callback: Option<Callback>) -> Ticket {
        let group = Arc::<Group>::default();
        group.finish(&Ok(()));
        if let Some(callback) = callback {
            callback(Ok(()));
        }
        let next = self.state().batch.next();
        Ticket { group, sequences: next..next }
    }

    /// Returns the total size of the payloads' records in bytes, or a refusal if a payload or the
    /// total exceeds its limit.
    fn check(&self, payloads: &[Payload<'_>]) -> Result<usize, Refusal> {
        let payload_bytes_max = self.limits.payload_bytes_max.into();
        let sizes = payloads.iter().map(|payload| payload.bytes.len() as u64);
        if let Some(bytes) = sizes.max().filter(|&bytes| bytes > payload_bytes_max) {
            return Err(Refusal::TooLarge { bytes, bytes_max: payload_bytes_max });
        }
        let bytes = payloads.iter().fold(0usize, |sum, one| sum.saturating_add(one.record_bytes()));
        let bytes_max = self.limits.waiting_bytes_max;
        match bytes <= bytes_max {
            true => Ok(bytes),
            false => Err(Refusal::TooLarge { bytes: bytes as u64, bytes_max: bytes_max as u64 }),
        }
    }

    /// Waits until the writer has work. `memory` is the buffer of the previous batch, for reuse.
    pub(crate) fn next_work(&self, memory: Vec<u8>, retry_after: Duration) -> Work {
        let mut state = self.state();
        loop {
            if !state.batch.is_empty() {
                return Work::Write(state.take_batch(memory));
            }
            if state.is_closed {
                return Work::Close;
            }
            let is_changed = std::mem::take(&mut state.is_changed);
            if state.refusal.is_none() {
                self.work.wait(&mut state);
                continue;
            }
            if is_changed {
                return Work::Probe;
            }
            let waited = self.work.wait_for(&mut state, retry_after);
            state.is_changed |= waited.timed_out();
        }
    }

    /// Ends the current write or probe. After a `refusal`, all appends are refused until a later
    /// write or probe succeeds.
    pub(crate) fn end_write(&self, refusal: Option<Refusal>) {
        let mut state = self.state();
        state.writing_bytes = 0;
        state.refusal = refusal;
    }

    pub(crate) fn refusal(&self) -> Option<Refusal> {
        self.state().refusal.clone()
    }

    /// Makes the writer retry, because space may be free now.
    pub(crate) fn try_now(&self) {
        self.state().is_changed = true;
        self.work.notify_one();
    }

    /// Refuses all further appends. Wakes the writer, which then closes the journal.
    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        self.work.notify_one();
    }

    /// Refuses all further appends and all pending ones.
    pub(crate) fn abandon(&self) {
        let mut state = self.state();
        state.is_closed = true;
        let waiting = state.take_batch(Vec::new());
        drop(state);
        drop(waiting);
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock()
    }
}

impl QueueState {
    fn take_batch(&mut self, memory: Vec<u8>) -> PendingBatch {
        let empty = Batch::reuse(memory, self.batch.next());
        let batch = std::mem::replace(&mut self.batch, empty);
        self.writing_bytes = batch.bytes();
        let (group, callbacks) =
            (std::mem::take(&mut self.group), std::mem::take(&mut self.callbacks));
        PendingBatch { batch, group, callbacks }
    }
}

impl PendingBatch {
    /// Sends the outcome to all appenders. Returns the batch's memory for reuse.
    pub(crate) fn finish(mut self, outcome: &Outcome) -> Vec<u8> {
        self.complete(outcome);
        std::mem::take(&mut self.batch).into_bytes()
    }

    fn complete(&mut self, outcome: &Outcome) {
        self.group.finish(outcome);
        self.callbacks.drain(..).for_each(|callback| callback(outcome.clone()));
    }
}

impl Drop for PendingBatch {
    fn drop(&mut self) {
        // Appenders that already have an outcome ignore this one.
        self.complete(&Err(Refusal::Closed));
    }
}

//! What waits to be written: a group that is being filled, while the writer is busy with the one before. Memory is
//! bounded: who finds too much waiting is told to try again.

use crate::batch::{Batch, Payload};
use crate::error::{Error, ErrorKind, Refusal};
use crate::layout::Identity;
use crate::shared::lock;
use crate::ticket::{Callback, Group, Outcome, Ticket};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(crate) struct Queue {
    inside: Mutex<Inside>,
    /// Notified when the writer has something to do.
    work: Condvar,
    limits: Limits,
}

#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) identity: Identity,
    pub(crate) waiting_bytes_max: usize,
    pub(crate) payload_bytes_max: u32,
}

struct Inside {
    batch: Batch,
    group: Arc<Group>,
    callbacks: Vec<Callback>,
    /// Of the batch that is being written.
    writing_bytes: usize,
    /// Why nothing can be written just now.
    refusal: Option<Refusal>,
    /// Whether it may be possible again, so that trying makes sense.
    is_changed: bool,
    is_closed: bool,
}

/// What the writer is to do.
pub(crate) enum Work {
    Write(Waiting),
    /// Find out whether writing is possible again.
    Probe,
    Close,
}

/// A batch, and who waits for it. Who waits is told in any case, also if the writer dies.
pub(crate) struct Waiting {
    pub(crate) batch: Batch,
    group: Arc<Group>,
    callbacks: Vec<Callback>,
}

impl Queue {
    pub(crate) fn new(limits: Limits, next_sequence: u64) -> Queue {
        let inside = Inside {
            batch: Batch::reuse(Vec::new(), next_sequence),
            group: Arc::default(),
            callbacks: Vec::new(),
            writing_bytes: 0,
            refusal: None,
            is_changed: false,
            is_closed: false,
        };
        Queue { inside: Mutex::new(inside), work: Condvar::new(), limits }
    }

    /// Adds all payloads, or none.
    pub(crate) fn append(
        &self,
        payloads: &[Payload<'_>],
        callback: Option<Callback>,
    ) -> Result<Ticket, Refusal> {
        let bytes = self.check(payloads)?;
        if payloads.is_empty() {
            return Ok(self.nothing(callback));
        }
        let mut inside = self.inside();
        if inside.is_closed {
            return Err(Refusal::Closed);
        }
        if let Some(refusal) = &inside.refusal {
            return Err(refusal.clone());
        }
        if inside.writing_bytes + inside.batch.bytes() + bytes > self.limits.waiting_bytes_max {
            return Err(Refusal::TryAgain);
        }
        let first = inside.batch.next();
        if first.checked_add(payloads.len() as u64).is_none() {
            return Err(Error::new("", ErrorKind::NumbersExhausted).into());
        }
        let was_empty = inside.batch.is_empty();
        payloads.iter().for_each(|payload| inside.batch.push(payload, self.limits.identity));
        inside.callbacks.extend(callback);
        let sequences = first..inside.batch.next();
        let ticket = Ticket { group: Arc::clone(&inside.group), sequences };
        drop(inside);
        if was_empty {
            self.work.notify_one();
        }
        Ok(ticket)
    }

    /// No payload is durable at once.
    fn nothing(&self, callback: Option<Callback>) -> Ticket {
        let group = Arc::<Group>::default();
        group.finish(&Ok(()));
        if let Some(callback) = callback {
            callback(Ok(()));
        }
        let next = self.inside().batch.next();
        Ticket { group, sequences: next..next }
    }

    /// What the payloads take, if they may be appended at all.
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

    /// Waits for something to do. Memory of the batch before can be used again.
    pub(crate) fn take(&self, memory: Vec<u8>, retry_after: Duration) -> Work {
        let mut inside = self.inside();
        loop {
            if !inside.batch.is_empty() {
                return Work::Write(inside.take(memory));
            }
            if inside.is_closed {
                return Work::Close;
            }
            let is_changed = std::mem::take(&mut inside.is_changed);
            if inside.refusal.is_none() {
                inside = self.work.wait(inside).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            if is_changed {
                return Work::Probe;
            }
            let waited = self.work.wait_timeout(inside, retry_after);
            let (again, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            inside = again;
            inside.is_changed |= timeout.timed_out();
        }
    }

    /// Nothing is being written any more. Says whether from now on all is refused, and why.
    pub(crate) fn written(&self, refusal: Option<Refusal>) {
        let mut inside = self.inside();
        inside.writing_bytes = 0;
        inside.refusal = refusal;
    }

    pub(crate) fn refusal(&self) -> Option<Refusal> {
        self.inside().refusal.clone()
    }

    /// Says that there may be room again.
    pub(crate) fn try_now(&self) {
        self.inside().is_changed = true;
        self.work.notify_one();
    }

    /// Takes nothing more.
    pub(crate) fn close(&self) {
        self.inside().is_closed = true;
        self.work.notify_one();
    }

    /// Takes nothing more, and refuses what waits.
    pub(crate) fn abandon(&self) {
        let mut inside = self.inside();
        inside.is_closed = true;
        let waiting = inside.take(Vec::new());
        drop(inside);
        drop(waiting);
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        lock(&self.inside)
    }
}

impl Inside {
    fn take(&mut self, memory: Vec<u8>) -> Waiting {
        let empty = Batch::reuse(memory, self.batch.next());
        let batch = std::mem::replace(&mut self.batch, empty);
        self.writing_bytes = batch.bytes();
        let (group, callbacks) =
            (std::mem::take(&mut self.group), std::mem::take(&mut self.callbacks));
        Waiting { batch, group, callbacks }
    }
}

impl Waiting {
    /// Tells all who wait. Returns memory that can be used again.
    pub(crate) fn finish(mut self, outcome: &Outcome) -> Vec<u8> {
        self.tell(outcome);
        std::mem::take(&mut self.batch).into_bytes()
    }

    fn tell(&mut self, outcome: &Outcome) {
        self.group.finish(outcome);
        self.callbacks.drain(..).for_each(|callback| callback(outcome.clone()));
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // Those who were told already do not hear of it.
        self.tell(&Err(Refusal::Closed));
    }
}

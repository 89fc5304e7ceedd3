//! A place for a writer that any thread may use, and that may be taken out at any time.
//!
//! Nobody who records holds a lock or counts itself in. A restartable sequence uses the writer only
//! within itself, so when the writer is out and all sequences have been restarted, none does. Who
//! needs longer, because a sub-buffer is full or there are no sequences, counts itself while it does.
//!
//! A known limit: who is left meanwhile, by a handler that jumps out of a signal (`siglongjmp`), is counted for
//! ever. From then on each writer that is taken out or replaced stays mapped, for which the taker waits as long as
//! it has patience; and a slot that is emptied is not used again. Nobody can tell such a thread for certain from
//! one that was stopped. The place of its function on the stack, by which the lock of a ring is taken back (see
//! [`crate::lock`]), can mislead where threads change stacks: a lock that is taken wrongly costs an event,
//! memory that is unmapped wrongly costs the program.

use crate::encoder::Event;
#[cfg(target_arch = "x86_64")]
use crate::rseq::{SequenceOutcome, Sequences};
use crate::writer::{Outcome, Writer};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Holds a writer, or none.
#[derive(Debug, Default)]
pub struct Slot {
    /// Where a restartable sequence may go on with the writer, …
    fast: AtomicPtr<Writer>,
    /// … and where anybody may who counts itself in `users`.
    writer: AtomicPtr<Writer>,
    /// Who uses the writer outside of sequences.
    users: AtomicU64,
    /// Whether a writer is just being put in or taken out, or could not be taken out for good.
    is_changing: AtomicBool,
}

// SAFETY: all zeros is an empty slot. What a writer in it owned is not freed then, nor used any more.
#[expect(unsafe_code)]
unsafe impl blkkin_sys::AllZeros for Slot {}

impl Slot {
    /// An empty one.
    pub const fn new() -> Slot {
        Slot {
            fast: AtomicPtr::new(ptr::null_mut()),
            writer: AtomicPtr::new(ptr::null_mut()),
            users: AtomicU64::new(0),
            is_changing: AtomicBool::new(false),
        }
    }

    /// Records an event with the writer, if there is one; and wakes the reader if it sleeps (see
    /// [`crate::Cells::fall_asleep`]).
    #[inline(always)]
    pub fn record(&self, event: &mut Event<'_>) -> Outcome {
        #[cfg(target_arch = "x86_64")]
        if let Some(sequences) = Sequences::cached() {
            match sequences.record(&self.fast, event) {
                SequenceOutcome::Recorded => return Outcome::Recorded,
                SequenceOutcome::RecordedWhileAsleep => {
                    self.with_writer(Writer::wake_reader);
                    return Outcome::Recorded;
                }
                SequenceOutcome::NotRecorded => {}
            }
        }
        // A copy, so that the event's own size and place need not be in memory before.
        self.record_slowly(&mut event.reborrow())
    }

    /// Records an event of which a string was shortened, and counts it as such.
    #[cold]
    pub fn record_cut(&self, event: &mut Event<'_>) -> Outcome {
        let outcome = self.record(event);
        if outcome == Outcome::Recorded {
            self.with_writer(Writer::count_cut);
        }
        outcome
    }

    #[cold]
    #[inline(never)]
    fn record_slowly(&self, event: &mut Event<'_>) -> Outcome {
        self.with_writer(|writer| writer.record(event)).unwrap_or(Outcome::NoWriter)
    }

    /// Uses the writer outside of a sequence, if there is one.
    #[cold]
    #[inline(never)]
    fn with_writer<T>(&self, use_it: impl FnOnce(&Writer) -> T) -> Option<T> {
        // A glance, so that events that nobody takes do not look like users of a writer.
        if self.writer.load(Ordering::Relaxed).is_null() {
            return None;
        }
        // Sequentially consistent, as in `take`: either the writer is seen to be out here, or this
        // user is seen there.
        self.users.fetch_add(1, Ordering::SeqCst);
        let writer = self.writer.load(Ordering::SeqCst);
        // SAFETY: null, or a writer that `put` has put there; `take` gives it away only when there
        // are no users.
        #[expect(unsafe_code)]
        let result = unsafe { writer.as_ref() }.map(use_it);
        self.users.fetch_sub(1, Ordering::Release);
        result
    }

    /// Puts a writer into the slot; gives it back if there is one already, or one is just being put
    /// in or taken out.
    pub fn put(&self, writer: Box<Writer>) -> Result<(), Box<Writer>> {
        let Some(_guard) = ChangeGuard::acquire(self) else { return Err(writer) };
        if !self.writer.load(Ordering::Relaxed).is_null() {
            return Err(writer);
        }
        let uses_sequences = uses_sequences(&writer);
        let writer = Box::into_raw(writer);
        // Release: who sees the pointer sees the writer. Sequences load it as well, which on their
        // processors orders what is loaded through it.
        self.writer.store(writer, Ordering::Release);
        if uses_sequences {
            self.fast.store(writer, Ordering::Release);
        }
        Ok(())
    }

    /// Puts a writer in the place of the one that is there: from some moment on events go to the new one,
    /// and each goes to one of them. Gives the old one, as [`take`](Self::take) does; if somebody still
    /// uses that after `patience`, it lives for ever, and the new one is used all the same. Gives the new
    /// one back if there is none to replace.
    pub fn replace(
        &self,
        writer: Box<Writer>,
        patience: Duration,
    ) -> Result<Result<Box<Writer>, StillUsed>, Box<Writer>> {
        let Some(_guard) = ChangeGuard::acquire(self) else { return Err(writer) };
        if self.writer.load(Ordering::Relaxed).is_null() {
            return Err(writer);
        }
        let uses_sequences = uses_sequences(&writer);
        let writer = Box::into_raw(writer);
        // As in `put` and `take`.
        let fast = if uses_sequences { writer } else { ptr::null_mut() };
        let used_sequences = !self.fast.swap(fast, Ordering::SeqCst).is_null();
        let old = self.writer.swap(writer, Ordering::SeqCst);
        if !self.is_unused_within(patience, used_sequences) {
            return Ok(Err(StillUsed));
        }
        // SAFETY: as in `take`.
        #[expect(unsafe_code)]
        Ok(Ok(unsafe { Box::from_raw(old) }))
    }

    /// Waits until nobody uses a writer that has been taken out.
    fn is_unused_within(&self, patience: Duration, used_sequences: bool) -> bool {
        let end = Instant::now() + patience;
        let mut is_unused = !used_sequences || blkkin_sys::restart_sequences();
        // Sequentially consistent: see `with_writer`. (Also an acquire of what users did.)
        while is_unused && self.users.load(Ordering::SeqCst) != 0 {
            is_unused = Instant::now() < end;
            std::thread::sleep(Duration::from_micros(50));
        }
        is_unused
    }

    /// Takes the writer out, and gives it when nobody uses it any more; an error, and it lives for
    /// ever and the slot stays empty, if somebody still does after `patience`: a thread that is
    /// stopped or was killed. Not to be called by a thread that anybody waits for.
    pub fn take(&self, patience: Duration) -> Result<Option<Box<Writer>>, StillUsed> {
        let Some(guard) = ChangeGuard::acquire(self) else { return Err(StillUsed) };
        let used_sequences = !self.fast.swap(ptr::null_mut(), Ordering::SeqCst).is_null();
        let writer = self.writer.swap(ptr::null_mut(), Ordering::SeqCst);
        if writer.is_null() {
            return Ok(None);
        }
        if !self.is_unused_within(patience, used_sequences) {
            // Who counts itself in now could not be told from who still uses the old one.
            guard.keep_forever();
            return Err(StillUsed);
        }
        // SAFETY: a box that `put` took apart; it is in the slot no more, no sequence has loaded it
        // before it was taken out and still goes on, and nobody else uses it.
        #[expect(unsafe_code)]
        Ok(Some(unsafe { Box::from_raw(writer) }))
    }
}

/// Whether sequences can go on with a writer.
fn uses_sequences(writer: &Writer) -> bool {
    #[cfg(target_arch = "x86_64")]
    return writer.tsc_sequences().is_some();
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = writer;
        false
    }
}

/// The right to put a writer in or take it out, until it is dropped.
struct ChangeGuard<'s>(&'s Slot);

impl ChangeGuard<'_> {
    fn acquire(slot: &Slot) -> Option<ChangeGuard<'_>> {
        // Acquire: pairs with the release of who changed it last.
        let is_free = !slot.is_changing.swap(true, Ordering::Acquire);
        is_free.then_some(ChangeGuard(slot))
    }

    fn keep_forever(self) {
        std::mem::forget(self);
    }
}

impl Drop for ChangeGuard<'_> {
    fn drop(&mut self) {
        // Release: pairs with `acquire`.
        self.0.is_changing.store(false, Ordering::Release);
    }
}

/// A thread has not finished with a writer, or another one is just putting one in or taking it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StillUsed;

impl std::fmt::Display for StillUsed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a thread has not finished with the ring, so its memory stays mapped")
    }
}

impl std::error::Error for StillUsed {}

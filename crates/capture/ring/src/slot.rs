//! A slot for a writer that any thread may use, and that may be removed at any time.
//!
//! The fast path uses no lock and no reference count. A restartable sequence uses the writer only
//! within itself; so once the writer is removed and all sequences have been restarted, no sequence
//! uses it. Every other use of the writer is counted while it lasts, for instance in the slow path,
//! which handles full sub-buffers and threads without restartable sequences.
//!
//! A known limit: if a signal handler leaves code that uses a writer by `siglongjmp`, that use is
//! never uncounted. Each later removal or replacement of a writer then waits for its full timeout
//! and leaves the writer mapped, and an emptied slot is not used again. A thread that has jumped
//! out cannot be told for certain from one that is stopped. The lock of a ring detects it by its
//! position on the stack (see [`crate::lock`]), but this check can be wrong where threads switch
//! stacks: for a lock a wrong answer costs one event, here it would unmap memory in use and crash
//! the program.

use crate::encoder::Event;
#[cfg(target_arch = "x86_64")]
use crate::rseq::{SequenceOutcome, Sequences};
use crate::writer::{Outcome, Writer};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Replaceable writer of a channel's rings, for use by any thread; may be empty.
#[derive(Debug, Default)]
pub struct Slot {
    /// The writer for the fast path; null if the fast path does not support the writer.
    fast: AtomicPtr<Writer>,
    /// The writer for users that are counted in `users`.
    writer: AtomicPtr<Writer>,
    /// Number of calls that use the writer at this time, outside of the fast path.
    users: AtomicU64,
    /// Set while a writer is being inserted, replaced or removed, and for ever once a removal has
    /// leaked its writer.
    is_changing: AtomicBool,
}

// SAFETY: all zeros is an empty slot. A writer in the slot is leaked then, and no longer used.
#[expect(unsafe_code)]
unsafe impl blkkin_sys::AllZeros for Slot {}

impl Slot {
    /// Returns an empty slot.
    pub const fn new() -> Slot {
        Slot {
            fast: AtomicPtr::new(ptr::null_mut()),
            writer: AtomicPtr::new(ptr::null_mut()),
            users: AtomicU64::new(0),
            is_changing: AtomicBool::new(false),
        }
    }

    /// Records an event with the writer, if there is one, and wakes the reader if it sleeps (see
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
        // The event is reborrowed, so that the event itself can stay in registers.
        self.record_slowly(&mut event.reborrow())
    }

    /// Records an event with a shortened string. Counts the shortening if the event was recorded.
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

    /// Calls `use_it` with the writer, if there is one, and counts the call as a user.
    #[cold]
    #[inline(never)]
    fn with_writer<T>(&self, use_it: impl FnOnce(&Writer) -> T) -> Option<T> {
        // Relaxed: a first check, so that events without a writer are not counted as users.
        if self.writer.load(Ordering::Relaxed).is_null() {
            return None;
        }
        // Sequentially consistent, pairs with the operations in `take`: either this thread sees
        // that the writer is removed, or `take` sees this user.
        self.users.fetch_add(1, Ordering::SeqCst);
        let writer = self.writer.load(Ordering::SeqCst);
        // SAFETY: null, or a writer that `put` has stored; `take` returns it only when there are no
        // users.
        #[expect(unsafe_code)]
        let result = unsafe { writer.as_ref() }.map(use_it);
        self.users.fetch_sub(1, Ordering::Release);
        result
    }

    /// Returns true if the slot has no writer. Another thread may change that at any time.
    pub fn is_empty(&self) -> bool {
        self.writer.load(Ordering::Relaxed).is_null()
    }

    /// Inserts a writer. Returns `writer` as the error if the slot has one already, if another
    /// change is in progress, or if an earlier removal has leaked its writer.
    pub fn put(&self, writer: Box<Writer>) -> Result<(), Box<Writer>> {
        let Some(_guard) = ChangeGuard::acquire(self) else { return Err(writer) };
        if !self.writer.load(Ordering::Relaxed).is_null() {
            return Err(writer);
        }
        let uses_sequences = uses_sequences(&writer);
        let writer = Box::into_raw(writer);
        // Release: a thread that sees the pointer sees the writer. Sequences load the pointer
        // without an acquire; x86 does not reorder loads, so they see the writer too.
        self.writer.store(writer, Ordering::Release);
        if uses_sequences {
            self.fast.store(writer, Ordering::Release);
        }
        Ok(())
    }

    /// Replaces the writer. Each event is recorded with the old writer or the new one, never with
    /// both. Returns the old writer once the slot has no users; those of the new writer count too.
    /// Returns [`WriterInUse`] if there still are users after `patience`, or if the kernel cannot
    /// restart sequences. In that case the old writer is leaked, and the new writer is in use all
    /// the same. Returns the new writer as an error if the slot has no writer, or if another change
    /// is in progress.
    pub fn replace(
        &self,
        writer: Box<Writer>,
        patience: Duration,
    ) -> Result<Result<Box<Writer>, WriterInUse>, Box<Writer>> {
        let Some(_guard) = ChangeGuard::acquire(self) else { return Err(writer) };
        if self.writer.load(Ordering::Relaxed).is_null() {
            return Err(writer);
        }
        let uses_sequences = uses_sequences(&writer);
        let writer = Box::into_raw(writer);
        // Ordered as in `put` and `take`.
        let fast = if uses_sequences { writer } else { ptr::null_mut() };
        let used_sequences = !self.fast.swap(fast, Ordering::SeqCst).is_null();
        let old = self.writer.swap(writer, Ordering::SeqCst);
        if !self.is_unused_within(patience, used_sequences) {
            return Ok(Err(WriterInUse));
        }
        // SAFETY: as in `take`.
        #[expect(unsafe_code)]
        Ok(Ok(unsafe { Box::from_raw(old) }))
    }

    /// Waits until a removed writer is unused: restarts all sequences if they used it, and waits
    /// until the slot has no users. Returns false after a timeout, or if the kernel cannot restart
    /// sequences.
    fn is_unused_within(&self, patience: Duration, used_sequences: bool) -> bool {
        let end = Instant::now() + patience;
        let mut is_unused = !used_sequences || blkkin_sys::restart_sequences();
        // Sequentially consistent: see `with_writer`. Also an acquire of the users' stores.
        while is_unused && self.users.load(Ordering::SeqCst) != 0 {
            is_unused = Instant::now() < end;
            std::thread::sleep(Duration::from_micros(50));
        }
        is_unused
    }

    /// Removes the writer, and returns it once no thread uses it any more; returns `None` if the
    /// slot is empty. Fails after `patience` if a thread still uses the writer, for instance
    /// because the thread is stopped or waits for room in a ring. Fails at once if the kernel
    /// cannot restart sequences. In both cases the writer is leaked and the slot stays empty for
    /// ever. Fails at once, without a change, if another change is in progress or an earlier
    /// removal has leaked its writer. Must not be called by a thread that other threads wait for.
    pub fn take(&self, patience: Duration) -> Result<Option<Box<Writer>>, WriterInUse> {
        let Some(guard) = ChangeGuard::acquire(self) else { return Err(WriterInUse) };
        let used_sequences = !self.fast.swap(ptr::null_mut(), Ordering::SeqCst).is_null();
        let writer = self.writer.swap(ptr::null_mut(), Ordering::SeqCst);
        if writer.is_null() {
            return Ok(None);
        }
        if !self.is_unused_within(patience, used_sequences) {
            // A user of a new writer could not be distinguished from a user of the old one.
            guard.keep_forever();
            return Err(WriterInUse);
        }
        // SAFETY: a box that `put` took apart. It is no longer in the slot, no sequence that loaded
        // it before is still running, and it has no other users.
        #[expect(unsafe_code)]
        Ok(Some(unsafe { Box::from_raw(writer) }))
    }
}

/// Returns true if the fast path supports this writer.
fn uses_sequences(writer: &Writer) -> bool {
    #[cfg(target_arch = "x86_64")]
    return writer.tsc_sequences().is_some();
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = writer;
        false
    }
}

/// Exclusive right to insert, replace or remove a slot's writer; dropping the guard releases the
/// right.
struct ChangeGuard<'s>(&'s Slot);

impl ChangeGuard<'_> {
    fn acquire(slot: &Slot) -> Option<ChangeGuard<'_>> {
        // Acquire: pairs with the release of the last change, in `drop`.
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

/// Error of removing or replacing a writer: a thread may still use the writer, or (for a removal)
/// another change is in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterInUse;

impl std::fmt::Display for WriterInUse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a thread has not finished with the ring, so its memory stays mapped")
    }
}

impl std::error::Error for WriterInUse {}

//! A place for a writer that any thread may use, and that may be taken out at any time.
//!
//! Nobody who records holds a lock or counts itself in. A restartable sequence uses the writer only
//! within itself, so when the writer is out and all sequences have been restarted, none does. Who
//! needs longer, because a sub-buffer is full or there are no sequences, counts itself while it does.

use crate::encode::Event;
use crate::write::{Outcome, Writer};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Holds a writer, or none.
#[derive(Debug, Default)]
pub struct Slot {
    /// Where a restartable sequence may go on with the writer, …
    quick: AtomicPtr<Writer>,
    /// … and where anybody may who counts itself in `users`.
    writer: AtomicPtr<Writer>,
    /// Who uses the writer outside of sequences.
    users: AtomicU64,
}

impl Slot {
    /// An empty one.
    pub const fn new() -> Slot {
        let (quick, writer) = (AtomicPtr::new(ptr::null_mut()), AtomicPtr::new(ptr::null_mut()));
        Slot { quick, writer, users: AtomicU64::new(0) }
    }

    /// Records an event with the writer, if there is one.
    #[inline(always)]
    pub fn record(&self, event: &mut Event<'_>) -> Outcome {
        #[cfg(target_arch = "x86_64")]
        if crate::rseq::Sequences::known().is_some_and(|found| found.record(&self.quick, event)) {
            return Outcome::Recorded;
        }
        self.record_with_care(event)
    }

    #[cold]
    #[inline(never)]
    fn record_with_care(&self, event: &mut Event<'_>) -> Outcome {
        // Sequentially consistent, as in `take`: either the writer is seen to be out here, or this
        // user is seen there.
        self.users.fetch_add(1, Ordering::SeqCst);
        let writer = self.writer.load(Ordering::SeqCst);
        // SAFETY: null, or a writer that `put` has put there; `take` gives it away only when there
        // are no users.
        #[expect(unsafe_code)]
        let outcome = match unsafe { writer.as_ref() } {
            Some(writer) => writer.record(event),
            None => Outcome::NoWriter,
        };
        self.users.fetch_sub(1, Ordering::Release);
        outcome
    }

    /// Puts a writer into the slot; gives it back if there is one already.
    pub fn put(&self, writer: Box<Writer>) -> Result<(), Box<Writer>> {
        #[cfg(target_arch = "x86_64")]
        let is_quick = writer.quick_sequences().is_some();
        #[cfg(not(target_arch = "x86_64"))]
        let is_quick = false;
        let writer = Box::into_raw(writer);
        let (release, relaxed) = (Ordering::Release, Ordering::Relaxed);
        // Release: who sees the pointer sees the writer. Sequences load it as well, which on their
        // processors orders what is loaded through it.
        match self.writer.compare_exchange(ptr::null_mut(), writer, release, relaxed) {
            Ok(_) => {
                if is_quick {
                    self.quick.store(writer, Ordering::Release);
                }
                Ok(())
            }
            // SAFETY: it is the box from above, and nobody else has seen it.
            #[expect(unsafe_code)]
            Err(_) => Err(unsafe { Box::from_raw(writer) }),
        }
    }

    /// Takes the writer out, and gives it when nobody uses it any more; an error, and it lives for
    /// ever, if somebody still does after `patience`: a thread that is stopped or was killed. To be
    /// called by one thread at a time, and not by one that anybody waits for.
    pub fn take(&self, patience: Duration) -> Result<Option<Box<Writer>>, StillUsed> {
        self.quick.store(ptr::null_mut(), Ordering::SeqCst);
        let writer = self.writer.swap(ptr::null_mut(), Ordering::SeqCst);
        if writer.is_null() {
            return Ok(None);
        }
        if !blkkin_sys::restart_sequences() {
            return Err(StillUsed);
        }
        let end = Instant::now() + patience;
        // Sequentially consistent: see `record_with_care`. (Also an acquire of what users did.)
        while self.users.load(Ordering::SeqCst) != 0 {
            if Instant::now() >= end {
                return Err(StillUsed);
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        // SAFETY: a box that `put` took apart; it is in the slot no more, no sequence has loaded it
        // before it was taken out and still goes on, and nobody else uses it.
        #[expect(unsafe_code)]
        Ok(Some(unsafe { Box::from_raw(writer) }))
    }
}

/// A thread has not finished with a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StillUsed;

impl std::fmt::Display for StillUsed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a thread has not finished with the ring, so its memory stays mapped")
    }
}

impl std::error::Error for StillUsed {}

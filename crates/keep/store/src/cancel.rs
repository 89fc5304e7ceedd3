//! Cancellation of questions. Start at [`Cancel`].
//!
//! The flag belongs to the thread that runs the question, so that loops deep in a scan see it
//! without a parameter in each function above them. A scan that sees it ends early, with whatever
//! it has; the store's method above all scans then returns [`Error::Cancelled`] ([`check`]), so
//! that no partial answer leaves the store.

use crate::Error;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    static CURRENT: RefCell<Option<Cancel>> = const { RefCell::new(None) };
}

/// Cancels a question that runs on another thread.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Has the question end soon. It cannot be taken back.
    pub fn cancel(&self) {
        // Nothing else is read after it.
        self.0.store(true, Ordering::Relaxed);
    }

    /// Runs a question, or a part of one on another thread, that this cancels.
    pub fn run<T>(&self, question: impl FnOnce() -> T) -> T {
        let _before = Before(CURRENT.replace(Some(self.clone())));
        question()
    }

    /// The one that cancels what this thread runs. Parts of a question that run on other threads
    /// need it.
    pub fn current() -> Cancel {
        CURRENT.with_borrow(Option::clone).unwrap_or_default()
    }
}

/// Puts back what was there before, also if the question panics.
struct Before(Option<Cancel>);

impl Drop for Before {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// Whether the question that this thread runs is cancelled. Costs little enough to be asked for
/// each row.
#[inline]
pub fn is_cancelled() -> bool {
    CURRENT.with_borrow(|current| {
        current.as_ref().is_some_and(|current| current.0.load(Ordering::Relaxed))
    })
}

/// An error if the question that this thread runs is cancelled.
pub fn check() -> Result<(), Error> {
    if is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_cancelled_from_another_thread() {
        let cancel = Cancel::default();
        assert!(!is_cancelled(), "no question runs");
        cancel.run(|| {
            assert!(check().is_ok());
            std::thread::scope(|scope| {
                let part = Cancel::current();
                scope.spawn(|| cancel.cancel()).join().expect("no panic");
                let seen = scope.spawn(move || part.run(is_cancelled));
                assert!(seen.join().expect("no panic"), "a part of the question on another thread");
            });
            assert!(matches!(check(), Err(Error::Cancelled)));
            Cancel::default().run(|| assert!(!is_cancelled(), "another question"));
            assert!(is_cancelled());
        });
        assert!(!is_cancelled(), "the question has ended");
    }
}

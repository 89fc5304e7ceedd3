//! Cancellation of queries. Start at [`Cancel`].
//!
//! The current handle is stored per thread, so that loops deep in a scan can check it without an
//! additional parameter in their callers. A cancelled scan ends early with a partial result. The
//! store method that called the scan then returns [`Error::Cancelled`] ([`check`]), so that no
//! partial answer leaves the store.

use crate::Error;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    static CURRENT: RefCell<Option<Cancel>> = const { RefCell::new(None) };
}

/// Handle that cancels a query on another thread.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Cancels the query. Cancellation is permanent.
    pub fn cancel(&self) {
        // Relaxed: the flag guards no other data.
        self.0.store(true, Ordering::Relaxed);
    }

    /// Runs `question` as the current query of this thread, so that this handle cancels it.
    pub fn run<T>(&self, question: impl FnOnce() -> T) -> T {
        let _restore = RestoreOnDrop(CURRENT.replace(Some(self.clone())));
        question()
    }

    /// Returns the handle of the query that this thread runs, or a new handle if the thread runs no
    /// query. A query that starts threads must pass the handle on to them.
    pub fn current() -> Cancel {
        CURRENT.with_borrow(Option::clone).unwrap_or_default()
    }
}

/// Guard that restores the thread's previous handle, even if the query panics.
struct RestoreOnDrop(Option<Cancel>);

impl Drop for RestoreOnDrop {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// Returns whether the query that this thread runs is cancelled. A call is cheap enough for each
/// row.
#[inline]
pub fn is_cancelled() -> bool {
    CURRENT.with_borrow(|current| {
        current.as_ref().is_some_and(|current| current.0.load(Ordering::Relaxed))
    })
}

/// Returns [`Error::Cancelled`] if the query that this thread runs is cancelled.
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

//! Runs two computations in parallel. Start at [`run_both`].

use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Runs `other` on a new thread and `own` on this one, and returns both results. If no thread can
/// be started, runs them one after the other. Panics if one of them panics.
pub fn run_both<A, B: Send>(own: impl FnOnce() -> A, other: impl FnOnce() -> B + Send) -> (A, B) {
    let other = Mutex::new(Some(other));
    let take = || other.lock().unwrap_or_else(PoisonError::into_inner).take();
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, || take().map(|other| other()));
        let own = own();
        let done = match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(_) => take().map(|other| other()),
        };
        (own, done.expect("taken once"))
    })
}

#[cfg(test)]
mod tests {
    use super::run_both;
    use std::thread;

    #[test]
    fn both_are_done() {
        let mut own = 0;
        let here = thread::current().id();
        let (one, other) = run_both(
            || {
                own += 1;
                thread::current().id()
            },
            || thread::current().id(),
        );
        assert_eq!((own, one), (1, here));
        assert_ne!(other, here);
    }

    #[test]
    #[should_panic(expected = "of the other")]
    fn panics_are_passed_on() {
        run_both(|| (), || panic!("of the other"));
    }
}

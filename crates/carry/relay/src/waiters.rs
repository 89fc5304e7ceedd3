//! Viewers that wait for news of a session.
//!
//! The thread that receives news sends them to the first waiting viewers itself, which saves a
//! wake-up of each viewer's thread. It never blocks: what a socket does not take at once, and news
//! for further viewers, is left to the viewers' threads.

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// Viewers of a session that get its news.
#[derive(Debug, Default)]
pub(crate) struct Waiters(Mutex<Vec<Weak<Waiter>>>);

/// Sends news to a viewer. Returns false if the viewer's thread must go on.
type Push = Box<dyn Fn() -> bool + Send + Sync>;

/// A viewer, whose thread is woken by its descriptor.
pub(crate) struct Waiter {
    event: OwnedFd,
    /// Set while the viewer waits for news. Others are not woken, which saves system calls.
    is_waiting: AtomicBool,
    /// Set once the connection is served.
    push: OnceLock<Push>,
}

/// Maximum number of viewers to which the thread that receives news sends them itself.
const PUSHED_MAX: usize = 4;

impl Waiters {
    /// Adds a viewer until it is dropped.
    pub(crate) fn add(&self, waiter: &Arc<Waiter>) {
        let mut list = self.0.lock();
        // A viewer that attaches again and again has one place.
        list.retain(|known| known.strong_count() > 0 && known.as_ptr() != Arc::as_ptr(waiter));
        list.push(Arc::downgrade(waiter));
    }

    /// Sends the news to all viewers that wait, or wakes them.
    pub(crate) fn wake(&self) {
        // The list is not locked while news are sent, since a viewer's thread may add itself.
        let waiting: Vec<Arc<Waiter>> = {
            let list = self.0.lock();
            let alive = list.iter().filter_map(Weak::upgrade);
            alive.filter(|one| one.is_waiting.swap(false, Ordering::SeqCst)).collect()
        };
        for (number, waiter) in waiting.into_iter().enumerate() {
            let push = waiter.push.get().filter(|_| number < PUSHED_MAX);
            if !push.is_some_and(|push| push()) {
                waiter.wake();
            }
        }
    }
}

impl Waiter {
    pub(crate) fn new() -> io::Result<Waiter> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Waiter { event, is_waiting: AtomicBool::new(false), push: OnceLock::new() })
    }

    /// Sets how news are sent by other threads.
    pub(crate) fn push_by(&self, push: impl Fn() -> bool + Send + Sync + 'static) {
        let _ = self.push.set(Box::new(push));
    }

    fn wake(&self) {
        // The counter cannot overflow: it is written once for each wait.
        let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }

    /// Begins to wait. The caller must look for news after this call.
    pub(crate) fn begin(&self) {
        self.is_waiting.store(true, Ordering::SeqCst);
    }

    /// Ends the wait.
    pub(crate) fn end(&self) {
        self.is_waiting.store(false, Ordering::SeqCst);
    }

    /// Takes back the wake-ups of the descriptor.
    pub(crate) fn clear(&self) {
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
    }

    /// Returns the descriptor that is readable once there are news.
    pub(crate) fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiter").field("is_waiting", &self.is_waiting).finish_non_exhaustive()
    }
}

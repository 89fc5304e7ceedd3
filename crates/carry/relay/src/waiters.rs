//! Viewers that wait for news of a session.

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// Viewers of a session that are woken when it has news.
#[derive(Debug, Default)]
pub(crate) struct Waiters(Mutex<Vec<Weak<Waiter>>>);

/// A viewer, whose descriptor is readable once a session has news.
#[derive(Debug)]
pub(crate) struct Waiter {
    event: OwnedFd,
    /// Set while the viewer waits. Others are not woken, which saves the system calls.
    is_waiting: AtomicBool,
}

impl Waiters {
    /// Adds a viewer until it is dropped.
    pub(crate) fn add(&self, waiter: &Arc<Waiter>) {
        let mut list = self.0.lock();
        list.retain(|known| known.strong_count() > 0);
        list.push(Arc::downgrade(waiter));
    }

    /// Wakes all viewers that wait.
    pub(crate) fn wake(&self) {
        for waiter in self.0.lock().iter().filter_map(Weak::upgrade) {
            if waiter.is_waiting.swap(false, Ordering::SeqCst) {
                // The counter cannot overflow: it is written once for each wait.
                let _ = rustix::io::write(&waiter.event, &1_u64.to_ne_bytes());
            }
        }
    }
}

impl Waiter {
    pub(crate) fn new() -> io::Result<Waiter> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Waiter { event, is_waiting: AtomicBool::new(false) })
    }

    /// Begins to wait. The caller must look for news after this call.
    pub(crate) fn begin(&self) {
        self.is_waiting.store(true, Ordering::SeqCst);
    }

    /// Ends the wait.
    pub(crate) fn end(&self) {
        if !self.is_waiting.swap(false, Ordering::SeqCst) {
            let _ = rustix::io::read(&self.event, &mut [0; 8]);
        }
    }

    /// Returns the descriptor that is readable once there are news.
    pub(crate) fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

//! What all channels are to record: read by every thread, also in signal handlers, and changed by one.
//!
//! There are several books, of which one is current. Whoever changes something writes another one and
//! makes that current; readers hold the book that they read, without waiting. So a reader that is stopped,
//! or that a signal handler has left for ever, or that a fork has left behind in its parent, costs its
//! book, and nobody else anything. Of books that are left so there may be one less than there are: then nothing
//! can be changed any more.

use super::Orders;
use crate::channels::CHANNELS_MAX;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::time::{Duration, Instant};

/// What channels are to record.
#[derive(Debug)]
pub(crate) struct Book([Option<Arc<Orders>>; CHANNELS_MAX]);

impl Book {
    const EMPTY: Book = Book([const { None }; CHANNELS_MAX]);

    /// What a channel is to record.
    pub(crate) fn orders(&self, channel: usize) -> Option<&Orders> {
        self.0.get(channel)?.as_deref()
    }

    /// All channels that are to record something.
    pub(super) fn channels(&self) -> impl Iterator<Item = (usize, &Orders)> {
        let channels = self.0.iter().enumerate();
        channels.filter_map(|(number, orders)| Some((number, orders.as_deref()?)))
    }

    pub(super) fn set(&mut self, channel: usize, orders: Option<Orders>) {
        if let Some(place) = self.0.get_mut(channel) {
            *place = orders.map(Arc::new);
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Book::EMPTY;
    }
}

const BOOKS: usize = 32;
static ALL: [RwLock<Book>; BOOKS] = [const { RwLock::new(Book::EMPTY) }; BOOKS];
static CURRENT: AtomicUsize = AtomicUsize::new(0);

/// A reader finds the book locked only if others were made current meanwhile, and this one again.
const TRIES_MAX: usize = 1000;

/// How long the last reader of a book may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// What `use_book` makes of the current book. `None` only if the book changes all the time. Nothing of
/// this waits, and none of these locks is ever waited for.
pub(crate) fn with_book<R>(use_book: impl FnOnce(&Book) -> R) -> Option<R> {
    for _ in 0..TRIES_MAX {
        // Sequentially consistent: with the store in `change` and the fences of its callers.
        let current = CURRENT.load(Ordering::SeqCst);
        let Some(book) = ALL.get(current).and_then(try_read) else { continue };
        // Who has changed it, and then found nobody reading the old one, relies on that nobody starts to.
        if CURRENT.load(Ordering::SeqCst) == current {
            return Some(use_book(&book));
        }
    }
    None
}

fn try_read(book: &RwLock<Book>) -> Option<RwLockReadGuard<'_, Book>> {
    match book.try_read() {
        Ok(book) => Some(book),
        Err(TryLockError::Poisoned(book)) => Some(book.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

fn try_write(book: &RwLock<Book>) -> Option<RwLockWriteGuard<'_, Book>> {
    match book.try_write() {
        Ok(book) => Some(book),
        Err(TryLockError::Poisoned(book)) => Some(book.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// The book that was current before a change.
pub(super) struct Before(usize);

/// Makes a changed book the current one. `None`, and nothing is changed, if all others are held.
pub(super) fn change(change: impl FnOnce(&mut Book)) -> Option<Before> {
    let before = CURRENT.load(Ordering::SeqCst);
    let mut next = with_book(|book| Book(book.0.clone()))?;
    change(&mut next);
    let others = (1..BOOKS).map(|step| (before + step) % BOOKS);
    let (place, mut book) =
        others.filter_map(|place| Some((place, try_write(&ALL[place])?))).next()?;
    *book = next;
    drop(book);
    CURRENT.store(place, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    Some(Before(before))
}

impl Before {
    /// Waits until nobody reads it any more, and clears it. False if somebody does for too long.
    pub(super) fn forget(self) -> bool {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(mut book) = try_write(&ALL[self.0]) {
                book.clear();
                return true;
            }
            if Instant::now() >= end {
                return false;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

//! Locks with ranks that are acquired in ascending order. Start at [`RankedMutex`].
//!
//! Each lock of [`crate::shared::Shared`] has a rank. A thread that holds a lock may acquire only
//! locks of higher rank, so that no two threads wait for each other. Debug builds check the rank on
//! each acquisition and panic on a violation; release builds have neither the check nor its
//! bookkeeping.

use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// Ranks of the store's locks, lowest first.
pub(crate) mod rank {
    /// Rank of the manifest's lock, held throughout each change of the manifest.
    pub(crate) const MANIFEST: u8 = 0;
    /// Rank of the lock on the numbers of uncertain files: files that a manifest copy may name
    /// although the write of the manifest failed.
    pub(crate) const UNCERTAIN_FILES: u8 = 1;
    /// Rank of the lock on the list of damaged files.
    pub(crate) const DAMAGED_FILES: u8 = 2;
    /// Rank of the lock on the head and the counters.
    pub(crate) const STATE: u8 = 3;
    /// Rank of the lock on the list of span files.
    pub(crate) const FILES: u8 = 4;
    /// Rank of the lock on the calls between services that are derived from the spans in memory.
    pub(crate) const HEAD_LINKS: u8 = 5;
    /// Rank of the lock on the ledger, which has the sums of the calls between services over all
    /// files.
    pub(crate) const LEDGER: u8 = 6;
}

/// Mutex with a rank. Debug builds check that each thread acquires ranks in ascending order.
#[derive(Default)]
pub(crate) struct RankedMutex<T, const RANK: u8> {
    mutex: Mutex<T>,
}

impl<T, const RANK: u8> RankedMutex<T, RANK> {
    pub(crate) fn new(value: T) -> RankedMutex<T, RANK> {
        RankedMutex { mutex: Mutex::new(value) }
    }

    /// Locks the mutex.
    ///
    /// # Panics
    /// In debug builds, if the thread holds a lock of this rank or a higher rank.
    pub(crate) fn lock(&self) -> Guard<'_, T, RANK> {
        let _held = HeldRank::take();
        Guard { guard: self.mutex.lock(), _held }
    }
}

/// Guard of a locked [`RankedMutex`]; its drop unlocks the mutex and releases the rank.
pub(crate) struct Guard<'m, T, const RANK: u8> {
    guard: MutexGuard<'m, T>,
    _held: HeldRank<RANK>,
}

impl<T, const RANK: u8> Guard<'_, T, RANK> {
    /// Waits for a notification of `condition`. The wait releases the lock, but the thread still
    /// counts as a holder of the rank.
    pub(crate) fn wait(&mut self, condition: &Condvar) {
        condition.wait(&mut self.guard);
    }

    /// Waits like [`Guard::wait`], but at most for `limit`.
    pub(crate) fn wait_timeout(&mut self, condition: &Condvar, limit: Duration) {
        condition.wait_for(&mut self.guard, limit);
    }
}

impl<T, const RANK: u8> Deref for Guard<'_, T, RANK> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T, const RANK: u8> DerefMut for Guard<'_, T, RANK> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// Cell behind a lock with a rank. Its value is read as a copy and replaced as a whole, so the lock
/// is held only briefly.
pub(crate) struct RankedCell<T, const RANK: u8> {
    value: RwLock<T>,
}

impl<T, const RANK: u8> RankedCell<T, RANK> {
    pub(crate) fn new(value: T) -> RankedCell<T, RANK> {
        RankedCell { value: RwLock::new(value) }
    }

    /// Returns a clone of the value.
    ///
    /// # Panics
    /// In debug builds, if the thread holds a lock of this rank or a higher rank.
    pub(crate) fn get(&self) -> T
    where
        T: Clone,
    {
        let _held = HeldRank::<RANK>::take();
        self.value.read().clone()
    }

    /// Replaces the value and returns the earlier value.
    ///
    /// # Panics
    /// In debug builds, if the thread holds a lock of this rank or a higher rank.
    pub(crate) fn replace(&self, value: T) -> T {
        let _held = HeldRank::<RANK>::take();
        std::mem::replace(&mut *self.value.write(), value)
    }
}

/// Marker of a lock that the thread holds. Guards may be dropped in any order, so the held ranks
/// are stored as a bitmap and not as a stack.
struct HeldRank<const RANK: u8>;

#[cfg(debug_assertions)]
thread_local! {
    /// Bitmap of the ranks whose locks this thread holds.
    static HELD_RANKS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

#[cfg(debug_assertions)]
impl<const RANK: u8> HeldRank<RANK> {
    fn take() -> HeldRank<RANK> {
        let held = HELD_RANKS.get();
        assert!(
            held >> RANK == 0,
            "a lock of rank {RANK} is taken under one of rank {}",
            held.checked_ilog2().unwrap_or(0)
        );
        HELD_RANKS.set(held | 1 << RANK);
        HeldRank
    }
}

#[cfg(debug_assertions)]
impl<const RANK: u8> Drop for HeldRank<RANK> {
    fn drop(&mut self) {
        HELD_RANKS.set(HELD_RANKS.get() & !(1 << RANK));
    }
}

#[cfg(not(debug_assertions))]
impl<const RANK: u8> HeldRank<RANK> {
    #[inline(always)]
    fn take() -> HeldRank<RANK> {
        HeldRank
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::{RankedCell, RankedMutex};
    use parking_lot::Condvar;
    use std::time::Duration;

    #[test]
    fn ranks_ascend() {
        let (low, high) = (RankedMutex::<u8, 0>::new(1), RankedMutex::<u8, 2>::new(2));
        let middle = RankedCell::<u8, 1>::new(3);
        let held = low.lock();
        assert_eq!(middle.get(), 3);
        let higher = high.lock();
        // Guards may be dropped in another order than they were acquired.
        drop(held);
        assert_eq!(*higher, 2);
        drop(higher);
        let mut held = low.lock();
        held.wait_timeout(&Condvar::new(), Duration::ZERO);
        assert_eq!((middle.replace(4), *high.lock(), *held), (3, 2, 1));
    }

    #[test]
    #[should_panic(expected = "a lock of rank 1 is taken under one of rank 2")]
    fn a_lower_rank_panics() {
        let (low, high) = (RankedMutex::<(), 1>::new(()), RankedMutex::<(), 2>::new(()));
        let _held = high.lock();
        let _ = low.lock();
    }

    #[test]
    #[should_panic(expected = "a lock of rank 1 is taken under one of rank 1")]
    fn the_same_rank_panics() {
        let mutex = RankedMutex::<(), 1>::new(());
        let _held = mutex.lock();
        let _ = mutex.lock();
    }
}

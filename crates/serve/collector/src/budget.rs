//! Memory budget for messages or answers; a reservation beyond the budget fails at once instead of
//! waiting. Start at [`Budget`].

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Limit on the total size of all reservations, in bytes.
#[derive(Debug)]
pub struct Budget {
    free: AtomicUsize,
}

/// Reservation of bytes in a budget, released on drop.
#[derive(Debug)]
pub struct Reservation {
    budget: Arc<Budget>,
    bytes: usize,
}

/// Error: the budget has fewer free bytes than the reservation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl Budget {
    /// Creates a budget from which `bytes` bytes in total may be reserved.
    pub fn new(bytes: usize) -> Arc<Budget> {
        Arc::new(Budget { free: AtomicUsize::new(bytes) })
    }

    /// Creates a reservation of zero bytes, which can grow.
    pub fn reservation(self: &Arc<Budget>) -> Reservation {
        Reservation { budget: self.clone(), bytes: 0 }
    }

    /// Returns the number of bytes that are not reserved.
    pub fn free(&self) -> usize {
        self.free.load(Ordering::Relaxed)
    }
}

impl Reservation {
    /// Grows the reservation to `bytes` bytes in total; fails if the budget has too few free bytes.
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), Full> {
        let more = bytes.saturating_sub(self.bytes);
        // Relaxed: the counter guards no other memory.
        let taken = self
            .budget
            .free
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| free.checked_sub(more));
        taken.map_err(|_| Full)?;
        self.bytes += more;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.free.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_comes_back() {
        let budget = Budget::new(10);
        let (mut one, mut other) = (budget.reservation(), budget.reservation());
        assert_eq!(one.grow_to(6), Ok(()));
        assert_eq!(one.grow_to(4), Ok(()), "it has them");
        assert_eq!(other.grow_to(5), Err(Full));
        assert_eq!(other.grow_to(4), Ok(()));
        assert_eq!(budget.free(), 0);
        drop(one);
        assert_eq!(other.grow_to(10), Ok(()));
        drop(other);
        assert_eq!(budget.free(), 10);
    }
}

//! Bytes that all share, and nobody waits for. Start at [`Budget`].

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A number of bytes that may be in use at the same time.
#[derive(Debug)]
pub struct Budget {
    free: AtomicUsize,
}

/// A part of a budget, which it gets back when this is dropped.
#[derive(Debug)]
pub struct Hold {
    budget: Arc<Budget>,
    bytes: usize,
}

/// There are not so many bytes at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl Budget {
    /// A budget of so many bytes.
    pub fn new(bytes: usize) -> Arc<Budget> {
        Arc::new(Budget { free: AtomicUsize::new(bytes) })
    }

    /// A part of no bytes, which can grow.
    pub fn hold(self: &Arc<Budget>) -> Hold {
        Hold { budget: self.clone(), bytes: 0 }
    }

    /// How many bytes nobody has.
    pub fn free(&self) -> usize {
        self.free.load(Ordering::Relaxed)
    }
}

impl Hold {
    /// Takes more, until it is so many.
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), Full> {
        let more = bytes.saturating_sub(self.bytes);
        // These are numbers only: no other memory depends on them.
        let taken = self
            .budget
            .free
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| free.checked_sub(more));
        taken.map_err(|_| Full)?;
        self.bytes += more;
        Ok(())
    }
}

impl Drop for Hold {
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
        let (mut one, mut other) = (budget.hold(), budget.hold());
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

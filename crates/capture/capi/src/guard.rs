//! Keeps panics away from callers in C, who could not do anything with them.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What `work` returns; `fallback`, should it panic. To be used with what leaves nothing of this
/// crate half done.
pub(crate) fn quietly<R>(fallback: R, work: impl FnOnce() -> R) -> R {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result,
        Err(payload) => {
            // Dropping what somebody panicked with could panic again.
            mem::forget(payload);
            fallback
        }
    }
}

//! Catches panics, which callers in C cannot handle.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Returns the result of `work`, or `fallback` if it panics. Only for work that leaves no state of
/// this crate inconsistent.
pub(crate) fn catch_panic<R>(fallback: R, work: impl FnOnce() -> R) -> R {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result,
        Err(payload) => {
            // Dropping the panic's payload could panic again.
            mem::forget(payload);
            fallback
        }
    }
}

//! Sampling: decides which requests are recorded, by a ratio and a rate limit. The decision is made
//! when a request starts, or arrives without a decision. All spans of the request use it, so that a
//! request is recorded as a whole or not at all.
//!
//! A decision never waits, and can be made in signal handlers. It makes no system calls, except for
//! a process's first id (see [`id::prepare`]). Rules can be changed at any time; a concurrent
//! decision uses the old rules, the new ones, or one of each.

mod global;
#[cfg(test)]
mod tests;
mod token_bucket;

pub use blkkin_control::sampling::{Limit, Sampling, SamplingError, SamplingReason, VARIABLE};
pub(crate) use global::set_override;
pub use global::{global, set_default};

use crate::context::{Decision, Incoming};
use crate::id;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use token_bucket::TokenBucket;

/// Sampler with a ratio and a rate limit, as set by [`Sampling`]; shared by all threads.
#[derive(Debug)]
pub struct Sampler {
    one_of: AtomicU64,
    /// Threshold for 64-bit random numbers: a request is chosen if its number is not above the
    /// threshold. 0 chooses no request, and `u64::MAX` all.
    chosen_max: AtomicU64,
    bucket: TokenBucket,
}

impl Default for Sampler {
    fn default() -> Sampler {
        Sampler::new()
    }
}

impl Sampler {
    /// Returns a sampler that selects every request.
    pub const fn new() -> Sampler {
        Sampler {
            one_of: AtomicU64::new(1),
            chosen_max: AtomicU64::new(chosen_max(1)),
            bucket: TokenBucket::new(),
        }
    }

    /// Replaces the rules. The token bucket starts full if the limit changes.
    pub fn set(&self, rules: Sampling) {
        self.one_of.store(rules.one_of, Relaxed);
        self.chosen_max.store(chosen_max(rules.one_of), Relaxed);
        self.bucket.set(rules.limit);
    }

    /// Returns the current rules.
    pub fn rules(&self) -> Sampling {
        Sampling { one_of: self.one_of.load(Relaxed), limit: self.bucket.limit() }
    }

    /// Returns the decision for a new or received request: the sender's decision, or one made like
    /// [`root`](Self::root) if the sender's is deferred or absent. `now_ns` is the same as for
    /// `root`.
    #[inline]
    pub fn decide(&self, incoming: Option<&Incoming>, now_ns: impl FnOnce() -> u64) -> Decision {
        match incoming.map(Incoming::decision) {
            Some(decision @ (Decision::No | Decision::Yes | Decision::Debug)) => decision,
            Some(Decision::Deferred) | None => match self.root(now_ns) {
                true => Decision::Yes,
                false => Decision::No,
            },
        }
    }

    /// Returns true if a request that starts in this process is sampled. `now_ns` returns the time
    /// of a monotonic clock in nanoseconds. It is called only if the ratio has chosen the request
    /// and there is a rate limit.
    #[inline]
    pub fn root(&self, now_ns: impl FnOnce() -> u64) -> bool {
        self.root_by(id::make, now_ns)
    }

    /// Decides like [`root`](Self::root), with a random number from `draw`.
    #[inline]
    fn root_by(&self, draw: impl FnOnce() -> NonZeroU64, now_ns: impl FnOnce() -> u64) -> bool {
        let chosen = match self.chosen_max.load(Relaxed) {
            0 => false,
            u64::MAX => true,
            // Random numbers are independent of the trace id: otherwise all sampled requests would
            // agree in some bits of their ids.
            chosen_max => draw().get() <= chosen_max,
        };
        chosen && self.bucket.take(now_ns)
    }
}

/// Returns the threshold for a ratio of 1 in `one_of`. Random numbers are from 1 to 2⁶⁴-1, and are
/// chosen if they are not above the threshold.
const fn chosen_max(one_of: u64) -> u64 {
    match one_of {
        0 => 0,
        _ => u64::MAX / one_of,
    }
}

//! Rate limit by a token bucket, stored as the moment at which the bucket will be full again (the
//! "virtual scheduling algorithm" of ITU-T I.371). The bucket's state is one word, so taking a
//! token is one compare-and-swap, and a refusal stores nothing.

use blkkin_control::sampling::Limit;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Maximum backward step of the clock, in nanoseconds. A larger step means another clock, as after
/// a live migration. The bucket then restarts full, because it would otherwise refuse tokens until
/// the old time is reached again.
const CLOCK_BACK_NS_MAX: u64 = 60_000_000_000;

const NO_LIMIT: u64 = 0;

/// A token bucket. The tokens taken in any period are at most the bucket's size plus the tokens
/// refilled in that period.
#[derive(Debug)]
pub(super) struct TokenBucket {
    /// Refill interval and bucket size in one word, packed by [`pack`], so that a change is atomic.
    limit: AtomicU64,
    /// Time at which the bucket will be full, in nanoseconds; a past time if it is full. Taking a
    /// token stores the later of this time and the present, plus one refill interval.
    full_at_ns: AtomicU64,
    /// The configured limit, as [`TokenBucket::limit`] returns it. The exact rate cannot be
    /// computed from the refill interval, which is rounded.
    configured: AtomicU64,
}

impl TokenBucket {
    pub(super) const fn new() -> TokenBucket {
        TokenBucket {
            limit: AtomicU64::new(NO_LIMIT),
            full_at_ns: AtomicU64::new(0),
            configured: AtomicU64::new(0),
        }
    }

    /// Sets the limit. The bucket starts full if the refill interval or the bucket's size changes.
    pub(super) fn set(&self, limit: Option<Limit>) {
        let packed = limit.map_or(NO_LIMIT, pack);
        let given = |limit: Limit| u64::from(limit.per_second) << 32 | u64::from(limit.burst);
        self.configured.store(limit.map_or(0, given), Relaxed);
        if self.limit.swap(packed, Relaxed) != packed {
            self.full_at_ns.store(0, Relaxed);
        }
    }

    pub(super) fn limit(&self) -> Option<Limit> {
        let given = self.configured.load(Relaxed);
        unpack(self.limit.load(Relaxed))?;
        Some(Limit { per_second: (given >> 32) as u32, burst: given as u32 })
    }

    /// Takes a token from the bucket. Returns false if the bucket is empty.
    #[inline]
    pub(super) fn take(&self, now_ns: impl FnOnce() -> u64) -> bool {
        match unpack(self.limit.load(Relaxed)) {
            Some((interval_ns, burst)) => self.take_limited(interval_ns, burst, now_ns()),
            None => true,
        }
    }

    fn take_limited(&self, interval_ns: u64, burst: u64, now_ns: u64) -> bool {
        let Some(others) = burst.checked_sub(1) else { return false };
        // A token is left if the bucket will be full within `burst - 1` intervals.
        let full_at_max = now_ns.saturating_add(interval_ns * others);
        let mut full_at = self.full_at_ns.load(Relaxed);
        loop {
            let start = if full_at <= full_at_max {
                full_at.max(now_ns)
            } else if full_at - full_at_max > interval_ns + CLOCK_BACK_NS_MAX {
                now_ns
            } else {
                return false;
            };
            // Fails only spuriously, or if another thread has taken a token, so the loop is
            // lock-free.
            let after = start.saturating_add(interval_ns);
            match self.full_at_ns.compare_exchange_weak(full_at, after, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(actual) => full_at = actual,
            }
        }
    }
}

/// Packs the refill interval of a token (upper half) and the bucket's size (lower half). The
/// interval is rounded up: the rate may be lower than configured, but not higher. A burst of 0
/// counts as 1. With a rate of 0 the size is 0, so no token is ever taken.
fn pack(limit: Limit) -> u64 {
    const SECOND_NS: u64 = 1_000_000_000;
    match limit.per_second {
        0 => 1 << 32,
        per_second => SECOND_NS.div_ceil(per_second.into()) << 32 | u64::from(limit.burst.max(1)),
    }
}

/// Unpacks the refill interval in nanoseconds, at most 1 s, and the bucket's size; `None` without a
/// limit.
#[inline]
fn unpack(limit: u64) -> Option<(u64, u64)> {
    if limit == NO_LIMIT { None } else { Some((limit >> 32, limit & u64::from(u32::MAX))) }
}

//! At most so many a second: a bucket of tokens, kept as the one moment at which it will be full
//! again. (The "virtual scheduling algorithm" of ITU-T I.371.) One word holds all that changes, so
//! that taking a token is one exchange, and being refused only a load.

use blkkin_control::sampling::Limit;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A clock that went back by more than this is another clock, as on a machine that moved: the bucket
/// starts anew, instead of waiting until the old time comes again.
const CLOCK_BACK_NS_MAX: u64 = 60_000_000_000;

const NO_LIMIT: u64 = 0;

/// In each time of any length, it gives at most as many tokens as it holds, and those that come in
/// meanwhile.
#[derive(Debug)]
pub(super) struct TokenBucket {
    /// As [`pack`] makes it, so that a change is seen whole.
    limit: AtomicU64,
    /// When it will be full. Each token that is taken is one interval more.
    full_at_ns: AtomicU64,
    /// As it was given, for [`TokenBucket::limit`]: an interval has no exact rate.
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

    /// A limit that differs from the one before starts with a full bucket.
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

    /// Whether there was a token.
    #[inline]
    pub(super) fn take(&self, now_ns: impl FnOnce() -> u64) -> bool {
        match unpack(self.limit.load(Relaxed)) {
            Some((interval_ns, burst)) => self.take_limited(interval_ns, burst, now_ns()),
            None => true,
        }
    }

    fn take_limited(&self, interval_ns: u64, burst: u64, now_ns: u64) -> bool {
        let Some(others) = burst.checked_sub(1) else { return false };
        // There is a token if filling the bucket takes no longer than for all others.
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
            // If it fails, another has taken a token: this is repeated only as often as others
            // succeed.
            let after = start.saturating_add(interval_ns);
            match self.full_at_ns.compare_exchange_weak(full_at, after, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(actual) => full_at = actual,
            }
        }
    }
}

/// The time in which a token comes in, above the number of tokens in a full bucket. The time is
/// rounded up, as a limit may be kept more strictly but not less.
fn pack(limit: Limit) -> u64 {
    const SECOND_NS: u64 = 1_000_000_000;
    match limit.per_second {
        0 => 1 << 32,
        per_second => SECOND_NS.div_ceil(per_second.into()) << 32 | u64::from(limit.burst.max(1)),
    }
}

/// The interval, of at least 1 ns and at most 1 s, and the number of tokens.
#[inline]
fn unpack(limit: u64) -> Option<(u64, u64)> {
    if limit == NO_LIMIT { None } else { Some((limit >> 32, limit & u64::from(u32::MAX))) }
}

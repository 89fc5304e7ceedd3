//! [`Retention`]: selects the files that expire by age or size. Start at [`Retention::expired`].

use crate::clock::Clock;
use crate::files::file_entry::FileEntry;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Limits of age and size for the spans of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retention {
    /// Maximum age of a file's spans, counted from their latest flush or adoption, not from their
    /// start. Older files expire even if the size is within its limit.
    pub age: Option<Duration>,
    /// Maximum total size of span files and indexes, in bytes; the oldest files expire first. Files
    /// that could not be opened and damaged files do not expire, so together they count for at most
    /// half of this limit.
    pub bytes: Option<u64>,
}

/// Divisor of the store's size that gives the minimum of the rate limit for expiry by age, in bytes
/// per minute. The rate limit protects the store from a clock that jumps ahead.
const EXPIRY_DIVISOR: u64 = 20;

const MINUTE: Duration = Duration::from_secs(60);

/// State of the rate limit for expiry by age.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ExpiryRateLimit {
    /// Uptime at which the current minute of the rate limit began.
    minute: Option<Duration>,
    bytes: u64,
}

impl Retention {
    /// Retention without limits, which keeps all spans.
    pub const ALL: Retention = Retention { age: None, bytes: None };

    /// Returns whether this retention may remove spans that `other` keeps: its limit of age or of
    /// size is lower.
    pub fn is_shorter_than(&self, other: &Retention) -> bool {
        let is_less = |one: Option<u128>, other: Option<u128>| {
            one.unwrap_or(u128::MAX) < other.unwrap_or(u128::MAX)
        };
        is_less(self.age.map(|age| age.as_nanos()), other.age.map(|age| age.as_nanos()))
            || is_less(self.bytes.map(u128::from), other.bytes.map(u128::from))
    }

    /// Returns the number of files that expire now; these are the oldest of `files`. `others_bytes`
    /// is the size of files that count for the limit but cannot expire.
    pub(crate) fn expired(
        &self,
        files: &[FileEntry],
        others_bytes: u64,
        clock: &dyn Clock,
        allowance: &mut ExpiryRateLimit,
    ) -> usize {
        let (now_ns, uptime) = (clock.now_ns(), clock.uptime());
        let bytes: u64 = files.iter().map(FileEntry::bytes_on_disk).sum();
        let mut left = bytes + others_bytes;
        let mut count = 0;
        for (file, received_ns) in files.iter().zip(received_times(files, now_ns)) {
            let is_too_much = self.bytes.is_some_and(|bytes_max| left > bytes_max);
            let is_too_old = || {
                let age_ns = self.age.map(|age| u64::try_from(age.as_nanos()).unwrap_or(u64::MAX));
                age_ns.is_some_and(|age_ns| now_ns.saturating_sub(received_ns) > age_ns)
            };
            let goes = is_too_much
                || is_too_old()
                    && allowance.try_spend(
                        file.bytes_on_disk(),
                        self.bytes_a_minute(bytes),
                        uptime,
                    );
            if !goes {
                break;
            }
            left -= file.bytes_on_disk();
            count += 1;
        }
        count
    }

    /// Returns the rate limit for expiry by age, in bytes per minute. If the maximum age is short,
    /// the limit is twice the rate at which data reaches that age.
    fn bytes_a_minute(&self, bytes: u64) -> u64 {
        let age = self.age.unwrap_or(Duration::MAX).max(Duration::from_secs(1));
        let must = (bytes as f64 * (MINUTE.as_secs_f64() / age.as_secs_f64()).min(1.0)) as u64;
        (bytes / EXPIRY_DIVISOR).max(must.saturating_mul(2))
    }
}

/// Returns the time at which each file was received. A time in the future, from a clock that was
/// ahead, is replaced by the time of the next file whose time is not in the future, or by `now_ns`
/// if all later files have times in the future. Otherwise the file would protect all later files
/// from expiry until the clock reaches the file's time.
fn received_times(files: &[FileEntry], now_ns: u64) -> Vec<u64> {
    let mut before_ns = now_ns;
    let mut received: Vec<u64> = files
        .iter()
        .rev()
        .map(|file| {
            if file.received_ns <= now_ns {
                before_ns = file.received_ns;
            }
            before_ns
        })
        .collect();
    received.reverse();
    received
}

impl ExpiryRateLimit {
    /// Returns whether a file of `bytes` bytes may expire within the rate limit. If so, its bytes
    /// are counted. The first file of each minute may expire even if it is larger than the limit.
    fn try_spend(&mut self, bytes: u64, bytes_a_minute: u64, uptime: Duration) -> bool {
        let begins = self.minute.is_none_or(|minute| uptime.saturating_sub(minute) >= MINUTE);
        if begins {
            *self = ExpiryRateLimit { minute: Some(uptime), bytes: 0 };
        }
        let may = begins || self.bytes.saturating_add(bytes) <= bytes_a_minute;
        if may {
            self.bytes += bytes;
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::{ExpiryRateLimit, Retention};
    use crate::clock::Clock;
    use crate::files::file_entry::FileEntry;
    use std::time::Duration;

    const SECOND: u64 = 1_000_000_000;

    /// Clock that stands still.
    #[derive(Default)]
    struct FixedClock {
        now_ns: u64,
        uptime: Duration,
    }

    impl Clock for FixedClock {
        fn now_ns(&self) -> u64 {
            self.now_ns
        }

        fn uptime(&self) -> Duration {
            self.uptime
        }
    }

    /// Returns a clock that shows a time of day, with an uptime of zero.
    fn clock_at(now_seconds: u64) -> FixedClock {
        FixedClock { now_ns: now_seconds * SECOND, ..FixedClock::default() }
    }

    fn files(count: u64) -> Vec<FileEntry> {
        let file = |number| FileEntry {
            number,
            tier: 0,
            spans: 10,
            bytes: 90,
            index_bytes: 10,
            min_start_ns: 0,
            max_start_ns: 0,
            received_ns: number * SECOND,
        };
        (0..count).map(file).collect()
    }

    #[test]
    fn oldest_files_expire_first() {
        let expired = |retention: Retention, now_seconds: u64| {
            let allowance = &mut ExpiryRateLimit::default();
            retention.expired(&files(10), 0, &clock_at(now_seconds), allowance)
        };
        let by_age = Retention { age: Some(Duration::from_secs(60)), bytes: None };
        assert_eq!(expired(by_age, 0), 0);
        assert_eq!(expired(by_age, 60), 0);
        assert_eq!(expired(by_age, 63), 3);
        let by_bytes = Retention { age: None, bytes: Some(250) };
        assert_eq!(expired(by_bytes, 0), 8);
        assert_eq!(expired(Retention { age: None, bytes: None }, 1 << 30), 0);
        let beside_others = |others_bytes| {
            let allowance = &mut ExpiryRateLimit::default();
            by_bytes.expired(&files(10), others_bytes, &clock_at(0), allowance)
        };
        assert_eq!([0, 50, 51, 1000].map(beside_others), [8, 8, 9, 10]);
    }

    #[test]
    fn future_times_do_not_block_expiry() {
        let mut files = files(10);
        for file in &mut files[1..4] {
            file.received_ns += 365 * 86400 * SECOND;
        }
        let retention = Retention { age: Some(Duration::from_secs(60)), bytes: None };
        let expired = |files: &[FileEntry], now_seconds: u64| {
            let mut allowance = ExpiryRateLimit::default();
            retention.expired(files, 0, &clock_at(now_seconds), &mut allowance)
        };
        assert_eq!([61, 62, 64, 65, 66].map(|now| expired(&files, now)), [1, 1, 1, 5, 6]);
        for file in &mut files {
            file.received_ns += 365 * 86400 * SECOND;
        }
        assert_eq!(expired(&files, 1000), 0, "whoever is ahead now came now");
    }

    #[test]
    fn a_clock_that_jumps_costs_little_at_once() {
        let retention = Retention { age: Some(Duration::from_secs(86400)), bytes: None };
        let mut allowance = ExpiryRateLimit::default();
        let mut left = files(1000);
        let year = 365 * 86400 * SECOND;
        for minute in 0..3 {
            for second in 0..60 {
                let uptime = Duration::from_secs(minute * 60 + second);
                let clock = FixedClock { now_ns: year, uptime };
                let count = retention.expired(&left, 0, &clock, &mut allowance);
                left.drain(..count);
            }
            let gone = 1000 - left.len() as u64;
            assert!(gone <= (minute + 1) * 50 && gone > minute * 40, "{gone} in minute {minute}");
        }
    }
}

//! Counters of events with the times of the first and the last occurrence. Start at [`Interval`].

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

/// Interval from the first to the last counted occurrence of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Earliest time of an occurrence, in nanoseconds since 1970: the time of the first occurrence,
    /// unless the clock was set back.
    pub first_ns: u64,
    /// Time of the last occurrence, in nanoseconds since 1970; not before `first_ns`.
    pub last_ns: u64,
}

impl Interval {
    /// Records an occurrence at `now_ns`. The interval then ends at `now_ns`, even if the clock was
    /// set back.
    pub fn extend(interval: &mut Option<Interval>, now_ns: u64) {
        // If the clock was set back, an earlier occurrence may have a later time.
        let first_ns = interval.map_or(now_ns, |interval| interval.first_ns.min(now_ns));
        *interval = Some(Interval { first_ns, last_ns: now_ns });
    }

    /// Returns the smallest interval that covers both intervals.
    pub fn and(self, other: Interval) -> Interval {
        Interval {
            first_ns: self.first_ns.min(other.first_ns),
            last_ns: self.last_ns.max(other.last_ns),
        }
    }
}

/// Counter of an event with the times of the first and the last occurrence, shared by all threads.
#[derive(Debug, Default)]
pub struct DatedCounter {
    count: AtomicU64,
    /// Earliest time of an occurrence, in nanoseconds since 1970; 0 if the event has not occurred.
    first_ns: AtomicU64,
    last_ns: AtomicU64,
}

impl DatedCounter {
    /// Adds `count` occurrences at the current time.
    pub fn add(&self, count: u64) {
        self.add_at(count, time_of_day_ns());
    }

    fn add_at(&self, count: u64, now_ns: u64) {
        if count > 0 {
            let now_ns = now_ns.max(1);
            self.last_ns.store(now_ns, Relaxed);
            let first = |first: u64| (first == 0 || now_ns < first).then_some(now_ns);
            let _ = self.first_ns.fetch_update(Relaxed, Relaxed, first);
            self.count.fetch_add(count, Relaxed);
        }
    }

    /// Returns the number of occurrences since the counter was created.
    pub fn get(&self) -> u64 {
        self.count.load(Relaxed)
    }

    /// Returns the times of the first and the last occurrence; `None` if the event has not
    /// occurred.
    pub fn interval(&self) -> Option<Interval> {
        let (first_ns, last_ns) = (self.first_ns.load(Relaxed), self.last_ns.load(Relaxed));
        // Another thread may have stored only one of the two times.
        (first_ns > 0).then_some(Interval { first_ns, last_ns: last_ns.max(first_ns) })
    }
}

/// Returns the time of day, in nanoseconds since 1970.
pub fn time_of_day_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_time_and_the_last_are_known_wherever_the_clock_jumps() {
        let (counter, mut interval) = (DatedCounter::default(), None);
        assert_eq!((counter.get(), counter.interval()), (0, None));
        counter.add_at(0, 5);
        assert_eq!(counter.interval(), None, "nothing has happened");
        for (now_ns, first_ns) in [(100, 100), (200, 100), (u64::MAX, 100), (50, 50), (70, 50)] {
            counter.add_at(3, now_ns);
            Interval::extend(&mut interval, now_ns);
            assert_eq!(interval, Some(Interval { first_ns, last_ns: now_ns }));
            assert_eq!(counter.interval(), interval);
        }
        assert_eq!(counter.get(), 15);
        let other = Interval { first_ns: 60, last_ns: 80 };
        let both = Interval { first_ns: 50, last_ns: 80 };
        assert_eq!(interval.map(|interval| interval.and(other)), Some(both));
        // An occurrence at time 0 is not mistaken for no occurrence.
        let counter = DatedCounter::default();
        counter.add_at(1, 0);
        assert!(counter.interval().is_some());
    }
}

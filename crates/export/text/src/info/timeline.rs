//! Histogram of events over time, whose time range need not be known in advance.
//!
//! The width of a bucket is a power of two, and its begin a multiple of the width. When more than
//! [`BUCKETS_MAX`] buckets are needed, each pair is joined. So the width depends only on the
//! earliest and the latest time, and the result does not depend on the order of additions and
//! merges.

use std::ops::RangeInclusive;

/// Maximum number of buckets. Joining buckets in pairs leaves about half of this number, which is
/// still more than the columns of the chart and the buckets in JSON.
const BUCKETS_MAX: i64 = 2048;
/// Binary logarithm of the minimum bucket width, which is 2 ns. Distances between narrower buckets
/// would overflow.
const SHIFT_MIN: u32 = 1;

/// Histogram of events over time, with the times of losses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// Binary logarithm of a bucket's width in nanoseconds.
    shift: u32,
    /// Number of the first bucket, which is the begin of the bucket divided by the width.
    first: i64,
    buckets: Vec<Bucket>,
}

/// Number of events in a bucket of time, and a mark for losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bucket {
    pub(crate) events: u64,
    /// Set if a loss overlaps the bucket.
    pub(crate) lost: bool,
}

/// Events and losses in one column of a chart.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Slot {
    pub(crate) events: f64,
    pub(crate) lost: bool,
}

impl Default for Timeline {
    fn default() -> Timeline {
        Timeline { shift: SHIFT_MIN, first: 0, buckets: Vec::new() }
    }
}

impl Timeline {
    /// Counts an event at `time`, in nanoseconds.
    #[inline]
    pub fn add(&mut self, time: i64) {
        let index = (time >> self.shift) - self.first;
        match usize::try_from(index).ok().and_then(|index| self.buckets.get_mut(index)) {
            Some(bucket) => bucket.events += 1,
            None => self.range(time, time)[0].events += 1,
        }
    }

    /// Marks the buckets between two times as affected by a loss.
    pub fn mark_lost(&mut self, from: i64, to: i64) {
        for bucket in self.range(from.min(to), from.max(to)) {
            bucket.lost = true;
        }
    }

    /// Adds all events and losses of another timeline.
    pub fn merge(&mut self, other: &Timeline) {
        let Some(last) = other.last() else { return };
        while self.shift < other.shift {
            self.halve();
        }
        let (from, to) = (other.first << other.shift, last << other.shift);
        self.range(from, to);
        for (bucket, number) in other.buckets.iter().zip(other.first..) {
            let index = (number >> (self.shift - other.shift)) - self.first;
            self.buckets[index as usize].add(*bucket);
        }
    }

    /// Returns the begin of the first bucket, the width of a bucket, and the buckets. Buckets are
    /// joined until there are at most `most`, or two if `most` is less.
    pub(crate) fn buckets(&self, most: usize) -> (i64, u64, Vec<Bucket>) {
        let mut fewer = self.clone();
        while fewer.buckets.len() > most.max(2) {
            fewer.halve();
        }
        (fewer.first << fewer.shift, 1 << fewer.shift, fewer.buckets)
    }

    /// Distributes a range of time over `count` columns of equal width. A bucket that overlaps
    /// several columns is divided in proportion.
    pub(crate) fn slots(&self, span: &RangeInclusive<i64>, count: usize) -> Vec<Slot> {
        let (first, last) = (*span.start(), *span.end());
        let mut slots = vec![Slot::default(); count];
        let width = last.abs_diff(first).saturating_add(1) as f64 / count as f64;
        let place = |time: i64| i128::from(time) - i128::from(first);
        for (bucket, number) in self.buckets.iter().zip(self.first..) {
            let start = i128::from(number << self.shift);
            let end = (start + (1 << self.shift) - i128::from(first)).min(place(last) + 1);
            let start = (start - i128::from(first)).max(0);
            if end <= start || *bucket == Bucket::default() {
                continue;
            }
            let (start, end) = (start as f64 / width, end as f64 / width);
            let columns = start as usize..(end.ceil() as usize).min(count);
            for (column, slot) in
                slots.iter_mut().enumerate().take(columns.end).skip(start as usize)
            {
                let part = end.min(column as f64 + 1.0) - start.max(column as f64);
                slot.events += bucket.events as f64 * part.max(0.0) / (end - start);
                slot.lost |= bucket.lost;
            }
        }
        slots
    }

    fn last(&self) -> Option<i64> {
        (!self.buckets.is_empty()).then(|| self.first + self.buckets.len() as i64 - 1)
    }

    /// Returns the buckets between two times. The timeline grows to contain both.
    #[cold]
    fn range(&mut self, from: i64, to: i64) -> &mut [Bucket] {
        let (low, high) = loop {
            let (low, high) = (from >> self.shift, to >> self.shift);
            let (first, last) = match self.last() {
                None => (low, high),
                Some(last) => (low.min(self.first), high.max(last)),
            };
            if last - first < BUCKETS_MAX {
                break (low, high);
            }
            self.halve();
        };
        if self.buckets.is_empty() {
            self.first = low;
        }
        if low < self.first {
            let missing = (self.first - low) as usize;
            self.buckets.splice(0..0, std::iter::repeat_n(Bucket::default(), missing));
            self.first = low;
        }
        let (start, end) = ((low - self.first) as usize, (high - self.first) as usize + 1);
        if end > self.buckets.len() {
            self.buckets.resize(end, Bucket::default());
        }
        &mut self.buckets[start..end]
    }

    /// Joins each pair of buckets, which doubles their width.
    fn halve(&mut self) {
        let mut wider: Vec<Bucket> = Vec::with_capacity(self.buckets.len() / 2 + 1);
        for (bucket, number) in self.buckets.iter().zip(self.first..) {
            match wider.last_mut() {
                Some(last) if number & 1 == 1 => last.add(*bucket),
                _ => wider.push(*bucket),
            }
        }
        self.shift += 1;
        self.first >>= 1;
        self.buckets = wider;
    }
}

impl Bucket {
    fn add(&mut self, other: Bucket) {
        self.events += other.events;
        self.lost |= other.lost;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times: &[i64]) -> Timeline {
        let mut timeline = Timeline::default();
        for &time in times {
            timeline.add(time);
        }
        timeline
    }

    /// Checks the bucket width and number of buckets of a timeline, and that the order of additions
    /// and merges does not change it. The times are added forwards, backwards, and to three
    /// timelines that are merged in several orders.
    fn check(times: &[i64], losses: &[(i64, i64)], width: u64, buckets: usize) {
        let mut whole = of(times);
        losses.iter().for_each(|&(from, to)| whole.mark_lost(from, to));
        assert_eq!((1 << whole.shift, whole.buckets.len()), (width, buckets), "{times:?}");
        let events: u64 = whole.buckets.iter().map(|bucket| bucket.events).sum();
        assert_eq!(events, times.len() as u64);

        let mut backwards = Timeline::default();
        losses.iter().rev().for_each(|&(from, to)| backwards.mark_lost(from, to));
        times.iter().rev().for_each(|&time| backwards.add(time));
        assert_eq!(backwards, whole);

        let mut parts = vec![Timeline::default(); 3];
        for (index, &time) in times.iter().enumerate() {
            parts[index % 3].add(time);
        }
        for (index, &(from, to)) in losses.iter().enumerate() {
            parts[index % 3].mark_lost(from, to);
        }
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let mut merged = Timeline::default();
            order.iter().for_each(|&part| merged.merge(&parts[part]));
            assert_eq!(merged, whole);
        }
    }

    #[test]
    fn width_follows_the_span_and_order_does_not_matter() {
        check(&[], &[], 2, 0);
        check(&[5], &[], 2, 1);
        check(&[5, 4], &[], 2, 1);
        check(&[5, 6], &[], 2, 2);
        check(&[-3, 4000], &[], 2, 2003);
        check(&[0, 4095], &[], 2, 2048);
        check(&[0, 4096], &[], 4, 1025);
        check(&[-1, 4096], &[], 4, 1026);
        check(&[0, 1_000_000_000, 17, -999_999_999, 5], &[], 1 << 20, 1908);
        check(&[i64::MIN, i64::MAX, 0, i64::MAX], &[], 1 << 53, 2048);
        check(&[i64::MAX, i64::MIN], &[(i64::MIN, i64::MAX)], 1 << 53, 2048);
        check(&[], &[(0, 1 << 40), (-5, 3)], 1 << 30, 1026);
        let many: Vec<i64> = (0..10_000).map(|step| (step * 7919 % 10_007) * 1_000_003).collect();
        check(&many, &[(77, 1_000_000), (50, 60)], 1 << 23, 1193);
    }

    #[test]
    fn columns_share_what_lies_between_them() {
        let check = |times: &[i64], span: RangeInclusive<i64>, expected: &[f64]| {
            let slots = of(times).slots(&span, expected.len());
            let events: Vec<f64> = slots.iter().map(|slot| slot.events).collect();
            assert_eq!(events, expected, "{times:?}");
        };
        check(&[0, 1, 2, 3, 2], 0..=3, &[2.0, 3.0]);
        check(&[0, 2], 0..=3, &[0.5, 0.5, 0.5, 0.5]);
        check(&[1], 1..=1, &[0.5, 0.5]);
        check(&[100], 0..=3, &[0.0]);
        check(&[], 0..=0, &[0.0]);
        check(&[i64::MIN, i64::MAX], i64::MIN..=i64::MAX, &[1.0, 0.0, 1.0]);
        let mut timeline = of(&[0, 99]);
        timeline.mark_lost(40, 55);
        let lost: Vec<bool> = timeline.slots(&(0..=99), 5).iter().map(|slot| slot.lost).collect();
        assert_eq!(lost, [false, false, true, false, false]);
    }

    #[test]
    fn fewer_buckets() {
        let (start, width, buckets) = of(&[8, 9, 15, 40]).buckets(3);
        assert_eq!((start, width), (0, 16));
        assert_eq!(buckets.iter().map(|bucket| bucket.events).collect::<Vec<_>>(), [3, 0, 1]);
    }
}

//! Comparison of the own time of spans. The own time of a span is the part of its duration in which
//! no child ran; tags of the span say on what it was spent ([`blkkin_model::own_time_ns`]).
//! Start at [`OwnTimeTally`].

use blkkin_model::OWN_TIME_PREFIX;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Maximum number of kinds of own time that are compared.
const KINDS_MAX: usize = 64;
/// Maximum number of keys with times of disk requests that are compared.
const DISK_KEYS_MAX: usize = 256;
/// Maximum size of a key whose times are compared, in bytes.
const KEY_BYTES_MAX: usize = 512;

/// Mean times inside and outside of a box, by the keys of the tags that contain them. Only spans
/// with a known own time count, which are those that have a tag with a kind of own time. A span
/// without the tag of another key has spent no such time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnTimeDifference {
    /// Number of spans inside the box with a known own time.
    pub inside: u64,
    /// Number of examined spans outside the box with a known own time.
    pub outside: u64,
    /// Number of spans inside the box whose own time is not known.
    pub unknown_inside: u64,
    /// Number of examined spans outside the box whose own time is not known.
    pub unknown_outside: u64,
    /// Times in order of the absolute difference, largest first, and then of the key. Empty if
    /// [`Self::inside`] or [`Self::outside`] is 0.
    pub times: Vec<MeanTime>,
    /// Number of times that `times` does not contain, because a key is too long or there are too
    /// many keys. The first keys in alphabetical order are kept.
    pub omitted: u64,
}

/// Mean time of a span inside and outside of a box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeanTime {
    /// Key of the tags that contain the time.
    pub key: String,
    /// Mean of the spans inside, rounded to whole nanoseconds.
    pub inside_ns: u64,
    /// Mean of the spans outside, rounded to whole nanoseconds.
    pub outside_ns: u64,
}

impl MeanTime {
    /// Returns by how much the mean is larger inside than outside, in nanoseconds.
    pub fn difference_ns(&self) -> i64 {
        self.inside_ns.cast_signed().saturating_sub(self.outside_ns.cast_signed())
    }
}

/// Sums of the times of spans inside and outside of a box, with bounded memory. The result does not
/// depend on the order in which spans are added and tallies merged.
#[derive(Debug)]
pub(crate) struct OwnTimeTally {
    /// Number of spans with a known own time, inside the box and outside.
    spans: [u64; 2],
    kinds: KeySums,
    disks: KeySums,
    omitted: u64,
}

/// Sums by key. Beyond `most` keys, the first in alphabetical order are kept: a key that is removed
/// once cannot become one of them again, so the sums of the kept keys are complete.
#[derive(Debug)]
struct KeySums {
    most: usize,
    sums: BTreeMap<String, Sum>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    /// Number of times in the sums.
    times: u64,
    /// Sum inside the box and sum outside, in nanoseconds.
    ns: [u128; 2],
}

impl Default for OwnTimeTally {
    fn default() -> OwnTimeTally {
        OwnTimeTally {
            spans: [0; 2],
            kinds: KeySums { most: KINDS_MAX, sums: BTreeMap::new() },
            disks: KeySums { most: DISK_KEYS_MAX, sums: BTreeMap::new() },
            omitted: 0,
        }
    }
}

impl KeySums {
    /// Adds a sum to that of a key. Returns the number of times that are no longer kept.
    fn add(&mut self, key: &str, more: Sum) -> u64 {
        if let Some(sum) = self.sums.get_mut(key) {
            sum.times += more.times;
            sum.ns[0] += more.ns[0];
            sum.ns[1] += more.ns[1];
            return 0;
        }
        if key.len() > KEY_BYTES_MAX {
            return more.times;
        }
        if self.sums.len() >= self.most
            && self.sums.last_key_value().is_some_and(|(last, _)| key > last.as_str())
        {
            return more.times;
        }
        self.sums.insert(key.to_owned(), more);
        if self.sums.len() <= self.most {
            return 0;
        }
        self.sums.pop_last().map_or(0, |(_, removed)| removed.times)
    }
}

impl OwnTimeTally {
    /// Adds the times of one span inside or outside the box, each with its key. They do not count
    /// if none of them is a kind of own time.
    pub(crate) fn add_span(&mut self, is_inside: bool, times: &[(&str, u64)]) {
        if !times.iter().any(|(key, _)| key.starts_with(OWN_TIME_PREFIX)) {
            return;
        }
        let side = usize::from(!is_inside);
        self.spans[side] += 1;
        for (key, time) in times {
            let mut sum = Sum { times: 1, ns: [0; 2] };
            sum.ns[side] = u128::from(*time);
            self.add(key, sum);
        }
    }

    /// Adds the sums of another tally.
    pub(crate) fn merge(&mut self, other: &OwnTimeTally) {
        self.spans[0] += other.spans[0];
        self.spans[1] += other.spans[1];
        self.omitted += other.omitted;
        other.kinds.sums.iter().chain(&other.disks.sums).for_each(|(key, sum)| self.add(key, *sum));
    }

    fn add(&mut self, key: &str, sum: Sum) {
        let is_kind = key.starts_with(OWN_TIME_PREFIX);
        self.omitted += if is_kind { &mut self.kinds } else { &mut self.disks }.add(key, sum);
    }

    /// Returns the means. `all` are the numbers of all spans inside and outside the box.
    pub(crate) fn finish(self, all: [u64; 2]) -> OwnTimeDifference {
        let OwnTimeTally { spans: [inside, outside], kinds, disks, omitted } = self;
        let mean = |sum: u128, spans: u64| {
            let spans = u128::from(spans);
            // The mean of numbers up to `i64::MAX` is at most `i64::MAX`.
            u64::try_from((sum + spans / 2) / spans).unwrap_or(u64::MAX)
        };
        let mut times: Vec<MeanTime> = Vec::new();
        if inside > 0 && outside > 0 {
            times.extend(kinds.sums.into_iter().chain(disks.sums).map(|(key, sum)| MeanTime {
                key,
                inside_ns: mean(sum.ns[0], inside),
                outside_ns: mean(sum.ns[1], outside),
            }));
        }
        let rank = |time: &MeanTime| Reverse(time.difference_ns().unsigned_abs());
        times.sort_by(|one, other| (rank(one), &one.key).cmp(&(rank(other), &other.key)));
        OwnTimeDifference {
            inside,
            outside,
            unknown_inside: all[0].saturating_sub(inside),
            unknown_outside: all[1].saturating_sub(outside),
            times,
            omitted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(difference: &OwnTimeDifference) -> Vec<String> {
        let lines = difference.times.iter().map(|time| {
            let MeanTime { key, inside_ns, outside_ns } = time;
            format!("{key} {inside_ns} {outside_ns} {}", time.difference_ns())
        });
        lines.collect()
    }

    #[test]
    fn a_span_without_a_key_has_spent_no_such_time() {
        let mut tally = OwnTimeTally::default();
        tally.add_span(true, &[("blkkin.own.disk", 8), ("blkkin.disk.vda.served", 7)]);
        tally.add_span(true, &[("blkkin.own.running", 3)]);
        tally.add_span(false, &[("blkkin.own.running", 4)]);
        // The own time of these is not known.
        tally.add_span(false, &[("blkkin.disk.vda.served", 1000)]);
        tally.add_span(false, &[]);
        let difference = tally.finish([2, 3]);
        let OwnTimeDifference { inside, outside, unknown_inside, unknown_outside, .. } = difference;
        assert_eq!((inside, outside, unknown_inside, unknown_outside), (2, 1, 0, 2));
        let expected =
            ["blkkin.disk.vda.served 4 0 4", "blkkin.own.disk 4 0 4", "blkkin.own.running 2 4 -2"];
        assert_eq!(lines(&difference), expected);
    }

    #[test]
    fn there_is_nothing_to_compare_with_no_span() {
        let mut tally = OwnTimeTally::default();
        tally.add_span(true, &[("blkkin.own.disk", 8)]);
        let difference = tally.finish([1, 9]);
        assert_eq!((difference.inside, difference.unknown_outside), (1, 9));
        assert_eq!(difference.times, []);
    }

    #[test]
    fn the_largest_times_have_a_mean() {
        let mut tally = OwnTimeTally::default();
        for _ in 0..3 {
            tally.add_span(true, &[("blkkin.own.disk", i64::MAX as u64)]);
            tally.add_span(false, &[("blkkin.own.lock", i64::MAX as u64)]);
        }
        let most = i64::MAX;
        let expected = [
            format!("blkkin.own.disk {most} 0 {most}"),
            format!("blkkin.own.lock 0 {most} -{most}"),
        ];
        assert_eq!(lines(&tally.finish([3, 3])), expected);
    }

    /// Beyond the maximum number of keys, the first keys are kept with complete sums, in whatever
    /// order the spans come and however they are distributed to tallies.
    #[test]
    fn the_number_of_keys_is_limited() {
        let count = 4 * DISK_KEYS_MAX as u64;
        let keys: Vec<String> =
            (0..count).map(|at| format!("blkkin.disk.{:05}", at * 7 % count)).collect();
        let long = format!("blkkin.own.{}", "x".repeat(KEY_BYTES_MAX));
        let mut tallies = [(); 3].map(|()| OwnTimeTally::default());
        for round in 0..6 {
            for (at, key) in keys.iter().enumerate() {
                let times = [("blkkin.own.disk", 1), (long.as_str(), 1), (key.as_str(), 1)];
                let place = (at + round) % tallies.len();
                tallies[place].add_span(round % 2 == 0, &times);
            }
        }
        let [mut all, one, other] = tallies;
        all.merge(&one);
        all.merge(&other);
        let kept = |key: &str| all.disks.sums[key].times;
        assert_eq!(all.disks.sums.len(), DISK_KEYS_MAX);
        assert_eq!((kept("blkkin.disk.00000"), kept("blkkin.disk.00255")), (6, 6));
        let omitted = 6 * count + 6 * (count - DISK_KEYS_MAX as u64);
        let difference = all.finish([3 * count, 3 * count]);
        assert_eq!((difference.omitted, difference.times.len()), (omitted, DISK_KEYS_MAX + 1));
    }
}

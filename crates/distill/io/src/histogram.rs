//! Histogram with logarithmic buckets, each divided linearly: percentiles of values of any size,
//! with a relative error of at most 1.6 %.

/// Number of buckets between two powers of two.
const STEPS: u64 = 32;
/// Binary logarithm of [`STEPS`].
const STEPS_LOG2: u32 = STEPS.trailing_zeros();

/// Histogram of unsigned numbers. Only buckets with values take memory, at most 1,920 of 10 bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Indexes of the buckets that have values, in ascending order.
    indexes: Vec<u16>,
    /// Number of values in each of these buckets.
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    max: u64,
}

impl Histogram {
    /// Adds a value.
    pub fn add(&mut self, value: u64) {
        self.add_to_bucket(bucket(value));
        self.count += 1;
        self.sum += u128::from(value);
        self.max = self.max.max(value);
    }

    fn add_to_bucket(&mut self, index: u16) {
        match self.indexes.binary_search(&index) {
            Ok(at) => self.counts[at] += 1,
            Err(at) => {
                self.indexes.insert(at, index);
                self.counts.insert(at, 1);
            }
        }
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the sum of the values, at most `u64::MAX`.
    pub fn sum(&self) -> u64 {
        u64::try_from(self.sum).unwrap_or(u64::MAX)
    }

    /// Returns the largest value; 0 without values.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Returns the mean of the values; 0 without values.
    pub fn mean(&self) -> u64 {
        u64::try_from(self.sum / u128::from(self.count.max(1))).unwrap_or(u64::MAX)
    }

    /// Returns a percentile: the middle of its bucket, or exactly the largest value if the rank is
    /// the last. Returns 0 without values.
    pub fn percentile(&self, percent: f64) -> u64 {
        let rank = (percent / 100.0 * self.count as f64).ceil().max(1.0) as u64;
        if rank >= self.count {
            return self.max;
        }
        let mut count = 0;
        for (index, own) in self.indexes.iter().zip(&self.counts) {
            count += own;
            if count >= rank {
                return middle(*index).min(self.max);
            }
        }
        self.max
    }

    /// Returns the number of values in each of the ranges that `limits` separate: values below the
    /// first limit, from there to the second, and so on. `limits` are in ascending order. A value
    /// counts as the middle of its bucket.
    pub fn ranges(&self, limits: &[u64]) -> Vec<u64> {
        let mut counts = vec![0; limits.len() + 1];
        for (index, count) in self.indexes.iter().zip(&self.counts) {
            let value = middle(*index);
            counts[limits.partition_point(|limit| *limit <= value)] += count;
        }
        counts
    }

    /// Returns the number of buckets that have values.
    pub(crate) fn bucket_count(&self) -> usize {
        self.indexes.len()
    }
}

/// Returns the index of a value's bucket. Values below [`STEPS`] have buckets of their own.
fn bucket(value: u64) -> u16 {
    if value < STEPS {
        return value as u16;
    }
    let exponent = value.ilog2() - STEPS_LOG2;
    // The leading bit of the shifted value is that of `STEPS`.
    ((u64::from(exponent) + 1) * STEPS + (value >> exponent) - STEPS) as u16
}

/// Returns the middle of a bucket.
fn middle(index: u16) -> u64 {
    let index = u64::from(index);
    if index < STEPS {
        return index;
    }
    let exponent = index / STEPS - 1;
    let start = (index % STEPS + STEPS) << exponent;
    start + ((1 << exponent) - 1) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_narrow() {
        let powers = (0..64).map(|bit| 1_u64 << bit);
        let values = powers.flat_map(|power| [power - 1, power, power + power / 3, power + 1]);
        for value in values.chain([u64::MAX]) {
            let found = middle(bucket(value));
            let error = found.abs_diff(value) as f64 / value.max(1) as f64;
            assert!(error <= 0.016, "{value}: {found}");
        }
        assert_eq!(bucket(u64::MAX), 1919);
    }

    #[test]
    fn percentiles() {
        let mut histogram = Histogram::default();
        assert_eq!((histogram.percentile(50.0), histogram.mean()), (0, 0));
        (1..=1000).for_each(|value| histogram.add(value));
        let check = |percent, expected: u64| {
            let found = histogram.percentile(percent);
            assert!(found.abs_diff(expected) as f64 <= 0.016 * expected as f64, "{found}");
        };
        check(50.0, 500);
        check(90.0, 900);
        check(99.0, 990);
        check(0.0, 1);
        check(100.0, 1000);
        assert_eq!((histogram.max(), histogram.sum(), histogram.mean()), (1000, 500_500, 500));
        assert_eq!(histogram.ranges(&[16, 512, 4096]), [15, 496, 489, 0]);
        histogram.add(u64::MAX);
        assert_eq!(histogram.percentile(100.0), u64::MAX);
    }
}

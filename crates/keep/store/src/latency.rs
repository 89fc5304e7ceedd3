//! Mergeable histograms of durations: [`Durations`].

use blkkin_model::{SpanId, TraceId};

/// Number of bits after the leading bit of a duration. These bits select its bucket among the
/// durations with the same leading bit.
const DIGITS: u32 = 6;

/// Mergeable histogram of durations. The middle of a bucket differs from each of its durations by
/// at most one part in 128.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    /// Pairs of code and count, ascending by code. No count is 0.
    counts: Vec<(u16, u64)>,
}

/// Latency of the spans that match a query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latency {
    /// Histogram of all matching spans.
    pub durations: Durations,
    /// Example spans, at most a few for each power of two of the duration, in order of duration.
    pub examples: Vec<Example>,
}

/// Span given as an example for a duration in a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Example {
    /// Id of the request to which the span belongs.
    pub trace_id: TraceId,
    /// Id of the span within its request.
    pub id: SpanId,
    /// Duration of the span in nanoseconds.
    pub duration_ns: u64,
}

impl Durations {
    /// Returns the code of a duration: the number of its bucket. Durations in one bucket differ by
    /// less than one part in 64. A longer duration has the same or a greater code.
    #[inline]
    pub const fn code(duration_ns: u64) -> u16 {
        if duration_ns < 1 << DIGITS {
            return duration_ns as u16;
        }
        let shift = duration_ns.ilog2() - DIGITS;
        ((shift as u16) << DIGITS) + (duration_ns >> shift) as u16
    }

    /// Returns the shortest duration in the bucket with this code, in nanoseconds.
    pub const fn least(code: u16) -> u64 {
        if code < 1 << DIGITS {
            return code as u64;
        }
        let shift = (code >> DIGITS) - 1;
        ((code as u64 & ((1 << DIGITS) - 1)) | 1 << DIGITS) << shift
    }

    /// Returns the longest duration in the bucket with this code, in nanoseconds.
    pub const fn greatest(code: u16) -> u64 {
        if code < 1 << DIGITS {
            code as u64
        } else {
            Durations::least(code) + ((1 << ((code >> DIGITS) - 1)) - 1)
        }
    }

    /// Adds `count` durations to the bucket with this code.
    pub fn add(&mut self, code: u16, count: u64) {
        // Fast path: codes mostly arrive in ascending order.
        if count > 0 && self.counts.last().is_none_or(|&(last, _)| last < code) {
            return self.counts.push((code, count));
        }
        match self.counts.binary_search_by_key(&code, |&(code, _)| code) {
            Ok(at) => self.counts[at].1 = self.counts[at].1.saturating_add(count),
            Err(at) if count > 0 => self.counts.insert(at, (code, count)),
            Err(_) => {}
        }
    }

    /// Adds the counts of another histogram to this one.
    pub fn merge(&mut self, other: &Durations) {
        for &(code, count) in &other.counts {
            self.add(code, count);
        }
    }

    /// Returns the nonempty buckets as pairs of code and count, ascending by code.
    pub fn counts(&self) -> &[(u16, u64)] {
        &self.counts
    }

    /// Returns the number of durations in the histogram.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, &(_, count)| sum.saturating_add(count))
    }

    /// Returns the quantile at `share`, from 0 to 1, in nanoseconds. Its error is at most one part
    /// in 128. `None` if the histogram is empty.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        self.quantiles([share]).map(|[quantile]| quantile)
    }

    /// Returns the quantiles at several shares like [`Self::quantile`]. The shares must be
    /// ascending.
    pub fn quantiles<const N: usize>(&self, shares: [f64; N]) -> Option<[u64; N]> {
        let count = (!self.counts.is_empty()).then(|| self.count())?;
        let mut counts = self.counts.iter();
        let (mut code, mut sum) = (0, 0u64);
        Some(shares.map(|share| {
            let wanted = ((share.clamp(0.0, 1.0) * count as f64).ceil() as u64).max(1);
            while sum < wanted
                && let Some(&(of, count)) = counts.next()
            {
                (code, sum) = (of, sum.saturating_add(count));
            }
            let (least, greatest) = (Durations::least(code), Durations::greatest(code));
            least + (greatest - least) / 2
        }))
    }
}

/// Collects pairs of code and count in any order.
impl FromIterator<(u16, u64)> for Durations {
    fn from_iter<I: IntoIterator<Item = (u16, u64)>>(counts: I) -> Durations {
        // Collecting from a vector reuses its allocation.
        let counts: Vec<_> = counts.into_iter().filter(|&(_, count)| count > 0).collect();
        if counts.is_sorted_by(|(one, _), (other, _)| one < other) {
            return Durations { counts };
        }
        let mut sum = Durations::default();
        counts.into_iter().for_each(|(code, count)| sum.add(code, count));
        sum
    }
}

impl FromIterator<u64> for Durations {
    fn from_iter<I: IntoIterator<Item = u64>>(durations: I) -> Durations {
        let mut sum = Durations::default();
        for duration in durations {
            sum.add(Durations::code(duration), 1);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::Durations;

    #[test]
    fn codes_are_in_order_and_have_no_gaps() {
        let mut next = 0;
        for code in 0..=Durations::code(u64::MAX) {
            assert_eq!(Durations::least(code), next, "{code}");
            assert_eq!(Durations::code(next), code);
            let last = Durations::greatest(code);
            assert_eq!(Durations::code(last), code);
            next = last.wrapping_add(1);
        }
        assert_eq!(next, 0, "all of 64 bits have a code");
    }

    #[test]
    fn quantiles_are_near() {
        let durations: Durations = (1..=10_000).map(|number| number * 1000).collect();
        for (share, expected) in [(0.0, 1e3), (0.5, 5e6), (0.99, 9.9e6), (1.0, 1e7)] {
            let found = durations.quantile(share).expect("there are some") as f64;
            assert!((found / expected - 1.0).abs() < 1.0 / 64.0, "{share}: {found}");
        }
        assert_eq!(Durations::default().quantile(0.5), None);
        let shares = [0.0, 0.1, 0.1, 0.999, 1.0];
        let one_by_one = shares.map(|share| durations.quantile(share).expect("there are some"));
        assert_eq!(durations.quantiles(shares), Some(one_by_one));
        let same = |code| Durations { counts: vec![(code, 7)] };
        assert_eq!(same(9).quantiles([0.0, 1.0]), Some([9, 9]));
    }

    #[test]
    fn codes_are_added_in_any_order() {
        let mut durations = Durations::default();
        for (code, count) in [(5, 1), (9, 2), (5, 3), (7, 1), (9, 0), (11, 0), (2, 4), (9, 1)] {
            durations.add(code, count);
        }
        assert_eq!(durations.counts(), [(2, 4), (5, 4), (7, 1), (9, 3)]);
    }
}

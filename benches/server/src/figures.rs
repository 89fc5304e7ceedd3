//! Figures of a run: processor time of this process, and percentiles of latencies.

use nix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

/// Returns the processor time of all threads of this process, in seconds.
pub(crate) fn own_cpu_seconds() -> f64 {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)
        .map_or(0.0, |time| time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9)
}

/// Returns the nearest-rank percentile of figures in ascending order: the smallest figure that at
/// least `percent` per cent of the figures do not exceed. Returns 0 without figures.
pub(crate) fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

/// Returns the count and the percentiles of latencies as JSON.
pub(crate) fn latencies(mut ns: Vec<u64>) -> Value {
    ns.sort_unstable();
    let at = |percent| percentile(&ns, percent);
    json!({"count": ns.len(), "p50_ns": at(50), "p99_ns": at(99), "max_ns": at(100)})
}

#[cfg(test)]
mod tests {
    use super::{latencies, percentile};

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let figures: Vec<u64> = (1..=200).collect();
        assert_eq!(
            [0, 1, 50, 99, 100].map(|percent| percentile(&figures, percent)),
            [1, 2, 100, 198, 200]
        );
        assert_eq!(percentile(&[7], 50), 7);
        assert_eq!(percentile(&[], 50), 0);
        assert_eq!(latencies(vec![3, 1, 2])["p50_ns"], 2);
    }
}

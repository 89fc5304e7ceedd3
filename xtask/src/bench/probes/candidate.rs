//! A recorder with its runs, by case, and figures of them. Start at [`Candidate`].

use super::recorder::{Recorder, Run};
use crate::measure::{median, percentile};

/// A recorder under measurement.
pub(super) struct Candidate {
    pub(super) recorder: Box<dyn Recorder>,
    /// Runs of each case.
    pub(super) runs: Vec<Vec<Run>>,
    /// Set if a peer has failed. It is not started again.
    pub(super) has_failed: bool,
}

/// Sums over all runs of a case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Delivery {
    pub(super) attempted: u64,
    pub(super) delivered: u64,
    /// Losses that the recorder tells.
    pub(super) lost: u64,
}

impl Delivery {
    /// Returns the delivered part in percent. More than all is an error in counting, and shows.
    pub(super) fn percent(&self) -> f64 {
        100.0 * self.delivered as f64 / self.attempted.max(1) as f64
    }
}

impl Candidate {
    pub(super) fn new(recorder: Box<dyn Recorder>, cases: usize) -> Candidate {
        Candidate { recorder, runs: vec![Vec::new(); cases], has_failed: false }
    }

    /// Returns a percentile of the cost in a case: of each run, the median over its blocks.
    pub(super) fn cost_ns(&self, case: usize, percent: usize) -> f64 {
        let mut costs: Vec<f64> = self.runs[case].iter().map(|run| run.cost.median_ns).collect();
        costs.sort_by(f64::total_cmp);
        percentile(&costs, percent)
    }

    /// Returns the median of the mean cost in a case.
    pub(super) fn mean_ns(&self, case: usize) -> f64 {
        median(self.runs[case].iter().map(|run| run.cost.mean_ns).collect())
    }

    /// Returns the median of the differences between a run and the run of `bare` in the same round.
    pub(super) fn added_ns(&self, bare: &Candidate, case: usize) -> Option<f64> {
        let pairs = self.runs[case].iter().zip(&bare.runs[case]);
        let differences: Vec<f64> =
            pairs.map(|(run, bare)| run.cost.median_ns - bare.cost.median_ns).collect();
        (!differences.is_empty()).then(|| median(differences))
    }

    /// Returns the sums over all runs of a case; `None` if nothing is recorded.
    pub(super) fn delivery(&self, case: usize) -> Option<Delivery> {
        let runs = &self.runs[case];
        let delivered = runs.iter().map(|run| run.delivered).sum::<Option<u64>>()?;
        (!runs.is_empty()).then(|| Delivery {
            attempted: runs.iter().map(|run| run.attempted).sum(),
            delivered,
            lost: runs.iter().filter_map(|run| run.lost).sum(),
        })
    }

    /// Returns the recorder's processor time for one system call of the load, in nanoseconds.
    pub(super) fn recorder_ns(&self, case: usize) -> Option<f64> {
        let of = |run: &Run| Some(run.usage?.cpu_seconds * 1e9 / run.attempted.max(1) as f64);
        let costs = self.runs[case].iter().map(of).collect::<Option<Vec<f64>>>()?;
        (!costs.is_empty()).then(|| median(costs))
    }

    /// Returns the recorder's peak resident memory over all runs of a case, in bytes.
    pub(super) fn rss_bytes_max(&self, case: usize) -> Option<u64> {
        self.runs[case].iter().filter_map(|run| Some(run.usage?.rss_bytes_max)).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::probes::background::Usage;
    use crate::bench::probes::load::Cost;
    use crate::bench::probes::recorder::Bare;

    fn candidate(costs: &[f64], delivered: Option<u64>) -> Candidate {
        let run = |&median_ns: &f64| Run {
            cost: Cost { median_ns, mean_ns: median_ns + 1.0 },
            attempted: 1000,
            delivered,
            lost: delivered.map(|delivered| 1000 - delivered),
            usage: Some(Usage { cpu_seconds: 0.5, rss_bytes_max: 1 << 20 }),
        };
        let runs = vec![costs.iter().map(run).collect()];
        Candidate { runs, ..Candidate::new(Box::new(Bare), 1) }
    }

    /// A machine that becomes slower during the bench changes both runs of a round alike.
    #[test]
    fn added_costs_are_of_the_same_round() {
        let bare = candidate(&[100.0, 200.0, 300.0], None);
        let recorded = candidate(&[150.0, 251.0, 352.0], Some(999));
        assert_eq!(recorded.added_ns(&bare, 0), Some(51.0));
        assert_eq!(recorded.cost_ns(0, 50), 251.0);
        assert_eq!(recorded.mean_ns(0), 252.0);
        assert_eq!(candidate(&[], None).added_ns(&bare, 0), None);
    }

    #[test]
    fn deliveries_are_summed() {
        let recorded = candidate(&[1.0, 2.0], Some(999));
        let expected = Delivery { attempted: 2000, delivered: 1998, lost: 2 };
        assert_eq!(recorded.delivery(0), Some(expected));
        assert_eq!(expected.percent(), 99.9);
        assert_eq!(recorded.rss_bytes_max(0), Some(1 << 20));
        assert_eq!(recorded.recorder_ns(0), Some(500_000.0));
        assert_eq!(candidate(&[1.0], None).delivery(0), None);
        assert_eq!(candidate(&[], None).delivery(0), None);
    }
}

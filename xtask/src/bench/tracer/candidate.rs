//! Candidates of the bench: a [`Tracer`] for each library, and the cost and events of its runs.

use super::case::{Case, Kind, KindRole};
use super::program::Cost;
use crate::measure::percentile;

/// A tracer to measure, with the program that records events through it.
pub(super) trait Tracer {
    fn name(&self) -> &'static str;

    /// Returns whether this kind of operation is measured with the tracer. Floors do not depend on
    /// the tracer, so only one tracer has them.
    fn records(&self, kind: &Kind) -> bool;

    /// Runs the program once, for one case. Counts the recorded events, if a session records any.
    fn run(&self, case: &Case) -> Result<Run, String>;
}

/// Cost and recorded events of one run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) cost: Cost,
    pub(super) delivery: Delivery,
}

/// Numbers of a run's events, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Delivery {
    /// All events that the program has tried to record, including those of the warm-up.
    pub(super) tried: u64,
    /// Events in the trace; in [`Mode::Overwrite`](super::case::Mode::Overwrite), the trace is the
    /// snapshot.
    pub(super) recorded: u64,
    /// Events that newer events have overwritten.
    pub(super) overwritten: u64,
    /// Events that were dropped because the buffers were full.
    pub(super) lost: u64,
}

/// A tracer with a case, and the results of its runs.
pub(super) struct Candidate<'a> {
    pub(super) tracer: &'a dyn Tracer,
    pub(super) case: Case,
    pub(super) runs: Vec<Run>,
}

impl Candidate<'_> {
    /// Returns the title of the table to which the candidate belongs.
    pub(super) fn table(&self) -> &'static str {
        if self.case.kind.what == KindRole::Floor { "floors" } else { self.case.mode.title() }
    }

    /// Returns a percentile of one figure of the cost, over all runs.
    pub(super) fn percentile(&self, percent: usize, figure: impl Fn(&Cost) -> f64) -> f64 {
        let mut figures: Vec<f64> = self.runs.iter().map(|run| figure(&run.cost)).collect();
        figures.sort_by(f64::total_cmp);
        percentile(&figures, percent)
    }

    /// Returns the numbers of events, summed over all runs.
    pub(super) fn delivery(&self) -> Delivery {
        self.runs.iter().fold(Delivery::default(), |sum, Run { delivery, .. }| Delivery {
            tried: sum.tried + delivery.tried,
            recorded: sum.recorded + delivery.recorded,
            overwritten: sum.overwritten + delivery.overwritten,
            lost: sum.lost + delivery.lost,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tracer::case::{EVENTS, cases};

    /// A candidate's costs are percentiles over its runs, and its numbers of events are sums.
    #[test]
    fn runs_are_summed_up() {
        struct Nobody;
        impl Tracer for Nobody {
            fn name(&self) -> &'static str {
                "nobody"
            }
            fn records(&self, _: &Kind) -> bool {
                false
            }
            fn run(&self, case: &Case) -> Result<Run, String> {
                Err(format!("{case:?}"))
            }
        }
        let run = |ns: f64, lost| Run {
            cost: Cost { wall_ns: ns, cpu_ns: 2.0 * ns, loop_ns: 0.5, events_tried: 10 },
            delivery: Delivery { tried: 10, recorded: 9 - lost, overwritten: 1, lost },
        };
        let case = cases(EVENTS).pop().expect("cases");
        let runs = vec![run(30.0, 0), run(10.0, 4), run(20.0, 1)];
        let candidate = Candidate { tracer: &Nobody, case, runs };
        assert_eq!(candidate.percentile(50, |cost| cost.wall_ns), 20.0);
        assert_eq!(candidate.percentile(90, |cost| cost.cpu_ns), 60.0);
        let sum = Delivery { tried: 30, recorded: 22, overwritten: 3, lost: 5 };
        assert_eq!(candidate.delivery(), sum);
    }
}

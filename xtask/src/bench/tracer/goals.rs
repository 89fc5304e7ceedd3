//! Goals for the measured loops. [`of_loops`] searches the candidates for the figures. The figures
//! are processor times, on which other processes have the least influence. Unless noted otherwise,
//! a figure is from one thread in [`Mode::Overwrite`], so that no reader runs at the same time.

use super::blkkin::{C, LAYER, RUST};
use super::candidate::Candidate;
use super::case::Mode;
use super::open_telemetry::OPEN_TELEMETRY;
use crate::bench::goal::{Goal, Rival};
use crate::bench::report::Report;

const LTTNG_UST: &str = "LTTng-UST";

/// Key of a measured figure: kind, mode and number of threads.
#[derive(Clone, Copy)]
struct Figure {
    kind: &'static str,
    mode: Mode,
    threads: u64,
}

impl Figure {
    fn of(kind: &'static str) -> Figure {
        Figure { kind, mode: Mode::Overwrite, threads: 1 }
    }

    /// Returns the median processor time of a tracer in nanoseconds; `None` if it was not measured.
    fn find(&self, candidates: &[Candidate<'_>], tracer: &str) -> Option<f64> {
        let candidate = candidates.iter().find(|one| {
            (one.tracer.name(), one.case.kind.name) == (tracer, self.kind)
                && (one.case.mode, one.case.threads) == (self.mode, self.threads)
        })?;
        Some(candidate.percentile(50, |cost| cost.cpu_ns))
    }
}

/// Reports all goals for the loops.
pub(super) fn of_loops(report: &mut Report, candidates: &[Candidate<'_>]) {
    let mut add = |goal: Goal, tracer: &str, of: Figure, times_min: Option<f64>| {
        let measured = of.find(candidates, LTTNG_UST);
        let rival = measured.is_some() || times_min.is_some();
        let rival = rival.then_some(Rival { name: LTTNG_UST, measured, times_min });
        report.goal(Goal { rival, ..goal.measured(of.find(candidates, tracer)) });
    };
    let goal = |wanted, what: &str| Goal::at_most(wanted, " ns", what);
    let one = Figure::of("one");
    let annotation = Figure::of("annotation");
    let child = Figure::of("blkin-span");
    let busy = |of: Figure| Figure { threads: 64, ..of };
    let off = |of: Figure| Figure { mode: Mode::Off, ..of };

    add(goal(14.0, "one integer").limit(16.0), RUST, one, Some(8.0));
    add(goal(20.0, "nine fields, C strings").limit(28.0), C, annotation, Some(8.0));
    add(goal(25.0, "nine fields, Rust"), RUST, annotation, None);
    for (tracer, language) in [(C, "C"), (RUST, "Rust")] {
        let what = format!("child span, two annotations, {language}");
        add(goal(45.0, &what).limit(60.0), tracer, child, None);
        let what = format!("{what}, 64 threads");
        add(goal(70.0, &what), tracer, busy(child), None);
    }
    add(goal(35.0, "child span that is one event"), RUST, Figure::of("span"), None);
    add(goal(0.8, "disabled event"), RUST, off(one), None);
    add(goal(2.0, "disabled annotation, C"), C, off(annotation), None);
    add(goal(3.0, "span that is not followed"), RUST, Figure::of("unsampled-span"), None);
    add(goal(15.0, "enter and exit of a span"), RUST, Figure::of("enter"), None);
    add(goal(3.0, "… that is not followed"), RUST, Figure::of("unsampled-enter"), None);

    for (what, tracer, of) in [
        ("one integer", RUST, one),
        ("nine fields, C strings", C, annotation),
        ("child span, two annotations, C", C, child),
    ] {
        let ratio = |tracer: &str| {
            let two = Figure { threads: 2, ..of }.find(candidates, tracer)?;
            Some(busy(of).find(candidates, tracer)? / two)
        };
        let rival = Rival { name: LTTNG_UST, measured: ratio(LTTNG_UST), times_min: None };
        let goal = Goal::at_most(1.2, " ×", format!("64 threads to 2: {what}"));
        report.goal(goal.measured(ratio(tracer)).rival(rival));
    }

    let span = Figure::of("tracing-span");
    let rival = span.find(candidates, OPEN_TELEMETRY);
    let rival = Rival { name: OPEN_TELEMETRY, measured: rival, times_min: None };
    let goal = Goal::times(4.0, "span of the tracing crate, three fields", rival);
    report.goal(goal.measured(span.find(candidates, LAYER)));
}

//! `cargo xtask bench tracer`: cost of recording for the traced program. Each tracer ([`Tracer`])
//! has a program that performs the same operations in a loop (`benches/tracer`); [`cases`] lists
//! the operations and modes. All candidates run in turn. Recorded events are counted, so that
//! dropped events do not pass for cheap ones.
//!
//! A further tracer needs a program with the same output as `benches/tracer/harness.c` (in C: that
//! file and a table of kinds), and a [`Tracer`] in the list in [`run`].
//!
//! Measurements that need no such loop are in separate modules: [`sustained_rate`], [`latency`],
//! [`idle`]. [`goals`] has the goals.

mod blkkin;
mod fixed_rate;
mod goals;
mod idle;
mod latency;
mod lttng_ust;
mod open_telemetry;
mod program;
mod recorded;
mod sustained_rate;

use super::agent::Agent;
use super::recipe::Output;
use super::{Options, Report};
use crate::measure::{Table, percentile};
use crate::tools::{at, target_dir};
use blkkin::{Blkkin, Language};
use lttng_ust::LttngUst;
use open_telemetry::OpenTelemetry;
use program::Cost;
use serde_json::json;
use std::fs;

/// Number of events in a run. It is so large that the first of 64 threads is still running when the
/// last one starts, and that LTTng's annotations nearly fill large buffers.
const EVENTS: u64 = 64 * 14_000;
const EVENTS_QUICK: u64 = EVENTS / 8;

/// Factor for the number of operations in runs that record no event, because such operations are
/// cheap.
const OFF_TIMES: u64 = 16;

const THREADS: [u64; 3] = [1, 2, 64];

/// A kind of operation that programs perform in a loop.
#[derive(Debug, PartialEq)]
struct Kind {
    /// Name of the kind in arguments of the programs.
    name: &'static str,
    /// Name of the kind in tables.
    title: &'static str,
    /// Number of events that one operation records.
    events: u64,
    what: KindRole,
}

/// Role of a kind of operation in the bench.
#[derive(Clone, Copy, Debug, PartialEq)]
enum KindRole {
    /// An operation that records no event: reading the time, with or without copying bytes. Its
    /// cost is a lower bound for the cost of an event with as many bytes.
    Floor,
    /// An operation that is measured in all modes.
    Event,
    /// An additional kind, measured only with one thread in [`Mode::Overwrite`]. If it has no
    /// events, it is a cheap operation.
    Additional,
}

const fn event(name: &'static str, title: &'static str, events: u64) -> Kind {
    Kind { name, title, events, what: KindRole::Event }
}

const fn floor(name: &'static str, title: &'static str) -> Kind {
    Kind { name, title, events: 1, what: KindRole::Floor }
}

const fn aside(name: &'static str, title: &'static str, events: u64) -> Kind {
    Kind { name, title, events, what: KindRole::Additional }
}

const KINDS: [Kind; 10] = [
    floor("time", "reading the time"),
    floor("16-bytes", "… and copying 16 bytes"),
    floor("75-bytes", "… and copying 75 bytes"),
    event("one", "one integer", 1),
    event("annotation", "annotation of nine fields", 1),
    event("blkin-annotation", "… as blkin makes it", 1),
    event("blkin-span", "child span, two annotations", 2),
    event("span", "child span that is one event", 1),
    aside("unsampled-span", "… of a request that is not followed", 0),
    aside("tracing-span", "span of the tracing crate, three fields", 1),
];

/// A mode of recording: where events are stored, if at all.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    /// Events are not recorded, because no session enables them.
    Off,
    /// New events overwrite the oldest in buffers of default size. A snapshot is written after the
    /// program's end.
    Overwrite,
    /// Buffers of default size are written to files in memory. Events are dropped while the buffers
    /// are full.
    Discard,
    /// Like [`Mode::Discard`], with buffers that hold all events of a run.
    Large,
}

impl Mode {
    fn title(self) -> &'static str {
        match self {
            Mode::Off => "not recorded",
            Mode::Overwrite => "overwriting, default buffers",
            Mode::Discard => "written, default buffers",
            Mode::Large => "written, large buffers",
        }
    }
}

/// A measured combination of kind, mode and number of threads.
#[derive(Clone, Debug, PartialEq)]
struct Case {
    kind: &'static Kind,
    mode: Mode,
    threads: u64,
    operations: u64,
}

/// A tracer to measure, with the program that records events through it.
trait Tracer {
    fn name(&self) -> &'static str;

    /// Returns whether this kind of operation is measured with the tracer. Floors do not depend on
    /// the tracer, so only one tracer has them.
    fn records(&self, kind: &Kind) -> bool;

    /// Runs the program once, for one case. Counts the recorded events, if a session records any.
    fn run(&self, case: &Case) -> Result<Run, String>;
}

/// Cost and recorded events of one run.
#[derive(Clone, Copy, Debug)]
struct Run {
    cost: Cost,
    delivery: Delivery,
}

/// Numbers of a run's events, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Delivery {
    /// All events that the program has tried to record, including those of the warm-up.
    tried: u64,
    /// Events in the trace; in [`Mode::Overwrite`], the trace is the snapshot.
    recorded: u64,
    /// Events that newer events have overwritten.
    overwritten: u64,
    /// Events that were dropped because the buffers were full.
    lost: u64,
}

pub(super) fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    let events = if options.quick { EVENTS_QUICK } else { EVENTS };
    let rounds = if options.quick { 1 } else { 5 };
    let folder = target_dir().join("bench/tracer");
    fs::create_dir_all(&folder).map_err(at(&folder))?;
    let blkkin = super::blkkin::build_with(&blkkin::PACKAGES)?;
    let place = Output::in_memory("agent")?;
    let agent = Agent::start(&blkkin, &place.0)?;
    let layer = open_telemetry::build()?;
    let tracers: [Box<dyn Tracer + '_>; 6] = [
        Box::new(LttngUst::new(&folder, &blkkin)?),
        Box::new(Blkkin::new(Language::C, &agent, &folder, &blkkin)?),
        Box::new(Blkkin::new(Language::Rust, &agent, &folder, &blkkin)?),
        Box::new(Blkkin::layer(&agent, &layer, &blkkin)?),
        Box::new(OpenTelemetry { program: layer.clone(), is_bare: true }),
        Box::new(OpenTelemetry { program: layer, is_bare: false }),
    ];

    let mut candidates = Vec::new();
    for case in cases(events) {
        for tracer in tracers.iter().filter(|tracer| tracer.records(case.kind)) {
            candidates.push(Candidate {
                tracer: tracer.as_ref(),
                case: case.clone(),
                runs: Vec::new(),
            });
        }
    }
    report.say(format!("measuring: {} candidates, {rounds} rounds", candidates.len()));
    for _ in 0..rounds {
        for candidate in &mut candidates {
            candidate.runs.push(candidate.tracer.run(&candidate.case)?);
        }
    }
    report.say(format!(
        "\nnanoseconds for an operation, medians of {rounds} runs; events of all runs"
    ));
    report.say(
        "wall: of a thread's time; CPU: of all processors' time, without the tracer's daemons",
    );
    report.say("loop: the same loop and arguments with no tracer, not subtracted\n");
    for table in candidates.chunk_by(|left, right| left.table() == right.table()) {
        report_table(report, table);
    }
    goals::of_loops(report, &candidates);
    let place = fixed_rate::Place { agent: &agent, blkkin: &blkkin, folder: &folder };
    idle::measure(report, &place, options.quick)?;
    latency::measure(report, &place, options.quick)?;
    sustained_rate::measure(report, &place, options.quick)
}

/// Returns all cases, in the order of the tables.
fn cases(events: u64) -> Vec<Case> {
    let are = |what: KindRole| KINDS.iter().filter(move |kind| kind.what == what);
    let mut cases = Vec::new();
    for kind in are(KindRole::Floor).chain(are(KindRole::Event)) {
        cases.push(Case { kind, mode: Mode::Off, threads: 1, operations: OFF_TIMES * events });
    }
    for mode in [Mode::Overwrite, Mode::Discard, Mode::Large] {
        for kind in are(KindRole::Event) {
            for threads in THREADS {
                cases.push(Case { kind, mode, threads, operations: events / kind.events });
            }
        }
        for kind in are(KindRole::Additional).filter(|_| mode == Mode::Overwrite) {
            let operations = if kind.events == 0 { OFF_TIMES * events } else { events };
            cases.push(Case { kind, mode, threads: 1, operations });
        }
    }
    cases
}

/// A tracer with a case, and the results of its runs.
struct Candidate<'a> {
    tracer: &'a dyn Tracer,
    case: Case,
    runs: Vec<Run>,
}

impl Candidate<'_> {
    /// Returns the title of the table to which the candidate belongs.
    fn table(&self) -> &'static str {
        if self.case.kind.what == KindRole::Floor { "floors" } else { self.case.mode.title() }
    }

    /// Returns a percentile of one figure of the cost, over all runs.
    fn percentile(&self, percent: usize, figure: impl Fn(&Cost) -> f64) -> f64 {
        let mut figures: Vec<f64> = self.runs.iter().map(|run| figure(&run.cost)).collect();
        figures.sort_by(f64::total_cmp);
        percentile(&figures, percent)
    }

    /// Returns the numbers of events, summed over all runs.
    fn delivery(&self) -> Delivery {
        self.runs.iter().fold(Delivery::default(), |sum, Run { delivery, .. }| Delivery {
            tried: sum.tried + delivery.tried,
            recorded: sum.recorded + delivery.recorded,
            overwritten: sum.overwritten + delivery.overwritten,
            lost: sum.lost + delivery.lost,
        })
    }
}

/// Prints the table of the given candidates, and adds a row for each.
fn report_table(report: &mut Report, candidates: &[Candidate<'_>]) {
    let Some(first) = candidates.first() else { return };
    let title = first.table();
    let header = [
        title,
        "tracer",
        "threads",
        "wall",
        "min",
        "p10",
        "p90",
        "CPU",
        "loop",
        "tried",
        "recorded",
        "overwritten",
        "lost",
    ];
    let is_recorded = first.case.mode != Mode::Off;
    let columns = if is_recorded { header.len() } else { header.len() - 4 };
    let mut table = Table::new(&header[..columns]);
    for candidate in candidates {
        let Case { kind, threads, operations, .. } = candidate.case;
        let wall = |percent| candidate.percentile(percent, |cost| cost.wall_ns);
        let cpu = candidate.percentile(50, |cost| cost.cpu_ns);
        let idle = candidate.percentile(50, |cost| cost.loop_ns);
        let delivery = candidate.delivery();
        let mut cells = vec![
            kind.title.to_owned(),
            if kind.what == KindRole::Floor {
                String::new()
            } else {
                candidate.tracer.name().to_owned()
            },
            threads.to_string(),
        ];
        cells.extend([wall(50), wall(0), wall(10), wall(90), cpu, idle].map(show_ns));
        let Delivery { tried, recorded, overwritten, lost } = delivery;
        cells.extend([tried, recorded, overwritten, lost].map(|count| count.to_string()));
        cells.truncate(columns);
        table.row(cells);
        report.row(json!({
            "table": title,
            "kind": kind.name,
            "tracer": candidate.tracer.name(),
            "threads": threads,
            "operations": operations,
            "events_per_operation": kind.events,
            "wall_ns_median": wall(50),
            "wall_ns_min": wall(0),
            "wall_ns_p10": wall(10),
            "wall_ns_p90": wall(90),
            "cpu_ns_median": cpu,
            "loop_ns_median": idle,
            "events_tried": tried,
            "events_recorded": recorded,
            "events_overwritten": overwritten,
            "events_lost": lost,
        }));
    }
    report.say(table.render());
}

fn show_ns(ns: f64) -> String {
    if ns < 9.95 { format!("{ns:.2}") } else { format!("{ns:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All threads of a case have equal numbers of operations, and no case is listed twice.
    #[test]
    fn cases_are_divisible() {
        for events in [EVENTS, EVENTS_QUICK] {
            let cases = cases(events);
            for (index, case) in cases.iter().enumerate() {
                assert_eq!(case.operations % case.threads, 0, "{case:?}");
                assert!(!cases[..index].contains(case), "{case:?}");
            }
        }
    }

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

    #[test]
    fn small_figures_have_more_digits() {
        assert_eq!(show_ns(0.554), "0.55");
        assert_eq!(show_ns(9.96), "10.0");
        assert_eq!(show_ns(126.04), "126.0");
    }
}

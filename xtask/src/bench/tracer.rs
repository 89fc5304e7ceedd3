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
mod candidate;
mod case;
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
use super::options::Options;
use super::recipe::Output;
use super::report::Report;
use crate::measure::Table;
use crate::tools::{at, target_dir};
use blkkin::{Blkkin, Language};
use candidate::{Candidate, Delivery, Tracer};
use case::{Case, EVENTS, EVENTS_QUICK, KindRole, Mode, cases};
use lttng_ust::LttngUst;
use open_telemetry::OpenTelemetry;
use serde_json::json;
use std::fs;

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
    use super::show_ns;

    #[test]
    fn small_figures_have_more_digits() {
        assert_eq!(show_ns(0.554), "0.55");
        assert_eq!(show_ns(9.96), "10.0");
        assert_eq!(show_ns(126.04), "126.0");
    }
}

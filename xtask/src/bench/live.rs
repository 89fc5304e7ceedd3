//! `cargo xtask bench live`: time from the record of an event until a viewer at a relay prints it,
//! and the processor time of all daemons in between. The same for LTTng, with its default live
//! timer and with a short one. Each event contains the time at which it was recorded.
//!
//! A tracer is a [`Chain`]: daemons, a relay, and a viewer on loopback. [`measurement`] records
//! events at a rate and reads the viewer's output.

mod blkkin;
mod chain;
mod lttng;
mod measurement;
mod processes;

use super::goal::{Goal, Rival};
use super::lttng::Daemon;
use super::options::Options;
use super::recipe::Output;
use super::report::Report;
use crate::measure::{Table, percentile};
use crate::tools::{at, target_dir};
use blkkin::Blkkin;
use chain::Chain;
use lttng::Lttng;
use measurement::Measurement;
use serde_json::json;
use std::fs;
use std::time::Duration;

/// Cases, each with a rate in events a second and a duration in seconds.
const RATES: [(u64, u64); 4] = [(1, 60), (10, 20), (100, 10), (1000, 10)];
const RATES_QUICK: [(u64, u64); 2] = [(10, 4), (1000, 3)];
/// Time without events in which the daemons' processor time is measured.
const IDLE: Duration = Duration::from_secs(10);
const IDLE_QUICK: Duration = Duration::from_secs(2);
const DEFAULT_TIMER: Duration = Duration::from_secs(1);
const SHORT_TIMER: Duration = Duration::from_millis(1);
/// Processor time per time below which daemons count as idle, in percent. An interrupt during a
/// measurement is charged to the process that it interrupts.
const IDLE_PERCENT: f64 = 0.01;

/// A tracer with its name in tables, and the start of its chain, which ends on drop.
struct Tracer<'t> {
    name: &'static str,
    start: Box<dyn Fn() -> Result<Box<dyn Chain + 't>, String> + 't>,
}

pub(super) fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    let folder = target_dir().join("bench/live");
    fs::create_dir_all(&folder).map_err(at(&folder))?;
    let blkkin = match &options.blkkin {
        Some(program) => program.to_string_lossy().into_owned(),
        None => super::blkkin::build_with(&["blkkin-bench-tracer"])?,
    };
    let program = Lttng::build(&folder)?;
    let daemon = Daemon::start()?;
    let with_timer = |name, timer| Tracer {
        name,
        start: Box::new({
            let (daemon, folder, program) = (&daemon, &folder, &program);
            move || {
                let place = Output::below(folder, name)?;
                Ok(Box::new(Lttng::start(daemon, program, place, timer)?))
            }
        }),
    };
    let own = || -> Result<Box<dyn Chain>, String> {
        Ok(Box::new(Blkkin::start(&blkkin, Output::below(&folder, "own")?)?))
    };
    let tracers = [
        Tracer { name: "BlkKin", start: Box::new(own) },
        with_timer("LTTng", DEFAULT_TIMER),
        with_timer("LTTng, 1 ms", SHORT_TIMER),
    ];
    let rates: &[(u64, u64)] = if options.quick { &RATES_QUICK } else { &RATES };
    let mut goals = measure_rates(report, &tracers, rates)?;
    goals.push(measure_idle(report, &tracers, if options.quick { IDLE_QUICK } else { IDLE })?);
    goals.into_iter().for_each(|goal| report.goal(goal));
    Ok(())
}

/// Measures each tracer at each rate in turn. Returns the goals.
fn measure_rates(
    report: &mut Report,
    tracers: &[Tracer<'_>],
    rates: &[(u64, u64)],
) -> Result<Vec<Goal>, String> {
    let mut table = Table::new(&[
        "events/s",
        "tracer",
        "events",
        "missing",
        "median, ms",
        "p90, ms",
        "p99, ms",
        "max, ms",
        "daemons, %",
        "viewer, %",
    ]);
    let mut goals = Vec::new();
    for &(rate, seconds) in rates {
        let mut measured = Vec::new();
        for Tracer { name, start } in tracers {
            let of = |error| format!("{name}: {error}");
            let one = start()
                .and_then(|chain| measurement::measure(chain.as_ref(), rate, seconds))
                .map_err(of)?;
            if measured.is_empty() && one.missing > 0 {
                return Err(of(format!("{} events were not printed", one.missing)));
            }
            table.row(row(rate, name, &one));
            report.row(to_json(rate, name, &one));
            measured.push(one);
        }
        goals.extend(goals_at(rate, &measured));
    }
    report.say(table.render());
    report.say("daemons, viewer: percent of one processor\n");
    Ok(goals)
}

/// Measures each tracer while nothing happens. Returns the goal.
fn measure_idle(
    report: &mut Report,
    tracers: &[Tracer<'_>],
    duration: Duration,
) -> Result<Goal, String> {
    let mut percents = Vec::new();
    let mut table = Table::new(&["nothing happens", "daemons, %", "viewer, %"]);
    for Tracer { name, start } in tracers {
        let load = start()
            .and_then(|chain| measurement::idle(chain.as_ref(), duration))
            .map_err(|error| format!("{name}: {error}"))?;
        table.row(vec![(*name).to_owned(), percent(load.daemons), percent(load.viewer)]);
        report.row(json!({
            "table": "idle",
            "tracer": name,
            "daemons_percent": load.daemons,
            "viewer_percent": load.viewer,
        }));
        percents.push(load.daemons);
    }
    report.say(table.render());
    let rival = Rival { name: "LTTng, 1 ms", measured: percents.last().copied(), times_min: None };
    Ok(Goal::at_most(IDLE_PERCENT, " %", "processor time of the daemons while nothing happens")
        .measured(percents.first().copied())
        .rival(rival))
}

fn goals_at(rate: u64, measured: &[Measurement]) -> Vec<Goal> {
    let (Some(own), Some(default)) = (measured.first(), measured.get(1)) else { return Vec::new() };
    let p99 = |one: &Measurement| percentile(&one.latencies_ms, 99);
    let latency = Goal::at_most(0.3, " ms", format!("record to viewer, p99, {rate} a second"));
    let rival = Rival { name: "LTTng", measured: Some(p99(default)), times_min: None };
    let load = Goal::at_most(2.0, " %", format!("processor time of the daemons, {rate} a second"));
    let short = measured.last().map(|one| one.load.daemons);
    let by_short = Rival { name: "LTTng, 1 ms", measured: short, times_min: None };
    vec![
        latency.limit(2.0).measured(Some(p99(own))).rival(rival),
        load.measured(Some(own.load.daemons)).rival(by_short),
    ]
}

fn row(rate: u64, name: &str, one: &Measurement) -> Vec<String> {
    let mut cells = vec![rate.to_string(), name.to_owned(), one.latencies_ms.len().to_string()];
    cells.push(one.missing.to_string());
    let figures = [50, 90, 99, 100].map(|percent| percentile(&one.latencies_ms, percent));
    cells.extend(figures.map(|ms| format!("{ms:.3}")));
    cells.extend([percent(one.load.daemons), percent(one.load.viewer)]);
    cells
}

fn percent(figure: f64) -> String {
    format!("{figure:.2}")
}

fn to_json(rate: u64, name: &str, one: &Measurement) -> serde_json::Value {
    let figure = |percent| percentile(&one.latencies_ms, percent);
    json!({
        "table": "live",
        "tracer": name,
        "rate": rate,
        "events": one.latencies_ms.len(),
        "missing": one.missing,
        "latency_ms_median": figure(50),
        "latency_ms_p90": figure(90),
        "latency_ms_p99": figure(99),
        "latency_ms_max": figure(100),
        "daemons_percent": one.load.daemons,
        "viewer_percent": one.load.viewer,
    })
}

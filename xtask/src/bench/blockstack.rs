//! `cargo xtask bench blockstack`: cost of tracing a chain of block storage, in requests a second
//! under fio, and size of the chain's spans on disk. With `--write-docs` it writes
//! `docs/evaluation.md` and its pictures.
//!
//! [`tracing_switch`] compares modes of tracing within one run of a server, [`server_comparison`]
//! compares servers, and [`bytes`] measures files. [`document`] writes the text of the results, and
//! [`plot`] draws the pictures.

mod bytes;
mod document;
mod figures;
mod fio;
mod plot;
mod recorded;
mod results;
mod server_comparison;
mod servers;
mod stage;
mod tracing_switch;

use super::machine;
use super::options::Options;
use super::report::Report;
use super::serving::program::Program;
use crate::measure::Table;
use crate::peers::in_path;
use bytes::Bytes;
use figures::{Quartiles, grouped};
use fio::{LOADS, Load};
use recorded::Recorded;
use results::{Results, goals};
use server_comparison::Beside;
use stage::{Setup, Stage, build_untraced};
use std::process::Command;
use std::time::{Duration, Instant};
use tracing_switch::{Cell, TARGETS, Target};

const ROUNDS: usize = 11;
const ROUNDS_QUICK: usize = 3;

/// Duration of a slice in seconds. A slice is the part of a measurement in which the mode does not
/// change.
const SECONDS: f64 = 0.5;

const PHASES: [&str; 4] = ["alone", "chain", "beside", "bytes"];

pub(super) fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    let begin = Instant::now();
    let machine = machine::description();
    let wants =
        |phase: &str| options.phase.is_empty() || options.phase.iter().any(|it| it == phase);
    if let Some(other) = options.phase.iter().find(|name| !PHASES.contains(&name.as_str())) {
        return Err(format!("no phase `{other}`; there is {}", PHASES.join(", ")));
    }
    if options.write_docs && !options.phase.is_empty() {
        return Err(
            "the document has all phases in it: --write-docs goes without --phase".to_owned()
        );
    }
    let fio = fio::version()?;
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 || !in_path(servers::TASKSET)
    {
        return Err(
            "a server and its load each need a processor, and `taskset` to stay there".to_owned()
        );
    }
    let nbdkit = nbdkit_version();
    let stage = Stage::new(options)?;
    let untraced = build_untraced(&stage.disk)?;
    let rounds = options.rounds.unwrap_or(if options.quick { ROUNDS_QUICK } else { ROUNDS });
    let seconds = options.seconds.unwrap_or(SECONDS);
    let slice = Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|slice| *slice >= Duration::from_millis(300) && rounds > 0)
        .ok_or("it takes a round at least, and slices of 0.3 seconds")?;
    let setup = Setup { stage, untraced, rounds, slice };

    let (cells, besides, bytes, skipped) = (Vec::new(), Vec::new(), None, Vec::new());
    let took = Duration::ZERO;
    let mut found = Results { cells, beside: besides, bytes, skipped, fio, nbdkit, took };
    if found.nbdkit.is_none() {
        found.skipped.push("nbdkit, which is not installed".to_owned());
    }
    for target in TARGETS.into_iter().filter(|target| wants(target.phase())) {
        for load in LOADS {
            let cell = tracing_switch::measure(&setup, target, load)?;
            report.row(cell.json());
            found.cells.push(cell);
        }
        tell_cells(report, &found.cells, target);
    }
    if wants("beside") {
        for load in LOADS.into_iter().filter(Load::reads) {
            let beside = server_comparison::measure(&setup, load, found.nbdkit.is_some())?;
            report.row(beside.json());
            tell_beside(report, &beside);
            found.beside.push(beside);
        }
    }
    if wants("bytes") {
        let mut bytes = measure_bytes(&setup.stage, options, report)?;
        found.skipped.extend(bytes.skipped.take());
        found.bytes = Some(bytes);
    }
    found.skipped.iter().for_each(|what| report.say(format!("skipped: {what}")));
    setup.stage.tell_complaints(report);
    found.took = begin.elapsed();
    for goal in goals(&found) {
        report.goal(goal);
    }
    if options.write_docs {
        document::write(&found, &setup, &machine)?;
        report.say("docs/evaluation.md and its pictures have been written");
    }
    Ok(())
}

/// Measures the size of a span on disk. The spans are from real traces; all other benches use
/// synthetic spans. `bench server` calls this function.
pub(super) fn bytes_of_real_traces(options: &Options, report: &mut Report) -> Result<(), String> {
    if let Err(why) = fio::version() {
        report.say(format!("skipped: {why}"));
        return Ok(());
    }
    let stage = Stage::new(options)?;
    let bytes = measure_bytes(&stage, options, report)?;
    bytes.skipped.iter().for_each(|what| report.say(format!("skipped: {what}")));
    stage.tell_complaints(report);
    report.goal(bytes.goal());
    Ok(())
}

fn measure_bytes(stage: &Stage, options: &Options, report: &mut Report) -> Result<Bytes, String> {
    // The program of `benches/server` counts the spans in a store's files.
    let bytes = bytes::measure(stage, &Program::built(), options.quick)?;
    report.row(bytes.json());
    tell_bytes(report, &bytes);
    Ok(bytes)
}

fn nbdkit_version() -> Option<String> {
    let output = in_path("nbdkit").then(|| Command::new("nbdkit").arg("--version").output());
    let text = String::from_utf8_lossy(&output?.ok()?.stdout).trim().to_owned();
    Some(text)
}

fn percent(figures: Quartiles) -> String {
    format!("{:.2} %", figures.median)
}

fn tell_cells(report: &Report, cells: &[Cell], target: Target) {
    let mut table = Table::new(&[
        target.name(),
        "followed",
        "IOPS",
        "less by",
        "median surely",
        "server, µs/IO",
        "more",
        "agent",
        "events/IO",
        "lost",
    ]);
    for cell in cells.iter().filter(|cell| cell.target == target) {
        for measured in &cell.measured {
            let recorded = measured.recorded;
            let or_nothing = |text: Option<String>| text.unwrap_or_default();
            table.row(vec![
                cell.load.name.to_owned(),
                measured.mode.name().to_owned(),
                grouped(measured.rate.median),
                percent(measured.cost()),
                measured.cost().bounds(),
                format!("{:.2}", cell.off_cpu_us),
                format!("{:+.3}", measured.cpu_us()),
                format!("{:.1} %", 100.0 * measured.agent_share),
                or_nothing(recorded.map(|it| format!("{:.2}", it.events_a_request()))),
                or_nothing(recorded.map(|it| it.lost.to_string())),
            ]);
        }
    }
    report.say(table.render());
}

fn tell_beside(report: &Report, beside: &Beside) {
    let mut table = Table::new(&[
        beside.load.name,
        "IOPS",
        "server, µs/IO",
        "less by",
        "median surely",
        "than",
    ]);
    for measured in &beside.measured {
        let cost = beside.cost(measured.who).as_deref().and_then(Quartiles::of);
        let or_nothing = |text: Option<String>| text.unwrap_or_default();
        table.row(vec![
            measured.who.name().to_owned(),
            grouped(measured.rate().median),
            format!("{:.2}", measured.cpu_us()),
            or_nothing(cost.map(percent)),
            or_nothing(cost.map(|cost| cost.bounds())),
            or_nothing(measured.who.baseline().map(|who| who.name().to_owned())),
        ]);
    }
    report.say(table.render());
}

fn tell_bytes(report: &Report, bytes: &Bytes) {
    let mut table = Table::new(&["spans of the chain on disk", "bytes a span"]);
    for (name, bytes) in bytes.all() {
        table.row(vec![name, format!("{bytes:.1}")]);
    }
    let Recorded { requests, events, lost } = bytes.recorded;
    let spans = grouped(bytes.disk.spans as f64);
    report.say(format!(
        "{requests} requests, {events} events ({lost} lost), {spans} spans in {} files{}",
        bytes.disk.files,
        if bytes.is_at_rest { "" } else { ", which have not come to rest" },
    ));
    report.say(table.render());
}

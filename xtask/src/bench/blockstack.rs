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
mod server_comparison;
mod servers;
mod tracing_switch;

use super::agent::Agent;
use super::goal::Goal;
use super::recipe::Output;
use super::serving::program::{self, Program};
use super::{Options, Report, blkkin};
use crate::measure::Table;
use crate::peers::in_path;
use crate::tools::{at, target_dir};
use bytes::Bytes;
use figures::{Quartiles, grouped};
use fio::{LOADS, Load};
use serde_json::Value;
use server_comparison::{Beside, Candidate};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tracing_switch::{Cell, Measured, Mode, Recorded, TARGETS, Target};

/// Size of a request to block storage, in bytes.
const BLOCK: u64 = 4096;

/// Size of a volume in bytes. The whole volume is written before a measurement.
const VOLUME_BYTES: u64 = 256 << 20;

const ROUNDS: usize = 11;
const ROUNDS_QUICK: usize = 3;

/// Duration of a slice in seconds. A slice is the part of a measurement in which the mode does not
/// change.
const SECONDS: f64 = 0.5;

/// Wanted slowdown with all requests sampled, in per cent; [`FULL_MAX`] is its limit.
/// [`SAMPLED_MAX`] is the wanted slowdown with one request of 100 sampled.
const FULL_WANTED: f64 = 1.0;
const FULL_MAX: f64 = 3.0;
const SAMPLED_MAX: f64 = 0.5;

/// Wanted size of a span in real traces, with its index, in bytes; [`BYTES_MAX`] is its limit.
const BYTES_WANTED: f64 = 25.0;
const BYTES_MAX: f64 = 35.0;

/// Programs, running agent and folders that all measurements use.
struct Stage {
    blkkin: String,
    /// Path of the program `blockstack`, the example that is measured.
    blockstack: PathBuf,
    agent: Agent,
    /// Folder in memory, for sockets and for files whose cost must not count.
    memory: Output,
    /// Folder on a disk, for traces, nbdkit's log, and the stored spans.
    disk: PathBuf,
}

impl Stage {
    /// Builds the example, and `blkkin` unless `options` name one. Starts an agent.
    fn new(options: &Options) -> Result<Stage, String> {
        let disk = target_dir().join("bench/blockstack");
        fs::create_dir_all(&disk).map_err(at(&disk))?;
        let memory = Output::in_memory("blockstack")?;
        let blkkin = build(options)?;
        let blockstack = blkkin::folder().join(EXAMPLE_PROGRAM);
        let agent = Agent::start(&blkkin, &memory.0)?;
        Ok(Stage { blkkin, blockstack, agent, memory, disk })
    }

    /// Prints the lines of the agent's log, except the lines that report its sockets.
    fn tell_complaints(&self, report: &Report) {
        let said = self.agent.log();
        for complaint in said.lines().filter(|line| !line.contains("listening on")) {
            report.say(format!("the agent says: {complaint}"));
        }
    }
}

/// Parameters of all measurements that have several rounds.
struct Setup {
    stage: Stage,
    /// Path of the example's program, compiled without instrumentation.
    untraced: PathBuf,
    rounds: usize,
    /// Duration of a slice, in which the mode does not change.
    slice: Duration,
}

/// Results of all phases.
struct Results {
    cells: Vec<Cell>,
    beside: Vec<Beside>,
    bytes: Option<Bytes>,
    /// Names of skipped measurements, with the reasons.
    skipped: Vec<String>,
    fio: String,
    nbdkit: Option<String>,
    took: Duration,
}

const PHASES: [&str; 4] = ["alone", "chain", "beside", "bytes"];

pub(super) fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    let begin = Instant::now();
    let machine = super::machine();
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

const EXAMPLE: &str = "blkkin-blockstack";

const EXAMPLE_PROGRAM: &str = "blockstack";

/// Builds the example, the program of `benches/server`, and `blkkin` unless `options` name one.
/// Returns the path of `blkkin`.
fn build(options: &Options) -> Result<String, String> {
    match &options.blkkin {
        None => blkkin::build_with(&[EXAMPLE, program::PACKAGE]),
        Some(given) => {
            blkkin::build_packages(&[EXAMPLE, program::PACKAGE], &[])?;
            Ok(given.to_string_lossy().into_owned())
        }
    }
}

fn build_untraced(disk: &Path) -> Result<PathBuf, String> {
    let apart = disk.join("untraced");
    let target = apart.to_string_lossy().into_owned();
    blkkin::build_packages(&[EXAMPLE], &["--features", "untraced", "--target-dir", &target])?;
    Ok(apart.join("release").join(EXAMPLE_PROGRAM))
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

/// Counts a trace's events, the sampled requests of the NBD server, and the lost events and
/// packets.
fn count(blkkin: &str, trace: &Path) -> Result<Recorded, String> {
    let output = Command::new(blkkin).args(["info", "--json"]).arg(trace).output();
    let output = output.map_err(|error| format!("cannot start {blkkin}: {error}"))?;
    let value: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("blkkin info of {}: {error}", trace.display()))?;
    let total = |name: &str| {
        let number = value.get("total").and_then(|total| total.get(name)).and_then(Value::as_u64);
        number.ok_or_else(|| format!("blkkin info of {} tells no {name}", trace.display()))
    };
    let of_requests = r#"name == "blkkin:span" && service_name == "nbd" && kind == 2"#;
    Ok(Recorded {
        events: total("events")?,
        requests: blkkin::count(blkkin, trace, Some(of_requests))?,
        lost: total("events_lost")? + total("packets_lost")?,
    })
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

/// Returns whether the noise permits a statement. `chance` is the difference between equal modes:
/// its confidence interval must contain 0, and be no wider than [`FULL_MAX`].
fn is_small(chance: &Quartiles) -> bool {
    let is_none = chance.confidence_interval.is_some_and(|(from, to)| (from..=to).contains(&0.0));
    is_none && chance.interval_width() <= FULL_MAX
}

/// Returns the goal for a slowdown in per cent. The goal has no figure if the confidence interval
/// of `cost` is too wide, or if `chance`, the noise, is too large.
fn goal_of_cost(
    (wanted, limit): (f64, Option<f64>),
    what: &str,
    cost: Option<Quartiles>,
    chance: Option<Quartiles>,
) -> Goal {
    let cost = cost
        .filter(|cost| cost.interval_width() <= FULL_MAX && chance.as_ref().is_some_and(is_small));
    let bounds = cost.map(|cost| format!(" (surely {})", cost.bounds())).unwrap_or_default();
    let goal = Goal::at_most(wanted, " %", format!("{what}{bounds}"));
    let goal = limit.into_iter().fold(goal, Goal::limit);
    goal.measured(cost.map(|cost| cost.median))
}

/// Returns the goals for which results were found, with their figures.
fn goals(found: &Results) -> Vec<Goal> {
    let mut goals = Vec::new();
    let of_all = |target: Target, mode: Mode| {
        let cells = found.cells.iter().filter(|cell| cell.target == target);
        let costs = cells.filter_map(|cell| cell.of(mode)).flat_map(|it| it.cost.iter().copied());
        Quartiles::of(&costs.collect::<Vec<_>>())
    };
    let full = (FULL_WANTED, Some(FULL_MAX));
    for cell in found.cells.iter().filter(|cell| cell.target == Target::Alone) {
        let of = |mode: Mode| cell.of(mode).map(Measured::cost);
        for mode in [Mode::Flight, Mode::Written] {
            let what = format!("{}, {}: {}", Target::Alone.name(), cell.load.name, mode.name());
            goals.push(goal_of_cost(full, &what, of(mode), of(Mode::Off)));
        }
    }
    let has = |target: &Target| found.cells.iter().any(|cell| cell.target == *target);
    for target in TARGETS.into_iter().filter(has) {
        for (mode, limits) in
            [(Mode::Flight, full), (Mode::Written, full), (Mode::Sampled, (SAMPLED_MAX, None))]
        {
            let what = format!("{}, all loads: {}", target.name(), mode.name());
            let (cost, chance) = (of_all(target, mode), of_all(target, Mode::Off));
            goals.push(goal_of_cost(limits, &what, cost, chance));
        }
    }
    if !found.cells.is_empty() {
        let measured = found.cells.iter().flat_map(|cell| &cell.measured);
        let lost = measured.filter_map(|measured| Some(measured.recorded?.lost)).sum::<u64>();
        goals.push(Goal::at_most(0.0, "", "events lost").measured(Some(lost as f64)));
    }
    for beside in &found.beside {
        // The goal is met if the cost is within the noise between two runs of the same program.
        let chance = beside.cost(Candidate::OffAgain).as_deref().and_then(Quartiles::of);
        let cost = beside.cost(Candidate::Off).as_deref().and_then(Quartiles::of);
        let Some(chance) = chance else { continue };
        let cost = cost.filter(|_| is_small(&chance));
        let what = format!("compiled in and off, within chance: {}", beside.load.name);
        let wanted = chance.confidence_interval.map_or(0.0, |(from, to)| from.abs().max(to.abs()));
        goals.push(Goal::at_most(wanted, " %", what).measured(cost.map(|cost| cost.median)));
    }
    goals.extend(found.bytes.as_ref().map(Bytes::goal));
    goals
}

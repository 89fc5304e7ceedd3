//! `cargo xtask bench probes`: cost of recording system calls, uprobes and USDT probes for the
//! recorded program, beside bpftrace, perf, ftrace's buffer, strace, and empty programs at the same
//! places. The load (`benches/probes/calls.c`) makes calls of one kind ([`case`]); each recorder
//! ([`recorder::Recorder`]) records them in turn, round by round. Recorded calls are counted, so
//! that lost events do not pass for cheap ones.
//!
//! A further peer needs a [`recorder::Recorder`] in the list in [`recorders`].

mod background;
mod blkkin;
mod bpftrace;
mod candidate;
mod case;
mod empty;
mod first_event;
mod ftrace;
mod goals;
mod load;
mod perf;
mod preload;
mod recorder;
mod session;
mod strace;
mod tracefs;

use super::options::Options;
use super::recipe::Output;
use super::report::Report;
use crate::measure::{Table, show_bytes};
use crate::peers::in_path;
use crate::tools::{at, target_dir};
use blkkin::{Blkkin, Mode};
use bpftrace::Bpftrace;
use candidate::Candidate;
use case::{COUNT, COUNT_QUICK, Case, cases};
use empty::Empty;
use ftrace::Ftrace;
use load::Load;
use perf::{PerfRecord, PerfTrace};
use preload::Preload;
use recorder::{Bare, Recorder, Workspace};
use serde_json::json;
use session::Session;
use std::fs;
use std::path::Path;
use strace::Strace;

const ROUNDS: usize = 5;
const ROUNDS_QUICK: usize = 2;

pub(super) fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    if !nix::unistd::geteuid().is_root() {
        return Err("only root can attach probes to the kernel; try sudo".to_owned());
    }
    let count = options.count.unwrap_or(if options.quick { COUNT_QUICK } else { COUNT });
    let rounds = options.rounds.unwrap_or(if options.quick { ROUNDS_QUICK } else { ROUNDS });
    let program = match &options.blkkin {
        Some(program) => program.to_string_lossy().into_owned(),
        None => super::blkkin::build_with(&["blkkin-preload"])?,
    };
    let folder = target_dir().join("bench/probes");
    fs::create_dir_all(&folder).map_err(at(&folder))?;
    let load = Load::compile(&folder)?;
    let cases = cases(count);
    let recorders = recorders(report, &program, &folder);
    let mut candidates: Vec<Candidate> =
        recorders.into_iter().map(|one| Candidate::new(one, cases.len())).collect();
    report.say(format!(
        "measuring: {} recorders, {} cases of {count} operations, {rounds} rounds",
        candidates.len(),
        cases.len()
    ));
    for _ in 0..rounds {
        for (index, case) in cases.iter().enumerate() {
            for candidate in &mut candidates {
                measure(report, &load, candidate, &Numbered { index, case })?;
            }
        }
    }
    report.say(format!(
        "\nnanoseconds for an operation: medians of {rounds} runs, of each run the median of 10 \
         blocks; mean: over all blocks"
    ));
    report.say("adds: to the bare run of the same round; CPU: of the recorder, for a system call");
    report
        .say("delivered, lost: recordable events of all runs, counted in the output and as told\n");
    for (index, case) in cases.iter().enumerate() {
        report_table(report, &candidates, &Numbered { index, case });
    }
    goals::report(report, &cases, &candidates);
    first_event::measure(report, &program, options.quick)
}

/// A case with its index in the list of cases.
struct Numbered<'a> {
    index: usize,
    case: &'a Case,
}

/// Returns the recorders. Missing peers are skipped with a message.
fn recorders(report: &Report, program: &str, folder: &Path) -> Vec<Box<dyn Recorder>> {
    let mut recorders: Vec<Box<dyn Recorder>> = vec![Box::new(Bare)];
    for mode in [Mode::NotChosen, Mode::Recorded, Mode::Shown] {
        recorders.push(Box::new(Blkkin { program: program.to_owned(), mode }));
    }
    match Path::new(program).with_file_name(preload::LIBRARY).is_file() {
        true => recorders.push(Box::new(Preload { program: program.to_owned() })),
        false => report
            .say(format!("--preload is skipped: {} is not beside {program}", preload::LIBRARY)),
    }
    recorders.push(Box::new(Session { program: program.to_owned() }));
    recorders.push(Box::new(Empty));
    let has = |program: &str, package: &str| {
        let is_present = in_path(program);
        if !is_present {
            report.say(format!("{program} is missing and skipped: apt install {package}"));
        }
        is_present
    };
    if has(bpftrace::PROGRAM, "bpftrace") {
        recorders.push(Box::new(Bpftrace { is_printing: true }));
        recorders.push(Box::new(Bpftrace { is_printing: false }));
    }
    if has(perf::PROGRAM, "linux-perf") {
        recorders.push(Box::new(PerfTrace));
        recorders.push(Box::new(PerfRecord));
    }
    match Ftrace::new(folder) {
        Ok(ftrace) => recorders.push(Box::new(ftrace)),
        Err(error) => report.say(format!("ftrace's buffer is skipped: {error}")),
    }
    if has(strace::PROGRAM, "strace") {
        recorders.push(Box::new(Strace));
    }
    recorders
}

/// Runs the load once for a candidate.
fn measure(
    report: &Report,
    load: &Load,
    candidate: &mut Candidate,
    numbered: &Numbered<'_>,
) -> Result<(), String> {
    if candidate.has_failed || !candidate.recorder.records(numbered.case.call) {
        return Ok(());
    }
    let output = Output::in_memory("probes")?;
    let recorder = &candidate.recorder;
    let case = numbered.case.fraction(recorder.divisor());
    let workspace = Workspace { folder: output.0.clone(), load };
    match recorder.measure(&workspace, &case) {
        Ok(run) => candidate.runs[numbered.index].push(run),
        Err(error) if recorder.is_peer() => {
            report.say(format!("{} is not measured: {error}", recorder.name()));
            candidate.has_failed = true;
        }
        Err(error) => return Err(format!("{}: {error}", recorder.name())),
    }
    Ok(())
}

/// Prints the table of a case, and adds a row for each recorder.
fn report_table(report: &mut Report, candidates: &[Candidate], numbered: &Numbered<'_>) {
    let (index, case) = (numbered.index, numbered.case);
    let Some(bare) = candidates.first() else { return };
    let title = case.title();
    let mut table = Table::new(&[
        &title,
        "ns",
        "min",
        "max",
        "mean",
        "adds",
        "delivered",
        "lost",
        "CPU",
        "peak RSS",
    ]);
    for candidate in candidates.iter().filter(|one| !one.runs[index].is_empty()) {
        let recorder = &candidate.recorder;
        let cost = |percent| candidate.cost_ns(index, percent);
        let added = candidate.added_ns(bare, index).filter(|_| recorder.name() != recorder::BARE);
        let delivery = candidate.delivery(index);
        let cpu = candidate.recorder_ns(index);
        let rss_bytes_max = candidate.rss_bytes_max(index);
        let ns = |figure: f64| format!("{figure:.0}");
        let mut cells = vec![recorder.name().to_owned()];
        cells.extend([cost(50), cost(0), cost(100), candidate.mean_ns(index)].map(ns));
        cells.push(added.map_or_else(String::new, ns));
        cells.push(delivery.map_or_else(String::new, |all| show_percent(all.percent())));
        cells.push(delivery.map_or_else(String::new, |all| all.lost.to_string()));
        cells.push(cpu.map_or_else(String::new, ns));
        cells.push(rss_bytes_max.map_or_else(String::new, show_bytes));
        table.row(cells);
        report.row(json!({
            "table": title,
            "recorder": recorder.name(),
            "call": case.call.name,
            "threads": case.threads,
            "operations": case.fraction(recorder.divisor()).count * case.threads,
            "runs": candidate.runs[index].len(),
            "ns_median": cost(50),
            "ns_min": cost(0),
            "ns_max": cost(100),
            "ns_mean": candidate.mean_ns(index),
            "ns_added": added,
            "calls_attempted": delivery.map(|all| all.attempted),
            "calls_delivered": delivery.map(|all| all.delivered),
            "calls_lost": delivery.map(|all| all.lost),
            "recorder_cpu_ns": cpu,
            "recorder_rss_bytes_max": rss_bytes_max,
        }));
    }
    report.say(table.render());
}

/// Formats a part in percent so that only a complete one is shown as 100 %.
fn show_percent(percent: f64) -> String {
    let is_rounded_up = percent < 100.0 && percent > 99.99;
    format!("{:.2} %", if is_rounded_up { 99.99 } else { percent })
}

#[cfg(test)]
mod tests {
    use super::show_percent;

    #[test]
    fn incomplete_parts_are_not_rounded_up() {
        assert_eq!(show_percent(100.0), "100.00 %");
        assert_eq!(show_percent(99.999_9), "99.99 %");
        assert_eq!(show_percent(12.345), "12.35 %");
        assert_eq!(show_percent(100.01), "100.01 %");
    }
}

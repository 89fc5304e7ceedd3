//! `cargo xtask bench journal`: rate of durable records, and latency until a record is durable.
//! Baselines write groups of the same size without a journal: one appends to a file, the other
//! overwrites existing bytes, which is the least work for a disk. The program for all three is
//! `benches/journal`.

use super::options::Options;
use super::report::Report;
use crate::measure::{Table, percentile, show_duration};
use crate::tools::{at, cargo, target_dir, workspace_root};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const PACKAGE: &str = "blkkin-bench-journal";

/// Measured cases: number of appending threads, and number of records in each append.
const CASES: [(u64, u64); 6] = [(1, 1), (8, 1), (64, 1), (1, 100), (8, 100), (64, 100)];

/// Figures of one run of the program.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    records: f64,
    bytes: f64,
    groups: f64,
    seconds: f64,
    p50_ns: f64,
    p99_ns: f64,
}

/// Figures of the journal and of both baselines in one round.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    journal: Run,
    appended: Run,
    overwritten: Run,
}

pub(super) fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    let (rounds, seconds) = if options.quick { (1, 0.3) } else { (5, 2.0) };
    let program = build()?;
    let folder = target_dir().join("bench/journal");
    report.say(format!("records of 200 bytes; medians of {rounds} rounds of {seconds} s each"));
    report
        .say("by hand: one write and one fdatasync of as many bytes as the journal's groups have");
    report.say(
        "times: how much longer the journal takes for a group than by hand; below 1 it is faster\n",
    );
    let mut table = Table::new(&[
        "threads × records",
        "records/s",
        "MB/s",
        "group",
        "p50",
        "p99",
        "appended",
        "p99",
        "times",
        "overwritten",
        "p99",
        "times",
    ]);
    for (threads, records) in CASES {
        let mut measured = Vec::new();
        for _ in 0..rounds {
            measured.push(round(&program, &folder, seconds, threads, records)?);
        }
        table.row(row(&measured, threads, records));
        report.row(to_json(&measured, threads, records));
    }
    report.say(table.render());
    Ok(())
}

fn build() -> Result<PathBuf, String> {
    let mut command = cargo();
    command.args(["build", "--release", "--locked", "--quiet", "--package", PACKAGE]);
    let status = command.current_dir(workspace_root()).status();
    match status.map_err(|error| format!("cannot start cargo: {error}"))?.success() {
        true => Ok(target_dir().join("release").join(PACKAGE)),
        false => Err(format!("{PACKAGE} does not build")),
    }
}

fn round(
    program: &Path,
    folder: &Path,
    seconds: f64,
    threads: u64,
    records: u64,
) -> Result<Round, String> {
    let clear = || match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(at(folder)(error)),
        _ => fs::create_dir_all(folder).map_err(at(folder)),
    };
    let measure = |what: &str, numbers: &[u64]| -> Result<Run, String> {
        clear()?;
        let mut command = Command::new(program);
        command.arg(what).arg(folder.join(what)).arg(seconds.to_string());
        command.args(numbers.iter().map(u64::to_string));
        let run = output(&mut command)?;
        clear()?;
        Ok(run)
    };
    let journal = measure("journal", &[threads, records])?;
    let group = (journal.bytes / journal.groups.max(1.0)) as u64;
    let appended = measure("appended", &[group])?;
    let overwritten = measure("overwritten", &[group])?;
    Ok(Round { journal, appended, overwritten })
}

fn output(command: &mut Command) -> Result<Run, String> {
    let output = command.output().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    read(&text).filter(|_| output.status.success()).ok_or_else(|| {
        let stderr = String::from_utf8_lossy(&output.stderr);
        format!("{command:?} says `{}`; {}", text.trim(), stderr.trim())
    })
}

fn read(text: &str) -> Option<Run> {
    let value: Value = serde_json::from_str(text).ok()?;
    let number = |name: &str| value.get(name)?.as_f64();
    Some(Run {
        records: number("records")?,
        bytes: number("bytes")?,
        groups: number("groups")?,
        seconds: number("seconds")?,
        p50_ns: number("p50_ns")?,
        p99_ns: number("p99_ns")?,
    })
}

impl Run {
    /// Returns the mean time of writing a group, in nanoseconds.
    fn group_ns(&self) -> f64 {
        self.seconds * 1e9 / self.groups.max(1.0)
    }
}

fn median(measured: &[Round], figure: impl Fn(&Round) -> f64) -> f64 {
    let mut figures: Vec<f64> = measured.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    percentile(&figures, 50)
}

fn row(measured: &[Round], threads: u64, records: u64) -> Vec<String> {
    let of = |figure: fn(&Round) -> f64| median(measured, figure);
    let show = |ns: f64| show_duration(Duration::from_nanos(ns as u64));
    vec![
        format!("{threads} × {records}"),
        format!("{:.0}", of(|round| round.journal.records / round.journal.seconds)),
        format!("{:.1}", of(|round| round.journal.bytes / round.journal.seconds / 1e6)),
        format!("{:.1} KB", of(|round| round.journal.bytes / round.journal.groups.max(1.0) / 1e3)),
        show(of(|round| round.journal.p50_ns)),
        show(of(|round| round.journal.p99_ns)),
        show(of(|round| round.appended.p50_ns)),
        show(of(|round| round.appended.p99_ns)),
        format!("{:.2}", of(|round| round.journal.group_ns() / round.appended.group_ns())),
        show(of(|round| round.overwritten.p50_ns)),
        show(of(|round| round.overwritten.p99_ns)),
        format!("{:.2}", of(|round| round.journal.group_ns() / round.overwritten.group_ns())),
    ]
}

fn to_json(measured: &[Round], threads: u64, records: u64) -> Value {
    let run = |which: fn(&Round) -> &Run| {
        let of = |figure: fn(&Run) -> f64| median(measured, |round| figure(which(round)));
        json!({
            "records_per_second": of(|run| run.records / run.seconds),
            "bytes_per_second": of(|run| run.bytes / run.seconds),
            "group_bytes": of(|run| run.bytes / run.groups.max(1.0)),
            "group_ns": of(Run::group_ns),
            "p50_ns": of(|run| run.p50_ns),
            "p99_ns": of(|run| run.p99_ns),
        })
    };
    json!({
        "threads": threads,
        "records_at_once": records,
        "journal": run(|round| &round.journal),
        "appended": run(|round| &round.appended),
        "overwritten": run(|round| &round.overwritten),
    })
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn what_the_program_prints_is_read() {
        let text = r#"{"records": 1, "bytes": 232, "groups": 2, "seconds": 0.5, "p50_ns": 3, "p99_ns": 4}"#;
        let run = read(text).unwrap();
        assert_eq!((run.records, run.bytes, run.p99_ns), (1.0, 232.0, 4.0));
        assert_eq!(run.group_ns(), 250_000_000.0);
        assert!(read(r#"{"records": 1}"#).is_none());
        assert!(read("error").is_none());
    }
}

//! Time from the start of a recorder until it prints the first event, beside bpftrace. Start at
//! [`measure`].

use super::bpftrace;
use crate::bench::goal::{Goal, Rival};
use crate::bench::report::Report;
use crate::measure::{Table, median, percentile};
use crate::peers::in_path;
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const STARTS: usize = 11;
const STARTS_QUICK: usize = 3;

/// Wanted time until the first event, in milliseconds.
const TIME_MS_MAX: f64 = 100.0;

/// Command that both recorders start. Its first system calls are those of its dynamic linker.
const TRACED: &str = "/bin/true";

/// Script that prints an event for each system call of bpftrace's child process.
const SCRIPT: &str = "tracepoint:raw_syscalls:sys_exit /pid == cpid/ { printf(\"event %s %d\\n\", comm, args->id); }";

/// Measures the time until the first event of `blkkin io` and bpftrace in turn, and reports the
/// goal.
pub(super) fn measure(report: &mut Report, blkkin: &str, is_quick: bool) -> Result<(), String> {
    let starts = if is_quick { STARTS_QUICK } else { STARTS };
    let mut has_bpftrace = in_path(bpftrace::PROGRAM);
    let (mut own, mut other) = (Vec::new(), Vec::new());
    for _ in 0..starts {
        let mut command = Command::new(blkkin);
        command.args(["io", "--json", "--", TRACED]);
        own.push(first_line(command, "{\"type\":\"operation\"")?);
        if has_bpftrace {
            let mut command = bpftrace::command(&["-B", "none", "-e", SCRIPT, "-c", TRACED]);
            command.env_remove("BPFTRACE_PERF_RB_PAGES");
            match first_line(command, "event ") {
                Ok(ms) => other.push(ms),
                Err(error) => {
                    report.say(format!("bpftrace is not measured: {error}"));
                    has_bpftrace = false;
                }
            }
        }
    }
    let mut table = Table::new(&["time until the first event", "starts", "median", "min", "max"]);
    for (name, times) in [("blkkin io", &own), ("bpftrace", &other)] {
        if times.is_empty() {
            continue;
        }
        let mut sorted = times.clone();
        sorted.sort_by(f64::total_cmp);
        let figures = [50, 0, 100].map(|percent| percentile(&sorted, percent));
        let mut cells = vec![name.to_owned(), times.len().to_string()];
        cells.extend(figures.map(|ms| format!("{ms:.1} ms")));
        table.row(cells);
        report.row(json!({
            "table": "first event",
            "recorder": name,
            "starts": times.len(),
            "ms_median": figures[0],
            "ms_min": figures[1],
            "ms_max": figures[2],
        }));
    }
    report.say(table.render());
    let goal = Goal::at_most(TIME_MS_MAX, " ms", "from start to the first event");
    let goal = goal.measured(Some(median(own)));
    report.goal(match other.is_empty() {
        true => goal,
        false => goal.rival(Rival {
            name: bpftrace::PROGRAM,
            measured: Some(median(other)),
            times_min: None,
        }),
    });
    Ok(())
}

/// Starts a recorder, and returns the time until it prints a line that begins with `prefix`, in
/// milliseconds.
fn first_line(mut command: Command, prefix: &str) -> Result<f64, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let start = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot start {name}: {error}"))?;
    let stdout = child.stdout.take().ok_or("no standard output")?;
    let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
    let found = lines.any(|line| line.starts_with(prefix));
    let took: Duration = start.elapsed();
    // The rest is read, so that the recorder is not ended by a closed pipe.
    lines.for_each(drop);
    child.wait().map_err(|error| format!("{name}: {error}"))?;
    match found {
        true => Ok(took.as_secs_f64() * 1e3),
        false => Err(format!("{name} printed no event")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_line_is_found() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        let took = first_line(shell("echo header; sleep 0.05; echo event 1; sleep 0.3"), "event ");
        assert!((50.0..300.0).contains(&took.expect("a line")));
        assert!(first_line(shell("echo header"), "event ").is_err());
    }
}

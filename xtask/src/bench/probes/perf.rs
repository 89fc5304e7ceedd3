//! perf as a recorder: `perf trace`, which prints system calls, and `perf record`, which writes
//! events to a file. Start at [`PerfTrace`] and [`PerfRecord`].

use super::background::count_lines;
use super::case::Case;
use super::load::NAME;
use super::recorder::{Recorder, Run, Workspace};
use super::tracefs;
use std::path::Path;
use std::process::Command;

pub(super) const PROGRAM: &str = "perf";

/// Size of each processor's buffer, as in `blkkin io`.
const BUFFER_SIZE: &str = "4M";

/// `perf trace -o`.
pub(super) struct PerfTrace;

/// `perf record` of the events at entry and exit.
pub(super) struct PerfRecord;

impl Recorder for PerfTrace {
    fn name(&self) -> &'static str {
        "perf trace -o"
    }

    fn divisor(&self) -> u64 {
        20
    }

    fn measure(&self, workspace: &Workspace<'_>, case: &Case) -> Result<Run, String> {
        let output = workspace.folder.join("perf.out");
        let names: Vec<&str> = case.call.system_calls.iter().map(|call| call.name).collect();
        let mut perf = tracefs::command(PROGRAM);
        perf.args(["trace", "-m", BUFFER_SIZE, "-e", &names.join(","), "-o"]);
        perf.arg(&output);
        let (cost, _) = workspace.load.run_below(Some(perf), case)?;
        // An interrupted call has two lines.
        let continued: Vec<String> =
            names.iter().map(|name| format!("[continued]: {name}(")).collect();
        let lines = count_lines(&output, &call_texts(case))?;
        let delivered = lines.saturating_sub(count_lines(&output, &continued)?);
        let lost = lost_lines(&output)?;
        let (delivered, lost) = (Some(delivered), Some(lost));
        Ok(Run { delivered, lost, ..Run::bare(cost, case) })
    }
}

impl Recorder for PerfRecord {
    fn name(&self) -> &'static str {
        "perf record -a"
    }

    fn measure(&self, workspace: &Workspace<'_>, case: &Case) -> Result<Run, String> {
        let output = workspace.folder.join("perf.data");
        let mut perf = tracefs::command(PROGRAM);
        perf.args(["record", "-a", "-m", BUFFER_SIZE]);
        for call in case.call.system_calls {
            for edge in ["enter", "exit"] {
                perf.args(["-e", &format!("syscalls:sys_{edge}_{}", call.name)]);
                perf.args(["--filter", &format!("comm == \"{NAME}\"")]);
            }
        }
        perf.arg("-o").arg(&output).arg("--");
        let (cost, log) = workspace.load.run_below(Some(perf), case)?;
        let samples = samples(&log).ok_or_else(|| format!("perf record printed `{log}`"))?;
        let (delivered, lost) = (Some(samples / 2), Some(lost_samples(&log) / 2));
        Ok(Run { delivered, lost, ..Run::bare(cost, case) })
    }
}

/// Returns texts of which a line of `perf trace` or strace has one for each system call.
pub(super) fn call_texts(case: &Case) -> Vec<String> {
    case.call.system_calls.iter().map(|call| format!(" {}(", call.name)).collect()
}

/// Returns the number of lost events that `perf trace` has printed.
fn lost_lines(output: &Path) -> Result<u64, String> {
    let grep = Command::new("grep").args(["--text", "LOST "]).arg(output).output();
    let output = grep.map_err(|error| format!("cannot start grep: {error}"))?;
    Ok(lost_events(&String::from_utf8_lossy(&output.stdout)))
}

/// Returns the sum of the numbers in lines `LOST 12 events!`.
fn lost_events(lines: &str) -> u64 {
    lines.lines().filter_map(|line| number_between(line, "LOST ", " event")).sum::<u64>()
}

/// Returns the number of events that `perf record` has written, two for each system call.
fn samples(log: &str) -> Option<u64> {
    log.lines().find_map(|line| number_between(line, " (", " samples)"))
}

/// Returns the number of events that `perf record` tells as lost.
fn lost_samples(log: &str) -> u64 {
    log.lines().filter_map(|line| number_between(line, "lost ", " sample")).sum::<u64>()
}

/// Returns the first number in a line that is between two texts.
fn number_between(line: &str, before: &str, after: &str) -> Option<u64> {
    let starts = line.match_indices(before).map(|(index, _)| &line[index + before.len()..]);
    starts.filter_map(|rest| rest.split_once(after)?.0.parse().ok()).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_parsed() {
        let log = "[ perf record: Woken up 28 times to write data ]\n\
                   [ perf record: Captured and wrote 55.010 MB perf.data (600009 samples) ]\n";
        assert_eq!(samples(log), Some(600_009));
        assert_eq!(samples("[ perf record: Captured and wrote 0.010 MB perf.data ]\n"), None);
        assert_eq!(lost_samples(log), 0);
        assert_eq!(lost_samples("[ perf record: lost 12 samples ]\n"), 12);
        assert_eq!(lost_events("LOST 12 events!\n  LOST 3 events!\nLOST\n"), 15);
    }
}

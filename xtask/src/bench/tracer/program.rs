//! Arguments and output of the programs that repeat an operation and print its cost as one line of
//! JSON, such as `benches/tracer/harness.c`.

use super::case::Case;
use serde_json::Value;
use std::process::{Command, Stdio};

/// Number of equal portions into which programs divide a warm-up.
const PORTIONS: u64 = 8;

/// Cost of one operation, as a program prints it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cost {
    /// Mean wall time of a thread for an operation, in nanoseconds.
    pub(super) wall_ns: f64,
    /// Mean processor time of an operation in nanoseconds, without the tracer's daemons.
    pub(super) cpu_ns: f64,
    /// Mean processor time of the loop without recording, in nanoseconds for an operation. It is
    /// not subtracted from the other times.
    pub(super) loop_ns: f64,
    /// Number of events that the program has tried to record, including those of the warm-up.
    pub(super) events_tried: u64,
}

/// Runs a program for a case. Its warm-up has at least `warm_ups` operations on each CPU.
pub(super) fn run(program: &mut Command, case: &Case, warm_ups: u64) -> Result<Cost, String> {
    run_as(program, case.kind.name, case, warm_ups)
}

/// Runs a program for a case, as [`run`] does, but under the program's own name for the kind.
pub(super) fn run_as(
    program: &mut Command,
    kind: &str,
    case: &Case,
    warm_ups: u64,
) -> Result<Cost, String> {
    let warm_ups = warm_ups.next_multiple_of(PORTIONS);
    program.arg(kind);
    program.args([case.operations, case.threads, warm_ups].map(|number| number.to_string()));
    let output = program
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start {program:?}: {error}"))?;
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        return Err(format!("{program:?}: {}: {}", output.status, stderr.trim()));
    }
    read_cost(&stdout).ok_or_else(|| format!("{program:?} prints `{}`", stdout.trim()))
}

fn read_cost(line: &str) -> Option<Cost> {
    let value: Value = serde_json::from_str(line).ok()?;
    Some(Cost {
        wall_ns: value.get("wall_ns")?.as_f64()?,
        cpu_ns: value.get("cpu_ns")?.as_f64()?,
        loop_ns: value.get("loop_ns")?.as_f64()?,
        events_tried: value.get("events_tried")?.as_u64()?,
    })
}

#[cfg(test)]
mod tests {
    use super::{Cost, read_cost};

    #[test]
    fn lines_of_programs_are_read() {
        let line = r#"{"kind": "one", "threads": 2, "operations": 8, "events_tried": 24,
                       "wall_ns": 126.5, "cpu_ns": 130.25, "loop_ns": 0.276}"#;
        let cost = Cost { wall_ns: 126.5, cpu_ns: 130.25, loop_ns: 0.276, events_tried: 24 };
        assert_eq!(read_cost(line), Some(cost));
        assert_eq!(read_cost(&line.replace("24", "-24")), None);
        assert_eq!(read_cost(&line.replace("wall", "wal")), None);
        assert_eq!(read_cost(""), None);
    }
}

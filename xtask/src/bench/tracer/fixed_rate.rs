//! Programs that record at a given rate, while the agent writes the events to files. Start at
//! [`Place::paced`].

use crate::bench::agent::Agent;
use crate::bench::blkkin;
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Agent, program and folder that the measurements without a loop use.
pub(super) struct Place<'a> {
    pub(super) agent: &'a Agent,
    /// Path of the program `blkkin`.
    pub(super) blkkin: &'a str,
    /// Folder on a disk, for the traces.
    pub(super) folder: &'a Path,
}

/// Rate and duration of a program's recording.
pub(super) struct Pace {
    pub(super) kind: &'static str,
    /// Rate of all threads together, in events a second.
    pub(super) rate: u64,
    pub(super) seconds: u64,
    pub(super) threads: u64,
}

/// Results that the program prints when it ends.
#[derive(Debug, PartialEq)]
pub(super) struct PacedResult {
    pub(super) events_tried: u64,
    pub(super) seconds: f64,
}

impl Place<'_> {
    /// Starts a program that records at the given pace. If a session enables its events, they are
    /// recorded from the first one on.
    pub(super) fn paced(&self, pace: &Pace) -> Result<Child, String> {
        let program = blkkin::folder().join("blkkin-bench-paced");
        let Pace { rate, seconds, threads, .. } = pace;
        let mut command: Command = self.agent.traced(&program);
        command.arg(pace.kind).args([rate, seconds, threads].map(|number| number.to_string()));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", program.display()))
    }
}

/// Waits until a program has ended, and returns its results.
pub(super) fn done(program: Child) -> Result<PacedResult, String> {
    let output = program.wait_with_output().map_err(|error| format!("paced program: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    read(&text).filter(|_| output.status.success()).ok_or_else(|| {
        format!("the paced program ends with {}, and prints `{}`", output.status, text.trim())
    })
}

fn read(line: &str) -> Option<PacedResult> {
    let value: Value = serde_json::from_str(line).ok()?;
    Some(PacedResult {
        events_tried: value.get("events_tried")?.as_u64()?,
        seconds: value.get("seconds")?.as_f64()?,
    })
}

#[cfg(test)]
mod tests {
    use super::{PacedResult, read};

    #[test]
    fn lines_of_programs_are_read() {
        let line = r#"{"events_tried": 20, "seconds": 2.001}"#;
        assert_eq!(read(line), Some(PacedResult { events_tried: 20, seconds: 2.001 }));
        assert_eq!(read(&line.replace("20,", "-20,")), None);
        assert_eq!(read(""), None);
    }
}

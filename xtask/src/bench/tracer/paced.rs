//! Programs that record at a given rate into files, which the agent writes. Start at
//! [`Place::paced`].

use crate::bench::agent::Agent;
use crate::bench::blkkin;
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Environment of the measurements without a loop.
pub(super) struct Place<'a> {
    pub(super) agent: &'a Agent,
    /// Path of `blkkin`.
    pub(super) blkkin: &'a str,
    /// Folder on a disk.
    pub(super) folder: &'a Path,
}

/// Load of a program.
pub(super) struct Pace {
    pub(super) kind: &'static str,
    /// Total events a second of all threads.
    pub(super) rate: u64,
    pub(super) seconds: u64,
    pub(super) threads: u64,
}

/// Results that the program prints.
#[derive(Debug, PartialEq)]
pub(super) struct Done {
    pub(super) events_tried: u64,
    pub(super) seconds: f64,
}

impl Place<'_> {
    /// Starts a program, which is recorded from its start if a session enables its events.
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

/// Waits for a program, and parses its output.
pub(super) fn done(program: Child) -> Result<Done, String> {
    let output = program.wait_with_output().map_err(|error| format!("paced program: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    read(&text).filter(|_| output.status.success()).ok_or_else(|| {
        format!("the paced program ends with {}, and prints `{}`", output.status, text.trim())
    })
}

fn read(line: &str) -> Option<Done> {
    let value: Value = serde_json::from_str(line).ok()?;
    Some(Done {
        events_tried: value.get("events_tried")?.as_u64()?,
        seconds: value.get("seconds")?.as_f64()?,
    })
}

#[cfg(test)]
mod tests {
    use super::{Done, read};

    #[test]
    fn lines_of_programs_are_read() {
        let line = r#"{"events_tried": 20, "seconds": 2.001}"#;
        assert_eq!(read(line), Some(Done { events_tried: 20, seconds: 2.001 }));
        assert_eq!(read(&line.replace("20,", "-20,")), None);
        assert_eq!(read(""), None);
    }
}

//! The load program `benches/probes/calls.c`: compilation, runs, and its output. Start at
//! [`Load::run`].

use super::case::Case;
use crate::bench::c;
use crate::tools::at;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Name of the load's process, by which recorders choose it. Programs of tests have other names.
pub(super) const NAME: &str = "bench-calls";

/// The compiled load program.
pub(super) struct Load {
    program: PathBuf,
    /// The same with the C library as a shared one, which a preloaded library can replace.
    shared: PathBuf,
}

/// Offsets of the load's instructions in its file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Offsets {
    /// Start of the function `bench_hit`.
    pub(super) function: u64,
    /// The USDT probe.
    pub(super) usdt: u64,
}

/// Cost of an operation, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cost {
    /// Median over blocks of operations.
    pub(super) median_ns: f64,
    /// Mean over all operations.
    pub(super) mean_ns: f64,
}

impl Load {
    /// Compiles the load program into `folder`.
    pub(super) fn compile(folder: &Path) -> Result<Load, String> {
        let program = folder.join(NAME);
        // A dynamically linked program opens and reads its libraries.
        let files = &["probes/calls.c"];
        let source = |libraries| c::Source { folders: &[], files, libraries };
        c::compile(&program, &source(&["-static", "-lpthread"]))?;
        let shared = folder.join("bench-calls-shared");
        c::compile(&shared, &source(&["-lpthread"]))?;
        Ok(Load { program, shared })
    }

    /// Returns the path of the program.
    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// Asks the program for the offsets of its instructions.
    pub(super) fn offsets(&self) -> Result<Offsets, String> {
        let output = Command::new(&self.program).arg("offsets").output();
        let output = output.map_err(at(&self.program))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let mut offsets = text.split_whitespace().map_while(|word| word.parse().ok());
        match (offsets.next(), offsets.next()) {
            (Some(function), Some(usdt)) => Ok(Offsets { function, usdt }),
            _ => Err(format!("the load printed `{}` for its offsets", text.trim())),
        }
    }

    /// Runs the load.
    pub(super) fn run(&self, case: &Case) -> Result<Cost, String> {
        Ok(self.run_below(None, case)?.0)
    }

    /// Runs the load as the command of another program, if `parent` is given. Returns the cost and
    /// the text on standard error.
    pub(super) fn run_below(
        &self,
        parent: Option<Command>,
        case: &Case,
    ) -> Result<(Cost, String), String> {
        let command = match parent {
            Some(mut parent) => {
                parent.arg(&self.program);
                parent
            }
            None => Command::new(&self.program),
        };
        Load::run_command(command, case)
    }

    /// Runs the load with the shared C library below a command.
    pub(super) fn run_shared(&self, mut parent: Command, case: &Case) -> Result<Cost, String> {
        parent.arg(&self.shared);
        Ok(Load::run_command(parent, case)?.0)
    }

    fn run_command(mut command: Command, case: &Case) -> Result<(Cost, String), String> {
        command.args([case.call.name, &case.count.to_string(), &case.threads.to_string()]);
        let name = command.get_program().to_string_lossy().into_owned();
        let output = command
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("cannot start {name}: {error}"))?;
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let cost = Cost::parse(&String::from_utf8_lossy(&output.stdout));
        match cost.filter(|_| output.status.success()) {
            Some(cost) => Ok((cost, stderr)),
            None => Err(format!("the load failed: {}; {}", output.status, stderr.trim())),
        }
    }
}

impl Cost {
    /// Parses the load's output. Other lines may be the parent program's.
    fn parse(output: &str) -> Option<Cost> {
        let line = output.lines().find(|line| line.starts_with("{\"median_ns\""))?;
        let value: Value = serde_json::from_str(line).ok()?;
        Some(Cost { median_ns: value["median_ns"].as_f64()?, mean_ns: value["mean_ns"].as_f64()? })
    }
}

#[cfg(test)]
mod tests {
    use super::Cost;

    #[test]
    fn output_is_parsed() {
        let expected = Cost { median_ns: 251.5, mean_ns: 260.0 };
        let line = "{\"median_ns\": 251.50, \"mean_ns\": 260.00}\n";
        assert_eq!(Cost::parse(line), Some(expected));
        assert_eq!(Cost::parse(&format!("Attaching\n{line}")), Some(expected));
        assert_eq!(Cost::parse("{\"median_ns\": 251.50"), None);
        assert_eq!(Cost::parse(""), None);
    }
}

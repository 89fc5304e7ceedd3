//! Programs, agent and folders with which the bench measures, and the number and duration of its
//! measurements.

use crate::bench::agent::Agent;
use crate::bench::blkkin;
use crate::bench::options::Options;
use crate::bench::recipe::Output;
use crate::bench::report::Report;
use crate::bench::serving::program;
use crate::tools::{at, target_dir};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const EXAMPLE: &str = "blkkin-blockstack";

const EXAMPLE_PROGRAM: &str = "blockstack";

/// Programs, running agent and folders that all measurements use.
pub(super) struct Stage {
    pub(super) blkkin: String,
    /// Path of the program `blockstack`, the example that is measured.
    pub(super) blockstack: PathBuf,
    pub(super) agent: Agent,
    /// Folder in memory, for sockets and for files whose cost must not count.
    pub(super) memory: Output,
    /// Folder on a disk, for traces, nbdkit's log, and the stored spans.
    pub(super) disk: PathBuf,
}

impl Stage {
    /// Builds the example, and `blkkin` unless `options` name one. Starts an agent.
    pub(super) fn new(options: &Options) -> Result<Stage, String> {
        let disk = target_dir().join("bench/blockstack");
        fs::create_dir_all(&disk).map_err(at(&disk))?;
        let memory = Output::in_memory("blockstack")?;
        let blkkin = build(options)?;
        let blockstack = blkkin::folder().join(EXAMPLE_PROGRAM);
        let agent = Agent::start(&blkkin, &memory.0)?;
        Ok(Stage { blkkin, blockstack, agent, memory, disk })
    }

    /// Prints the lines of the agent's log, except the lines that report its sockets.
    pub(super) fn tell_complaints(&self, report: &Report) {
        let said = self.agent.log();
        for complaint in said.lines().filter(|line| !line.contains("listening on")) {
            report.say(format!("the agent says: {complaint}"));
        }
    }
}

/// Parameters of all measurements that have several rounds.
pub(super) struct Setup {
    pub(super) stage: Stage,
    /// Path of the example's program, compiled without instrumentation.
    pub(super) untraced: PathBuf,
    pub(super) rounds: usize,
    /// Duration of a slice, in which the mode does not change.
    pub(super) slice: Duration,
}

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

pub(super) fn build_untraced(disk: &Path) -> Result<PathBuf, String> {
    let apart = disk.join("untraced");
    let target = apart.to_string_lossy().into_owned();
    blkkin::build_packages(&[EXAMPLE], &["--features", "untraced", "--target-dir", &target])?;
    Ok(apart.join("release").join(EXAMPLE_PROGRAM))
}

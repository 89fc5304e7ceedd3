//! The interface of recorders under measurement, [`Recorder`], and the results of a run, [`Run`].

use super::background::Usage;
use super::case::{Call, Case, Subject};
use super::load::{Cost, Load};
use std::path::PathBuf;

/// A way to record the load's system calls.
pub(super) trait Recorder {
    /// Name for tables.
    fn name(&self) -> &'static str;

    /// Divisor of the number of operations, for slow recorders.
    fn divisor(&self) -> u64 {
        1
    }

    /// Returns true if the recorder can record this operation.
    fn records(&self, call: &Call) -> bool {
        call.subject == Subject::SystemCalls
    }

    /// Returns true for programs of other projects. Their failures end only their own measurement.
    fn is_peer(&self) -> bool {
        true
    }

    /// Runs the load once while recording.
    fn measure(&self, workspace: &Workspace<'_>, case: &Case) -> Result<Run, String>;
}

/// Programs and folders of a measurement.
pub(super) struct Workspace<'a> {
    /// Folder for the files of one run, in memory.
    pub(super) folder: PathBuf,
    pub(super) load: &'a Load,
}

/// Results of one run of the load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) cost: Cost,
    /// Number of system calls that the load made.
    pub(super) attempted: u64,
    /// Number of system calls in the recorder's output; `None` if it records nothing.
    pub(super) delivered: Option<u64>,
    /// Number of lost events or system calls, as the recorder tells it.
    pub(super) lost: Option<u64>,
    pub(super) usage: Option<Usage>,
}

impl Run {
    /// Returns the run of a load that nothing records.
    pub(super) fn bare(cost: Cost, case: &Case) -> Run {
        Run { cost, attempted: case.attempted(), delivered: None, lost: None, usage: None }
    }
}

/// The load alone: the baseline of all recorders.
pub(super) struct Bare;

impl Recorder for Bare {
    fn name(&self) -> &'static str {
        BARE
    }

    fn records(&self, _call: &Call) -> bool {
        true
    }

    fn is_peer(&self) -> bool {
        false
    }

    fn measure(&self, workspace: &Workspace<'_>, case: &Case) -> Result<Run, String> {
        Ok(Run::bare(workspace.load.run(case)?, case))
    }
}

pub(super) const BARE: &str = "bare";

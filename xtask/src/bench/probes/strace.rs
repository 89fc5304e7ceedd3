//! strace as a recorder. It stops the load at each call, so the load makes only a few. Start at
//! [`Strace`].

use super::background::count_lines;
use super::case::Case;
use super::perf::call_texts;
use super::recorder::{Recorder, Run, Workspace};
use std::process::Command;

pub(super) const PROGRAM: &str = "strace";

/// `strace -f -T`.
pub(super) struct Strace;

impl Recorder for Strace {
    fn name(&self) -> &'static str {
        "strace -f -T"
    }

    fn divisor(&self) -> u64 {
        100
    }

    fn measure(&self, workspace: &Workspace<'_>, case: &Case) -> Result<Run, String> {
        let output = workspace.folder.join("strace.out");
        let names: Vec<&str> = case.call.system_calls.iter().map(|call| call.name).collect();
        let mut strace = Command::new(PROGRAM);
        strace.args(["-f", "-qq", "-T", "-e", &format!("trace={}", names.join(",")), "-o"]);
        strace.arg(&output);
        let (cost, _) = workspace.load.run_below(Some(strace), case)?;
        let delivered = count_lines(&output, &call_texts(case))?;
        Ok(Run { delivered: Some(delivered), lost: Some(0), ..Run::bare(cost, case) })
    }
}

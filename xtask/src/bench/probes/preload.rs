//! `blkkin io --preload` as a recorder: a library in the load that records its calls. Start at
//! [`Preload`].

use super::case::Case;
use super::recorder::{Recorder, Run, Workspace};
use crate::bench::blkkin::count;
use std::process::Command;

pub(super) const PRELOAD: &str = "blkkin io --preload";

/// File name of the library, which is beside `blkkin`.
pub(super) const LIBRARY: &str = "libblkkin_preload.so";

/// `blkkin io --preload`, recording to a trace. Its cost includes the call of a shared C library,
/// one or two nanoseconds, as the bare load is linked statically.
pub(super) struct Preload {
    pub(super) program: String,
}

impl Recorder for Preload {
    fn name(&self) -> &'static str {
        PRELOAD
    }

    fn is_peer(&self) -> bool {
        false
    }

    fn measure(&self, workspace: &Workspace<'_>, case: &Case) -> Result<Run, String> {
        let trace = workspace.folder.join("preload");
        let mut command = Command::new(&self.program);
        command.args(["io", "--preload", "-o"]).arg(&trace).arg("--");
        let cost = workspace.load.run_shared(command, case)?;
        let names = case.call.system_calls.iter().map(|call| call.name);
        let names: Vec<String> = names.map(|name| format!("name == \"syscall:{name}\"")).collect();
        let delivered = Some(count(&self.program, &trace, Some(&names.join(" || ")))?);
        Ok(Run { delivered, ..Run::bare(cost, case) })
    }
}

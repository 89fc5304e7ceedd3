//! Options that select programs by process id or executable, as rules and lists of event types do.

use crate::exit::Error;
use blkkin_control::Processes;

/// Selection of programs.
#[derive(clap::Args, Clone, Debug)]
pub(in crate::commands) struct ProcessArgs {
    /// Only events of these processes; with --exe, also of the programs that --exe selects
    #[arg(long, value_name = "PID,…", value_delimiter = ',', help_heading = "Programs")]
    pid: Vec<u32>,

    /// Only events of programs with this executable: its name, or its path if there is a `/` in it;
    /// `*` matches any characters
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', help_heading = "Programs")]
    exe: Vec<String>,

    /// Also events of processes that these programs start, and their children
    #[arg(long, help_heading = "Programs")]
    children: bool,
}

impl ProcessArgs {
    pub(super) fn processes(self) -> Result<Processes, Error> {
        let ProcessArgs { pid: pids, exe: executables, children } = self;
        if children && pids.is_empty() && executables.is_empty() {
            return Err(Error::usage("--children is said of no program")
                .hint("give --pid or --exe, or leave --children out: all programs are meant"));
        }
        Ok(Processes { pids, executables, children })
    }
}

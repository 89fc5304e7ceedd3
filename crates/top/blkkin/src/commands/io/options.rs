//! Options of `blkkin io`, and those that `blkkin top io` shares.

use super::apps;
use super::choice::CGROUP_PREFIX;
use crate::output::ColorChoice;
use crate::values;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

/// Show the file and network operations of chosen programs
///
/// Programs are chosen by name, by control group, by process id, or as a command to run; programs
/// that they start are included for the last two. Programs need no changes and no restart. Needs
/// root, or the capabilities CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN; --preload needs no rights. The
/// list of names and groups can be changed while it runs: `blkkin io apps`.
#[derive(clap::Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    before_help = "Examples:\n  \
        blkkin io -- tar cf backup.tar src              a command and what it starts\n  \
        blkkin io --app fio --app postgres              all processes of these programs, also later ones\n  \
        blkkin io --app fio --summary                   sums by program, operation and file\n  \
        blkkin io --app fio --block                     also the requests to disks, below their operations\n  \
        blkkin io --cgroup system.slice/cron.service    all processes of a service\n  \
        blkkin io --pid 1327 --json | jq .path          one JSON object an operation\n  \
        blkkin io --app postgres -o trace               record only; then: blkkin io --from trace\n  \
        blkkin io apps set iozone,dd                    change the list of a running blkkin io\n  \
        blkkin io --preload -- python3 job.py           without privileges, from inside the program",
    after_help = IO_HELP
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(super) command: Option<Command>,

    #[command(flatten)]
    pub(super) programs: Programs,

    /// Show recorded traces, written by `-o`, instead of recording
    #[arg(
        long,
        value_name = "TRACE",
        conflicts_with_all = ["apps", "cgroups", "pids", "output", "run", "buffer", "block", "preload"]
    )]
    pub(super) from: Vec<PathBuf>,

    /// Write a CTF trace to DIR, which must be new or empty; operations are then shown only with
    /// --format, --json or --summary
    #[arg(short, long, value_name = "DIR")]
    pub(super) output: Option<PathBuf>,

    /// End the recording after this many operations; a command that was started continues
    #[arg(long, value_name = "N", help_heading = "Output")]
    pub(super) limit: Option<u64>,

    /// Form of the output [default: columns]
    #[arg(long, value_enum, value_name = "FORM", help_heading = "Output")]
    pub(super) format: Option<Format>,

    /// Same as --format json
    #[arg(long, conflicts_with = "format", help_heading = "Output")]
    pub(super) json: bool,

    /// Show sums by program, operation and file; on a terminal, every second
    #[arg(long, help_heading = "Output")]
    pub(super) summary: bool,

    /// When to colour the table of --summary
    #[arg(long, value_enum, value_name = "WHEN", default_value_t, help_heading = "Output")]
    pub(super) color: ColorChoice,

    /// Stop until the parent continues this process, then become the command
    #[arg(long, hide = true, requires = "run")]
    pub(super) gate: bool,
}

/// Programs to record.
#[derive(clap::Args, Debug)]
pub(super) struct Programs {
    /// Programs by name, as `ps -o comm` shows it: the first 15 characters
    #[arg(long = "app", value_name = "NAME", value_delimiter = ',', help_heading = "Programs")]
    pub(super) apps: Vec<String>,

    /// Processes in a control group of version 2 or below it, also those that start in it or move
    /// into it later: a directory, or a path such as system.slice/cron.service
    #[arg(long = "cgroup", value_name = "PATH", help_heading = "Programs")]
    pub(super) cgroups: Vec<String>,

    /// Processes by id, with the processes that they start from now on
    #[arg(long = "pid", value_name = "PID", value_delimiter = ',', help_heading = "Programs")]
    pub(super) pids: Vec<u32>,

    /// Size of each processor's buffer, a power of two [default: 4M, or less with more than 61
    /// processors]
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    pub(super) buffer: Option<u64>,

    /// Also record the requests to disks that the operations cause: device, operation, sector,
    /// size, and the times in which they were queued and served
    #[arg(long)]
    pub(super) block: bool,

    /// Record from inside the command, without privileges and at lower cost. Misses static
    /// programs, direct system calls (Go, io_uring), and calls that the C library makes itself
    /// (fopen, fread, printf)
    #[arg(
        long,
        requires = "run",
        conflicts_with_all = ["apps", "cgroups", "pids", "buffer"],
        help_heading = "Programs"
    )]
    pub(super) preload: bool,

    /// Command to run
    #[arg(last = true, value_name = "COMMAND", id = "run", help_heading = "Programs")]
    pub(super) run: Vec<OsString>,
}

/// Text after the options on the help page.
const IO_HELP: &str = "Exit status: 0, or that of the command; 3 if events were lost, and the command succeeded or \
    there was none (a message says how many); 1 something failed, 2 wrong usage, 126 or 127 the command cannot be run, \
    130 ended by Ctrl-C.";

/// Form of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// Aligned columns
    #[default]
    Columns,
    /// One JSON object a line
    Json,
    /// Lines of Rocks's app-trace: `1133384755854710 op: read execname: iozone pid: 3693 fd: 3 …`
    AppTrace,
}

#[derive(clap::Subcommand, Debug)]
pub(super) enum Command {
    Apps(apps::Args),
}

impl Programs {
    /// Returns true if no program is chosen.
    pub(super) fn is_empty(&self) -> bool {
        self.names().is_empty() && self.pids.is_empty() && self.run.is_empty()
    }

    /// Returns the names of programs, and the control groups with [`CGROUP_PREFIX`].
    pub(super) fn names(&self) -> BTreeSet<String> {
        let cgroups = self.cgroups.iter().map(|path| format!("{CGROUP_PREFIX}{path}"));
        self.apps.iter().cloned().chain(cgroups).collect()
    }
}

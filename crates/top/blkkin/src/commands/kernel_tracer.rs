//! `blkkin kernel-tracer`: the process that records events of the kernel for an agent, which has
//! given up the rights to do so itself. Started by the agent's command only.

use super::waiting;
use crate::exit::{Error, Exit};
use crate::limits::raise_descriptors;
use crate::output::agent_log;
use blkkin_agent::WaitingProcess;
use blkkin_kernel::CpuShare;
use std::fs;
use std::io;
use std::os::fd::AsFd;

/// Record events of the kernel for an agent
///
/// The agent starts this command itself. It waits on standard input for the path of the agent's
/// socket.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    budget: ProbeBudget,
}

/// Limit of the processor time that probes may take.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct ProbeBudget {
    /// Detach the costliest probes of the kernel and of programs when all together take more than
    /// this share of the time of all processors; 100% to detach none
    #[arg(long = "probe-budget", value_name = "PERCENT", default_value = "75%")]
    share: CpuShare,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Error> {
    let failed = |error: io::Error| Error::failed(format!("cannot trace the kernel: {error}"));
    let start = io::stdin().as_fd().try_clone_to_owned().map_err(failed)?;
    // Each probe has two.
    raise_descriptors();
    blkkin_kernel::trace_for_agent(start, args.budget.share, agent_log).map_err(failed)?;
    Ok(Exit::Ok)
}

/// Starts the waiting tracer of an agent; `None` if this process lacks the rights to trace the
/// kernel, or if the tracer cannot be started.
pub(crate) fn spawn(budget: ProbeBudget) -> Option<WaitingProcess> {
    let start = || waiting::spawn(&["kernel-tracer", "--probe-budget", &budget.share.to_string()]);
    let report = |error: &io::Error| {
        agent_log(&format!("events of the kernel cannot be recorded: {error}"));
    };
    has_rights().then(start)?.inspect_err(report).ok()
}

/// Bits of the capabilities in `/proc/self/status`.
const SYS_ADMIN: u64 = 1 << 21;
const PERFMON: u64 = 1 << 38;
const BPF: u64 = 1 << 39;

/// Returns true if this process has the capabilities for probes.
fn has_rights() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    let effective = effective.unwrap_or_default();
    effective & SYS_ADMIN != 0 || effective & BPF != 0 && effective & PERFMON != 0
}

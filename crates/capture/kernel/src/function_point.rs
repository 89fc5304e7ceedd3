//! Places of probes on functions of the kernel and on raw tracepoints.

use crate::error::ProbeRefusal;
use std::fmt;

/// Probe on a function of the kernel or on a raw tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionProbe {
    /// Place of the probe.
    pub point: FunctionPoint,
    /// Processes whose events are recorded.
    pub scope: ProcessScope,
}

/// Processes whose events a probe records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessScope {
    /// All processes, and interrupts.
    All,
    /// The chosen processes.
    Chosen,
}

/// Place of a probe in the kernel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FunctionPoint {
    /// Tracepoint with this name, such as `sched_switch`. Its arguments are recorded, before the
    /// kernel makes a record of them.
    RawTracepoint(String),
    /// Entry of a function. Its arguments are recorded.
    Entry(String),
    /// Exit of a function. Its arguments and its result are recorded.
    Exit(String),
    /// Instruction of a function, by a breakpoint or a jump. At the first instruction the arguments
    /// are recorded, at others the registers that calls use for arguments.
    Kprobe {
        /// Name of the function.
        function: String,
        /// Offset of the instruction from the function's start, in bytes.
        offset: u64,
    },
    /// Return of a function to its caller. Its result is recorded.
    Kretprobe(String),
}

impl FunctionPoint {
    /// Returns the name of the function or tracepoint.
    pub fn name(&self) -> &str {
        match self {
            FunctionPoint::RawTracepoint(name)
            | FunctionPoint::Entry(name)
            | FunctionPoint::Exit(name)
            | FunctionPoint::Kprobe { function: name, .. }
            | FunctionPoint::Kretprobe(name) => name,
        }
    }

    /// Returns the reason for which a probe is not possible if nothing has the name.
    pub(crate) fn missing(&self) -> ProbeRefusal {
        match self {
            FunctionPoint::RawTracepoint(_) => ProbeRefusal::NoTracepoint,
            _ => ProbeRefusal::NoFunction,
        }
    }
}

/// Writes the name of the probe's events, such as `fentry:vfs_read`.
impl fmt::Display for FunctionPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FunctionPoint::RawTracepoint(name) => write!(f, "raw:{name}"),
            FunctionPoint::Entry(name) => write!(f, "fentry:{name}"),
            FunctionPoint::Exit(name) => write!(f, "fexit:{name}"),
            FunctionPoint::Kprobe { function, offset: 0 } => write!(f, "kprobe:{function}"),
            FunctionPoint::Kprobe { function, offset } => {
                write!(f, "kprobe:{function}+{offset}")
            }
            FunctionPoint::Kretprobe(name) => write!(f, "kretprobe:{name}"),
        }
    }
}

//! Errors of attaching probes: what failed, and what to do.

use crate::btf::BtfError;
use crate::tracefs::TraceFsError;
use crate::user_refusal::UserRefusal;
use blkkin_control::limits::EVENT_TYPES_MAX;
use blkkin_filter::FilterError;
use std::fmt;
use std::io;

/// Reason why probes cannot be attached.
#[derive(Debug)]
pub enum Error {
    /// The processor is not one that this crate makes code for.
    Processor,
    /// The kernel's types cannot be read, or lack a type.
    Types(BtfError),
    /// A field is further from the start of its structure than an instruction can reach.
    TooFar {
        /// Name of the structure.
        structure: &'static str,
        /// Path of the field in it.
        path: &'static str,
    },
    /// The kernel's tracepoints cannot be read.
    Tracepoints(TraceFsError),
    /// A map cannot be created or changed.
    Map(&'static str, io::Error),
    /// A filter cannot run in the kernel.
    Filter {
        /// Name of the event type.
        event: String,
        /// Position in the filter, and the reason.
        error: Box<FilterError>,
    },
    /// The filter is for events that are not selected, or that cannot be filtered.
    FilterWithoutEvent(String),
    /// A jump in a program is too long because too many system calls were selected.
    TooLong(String),
    /// The kernel has not accepted a program.
    Load {
        /// Name of the program.
        program: String,
        /// Error of the system call.
        error: io::Error,
        /// The kernel's explanation; may be empty or long.
        log: String,
    },
    /// A program cannot be attached.
    Attach(String, io::Error),
    /// A probe on a function or a raw tracepoint is not possible.
    Probe {
        /// Name of the probe's events.
        probe: String,
        /// Reason.
        refusal: ProbeRefusal,
    },
    /// A probe on a program is not possible.
    UserProbe {
        /// Text of the probe.
        probe: String,
        /// Reason.
        refusal: UserRefusal,
    },
    /// The events have more types than a trace can describe.
    TooManyTypes,
}

impl Error {
    /// Returns true if the process lacks a right.
    pub fn is_permission(&self) -> bool {
        match self {
            Error::Map(_, error) | Error::Attach(_, error) | Error::Load { error, .. } => {
                error.kind() == io::ErrorKind::PermissionDenied
            }
            Error::Tracepoints(error) => matches!(error, TraceFsError::NotPermitted),
            _ => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const RIGHTS: &str =
            "run it as root, or with the capabilities CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN";
        match self {
            Error::Processor => {
                f.write_str("kernel probes are made for x86_64 only; this is another processor")
            }
            Error::Types(error) => error.fmt(f),
            Error::TooFar { structure, path } => {
                write!(f, "this kernel has `{path}` too far from the start of `{structure}`")
            }
            Error::Tracepoints(error) => error.fmt(f),
            Error::Filter { event, error } => {
                write!(f, "the filter of `{event}` cannot run in the kernel: {error}")
            }
            Error::FilterWithoutEvent(event) => {
                write!(
                    f,
                    "there is a filter for `{event}`, but no such system call or tracepoint \
                           is recorded"
                )
            }
            Error::TooLong(program) => {
                write!(f, "the program `{program}` is too long; record fewer system calls")
            }
            Error::Map(..) | Error::Attach(..) | Error::Load { .. } if self.is_permission() => {
                write!(f, "not permitted to attach probes to the kernel; {RIGHTS}")
            }
            Error::Map(name, error) => write!(f, "cannot make the kernel's map `{name}`: {error}"),
            Error::Probe { probe, refusal } => write!(f, "cannot record {probe}: {refusal}"),
            Error::UserProbe { probe, refusal } => write!(f, "cannot record {probe}: {refusal}"),
            Error::Attach(name, error) => write!(f, "cannot attach the program `{name}`: {error}"),
            Error::TooManyTypes => write!(
                f,
                "more than {EVENT_TYPES_MAX} types of events; start another session with fewer"
            ),
            Error::Load { program, error, log } => {
                write!(f, "the kernel refuses the program `{program}`: {error}")?;
                // The last lines tell what was wrong; those before them list the program.
                let lines: Vec<&str> = log.trim_end().lines().collect();
                let last = lines.len().saturating_sub(LOG_LINES);
                lines[last..].iter().try_for_each(|line| write!(f, "\n  {line}"))
            }
        }
    }
}

/// Reason for which a probe on a function or a raw tracepoint is not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeRefusal {
    /// No tracepoint has the name.
    NoTracepoint,
    /// No function has the name.
    NoFunction,
    /// The kernel's types have no function with the name.
    NoTypedFunction,
    /// Several functions have the name.
    Ambiguous,
    /// The kernel cannot pass the function's arguments to a program.
    Arguments,
    /// The kernel does not permit a breakpoint at the instruction.
    NotProbed,
    /// The kernel's compiler has left no room for tracing at the function's entry.
    NotTraceable,
    /// The kernel was built without kprobes.
    NoKprobes,
    /// The kernel was built without the function tracer.
    NoFunctionTracer,
    /// The kernel lacks a helper function.
    OldKernel,
    /// The kernel permits other programs, but none on functions.
    Forbidden,
    /// The pattern has an offset in a function.
    OffsetOfMany,
    /// The pattern has too many matches.
    TooManyMatches {
        /// Number of matches.
        count: usize,
        /// Maximum number of matches.
        max: usize,
    },
}

impl fmt::Display for ProbeRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProbeRefusal::TooManyMatches { count, max } => {
                return write!(f, "{count} names match, of which at most {max} are recorded; write \
                                  more of the name before the `*`");
            }
            ProbeRefusal::OffsetOfMany => "an offset is in one function; write its name without `*`",
            ProbeRefusal::NoTracepoint => {
                "the kernel has no such tracepoint; /sys/kernel/tracing/available_events lists all, \
                 each after its subsystem and a colon"
            }
            ProbeRefusal::NoFunction => {
                "the kernel has no such function; /proc/kallsyms lists all, and the compiler may \
                 have inlined it"
            }
            ProbeRefusal::NoTypedFunction => {
                "the kernel's types describe no such function; if /proc/kallsyms lists it, record \
                 it with kprobe or kretprobe"
            }
            ProbeRefusal::Ambiguous => {
                "the kernel has several functions of this name; record a function that calls them"
            }
            ProbeRefusal::Arguments => {
                "this kernel does not pass the function's arguments to programs: they are variable, \
                 too large or more than 6; record it with kprobe or kretprobe"
            }
            ProbeRefusal::NotProbed => {
                "the kernel permits no probe there: /sys/kernel/debug/kprobes/blacklist lists the \
                 functions that it protects, and an offset must be the start of an instruction"
            }
            ProbeRefusal::NotTraceable => {
                "the kernel cannot trace this function: \
                 /sys/kernel/tracing/available_filter_functions lists those that it can; try kprobe \
                 or kretprobe"
            }
            ProbeRefusal::NoKprobes => {
                "the kernel has no kprobes: it was built without CONFIG_KPROBES or \
                 CONFIG_KPROBE_EVENTS; use a kernel with both, or record it with fentry or fexit"
            }
            ProbeRefusal::NoFunctionTracer => {
                "the kernel cannot trace functions: it was built without CONFIG_FUNCTION_TRACER or \
                 CONFIG_DYNAMIC_FTRACE; use a kernel with both, or record it with kprobe or \
                 kretprobe"
            }
            ProbeRefusal::OldKernel => {
                "fentry and fexit need Linux 5.17; record it with kprobe or kretprobe"
            }
            ProbeRefusal::Forbidden => {
                "this kernel permits no fentry and fexit, although it permits other programs: its \
                 security policy forbids them; record it with kprobe or kretprobe, or on a kernel \
                 without the policy"
            }
        })
    }
}

/// Number of lines of the kernel's explanation in an error.
const LOG_LINES: usize = 8;

impl std::error::Error for Error {}

impl From<BtfError> for Error {
    fn from(error: BtfError) -> Error {
        Error::Types(error)
    }
}

impl From<TraceFsError> for Error {
    fn from(error: TraceFsError) -> Error {
        Error::Tracepoints(error)
    }
}

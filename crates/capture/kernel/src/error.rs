//! Errors of attaching probes: what failed, and what to do.

use crate::btf::BtfError;
use crate::tracefs::TraceFsError;
use blkkin_control::limits::EVENT_TYPES_MAX;
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
            Error::TooLong(program) => {
                write!(f, "the program `{program}` is too long; record fewer system calls")
            }
            Error::Map(..) | Error::Attach(..) | Error::Load { .. } if self.is_permission() => {
                write!(f, "not permitted to attach probes to the kernel; {RIGHTS}")
            }
            Error::Map(name, error) => write!(f, "cannot make the kernel's map `{name}`: {error}"),
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

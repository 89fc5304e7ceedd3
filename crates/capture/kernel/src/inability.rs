//! [`Inability`]: why this machine, or this process, cannot use a kind of probe.

use crate::btf::BtfError;
use crate::error::Error;
use crate::tracefs::TraceFsError;
use blkkin_sys::bpf::AttemptError;
use std::fmt;
use std::io;

/// Reason why a feature of the kernel cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inability {
    /// Kind of the reason.
    pub kind: InabilityKind,
    /// The reason as a text that can follow a colon.
    pub reason: String,
}

/// Kind of a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InabilityKind {
    /// The process lacks a right, or something that has refused it: whether the kernel has the
    /// feature is not known.
    NoRight,
    /// The kernel, or this machine, does not have the feature.
    Absent,
    /// Failure for another reason.
    Failed,
}

impl Inability {
    /// Creates an inability because the machine lacks something.
    pub(crate) fn absent(reason: impl Into<String>) -> Inability {
        Inability { kind: InabilityKind::Absent, reason: reason.into() }
    }

    /// Creates an inability with the error of a system call.
    pub(crate) fn of_call(what: &str, error: &io::Error) -> Inability {
        let kind = match error.kind() {
            io::ErrorKind::PermissionDenied => InabilityKind::NoRight,
            io::ErrorKind::NotFound | io::ErrorKind::Unsupported => InabilityKind::Absent,
            _ => InabilityKind::Failed,
        };
        Inability { kind, reason: format!("{what}: {error}") }
    }
}

impl fmt::Display for Inability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Inability {}

impl From<TraceFsError> for Inability {
    fn from(error: TraceFsError) -> Inability {
        let kind = match &error {
            TraceFsError::NotPermitted | TraceFsError::Denied { .. } => InabilityKind::NoRight,
            TraceFsError::Mount(_) | TraceFsError::Read { .. } | TraceFsError::Format { .. } => {
                InabilityKind::Failed
            }
            _ => InabilityKind::Absent,
        };
        Inability { kind, reason: error.to_string() }
    }
}

impl From<BtfError> for Inability {
    fn from(error: BtfError) -> Inability {
        let kind = match &error {
            BtfError::Read { error, .. } if error.kind() == io::ErrorKind::PermissionDenied => {
                InabilityKind::NoRight
            }
            BtfError::Read { .. } => InabilityKind::Failed,
            _ => InabilityKind::Absent,
        };
        Inability { kind, reason: error.to_string() }
    }
}

impl From<Error> for Inability {
    fn from(error: Error) -> Inability {
        let kind = match error {
            Error::Types(error) => return error.into(),
            Error::Tracepoints(error) => return error.into(),
            Error::Processor => InabilityKind::Absent,
            _ if error.is_permission() => InabilityKind::NoRight,
            _ => InabilityKind::Failed,
        };
        Inability { kind, reason: error.to_string() }
    }
}

impl From<AttemptError> for Inability {
    fn from(error: AttemptError) -> Inability {
        match &error {
            AttemptError::NoEventSource(_) => Inability::absent(error.to_string()),
            AttemptError::Load(cause) => Inability::of_call("the kernel refuses a program", cause),
            AttemptError::Attach(cause) => Inability::of_call("a program is not attached", cause),
        }
    }
}

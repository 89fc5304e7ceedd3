//! Probes in a list, and their arguments.

use super::kind::ProbeKind;

/// Probe in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedProbe {
    /// Kind of the probe.
    pub kind: ProbeKind,
    /// Whole name, such as `syscall:openat`.
    pub name: String,
    /// For the function of a program: its demangled name, if the name is mangled.
    pub demangled: Option<String>,
    /// Arguments of a USDT probe. [`Listing::arguments`](super::Listing::arguments)
    /// returns those of all kinds.
    pub(super) usdt_arguments: Vec<ListedArgument>,
}

impl ListedProbe {
    pub(super) fn new(kind: ProbeKind, name: String) -> ListedProbe {
        ListedProbe { kind, name, demangled: None, usdt_arguments: Vec::new() }
    }
}

/// Argument of a probe, or a value that is known at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedArgument {
    /// Name, such as `filename`.
    pub name: String,
    /// Type in C notation, such as `const char *`.
    pub type_text: String,
    /// Role of the value.
    pub role: ArgumentRole,
}

/// Role of a value of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentRole {
    /// Passed to the probe.
    Argument,
    /// Result of a system call.
    Result,
    /// Time that a system call took, in nanoseconds.
    Duration,
}

impl ListedArgument {
    pub(super) fn new(name: impl Into<String>, type_text: impl Into<String>) -> ListedArgument {
        let (name, type_text) = (name.into(), type_text.into());
        ListedArgument { name, type_text, role: ArgumentRole::Argument }
    }
}

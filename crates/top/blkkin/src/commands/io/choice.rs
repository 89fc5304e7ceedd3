//! Changes of the choice of programs while they are recorded.

use std::collections::BTreeSet;

/// Prefix of control groups among names of programs.
pub(super) const CGROUP_PREFIX: &str = "cgroup:";

/// Change of the choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// All processes of the programs with these names, and no others by name. A name with
    /// [`CGROUP_PREFIX`] stands for all processes in a control group.
    Names(BTreeSet<String>),
    /// A process, with the processes that it will start.
    Process(u32),
    /// All processes except this one, for a recording that was started without programs.
    All,
}

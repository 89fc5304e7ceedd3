//! Changes of the choice of programs while they are recorded.

use std::collections::BTreeSet;

/// Change of the choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// All processes of the programs with these names, and no others by name.
    Names(BTreeSet<String>),
    /// A process, with the processes that it will start.
    Process(u32),
}

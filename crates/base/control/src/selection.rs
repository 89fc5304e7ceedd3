//! Selection of events and processes, shared by commands and rules.

use crate::encoding::{Flag, List, Number, Optional, RecordForm};
use crate::limits::{EVENT_NAME_SIZE_MAX, EXECUTABLES_MAX, PATH_SIZE_MAX, PATTERNS_MAX, PIDS_MAX};
use crate::text::{FILTER, Letters, Text};
use blkkin_filter::Severity as Level;

pub(crate) const PATTERN: Text = Text::new(Letters::Name, EVENT_NAME_SIZE_MAX);
const EXECUTABLE: Text = Text::new(Letters::Name, PATH_SIZE_MAX);

record! {
    /// Events selected by name, level, filter and process; all four conditions must hold. In
    /// patterns, `*` matches any characters, and `\*` a star.
    pub struct Selection {
        /// Patterns of which at least one must match the event's name.
        pub names: Vec<String> = List { count_min: 1, count_max: PATTERNS_MAX, of: PATTERN },
        /// Patterns of which none may match the event's name.
        pub excluded: Vec<String> = List { count_min: 0, count_max: PATTERNS_MAX, of: PATTERN },
        /// Severity levels of the selected events.
        pub levels: Levels = RecordForm,
        /// Filter that must hold for the event.
        pub filter: Option<String> = Optional(FILTER),
        /// Processes whose events are selected.
        pub processes: Processes = RecordForm,
    }
}

impl Selection {
    /// Selects all events whose name matches one of these patterns.
    pub fn for_names(names: impl IntoIterator<Item: Into<String>>) -> Selection {
        let names = names.into_iter().map(Into::into).collect();
        let (excluded, processes) = (Vec::new(), Processes::default());
        Selection { names, excluded, levels: Levels::Any, filter: None, processes }
    }
}

choice! {
    /// Set of severity levels.
    #[derive(Copy)]
    pub enum Levels {
        /// All severity levels.
        0 "any" Any,
        /// A level and all levels that are more severe.
        1 "at-least" AtLeast {
            /// The least severe level of the set.
            level: Level = RecordForm,
        },
        /// Exactly one severity level.
        2 "exactly" Exactly {
            /// The only level of the set.
            level: Level = RecordForm,
        },
    }
}

record! {
    /// Set of processes, running or started later. An empty set selects all processes.
    #[derive(Default)]
    pub struct Processes {
        /// Process ids, as the agent sees them.
        pub pids: Vec<u32> = List { count_min: 0, count_max: PIDS_MAX, of: Number },
        /// Patterns for paths of executables. A pattern with a `/` is matched against the whole
        /// path, and a pattern without against the path's last component.
        pub executables: Vec<String> =
            List { count_min: 0, count_max: EXECUTABLES_MAX, of: EXECUTABLE },
        /// Set if all descendants of the selected processes are included.
        pub children: bool = Flag,
    }
}

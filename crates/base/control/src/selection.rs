//! Selection of events and processes, used in requests and rules.

use crate::encoding::{Flag, List, Number, Optional, RecordForm};
use crate::limits::{EVENT_NAME_SIZE_MAX, EXECUTABLES_MAX, PATH_SIZE_MAX, PATTERNS_MAX, PIDS_MAX};
use crate::text::{FILTER, Letters, Text};
use blkkin_filter::Severity as Level;

pub(crate) const PATTERN: Text = Text::new(Letters::Name, EVENT_NAME_SIZE_MAX);
const EXECUTABLE: Text = Text::new(Letters::Name, PATH_SIZE_MAX);

record! {
    /// Events selected by name, level, filter and process; all four conditions must hold. In
    /// patterns, `*` matches any characters, and `\*` matches a star.
    pub struct Selection {
        /// Patterns of which at least one must match the event's name.
        pub names: Vec<String> = List { count_min: 1, count_max: PATTERNS_MAX, of: PATTERN },
        /// Patterns of which none may match the event's name.
        pub excluded: Vec<String> = List { count_min: 0, count_max: PATTERNS_MAX, of: PATTERN },
        /// Severity levels of the selected events.
        pub levels: Levels = RecordForm,
        /// Source text of a filter that must hold for the event; `None` selects all events.
        pub filter: Option<String> = Optional(FILTER),
        /// Processes whose events are selected.
        pub processes: Processes = RecordForm,
    }
}

impl Selection {
    /// Makes a selection of all events whose name matches one of these patterns.
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
        /// Set of one level and all levels that are more severe.
        1 "at-least" AtLeast {
            /// Least severe level of the set.
            level: Level = RecordForm,
        },
        /// Set of exactly one severity level.
        2 "exactly" Exactly {
            /// Only level of the set.
            level: Level = RecordForm,
        },
    }
}

record! {
    /// Set of running or future processes, selected by process id or executable. If `pids` and
    /// `executables` are both empty, the set contains all processes.
    #[derive(Default)]
    pub struct Processes {
        /// Process ids, as the agent sees them.
        pub pids: Vec<u32> = List { count_min: 0, count_max: PIDS_MAX, of: Number },
        /// Patterns for executables. A pattern that contains a `/` must match the whole path; any
        /// other pattern must match the path's last component.
        pub executables: Vec<String> =
            List { count_min: 0, count_max: EXECUTABLES_MAX, of: EXECUTABLE },
        /// Set if descendants of a selected process are included too, provided that the selected
        /// process is still running as their ancestor.
        pub children: bool = Flag,
    }
}

//! Which events of which processes are meant: the one way to say it.

use crate::form::{Flag, List, Number, Optional, Own};
use crate::limits::{EVENT_NAME_SIZE_MAX, EXECUTABLES_MAX, PATH_SIZE_MAX, PATTERNS_MAX, PIDS_MAX};
use crate::text::{FILTER, Letters, Text};
use blkkin_filter::Severity as Level;

pub(crate) const PATTERN: Text = Text::new(Letters::Name, EVENT_NAME_SIZE_MAX);
const EXECUTABLE: Text = Text::new(Letters::Name, PATH_SIZE_MAX);

record! {
    /// Events of which the name fits, the level fits, the filter is true and the process is meant.
    /// In patterns, `*` stands for any characters, and `\*` for a star.
    pub struct Selection {
        /// The name fits one of these patterns, …
        pub names: Vec<String> = List { count_min: 1, count_max: PATTERNS_MAX, of: PATTERN },
        /// … and none of these.
        pub excluded: Vec<String> = List { count_min: 0, count_max: PATTERNS_MAX, of: PATTERN },
        /// How severe they are.
        pub levels: Levels = Own,
        /// What holds for them.
        pub filter: Option<String> = Optional(FILTER),
        /// Whose they are.
        pub processes: Processes = Own,
    }
}

impl Selection {
    /// All events of which the name fits one of these patterns.
    pub fn of(names: impl IntoIterator<Item: Into<String>>) -> Selection {
        let names = names.into_iter().map(Into::into).collect();
        let (excluded, processes) = (Vec::new(), Processes::default());
        Selection { names, excluded, levels: Levels::Any, filter: None, processes }
    }
}

choice! {
    /// Levels of severity.
    #[derive(Copy)]
    pub enum Levels {
        /// All.
        0 "any" Any,
        /// This one and more severe ones.
        1 "at-least" AtLeast {
            /// The least severe.
            level: Level = Own,
        },
        /// Only this one.
        2 "exactly" Exactly {
            /// This one.
            level: Level = Own,
        },
    }
}

record! {
    /// Processes that run, and those that are started later. If none are named, all.
    #[derive(Default)]
    pub struct Processes {
        /// Their numbers, as the daemon sees them.
        pub pids: Vec<u32> = List { count_min: 0, count_max: PIDS_MAX, of: Number },
        /// Patterns for their executables: for the whole path if there is a `/` in it, else for
        /// what follows the path's last.
        pub executables: Vec<String> =
            List { count_min: 0, count_max: EXECUTABLES_MAX, of: EXECUTABLE },
        /// Also what they start, and what that starts.
        pub children: bool = Flag,
    }
}

//! Turns events of system calls into I/O operations, in bounded memory.
//!
//! A [`Tracker`] receives events in order of time. It keeps the state of each process (name,
//! working directory, open descriptors) and returns an [`Operation`] for each system call that does
//! I/O. A [`Lookup`] provides state that no event described. A [`Summary`] sums up operations. The
//! modules in the order of the data: `values` and `extract` (fields of an event), `calls` (the
//! table of system calls), `processes` (state), `tracker`, `operation`, `summary`.
//!
//! # Events
//!
//! The context of each event has the integers `pid` and `tid`.
//!
//! | event | payload |
//! | --- | --- |
//! | `syscall:NAME` | arguments by their kernel names, `ret`, `duration`; at the end of the call |
//! | `process:fork` | `child`; ignored if the child is the same process (a thread) |
//! | `process:exec` | `filename`, `name` |
//! | `process:exit` | ends the process if the thread is the process's first |
//! | `state:process` | `of_pid`, `name`, `cwd` at the start of the recording |
//! | `state:file` | `of_pid`, `fd`, `path` at the start of the recording |
//!
//! Paths are strings, empty if unreadable. Socket addresses are blobs or arrays of bytes.
//!
//! # Limits of the state
//!
//! Paths are resolved without regard to symbolic links. A renamed file keeps the path with which it
//! was opened. Processes that share one table of descriptors (`CLONE_FILES` without `CLONE_THREAD`)
//! are treated as if each had a copy. Descriptors from a state event or a lookup are assumed to
//! stay open at `exec`, as close-on-exec is unknown. Lost events may leave stale paths.

mod calls;
mod extract;
mod histogram;
mod lookup;
mod operation;
mod path;
mod peer;
mod processes;
mod summary;
mod tracker;
mod values;

pub use calls::call_names;
pub use histogram::Histogram;
pub use lookup::{Lookup, NoLookup};
pub use operation::{Operation, OperationKind};
pub use processes::Drops;
pub use summary::{Grouping, OTHER, Row, Summary};
pub use tracker::{Counts, Tracker};

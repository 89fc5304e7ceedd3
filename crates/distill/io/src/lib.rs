//! Turns events of system calls into I/O operations, in bounded memory.
//!
//! A [`Tracker`] receives events in order of time. It keeps the state of each process (name,
//! working directory, open descriptors) and returns an [`Operation`] for each system call that does
//! I/O. State that no event described is unknown. A [`Summary`] sums up operations. The modules in
//! the order of the data: `values` and `extract` (fields of an event), `calls` (the table of system
//! calls), `processes` (state), `uring` (requests of io_uring), `disk` (requests to disks),
//! `tracker`, `operation`, `summary`.
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
//! | `process:exit` | ends the process; recorded once, by its last thread |
//! | `state:process` | `of_pid`, `name`, `cwd` when the process was chosen |
//! | `state:file` | `of_pid`, `fd`, `path` when the process was chosen |
//! | `uring:submit` | `ring`, `request`, `user_data`, `opcode`, `flags`, `fd`, `offset`, `length` |
//! | `uring:complete` | `ring`, `request` or 0, `user_data`, `ret`, `flags` |
//! | `disk:request` | `device`, `operation`, `call`, `sector`, `bytes`, `queued`, `served`, … |
//!
//! Paths are strings, empty if unreadable. Socket addresses are blobs or arrays of bytes. `offset`
//! and `length` have a meaning for reads and writes only. `request` is 0 if the request will
//! complete again.
//!
//! `disk:request` is recorded when a disk has completed a request; its context names the thread
//! that has queued it, or has ids of 0. `error` is 0 or its status. `device`, `operation` and
//! `call` are enumerations. `call` is the system call in which the thread queued the request, or
//! `none` (a page fault), `kernel` or `unknown`. A request belongs to the operation of its thread
//! during which it was queued ([`Operation::disk`]), if it has completed before the operation ends.
//! All other requests are returned by [`Tracker::take_disk_requests`]. So is a request whose
//! operation's event was lost;
//! it is never joined to another operation.
//!
//! # Limits of the state
//!
//! Paths are resolved without regard to symbolic links. A renamed file keeps the path with which it
//! was opened. Processes that share one table of descriptors (`CLONE_FILES` without `CLONE_THREAD`)
//! are treated as if each had a copy. Close-on-exec is unknown for descriptors from a state event
//! and for those of `openat2`, whose flags are in a structure that the kernel reads, unless the
//! event has a field `flags`. Such descriptors are assumed to stay open at `exec`.
//!
//! A request of io_uring becomes an operation when it completes. Its paths and socket addresses are
//! unknown, except for the path of its descriptor; so is the file of a registered descriptor.
//!
//! After a loss of events, descriptors, positions and directories may be stale. [`Tracker::lost`]
//! marks operations that depend on them ([`Operation::is_certain`]) until events set them again.
//! Names of processes are not marked. A loss is known only when its ring delivers the next packet,
//! so operations shortly before may be wrong without a mark.

mod calls;
mod disk;
mod disk_request;
mod extract;
mod histogram;
mod operation;
mod path;
mod peer;
mod processes;
mod summary;
mod tracker;
mod uring;
mod values;

pub use calls::call_names;
pub use disk_request::{DiskCause, DiskRequest};
pub use histogram::Histogram;
pub use operation::{Operation, OperationKind};
pub use processes::Drops;
pub use summary::{DiskRow, OTHER, Row, Summary};
pub use tracker::{Counts, Tracker};

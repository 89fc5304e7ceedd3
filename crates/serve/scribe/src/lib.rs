//! The daemon behind `blkkin scribe`: takes messages as Scribe's own daemon does, by its configuration, and passes them
//! on to files and other servers. What it says `OK` to is on disk.
//!
//! Messages come in at `router`, which finds the category's `lane`: a journal, from which an `outlet` for each
//! configured store reads, behind what comes in, at its own pace. It notes durably how far it is. So a store that is
//! away costs room on disk, and nothing else; Scribe's *buffer* is the same with other words, and its *secondary* only
//! names where the journal lies.
//!
//! Start at [`Daemon`]; [`Config`] is what people write.

mod config;
mod counters;
mod daemon;
mod lane;
mod messages;
mod outlet;
mod plan;
mod router;
mod stores;

pub use config::{Config, Problem};
pub use daemon::{Daemon, Options, Remote};
pub use plan::{Plan, Target};

//! The daemon behind `blkkin scribe`: accepts messages like Scribe's own daemon, with the same
//! configuration, and forwards them to files and other servers. A message answered with `OK` is
//! durable on disk, or was discarded and counted because it has no category, no suitable store, or
//! is too large.
//!
//! The `router` appends each message to the journal in its category's `queue`. An `outlet` for each
//! configured store reads the journal independently, at its own pace, and stores its position
//! durably. So an unavailable store costs disk space but delays no other store. Scribe's *buffer*
//! store is implemented by the same journal; its *secondary* only names the journal's directory.
//!
//! Start at [`Daemon`]; [`Config`] is the users' configuration.

mod config;
mod counters;
mod daemon;
mod fnv;
mod messages;
mod outlet;
mod plan;
mod queue;
mod router;
mod stores;

pub use config::{Config, Problem};
pub use daemon::{Daemon, Options, Remote};
pub use plan::{Plan, Target};

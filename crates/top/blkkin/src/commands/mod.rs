//! Subcommands, one file each. `event_limits`, `private_agent`, `rotation` and `write` are shared
//! by several subcommands.

pub(crate) mod agent;
pub(crate) mod channel;
pub(crate) mod completions;
pub(crate) mod convert;
pub(crate) mod crash;
pub(crate) mod cut;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod event;
pub(crate) mod event_limits;
pub(crate) mod forward;
pub(crate) mod forwarder;
pub(crate) mod info;
pub(crate) mod io;
pub(crate) mod kernel_tracer;
pub(crate) mod live;
pub(crate) mod merge;
mod private_agent;
pub(crate) mod probe;
pub(crate) mod query;
mod receiver_headers;
pub(crate) mod record;
pub(crate) mod relay;
pub(crate) mod rotation;
pub(crate) mod sampling;
pub(crate) mod scribe;
pub(crate) mod send;
pub(crate) mod server;
pub(crate) mod service;
pub(crate) mod session;
pub(crate) mod spans;
#[cfg(feature = "sql")]
pub(crate) mod sql;
pub(crate) mod status;
pub(crate) mod store;
pub(crate) mod top;
pub(crate) mod trigger;
pub(crate) mod view;
mod waiting;
mod write;

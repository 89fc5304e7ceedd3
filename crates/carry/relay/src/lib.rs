//! The relay: receives sessions of many nodes, stores them as traces, and serves live viewers.
//!
//! - [`Relay::start`] opens the sockets; `server` has a thread for each connection, and `admission`
//!   the rules for peers.
//! - `control`, `data` and `viewing` are the states of connections, without sockets. They act on
//!   the [`Sessions`] of the relay.
//! - `session`, `stream`, `metadata` and `clock_log` are what producers have sent; `output` and
//!   `chunk` are its directories.
//!
//! A packet is published to viewers when the packet and its index have arrived, which is after the
//! metadata that it needs. Viewers read published packets from the files, so a slow viewer takes no
//! memory and delays nobody. Viewers of BlkKin wait for news, and are woken by `waiters`.

mod admission;
mod chunk;
mod clock_log;
mod close;
mod control;
mod data;
mod files;
mod metadata;
mod output;
mod server;
mod session;
mod sessions;
mod stream;
#[cfg(test)]
mod tests;
mod viewing;
mod waiters;

pub use admission::Admission;
pub use control::Control;
pub use data::DataReceiver;
pub use server::{Addresses, Options, Relay};
pub use session::SessionSummary;
pub use sessions::Sessions;
pub use viewing::Viewing;

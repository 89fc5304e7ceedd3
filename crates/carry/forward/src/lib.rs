//! Sends the traces in a directory to a relay, also while they grow.
//!
//! A [`Delivery`] sends the traces below a directory, and connects again when a connection fails.
//! For each connection it has a `forwarder`, a producer of the relay's protocol over the sockets of
//! `connection`. `spool` finds and reads the traces, `watcher` waits until they change, and
//! `positions` holds what the relay has acknowledged. Packets are sent undecoded, by the index
//! beside each stream file, and metadata always before the packets that need it. A [`Trimmer`]
//! drops the oldest packets for which there is no room, apart from those in `sent_positions`.
//! `clock_meter` measures the offset of this machine's clocks from the relay's.
//! [`Target`] is the address of a relay.

mod clock_meter;
mod connection;
mod delivery;
mod forwarder;
mod positions;
mod sent_positions;
mod spool;
mod target;
#[cfg(test)]
mod tests;
mod trimmer;
mod watcher;

pub use delivery::{Delivery, Persistence, Report};
pub use forwarder::{SessionName, Totals};
pub use sent_positions::SentPositions;
pub use target::{Target, TargetError};
pub use trimmer::{Dropped, Trimmer};

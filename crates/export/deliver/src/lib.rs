//! Spans to another system, at least once: Zipkin's, one that takes OpenTelemetry's protocol, or Scribe. Start at
//! [`Exporter`].
//!
//! Spans are put into batches ([`Exporter::push`]), each encoded once, in the destination's format. Batches wait in
//! a queue, and a thread sends them in order, one at a time, until the destination has taken each or said that it
//! never will. What the destination has taken, what was given up and why, and what waits is counted
//! ([`Counters`]); these always add up to what was pushed and found.
//!
//! - With a folder for the queue, what was pushed before [`Exporter::flush`] returned is on disk, and survives the end
//!   of the program and of the power. What waits is sent by the next one that opens the folder.
//! - Without one, what waits is in memory, and gone with the program. That is the weaker mode.
//!
//! Either is bounded: a full queue takes nothing more ([`Refusal`]), or gives up the oldest ([`WhenFull`]).
//!
//! As data passes: `destination` (what a URL means), `exporter` (batches), `record` (what a batch is in the queue),
//! `queue` (on disk, in memory), `sender` (the thread: when to try again, when to give up), `client` (one connection),
//! `http`, `grpc` and `scribe` (what is asked, and what an answer means), `refused` (batches that nobody wants).
//!
//! # What is not promised
//!
//! That nothing arrives twice: an answer that is lost is as good as none. Receivers can tell a span by its ids.

mod backoff;
mod client;
mod counters;
mod destination;
mod error;
mod exporter;
mod grpc;
mod headers;
mod http;
mod options;
mod queue;
mod record;
mod refused;
mod scribe;
mod sender;
mod shared;
mod verdict;

pub use counters::{Cause, Counters};
pub use destination::{Destination, UNDERSTOOD};
pub use error::{Error, Refusal};
pub use exporter::Exporter;
pub use headers::Headers;
pub use options::{Options, WhenFull};

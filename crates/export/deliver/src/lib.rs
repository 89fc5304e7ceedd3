//! Exports spans to another system, at least once: Zipkin, an OpenTelemetry receiver, or Scribe.
//! Start at [`Exporter`].
//!
//! Spans are collected into batches ([`Exporter::push`]), each encoded once in the destination's
//! format. Batches wait in a queue. A thread sends the batches in order, one at a time, and repeats
//! each until the destination has accepted or refused it, or it is dropped ([`Cause`]).
//! [`Counters`] count delivered, dropped and waiting spans; their sum always equals the spans
//! pushed and found in the queue.
//!
//! - With a queue folder, spans pushed before [`Exporter::flush`] returned are durable: they
//!   survive a crash of the program and a power failure. The next exporter that opens the folder
//!   sends them.
//! - Without a folder, waiting spans are in memory and lost with the program.
//!
//! Both queues are bounded: a full queue refuses spans ([`Refusal`]) or drops the oldest spans
//! ([`WhenFull`]).
//!
//! Modules in the order of the data: `destination` (URLs), `exporter` (the interface), `state`
//! (current batch and counters), `record` (encoding of a batch in the queue), `queue` (on disk or
//! in memory), `sender` (the thread, with its retries), `client` (the connection), `http`, `grpc`
//! and `scribe` (requests, and the interpretation of answers), `refused_folder` (refused batches).
//!
//! # Duplicates
//!
//! Spans may arrive twice: a batch is sent again if its answer is lost, or if a crash loses the
//! latest position in the queue. Receivers can identify a span by its ids.

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
mod refused_folder;
mod scribe;
mod sender;
mod state;
mod supported_urls;
mod verdict;

pub use counters::{Cause, Counters};
pub use destination::Destination;
pub use error::{Error, Refusal};
pub use exporter::Exporter;
pub use headers::Headers;
pub use options::{Options, WhenFull};
pub use supported_urls::SUPPORTED_URLS;

//! Receives spans over HTTP, gRPC and Scribe, in all formats of `export/wire`, passes them to a
//! store, and reports the result. Start at [`Collector`]. The collector opens no socket: a server
//! passes requests to it.
//!
//! - A sender gets its acknowledgement only after its spans are queryable and as durable as the
//!   store makes them.
//! - Memory is bounded by limits on each body, on each decompressed message, and on all messages
//!   together ([`Settings`]). A message that exceeds the limit of all messages is answered with a
//!   request to retry.
//! - Refused messages and spans are counted for each transport ([`Counters`]).

mod body;
mod budget;
mod collector;
mod counters;
mod decompress;
mod grpc;
mod otlp;
mod protobuf;
mod rejection;
mod response_body;
mod scribe;
mod settings;
mod sniff;
mod zipkin;

pub use budget::{Budget, Full, Reservation};
pub use collector::Collector;
pub use counters::{Counters, Transport};
pub use grpc::HEALTH;
pub use response_body::{Answer, Content};
pub use scribe::ScribeSpans;
pub use settings::Settings;
pub use zipkin::Version;

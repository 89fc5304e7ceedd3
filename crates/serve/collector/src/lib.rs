//! Receives spans over HTTP, gRPC and Scribe, in all formats of `export/wire`, hands them to a
//! store, and reports the result. Start at [`Collector`]. It opens no socket: a server passes
//! requests to it.
//!
//! - A sender gets its acknowledgement only after the store has made its spans durable.
//! - Memory is bounded: there is a limit for each body, for each decompressed message, and for all
//!   of them together ([`Settings`]). A sender beyond the limit is asked to try again.
//! - Refused messages and spans are counted for each transport ([`Counters`]).

mod body;
mod budget;
mod collector;
mod content;
mod counters;
mod decompress;
mod grpc;
mod otlp;
mod protobuf;
mod rejection;
mod scribe;
mod settings;
mod sniff;
mod zipkin;

pub use budget::{Budget, Full, Hold};
pub use collector::Collector;
pub use content::{Answer, Content};
pub use counters::{Counters, Transport};
pub use grpc::HEALTH;
pub use scribe::ScribeSpans;
pub use settings::Settings;
pub use zipkin::Version;

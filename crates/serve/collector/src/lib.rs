//! Takes spans that come over HTTP and gRPC, in all formats of `export/wire`, gives them to a store, and says what
//! became of them. Start at [`Collector`]. It opens no socket: a server hands it requests.
//!
//! - Nobody is told that spans were taken before the store said that they are durable.
//! - Memory is bounded: each body and what it unpacks to have a limit, and all of them together ([`Settings`]). Who
//!   comes when there is no room is told to come again.
//! - What is refused is counted by the way on which it came ([`Counters`]).

mod body;
mod budget;
mod collector;
mod content;
mod counters;
mod grpc;
mod otlp;
mod protobuf;
mod scribe;
mod settings;
mod sniff;
mod trouble;
mod unpack;
mod zipkin;

pub use budget::{Budget, Full, Hold};
pub use collector::Collector;
pub use content::{Answer, Content};
pub use counters::{Counters, Transport};
pub use grpc::HEALTH;
pub use scribe::ScribeSpans;
pub use settings::Settings;
pub use zipkin::Version;

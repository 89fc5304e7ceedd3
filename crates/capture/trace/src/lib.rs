//! The tracing API: traces, spans, annotations with Dapper semantics.
//!
//! It runs inside other people's programs: it starts no thread, waits for nothing, panics nowhere,
//! and allocates nothing where programs spend their time. So far it has what tells spans apart and
//! carries them from program to program: [`id`]s, the [`context`] in which a span happens and its
//! forms in headers, and [`sample`], which decides which requests are followed.

pub mod context;
pub mod id;
pub mod sample;

#[cfg(test)]
mod random;

/// How severe an event is: LTTng's fifteen levels.
pub use blkkin_filter::Severity as Level;
/// That a text names no level.
pub use blkkin_filter::UnknownSeverity as UnknownLevel;

pub use context::{Decision, Incoming, SpanContext};
pub use id::{SpanId, TraceId};
pub use sample::Sampler;

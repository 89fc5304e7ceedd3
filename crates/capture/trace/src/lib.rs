//! The tracing API: traces, spans, annotations with Dapper semantics.
//!
//! It runs inside other people's programs: it waits for nothing, panics nowhere, and allocates nothing
//! where programs spend their time. It has one thread, only while there is a daemon to talk to:
//! [`daemon`].
//!
//! An [`event!`] is recorded into the rings of all [`channels`] that want it, which [`registry`]
//! decides. [`span`]s, the steps of requests, are told apart by [`id`]s, happen in a [`context`] that
//! has forms for headers, and are followed or not as [`sample`] says. What is said of them is
//! recorded as the events that [`family`] lists.

// Tests within this crate use what those beside it do.
#[cfg(test)]
extern crate self as blkkin_trace;

mod app_context;
pub mod channels;
pub mod context;
pub mod daemon;
mod event;
mod event_context;
mod event_type;
pub mod family;
pub mod id;
mod kind;
mod moment;
pub mod registry;
pub mod sample;
pub mod span;
mod start;
mod value;

/// How severe an event is: LTTng's fifteen levels.
pub use blkkin_filter::Severity as Level;
/// That a text names no level.
pub use blkkin_filter::UnknownSeverity as UnknownLevel;

/// What fields are appended to.
pub use blkkin_ring::Encoder;

pub use app_context::set_context;
/// What the daemon records where: types of the messages that [`registry`] takes.
pub use blkkin_control as control;
/// What fields hold: numbers, which arrays and sequences have many of, and labels of enumerations.
pub use blkkin_control::{Scalar, Width, catalog::Label};
pub use context::{Decision, Incoming, SpanContext};
pub use daemon::start;
pub use event_type::EventType;
pub use id::{SpanId, TraceId};
pub use kind::{Kind, Labels};
pub use sample::Sampler;
pub use span::{CoreAnnotation, Endpoint, KeyValue, Moment, Span, SpanKind, Trace};
pub use value::{Fields, Number, Value};

//! The tracing API: requests, spans and annotations with Dapper's semantics, and events.
//!
//! The crate runs inside other people's programs: it does not panic, and allocates nothing on their
//! hot paths. A program waits only for the crate's thread and an agent's rules, before `main` and
//! at a forked child's first event, and for space in a full ring if the channel demands it. The
//! crate's only thread starts once the program has found an agent, or an agent that started later
//! has requested a connection; in a forked child, at the first event: see [`daemon`].
//!
//! An [`event!`] is recorded into the rings of all [`channels`] whose rules in the [`registry`]
//! match. [`span`]s are the steps of requests. A span has an [`id`] and a [`context`], which is
//! propagated in headers. [`sample`] decides which requests are sampled. Spans and annotations are
//! recorded as the events that [`family`] lists.

// Lets the support modules of integration tests, included by unit tests, name this crate.
#[cfg(test)]
extern crate self as blkkin_trace;

mod app_context;
pub mod channels;
pub mod context;
pub mod current_span;
pub mod daemon;
mod event;
mod event_context;
mod event_type;
pub mod family;
pub mod id;
mod kind;
mod probe;
pub mod registry;
pub mod sample;
pub mod span;
mod start;
mod timestamp;
mod value;

/// Severity of an event: LTTng's fifteen levels.
pub use blkkin_filter::Severity as Level;
/// Error for a text that is neither the name nor the number of a level.
pub use blkkin_filter::UnknownSeverity as UnknownLevel;

/// Encoder of an event's fields.
pub use blkkin_ring::Encoder;

pub use app_context::set_context;
/// The control protocol, with the types of the rules that [`registry`] applies.
pub use blkkin_control as control;
/// Number types of fields and of the elements of arrays and sequences, widths of integers, and
/// labels of enumerations.
pub use blkkin_control::{Scalar, Width, catalog::Label};
pub use context::{Decision, Incoming, SpanContext};
pub use daemon::start;
pub use event_type::EventType;
pub use id::{SpanId, TraceId};
pub use kind::{Kind, Labels};
pub use probe::EventSite;
pub use sample::Sampler;
pub use span::{CoreAnnotation, Endpoint, EnteredSpan, KeyValue, Span, SpanKind, Timestamp, Trace};
pub use value::{Fields, Number, Value};

/// Parts of the expansion of [`event!`].
#[doc(hidden)]
pub use {
    blkkin_sys::{UsdtArguments, usdt_probe, usdt_static},
    probe::{Probe, ProbeText},
};

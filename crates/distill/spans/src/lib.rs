//! Events become requests: what events say of spans is put together, in bounded memory.
//!
//! An [`Extractor`] finds out what an event says ([`Said`]). An [`Assembler`] keeps that by request
//! until nothing has come for a while or it needs the room, and then hands a [`Request`] to a
//! [`Sink`]: its spans as a tree, and what is odd about it. A [`Collector`] is both, as a consumer
//! of a reading. Below them, as data passes: `fields` (what an event holds), `words` and `pending`
//! (how it is kept), `join` (parts of a span become one, or one for each side of a call), `causes`,
//! `skew` and `tree`.
//!
//! # What is understood
//!
//! | event | says |
//! | --- | --- |
//! | `zipkin:timestamp` | that something happened: `event` |
//! | `zipkin:keyval`, `keyval_string`, `keyval_integer` | that something is the case: `key`, `val` |
//! | `blkkin:span` | all of a span, at its end |
//! | `blkkin:wide_trace_id` | the upper half of a trace id |
//! | whatever begins with the fields `trace_id`, `trace_id_high`, `span_id` | what a program told the `tracing` crate: a span, if `parent_span_id`, `start`, `duration` follow, or else something that happened in one. Behind these fields may come `service_name`, `port_no`, `ip` of a layer of a service |
//!
//! # Loss
//!
//! An event that says all of a span, at its end, needs no other. Of a span that is told in parts the end may be among
//! what the tracer has lost: if it has lost something since the span began, in the same trace, the span is told as one
//! whose end may be lost ([`Oddity::EndLost`], and the tag [`END`]), and not as one that goes on. The same holds for
//! starts ([`Oddity::StartLost`], [`START`]).
//!
//! # Order
//!
//! What comes of a request does not depend on the order in which its events came, nor on what
//! others came between, as long as it was not given out in pieces.

mod assembler;
mod causes;
mod collector;
mod extract;
mod fields;
mod join;
mod losses;
mod pending;
mod refusal;
mod request;
mod said;
mod skew;
#[cfg(test)]
mod tests;
mod texts;
mod tree;
mod words;

pub use assembler::{Assembler, Counts, Limits, Sink};
pub use collector::Collector;
pub use extract::Extractor;
pub use refusal::{Example, Reason, Refusals};
pub use request::{Completion, END, LOST, Oddities, Oddity, Request, START, Step};
pub use said::{Said, What, Whole};

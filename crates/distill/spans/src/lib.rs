//! Assembles events into requests, in bounded memory.
//!
//! An [`Extractor`] reads the report of an event about a span ([`SpanReport`]). An [`Assembler`]
//! collects these reports by request until the request is idle, memory is short or the input ends.
//! Then the assembler passes a [`Request`] to a [`Sink`]: its spans as a tree, and its anomalies. A
//! [`Collector`] combines extractor and assembler as a consumer of merged events. The modules below
//! them, in the order of the data: `field_values` (fields of an event), `interner` and
//! `open_request` (compact storage of reports), `join` (reports become drafts of spans, one for
//! each side of a call), `parents`, `skew`, `tree` and `own_time`.
//!
//! # Events
//!
//! | event | report |
//! | --- | --- |
//! | `zipkin:timestamp` | an annotation: `event` |
//! | `zipkin:keyval`, `keyval_string`, `keyval_integer` | a tag: `key`, `val` |
//! | `blkkin:span` | a complete span, recorded at its end |
//! | `blkkin:wide_trace_id` | the upper half of a trace id |
//! | `blkkin:run` | an activity: a thread showed the span as its current one; recorded at the end |
//! | `request:wait` | an activity: such a thread did not run; recorded when it ran again |
//! | `request:disk` | an activity: a disk served a request of such a thread; recorded at its end |
//! | `request:syscall:*` | an activity: a system call of such a thread; recorded at its end |
//! | begins with `trace_id`, `trace_id_high`, `span_id` | a span or event of the `tracing` crate |
//!
//! The last row is a span if `parent_span_id`, `start` and `duration` follow, else an annotation of
//! one. `service_name`, `port_no` and `ip` may follow these fields, if the program's tracing layer
//! has a service.
//!
//! An activity says what a span's own time was spent on ([`OwnTime`]), or which system call was
//! made for it ([`Call`]). A span with
//! activities only is not emitted: they are counted ([`Counts::unmatched`]), and so is a disk
//! request without a span ([`Extractor::unattributed`]). The kernel's events are in another trace
//! than the program's.
//!
//! # Loss
//!
//! A `blkkin:span` event reports the whole span and needs no other event. A span reported in pieces
//! may lack its end because the tracer dropped that event: if the same trace dropped events after
//! the span started, the span is marked [`Oddity::EndLost`], with the tag [`END`], and not as
//! unfinished. The same holds for starts ([`Oddity::StartLost`], [`START`]). If the trace of a
//! span's `blkkin:run` events dropped events while the span lasted, time in which no thread is
//! known to have worked for the span is [`OwnKind::Unknown`].
//!
//! # Clocks
//!
//! If the times of traces were corrected, each span has the error of its machine's clock
//! ([`Step::clock`]). Spans whose parent is missing or on another machine have machine and error as
//! a tag, too ([`CLOCK_KEY`](blkkin_model::CLOCK_KEY)): the spans of other machines may be
//! assembled elsewhere.
//!
//! # Order
//!
//! A request does not depend on the order of its events, nor on the events between them, unless it
//! was emitted in several pieces or exceeded a limit.

mod activity_fields;
mod assembler;
mod calls;
mod clocks;
mod collector;
mod extract;
mod field_values;
mod interner;
mod join;
mod losses;
mod open_request;
mod own_time;
mod parents;
mod refusal;
mod report;
mod request;
mod resolver;
mod skew;
#[cfg(test)]
mod tests;
mod tree;

pub use assembler::{Assembler, Counts, Limits, Sink};
pub use calls::Call;
pub use clocks::{Agreement, SpanClock};
pub use collector::Collector;
pub use extract::Extractor;
pub use own_time::{BANDS_MAX, Band, Detail, DiskTime, OwnKind, OwnTime};
pub use refusal::{Example, Reason, Refusals};
pub use report::{Activity, CompleteSpan, ReportContent, SpanReport};
pub use request::{Completion, END, LOST, Oddities, Oddity, Request, START, Step};

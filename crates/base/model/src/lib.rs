//! The span: one step of one request, in the one form that collecting, keeping and finding share.
//! Formats of other systems live at the edges (`export/wire`); nothing here does I/O.
//!
//! [`SpanRef`] borrows what it says from the bytes it came in, so that whoever decodes a million of
//! them a second allocates nothing; it is handed to a [`SpanSink`]. [`Span`] owns its text.
//!
//! # What always holds of a span that a decoder gives
//!
//! - Annotations are in order of time, then of text, and no two are the same.
//! - Tags are in order of key, then of [`Origin`], and no two have both in common.
//! - No span is its own parent.
//!
//! # What is not here, and why
//!
//! Annotations have no endpoint: where one had (Zipkin's first format), decoding makes a span of
//! each host's. Names keep their case: Zipkin's are lower-cased when they are written in a format of
//! Zipkin's, as nothing else could bring the case back. Times are nanoseconds for the same reason.
//! Numbers, flags and bytes of tags keep their type ([`Value`]), which costs a discriminant in the
//! reference and nothing else; lists and maps are text, JSON, as in all that shows spans.

mod endpoint;
mod flags;
mod id;
mod owned;
mod sink;
mod span;
mod tag;
#[cfg(test)]
mod tests;

pub use endpoint::{Endpoint, EndpointRef};
pub use flags::{Kind, Status};
pub use id::{SpanId, TraceId};
pub use owned::{Held, Span};
pub use sink::{Count, SpanSink};
pub use span::{Annotation, AnnotationRef, SpanRef};
pub use tag::{Origin, Tag, TagRef, Value, ValueRef};

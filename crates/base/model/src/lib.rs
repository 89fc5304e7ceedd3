//! The span: one step of one request, in the form that collecting, storing and querying share.
//! `export/wire` converts the formats of other systems; this crate does no I/O.
//!
//! [`SpanRef`] borrows its text, mostly from the bytes that it was decoded from, so that decoding a
//! million spans a second hardly allocates. The decoder stores only converted text, such as JSON
//! strings with escapes. A decoder passes spans to a [`SpanSink`]. [`Span`] owns its text.
//! [`hex`] and [`varint`] are encodings that several formats of spans share.
//!
//! # Invariants of a decoded span
//!
//! - Annotations are sorted by time, then by text, without duplicates.
//! - Tags are sorted by key, then by [`Origin`]. No two tags have the same key and origin.
//! - No span is its own parent.
//!
//! # Omissions, and their reasons
//!
//! Annotations have no endpoint: for annotations with endpoints (Zipkin's first format), decoding
//! makes a span for each host. Names keep their case, since it could not be restored; case is
//! dropped only when a span is written in one of Zipkin's formats. Times are in nanoseconds for the
//! same reason. Numbers, flags and bytes of tags keep their type ([`Value`]), which costs only a
//! discriminant in the reference. Lists and maps are JSON text, as in all viewers of spans.

mod endpoint;
mod flags;
pub mod hex;
mod id;
pub mod own_time;
mod owned_span;
mod sink;
mod span;
mod tag;
#[cfg(test)]
mod tests;
pub mod varint;

pub use endpoint::{Endpoint, EndpointRef};
pub use flags::{Kind, Status};
pub use id::{SpanId, TraceId};
pub use own_time::{
    BANDS_KEY, BANDS_MAX, DISK_TIME_PREFIX, OWN_TIME_PREFIX, OwnKind, is_own_time_key, own_time_ns,
};
pub use owned_span::{Span, SpanRefBuffer};
pub use sink::{Count, SpanSink};
pub use span::{Annotation, AnnotationRef, SpanRef};
pub use tag::{CLOCK_KEY, Origin, Tag, TagRef, Value, ValueRef};

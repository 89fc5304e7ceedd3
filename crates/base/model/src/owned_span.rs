//! The span that owns its text. Start at [`Span`].

use crate::endpoint::Endpoint;
use crate::flags::{Kind, Status};
use crate::id::{SpanId, TraceId};
use crate::span::{Annotation, AnnotationRef, SpanRef};
use crate::tag::{Tag, TagRef};

/// One step of one request, with owned text. The fields are the same as in [`SpanRef`].
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Id of the request that the span belongs to.
    pub trace_id: TraceId,
    /// Id of the span. In a call, the client's and the server's span may share one id
    /// ([`Span::shared`]).
    pub id: SpanId,
    /// Id of the parent span, which caused this span; `None` for a root span.
    pub parent_id: Option<SpanId>,
    /// Role of the span in a call or message.
    pub kind: Kind,
    /// Result of the span, as set by its program.
    pub status: Status,
    /// Set if the span must be recorded whether or not its request is sampled.
    pub debug: bool,
    /// Set if the other side of the call assigned the span's id and uses the same id for its own
    /// span.
    pub shared: bool,
    /// Name of the step; empty if unknown.
    pub name: String,
    /// Start time in nanoseconds since 1970; `None` if unknown.
    pub start_ns: Option<u64>,
    /// Duration in nanoseconds; `None` if unknown.
    pub duration_ns: Option<u64>,
    /// Host and service that recorded the span.
    pub local: Endpoint,
    /// Host and service on the other side of the call or message.
    pub remote: Endpoint,
    /// Annotations of the span, sorted by time and then by text.
    pub annotations: Vec<Annotation>,
    /// Tags of the span, sorted by key and then by origin.
    pub tags: Vec<Tag>,
}

/// Buffer for a [`SpanRef`] of a [`Span`], with the arrays that the [`SpanRef`] borrows.
#[derive(Clone, Debug)]
pub struct SpanRefBuffer<'a> {
    span: &'a Span,
    annotations: Vec<AnnotationRef<'a>>,
    tags: Vec<TagRef<'a>>,
}

impl Span {
    /// Builds the arrays that [`SpanRefBuffer::as_ref`] borrows.
    pub fn ref_buffer(&self) -> SpanRefBuffer<'_> {
        SpanRefBuffer {
            span: self,
            annotations: self.annotations.iter().map(Annotation::as_ref).collect(),
            tags: self.tags.iter().map(Tag::as_ref).collect(),
        }
    }
}

impl SpanRefBuffer<'_> {
    /// Converts the span to a [`SpanRef`], which borrows its text and arrays.
    pub fn as_ref(&self) -> SpanRef<'_> {
        let span = self.span;
        SpanRef {
            trace_id: span.trace_id,
            id: span.id,
            parent_id: span.parent_id,
            kind: span.kind,
            status: span.status,
            debug: span.debug,
            shared: span.shared,
            name: &span.name,
            start_ns: span.start_ns,
            duration_ns: span.duration_ns,
            local: span.local.as_ref(),
            remote: span.remote.as_ref(),
            annotations: &self.annotations,
            tags: &self.tags,
        }
    }
}

impl SpanRef<'_> {
    /// Converts the span to a [`Span`], with a copy of its text.
    pub fn to_owned(&self) -> Span {
        Span {
            trace_id: self.trace_id,
            id: self.id,
            parent_id: self.parent_id,
            kind: self.kind,
            status: self.status,
            debug: self.debug,
            shared: self.shared,
            name: self.name.to_owned(),
            start_ns: self.start_ns,
            duration_ns: self.duration_ns,
            local: self.local.to_owned(),
            remote: self.remote.to_owned(),
            annotations: self.annotations.iter().map(AnnotationRef::to_owned).collect(),
            tags: self.tags.iter().map(TagRef::to_owned).collect(),
        }
    }
}

impl From<&SpanRef<'_>> for Span {
    fn from(span: &SpanRef<'_>) -> Span {
        span.to_owned()
    }
}

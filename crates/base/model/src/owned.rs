//! A span that owns all that it says. Start at [`Span`].

use crate::endpoint::Endpoint;
use crate::flags::{Kind, Status};
use crate::id::{SpanId, TraceId};
use crate::span::{Annotation, AnnotationRef, SpanRef};
use crate::tag::{Tag, TagRef};

/// One step of one request. The fields are those of [`SpanRef`].
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// The request.
    pub trace_id: TraceId,
    /// The span.
    pub id: SpanId,
    /// The span that caused it.
    pub parent_id: Option<SpanId>,
    /// What it is to its parent.
    pub kind: Kind,
    /// How it ended.
    pub status: Status,
    /// It is to be kept, whatever sampling says.
    pub debug: bool,
    /// Its id is one that another service has made, and has a span for too.
    pub shared: bool,
    /// What was done; empty is unknown.
    pub name: String,
    /// When it started, in nanoseconds since 1970.
    pub start_ns: Option<u64>,
    /// How long it took.
    pub duration_ns: Option<u64>,
    /// Who recorded it.
    pub local: Endpoint,
    /// Who is at the other end.
    pub remote: Endpoint,
    /// What happened meanwhile, in order of time.
    pub annotations: Vec<Annotation>,
    /// What is known of it, in order of key.
    pub tags: Vec<Tag>,
}

/// A [`Span`] with the lists of references that a [`SpanRef`] of it needs.
#[derive(Clone, Debug)]
pub struct Held<'a> {
    span: &'a Span,
    annotations: Vec<AnnotationRef<'a>>,
    tags: Vec<TagRef<'a>>,
}

impl Span {
    /// What can be borrowed as a [`SpanRef`].
    pub fn hold(&self) -> Held<'_> {
        Held {
            span: self,
            annotations: self.annotations.iter().map(Annotation::as_ref).collect(),
            tags: self.tags.iter().map(Tag::as_ref).collect(),
        }
    }
}

impl Held<'_> {
    /// The span, borrowed.
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
    /// With text of its own.
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

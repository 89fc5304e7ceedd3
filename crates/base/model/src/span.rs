//! A span that borrows all that it says. Start at [`SpanRef`].

use crate::endpoint::EndpointRef;
use crate::flags::{Kind, Status};
use crate::id::{SpanId, TraceId};
use crate::tag::{Origin, TagRef, ValueRef};

/// One step of one request, borrowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpanRef<'a> {
    /// The request.
    pub trace_id: TraceId,
    /// The span. One id may be two spans: a call's at the client, and at the server
    /// ([`SpanRef::shared`]).
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
    pub name: &'a str,
    /// When it started, in nanoseconds since 1970.
    pub start_ns: Option<u64>,
    /// How long it took.
    pub duration_ns: Option<u64>,
    /// Who recorded it.
    pub local: EndpointRef<'a>,
    /// Who is at the other end.
    pub remote: EndpointRef<'a>,
    /// What happened meanwhile, in order of time.
    pub annotations: &'a [AnnotationRef<'a>],
    /// What is known of it, in order of key.
    pub tags: &'a [TagRef<'a>],
}

/// What happened at a moment, borrowed. They are ordered by time, then text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AnnotationRef<'a> {
    /// When, in nanoseconds since 1970.
    pub time_ns: u64,
    /// What.
    pub value: &'a str,
}

/// What happened at a moment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Annotation {
    /// When, in nanoseconds since 1970.
    pub time_ns: u64,
    /// What.
    pub value: String,
}

impl<'a> SpanRef<'a> {
    /// A span of which only the ids are known.
    pub const fn new(trace_id: TraceId, id: SpanId) -> SpanRef<'a> {
        SpanRef {
            trace_id,
            id,
            parent_id: None,
            kind: Kind::Unspecified,
            status: Status::Unset,
            debug: false,
            shared: false,
            name: "",
            start_ns: None,
            duration_ns: None,
            local: EndpointRef::NONE,
            remote: EndpointRef::NONE,
            annotations: &[],
            tags: &[],
        }
    }

    /// The value of a name; that of the span itself, if others have the name too.
    pub fn tag(&self, key: &str) -> Option<ValueRef<'a>> {
        let behind = self.tags.partition_point(|tag| tag.key <= key);
        let last = self.tags.get(behind.checked_sub(1)?)?;
        (last.key == key).then_some(last.value)
    }

    /// Whether it failed: by its status, or else by a tag `error` of the span that is not false.
    pub fn is_error(&self) -> bool {
        match self.status {
            Status::Ok => false,
            Status::Error => true,
            Status::Unset => self
                .tags
                .iter()
                .any(|tag| tag.key == "error" && tag.origin == Origin::Span && means_yes(tag)),
        }
    }

    /// Bytes of all its texts and byte strings, those that other spans have too included.
    pub fn text_bytes(&self) -> usize {
        let value = |value: &ValueRef<'_>| match value {
            ValueRef::Str(text) => text.len(),
            ValueRef::Bytes(bytes) => bytes.len(),
            ValueRef::Int(_) | ValueRef::Bool(_) | ValueRef::Double(_) => 0,
        };
        let tags: usize = self.tags.iter().map(|tag| tag.key.len() + value(&tag.value)).sum();
        let annotations: usize = self.annotations.iter().map(|it| it.value.len()).sum();
        let ends = self.local.service.len() + self.remote.service.len();
        self.name.len() + ends + tags + annotations
    }
}

/// Zipkin asks whether there is an `error` at all; only a flag can say that there is none.
fn means_yes(error: &TagRef<'_>) -> bool {
    error.value != ValueRef::Bool(false)
}

impl AnnotationRef<'_> {
    /// With text of its own.
    pub fn to_owned(&self) -> Annotation {
        Annotation { time_ns: self.time_ns, value: self.value.to_owned() }
    }
}

impl Annotation {
    /// Borrowed.
    pub fn as_ref(&self) -> AnnotationRef<'_> {
        AnnotationRef { time_ns: self.time_ns, value: &self.value }
    }
}

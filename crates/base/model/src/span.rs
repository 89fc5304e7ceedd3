//! The span with borrowed text. Start at [`SpanRef`].

use crate::endpoint::EndpointRef;
use crate::flags::{Kind, Status};
use crate::id::{SpanId, TraceId};
use crate::tag::{Origin, TagRef, ValueRef};

/// One step of one request, with borrowed text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpanRef<'a> {
    /// Id of the request that the span belongs to.
    pub trace_id: TraceId,
    /// Id of the span. Two spans may share an id: the client's and the server's span of one call
    /// ([`SpanRef::shared`]).
    pub id: SpanId,
    /// Id of the parent span, which caused this span; `None` for a root span.
    pub parent_id: Option<SpanId>,
    /// Role of the span relative to its parent.
    pub kind: Kind,
    /// Result that the span's program has set.
    pub status: Status,
    /// Set if the span is recorded even if the request is not sampled.
    pub debug: bool,
    /// Set if another service made the span's id and recorded a span with the same id.
    pub shared: bool,
    /// Name of the step; empty if unknown.
    pub name: &'a str,
    /// Start time in nanoseconds since 1970; `None` if unknown.
    pub start_ns: Option<u64>,
    /// Duration in nanoseconds; `None` if unknown.
    pub duration_ns: Option<u64>,
    /// Host that recorded the span.
    pub local: EndpointRef<'a>,
    /// Host on the opposite side of the call or message.
    pub remote: EndpointRef<'a>,
    /// Annotations of the span, sorted by time and then by text.
    pub annotations: &'a [AnnotationRef<'a>],
    /// Tags of the span, sorted by key and then by origin.
    pub tags: &'a [TagRef<'a>],
}

/// Moment within a span, with borrowed text. Annotations are ordered by time, then by text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AnnotationRef<'a> {
    /// Time of the moment, in nanoseconds since 1970.
    pub time_ns: u64,
    /// Text that describes the moment.
    pub value: &'a str,
}

/// Moment within a span, with owned text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Annotation {
    /// Time of the moment, in nanoseconds since 1970.
    pub time_ns: u64,
    /// Text that describes the moment.
    pub value: String,
}

impl<'a> SpanRef<'a> {
    /// Makes a span with ids and no other values.
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

    /// Returns the value of the tag with this key. A tag of the span itself takes precedence over
    /// tags of its scope and resource.
    pub fn tag(&self, key: &str) -> Option<ValueRef<'a>> {
        let behind = self.tags.partition_point(|tag| tag.key <= key);
        let last = self.tags.get(behind.checked_sub(1)?)?;
        (last.key == key).then_some(last.value)
    }

    /// Returns true if the span failed. Its status decides. If the status is unset, a tag `error`
    /// of the span itself means failure, unless its value is `false`.
    pub fn is_error(&self) -> bool {
        match self.status {
            Status::Ok => false,
            Status::Error => true,
            Status::Unset => self
                .tags
                .iter()
                .any(|tag| tag.key == "error" && tag.origin == Origin::Span && is_failure(tag)),
        }
    }

    /// Returns the total size in bytes of all texts and byte strings, including texts that several
    /// spans share.
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

/// Returns true if an `error` tag means a failure. Zipkin treats any value as a failure; only the
/// boolean `false` denies it.
fn is_failure(error: &TagRef<'_>) -> bool {
    error.value != ValueRef::Bool(false)
}

impl AnnotationRef<'_> {
    /// Copies the annotation with its text.
    pub fn to_owned(&self) -> Annotation {
        Annotation { time_ns: self.time_ns, value: self.value.to_owned() }
    }
}

impl Annotation {
    /// Returns a reference form of the annotation, which borrows its text.
    pub fn as_ref(&self) -> AnnotationRef<'_> {
        AnnotationRef { time_ns: self.time_ns, value: &self.value }
    }
}

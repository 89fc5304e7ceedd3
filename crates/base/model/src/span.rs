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
    /// Id of the span. In a call, the client's and the server's span may share one id
    /// ([`SpanRef::shared`]).
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
    pub name: &'a str,
    /// Start time in nanoseconds since 1970; `None` if unknown.
    pub start_ns: Option<u64>,
    /// Duration in nanoseconds; `None` if unknown.
    pub duration_ns: Option<u64>,
    /// Host and service that recorded the span.
    pub local: EndpointRef<'a>,
    /// Host and service on the other side of the call or message.
    pub remote: EndpointRef<'a>,
    /// Annotations of the span, sorted by time and then by text.
    pub annotations: &'a [AnnotationRef<'a>],
    /// Tags of the span, sorted by key and then by origin.
    pub tags: &'a [TagRef<'a>],
}

/// Moment within a span, with borrowed text. Annotations are ordered by time, then by text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AnnotationRef<'a> {
    /// Time of the annotation, in nanoseconds since 1970.
    pub time_ns: u64,
    /// Text of the annotation, such as `cache miss`.
    pub value: &'a str,
}

/// Moment within a span, with owned text. Annotations are ordered by time, then by text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Annotation {
    /// Time of the annotation, in nanoseconds since 1970.
    pub time_ns: u64,
    /// Text of the annotation, such as `cache miss`.
    pub value: String,
}

impl<'a> SpanRef<'a> {
    /// Makes a span with these ids. All its other values are unset.
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

    /// Returns the value of the tag with this key; `None` if the span has no such tag. A tag of the
    /// span itself takes precedence over tags of the scope, and these over tags of the resource.
    pub fn tag(&self, key: &str) -> Option<ValueRef<'a>> {
        let behind = self.tags.partition_point(|tag| tag.key <= key);
        let last = self.tags.get(behind.checked_sub(1)?)?;
        (last.key == key).then_some(last.value)
    }

    /// Returns true if the span failed, which its status determines. If the status is unset, a tag
    /// `error` of the span itself means failure, unless its value is the boolean `false`.
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

    /// Returns the total size in bytes of all texts and byte strings of the span. Texts that it
    /// shares with other spans count in full.
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

/// Returns true if an `error` tag means a failure. As in Zipkin, any value means a failure, except
/// the boolean `false`.
fn is_failure(error: &TagRef<'_>) -> bool {
    error.value != ValueRef::Bool(false)
}

impl AnnotationRef<'_> {
    /// Converts the annotation to one that owns its text.
    pub fn to_owned(&self) -> Annotation {
        Annotation { time_ns: self.time_ns, value: self.value.to_owned() }
    }
}

impl Annotation {
    /// Converts the annotation to one that borrows its text.
    pub fn as_ref(&self) -> AnnotationRef<'_> {
        AnnotationRef { time_ns: self.time_ns, value: &self.value }
    }
}

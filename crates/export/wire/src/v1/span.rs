//! The data of a v1 span during decoding: its annotations, and the spans of its hosts, which the
//! conversion derives from the annotations.

use crate::error::{Fault, Reason, Result};
use crate::limits::Limits;
use crate::span_draft::recycle;
use blkkin_model::{AnnotationRef, EndpointRef, Kind, SpanId, TagRef, TraceId};

/// A v1 span during decoding.
#[derive(Debug)]
pub(crate) struct V1Span<'b> {
    pub(crate) trace_id: Option<TraceId>,
    pub(crate) id: Option<SpanId>,
    pub(crate) parent_id: Option<SpanId>,
    pub(crate) name: &'b str,
    pub(crate) debug: bool,
    pub(crate) start_ns: Option<u64>,
    pub(crate) duration_ns: Option<u64>,
    pub(super) hosts_max: usize,
    pub(super) lists: V1Lists<'b>,
}

/// An annotation with the host that recorded it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct V1Annotation<'b> {
    pub(super) annotation: AnnotationRef<'b>,
    pub(super) host: EndpointRef<'b>,
    pub(super) host_span: usize,
}

/// A binary annotation with the host that recorded it, or an address annotation with the remote
/// endpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct V1BinaryAnnotation<'b> {
    pub(super) tag: TagRef<'b>,
    pub(super) host: EndpointRef<'b>,
    pub(super) host_span: usize,
}

/// Lists of a v1 span. Their memory is reused for the next span.
#[derive(Debug, Default)]
pub(crate) struct V1Lists<'b> {
    pub(super) annotations: Vec<V1Annotation<'b>>,
    pub(super) binary_annotations: Vec<V1BinaryAnnotation<'b>>,
    pub(super) host_spans: Vec<HostSpan<'b>>,
}

/// Span of one host, converted from that host's part of a v1 span.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct HostSpan<'b> {
    pub(super) kind: Kind,
    pub(super) shared: bool,
    pub(super) start_ns: Option<u64>,
    pub(super) duration_ns: Option<u64>,
    pub(super) local: EndpointRef<'b>,
    pub(super) remote: EndpointRef<'b>,
}

impl<'b> V1Span<'b> {
    #[inline]
    pub(crate) fn new(lists: V1Lists<'b>) -> V1Span<'b> {
        V1Span {
            trace_id: None,
            id: None,
            parent_id: None,
            name: "",
            debug: false,
            start_ns: None,
            duration_ns: None,
            hosts_max: 0,
            lists,
        }
    }

    /// Adds an annotation. `offset` is the start of the annotation in the batch.
    #[inline]
    pub(crate) fn annotate(
        &mut self,
        annotation: AnnotationRef<'b>,
        host: EndpointRef<'b>,
        limits: &Limits,
        offset: usize,
    ) -> Result<()> {
        if self.lists.annotations.len() >= limits.annotations {
            return Err(too_many("annotations", limits.annotations, offset));
        }
        self.lists.annotations.push(V1Annotation { annotation, host, host_span: 0 });
        Ok(())
    }

    /// Adds a binary annotation. `offset` is the start of the annotation in the batch.
    #[inline]
    pub(crate) fn tag(
        &mut self,
        tag: TagRef<'b>,
        host: EndpointRef<'b>,
        limits: &Limits,
        offset: usize,
    ) -> Result<()> {
        if self.lists.binary_annotations.len() >= limits.tags {
            return Err(too_many("tags", limits.tags, offset));
        }
        self.lists.binary_annotations.push(V1BinaryAnnotation { tag, host, host_span: 0 });
        Ok(())
    }

    /// Clears the lists and returns their memory for the next span.
    #[inline]
    pub(crate) fn into_memory(self) -> V1Lists<'static> {
        V1Lists {
            annotations: recycle(self.lists.annotations),
            binary_annotations: recycle(self.lists.binary_annotations),
            host_spans: recycle(self.lists.host_spans),
        }
    }
}

impl<'b> V1Lists<'b> {
    /// Takes the lists' memory for the next span and leaves `lists` empty.
    #[inline]
    pub(crate) fn take_memory(lists: &mut V1Lists<'static>) -> V1Lists<'b> {
        std::mem::take(lists)
    }
}

#[cold]
fn too_many(what: &'static str, count_max: usize, offset: usize) -> Box<Fault> {
    Reason::TooMany { what, count_max: count_max as u64 }.at(offset)
}

//! Spans of Zipkin's v1 format, as read from thrift or JSON. Such a span may have annotations of
//! several hosts: core annotations record the times of a call, address annotations the remote
//! endpoints. `convert` splits the span into one span for each service, or two for a service on
//! both sides of the call.

mod convert;
#[cfg(test)]
mod tests;

use crate::batch::{Batch, Stop};
use crate::error::{Fault, Reason, Result};
use crate::limits::Limits;
use crate::span_draft::{Lists, SpanDraft, recycle};
use blkkin_model::{AnnotationRef, EndpointRef, SpanId, TagRef, TraceId, ValueRef};
use convert::HostSpan;

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
    hosts_max: usize,
    lists: V1Lists<'b>,
}

/// The last endpoint and its encoded bytes, which usually repeat within a span.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HostCache<'b> {
    bytes: &'b [u8],
    host: EndpointRef<'b>,
}

impl<'b> HostCache<'b> {
    /// Returns the cached endpoint and its encoded size in bytes, if `bytes` begins with the cached
    /// bytes.
    #[inline]
    pub(crate) fn find(&self, bytes: &[u8]) -> Option<(EndpointRef<'b>, usize)> {
        let is_same = !self.bytes.is_empty() && bytes.starts_with(self.bytes);
        is_same.then_some((self.host, self.bytes.len()))
    }

    /// Caches an endpoint. `bytes` must be self-delimiting, so that any input that begins with them
    /// decodes to the same endpoint.
    #[inline]
    pub(crate) fn store(&mut self, bytes: &'b [u8], host: EndpointRef<'b>) {
        *self = HostCache { bytes, host };
    }
}

/// An annotation with the host that recorded it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct V1Annotation<'b> {
    annotation: AnnotationRef<'b>,
    host: EndpointRef<'b>,
    host_span: usize,
}

/// A binary annotation with the host that recorded it, or an address annotation with the remote
/// endpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
struct V1BinaryAnnotation<'b> {
    tag: TagRef<'b>,
    host: EndpointRef<'b>,
    host_span: usize,
}

/// Lists of a v1 span. Their memory is reused for the next span.
#[derive(Debug, Default)]
pub(crate) struct V1Lists<'b> {
    annotations: Vec<V1Annotation<'b>>,
    binary_annotations: Vec<V1BinaryAnnotation<'b>>,
    host_spans: Vec<HostSpan<'b>>,
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
        (key, value): (&'b str, ValueRef<'b>),
        host: EndpointRef<'b>,
        limits: &Limits,
        offset: usize,
    ) -> Result<()> {
        if self.lists.binary_annotations.len() >= limits.tags {
            return Err(too_many("tags", limits.tags, offset));
        }
        let tag = TagRef { value, ..TagRef::text(key, "") };
        self.lists.binary_annotations.push(V1BinaryAnnotation { tag, host, host_span: 0 });
        Ok(())
    }

    /// Converts the v1 span and passes the resulting spans to the batch, or refuses the v1 span.
    /// `offset` is the start of the v1 span in the batch.
    pub(crate) fn emit(
        &mut self,
        scratch: &mut Lists<'static>,
        batch: &mut Batch<'_>,
        offset: usize,
    ) -> Result<(), Stop> {
        if let Err(fault) = self.convert(batch.limits, offset) {
            batch.refuse(*fault);
            return Ok(());
        }
        for host_span in 0..self.lists.host_spans.len() {
            let mut draft = self.host_span(host_span, Lists::take_memory(scratch));
            let given = match draft.finish(offset) {
                Ok(span) => batch.emit(&span, offset),
                // A missing id affects all resulting spans, so the whole v1 span is refused.
                Err(fault) => {
                    batch.refuse(*fault);
                    *scratch = draft.lists.into_memory();
                    return Ok(());
                }
            };
            *scratch = draft.lists.into_memory();
            given?;
        }
        batch.next();
        Ok(())
    }

    /// Builds the span of the host with index `index`.
    fn host_span(&self, index: usize, mut lists: Lists<'b>) -> SpanDraft<'b> {
        let here = |host_span: usize| host_span == index;
        let annotations = self.lists.annotations.iter().filter(|it| here(it.host_span));
        lists.annotations.extend(annotations.map(|it| it.annotation));
        let binary_annotations =
            self.lists.binary_annotations.iter().filter(|it| here(it.host_span));
        lists.tags.extend(binary_annotations.map(|it| it.tag));
        let host_span = self.lists.host_spans[index];
        SpanDraft {
            trace_id: self.trace_id,
            id: self.id,
            parent_id: self.parent_id,
            kind: host_span.kind,
            debug: self.debug,
            shared: host_span.shared,
            name: self.name,
            start_ns: host_span.start_ns,
            duration_ns: host_span.duration_ns,
            local: host_span.local,
            remote: host_span.remote,
            ..SpanDraft::new(lists)
        }
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

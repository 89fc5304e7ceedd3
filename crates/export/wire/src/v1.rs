//! Spans of Zipkin's v1 format, as read from thrift or JSON. Such a span may have annotations of
//! several hosts: core annotations record the times of a call, address annotations the remote
//! endpoints. [`V1Span`] collects them; `convert` splits the span into one span for each service,
//! or two for a service on both sides of the call.

mod convert;
mod span;
#[cfg(test)]
mod tests;

use crate::batch::{Batch, Stop};
use crate::span_draft::{Lists, SpanDraft};
use blkkin_model::EndpointRef;

pub(crate) use span::{V1Lists, V1Span};

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

impl<'b> V1Span<'b> {
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
}

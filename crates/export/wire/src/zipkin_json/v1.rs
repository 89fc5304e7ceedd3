//! Decoder of Zipkin v1 as JSON.

use super::{endpoint, open_batch};
use crate::arena::Arena;
use crate::batch::{Batch, Stop};
use crate::error::{FieldContext, Reason, Result};
use crate::json::{ItemError, Reader, keys, spans};
use crate::span_draft::Lists;
use crate::v1::{HostCache, V1Lists, V1Span};
use blkkin_model::{AnnotationRef, EndpointRef, Origin, TagRef, TraceId, ValueRef};

keys! {
    /// JSON keys of a span in the v1 format.
    span {
        TRACE_ID = "traceId",
        ID = "id",
        NAME = "name",
        PARENT_ID = "parentId",
        TIMESTAMP = "timestamp",
        DURATION = "duration",
        ANNOTATIONS = "annotations",
        BINARY_ANNOTATIONS = "binaryAnnotations",
        DEBUG = "debug",
    }
    /// JSON keys of an annotation in the v1 format.
    annotation { TIMESTAMP = "timestamp", VALUE = "value", ENDPOINT = "endpoint", }
    /// JSON keys of a binary annotation.
    binary { KEY = "key", VALUE = "value", ENDPOINT = "endpoint", }
}

/// Buffers of the decoder, reused for the next span.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    lists: Lists<'static>,
    arena: Arena,
    v1: V1Lists<'static>,
    orders: KeyOrders,
}

/// Key orders of earlier objects, one for each type of object.
#[derive(Debug, Default)]
struct KeyOrders {
    span: span::Keys,
    annotation: annotation::Keys,
    binary: binary::Keys,
    endpoint: endpoint::Keys,
}

pub(crate) fn decode(
    bytes: &[u8],
    scratch: &mut Scratch,
    batch: &mut Batch<'_>,
) -> Result<(), Stop> {
    let arena = Arena::default();
    let mut reader = Reader::new(bytes, &arena, batch.limits);
    if !open_batch(&mut reader)? {
        return Ok(());
    }
    spans(&mut reader, batch, |reader, batch| {
        let start = reader.at();
        let mut span = V1Span::new(V1Lists::take_memory(&mut scratch.v1));
        let mut inner = reader.with(&scratch.arena);
        let read = inner.v1_span(&mut span, &mut scratch.orders);
        let end = inner.at();
        let given = match read {
            Ok(()) => span.emit(&mut scratch.lists, batch, start).map_err(ItemError::from),
            Err(fault) => Err(fault.into()),
        };
        let lists = span.into_memory();
        scratch.v1 = lists;
        scratch.arena.clear();
        given.map(|()| end)
    })
}

/// State for reading the endpoints of a span: key order and the previous endpoint.
struct EndpointState<'o, 't> {
    order: &'o mut endpoint::Keys,
    last: HostCache<'t>,
}

impl<'t> Reader<'t> {
    fn v1_span(&mut self, span: &mut V1Span<'t>, orders: &mut KeyOrders) -> Result<()> {
        let KeyOrders { span: order, annotation, binary, endpoint } = orders;
        let endpoints = &mut EndpointState { order: endpoint, last: HostCache::default() };
        self.object(&span::NAMES, order, |reader, key| {
            match key {
                span::TRACE_ID => span.trace_id = Some(reader.v1_trace_id().in_field("traceId")?),
                span::ID => span.id = Some(reader.span_id().in_field("id")?),
                span::NAME => span.name = reader.optional_text().in_field("name")?,
                span::PARENT_ID => span.parent_id = reader.parent_id().in_field("parentId")?,
                span::TIMESTAMP => span.start_ns = reader.optional_time().in_field("timestamp")?,
                span::DURATION => span.duration_ns = reader.optional_time().in_field("duration")?,
                span::ANNOTATIONS => {
                    reader.v1_annotations(span, annotation, endpoints).in_field("annotations")?;
                }
                span::BINARY_ANNOTATIONS => {
                    let read = reader.binary_annotations(span, binary, endpoints);
                    read.in_field("binaryAnnotations")?;
                }
                _ => span.debug = reader.flag().in_field("debug")?,
            }
            Ok(())
        })
    }

    /// Reads a trace id. Only the lower half of an id with 17 to 31 digits is used.
    fn v1_trace_id(&mut self) -> Result<TraceId> {
        self.peek()?;
        let start = self.at();
        let id = self.trace_id()?;
        // 32 digits and two quotes; ids have no escapes.
        if !id.is_wide() || self.at() - start == 34 {
            return Ok(id);
        }
        TraceId::from_number(id.low().into()).ok_or_else(|| Reason::Zero.at(start))
    }

    fn v1_annotations(
        &mut self,
        span: &mut V1Span<'t>,
        order: &mut annotation::Keys,
        endpoints: &mut EndpointState<'_, 't>,
    ) -> Result<()> {
        if self.null()? {
            return Ok(());
        }
        self.list(|reader| {
            reader.peek()?;
            let start = reader.at();
            let (mut time_ns, mut value, mut host) = (None, None, EndpointRef::NONE);
            reader.object(&annotation::NAMES, order, |reader, key| {
                match key {
                    annotation::TIMESTAMP => time_ns = Some(reader.time()?),
                    annotation::VALUE => value = Some(reader.text_or_number()?),
                    _ => host = reader.host(endpoints)?,
                }
                Ok(())
            })?;
            let (Some(time_ns), Some(value)) = (time_ns, value) else {
                return Err(Reason::Missing.at(start));
            };
            span.annotate(AnnotationRef { time_ns, value }, host, reader.limits(), start)
        })
    }

    fn binary_annotations(
        &mut self,
        span: &mut V1Span<'t>,
        order: &mut binary::Keys,
        endpoints: &mut EndpointState<'_, 't>,
    ) -> Result<()> {
        if self.null()? {
            return Ok(());
        }
        self.list(|reader| {
            reader.peek()?;
            let start = reader.at();
            let (mut name, mut value, mut host) = (None, None, EndpointRef::NONE);
            reader.object(&binary::NAMES, order, |reader, key| {
                match key {
                    binary::KEY => name = Some(reader.text_or_number()?),
                    binary::VALUE => value = Some(reader.binary_value()?),
                    _ => host = reader.host(endpoints)?,
                }
                Ok(())
            })?;
            let (Some(key), Some(value)) = (name, value) else {
                return Err(Reason::Missing.at(start));
            };
            let tag = TagRef { key, value, origin: Origin::Span };
            span.tag(tag, host, reader.limits(), start)
        })
    }

    /// Reads an endpoint, which usually equals the previous endpoint.
    #[inline]
    fn host(&mut self, endpoints: &mut EndpointState<'_, 't>) -> Result<EndpointRef<'t>> {
        self.peek()?;
        let start = self.at();
        if let Some((host, size)) = endpoints.last.find(self.rest()) {
            self.go_to(start + size);
            return Ok(host);
        }
        let rest = self.rest();
        let host = self.endpoint(endpoints.order)?;
        endpoints.last.store(rest.get(..self.at() - start).unwrap_or_default(), host);
        Ok(host)
    }

    fn binary_value(&mut self) -> Result<ValueRef<'t>> {
        Ok(match self.peek()? {
            b'"' => ValueRef::Str(self.string()?),
            b't' | b'f' => ValueRef::Bool(self.boolean()?),
            _ => {
                let text = self.number()?;
                match text.parse() {
                    Ok(number) => ValueRef::Int(number),
                    Err(_) => ValueRef::Double(text.parse().unwrap_or(f64::NAN)),
                }
            }
        })
    }
}

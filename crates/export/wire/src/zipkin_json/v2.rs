//! Decoder of Zipkin v2 as JSON.

use super::{endpoint, open_batch};
use crate::arena::Arena;
use crate::batch::{Batch, Stop};
use crate::error::{FieldContext, Reason, Result};
use crate::json::{ItemError, Reader, keys, spans};
use crate::span_draft::{Lists, SpanDraft};
use blkkin_model::{AnnotationRef, Kind, TagRef};

keys! {
    /// JSON keys of a span in the v2 format.
    span {
        TRACE_ID = "traceId",
        PARENT_ID = "parentId",
        ID = "id",
        KIND = "kind",
        NAME = "name",
        TIMESTAMP = "timestamp",
        DURATION = "duration",
        LOCAL_ENDPOINT = "localEndpoint",
        REMOTE_ENDPOINT = "remoteEndpoint",
        ANNOTATIONS = "annotations",
        TAGS = "tags",
        DEBUG = "debug",
        SHARED = "shared",
    }
    /// JSON keys of an annotation in the v2 format.
    annotation { TIMESTAMP = "timestamp", VALUE = "value", }
}

/// Buffers of the decoder, reused for the next span.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    lists: Lists<'static>,
    arena: Arena,
    orders: KeyOrders,
}

/// Key orders of earlier objects, one for each type of object; local and remote endpoints have
/// separate orders.
#[derive(Debug, Default)]
struct KeyOrders {
    span: span::Keys,
    local: endpoint::Keys,
    remote: endpoint::Keys,
    annotation: annotation::Keys,
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
        let mut draft = SpanDraft::new(Lists::take_memory(&mut scratch.lists));
        let mut inner = reader.with(&scratch.arena);
        let read = inner.span(&mut draft, &mut scratch.orders);
        let end = inner.at();
        let closed = match read {
            Ok(()) => batch.close(&mut draft, start).map_err(ItemError::from),
            Err(fault) => Err(fault.into()),
        };
        scratch.lists = draft.lists.into_memory();
        scratch.arena.clear();
        closed.map(|()| end)
    })
}

impl<'t> Reader<'t> {
    fn span(&mut self, draft: &mut SpanDraft<'t>, orders: &mut KeyOrders) -> Result<()> {
        let KeyOrders { span, local, remote, annotation } = orders;
        self.object(&span::NAMES, span, |reader, key| {
            match key {
                span::TRACE_ID => draft.trace_id = Some(reader.trace_id().in_field("traceId")?),
                span::PARENT_ID => draft.parent_id = reader.parent_id().in_field("parentId")?,
                span::ID => draft.id = Some(reader.span_id().in_field("id")?),
                span::KIND => draft.kind = reader.kind().in_field("kind")?,
                span::NAME => draft.name = reader.optional_text().in_field("name")?,
                span::TIMESTAMP => draft.start_ns = reader.optional_time().in_field("timestamp")?,
                span::DURATION => {
                    draft.duration_ns = reader.optional_time().in_field("duration")?
                }
                span::LOCAL_ENDPOINT => {
                    draft.local = reader.endpoint(local).in_field("localEndpoint")?;
                }
                span::REMOTE_ENDPOINT => {
                    draft.remote = reader.endpoint(remote).in_field("remoteEndpoint")?;
                }
                span::ANNOTATIONS => {
                    reader.annotations(&mut draft.lists, annotation).in_field("annotations")?;
                }
                span::TAGS => reader.tags(&mut draft.lists).in_field("tags")?,
                span::DEBUG => draft.debug = reader.flag().in_field("debug")?,
                _ => draft.shared = reader.flag().in_field("shared")?,
            }
            Ok(())
        })
    }

    #[inline]
    fn kind(&mut self) -> Result<Kind> {
        if self.null()? {
            return Ok(Kind::Unspecified);
        }
        let start = self.at();
        Ok(match self.string()? {
            "CLIENT" => Kind::Client,
            "SERVER" => Kind::Server,
            "PRODUCER" => Kind::Producer,
            "CONSUMER" => Kind::Consumer,
            _ => return Err(Reason::UnknownKind.at(start)),
        })
    }

    #[inline]
    fn annotations(&mut self, lists: &mut Lists<'t>, order: &mut annotation::Keys) -> Result<()> {
        if self.null()? {
            return Ok(());
        }
        self.list(|reader| {
            reader.peek()?;
            let start = reader.at();
            let (mut time_ns, mut value) = (None, None);
            reader.object(&annotation::NAMES, order, |reader, key| {
                match key {
                    annotation::TIMESTAMP => time_ns = Some(reader.time()?),
                    _ => value = Some(reader.text_or_number()?),
                }
                Ok(())
            })?;
            let (Some(time_ns), Some(value)) = (time_ns, value) else {
                return Err(Reason::Missing.at(start));
            };
            lists.annotate(AnnotationRef { time_ns, value }, reader.limits(), start)
        })
    }

    #[inline]
    fn tags(&mut self, lists: &mut Lists<'t>) -> Result<()> {
        if self.null()? {
            return Ok(());
        }
        self.map(|reader, key| {
            let value = reader.text_or_number()?;
            lists.tag(TagRef::text(key, value), reader.limits(), reader.at())
        })
    }
}

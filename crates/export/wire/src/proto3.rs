//! Decoder of Zipkin v2 as protobuf (`zipkin.proto3`): a list of spans. Each span is a separate
//! message, so a fault within a span affects only that span.

pub(crate) mod write;

use crate::arena::Arena;
use crate::batch::{Batch, Stop};
use crate::error::{FieldContext, Reason, Result};
use crate::limits::Limits;
use crate::protobuf::{Input, fixed64, sized, varint};
use crate::span_draft::{Lists, SpanDraft};
use crate::values;
use blkkin_model::{AnnotationRef, EndpointRef, Kind, SpanId, TagRef, TraceId};

/// Field keys of `ListOfSpans`. The following modules contain the field keys of the other messages.
pub(crate) mod list {
    pub(crate) const SPANS: u32 = super::sized(1);
}
pub(crate) mod span {
    use super::{fixed64, sized, varint};
    pub(crate) const TRACE_ID: u32 = sized(1);
    pub(crate) const PARENT_ID: u32 = sized(2);
    pub(crate) const ID: u32 = sized(3);
    pub(crate) const KIND: u32 = varint(4);
    pub(crate) const NAME: u32 = sized(5);
    pub(crate) const TIMESTAMP: u32 = fixed64(6);
    pub(crate) const DURATION: u32 = varint(7);
    pub(crate) const LOCAL_ENDPOINT: u32 = sized(8);
    pub(crate) const REMOTE_ENDPOINT: u32 = sized(9);
    pub(crate) const ANNOTATIONS: u32 = sized(10);
    pub(crate) const TAGS: u32 = sized(11);
    pub(crate) const DEBUG: u32 = varint(12);
    pub(crate) const SHARED: u32 = varint(13);
}
pub(crate) mod endpoint {
    use super::{sized, varint};
    pub(crate) const SERVICE_NAME: u32 = sized(1);
    pub(crate) const IPV4: u32 = sized(2);
    pub(crate) const IPV6: u32 = sized(3);
    pub(crate) const PORT: u32 = varint(4);
}
pub(crate) mod annotation {
    use super::{fixed64, sized};
    pub(crate) const TIMESTAMP: u32 = fixed64(1);
    pub(crate) const VALUE: u32 = sized(2);
}
pub(crate) mod tag {
    use super::sized;
    pub(crate) const KEY: u32 = sized(1);
    pub(crate) const VALUE: u32 = sized(2);
}

/// Buffers of the decoder, reused for the next span.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    lists: Lists<'static>,
    arena: Arena,
}

pub(crate) fn decode(
    bytes: &[u8],
    scratch: &mut Scratch,
    batch: &mut Batch<'_>,
) -> Result<(), Stop> {
    let mut input = Input::new(bytes);
    while let Some(key) = input.key()? {
        if key != list::SPANS {
            input.skip(key)?;
            continue;
        }
        let start = input.at();
        batch.open(start)?;
        let message = input.message()?;
        let reader = Reader { arena: &scratch.arena, limits: batch.limits };
        let mut draft = SpanDraft::new(Lists::take_memory(&mut scratch.lists));
        let read = reader.span(message, &mut draft);
        let closed = batch.close_read(read, &mut draft, start);
        scratch.lists = draft.lists.into_memory();
        scratch.arena.clear();
        closed?;
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Reader<'t> {
    arena: &'t Arena,
    limits: &'t Limits,
}

impl<'t> Reader<'t> {
    fn span(self, mut input: Input<'t>, draft: &mut SpanDraft<'t>) -> Result<()> {
        while let Some(key) = input.key()? {
            match key {
                span::TRACE_ID => draft.trace_id = Some(trace_id(&mut input).in_field("traceId")?),
                span::PARENT_ID => draft.parent_id = span_id(&mut input).in_field("parentId")?,
                span::ID => draft.id = Some(own_id(&mut input).in_field("id")?),
                span::KIND => draft.kind = kind(input.varint()?),
                span::NAME => draft.name = self.text(&mut input).in_field("name")?,
                span::TIMESTAMP => {
                    draft.start_ns = time(&mut input, Input::fixed64).in_field("timestamp")?;
                }
                span::DURATION => {
                    draft.duration_ns = time(&mut input, Input::varint).in_field("duration")?;
                }
                span::LOCAL_ENDPOINT => {
                    draft.local = self.endpoint(&mut input).in_field("localEndpoint")?;
                }
                span::REMOTE_ENDPOINT => {
                    draft.remote = self.endpoint(&mut input).in_field("remoteEndpoint")?;
                }
                span::ANNOTATIONS => {
                    self.annotation(&mut input, &mut draft.lists).in_field("annotations")?;
                }
                span::TAGS => self.tag(&mut input, &mut draft.lists).in_field("tags")?,
                span::DEBUG => draft.debug = input.varint()? != 0,
                span::SHARED => draft.shared = input.varint()? != 0,
                _ => input.skip(key)?,
            }
        }
        Ok(())
    }

    fn endpoint(self, input: &mut Input<'t>) -> Result<EndpointRef<'t>> {
        let (mut input, mut endpoint) = (input.message()?, EndpointRef::NONE);
        while let Some(key) = input.key()? {
            match key {
                endpoint::SERVICE_NAME => endpoint.service = self.text(&mut input)?,
                endpoint::IPV4 | endpoint::IPV6 => {
                    values::address_of_bytes(input.sized()?, &mut endpoint);
                }
                endpoint::PORT => {
                    let start = input.at();
                    // A negative int32 is encoded as 64 bits.
                    let number = input.varint()? as i64;
                    endpoint.port = values::port(number).map_err(|reason| reason.at(start))?;
                }
                _ => input.skip(key)?,
            }
        }
        Ok(endpoint)
    }

    /// Reads an annotation. An annotation without time or text is dropped, as in Zipkin.
    fn annotation(self, input: &mut Input<'t>, lists: &mut Lists<'t>) -> Result<()> {
        let (start, mut input) = (input.at(), input.message()?);
        let (mut time_ns, mut value) = (None, "");
        while let Some(key) = input.key()? {
            match key {
                annotation::TIMESTAMP => time_ns = time(&mut input, Input::fixed64)?,
                annotation::VALUE => value = self.text(&mut input)?,
                _ => input.skip(key)?,
            }
        }
        match time_ns {
            Some(time_ns) if !value.is_empty() => {
                lists.annotate(AnnotationRef { time_ns, value }, self.limits, start)
            }
            _ => Ok(()),
        }
    }

    /// Reads a tag. Absent parts are empty, as defined by protobuf, so the key may be empty.
    fn tag(self, input: &mut Input<'t>, lists: &mut Lists<'t>) -> Result<()> {
        let (start, mut input) = (input.at(), input.message()?);
        let (mut key, mut value) = ("", "");
        while let Some(field) = input.key()? {
            match field {
                tag::KEY => key = self.text(&mut input)?,
                tag::VALUE => value = self.text(&mut input)?,
                _ => input.skip(field)?,
            }
        }
        lists.tag(TagRef::text(key, value), self.limits, start)
    }

    #[inline]
    fn text(self, input: &mut Input<'t>) -> Result<&'t str> {
        Ok(self.arena.text(input.text(self.limits.text_bytes)?))
    }
}

#[inline]
fn trace_id(input: &mut Input<'_>) -> Result<TraceId> {
    let start = input.at();
    let number = values::id_of_bytes(input.sized()?, 16);
    let id = number.and_then(|number| TraceId::from_number(number).ok_or(Reason::Zero));
    id.map_err(|reason| reason.at(start))
}

#[inline]
fn own_id(input: &mut Input<'_>) -> Result<SpanId> {
    let start = input.at();
    span_id(input)?.ok_or_else(|| Reason::Zero.at(start))
}

#[inline]
fn span_id(input: &mut Input<'_>) -> Result<Option<SpanId>> {
    let start = input.at();
    let number = values::id_of_bytes(input.sized()?, 8).map_err(|reason| reason.at(start))?;
    Ok(SpanId::from_number(number as u64))
}

#[inline]
fn time<'t>(
    input: &mut Input<'t>,
    read: impl FnOnce(&mut Input<'t>) -> Result<u64>,
) -> Result<Option<u64>> {
    let start = input.at();
    // Zipkin's numbers are signed.
    let us = read(input)? as i64;
    values::ns_if_known(us).map_err(|reason| reason.at(start))
}

fn kind(number: u64) -> Kind {
    match number {
        1 => Kind::Client,
        2 => Kind::Server,
        3 => Kind::Producer,
        4 => Kind::Consumer,
        _ => Kind::Unspecified,
    }
}

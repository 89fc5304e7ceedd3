//! Decoder of OpenTelemetry's traces as protobuf. Resources contain scopes, and scopes contain
//! spans. A resource or scope may come after its spans in the message, so it is located before the
//! spans are decoded.

pub(super) mod keys;

use super::render::{pairs, text, value};
use super::{
    DROPPED_ATTRIBUTES, DROPPED_EVENTS, DROPPED_LINKS, Group, GroupBuffers, SCOPE_NAME,
    SCOPE_VERSION, SpanExtras, TRACE_STATE, link_key,
};
use crate::arena::Arena;
use crate::batch::{Batch, Stop};
use crate::error::{FieldContext, Reason, Result};
use crate::limits::Limits;
use crate::protobuf::Input;
use crate::render;
use crate::span_draft::{Lists, SpanDraft};
use blkkin_model::{AnnotationRef, Kind, Origin, SpanId, Status, TagRef, TraceId, ValueRef};
use keys::{
    RESOURCE_SPANS, any, event, link, pair, resource, resource_spans, scope, scope_spans, span,
    status,
};

/// Buffers of the decoder, reused for the next span and the next group of spans.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    lists: Lists<'static>,
    arena: Arena,
    group: GroupBuffers,
}

pub(crate) fn decode(
    bytes: &[u8],
    scratch: &mut Scratch,
    batch: &mut Batch<'_>,
) -> Result<(), Stop> {
    let mut input = Input::new(bytes);
    while let Some(key) = input.key()? {
        if key == RESOURCE_SPANS {
            decode_resource(input.message()?, scratch, batch)?;
        } else {
            input.skip(key)?;
        }
    }
    Ok(())
}

fn decode_resource(
    mut input: Input<'_>,
    scratch: &mut Scratch,
    batch: &mut Batch<'_>,
) -> Result<(), Stop> {
    let arena = Arena::default();
    let reader = Reader { arena: &arena, limits: batch.limits };
    let mut group = Group::new(&mut scratch.group);
    let mut ahead = input;
    while let Some(key) = ahead.key()? {
        match key {
            resource_spans::RESOURCE => {
                reader.resource(ahead.message()?, &mut group).in_field("resource")?;
            }
            _ => ahead.skip(key)?,
        }
    }
    group.close_resource();
    while let Some(key) = input.key()? {
        match key {
            resource_spans::SCOPE_SPANS => {
                decode_scope(input.message()?, &mut group, reader, scratch, batch)?;
            }
            _ => input.skip(key)?,
        }
    }
    group.give_back(&mut scratch.group);
    Ok(())
}

fn decode_scope<'g>(
    mut input: Input<'g>,
    group: &mut Group<'g>,
    reader: Reader<'g>,
    scratch: &mut Scratch,
    batch: &mut Batch<'_>,
) -> Result<(), Stop> {
    group.open_scope();
    let mut ahead = input;
    while let Some(key) = ahead.key()? {
        match key {
            scope_spans::SCOPE => reader.scope(ahead.message()?, group).in_field("scope")?,
            _ => ahead.skip(key)?,
        }
    }
    group.close_scope();
    while let Some(key) = input.key()? {
        match key {
            scope_spans::SPANS => decode_span(&mut input, group, scratch, batch)?,
            _ => input.skip(key)?,
        }
    }
    Ok(())
}

fn decode_span(
    input: &mut Input<'_>,
    group: &Group<'_>,
    scratch: &mut Scratch,
    batch: &mut Batch<'_>,
) -> Result<(), Stop> {
    let start = input.at();
    batch.open(start)?;
    let message = input.message()?;
    let reader = Reader { arena: &scratch.arena, limits: batch.limits };
    let mut draft = SpanDraft::for_group(group, Lists::take_memory(&mut scratch.lists));
    let read = reader.span(message, &mut draft);
    let closed = batch.close_read(read, &mut draft, start);
    scratch.lists = draft.lists.into_memory();
    scratch.arena.clear();
    closed
}

#[derive(Clone, Copy)]
struct Reader<'t> {
    arena: &'t Arena,
    limits: &'t Limits,
}

impl<'t> Reader<'t> {
    fn resource(self, mut input: Input<'t>, group: &mut Group<'t>) -> Result<()> {
        while let Some(key) = input.key()? {
            match key {
                resource::ATTRIBUTES => {
                    let start = input.at();
                    let (key, value) = self.pair(input.message()?)?;
                    group.resource_tag(key, value, self.limits, start)?;
                }
                _ => input.skip(key)?,
            }
        }
        Ok(())
    }

    fn scope(self, mut input: Input<'t>, group: &mut Group<'t>) -> Result<()> {
        while let Some(key) = input.key()? {
            let start = input.at();
            let pair @ (key, value) = match key {
                scope::NAME => (SCOPE_NAME, ValueRef::Str(self.text(&mut input)?)),
                scope::VERSION => (SCOPE_VERSION, ValueRef::Str(self.text(&mut input)?)),
                scope::ATTRIBUTES => self.pair(input.message()?)?,
                _ => {
                    input.skip(key)?;
                    continue;
                }
            };
            if pair != (SCOPE_NAME, ValueRef::Str("")) && pair != (SCOPE_VERSION, ValueRef::Str(""))
            {
                group.scope_tag(key, value, self.limits, start)?;
            }
        }
        Ok(())
    }

    fn span(self, mut input: Input<'t>, draft: &mut SpanDraft<'t>) -> Result<()> {
        let own_tags = draft.lists.tags.len();
        let mut extra = SpanExtras::default();
        while let Some(key) = input.key()? {
            self.field(key, &mut input, draft, &mut extra)?;
        }
        draft.close(&extra, own_tags);
        Ok(())
    }

    #[inline]
    fn field(
        self,
        key: u32,
        input: &mut Input<'t>,
        draft: &mut SpanDraft<'t>,
        extra: &mut SpanExtras<'t>,
    ) -> Result<()> {
        match key {
            span::TRACE_ID => draft.trace_id = Some(trace_id(input).in_field("traceId")?),
            span::SPAN_ID => draft.id = Some(own_id(input).in_field("spanId")?),
            span::PARENT_SPAN_ID => draft.parent_id = span_id(input).in_field("parentSpanId")?,
            span::NAME => draft.name = self.text(input).in_field("name")?,
            span::KIND => draft.kind = kind(input.varint()?),
            span::START_TIME => draft.start_ns = Some(input.fixed64()?),
            span::END_TIME => extra.end_ns = input.fixed64()?,
            span::ATTRIBUTES => self.attribute(input, draft).in_field("attributes")?,
            span::EVENTS => self.event(input, draft).in_field("events")?,
            span::STATUS => self.status(input.message()?, draft, extra).in_field("status")?,
            span::TRACE_STATE => {
                let start = input.at();
                let state = self.text(input).in_field("traceState")?;
                if !state.is_empty() {
                    draft.lists.tag(TagRef::text(TRACE_STATE, state), self.limits, start)?;
                }
            }
            span::LINKS => self.link(input, draft, extra).in_field("links")?,
            span::DROPPED_ATTRIBUTES => self.dropped(DROPPED_ATTRIBUTES, input, draft)?,
            span::DROPPED_EVENTS => self.dropped(DROPPED_EVENTS, input, draft)?,
            span::DROPPED_LINKS => self.dropped(DROPPED_LINKS, input, draft)?,
            _ => input.skip(key)?,
        }
        Ok(())
    }

    fn attribute(self, input: &mut Input<'t>, draft: &mut SpanDraft<'t>) -> Result<()> {
        let start = input.at();
        let (key, value) = self.pair(input.message()?)?;
        draft.lists.tag(TagRef { key, value, origin: Origin::Span }, self.limits, start)
    }

    fn dropped(
        self,
        key: &'static str,
        input: &mut Input<'t>,
        draft: &mut SpanDraft<'t>,
    ) -> Result<()> {
        let start = input.at();
        let count = input.varint()? as u32;
        if count == 0 {
            return Ok(());
        }
        let value = ValueRef::Int(count.into());
        draft.lists.tag(TagRef { key, value, origin: Origin::Span }, self.limits, start)
    }

    fn status(
        self,
        mut input: Input<'t>,
        draft: &mut SpanDraft<'t>,
        extra: &mut SpanExtras<'t>,
    ) -> Result<()> {
        while let Some(key) = input.key()? {
            match key {
                status::MESSAGE => extra.status_message = self.text(&mut input)?,
                status::CODE => {
                    draft.status = match input.varint()? {
                        1 => Status::Ok,
                        2 => Status::Error,
                        _ => Status::Unset,
                    };
                }
                _ => input.skip(key)?,
            }
        }
        Ok(())
    }

    fn event(self, input: &mut Input<'t>, draft: &mut SpanDraft<'t>) -> Result<()> {
        let start = input.at();
        let message = input.message()?;
        let (mut input, mut time_ns, mut name, mut has_more) = (message, 0, "", false);
        while let Some(key) = input.key()? {
            match key {
                event::TIME => time_ns = input.fixed64()?,
                event::NAME => name = self.text(&mut input)?,
                event::ATTRIBUTES => {
                    has_more = true;
                    input.skip(key)?;
                }
                _ => input.skip(key)?,
            }
        }
        let value = if has_more { self.event_text(name, message)? } else { name };
        draft.lists.annotate(AnnotationRef { time_ns, value }, self.limits, start)
    }

    /// Renders the name and attributes of an event as `"name": {json}`.
    fn event_text(self, name: &str, event: Input<'t>) -> Result<&'t str> {
        let mut out = Vec::new();
        render::string(&mut out, name);
        out.extend_from_slice(b": ");
        pairs(&mut out, event, event::ATTRIBUTES, self.limits, 1)?;
        Ok(self.arena.store(text(out, self.limits, event.at())?))
    }

    fn link(
        self,
        input: &mut Input<'t>,
        draft: &mut SpanDraft<'t>,
        extra: &mut SpanExtras<'t>,
    ) -> Result<()> {
        let start = input.at();
        let message = input.message()?;
        let (mut input, mut state, mut dropped) = (message, "", 0);
        let mut ids = (None, None);
        while let Some(key) = input.key()? {
            match key {
                link::TRACE_ID => ids.0 = Some(trace_id(&mut input)?),
                link::SPAN_ID => ids.1 = Some(own_id(&mut input)?),
                link::TRACE_STATE => state = self.text(&mut input)?,
                link::DROPPED_ATTRIBUTES => dropped = input.varint()? as u32,
                _ => input.skip(key)?,
            }
        }
        let (Some(trace_id), Some(span_id)) = ids else { return Err(Reason::Missing.at(start)) };
        let mut out = format!("{:032x}|{span_id}|{state}|", trace_id.number()).into_bytes();
        pairs(&mut out, message, link::ATTRIBUTES, self.limits, 1)?;
        out.extend_from_slice(format!("|{dropped}").as_bytes());
        let value = self.arena.store(text(out, self.limits, start)?);
        let key = self.arena.store(link_key(extra.links));
        extra.links += 1;
        draft.lists.tag(TagRef::text(key, value), self.limits, start)
    }

    #[inline]
    fn pair(self, mut input: Input<'t>) -> Result<(&'t str, ValueRef<'t>)> {
        let (mut key, mut value) = ("", ValueRef::Str(""));
        while let Some(field) = input.key()? {
            match field {
                pair::KEY => key = self.text(&mut input)?,
                pair::VALUE => value = self.value(input.message()?)?,
                _ => input.skip(field)?,
            }
        }
        Ok((key, value))
    }

    /// Reads an attribute's value; an absent value is an empty string.
    #[inline]
    fn value(self, message: Input<'t>) -> Result<ValueRef<'t>> {
        let (mut input, mut found) = (message, Some(ValueRef::Str("")));
        while let Some(key) = input.key()? {
            found = match key {
                any::STRING => Some(ValueRef::Str(self.text(&mut input)?)),
                any::BOOL => Some(ValueRef::Bool(input.varint()? != 0)),
                any::INT => Some(ValueRef::Int(input.varint()? as i64)),
                any::DOUBLE => Some(ValueRef::Double(f64::from_bits(input.fixed64()?))),
                any::BYTES => Some(ValueRef::Bytes(input.text(self.limits.text_bytes)?)),
                any::ARRAY | any::MAP => {
                    input.skip(key)?;
                    None
                }
                _ => {
                    input.skip(key)?;
                    found
                }
            };
        }
        // A list or map is rendered once, at the end, since the last of several values applies.
        found.map_or_else(|| self.rendered(message).map(ValueRef::Str), Ok)
    }

    #[cold]
    fn rendered(self, message: Input<'t>) -> Result<&'t str> {
        let mut out = Vec::new();
        value(&mut out, message, self.limits, 0)?;
        Ok(self.arena.store(text(out, self.limits, message.at())?))
    }

    #[inline]
    fn text(self, input: &mut Input<'t>) -> Result<&'t str> {
        Ok(self.arena.text(input.text(self.limits.text_bytes)?))
    }
}

#[inline]
fn trace_id(input: &mut Input<'_>) -> Result<TraceId> {
    let start = input.at();
    let bytes = <[u8; 16]>::try_from(input.sized()?)
        .map_err(|_| Reason::Expected("an id of 16 bytes").at(start))?;
    TraceId::from_number(u128::from_be_bytes(bytes)).ok_or_else(|| Reason::Zero.at(start))
}

#[inline]
fn own_id(input: &mut Input<'_>) -> Result<SpanId> {
    let start = input.at();
    span_id(input)?.ok_or_else(|| Reason::Zero.at(start))
}

/// Reads an optional span id; `None` for 0 and an empty value.
#[inline]
fn span_id(input: &mut Input<'_>) -> Result<Option<SpanId>> {
    let start = input.at();
    let bytes = input.sized()?;
    if bytes.is_empty() {
        return Ok(None);
    }
    let bytes =
        <[u8; 8]>::try_from(bytes).map_err(|_| Reason::Expected("an id of 8 bytes").at(start))?;
    Ok(SpanId::from_number(u64::from_be_bytes(bytes)))
}

pub(super) fn kind(number: u64) -> Kind {
    match number {
        1 => Kind::Internal,
        2 => Kind::Server,
        3 => Kind::Client,
        4 => Kind::Producer,
        5 => Kind::Consumer,
        _ => Kind::Unspecified,
    }
}

//! OpenTelemetry's traces as protobuf: resources of scopes of spans. Of a resource and a scope, what
//! holds for their spans is looked for first, wherever it is.

pub(super) mod keys;

use super::render::{pairs, text, value};
use super::{
    DROPPED_ATTRIBUTES, DROPPED_EVENTS, DROPPED_LINKS, Extra, Group, SCOPE_NAME, SCOPE_VERSION,
    TRACE_STATE, link_key,
};
use crate::Limits;
use crate::decoder::{Batch, Scratch, Stop};
use crate::draft::{Draft, Lists};
use crate::fault::{Reason, Result, Within};
use crate::protobuf::Walk;
use crate::render;
use crate::texts::Texts;
use blkkin_model::{AnnotationRef, Kind, Origin, SpanId, Status, TagRef, TraceId, ValueRef};
use keys::{
    RESOURCE_SPANS, any, event, link, pair, resource, resource_spans, scope, scope_spans, span,
    status,
};

pub(crate) fn decode(
    bytes: &[u8],
    scratch: &mut Scratch,
    batch: &mut Batch<'_>,
) -> Result<(), Stop> {
    let mut walk = Walk::new(bytes);
    while let Some(key) = walk.key()? {
        if key == RESOURCE_SPANS {
            of_resource(walk.message()?, scratch, batch)?;
        } else {
            walk.skip(key)?;
        }
    }
    Ok(())
}

fn of_resource(
    mut walk: Walk<'_>,
    scratch: &mut Scratch,
    batch: &mut Batch<'_>,
) -> Result<(), Stop> {
    let texts = Texts::default();
    let reader = Reader { texts: &texts, limits: batch.limits };
    let mut group = Group::new(&mut scratch.group);
    let mut ahead = walk;
    while let Some(key) = ahead.key()? {
        match key {
            resource_spans::RESOURCE => {
                reader.resource(ahead.message()?, &mut group).within("resource")?;
            }
            _ => ahead.skip(key)?,
        }
    }
    group.close_resource();
    while let Some(key) = walk.key()? {
        match key {
            resource_spans::SCOPE_SPANS => {
                of_scope(walk.message()?, &mut group, reader, scratch, batch)?;
            }
            _ => walk.skip(key)?,
        }
    }
    group.give_back(&mut scratch.group);
    Ok(())
}

fn of_scope<'g>(
    mut walk: Walk<'g>,
    group: &mut Group<'g>,
    reader: Reader<'g>,
    scratch: &mut Scratch,
    batch: &mut Batch<'_>,
) -> Result<(), Stop> {
    group.open_scope();
    let mut ahead = walk;
    while let Some(key) = ahead.key()? {
        match key {
            scope_spans::SCOPE => reader.scope(ahead.message()?, group).within("scope")?,
            _ => ahead.skip(key)?,
        }
    }
    group.close_scope();
    while let Some(key) = walk.key()? {
        match key {
            scope_spans::SPANS => one_span(&mut walk, group, scratch, batch)?,
            _ => walk.skip(key)?,
        }
    }
    Ok(())
}

fn one_span(
    walk: &mut Walk<'_>,
    group: &Group<'_>,
    scratch: &mut Scratch,
    batch: &mut Batch<'_>,
) -> Result<(), Stop> {
    let start = walk.at();
    batch.open(start)?;
    let message = walk.message()?;
    let reader = Reader { texts: &scratch.texts, limits: batch.limits };
    let mut draft = Draft::of_group(group, Lists::lend(&mut scratch.lists));
    let read = reader.span(message, &mut draft);
    let closed = batch.close_read(read, &mut draft, start);
    scratch.lists = draft.lists.give_back();
    scratch.texts.clear();
    closed
}

#[derive(Clone, Copy)]
struct Reader<'t> {
    texts: &'t Texts,
    limits: &'t Limits,
}

impl<'t> Reader<'t> {
    fn resource(self, mut walk: Walk<'t>, group: &mut Group<'t>) -> Result<()> {
        while let Some(key) = walk.key()? {
            match key {
                resource::ATTRIBUTES => {
                    let start = walk.at();
                    let pair = self.pair(walk.message()?)?;
                    group.resource_tag(pair, self.limits, start)?;
                }
                _ => walk.skip(key)?,
            }
        }
        Ok(())
    }

    fn scope(self, mut walk: Walk<'t>, group: &mut Group<'t>) -> Result<()> {
        while let Some(key) = walk.key()? {
            let start = walk.at();
            let pair = match key {
                scope::NAME => (SCOPE_NAME, ValueRef::Str(self.text(&mut walk)?)),
                scope::VERSION => (SCOPE_VERSION, ValueRef::Str(self.text(&mut walk)?)),
                scope::ATTRIBUTES => self.pair(walk.message()?)?,
                _ => {
                    walk.skip(key)?;
                    continue;
                }
            };
            if pair != (SCOPE_NAME, ValueRef::Str("")) && pair != (SCOPE_VERSION, ValueRef::Str(""))
            {
                group.scope_tag(pair, self.limits, start)?;
            }
        }
        Ok(())
    }

    fn span(self, mut walk: Walk<'t>, draft: &mut Draft<'t>) -> Result<()> {
        let own_tags = draft.lists.tags.len();
        let mut extra = Extra::default();
        while let Some(key) = walk.key()? {
            self.field(key, &mut walk, draft, &mut extra)?;
        }
        draft.close(&extra, own_tags);
        Ok(())
    }

    #[inline]
    fn field(
        self,
        key: u32,
        walk: &mut Walk<'t>,
        draft: &mut Draft<'t>,
        extra: &mut Extra<'t>,
    ) -> Result<()> {
        match key {
            span::TRACE_ID => draft.trace_id = Some(trace_id(walk).within("traceId")?),
            span::SPAN_ID => draft.id = Some(own_id(walk).within("spanId")?),
            span::PARENT_SPAN_ID => draft.parent_id = span_id(walk).within("parentSpanId")?,
            span::NAME => draft.name = self.text(walk).within("name")?,
            span::KIND => draft.kind = kind(walk.varint()?),
            span::START_TIME => draft.start_ns = Some(walk.fixed64()?),
            span::END_TIME => extra.end_ns = walk.fixed64()?,
            span::ATTRIBUTES => self.attribute(walk, draft).within("attributes")?,
            span::EVENTS => self.event(walk, draft).within("events")?,
            span::STATUS => self.status(walk.message()?, draft, extra).within("status")?,
            span::TRACE_STATE => {
                let start = walk.at();
                let state = self.text(walk).within("traceState")?;
                if !state.is_empty() {
                    draft.lists.tag(TagRef::text(TRACE_STATE, state), self.limits, start)?;
                }
            }
            span::LINKS => self.link(walk, draft, extra).within("links")?,
            span::DROPPED_ATTRIBUTES => self.dropped(DROPPED_ATTRIBUTES, walk, draft)?,
            span::DROPPED_EVENTS => self.dropped(DROPPED_EVENTS, walk, draft)?,
            span::DROPPED_LINKS => self.dropped(DROPPED_LINKS, walk, draft)?,
            _ => walk.skip(key)?,
        }
        Ok(())
    }

    fn attribute(self, walk: &mut Walk<'t>, draft: &mut Draft<'t>) -> Result<()> {
        let start = walk.at();
        let (key, value) = self.pair(walk.message()?)?;
        draft.lists.tag(TagRef { key, value, origin: Origin::Span }, self.limits, start)
    }

    fn dropped(self, key: &'static str, walk: &mut Walk<'t>, draft: &mut Draft<'t>) -> Result<()> {
        let start = walk.at();
        let count = walk.varint()? as u32;
        if count == 0 {
            return Ok(());
        }
        let value = ValueRef::Int(count.into());
        draft.lists.tag(TagRef { key, value, origin: Origin::Span }, self.limits, start)
    }

    fn status(
        self,
        mut walk: Walk<'t>,
        draft: &mut Draft<'t>,
        extra: &mut Extra<'t>,
    ) -> Result<()> {
        while let Some(key) = walk.key()? {
            match key {
                status::MESSAGE => extra.status_message = self.text(&mut walk)?,
                status::CODE => {
                    draft.status = match walk.varint()? {
                        1 => Status::Ok,
                        2 => Status::Error,
                        _ => Status::Unset,
                    };
                }
                _ => walk.skip(key)?,
            }
        }
        Ok(())
    }

    fn event(self, walk: &mut Walk<'t>, draft: &mut Draft<'t>) -> Result<()> {
        let start = walk.at();
        let message = walk.message()?;
        let (mut walk, mut time_ns, mut name, mut has_more) = (message, 0, "", false);
        while let Some(key) = walk.key()? {
            match key {
                event::TIME => time_ns = walk.fixed64()?,
                event::NAME => name = self.text(&mut walk)?,
                event::ATTRIBUTES => {
                    has_more = true;
                    walk.skip(key)?;
                }
                _ => walk.skip(key)?,
            }
        }
        let value = if has_more { self.described(name, message)? } else { name };
        draft.lists.annotate(AnnotationRef { time_ns, value }, self.limits, start)
    }

    /// An event with its attributes.
    fn described(self, name: &str, event: Walk<'t>) -> Result<&'t str> {
        let mut out = Vec::new();
        render::string(&mut out, name);
        out.extend_from_slice(b": ");
        pairs(&mut out, event, event::ATTRIBUTES, self.limits, 1)?;
        Ok(self.texts.keep(text(out, self.limits, event.at())?))
    }

    fn link(self, walk: &mut Walk<'t>, draft: &mut Draft<'t>, extra: &mut Extra<'t>) -> Result<()> {
        let start = walk.at();
        let message = walk.message()?;
        let (mut walk, mut state, mut dropped) = (message, "", 0);
        let mut ids = (None, None);
        while let Some(key) = walk.key()? {
            match key {
                link::TRACE_ID => ids.0 = Some(trace_id(&mut walk)?),
                link::SPAN_ID => ids.1 = Some(own_id(&mut walk)?),
                link::TRACE_STATE => state = self.text(&mut walk)?,
                link::DROPPED_ATTRIBUTES => dropped = walk.varint()? as u32,
                _ => walk.skip(key)?,
            }
        }
        let (Some(trace_id), Some(span_id)) = ids else { return Err(Reason::Missing.at(start)) };
        let mut out = format!("{:032x}|{span_id}|{state}|", trace_id.number()).into_bytes();
        pairs(&mut out, message, link::ATTRIBUTES, self.limits, 1)?;
        out.extend_from_slice(format!("|{dropped}").as_bytes());
        let value = self.texts.keep(text(out, self.limits, start)?);
        let key = self.texts.keep(link_key(extra.links));
        extra.links += 1;
        draft.lists.tag(TagRef::text(key, value), self.limits, start)
    }

    #[inline]
    fn pair(self, mut walk: Walk<'t>) -> Result<(&'t str, ValueRef<'t>)> {
        let (mut key, mut value) = ("", ValueRef::Str(""));
        while let Some(field) = walk.key()? {
            match field {
                pair::KEY => key = self.text(&mut walk)?,
                pair::VALUE => value = self.value(walk.message()?)?,
                _ => walk.skip(field)?,
            }
        }
        Ok((key, value))
    }

    /// One that is not there is empty text.
    #[inline]
    fn value(self, message: Walk<'t>) -> Result<ValueRef<'t>> {
        let (mut walk, mut found) = (message, Some(ValueRef::Str("")));
        while let Some(key) = walk.key()? {
            found = match key {
                any::STRING => Some(ValueRef::Str(self.text(&mut walk)?)),
                any::BOOL => Some(ValueRef::Bool(walk.varint()? != 0)),
                any::INT => Some(ValueRef::Int(walk.varint()? as i64)),
                any::DOUBLE => Some(ValueRef::Double(f64::from_bits(walk.fixed64()?))),
                any::BYTES => Some(ValueRef::Bytes(walk.text(self.limits.text_bytes)?)),
                any::ARRAY | any::MAP => {
                    walk.skip(key)?;
                    None
                }
                _ => {
                    walk.skip(key)?;
                    found
                }
            };
        }
        // Once, at the end: there may be many, of which the last one counts.
        found.map_or_else(|| self.rendered(message).map(ValueRef::Str), Ok)
    }

    #[cold]
    fn rendered(self, message: Walk<'t>) -> Result<&'t str> {
        let mut out = Vec::new();
        value(&mut out, message, self.limits, 0)?;
        Ok(self.texts.keep(text(out, self.limits, message.at())?))
    }

    #[inline]
    fn text(self, walk: &mut Walk<'t>) -> Result<&'t str> {
        Ok(self.texts.text(walk.text(self.limits.text_bytes)?))
    }
}

#[inline]
fn trace_id(walk: &mut Walk<'_>) -> Result<TraceId> {
    let start = walk.at();
    let bytes = <[u8; 16]>::try_from(walk.sized()?)
        .map_err(|_| Reason::Expected("an id of 16 bytes").at(start))?;
    TraceId::from_number(u128::from_be_bytes(bytes)).ok_or_else(|| Reason::Zero.at(start))
}

#[inline]
fn own_id(walk: &mut Walk<'_>) -> Result<SpanId> {
    let start = walk.at();
    span_id(walk)?.ok_or_else(|| Reason::Zero.at(start))
}

/// 0 and nothing are none.
#[inline]
fn span_id(walk: &mut Walk<'_>) -> Result<Option<SpanId>> {
    let start = walk.at();
    let bytes = walk.sized()?;
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

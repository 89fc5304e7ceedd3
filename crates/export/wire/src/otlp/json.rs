//! Decoder of OpenTelemetry's traces as JSON. Names are in camel case, ids are hexadecimal,
//! integers may be quoted, and null means absent. A resource or scope is located before its spans
//! are decoded; the search skips the spans only if the resource or scope is absent or follows them.

mod render;
mod scalars;

use super::proto::kind;
use super::{
    DROPPED_ATTRIBUTES, DROPPED_EVENTS, DROPPED_LINKS, Group, GroupBuffers, SCOPE_NAME,
    SCOPE_VERSION, SpanExtras, TRACE_STATE, link_key,
};
use crate::arena::Arena;
use crate::batch::{Batch, Stop};
use crate::error::{FieldContext, Reason, Result};
use crate::json::{EncodedKey, ItemError, Reader, keys, spans};
use crate::span_draft::{Lists, SpanDraft};
use blkkin_model::{AnnotationRef, Origin, Status, TagRef, ValueRef};

keys! {
    /// JSON keys of an export request.
    request { RESOURCE_SPANS = "resourceSpans", }
    /// JSON keys of a resource with its scopes.
    resource_spans { RESOURCE = "resource", SCOPE_SPANS = "scopeSpans", }
    /// JSON keys of a resource.
    resource { ATTRIBUTES = "attributes", }
    /// JSON keys of a scope with its spans.
    scope_spans { SCOPE = "scope", SPANS = "spans", }
    /// JSON keys of a scope.
    scope { NAME = "name", VERSION = "version", ATTRIBUTES = "attributes", }
    /// JSON keys of a span.
    span {
        TRACE_ID = "traceId",
        SPAN_ID = "spanId",
        TRACE_STATE = "traceState",
        PARENT_SPAN_ID = "parentSpanId",
        NAME = "name",
        KIND = "kind",
        START_TIME = "startTimeUnixNano",
        END_TIME = "endTimeUnixNano",
        ATTRIBUTES = "attributes",
        DROPPED_ATTRIBUTES = "droppedAttributesCount",
        EVENTS = "events",
        DROPPED_EVENTS = "droppedEventsCount",
        LINKS = "links",
        DROPPED_LINKS = "droppedLinksCount",
        STATUS = "status",
    }
    /// JSON keys of an event in a span.
    event { TIME = "timeUnixNano", NAME = "name", ATTRIBUTES = "attributes", }
    /// JSON keys of a link to another span.
    link {
        TRACE_ID = "traceId",
        SPAN_ID = "spanId",
        TRACE_STATE = "traceState",
        ATTRIBUTES = "attributes",
        DROPPED_ATTRIBUTES = "droppedAttributesCount",
    }
    /// JSON keys of a span's status.
    status { MESSAGE = "message", CODE = "code", }
    /// JSON keys of an attribute.
    pair { KEY = "key", VALUE = "value", }
    /// JSON keys of an attribute's value, one for each type.
    any {
        STRING = "stringValue",
        INT = "intValue",
        BOOL = "boolValue",
        DOUBLE = "doubleValue",
        ARRAY = "arrayValue",
        MAP = "kvlistValue",
        BYTES = "bytesValue",
    }
    /// JSON keys of an attribute's list or map.
    list { VALUES = "values", }
}

/// Buffers of the decoder, reused for the next span and the next group of spans.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    lists: Lists<'static>,
    arena: Arena,
    group: GroupBuffers,
    orders: KeyOrders,
}

/// Key orders of earlier objects, one for each frequent type of object.
#[derive(Debug, Default)]
struct KeyOrders {
    span: span::Keys,
    event: event::Keys,
    status: status::Keys,
    pair: pair::Keys,
    any: any::Keys,
}

pub(crate) fn decode(
    bytes: &[u8],
    scratch: &mut Scratch,
    batch: &mut Batch<'_>,
) -> Result<(), Stop> {
    let arena = Arena::default();
    let mut reader = Reader::new(bytes, &arena, batch.limits);
    if reader.is_at_end() || !reader.open_object()? {
        return Ok(());
    }
    loop {
        match reader.key(&request::NAMES, &mut request::Keys::default(), None)? {
            Some(_) if reader.null()? => {}
            Some(_) => resources(&mut reader, scratch, batch)?,
            None => reader.skip()?,
        }
        if !reader.more_keys()? {
            return Ok(());
        }
    }
}

fn resources(
    reader: &mut Reader<'_>,
    scratch: &mut Scratch,
    batch: &mut Batch<'_>,
) -> Result<(), Stop> {
    let mut has_more = reader.open_list()?;
    while has_more {
        decode_resource(reader, scratch, batch)?;
        has_more = reader.more_items()?;
    }
    Ok(())
}

fn decode_resource(
    reader: &mut Reader<'_>,
    scratch: &mut Scratch,
    batch: &mut Batch<'_>,
) -> Result<(), Stop> {
    let arena = Arena::default();
    let mut inner = reader.with(&arena);
    let mut group = Group::new(&mut scratch.group);
    if let Some(mut resource) = inner.find(&resource_spans::NAMES, resource_spans::RESOURCE)? {
        resource.resource(&mut group, &mut scratch.orders).in_field("resource")?;
    }
    group.close_resource();
    inner.scopes(&mut group, scratch, batch)?;
    group.give_back(&mut scratch.group);
    let end = inner.at();
    reader.go_to(end);
    Ok(())
}

impl<'g> Reader<'g> {
    /// Returns a reader at the value of the key `wanted` in the next object; `None` if the object
    /// lacks the key.
    fn find<const COUNT: usize>(
        mut self,
        names: &'static [EncodedKey; COUNT],
        wanted: usize,
    ) -> Result<Option<Reader<'g>>> {
        let mut has_more = self.open_object()?;
        while has_more {
            if self.key(names, &mut Default::default(), None)? == Some(wanted) {
                return Ok(Some(self));
            }
            self.skip()?;
            has_more = self.more_keys()?;
        }
        Ok(None)
    }

    fn resource(&mut self, group: &mut Group<'g>, orders: &mut KeyOrders) -> Result<()> {
        if self.null()? {
            return Ok(());
        }
        self.object(&resource::NAMES, &mut Default::default(), |reader, _| {
            reader.attributes(orders, |reader, (key, value), offset| {
                group.resource_tag(key, value, reader.limits(), offset)
            })
        })
    }

    /// Decodes the scopes and spans of a resource. The resource itself has been read before.
    fn scopes(
        &mut self,
        group: &mut Group<'g>,
        scratch: &mut Scratch,
        batch: &mut Batch<'_>,
    ) -> Result<(), Stop> {
        let mut has_more = self.open_object()?;
        while has_more {
            let key = self.key(&resource_spans::NAMES, &mut Default::default(), None)?;
            if key != Some(resource_spans::SCOPE_SPANS) {
                self.skip()?;
            } else if !self.null()? {
                let mut has_more = self.open_list()?;
                while has_more {
                    self.decode_scope(group, scratch, batch)?;
                    has_more = self.more_items()?;
                }
            }
            has_more = self.more_keys()?;
        }
        Ok(())
    }

    fn decode_scope(
        &mut self,
        group: &mut Group<'g>,
        scratch: &mut Scratch,
        batch: &mut Batch<'_>,
    ) -> Result<(), Stop> {
        group.open_scope();
        if let Some(mut scope) = self.find(&scope_spans::NAMES, scope_spans::SCOPE)? {
            scope.scope(group, &mut scratch.orders).in_field("scope")?;
        }
        group.close_scope();
        let mut has_more = self.open_object()?;
        while has_more {
            let key = self.key(&scope_spans::NAMES, &mut Default::default(), None)?;
            if key != Some(scope_spans::SPANS) {
                self.skip()?;
            } else if !self.null()? && self.open_list()? {
                spans(self, batch, |reader, batch| decode_span(reader, group, scratch, batch))?;
            }
            has_more = self.more_keys()?;
        }
        Ok(())
    }

    fn scope(&mut self, group: &mut Group<'g>, orders: &mut KeyOrders) -> Result<()> {
        if self.null()? {
            return Ok(());
        }
        self.object(&scope::NAMES, &mut Default::default(), |reader, key| {
            let name = match key {
                scope::NAME => SCOPE_NAME,
                scope::VERSION => SCOPE_VERSION,
                _ => {
                    return reader.attributes(orders, |reader, (key, value), offset| {
                        group.scope_tag(key, value, reader.limits(), offset)
                    });
                }
            };
            let (offset, text) = (reader.at(), reader.text_or_null()?);
            match text {
                "" => Ok(()),
                text => group.scope_tag(name, ValueRef::Str(text), reader.limits(), offset),
            }
        })
    }
}

fn decode_span(
    reader: Reader<'_>,
    group: &Group<'_>,
    scratch: &mut Scratch,
    batch: &mut Batch<'_>,
) -> Result<usize, ItemError> {
    let start = reader.at();
    let mut inner = reader.with(&scratch.arena);
    let mut draft = SpanDraft::for_group(group, Lists::take_memory(&mut scratch.lists));
    let read = inner.otlp_span(&mut draft, &mut scratch.orders);
    let end = inner.at();
    let closed = match read {
        Ok(()) => batch.close(&mut draft, start).map_err(ItemError::from),
        Err(fault) => Err(fault.into()),
    };
    scratch.lists = draft.lists.into_memory();
    scratch.arena.clear();
    closed.map(|()| end)
}

impl<'t> Reader<'t> {
    fn otlp_span(&mut self, draft: &mut SpanDraft<'t>, orders: &mut KeyOrders) -> Result<()> {
        let own_tags = draft.lists.tags.len();
        let mut extra = SpanExtras::default();
        let mut order = orders.span;
        let read = self.object(&span::NAMES, &mut order, |reader, key| {
            reader.field(key, draft, &mut extra, orders)
        });
        orders.span = order;
        read?;
        draft.close(&extra, own_tags);
        Ok(())
    }

    #[inline]
    fn field(
        &mut self,
        key: usize,
        draft: &mut SpanDraft<'t>,
        extra: &mut SpanExtras<'t>,
        orders: &mut KeyOrders,
    ) -> Result<()> {
        if self.null()? {
            return Ok(());
        }
        match key {
            span::TRACE_ID => draft.trace_id = self.otlp_trace_id().in_field("traceId")?,
            span::SPAN_ID => draft.id = Some(self.otlp_own_id().in_field("spanId")?),
            span::PARENT_SPAN_ID => {
                draft.parent_id = self.otlp_span_id().in_field("parentSpanId")?
            }
            span::NAME => draft.name = self.text_or_null().in_field("name")?,
            span::KIND => draft.kind = kind(self.unsigned().in_field("kind")?),
            span::START_TIME => {
                draft.start_ns = Some(self.unsigned().in_field("startTimeUnixNano")?)
            }
            span::END_TIME => extra.end_ns = self.unsigned().in_field("endTimeUnixNano")?,
            span::ATTRIBUTES => {
                let lists = &mut draft.lists;
                let read = self.attributes(orders, |reader, (key, value), offset| {
                    let tag = TagRef { key, value, origin: Origin::Span };
                    lists.tag(tag, reader.limits(), offset)
                });
                read.in_field("attributes")?;
            }
            span::EVENTS => self.events(&mut draft.lists, orders).in_field("events")?,
            span::STATUS => self.status(draft, extra, orders).in_field("status")?,
            span::TRACE_STATE => {
                let (start, state) = (self.at(), self.text_or_null().in_field("traceState")?);
                if !state.is_empty() {
                    draft.lists.tag(TagRef::text(TRACE_STATE, state), self.limits(), start)?;
                }
            }
            span::LINKS => {
                self.list(|reader| reader.link(&mut draft.lists, extra)).in_field("links")?;
            }
            span::DROPPED_ATTRIBUTES => self.dropped(DROPPED_ATTRIBUTES, draft)?,
            span::DROPPED_EVENTS => self.dropped(DROPPED_EVENTS, draft)?,
            _ => self.dropped(DROPPED_LINKS, draft)?,
        }
        Ok(())
    }

    fn dropped(&mut self, key: &'static str, draft: &mut SpanDraft<'t>) -> Result<()> {
        let start = self.at();
        let count = self.unsigned().in_field(key)?;
        if count == 0 {
            return Ok(());
        }
        let value = ValueRef::Int(i64::try_from(count).unwrap_or(i64::MAX));
        let tag = TagRef { key, value, origin: Origin::Span };
        draft.lists.tag(tag, self.limits(), start)
    }

    fn status(
        &mut self,
        draft: &mut SpanDraft<'t>,
        extra: &mut SpanExtras<'t>,
        orders: &mut KeyOrders,
    ) -> Result<()> {
        self.object(&status::NAMES, &mut orders.status, |reader, key| {
            if reader.null()? {
                return Ok(());
            }
            match key {
                status::MESSAGE => extra.status_message = reader.text_or_null()?,
                _ => {
                    draft.status = match reader.unsigned()? {
                        1 => Status::Ok,
                        2 => Status::Error,
                        _ => Status::Unset,
                    };
                }
            }
            Ok(())
        })
    }

    #[inline]
    fn events(&mut self, lists: &mut Lists<'t>, orders: &mut KeyOrders) -> Result<()> {
        self.list(|reader| {
            reader.peek()?;
            let start = reader.at();
            let (mut time_ns, mut name, mut attributes) = (0, "", None);
            reader.object(&event::NAMES, &mut orders.event, |reader, key| {
                if reader.null()? {
                    return Ok(());
                }
                match key {
                    event::TIME => time_ns = reader.unsigned()?,
                    event::NAME => name = reader.text_or_null()?,
                    _ => {
                        attributes = Some(*reader);
                        reader.skip()?;
                    }
                }
                Ok(())
            })?;
            let value = match attributes {
                Some(attributes) => attributes.event_text(name)?,
                None => name,
            };
            lists.annotate(AnnotationRef { time_ns, value }, reader.limits(), start)
        })
    }

    fn link(&mut self, lists: &mut Lists<'t>, extra: &mut SpanExtras<'t>) -> Result<()> {
        self.peek()?;
        let start = self.at();
        let (mut ids, mut state, mut attributes, mut dropped) = ((None, None), "", None, 0);
        self.object(&link::NAMES, &mut Default::default(), |reader, key| {
            if reader.null()? {
                return Ok(());
            }
            match key {
                link::TRACE_ID => ids.0 = reader.otlp_trace_id()?,
                link::SPAN_ID => ids.1 = reader.otlp_span_id()?,
                link::TRACE_STATE => state = reader.text_or_null()?,
                link::DROPPED_ATTRIBUTES => dropped = reader.unsigned()?,
                _ => {
                    attributes = Some(*reader);
                    reader.skip()?;
                }
            }
            Ok(())
        })?;
        let (Some(trace_id), Some(span_id)) = ids else { return Err(Reason::Missing.at(start)) };
        let mut out = format!("{:032x}|{span_id}|{state}|", trace_id.number()).into_bytes();
        match attributes {
            Some(mut attributes) => attributes.render_pairs(&mut out, 1)?,
            None => out.extend_from_slice(b"{}"),
        }
        out.extend_from_slice(format!("|{dropped}").as_bytes());
        let value = self.rendered(out, start)?;
        let key = self.arena().store(link_key(extra.links));
        extra.links += 1;
        lists.tag(TagRef::text(key, value), self.limits(), start)
    }

    /// Calls `take` with each attribute of a list and the attribute's offset.
    #[inline]
    fn attributes(
        &mut self,
        orders: &mut KeyOrders,
        mut take: impl FnMut(&mut Self, (&'t str, ValueRef<'t>), usize) -> Result<()>,
    ) -> Result<()> {
        if self.null()? {
            return Ok(());
        }
        self.list(|reader| {
            reader.peek()?;
            let start = reader.at();
            let (mut name, mut value) = ("", ValueRef::Str(""));
            let KeyOrders { pair, any, .. } = &mut *orders;
            reader.object(&pair::NAMES, pair, |reader, key| {
                match key {
                    pair::KEY => name = reader.text_or_null()?,
                    _ => value = reader.any(any)?,
                }
                Ok(())
            })?;
            take(reader, (name, value), start)
        })
    }

    /// Reads an attribute's value; an absent value is an empty string.
    #[inline]
    fn any(&mut self, order: &mut any::Keys) -> Result<ValueRef<'t>> {
        let mut found = Some(ValueRef::Str(""));
        if self.null()? {
            return Ok(ValueRef::Str(""));
        }
        let whole = *self;
        self.object(&any::NAMES, order, |reader, key| {
            if reader.null()? {
                return Ok(());
            }
            found = Some(match key {
                any::STRING => ValueRef::Str(reader.text_or_null()?),
                any::INT => ValueRef::Int(reader.integer()?),
                any::BOOL => ValueRef::Bool(reader.boolean()?),
                any::DOUBLE => ValueRef::Double(reader.double()?),
                any::BYTES => ValueRef::Bytes(reader.bytes_of_base64()?),
                _ => {
                    found = None;
                    return reader.skip();
                }
            });
            Ok(())
        })?;
        // A list or map is rendered once, at the end, since the last of several values applies.
        found.map_or_else(|| whole.composite(), Ok)
    }

    /// Reads a string; null gives an empty string.
    #[inline]
    fn text_or_null(&mut self) -> Result<&'t str> {
        if self.null()? { Ok("") } else { self.string() }
    }
}

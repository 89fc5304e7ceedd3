//! OpenTelemetry's traces as JSON: the names are in camel case, ids are hexadecimal digits, whole
//! numbers may be in quotes, and what is null is not there. Of a resource and a scope, what holds for
//! their spans is looked for first, if it is not written first anyway.

mod render;
mod scalars;

use super::proto::kind;
use super::{
    DROPPED_ATTRIBUTES, DROPPED_EVENTS, DROPPED_LINKS, Extra, Group, SCOPE_NAME, SCOPE_VERSION,
    TRACE_STATE, link_key,
};
use crate::decoder::{Batch, Scratch, Stop};
use crate::draft::{Draft, Lists};
use crate::fault::{Reason, Result, Within};
use crate::json::{Name, Reader, Refused, keys, spans};
use crate::texts::Texts;
use blkkin_model::{AnnotationRef, Origin, Status, TagRef, ValueRef};

keys! {
    /// Keys of a request.
    request { RESOURCE_SPANS = "resourceSpans", }
    /// Keys of the spans of a resource.
    resource_spans { RESOURCE = "resource", SCOPE_SPANS = "scopeSpans", }
    /// Keys of a resource.
    resource { ATTRIBUTES = "attributes", }
    /// Keys of the spans of a scope.
    scope_spans { SCOPE = "scope", SPANS = "spans", }
    /// Keys of a scope.
    scope { NAME = "name", VERSION = "version", ATTRIBUTES = "attributes", }
    /// Keys of a span.
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
    /// Keys of an event.
    event { TIME = "timeUnixNano", NAME = "name", ATTRIBUTES = "attributes", }
    /// Keys of a link.
    link {
        TRACE_ID = "traceId",
        SPAN_ID = "spanId",
        TRACE_STATE = "traceState",
        ATTRIBUTES = "attributes",
        DROPPED_ATTRIBUTES = "droppedAttributesCount",
    }
    /// Keys of a status.
    status { MESSAGE = "message", CODE = "code", }
    /// Keys of an attribute.
    pair { KEY = "key", VALUE = "value", }
    /// Keys of an attribute's value.
    any {
        STRING = "stringValue",
        INT = "intValue",
        BOOL = "boolValue",
        DOUBLE = "doubleValue",
        ARRAY = "arrayValue",
        MAP = "kvlistValue",
        BYTES = "bytesValue",
    }
    /// Keys of a list or map.
    list { VALUES = "values", }
}

/// In what order a sender writes keys.
#[derive(Debug, Default)]
pub(crate) struct Orders {
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
    let texts = Texts::default();
    let mut reader = Reader::new(bytes, &texts, batch.limits);
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
        of_resource(reader, scratch, batch)?;
        has_more = reader.more_items()?;
    }
    Ok(())
}

fn of_resource(
    reader: &mut Reader<'_>,
    scratch: &mut Scratch,
    batch: &mut Batch<'_>,
) -> Result<(), Stop> {
    let texts = Texts::default();
    let mut inner = reader.with(&texts);
    let mut group = Group::new(&mut scratch.group);
    if let Some(mut resource) = inner.find(&resource_spans::NAMES, resource_spans::RESOURCE)? {
        resource.resource(&mut group, &mut scratch.orders.otlp).within("resource")?;
    }
    group.close_resource();
    inner.scopes(&mut group, scratch, batch)?;
    group.give_back(&mut scratch.group);
    let end = inner.at();
    reader.go_to(end);
    Ok(())
}

impl<'g> Reader<'g> {
    /// What is behind a key of the next object, the first time that it is there.
    fn find<const COUNT: usize>(
        mut self,
        names: &'static [Name; COUNT],
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

    fn resource(&mut self, group: &mut Group<'g>, orders: &mut Orders) -> Result<()> {
        if self.null()? {
            return Ok(());
        }
        self.object(&resource::NAMES, &mut Default::default(), |reader, _| {
            reader.attributes(orders, |reader, pair, offset| {
                group.resource_tag(pair, reader.limits(), offset)
            })
        })
    }

    /// The spans of a resource, of which all else is known.
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
                    self.of_scope(group, scratch, batch)?;
                    has_more = self.more_items()?;
                }
            }
            has_more = self.more_keys()?;
        }
        Ok(())
    }

    fn of_scope(
        &mut self,
        group: &mut Group<'g>,
        scratch: &mut Scratch,
        batch: &mut Batch<'_>,
    ) -> Result<(), Stop> {
        group.open_scope();
        if let Some(mut scope) = self.find(&scope_spans::NAMES, scope_spans::SCOPE)? {
            scope.scope(group, &mut scratch.orders.otlp).within("scope")?;
        }
        group.close_scope();
        let mut has_more = self.open_object()?;
        while has_more {
            let key = self.key(&scope_spans::NAMES, &mut Default::default(), None)?;
            if key != Some(scope_spans::SPANS) {
                self.skip()?;
            } else if !self.null()? && self.open_list()? {
                spans(self, batch, |reader, batch| one_span(reader, group, scratch, batch))?;
            }
            has_more = self.more_keys()?;
        }
        Ok(())
    }

    fn scope(&mut self, group: &mut Group<'g>, orders: &mut Orders) -> Result<()> {
        if self.null()? {
            return Ok(());
        }
        self.object(&scope::NAMES, &mut Default::default(), |reader, key| {
            let name = match key {
                scope::NAME => SCOPE_NAME,
                scope::VERSION => SCOPE_VERSION,
                _ => {
                    return reader.attributes(orders, |reader, pair, offset| {
                        group.scope_tag(pair, reader.limits(), offset)
                    });
                }
            };
            let (offset, text) = (reader.at(), reader.text_or_null()?);
            match text {
                "" => Ok(()),
                text => group.scope_tag((name, ValueRef::Str(text)), reader.limits(), offset),
            }
        })
    }
}

fn one_span(
    reader: Reader<'_>,
    group: &Group<'_>,
    scratch: &mut Scratch,
    batch: &mut Batch<'_>,
) -> Result<usize, Refused> {
    let start = reader.at();
    let mut inner = reader.with(&scratch.texts);
    let mut draft = Draft::of_group(group, Lists::lend(&mut scratch.lists));
    let read = inner.otlp_span(&mut draft, &mut scratch.orders.otlp);
    let end = inner.at();
    let closed = match read {
        Ok(()) => batch.close(&mut draft, start).map_err(Refused::from),
        Err(fault) => Err(fault.into()),
    };
    scratch.lists = draft.lists.give_back();
    scratch.texts.clear();
    closed.map(|()| end)
}

impl<'t> Reader<'t> {
    fn otlp_span(&mut self, draft: &mut Draft<'t>, orders: &mut Orders) -> Result<()> {
        let own_tags = draft.lists.tags.len();
        let mut extra = Extra::default();
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
        draft: &mut Draft<'t>,
        extra: &mut Extra<'t>,
        orders: &mut Orders,
    ) -> Result<()> {
        if self.null()? {
            return Ok(());
        }
        match key {
            span::TRACE_ID => draft.trace_id = self.otlp_trace_id().within("traceId")?,
            span::SPAN_ID => draft.id = Some(self.otlp_own_id().within("spanId")?),
            span::PARENT_SPAN_ID => draft.parent_id = self.otlp_span_id().within("parentSpanId")?,
            span::NAME => draft.name = self.text_or_null().within("name")?,
            span::KIND => draft.kind = kind(self.unsigned().within("kind")?),
            span::START_TIME => draft.start_ns = Some(self.unsigned().within("startTimeUnixNano")?),
            span::END_TIME => extra.end_ns = self.unsigned().within("endTimeUnixNano")?,
            span::ATTRIBUTES => {
                let lists = &mut draft.lists;
                let read = self.attributes(orders, |reader, (key, value), offset| {
                    let tag = TagRef { key, value, origin: Origin::Span };
                    lists.tag(tag, reader.limits(), offset)
                });
                read.within("attributes")?;
            }
            span::EVENTS => self.events(&mut draft.lists, orders).within("events")?,
            span::STATUS => self.status(draft, extra, orders).within("status")?,
            span::TRACE_STATE => {
                let (start, state) = (self.at(), self.text_or_null().within("traceState")?);
                if !state.is_empty() {
                    draft.lists.tag(TagRef::text(TRACE_STATE, state), self.limits(), start)?;
                }
            }
            span::LINKS => {
                self.list(|reader| reader.link(&mut draft.lists, extra)).within("links")?;
            }
            span::DROPPED_ATTRIBUTES => self.dropped(DROPPED_ATTRIBUTES, draft)?,
            span::DROPPED_EVENTS => self.dropped(DROPPED_EVENTS, draft)?,
            _ => self.dropped(DROPPED_LINKS, draft)?,
        }
        Ok(())
    }

    fn dropped(&mut self, key: &'static str, draft: &mut Draft<'t>) -> Result<()> {
        let start = self.at();
        let count = self.unsigned().within(key)?;
        if count == 0 {
            return Ok(());
        }
        let value = ValueRef::Int(i64::try_from(count).unwrap_or(i64::MAX));
        let tag = TagRef { key, value, origin: Origin::Span };
        draft.lists.tag(tag, self.limits(), start)
    }

    fn status(
        &mut self,
        draft: &mut Draft<'t>,
        extra: &mut Extra<'t>,
        orders: &mut Orders,
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
    fn events(&mut self, lists: &mut Lists<'t>, orders: &mut Orders) -> Result<()> {
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
                Some(attributes) => attributes.described(name)?,
                None => name,
            };
            lists.annotate(AnnotationRef { time_ns, value }, reader.limits(), start)
        })
    }

    fn link(&mut self, lists: &mut Lists<'t>, extra: &mut Extra<'t>) -> Result<()> {
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
        let key = self.texts().keep(link_key(extra.links));
        extra.links += 1;
        lists.tag(TagRef::text(key, value), self.limits(), start)
    }

    /// Calls `take` with each attribute of a list, and where it is.
    #[inline]
    fn attributes(
        &mut self,
        orders: &mut Orders,
        mut take: impl FnMut(&mut Self, (&'t str, ValueRef<'t>), usize) -> Result<()>,
    ) -> Result<()> {
        if self.null()? {
            return Ok(());
        }
        self.list(|reader| {
            reader.peek()?;
            let start = reader.at();
            let (mut name, mut value) = ("", ValueRef::Str(""));
            let Orders { pair, any, .. } = &mut *orders;
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

    /// An attribute's value. One that is not there is empty text.
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
        // Once, at the end: there may be many, of which the last one counts.
        found.map_or_else(|| whole.composite(), Ok)
    }

    /// Text, or nothing.
    #[inline]
    fn text_or_null(&mut self) -> Result<&'t str> {
        if self.null()? { Ok("") } else { self.string() }
    }
}

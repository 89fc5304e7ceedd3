//! Encoder of OpenTelemetry's traces. Consecutive spans with the same resource and scope form a
//! group; each format implements [`GroupFormat`] to write groups. Tags that the decoder creates
//! from fields become fields again, except those of links, which remain attributes.

mod json;
mod proto;

pub(crate) use json::Json;
pub(crate) use proto::Proto;

use super::{
    DROPPED_ATTRIBUTES, DROPPED_EVENTS, DROPPED_LINKS, SCOPE_NAME, SCOPE_VERSION, SERVICES,
    TRACE_STATE, endpoints,
};
use blkkin_model::{EndpointRef, Origin, SpanRef, Status, TagRef, ValueRef};
use std::fmt::Debug;
use std::marker::PhantomData;

/// Encoding of resources, scopes, spans and groups in one of OpenTelemetry's formats.
pub(crate) trait GroupFormat: Debug + Default {
    /// Encodes a resource with its attributes.
    fn resource(out: &mut Vec<u8>, tags: &mut dyn Iterator<Item = TagRef<'_>>);

    /// Encodes a scope: name, version and attributes.
    fn scope(out: &mut Vec<u8>, name: &str, version: &str, tags: &[TagRef<'_>]);

    /// Appends a span to the spans of its group.
    fn span(out: &mut Vec<u8>, span: &SpanFields<'_>);

    /// Writes a group. `is_first` is true for the first group of the batch.
    fn group(out: &mut Vec<u8>, group: Group<'_>, is_first: bool);

    /// Writes the end of the batch; `is_empty` is true if the batch has no groups.
    fn end(out: &mut Vec<u8>, is_empty: bool);
}

/// Encoded resource, scope and spans of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group<'g> {
    resource: &'g [u8],
    scope: &'g [u8],
    spans: &'g [u8],
}

/// Writer that collects the spans of one group until the resource or scope changes.
#[derive(Debug, Default)]
pub(crate) struct GroupWriter<F> {
    resource: Vec<u8>,
    scope: Vec<u8>,
    spans: Vec<u8>,
    /// Buffers for the resource and scope of the span being added.
    next: [Vec<u8>; 2],
    groups: usize,
    form: PhantomData<F>,
}

impl<F: GroupFormat> GroupWriter<F> {
    /// Adds a span to the current group. If the resource or scope of the span differs from the
    /// group's, writes the group first and starts another.
    pub(crate) fn span(&mut self, out: &mut Vec<u8>, span: &SpanRef<'_>) {
        let [resource, scope] = &mut self.next;
        resource.clear();
        scope.clear();
        F::resource(resource, &mut resource_tags(span));
        put_scope::<F>(scope, span);
        if *resource != self.resource || *scope != self.scope {
            self.flush(out);
            let [resource, scope] = &mut self.next;
            std::mem::swap(resource, &mut self.resource);
            std::mem::swap(scope, &mut self.scope);
        }
        F::span(&mut self.spans, &SpanFields::of(span));
    }

    /// Returns the size of the unwritten group in bytes, without the framing that
    /// [`GroupFormat::group`] adds.
    pub(crate) fn waiting(&self) -> usize {
        self.resource.len() + self.scope.len() + self.spans.len()
    }

    fn flush(&mut self, out: &mut Vec<u8>) {
        if self.spans.is_empty() {
            return;
        }
        let group = Group { resource: &self.resource, scope: &self.scope, spans: &self.spans };
        F::group(out, group, self.groups == 0);
        self.groups += 1;
        self.spans.clear();
    }

    /// Writes the unwritten group and the end of the batch.
    pub(crate) fn finish(mut self, out: &mut Vec<u8>) {
        self.flush(out);
        F::end(out, self.groups == 0);
    }
}

/// Returns the attributes of the resource. The span's service name, if known, becomes the attribute
/// `service.name` and replaces a tag with this key.
fn resource_tags<'s>(span: &SpanRef<'s>) -> impl Iterator<Item = TagRef<'s>> {
    let service = Some(span.local.service).filter(|service| !service.is_empty());
    let service = service
        .map(|service| TagRef { origin: Origin::Resource, ..TagRef::text(SERVICES[0], service) });
    let named = service.is_some();
    let of_resource = span.tags.iter().filter(|tag| tag.origin == Origin::Resource);
    service
        .into_iter()
        .chain(of_resource.filter(move |tag| !named || tag.key != SERVICES[0]).copied())
}

fn put_scope<F: GroupFormat>(out: &mut Vec<u8>, span: &SpanRef<'_>) {
    let (mut name, mut version) = ("", "");
    let mut tags = Vec::new();
    for tag in span.tags.iter().filter(|tag| tag.origin == Origin::Scope) {
        match (tag.key, tag.value) {
            (SCOPE_NAME, ValueRef::Str(text)) => name = text,
            (SCOPE_VERSION, ValueRef::Str(text)) => version = text,
            _ => tags.push(*tag),
        }
    }
    F::scope(out, name, version, &tags);
}

/// A span, divided into attributes and the tags that are fields in OpenTelemetry's formats.
#[derive(Debug)]
pub(crate) struct SpanFields<'s> {
    span: &'s SpanRef<'s>,
    start_ns: u64,
    /// End of the span in nanoseconds since 1970; 0 if the duration is unknown. An unknown start
    /// counts as 0.
    end_ns: u64,
    trace_state: &'s str,
    dropped_attributes: u32,
    dropped_events: u32,
    dropped_links: u32,
    status: Status,
    message: &'s str,
    /// Attributes for those endpoint properties that the tags lack or contradict.
    endpoint_attributes: Vec<EndpointAttribute<'s>>,
}

/// An attribute for an endpoint property that the span's tags lack or contradict.
#[derive(Clone, Debug, PartialEq)]
struct EndpointAttribute<'s> {
    key: &'static str,
    value: EndpointValue<'s>,
}

#[derive(Clone, Debug, PartialEq)]
enum EndpointValue<'s> {
    Str(&'s str),
    Text(String),
    Int(i64),
}

impl EndpointAttribute<'_> {
    fn tag(&self) -> TagRef<'_> {
        let value = match &self.value {
            EndpointValue::Str(text) => ValueRef::Str(text),
            EndpointValue::Text(text) => ValueRef::Str(text),
            EndpointValue::Int(number) => ValueRef::Int(*number),
        };
        TagRef { key: self.key, value, origin: Origin::Span }
    }
}

impl<'s> SpanFields<'s> {
    fn of(span: &'s SpanRef<'s>) -> SpanFields<'s> {
        let start_ns = span.start_ns.unwrap_or(0);
        let end_ns = span.duration_ns.map_or(0, |duration_ns| start_ns.saturating_add(duration_ns));
        let mut fields = SpanFields {
            span,
            start_ns,
            end_ns,
            trace_state: "",
            dropped_attributes: 0,
            dropped_events: 0,
            dropped_links: 0,
            status: if span.is_error() { Status::Error } else { span.status },
            message: "",
            endpoint_attributes: endpoint_attributes(span),
        };
        span.tags.iter().filter(|tag| is_field(span, tag)).for_each(|tag| fields.set_field(tag));
        fields
    }

    /// Stores a tag that OpenTelemetry represents as a field.
    fn set_field(&mut self, tag: &TagRef<'s>) {
        match (tag.key, tag.value) {
            ("error", ValueRef::Str(message)) => self.message = message,
            (TRACE_STATE, ValueRef::Str(state)) => self.trace_state = state,
            (DROPPED_ATTRIBUTES, ValueRef::Int(count)) => self.dropped_attributes = count as u32,
            (DROPPED_EVENTS, ValueRef::Int(count)) => self.dropped_events = count as u32,
            (DROPPED_LINKS, ValueRef::Int(count)) => self.dropped_links = count as u32,
            _ => {}
        }
    }

    /// Calls `take` with each attribute of the span.
    fn attributes(&self, mut take: impl FnMut(&TagRef<'_>)) {
        for tag in self.span.tags {
            let is_attribute = tag.origin == Origin::Span && !is_field(self.span, tag);
            if is_attribute
                && !self.endpoint_attributes.iter().any(|attribute| attribute.key == tag.key)
            {
                take(tag);
            }
        }
        self.endpoint_attributes.iter().for_each(|attribute| take(&attribute.tag()));
    }

    fn has_attributes(&self) -> bool {
        let mut has = false;
        self.attributes(|_| has = true);
        has
    }
}

/// Returns true if a span's own tag is written as a field.
fn is_field(span: &SpanRef<'_>, tag: &TagRef<'_>) -> bool {
    if tag.origin != Origin::Span {
        return false;
    }
    match (tag.key, tag.value) {
        (TRACE_STATE, ValueRef::Str(_)) => true,
        // With any other status, the tag remains an attribute.
        ("error", ValueRef::Str(_)) => span.status == Status::Error,
        (DROPPED_ATTRIBUTES | DROPPED_EVENTS | DROPPED_LINKS, ValueRef::Int(count)) => {
            u32::try_from(count).is_ok()
        }
        _ => false,
    }
}

/// Returns attributes for those endpoint properties that the tags lack or contradict.
fn endpoint_attributes<'s>(span: &SpanRef<'s>) -> Vec<EndpointAttribute<'s>> {
    let (mut local, mut remote) = (EndpointRef::NONE, EndpointRef::NONE);
    endpoints::find(span.tags, span.kind, &mut local, &mut remote);
    let mut attributes = Vec::new();
    if !span.remote.service.is_empty() && span.remote.service != remote.service {
        let value = EndpointValue::Str(span.remote.service);
        attributes.push(EndpointAttribute { key: "peer.service", value });
    }
    let ends = [
        (&span.local, local, "network.local.address", "network.local.port"),
        (&span.remote, remote, "network.peer.address", "network.peer.port"),
    ];
    for (expected, found, address, port) in ends {
        if let Some(text) = address_difference(expected, &found) {
            attributes.push(EndpointAttribute { key: address, value: EndpointValue::Text(text) });
        }
        if expected.port > 0 && expected.port != found.port {
            attributes.push(EndpointAttribute {
                key: port,
                value: EndpointValue::Int(expected.port.into()),
            });
        }
    }
    attributes
}

/// Returns the address of `expected` as text; `None` if `expected` has no address or `found` has
/// the same address. OpenTelemetry stores only one address: IPv4 takes precedence.
fn address_difference(expected: &EndpointRef<'_>, found: &EndpointRef<'_>) -> Option<String> {
    if let Some(address) = expected.ipv4 {
        return (found.ipv4 != expected.ipv4).then(|| address.to_string());
    }
    let address = expected.ipv6.filter(|_| found.ipv6 != expected.ipv6)?;
    Some(address.to_string())
}

//! Writes OpenTelemetry's traces. Spans that follow each other and have their resource and scope in
//! common are one group; each format says how a group is written ([`Form`]). Tags that were made of
//! fields when such spans were read become these fields again.

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

/// One of the formats.
pub(crate) trait Form: Debug + Default {
    /// Writes a resource.
    fn resource(out: &mut Vec<u8>, tags: &mut dyn Iterator<Item = TagRef<'_>>);

    /// Writes a scope.
    fn scope(out: &mut Vec<u8>, name: &str, version: &str, tags: &[TagRef<'_>]);

    /// Writes a span; there may be others before it.
    fn span(out: &mut Vec<u8>, span: &Outgoing<'_>);

    /// Writes a group; it is the first one or not.
    fn group(out: &mut Vec<u8>, group: Group<'_>, is_first: bool);

    /// Writes what is behind all groups; there may have been none.
    fn end(out: &mut Vec<u8>, is_empty: bool);
}

/// Bytes of a resource, a scope and its spans.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group<'g> {
    resource: &'g [u8],
    scope: &'g [u8],
    spans: &'g [u8],
}

/// Spans that wait until the group's end.
#[derive(Debug, Default)]
pub(crate) struct Grouped<F> {
    resource: Vec<u8>,
    scope: Vec<u8>,
    spans: Vec<u8>,
    /// Of the next span.
    next: [Vec<u8>; 2],
    groups: usize,
    form: PhantomData<F>,
}

impl<F: Form> Grouped<F> {
    /// Adds a span.
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
        F::span(&mut self.spans, &Outgoing::of(span));
    }

    /// How many bytes wait.
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

    /// Writes what waits, and the end.
    pub(crate) fn finish(mut self, out: &mut Vec<u8>) {
        self.flush(out);
        F::end(out, self.groups == 0);
    }
}

/// What is said of a resource, with its service.
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

fn put_scope<F: Form>(out: &mut Vec<u8>, span: &SpanRef<'_>) {
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

/// A span with what is a field of its own here.
#[derive(Debug)]
pub(crate) struct Outgoing<'s> {
    span: &'s SpanRef<'s>,
    start_ns: u64,
    /// 0 if the span has no length.
    end_ns: u64,
    trace_state: &'s str,
    dropped_attributes: u32,
    dropped_events: u32,
    dropped_links: u32,
    status: Status,
    message: &'s str,
    /// What endpoints say that tags do not.
    added: Vec<Added<'s>>,
}

/// An attribute that no tag is.
#[derive(Clone, Debug, PartialEq)]
struct Added<'s> {
    key: &'static str,
    value: AddedValue<'s>,
}

#[derive(Clone, Debug, PartialEq)]
enum AddedValue<'s> {
    Str(&'s str),
    Text(String),
    Int(i64),
}

impl Added<'_> {
    fn tag(&self) -> TagRef<'_> {
        let value = match &self.value {
            AddedValue::Str(text) => ValueRef::Str(text),
            AddedValue::Text(text) => ValueRef::Str(text),
            AddedValue::Int(number) => ValueRef::Int(*number),
        };
        TagRef { key: self.key, value, origin: Origin::Span }
    }
}

impl<'s> Outgoing<'s> {
    fn of(span: &'s SpanRef<'s>) -> Outgoing<'s> {
        let start_ns = span.start_ns.unwrap_or(0);
        let end_ns = span.duration_ns.map_or(0, |duration_ns| start_ns.saturating_add(duration_ns));
        let mut outgoing = Outgoing {
            span,
            start_ns,
            end_ns,
            trace_state: "",
            dropped_attributes: 0,
            dropped_events: 0,
            dropped_links: 0,
            status: if span.is_error() { Status::Error } else { span.status },
            message: "",
            added: added(span),
        };
        span.tags.iter().filter(|tag| is_field(span, tag)).for_each(|tag| outgoing.note(tag));
        outgoing
    }

    /// Notes what is a field of its own.
    fn note(&mut self, tag: &TagRef<'s>) {
        match (tag.key, tag.value) {
            ("error", ValueRef::Str(message)) => self.message = message,
            (TRACE_STATE, ValueRef::Str(state)) => self.trace_state = state,
            (DROPPED_ATTRIBUTES, ValueRef::Int(count)) => self.dropped_attributes = count as u32,
            (DROPPED_EVENTS, ValueRef::Int(count)) => self.dropped_events = count as u32,
            (DROPPED_LINKS, ValueRef::Int(count)) => self.dropped_links = count as u32,
            _ => {}
        }
    }

    /// Calls `take` with each attribute.
    fn attributes(&self, mut take: impl FnMut(&TagRef<'_>)) {
        for tag in self.span.tags {
            let is_attribute = tag.origin == Origin::Span && !is_field(self.span, tag);
            if is_attribute && !self.added.iter().any(|added| added.key == tag.key) {
                take(tag);
            }
        }
        self.added.iter().for_each(|added| take(&added.tag()));
    }

    fn has_attributes(&self) -> bool {
        let mut has = false;
        self.attributes(|_| has = true);
        has
    }
}

/// Whether a span's own tag is a field here.
fn is_field(span: &SpanRef<'_>, tag: &TagRef<'_>) -> bool {
    if tag.origin != Origin::Span {
        return false;
    }
    match (tag.key, tag.value) {
        (TRACE_STATE, ValueRef::Str(_)) => true,
        // Where only the tag says that there was an error, it stays a tag.
        ("error", ValueRef::Str(_)) => span.status == Status::Error,
        (DROPPED_ATTRIBUTES | DROPPED_EVENTS | DROPPED_LINKS, ValueRef::Int(count)) => {
            u32::try_from(count).is_ok()
        }
        _ => false,
    }
}

/// What a span's endpoints say that its tags do not.
fn added<'s>(span: &SpanRef<'s>) -> Vec<Added<'s>> {
    let (mut local, mut remote) = (EndpointRef::NONE, EndpointRef::NONE);
    endpoints::find(span.tags, span.kind, &mut local, &mut remote);
    let mut added = Vec::new();
    if !span.remote.service.is_empty() && span.remote.service != remote.service {
        let value = AddedValue::Str(span.remote.service);
        added.push(Added { key: "peer.service", value });
    }
    let ends = [
        (&span.local, local, "network.local.address", "network.local.port"),
        (&span.remote, remote, "network.peer.address", "network.peer.port"),
    ];
    for (said, found, address, port) in ends {
        if let Some(text) = address_unlike(said, &found) {
            added.push(Added { key: address, value: AddedValue::Text(text) });
        }
        if said.port > 0 && said.port != found.port {
            added.push(Added { key: port, value: AddedValue::Int(said.port.into()) });
        }
    }
    added
}

/// The address that is said and not found. There is room for one.
fn address_unlike(said: &EndpointRef<'_>, found: &EndpointRef<'_>) -> Option<String> {
    if let Some(address) = said.ipv4 {
        return (found.ipv4 != said.ipv4).then(|| address.to_string());
    }
    let address = said.ipv6.filter(|_| found.ipv6 != said.ipv6)?;
    Some(address.to_string())
}

//! OpenTelemetry's traces, as protobuf and as JSON, and what they are as spans of ours.
//!
//! What a resource and a scope say becomes tags of each of their spans, with an [`Origin`] that
//! tells them apart. The rest follows, where three published mappings to Zipkin differ, the
//! specification: attributes are tags of the same type, lists and maps in them JSON; events are
//! annotations, those with attributes as `"name": {json}`. Beyond it, nothing that came is dropped
//! that could be kept: `w3c.tracestate`, `otlp.link.0` and so on, `otel.dropped_events_count` and its
//! like are tags. Not kept are addresses of schemas, flags of trace contexts, and how many attributes
//! an event, a resource or a scope has lost.
//!
//! The service is the resource's `service.name`, or what is next best ([`SERVICES`]). An error's text
//! is the tag `error`, unless the span has one already.

pub(crate) mod answer;
mod endpoints;
pub(crate) mod json;
mod proto;
mod render;
pub(crate) mod write;

pub(crate) use proto::decode;

use crate::Limits;
use crate::draft::{Draft, Lists, recycle};
use crate::fault::{Reason, Result};
use blkkin_model::{Origin, Status, TagRef, ValueRef};

/// What names a service, best first.
const SERVICES: [&str; 4] =
    ["service.name", "faas.name", "k8s.deployment.name", "process.executable.name"];

/// The service of who gave none.
const UNKNOWN_SERVICE: &str = "unknown_service";

/// What holds for all spans of a resource, and of a scope in it.
#[derive(Debug)]
struct Group<'g> {
    service: &'g str,
    resource: Vec<TagRef<'g>>,
    /// The resource's and the scope's, in order.
    all: Lists<'g>,
}

/// Memory that goes from group to group.
#[derive(Debug, Default)]
pub(crate) struct GroupMemory {
    resource: Vec<TagRef<'static>>,
    all: Lists<'static>,
}

/// What a span is told besides what a [`Draft`] has room for.
#[derive(Debug, Default)]
struct Extra<'t> {
    end_ns: u64,
    status_message: &'t str,
    links: usize,
}

impl<'g> Group<'g> {
    fn new(memory: &mut GroupMemory) -> Group<'g> {
        let GroupMemory { resource, all } = std::mem::take(memory);
        Group { service: UNKNOWN_SERVICE, resource, all }
    }

    fn give_back(self, memory: &mut GroupMemory) {
        *memory = GroupMemory { resource: recycle(self.resource), all: self.all.give_back() };
    }

    /// An attribute of the resource, which is at `offset`.
    fn resource_tag(
        &mut self,
        (key, value): (&'g str, ValueRef<'g>),
        limits: &Limits,
        offset: usize,
    ) -> Result<()> {
        let tag = TagRef { key, value, origin: Origin::Resource };
        add(&mut self.resource, tag, limits, offset)
    }

    /// The resource is known: finds its service.
    fn close_resource(&mut self) {
        let named = |name| {
            self.resource.iter().rev().find_map(|tag| match tag.value {
                ValueRef::Str(service) if tag.key == name && !service.is_empty() => Some(service),
                _ => None,
            })
        };
        let service = SERVICES.into_iter().find_map(named);
        self.service = service.unwrap_or(UNKNOWN_SERVICE);
        // What is said elsewhere is no tag too.
        let is_text = |tag: &TagRef<'_>| matches!(tag.value, ValueRef::Str(_));
        self.resource.retain(|tag| tag.key != SERVICES[0] || !is_text(tag));
    }

    /// Another scope begins.
    fn open_scope(&mut self) {
        self.all.tags.clear();
        self.all.tags.extend_from_slice(&self.resource);
    }

    /// An attribute of the scope, which is at `offset`.
    fn scope_tag(
        &mut self,
        (key, value): (&'g str, ValueRef<'g>),
        limits: &Limits,
        offset: usize,
    ) -> Result<()> {
        add(&mut self.all.tags, TagRef { key, value, origin: Origin::Scope }, limits, offset)
    }

    /// The scope is known.
    fn close_scope(&mut self) {
        self.all.tidy();
    }
}

/// Adds what each span will get: so there may be fewer of them.
fn add<'g>(
    tags: &mut Vec<TagRef<'g>>,
    tag: TagRef<'g>,
    limits: &Limits,
    offset: usize,
) -> Result<()> {
    let count_max = limits.shared_tags;
    if tags.len() >= count_max {
        return Err(Reason::TooMany { what: "tags", count_max: count_max as u64 }.at(offset));
    }
    tags.push(tag);
    Ok(())
}

impl<'t> Draft<'t> {
    /// A span of a group.
    fn of_group(group: &Group<'t>, lists: Lists<'t>) -> Draft<'t> {
        let mut draft = Draft::new(lists);
        draft.local.service = group.service;
        draft.lists.tags.extend_from_slice(&group.all.tags);
        draft
    }

    /// All fields are known: makes of some what they mean together.
    fn close(&mut self, extra: &Extra<'t>, own_tags: usize) {
        self.start_ns = self.start_ns.filter(|start_ns| *start_ns > 0);
        self.duration_ns = self.start_ns.and_then(|start_ns| extra.end_ns.checked_sub(start_ns));
        if self.status == Status::Error {
            self.explain(extra.status_message, own_tags);
        }
        endpoints::find(&self.lists.tags, self.kind, &mut self.local, &mut self.remote);
    }

    /// Sees to it that a span with an error has the tag.
    fn explain(&mut self, message: &'t str, own_tags: usize) {
        let mut own = self.lists.tags.iter_mut().skip(own_tags);
        match own.find(|tag| tag.key == "error") {
            Some(tag) if tag.value == ValueRef::Bool(false) => tag.value = ValueRef::Str(message),
            Some(_) => {}
            None => self.lists.tags.push(TagRef::text("error", message)),
        }
    }
}

/// Keys of tags that count what the sender has dropped.
const DROPPED_ATTRIBUTES: &str = "otel.dropped_attributes_count";
const DROPPED_EVENTS: &str = "otel.dropped_events_count";
const DROPPED_LINKS: &str = "otel.dropped_links_count";
const TRACE_STATE: &str = "w3c.tracestate";
const SCOPE_NAME: &str = "otel.scope.name";
const SCOPE_VERSION: &str = "otel.scope.version";

/// The key of a link's tag.
fn link_key(index: usize) -> String {
    format!("otlp.link.{index}")
}

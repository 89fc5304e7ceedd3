//! Decoder and encoder of OpenTelemetry's traces, as protobuf and JSON.
//!
//! Attributes of a resource and a scope become tags of each of their spans, distinguished by their
//! [`Origin`]. Attributes become tags of the same type; lists and maps become JSON text. Events
//! become annotations, as `"name": {json}` if they have attributes. Where three published mappings
//! to Zipkin differ, these rules follow the specification.
//!
//! Other fields that the model lacks become tags where possible, although the specification does
//! not require it: `w3c.tracestate`, `otlp.link.0` and so on, `otel.dropped_events_count` and
//! similar ones. Schema URLs, flags of trace contexts, and the numbers of dropped attributes of
//! events, resources and scopes are dropped.
//!
//! The service is the resource's `service.name`, or the first alternative in [`SERVICES`], or
//! `unknown_service`. The message of an error status becomes the tag `error`, unless the span has a
//! tag `error` other than `false`.

pub(crate) mod answer;
mod endpoints;
pub(crate) mod json;
mod proto;
mod render;
pub(crate) mod write;

pub(crate) use proto::{Scratch, decode};

use crate::error::{Reason, Result};
use crate::limits::Limits;
use crate::span_draft::{Lists, SpanDraft, recycle};
use blkkin_model::{Origin, Status, TagRef, ValueRef};

/// Resource attributes that name the service, by precedence.
const SERVICES: [&str; 4] =
    ["service.name", "faas.name", "k8s.deployment.name", "process.executable.name"];

/// Service name of a resource without a name.
const UNKNOWN_SERVICE: &str = "unknown_service";

/// Properties shared by all spans of a resource and scope.
#[derive(Debug)]
struct Group<'g> {
    service: &'g str,
    resource: Vec<TagRef<'g>>,
    /// Tags of the resource and scope, sorted.
    shared: Lists<'g>,
}

/// Tag lists of a resource, and of a resource with a scope. Their memory is reused for the next
/// group.
#[derive(Debug, Default)]
struct GroupBuffers {
    resource: Vec<TagRef<'static>>,
    all: Lists<'static>,
}

/// Fields of a span that [`SpanDraft`] lacks.
#[derive(Debug, Default)]
struct SpanExtras<'t> {
    end_ns: u64,
    status_message: &'t str,
    links: usize,
}

impl<'g> Group<'g> {
    fn new(memory: &mut GroupBuffers) -> Group<'g> {
        let GroupBuffers { resource, all } = std::mem::take(memory);
        Group { service: UNKNOWN_SERVICE, resource, shared: all }
    }

    fn give_back(self, memory: &mut GroupBuffers) {
        *memory = GroupBuffers { resource: recycle(self.resource), all: self.shared.into_memory() };
    }

    /// Adds an attribute of the resource. `offset` is the start of the attribute in the batch.
    fn resource_tag(
        &mut self,
        key: &'g str,
        value: ValueRef<'g>,
        limits: &Limits,
        offset: usize,
    ) -> Result<()> {
        let tag = TagRef { key, value, origin: Origin::Resource };
        add(&mut self.resource, tag, limits, offset)
    }

    /// Determines the service after all attributes of the resource have been read.
    fn close_resource(&mut self) {
        let named = |name| {
            self.resource.iter().rev().find_map(|tag| match tag.value {
                ValueRef::Str(service) if tag.key == name && !service.is_empty() => Some(service),
                _ => None,
            })
        };
        let service = SERVICES.into_iter().find_map(named);
        self.service = service.unwrap_or(UNKNOWN_SERVICE);
        // The span stores the service name separately, so the attribute is no tag.
        let is_text = |tag: &TagRef<'_>| matches!(tag.value, ValueRef::Str(_));
        self.resource.retain(|tag| tag.key != SERVICES[0] || !is_text(tag));
    }

    /// Starts a scope, whose tags begin with the tags of the resource.
    fn open_scope(&mut self) {
        self.shared.tags.clear();
        self.shared.tags.extend_from_slice(&self.resource);
    }

    /// Adds an attribute, the name or the version of the scope. `offset` is the start of this field
    /// in the batch.
    fn scope_tag(
        &mut self,
        key: &'g str,
        value: ValueRef<'g>,
        limits: &Limits,
        offset: usize,
    ) -> Result<()> {
        add(&mut self.shared.tags, TagRef { key, value, origin: Origin::Scope }, limits, offset)
    }

    /// Completes the tags of the scope: sorts them and removes duplicates.
    fn close_scope(&mut self) {
        self.shared.normalize();
    }
}

/// Adds a tag that all spans of the group share. Too many shared tags are a fault.
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

impl<'t> SpanDraft<'t> {
    /// Creates a draft of a span in a group.
    fn for_group(group: &Group<'t>, lists: Lists<'t>) -> SpanDraft<'t> {
        let mut draft = SpanDraft::new(lists);
        draft.local.service = group.service;
        draft.lists.tags.extend_from_slice(&group.shared.tags);
        draft
    }

    /// Derives duration, error tag and endpoints after all fields of the span have been read.
    fn close(&mut self, extra: &SpanExtras<'t>, own_tags: usize) {
        self.start_ns = self.start_ns.filter(|start_ns| *start_ns > 0);
        self.duration_ns = self.start_ns.and_then(|start_ns| extra.end_ns.checked_sub(start_ns));
        if self.status == Status::Error {
            self.set_error_tag(extra.status_message, own_tags);
        }
        endpoints::find(&self.lists.tags, self.kind, &mut self.local, &mut self.remote);
    }

    /// Ensures that a failed span has the tag `error`.
    fn set_error_tag(&mut self, message: &'t str, own_tags: usize) {
        let mut own = self.lists.tags.iter_mut().skip(own_tags);
        match own.find(|tag| tag.key == "error") {
            Some(tag) if tag.value == ValueRef::Bool(false) => tag.value = ValueRef::Str(message),
            Some(_) => {}
            None => self.lists.tags.push(TagRef::text("error", message)),
        }
    }
}

/// Tag key for the number of attributes that the sender dropped from a span.
const DROPPED_ATTRIBUTES: &str = "otel.dropped_attributes_count";
const DROPPED_EVENTS: &str = "otel.dropped_events_count";
const DROPPED_LINKS: &str = "otel.dropped_links_count";
const TRACE_STATE: &str = "w3c.tracestate";
const SCOPE_NAME: &str = "otel.scope.name";
const SCOPE_VERSION: &str = "otel.scope.version";

/// Returns the tag key of a link, such as `otlp.link.0`.
fn link_key(index: usize) -> String {
    format!("otlp.link.{index}")
}

//! Writes groups and spans as protobuf, with fields in the order of their numbers.

use super::{Group, GroupFormat, SpanFields};
use crate::otlp::proto::keys::{
    RESOURCE_SPANS, any, event, pair, resource, resource_spans, scope, scope_spans, span as keys,
    status,
};
use crate::protobuf::{put_fixed64, put_message, put_number, put_sized};
use blkkin_model::{Kind, Status, TagRef, ValueRef};

/// OpenTelemetry's encoding of traces as protobuf.
#[derive(Debug, Default)]
pub(crate) struct Proto;

impl GroupFormat for Proto {
    fn resource(out: &mut Vec<u8>, tags: &mut dyn Iterator<Item = TagRef<'_>>) {
        tags.for_each(|tag| put_pair(out, resource::ATTRIBUTES, &tag));
    }

    fn scope(out: &mut Vec<u8>, name: &str, version: &str, tags: &[TagRef<'_>]) {
        put_unless_empty(out, scope::NAME, name);
        put_unless_empty(out, scope::VERSION, version);
        tags.iter().for_each(|tag| put_pair(out, scope::ATTRIBUTES, tag));
    }

    fn span(out: &mut Vec<u8>, span: &SpanFields<'_>) {
        put_message(out, scope_spans::SPANS, |out| fields(out, span));
    }

    fn group(out: &mut Vec<u8>, group: Group<'_>, _: bool) {
        put_message(out, RESOURCE_SPANS, |out| {
            put_sized(out, resource_spans::RESOURCE, group.resource);
            put_message(out, resource_spans::SCOPE_SPANS, |out| {
                put_sized(out, scope_spans::SCOPE, group.scope);
                out.extend_from_slice(group.spans);
            });
        });
    }

    fn end(_: &mut Vec<u8>, _: bool) {}
}

fn fields(out: &mut Vec<u8>, fields: &SpanFields<'_>) {
    let span = fields.span;
    put_sized(out, keys::TRACE_ID, &span.trace_id.number().to_be_bytes());
    put_sized(out, keys::SPAN_ID, &span.id.number().to_be_bytes());
    put_unless_empty(out, keys::TRACE_STATE, fields.trace_state);
    if let Some(parent_id) = span.parent_id {
        put_sized(out, keys::PARENT_SPAN_ID, &parent_id.number().to_be_bytes());
    }
    put_unless_empty(out, keys::NAME, span.name);
    put_unless_0(out, keys::KIND, kind(span.kind));
    for (key, ns) in [(keys::START_TIME, fields.start_ns), (keys::END_TIME, fields.end_ns)] {
        if ns > 0 {
            put_fixed64(out, key, ns);
        }
    }
    fields.attributes(|tag| put_pair(out, keys::ATTRIBUTES, tag));
    put_unless_0(out, keys::DROPPED_ATTRIBUTES, fields.dropped_attributes.into());
    for note in span.annotations {
        put_message(out, keys::EVENTS, |out| {
            put_fixed64(out, event::TIME, note.time_ns);
            put_sized(out, event::NAME, note.value.as_bytes());
        });
    }
    put_unless_0(out, keys::DROPPED_EVENTS, fields.dropped_events.into());
    put_unless_0(out, keys::DROPPED_LINKS, fields.dropped_links.into());
    if fields.status != Status::Unset {
        put_message(out, keys::STATUS, |out| {
            put_unless_empty(out, status::MESSAGE, fields.message);
            put_number(out, status::CODE, code(fields.status));
        });
    }
}

fn put_pair(out: &mut Vec<u8>, key: u32, tag: &TagRef<'_>) {
    put_message(out, key, |out| {
        put_sized(out, pair::KEY, tag.key.as_bytes());
        put_message(out, pair::VALUE, |out| match tag.value {
            ValueRef::Str(text) => put_sized(out, any::STRING, text.as_bytes()),
            ValueRef::Int(number) => put_number(out, any::INT, number as u64),
            ValueRef::Bool(flag) => put_number(out, any::BOOL, flag.into()),
            ValueRef::Double(number) => put_fixed64(out, any::DOUBLE, number.to_bits()),
            ValueRef::Bytes(bytes) => put_sized(out, any::BYTES, bytes),
        });
    });
}

fn put_unless_0(out: &mut Vec<u8>, key: u32, number: u64) {
    if number > 0 {
        put_number(out, key, number);
    }
}

fn put_unless_empty(out: &mut Vec<u8>, key: u32, text: &str) {
    if !text.is_empty() {
        put_sized(out, key, text.as_bytes());
    }
}

pub(super) fn kind(kind: Kind) -> u64 {
    match kind {
        Kind::Unspecified => 0,
        Kind::Internal => 1,
        Kind::Server => 2,
        Kind::Client => 3,
        Kind::Producer => 4,
        Kind::Consumer => 5,
    }
}

pub(super) fn code(status: Status) -> u64 {
    match status {
        Status::Unset => 0,
        Status::Ok => 1,
        Status::Error => 2,
    }
}

//! Writes groups and spans as JSON, with hexadecimal ids and quoted 64-bit integers.

use super::proto::{code, kind};
use super::{Group, GroupFormat, SpanFields};
use crate::render::{base64, double, hex, signed, string, unsigned};
use blkkin_model::{SpanRef, Status, TagRef, ValueRef};

/// OpenTelemetry's encoding of traces as JSON.
#[derive(Debug, Default)]
pub(crate) struct Json;

impl GroupFormat for Json {
    fn resource(out: &mut Vec<u8>, tags: &mut dyn Iterator<Item = TagRef<'_>>) {
        let mut before = "{\"attributes\":[";
        tags.for_each(|tag| pair(out, &mut before, &tag));
        put(out, if before == "," { "]}" } else { "{}" });
    }

    fn scope(out: &mut Vec<u8>, name: &str, version: &str, tags: &[TagRef<'_>]) {
        let mut before = "{";
        for (key, text) in [("\"name\":", name), ("\"version\":", version)] {
            if !text.is_empty() {
                put(out, before);
                before = ",";
                put(out, key);
                string(out, text);
            }
        }
        if !tags.is_empty() {
            put(out, before);
            before = "\"attributes\":[";
            tags.iter().for_each(|tag| pair(out, &mut before, tag));
            put(out, "]");
        }
        put(out, if before == "{" { "{}" } else { "}" });
    }

    fn span(out: &mut Vec<u8>, span: &SpanFields<'_>) {
        if !out.is_empty() {
            put(out, ",");
        }
        fields(out, span);
    }

    fn group(out: &mut Vec<u8>, group: Group<'_>, is_first: bool) {
        put(out, if is_first { "{\"resourceSpans\":[" } else { "," });
        put(out, "{\"resource\":");
        out.extend_from_slice(group.resource);
        put(out, ",\"scopeSpans\":[{\"scope\":");
        out.extend_from_slice(group.scope);
        put(out, ",\"spans\":[");
        out.extend_from_slice(group.spans);
        put(out, "]}]}");
    }

    fn end(out: &mut Vec<u8>, is_empty: bool) {
        put(out, if is_empty { "{}" } else { "]}" });
    }
}

fn fields(out: &mut Vec<u8>, fields: &SpanFields<'_>) {
    let span = fields.span;
    ids(out, span);
    if !fields.trace_state.is_empty() {
        put(out, ",\"traceState\":");
        string(out, fields.trace_state);
    }
    if !span.name.is_empty() {
        put(out, ",\"name\":");
        string(out, span.name);
    }
    number(out, ",\"kind\":", kind(span.kind));
    time(out, ",\"startTimeUnixNano\":\"", fields.start_ns);
    time(out, ",\"endTimeUnixNano\":\"", fields.end_ns);
    if fields.has_attributes() {
        let mut before = ",\"attributes\":[";
        fields.attributes(|tag| pair(out, &mut before, tag));
        put(out, "]");
    }
    number(out, ",\"droppedAttributesCount\":", fields.dropped_attributes.into());
    events(out, span);
    number(out, ",\"droppedEventsCount\":", fields.dropped_events.into());
    number(out, ",\"droppedLinksCount\":", fields.dropped_links.into());
    if fields.status != Status::Unset {
        put(out, ",\"status\":{");
        if !fields.message.is_empty() {
            put(out, "\"message\":");
            string(out, fields.message);
            put(out, ",");
        }
        put(out, "\"code\":");
        unsigned(out, code(fields.status));
        put(out, "}");
    }
    put(out, "}");
}

fn ids(out: &mut Vec<u8>, span: &SpanRef<'_>) {
    put(out, "{\"traceId\":\"");
    hex(out, span.trace_id.high());
    hex(out, span.trace_id.low());
    put(out, "\",\"spanId\":\"");
    hex(out, span.id.number());
    if let Some(parent_id) = span.parent_id {
        put(out, "\",\"parentSpanId\":\"");
        hex(out, parent_id.number());
    }
    put(out, "\"");
}

fn events(out: &mut Vec<u8>, span: &SpanRef<'_>) {
    let mut before = ",\"events\":[{";
    for note in span.annotations {
        put(out, before);
        before = ",{";
        put(out, "\"timeUnixNano\":\"");
        unsigned(out, note.time_ns);
        put(out, "\",\"name\":");
        string(out, note.value);
        put(out, "}");
    }
    if !span.annotations.is_empty() {
        put(out, "]");
    }
}

/// Writes `before` (the start of the list or a comma) and an attribute, and sets `before` to a
/// comma.
fn pair(out: &mut Vec<u8>, before: &mut &'static str, tag: &TagRef<'_>) {
    put(out, before);
    *before = ",";
    put(out, "{\"key\":");
    string(out, tag.key);
    put(out, ",\"value\":{");
    match tag.value {
        ValueRef::Str(text) => {
            put(out, "\"stringValue\":");
            string(out, text);
        }
        ValueRef::Int(number) => {
            put(out, "\"intValue\":\"");
            signed(out, number);
            put(out, "\"");
        }
        ValueRef::Bool(flag) => {
            put(out, if flag { "\"boolValue\":true" } else { "\"boolValue\":false" })
        }
        ValueRef::Double(number) => {
            put(out, "\"doubleValue\":");
            double(out, number);
        }
        ValueRef::Bytes(bytes) => {
            put(out, "\"bytesValue\":\"");
            base64(out, bytes);
            put(out, "\"");
        }
    }
    put(out, "}}");
}

fn number(out: &mut Vec<u8>, key: &str, number: u64) {
    if number > 0 {
        put(out, key);
        unsigned(out, number);
    }
}

fn time(out: &mut Vec<u8>, key: &str, ns: u64) {
    if ns > 0 {
        put(out, key);
        unsigned(out, ns);
        put(out, "\"");
    }
}

#[inline]
fn put(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

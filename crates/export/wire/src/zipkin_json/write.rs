//! Encoder of Zipkin's JSON formats. The output follows Zipkin's own encoder: the same order of
//! keys, no blanks, no empty fields except the name in the v1 format. Zipkin's v1 encoder also
//! writes an empty `serviceName`, which is omitted here.

use crate::render::{escaped, hex, ipv4, string, unsigned};
use crate::zipkin::{V1Fields, duration_us, ipv6, kind, lower, non_empty, start_us, tags};
use blkkin_model::{EndpointRef, SpanRef};
use std::ops::Range;

/// Appends a span in the v2 format.
pub(crate) fn v2(out: &mut Vec<u8>, span: &SpanRef<'_>) {
    ids(out, span);
    if let Some(kind) = kind(span.kind) {
        put(out, ",\"kind\":\"");
        put(out, kind);
        put(out, "\"");
    }
    if !span.name.is_empty() {
        put(out, ",\"name\":");
        string(out, &lower(span.name));
    }
    times(out, start_us(span), duration_us(span));
    for (key, end) in [("localEndpoint", &span.local), ("remoteEndpoint", &span.remote)] {
        if let Some(end) = non_empty(end) {
            put(out, ",\"");
            put(out, key);
            put(out, "\":");
            endpoint(out, &end);
        }
    }
    let mut before = ",\"annotations\":[";
    for note in span.annotations {
        put(out, before);
        before = ",";
        put(out, "{\"timestamp\":");
        unsigned(out, note.time_ns / 1000);
        put(out, ",\"value\":");
        string(out, note.value);
        put(out, "}");
    }
    close(out, before, "]");
    let mut before = ",\"tags\":{";
    tags(span, |key, value| {
        put(out, before);
        before = ",";
        string(out, key);
        put(out, ":");
        string(out, value);
    });
    close(out, before, "}");
    flags(out, span.debug, span.shared);
    put(out, "}");
}

/// Appends a span in the v1 format.
pub(crate) fn v1(out: &mut Vec<u8>, span: &SpanRef<'_>) {
    let first = V1Fields::of(span);
    ids(out, span);
    put(out, ",\"name\":");
    string(out, &lower(span.name));
    times(out, first.start_us, first.duration_us);
    let mut here = EncodedEndpoint { endpoint: non_empty(&span.local), written: None };
    let mut before = ",\"annotations\":[";
    first.annotations(span, |us, value| {
        put(out, before);
        before = ",";
        put(out, "{\"timestamp\":");
        unsigned(out, us);
        put(out, ",\"value\":");
        string(out, value);
        here.put(out);
    });
    close(out, before, "]");
    let mut before = ",\"binaryAnnotations\":[";
    let mut one = |key: &str, value: Option<&str>, host: &mut EncodedEndpoint<'_>| {
        put(out, before);
        before = ",";
        put(out, "{\"key\":");
        string(out, key);
        put(out, ",\"value\":");
        match value {
            Some(value) => string(out, value),
            None => put(out, "true"),
        }
        host.put(out);
    };
    tags(span, |key, value| one(key, Some(value), &mut here));
    if first.needs_marker {
        one("lc", Some(""), &mut here);
    }
    if let Some(remote) = non_empty(&span.remote) {
        one(first.address, None, &mut EncodedEndpoint { endpoint: Some(remote), written: None });
    }
    close(out, before, "]");
    flags(out, span.debug, false);
    put(out, "}");
}

/// Endpoint of v1 annotations. It is encoded for the first annotation and copied for the others.
struct EncodedEndpoint<'h> {
    endpoint: Option<EndpointRef<'h>>,
    written: Option<Range<usize>>,
}

impl EncodedEndpoint<'_> {
    /// Writes the endpoint, if any, and the end of an annotation.
    fn put(&mut self, out: &mut Vec<u8>) {
        if let Some(written) = self.written.clone() {
            return out.extend_from_within(written);
        }
        let start = out.len();
        if let Some(host) = self.endpoint {
            put(out, ",\"endpoint\":");
            endpoint(out, &host);
        }
        put(out, "}");
        self.written = Some(start..out.len());
    }
}

/// Writes `end` if the list or map has items, that is, if `before` is a comma.
fn close(out: &mut Vec<u8>, before: &str, end: &str) {
    if before == "," {
        put(out, end);
    }
}

fn ids(out: &mut Vec<u8>, span: &SpanRef<'_>) {
    put(out, "{\"traceId\":\"");
    if span.trace_id.is_wide() {
        hex(out, span.trace_id.high());
    }
    hex(out, span.trace_id.low());
    if let Some(parent_id) = span.parent_id {
        put(out, "\",\"parentId\":\"");
        hex(out, parent_id.number());
    }
    put(out, "\",\"id\":\"");
    hex(out, span.id.number());
    put(out, "\"");
}

fn times(out: &mut Vec<u8>, start_us: u64, duration_us: u64) {
    for (key, us) in [(",\"timestamp\":", start_us), (",\"duration\":", duration_us)] {
        if us > 0 {
            put(out, key);
            unsigned(out, us);
        }
    }
}

fn flags(out: &mut Vec<u8>, debug: bool, shared: bool) {
    if debug {
        put(out, ",\"debug\":true");
    }
    if shared {
        put(out, ",\"shared\":true");
    }
}

fn endpoint(out: &mut Vec<u8>, endpoint: &EndpointRef<'_>) {
    let mut before = "{\"";
    let mut key = |out: &mut Vec<u8>, key: &str| {
        put(out, before);
        before = ",\"";
        put(out, key);
    };
    if !endpoint.service.is_empty() {
        key(out, "serviceName\":\"");
        escaped(out, &lower(endpoint.service));
        put(out, "\"");
    }
    if let Some(address) = endpoint.ipv4 {
        key(out, "ipv4\":\"");
        ipv4(out, address);
        put(out, "\"");
    }
    if let Some(address) = endpoint.ipv6 {
        key(out, "ipv6\":\"");
        put(out, &ipv6(address));
        put(out, "\"");
    }
    if endpoint.port > 0 {
        key(out, "port\":");
        unsigned(out, endpoint.port.into());
    }
    put(out, "}");
}

#[inline]
fn put(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

//! Encoder of Zipkin v2 as protobuf, with fields in the order of their numbers.

use super::{annotation, endpoint, list, span as keys, tag};
use crate::protobuf::{put_fixed64, put_message, put_number, put_sized};
use crate::zipkin::{duration_us, lower, non_empty, start_us, tags};
use blkkin_model::{EndpointRef, Kind, SpanRef};

/// Appends a span to a list.
pub(crate) fn span(out: &mut Vec<u8>, span: &SpanRef<'_>) {
    put_message(out, list::SPANS, |out| fields(out, span));
}

fn fields(out: &mut Vec<u8>, span: &SpanRef<'_>) {
    let wide = span.trace_id.number().to_be_bytes();
    let size = if span.trace_id.is_wide() { 16 } else { 8 };
    put_sized(out, keys::TRACE_ID, &wide[wide.len() - size..]);
    if let Some(parent_id) = span.parent_id {
        put_sized(out, keys::PARENT_ID, &parent_id.number().to_be_bytes());
    }
    put_sized(out, keys::ID, &span.id.number().to_be_bytes());
    put_unless_0(out, keys::KIND, kind(span.kind));
    put_unless_empty(out, keys::NAME, &lower(span.name));
    let start_us = start_us(span);
    if start_us > 0 {
        put_fixed64(out, keys::TIMESTAMP, start_us);
    }
    put_unless_0(out, keys::DURATION, duration_us(span));
    for (key, end) in [(keys::LOCAL_ENDPOINT, &span.local), (keys::REMOTE_ENDPOINT, &span.remote)] {
        if let Some(end) = non_empty(end) {
            put_message(out, key, |out| endpoint(out, &end));
        }
    }
    for note in span.annotations {
        put_message(out, keys::ANNOTATIONS, |out| {
            put_fixed64(out, annotation::TIMESTAMP, note.time_ns / 1000);
            put_sized(out, annotation::VALUE, note.value.as_bytes());
        });
    }
    tags(span, |key, value| {
        put_message(out, keys::TAGS, |out| {
            put_sized(out, tag::KEY, key.as_bytes());
            put_sized(out, tag::VALUE, value.as_bytes());
        });
    });
    put_unless_0(out, keys::DEBUG, span.debug.into());
    put_unless_0(out, keys::SHARED, span.shared.into());
}

fn endpoint(out: &mut Vec<u8>, endpoint: &EndpointRef<'_>) {
    put_unless_empty(out, endpoint::SERVICE_NAME, &lower(endpoint.service));
    if let Some(address) = endpoint.ipv4 {
        put_sized(out, endpoint::IPV4, &address.octets());
    }
    if let Some(address) = endpoint.ipv6 {
        put_sized(out, endpoint::IPV6, &address.octets());
    }
    put_unless_0(out, endpoint::PORT, endpoint.port.into());
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

fn kind(kind: Kind) -> u64 {
    match kind {
        Kind::Unspecified | Kind::Internal => 0,
        Kind::Client => 1,
        Kind::Server => 2,
        Kind::Producer => 3,
        Kind::Consumer => 4,
    }
}

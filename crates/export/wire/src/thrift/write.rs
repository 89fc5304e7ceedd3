//! Encoder of Zipkin v1 as thrift, with fields in the order of Zipkin's own writer.

use super::input::{BOOL, Field, I32, STRUCT};
use super::{annotation, binary, endpoint, span as keys};
use crate::zipkin::{V1Fields, lower, non_empty, tags};
use blkkin_model::{EndpointRef, SpanRef};

/// Starts a list; its count is a placeholder.
pub(crate) fn open_list(out: &mut Vec<u8>) {
    out.extend_from_slice(&[STRUCT, 0, 0, 0, 0]);
}

/// Sets the count of the list that begins at `start`.
pub(crate) fn close_list(out: &mut [u8], start: usize, count: usize) {
    if let Some(place) = out.get_mut(start + 1..start + 5) {
        place.copy_from_slice(&(count as u32).to_be_bytes());
    }
}

/// Appends a span as a thrift structure.
pub(crate) fn span(out: &mut Vec<u8>, span: &SpanRef<'_>) {
    let first = V1Fields::of(span);
    number(out, keys::TRACE_ID, span.trace_id.low());
    text(out, keys::NAME, &lower(span.name));
    number(out, keys::ID, span.id.number());
    if let Some(parent_id) = span.parent_id {
        number(out, keys::PARENT_ID, parent_id.number());
    }
    let host = non_empty(&span.local);
    list(out, keys::ANNOTATIONS, |out| {
        let mut count = 0;
        first.annotations(span, |us, value| {
            count += 1;
            number(out, annotation::TIMESTAMP, us);
            text(out, annotation::VALUE, value);
            structure(out, annotation::HOST, host);
            stop(out);
        });
        count
    });
    list(out, keys::BINARY_ANNOTATIONS, |out| binary_annotations(out, span, &first));
    if span.debug {
        field(out, keys::DEBUG);
        out.push(1);
    }
    for (key, us) in [(keys::TIMESTAMP, first.start_us), (keys::DURATION, first.duration_us)] {
        if us > 0 {
            number(out, key, us);
        }
    }
    if span.trace_id.is_wide() {
        number(out, keys::TRACE_ID_HIGH, span.trace_id.high());
    }
    stop(out);
}

/// Thrift code of a binary annotation with a boolean value (`AnnotationType.BOOL`).
const OF_BOOL: u32 = 0;
const OF_STRING: u32 = 6;

fn binary_annotations(out: &mut Vec<u8>, span: &SpanRef<'_>, first: &V1Fields) -> u32 {
    let (host, mut count) = (non_empty(&span.local), 0);
    let mut one = |key: &str, value: &[u8], kind: u32, host: Option<EndpointRef<'_>>| {
        count += 1;
        text(out, binary::KEY, key);
        sized(out, binary::VALUE, value);
        field(out, binary::TYPE);
        out.extend_from_slice(&kind.to_be_bytes());
        structure(out, binary::HOST, host);
        stop(out);
    };
    tags(span, |key, value| one(key, value.as_bytes(), OF_STRING, host));
    if first.needs_marker {
        one("lc", b"", OF_STRING, host);
    }
    if let Some(remote) = non_empty(&span.remote) {
        one(first.address, &[1], OF_BOOL, Some(remote));
    }
    count
}

fn structure(out: &mut Vec<u8>, key: Field, host: Option<EndpointRef<'_>>) {
    let Some(host) = host else { return };
    field(out, key);
    field(out, endpoint::IPV4);
    out.extend_from_slice(&host.ipv4.map_or([0; 4], |address| address.octets()));
    field(out, endpoint::PORT);
    out.extend_from_slice(&host.port.to_be_bytes());
    text(out, endpoint::SERVICE_NAME, &lower(host.service));
    if let Some(address) = host.ipv6 {
        sized(out, endpoint::IPV6, &address.octets());
    }
    stop(out);
}

/// Writes a list of structures. `write` appends the structures and returns their count.
fn list(out: &mut Vec<u8>, key: Field, write: impl FnOnce(&mut Vec<u8>) -> u32) {
    field(out, key);
    out.push(STRUCT);
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let count = write(out);
    if let Some(place) = out.get_mut(start..start + 4) {
        place.copy_from_slice(&count.to_be_bytes());
    }
}

fn field(out: &mut Vec<u8>, field: Field) {
    out.push(field.kind);
    out.extend_from_slice(&field.id.to_be_bytes());
}

fn stop(out: &mut Vec<u8>) {
    out.push(0);
}

fn number(out: &mut Vec<u8>, key: Field, number: u64) {
    field(out, key);
    out.extend_from_slice(&number.to_be_bytes());
}

fn text(out: &mut Vec<u8>, key: Field, text: &str) {
    sized(out, key, text.as_bytes());
}

fn sized(out: &mut Vec<u8>, key: Field, bytes: &[u8]) {
    field(out, key);
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}

// Fields of these types are written inline, without a helper.
const _: () = assert!(keys::DEBUG.kind == BOOL && binary::TYPE.kind == I32);

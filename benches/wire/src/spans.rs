//! Spans as recorded in a storage service: half of them client spans, half server spans, each with
//! three annotations, five tags and both endpoints.

use blkkin_model::{Annotation, Endpoint, Kind, Origin, Span, SpanId, Status, Tag, TraceId, Value};

pub(crate) fn make(count: usize) -> Vec<Span> {
    (0..count as u64).map(one).collect()
}

/// Returns an odd hash of a number, which is used as an id.
fn mixed(number: u64) -> u64 {
    (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

fn one(index: u64) -> Span {
    let is_client = index.is_multiple_of(2);
    let start_ns = 1_472_470_996_199_000_000 + index * 1_317_000;
    let note = |after_us: u64, value: &str| Annotation {
        time_ns: start_ns + after_us * 1000,
        value: value.to_owned(),
    };
    let trace = u128::from(mixed(index / 8)) << 64 | u128::from(mixed(index / 8 + 7));
    Span {
        trace_id: TraceId::from_number(trace).expect("not 0"),
        id: SpanId::from_number(mixed(index)).expect("not 0"),
        // One of eight spans is a root.
        parent_id: SpanId::from_number(if index.is_multiple_of(8) { 0 } else { mixed(index - 1) }),
        kind: if is_client { Kind::Client } else { Kind::Server },
        status: Status::Unset,
        debug: false,
        shared: false,
        name: if is_client { "osd_op_write".to_owned() } else { "journal commit".to_owned() },
        start_ns: Some(start_ns),
        duration_ns: Some(207_000 + index % 977 * 1000),
        local: endpoint("librados-client", [10, 0, 0, 17], 46_178),
        remote: endpoint("osd.12", [10, 0, 3, 112], 6804),
        annotations: vec![
            note(12, "queued for pg"),
            note(34, "reached pg"),
            note(101, "commit sent to replicas"),
        ],
        tags: vec![
            tag("object", &format!("rbd_data.1f2a74b0dc51.{index:016x}")),
            tag("offset", "4194304"),
            tag("pool", "volumes-ssd"),
            tag("result", "0"),
            tag("size", "4096"),
        ],
    }
}

fn endpoint(service: &str, address: [u8; 4], port: u16) -> Endpoint {
    Endpoint { service: service.to_owned(), ipv4: Some(address.into()), ipv6: None, port }
}

fn tag(key: &str, value: &str) -> Tag {
    Tag { key: key.to_owned(), value: Value::Str(value.to_owned()), origin: Origin::Span }
}

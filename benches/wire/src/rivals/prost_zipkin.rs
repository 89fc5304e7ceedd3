//! Zipkin's protobuf format with structures derived by prost.

use super::rival::Rival;
use prost::Message;
use std::collections::HashMap;
use std::hint::black_box;

#[derive(Clone, PartialEq, Message)]
struct ListOfSpans {
    #[prost(message, repeated, tag = "1")]
    spans: Vec<Span>,
}

#[derive(Clone, PartialEq, Message)]
struct Span {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    parent_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    id: Vec<u8>,
    #[prost(int32, tag = "4")]
    kind: i32,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(fixed64, tag = "6")]
    timestamp: u64,
    #[prost(uint64, tag = "7")]
    duration: u64,
    #[prost(message, optional, tag = "8")]
    local_endpoint: Option<Endpoint>,
    #[prost(message, optional, tag = "9")]
    remote_endpoint: Option<Endpoint>,
    #[prost(message, repeated, tag = "10")]
    annotations: Vec<Annotation>,
    #[prost(map = "string, string", tag = "11")]
    tags: HashMap<String, String>,
    #[prost(bool, tag = "12")]
    debug: bool,
    #[prost(bool, tag = "13")]
    shared: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Endpoint {
    #[prost(string, tag = "1")]
    service_name: String,
    #[prost(bytes = "vec", tag = "2")]
    ipv4: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    ipv6: Vec<u8>,
    #[prost(int32, tag = "4")]
    port: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Annotation {
    #[prost(fixed64, tag = "1")]
    timestamp: u64,
    #[prost(string, tag = "2")]
    value: String,
}

pub(super) fn rival(batch: &'static [u8]) -> Rival {
    of_message::<ListOfSpans>("prost", batch)
}

/// Returns a rival that decodes and encodes `batch` as a prost message of type `M`.
pub(super) fn of_message<M: Message + Default + 'static>(
    name: &'static str,
    batch: &'static [u8],
) -> Rival {
    let message = M::decode(batch).expect("spans");
    let mut out = Vec::with_capacity(batch.len());
    Rival {
        name,
        decode: Box::new(move || {
            let message = M::decode(black_box(batch)).expect("spans");
            black_box(&message);
        }),
        encode: Box::new(move || {
            out.clear();
            black_box(&message).encode(&mut out).expect("memory");
            black_box(&out);
        }),
    }
}

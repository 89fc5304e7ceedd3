//! OpenTelemetry's protobuf and JSON formats with the types of OpenTelemetry's own library.

use super::prost_zipkin::of_message;
use super::rival::Rival;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest as Request;
use std::hint::black_box;

pub(super) fn proto(batch: &'static [u8]) -> Rival {
    of_message::<Request>("opentelemetry-proto, prost", batch)
}

pub(super) fn json(batch: &'static [u8]) -> Rival {
    let request: Request = serde_json::from_slice(batch).expect("spans");
    let mut out = Vec::with_capacity(batch.len());
    Rival {
        name: "opentelemetry-proto, serde_json",
        decode: Box::new(move || {
            let request: Request = serde_json::from_slice(black_box(batch)).expect("spans");
            black_box(&request);
        }),
        encode: Box::new(move || {
            out.clear();
            serde_json::to_writer(&mut out, black_box(&request)).expect("memory");
            black_box(&out);
        }),
    }
}

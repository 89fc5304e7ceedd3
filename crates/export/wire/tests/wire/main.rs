//! Tests of the codecs against other implementations (prost, OpenTelemetry's own types, the thrift
//! crate, serde_json), on batches of real senders, on malformed input with the expected error, and
//! on hostile batches.

mod check;
mod encode;
mod golden;
mod hostile;
mod otlp_json;
mod otlp_proto;
mod random;
mod thrift;
mod zipkin_json;
mod zipkin_proto;

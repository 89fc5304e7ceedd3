//! The codecs beside others that do the same (prost, OpenTelemetry's own types, the thrift crate,
//! serde_json), beside bytes that real senders made, and on tables of what is refused and why.

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

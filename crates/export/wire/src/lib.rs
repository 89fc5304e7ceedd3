//! Spans in the formats of Zipkin and OpenTelemetry: a [`Decoder`] that hands them to a sink, an
//! [`Encoder`] that writes them, and what receivers answer ([`PartialSuccess`], [`Failure`]). No I/O.
//!
//! Bytes are hostile: batches are read within [`Limits`], and an [`Outcome`] says of each span that
//! was refused which it was, and what was wrong at which byte.

mod decoder;
mod draft;
mod encoder;
mod fault;
mod format;
mod json;
mod limits;
mod otlp;
mod outcome;
mod proto3;
mod protobuf;
mod render;
mod texts;
mod thrift;
mod v1;
mod values;
mod zipkin;
mod zipkin_json;

pub use decoder::Decoder;
pub use encoder::{Batch, Encoder, encode};
pub use fault::{Fault, Reason, Refusal};
pub use format::Format;
pub use limits::Limits;
pub use otlp::answer::{Failure, PartialSuccess};
pub use outcome::{End, Outcome, REFUSALS_MAX};

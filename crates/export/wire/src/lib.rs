//! Codecs for spans in the formats of Zipkin and OpenTelemetry: a [`Decoder`] that passes spans to
//! a sink, an [`Encoder`] that writes spans, and the answers of receivers ([`PartialSuccess`],
//! [`Failure`]). The crate does no I/O.
//!
//! Input is untrusted: batches are decoded within [`Limits`]. An [`Outcome`] counts the refused
//! spans and lists the first [`REFUSALS_MAX`] of them, each with the fault and its byte offset.

mod arena;
mod batch;
mod decoder;
mod encoder;
mod error;
mod format;
mod json;
mod limits;
mod otlp;
mod outcome;
mod proto3;
mod protobuf;
mod render;
mod span_draft;
mod thrift;
mod v1;
mod values;
mod zipkin;
mod zipkin_json;

pub use decoder::Decoder;
pub use encoder::{Batch, Encoder, encode};
pub use error::{Fault, Reason, Refusal};
pub use format::Format;
pub use limits::Limits;
pub use otlp::answer::{Failure, PartialSuccess};
pub use outcome::{End, Outcome, REFUSALS_MAX};
pub use thrift::thrift_span_size;

//! Writes batches of spans in any format. Start at [`Encoder`].

use crate::otlp::write::{Grouped, Json, Proto};
use crate::{Format, proto3, thrift, zipkin_json};
use blkkin_model::{SpanRef, SpanSink};
use std::ops::ControlFlow;

/// Writes a batch of spans behind what is in memory already. It is also a sink.
///
/// What a format cannot say is left out: Zipkin's have no nanoseconds, no upper case in names and no
/// types of tags; OpenTelemetry's has no `debug` and `shared`, and one address for each end.
#[derive(Debug)]
pub struct Encoder<'o> {
    out: &'o mut Vec<u8>,
    writing: Writing,
}

/// A batch that is written in memory of its own, for who keeps it open while spans come.
#[derive(Debug)]
pub struct Batch {
    bytes: Vec<u8>,
    writing: Writing,
}

/// Where the writing of a batch is.
#[derive(Debug)]
struct Writing {
    /// Where the batch begins.
    start: usize,
    count: usize,
    state: State,
}

/// What is known of the batch besides its bytes.
#[derive(Debug)]
enum State {
    ZipkinJson,
    ZipkinV1Json,
    ZipkinProto,
    ZipkinThrift,
    ZipkinThriftSpan,
    OtlpProto(Grouped<Proto>),
    OtlpJson(Grouped<Json>),
}

impl<'o> Encoder<'o> {
    /// Begins a batch.
    pub fn new(format: Format, out: &'o mut Vec<u8>) -> Encoder<'o> {
        let writing = Writing::begin(format, out);
        Encoder { out, writing }
    }

    /// Adds a span. As one structure of thrift's it stands alone: there should be no other.
    pub fn span(&mut self, span: &SpanRef<'_>) {
        self.writing.span(self.out, span);
    }

    /// How many bytes the batch has so far, but for its end.
    pub fn size(&self) -> usize {
        self.writing.size(self.out)
    }

    /// Ends the batch.
    pub fn finish(self) {
        self.writing.finish(self.out);
    }
}

impl Batch {
    /// Begins a batch.
    pub fn new(format: Format) -> Batch {
        let mut bytes = Vec::new();
        let writing = Writing::begin(format, &mut bytes);
        Batch { bytes, writing }
    }

    /// Adds a span; see [`Encoder::span`].
    pub fn span(&mut self, span: &SpanRef<'_>) {
        self.writing.span(&mut self.bytes, span);
    }

    /// How many spans it has.
    pub fn count(&self) -> usize {
        self.writing.count
    }

    /// How many bytes it has so far, but for its end.
    pub fn size(&self) -> usize {
        self.writing.size(&self.bytes)
    }

    /// Ends the batch.
    pub fn finish(mut self) -> Vec<u8> {
        self.writing.finish(&mut self.bytes);
        self.bytes
    }
}

impl Writing {
    fn begin(format: Format, out: &mut Vec<u8>) -> Writing {
        let start = out.len();
        let state = match format {
            Format::ZipkinJson => State::ZipkinJson,
            Format::ZipkinV1Json => State::ZipkinV1Json,
            Format::ZipkinProto => State::ZipkinProto,
            Format::ZipkinThrift => State::ZipkinThrift,
            Format::ZipkinThriftSpan => State::ZipkinThriftSpan,
            Format::OtlpProto => State::OtlpProto(Grouped::default()),
            Format::OtlpJson => State::OtlpJson(Grouped::default()),
        };
        match state {
            State::ZipkinJson | State::ZipkinV1Json => out.push(b'['),
            State::ZipkinThrift => thrift::write::open_list(out),
            _ => {}
        }
        Writing { start, count: 0, state }
    }

    fn span(&mut self, out: &mut Vec<u8>, span: &SpanRef<'_>) {
        if self.count > 0 && matches!(self.state, State::ZipkinJson | State::ZipkinV1Json) {
            out.push(b',');
        }
        self.count += 1;
        match &mut self.state {
            State::ZipkinJson => zipkin_json::write::v2(out, span),
            State::ZipkinV1Json => zipkin_json::write::v1(out, span),
            State::ZipkinProto => proto3::write::span(out, span),
            State::ZipkinThrift | State::ZipkinThriftSpan => thrift::write::span(out, span),
            State::OtlpProto(grouped) => grouped.span(out, span),
            State::OtlpJson(grouped) => grouped.span(out, span),
        }
    }

    fn size(&self, out: &[u8]) -> usize {
        let waiting = match &self.state {
            State::OtlpProto(grouped) => grouped.waiting(),
            State::OtlpJson(grouped) => grouped.waiting(),
            _ => 0,
        };
        out.len() - self.start + waiting
    }

    fn finish(self, out: &mut Vec<u8>) {
        match self.state {
            State::ZipkinJson | State::ZipkinV1Json => out.push(b']'),
            State::ZipkinThrift => thrift::write::close_list(out, self.start, self.count),
            State::ZipkinProto | State::ZipkinThriftSpan => {}
            State::OtlpProto(grouped) => grouped.finish(out),
            State::OtlpJson(grouped) => grouped.finish(out),
        }
    }
}

impl SpanSink for Encoder<'_> {
    fn span(&mut self, span: &SpanRef<'_>) -> ControlFlow<()> {
        Encoder::span(self, span);
        ControlFlow::Continue(())
    }
}

/// Writes a batch of spans behind what is in memory already.
pub fn encode<'s>(format: Format, spans: impl IntoIterator<Item = SpanRef<'s>>, out: &mut Vec<u8>) {
    let mut encoder = Encoder::new(format, out);
    for span in spans {
        encoder.span(&span);
    }
    encoder.finish();
}

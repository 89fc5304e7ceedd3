//! Encoder of span batches in any format. Start at [`Encoder`].

use crate::format::Format;
use crate::otlp::write::{GroupWriter, Json, Proto};
use crate::{proto3, thrift, zipkin_json};
use blkkin_model::{SpanRef, SpanSink};
use std::ops::ControlFlow;

/// Encoder that appends a batch of spans to a buffer. An encoder is also a sink for spans.
///
/// Properties that a format lacks are converted or dropped. For example, Zipkin's formats store
/// times in microseconds, names in lower case and tags as text. OpenTelemetry's formats lack
/// `debug` and `shared`, and store only one address for each endpoint.
#[derive(Debug)]
pub struct Encoder<'o> {
    out: &'o mut Vec<u8>,
    writer: BatchWriter,
}

/// A batch with its own buffer, for callers that collect spans over time.
#[derive(Debug)]
pub struct Batch {
    bytes: Vec<u8>,
    writer: BatchWriter,
}

/// Start, span count and format state of a batch that is being written.
#[derive(Debug)]
struct BatchWriter {
    /// Offset of the batch in the buffer.
    start: usize,
    count: usize,
    state: WriterState,
}

/// State of each format's writer.
#[derive(Debug)]
enum WriterState {
    ZipkinJson,
    ZipkinV1Json,
    ZipkinProto,
    ZipkinThrift,
    ZipkinThriftSpan,
    OtlpProto(GroupWriter<Proto>),
    OtlpJson(GroupWriter<Json>),
}

impl<'o> Encoder<'o> {
    /// Starts a batch at the end of `out`.
    pub fn new(format: Format, out: &'o mut Vec<u8>) -> Encoder<'o> {
        let writer = BatchWriter::new(format, out);
        Encoder { out, writer }
    }

    /// Adds a span. A batch of [`Format::ZipkinThriftSpan`] must have exactly one span.
    pub fn span(&mut self, span: &SpanRef<'_>) {
        self.writer.span(self.out, span);
    }

    /// Returns the size of the batch so far in bytes, without its closing bytes. In OpenTelemetry's
    /// formats, the framing of the last group of spans is not counted either.
    pub fn size(&self) -> usize {
        self.writer.size(self.out)
    }

    /// Completes the batch: writes the last group of spans, the closing bytes or the number of
    /// spans, depending on the format.
    pub fn finish(self) {
        self.writer.finish(self.out);
    }
}

impl Batch {
    /// Creates an empty batch in `format`.
    pub fn new(format: Format) -> Batch {
        let mut bytes = Vec::new();
        let writer = BatchWriter::new(format, &mut bytes);
        Batch { bytes, writer }
    }

    /// Adds a span; see [`Encoder::span`].
    pub fn span(&mut self, span: &SpanRef<'_>) {
        self.writer.span(&mut self.bytes, span);
    }

    /// Returns the number of spans in the batch.
    pub fn count(&self) -> usize {
        self.writer.count
    }

    /// Returns the size of the batch so far in bytes, without its closing bytes. In OpenTelemetry's
    /// formats, the framing of the last group of spans is not counted either.
    pub fn size(&self) -> usize {
        self.writer.size(&self.bytes)
    }

    /// Completes the batch and returns its bytes.
    pub fn finish(mut self) -> Vec<u8> {
        self.writer.finish(&mut self.bytes);
        self.bytes
    }
}

impl BatchWriter {
    fn new(format: Format, out: &mut Vec<u8>) -> BatchWriter {
        let start = out.len();
        let state = match format {
            Format::ZipkinJson => WriterState::ZipkinJson,
            Format::ZipkinV1Json => WriterState::ZipkinV1Json,
            Format::ZipkinProto => WriterState::ZipkinProto,
            Format::ZipkinThrift => WriterState::ZipkinThrift,
            Format::ZipkinThriftSpan => WriterState::ZipkinThriftSpan,
            Format::OtlpProto => WriterState::OtlpProto(GroupWriter::default()),
            Format::OtlpJson => WriterState::OtlpJson(GroupWriter::default()),
        };
        match state {
            WriterState::ZipkinJson | WriterState::ZipkinV1Json => out.push(b'['),
            WriterState::ZipkinThrift => thrift::write::open_list(out),
            _ => {}
        }
        BatchWriter { start, count: 0, state }
    }

    fn span(&mut self, out: &mut Vec<u8>, span: &SpanRef<'_>) {
        if self.count > 0
            && matches!(self.state, WriterState::ZipkinJson | WriterState::ZipkinV1Json)
        {
            out.push(b',');
        }
        self.count += 1;
        match &mut self.state {
            WriterState::ZipkinJson => zipkin_json::write::v2(out, span),
            WriterState::ZipkinV1Json => zipkin_json::write::v1(out, span),
            WriterState::ZipkinProto => proto3::write::span(out, span),
            WriterState::ZipkinThrift | WriterState::ZipkinThriftSpan => {
                thrift::write::span(out, span)
            }
            WriterState::OtlpProto(grouped) => grouped.span(out, span),
            WriterState::OtlpJson(grouped) => grouped.span(out, span),
        }
    }

    fn size(&self, out: &[u8]) -> usize {
        let waiting = match &self.state {
            WriterState::OtlpProto(grouped) => grouped.waiting(),
            WriterState::OtlpJson(grouped) => grouped.waiting(),
            _ => 0,
        };
        out.len() - self.start + waiting
    }

    fn finish(self, out: &mut Vec<u8>) {
        match self.state {
            WriterState::ZipkinJson | WriterState::ZipkinV1Json => out.push(b']'),
            WriterState::ZipkinThrift => thrift::write::close_list(out, self.start, self.count),
            WriterState::ZipkinProto | WriterState::ZipkinThriftSpan => {}
            WriterState::OtlpProto(grouped) => grouped.finish(out),
            WriterState::OtlpJson(grouped) => grouped.finish(out),
        }
    }
}

impl SpanSink for Encoder<'_> {
    fn span(&mut self, span: &SpanRef<'_>) -> ControlFlow<()> {
        Encoder::span(self, span);
        ControlFlow::Continue(())
    }
}

/// Appends a batch of spans to a buffer.
pub fn encode<'s>(format: Format, spans: impl IntoIterator<Item = SpanRef<'s>>, out: &mut Vec<u8>) {
    let mut encoder = Encoder::new(format, out);
    for span in spans {
        encoder.span(&span);
    }
    encoder.finish();
}

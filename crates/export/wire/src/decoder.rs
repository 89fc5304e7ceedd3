//! Decoder of span batches in any format. Start at [`Decoder`].

use crate::batch::Batch;
use crate::format::Format;
use crate::limits::{DEPTH_MAX, Limits};
use crate::outcome::Outcome;
use crate::{otlp, proto3, thrift, zipkin_json};
use blkkin_model::{Count, SpanSink};

/// Decoder of span batches. Its memory is reused from batch to batch.
#[derive(Debug, Default)]
pub struct Decoder {
    limits: Limits,
    strict: bool,
    scratch: Scratch,
}

/// Memory of each format's decoder, reused from batch to batch.
#[derive(Debug, Default)]
struct Scratch {
    zipkin_json: zipkin_json::v2::Scratch,
    zipkin_v1_json: zipkin_json::v1::Scratch,
    zipkin_proto: proto3::Scratch,
    zipkin_thrift: thrift::Scratch,
    otlp_json: otlp::json::Scratch,
    otlp_proto: otlp::Scratch,
}

impl Decoder {
    /// Creates a decoder that enforces `limits`, and refuses bad spans without refusing their
    /// batch.
    pub fn new(limits: Limits) -> Decoder {
        let depth = limits.depth.min(DEPTH_MAX);
        Decoder { limits: Limits { depth, ..limits }, ..Decoder::default() }
    }

    /// Sets whether any fault refuses the whole batch, as in Zipkin. The sink then gets no span of
    /// a faulty batch, at the cost of decoding each batch without faults twice.
    pub fn strict(self, strict: bool) -> Decoder {
        Decoder { strict, ..self }
    }

    /// Decodes a batch and passes its valid spans to the sink.
    pub fn decode(&mut self, format: Format, batch: &[u8], sink: &mut dyn SpanSink) -> Outcome {
        if self.strict {
            let trial = self.read(format, batch, &mut Count::default());
            if !trial.is_good() {
                return Outcome { accepted: 0, ..trial };
            }
        }
        self.read(format, batch, sink)
    }

    fn read(&mut self, format: Format, bytes: &[u8], sink: &mut dyn SpanSink) -> Outcome {
        let mut batch = Batch::new(bytes, &self.limits, sink);
        let scratch = &mut self.scratch;
        let read = batch.check_size(bytes).and_then(|()| match format {
            Format::ZipkinJson => {
                zipkin_json::v2::decode(bytes, &mut scratch.zipkin_json, &mut batch)
            }
            Format::ZipkinV1Json => {
                zipkin_json::v1::decode(bytes, &mut scratch.zipkin_v1_json, &mut batch)
            }
            Format::ZipkinProto => proto3::decode(bytes, &mut scratch.zipkin_proto, &mut batch),
            Format::ZipkinThrift => {
                thrift::decode_list(bytes, &mut scratch.zipkin_thrift, &mut batch)
            }
            Format::ZipkinThriftSpan => {
                thrift::decode_one(bytes, &mut scratch.zipkin_thrift, &mut batch)
            }
            Format::OtlpJson => otlp::json::decode(bytes, &mut scratch.otlp_json, &mut batch),
            Format::OtlpProto => otlp::decode(bytes, &mut scratch.otlp_proto, &mut batch),
        });
        batch.finish(read)
    }
}

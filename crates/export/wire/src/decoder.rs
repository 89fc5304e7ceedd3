//! Reads batches of spans of any format. Start at [`Decoder`].

use crate::draft::{Draft, Lists};
use crate::fault::{Fault, Reason, Refusal, Result};
use crate::otlp::GroupMemory;
use crate::texts::Texts;
use crate::v1::V1Lists;
use crate::{End, Format, Limits, Outcome, otlp, proto3, thrift, zipkin_json};
use blkkin_model::{Count, SpanRef, SpanSink};

/// Deeper is not read, whatever the limits say: what is nested is read by functions that call
/// themselves.
pub(crate) const DEPTH_MAX: usize = 120;

/// Most bytes of texts for each byte of a batch, beside [`Limits::expanded_bytes`]. Spans of 300
/// bytes may thus share 2 KiB, however many there are.
const EXPANSION: u64 = 8;

/// Reads batches of spans, and keeps its memory from one to the next.
#[derive(Debug, Default)]
pub struct Decoder {
    limits: Limits,
    strict: bool,
    scratch: Scratch,
}

/// Memory that goes from span to span.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) lists: Lists<'static>,
    pub(crate) texts: Texts,
    pub(crate) group: GroupMemory,
    pub(crate) v1: V1Lists<'static>,
    pub(crate) orders: Orders,
}

/// In what order senders write the keys of JSON.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    pub(crate) v1: zipkin_json::v1::Orders,
    pub(crate) v2: zipkin_json::v2::Orders,
    pub(crate) otlp: otlp::json::Orders,
}

/// A batch while it is read: who gets its spans, and what came of them so far.
pub(crate) struct Batch<'w> {
    pub(crate) limits: &'w Limits,
    sink: &'w mut dyn SpanSink,
    outcome: Outcome,
    /// Of the span that is read, or is next.
    index: u64,
    /// Texts and byte strings of the spans so far.
    expanded_bytes: u64,
    expanded_bytes_max: u64,
}

/// Why a batch is not read any further.
pub(crate) enum Stop {
    Broken(Box<Fault>),
    Enough,
}

impl Decoder {
    /// A decoder that refuses what is larger than the limits, and bad spans alone.
    pub fn new(limits: Limits) -> Decoder {
        let depth = limits.depth.min(DEPTH_MAX);
        Decoder { limits: Limits { depth, ..limits }, ..Decoder::default() }
    }

    /// Whether a batch with anything wrong in it is refused as a whole, as Zipkin does. Nothing of
    /// it reaches the sink, which takes reading each batch twice.
    pub fn strict(self, strict: bool) -> Decoder {
        Decoder { strict, ..self }
    }

    /// Gives the sink each span of a batch.
    pub fn decode(&mut self, format: Format, batch: &[u8], sink: &mut dyn SpanSink) -> Outcome {
        if self.strict {
            let trial = self.read(format, batch, &mut Count::default());
            if !trial.is_good() {
                return Outcome { given: 0, ..trial };
            }
        }
        self.read(format, batch, sink)
    }

    fn read(&mut self, format: Format, bytes: &[u8], sink: &mut dyn SpanSink) -> Outcome {
        let outcome = Outcome::default();
        let mut batch = Batch {
            limits: &self.limits,
            sink,
            outcome,
            index: 0,
            expanded_bytes: 0,
            expanded_bytes_max: self
                .limits
                .expanded_bytes
                .saturating_add(EXPANSION * bytes.len() as u64),
        };
        let scratch = &mut self.scratch;
        let read = batch.check_size(bytes).and_then(|()| match format {
            Format::ZipkinJson => zipkin_json::v2::decode(bytes, scratch, &mut batch),
            Format::ZipkinV1Json => zipkin_json::v1::decode(bytes, scratch, &mut batch),
            Format::ZipkinProto => proto3::decode(bytes, scratch, &mut batch),
            Format::ZipkinThrift => thrift::decode_list(bytes, scratch, &mut batch),
            Format::ZipkinThriftSpan => thrift::decode_one(bytes, scratch, &mut batch),
            Format::OtlpJson => otlp::json::decode(bytes, scratch, &mut batch),
            Format::OtlpProto => otlp::decode(bytes, scratch, &mut batch),
        });
        batch.outcome.end = match read {
            Ok(()) => End::Whole,
            Err(Stop::Enough) => End::Enough,
            Err(Stop::Broken(fault)) => End::Broken(Refusal { span: batch.index, fault: *fault }),
        };
        batch.outcome
    }
}

impl Batch<'_> {
    fn check_size(&self, bytes: &[u8]) -> Result<(), Stop> {
        let count_max = self.limits.batch_bytes;
        if bytes.len() <= count_max {
            return Ok(());
        }
        let reason = Reason::TooMany { what: "bytes", count_max: count_max as u64 };
        Err(Stop::Broken(reason.at(count_max)))
    }

    /// Another span starts at `offset`.
    #[inline]
    pub(crate) fn open(&self, offset: usize) -> Result<(), Stop> {
        if self.index < self.limits.spans {
            return Ok(());
        }
        let reason = Reason::TooMany { what: "spans", count_max: self.limits.spans };
        Err(Stop::Broken(reason.at(offset)))
    }

    /// A span is read: gives it away.
    #[inline]
    pub(crate) fn close(&mut self, draft: &mut Draft<'_>, offset: usize) -> Result<(), Stop> {
        match draft.finish(offset) {
            Ok(span) => {
                self.give(&span, offset)?;
                self.next();
            }
            Err(fault) => self.refuse(*fault),
        }
        Ok(())
    }

    /// A span is read, or there is something wrong with it.
    #[inline]
    pub(crate) fn close_read(
        &mut self,
        read: Result<()>,
        draft: &mut Draft<'_>,
        offset: usize,
    ) -> Result<(), Stop> {
        match read {
            Ok(()) => self.close(draft, offset),
            Err(fault) => {
                self.refuse(*fault);
                Ok(())
            }
        }
    }

    /// Gives a span away, which starts at `offset`.
    #[inline]
    pub(crate) fn give(&mut self, span: &SpanRef<'_>, offset: usize) -> Result<(), Stop> {
        // All formats pass here, whatever it is in them that spans share.
        self.expanded_bytes += span.text_bytes() as u64;
        let count_max = self.expanded_bytes_max;
        if self.expanded_bytes > count_max {
            let what = "bytes when shared values are counted for each span";
            return Err(Stop::Broken(Reason::TooMany { what, count_max }.at(offset)));
        }
        if self.sink.span(span).is_break() {
            return Err(Stop::Enough);
        }
        self.outcome.given += 1;
        Ok(())
    }

    /// All of a span is given away.
    #[inline]
    pub(crate) fn next(&mut self) {
        self.index += 1;
    }

    /// The span is not given away.
    #[cold]
    pub(crate) fn refuse(&mut self, fault: Fault) {
        self.outcome.refuse(Refusal { span: self.index, fault });
        self.index += 1;
    }
}

impl From<Box<Fault>> for Stop {
    fn from(fault: Box<Fault>) -> Stop {
        Stop::Broken(fault)
    }
}

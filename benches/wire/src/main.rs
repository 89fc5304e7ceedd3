//! Decodes and encodes the same spans in each format, alternating between our codecs and those of
//! other projects. Prints a line of JSON for each format, operation and codec, with the processor
//! time for a span. `cargo xtask bench wire` runs this program.
//!
//! Our decoder obeys all rules of a format and passes each span to a sink that reads some fields.
//! The other decoders only fill their structures, which are not read.

mod rivals;
mod spans;

use blkkin_model::{Span, SpanRef, SpanRefBuffer, SpanSink};
use blkkin_wire::{Decoder, Encoder, Format};
use nix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::ops::ControlFlow;

/// Number of spans in the batch that is decoded and encoded.
const SPANS: usize = 1000;

/// An operation to measure: decoding or encoding of the batch by one codec.
struct Case {
    format: Format,
    what: &'static str,
    by: &'static str,
    batch_bytes: usize,
    run: Box<dyn FnMut()>,
    /// Processor time for a span in nanoseconds, in each round.
    ns: Vec<f64>,
}

fn main() {
    let mut words = std::env::args().skip(1);
    let mut number = || words.next().map(|word| word.parse().expect("a number"));
    let (rounds, batches) = (number().unwrap_or(50), number().unwrap_or(10));
    let mut cases = cases();
    // For profiling, one case can be selected by format, operation and codec.
    if let Some(wanted) = words.next() {
        cases.retain(|case| wanted == format!("{} {} {}", case.format.name(), case.what, case.by));
    }
    // The first round is not measured: it warms up caches and buffers.
    for round in 0..=rounds {
        for case in &mut cases {
            let start = processor_ns();
            (0..batches).for_each(|_| (case.run)());
            let ns = (processor_ns() - start) as f64 / (batches * SPANS as u64) as f64;
            if round > 0 {
                case.ns.push(ns);
            }
        }
    }
    cases.iter_mut().for_each(print);
}

/// Returns the processor time of this thread in nanoseconds. Time of other processes is not
/// included.
fn processor_ns() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a clock that there is");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

fn print(case: &mut Case) {
    case.ns.sort_by(f64::total_cmp);
    let at = |percent: usize| case.ns[(case.ns.len() - 1) * percent / 100];
    let line = serde_json::json!({
        "format": case.format.name(),
        "what": case.what,
        "by": case.by,
        "bytes_per_span": case.batch_bytes as f64 / SPANS as f64,
        "ns_median": at(50),
        "ns_min": at(0),
        "ns_p90": at(90),
    });
    println!("{line}");
}

fn cases() -> Vec<Case> {
    let spans: &'static [Span] = Box::leak(spans::make(SPANS).into_boxed_slice());
    let held: &'static [SpanRefBuffer<'static>] =
        Box::leak(spans.iter().map(Span::ref_buffer).collect::<Vec<_>>().into_boxed_slice());
    let refs: &'static [SpanRef<'static>] =
        Box::leak(held.iter().map(SpanRefBuffer::as_ref).collect::<Vec<_>>().into_boxed_slice());
    let mut cases = Vec::new();
    for format in Format::ALL {
        // This format holds a single span, so there is no batch in it.
        if format == Format::ZipkinThriftSpan {
            continue;
        }
        let batch: &'static [u8] = Vec::leak(encode(format, refs));
        let mut add = |what, by, run: Box<dyn FnMut()>| {
            cases.push(Case { format, what, by, batch_bytes: batch.len(), run, ns: Vec::new() });
        };
        let mut decoder = Decoder::default();
        add(
            "decode",
            "blkkin",
            Box::new(move || {
                let mut sink = FieldReader::default();
                let outcome = decoder.decode(format, black_box(batch), &mut sink);
                assert_eq!(outcome.accepted, SPANS as u64);
                black_box(sink.0);
            }),
        );
        let mut out = Vec::with_capacity(batch.len());
        add(
            "encode",
            "blkkin",
            Box::new(move || {
                out.clear();
                encode_into(format, black_box(refs), &mut out);
                assert_eq!(black_box(&out).len(), batch.len());
            }),
        );
        let rival = rivals::of(format, batch);
        add("decode", rival.name, rival.decode);
        add("encode", rival.name, rival.encode);
    }
    cases
}

/// Sink that reads the fields of each span that a store would use first. The sum keeps the compiler
/// from removing the reads.
#[derive(Default)]
struct FieldReader(u64);

impl SpanSink for FieldReader {
    fn span(&mut self, span: &SpanRef<'_>) -> ControlFlow<()> {
        self.0 = self.0.wrapping_add(span.trace_id.low() ^ span.start_ns.unwrap_or(0));
        self.0 += (span.tags.len() + span.annotations.len() + span.name.len()) as u64;
        ControlFlow::Continue(())
    }
}

fn encode(format: Format, spans: &[SpanRef<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_into(format, spans, &mut out);
    out
}

fn encode_into(format: Format, spans: &[SpanRef<'_>], out: &mut Vec<u8>) {
    let mut encoder = Encoder::new(format, out);
    spans.iter().for_each(|span| encoder.span(span));
    encoder.finish();
}

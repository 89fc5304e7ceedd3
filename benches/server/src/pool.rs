//! Batches that are encoded before the measurement. Start at [`make`].

use crate::format::Format;
use crate::template::Template;
use blkkin_model::{Span, SpanRef, SpanSink};
use blkkin_store::testing::requests::{Options, Requests};
use std::ops::ControlFlow;

/// Start of the first request, in nanoseconds since 1970. In all formats, times of that year have
/// as many digits as present times. [`GAP_NS`] is the mean time between the starts of two requests;
/// it is so long that a time in a batch identifies its request.
const START_NS: u64 = 1_100_000_000_000_000_000;
const GAP_NS: u64 = 600_000_000_000;

/// Generator of requests, with the kinds of spans and tags that senders of a format use.
pub(crate) struct RequestSource(Requests);

impl RequestSource {
    pub(crate) fn new(format: Format, seed: u64) -> RequestSource {
        let is_otlp = matches!(format, Format::OtlpHttp | Format::OtlpGrpc);
        RequestSource(Requests::new(Options {
            seed,
            start_ns: START_NS,
            gap_ns: GAP_NS,
            shared: !is_otlp,
            wide: true,
            typed: is_otlp,
        }))
    }

    /// Returns the spans of the next request.
    pub(crate) fn request(&mut self) -> Vec<Span> {
        let mut spans = SpanCollector(Vec::new());
        while spans.0.is_empty() && self.0.next(&mut spans).is_continue() {}
        spans.0
    }
}

struct SpanCollector(Vec<Span>);

impl SpanSink for SpanCollector {
    fn span(&mut self, span: &SpanRef<'_>) -> ControlFlow<()> {
        self.0.push(span.to_owned());
        ControlFlow::Continue(())
    }
}

/// Encodes `batches` batches, each of `requests` requests, to be sent to the server at `host`.
pub(crate) fn make(format: Format, host: &str, batches: u64, requests: u64) -> Vec<Template> {
    let mut source = RequestSource::new(format, 1);
    let mut batch = || {
        let requests: Vec<_> = (0..requests).map(|_| source.request()).collect();
        Template::new(format, host, &requests)
    };
    (0..batches).map(|_| batch()).collect()
}

//! Batches of requests, made up before the clock starts, or where no clock runs. Start at [`make`].

use crate::format::Format;
use crate::template::Template;
use blkkin_model::{Span, SpanRef, SpanSink};
use blkkin_store::testing::requests::{Options, Requests};
use std::ops::ControlFlow;

/// Requests of batches are far apart, so that each time in a batch is of one request only; and of years that all formats
/// write with as many digits as this one.
const START_NS: u64 = 1_100_000_000_000_000_000;
const GAP_NS: u64 = 600_000_000_000;

/// Makes up requests as senders of a format have them.
pub(crate) struct Source(Requests);

impl Source {
    pub(crate) fn new(format: Format, seed: u64) -> Source {
        let is_otlp = matches!(format, Format::OtlpHttp | Format::OtlpGrpc);
        Source(Requests::new(Options {
            seed,
            start_ns: START_NS,
            gap_ns: GAP_NS,
            shared: !is_otlp,
            wide: true,
            typed: is_otlp,
        }))
    }

    /// The spans of the next request.
    pub(crate) fn request(&mut self) -> Vec<Span> {
        let mut spans = Kept(Vec::new());
        while spans.0.is_empty() && self.0.next(&mut spans).is_continue() {}
        spans.0
    }
}

struct Kept(Vec<Span>);

impl SpanSink for Kept {
    fn span(&mut self, span: &SpanRef<'_>) -> ControlFlow<()> {
        self.0.push(span.to_owned());
        ControlFlow::Continue(())
    }
}

/// So many batches, each of so many requests, in a format.
pub(crate) fn make(format: Format, host: &str, batches: u64, requests: u64) -> Vec<Template> {
    let mut source = Source::new(format, 1);
    let mut batch = || {
        let requests: Vec<_> = (0..requests).map(|_| source.request()).collect();
        Template::new(format, host, &requests)
    };
    (0..batches).map(|_| batch()).collect()
}

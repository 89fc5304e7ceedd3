//! Creates numbered spans, and checks that each is accounted for.

use blkkin_deliver::{Cause, Counters, Destination, Exporter, Options};
use blkkin_model::{Kind, Span, SpanId, SpanRef, TagRef, TraceId};
use blkkin_wire::{Decoder, Format, Limits};
use std::time::Duration;

/// Time limit of each wait in these tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Returns options for tests: short delays before retries, and a batch age that no batch reaches.
pub(crate) fn options(url: &str) -> Options {
    of_format(url, None)
}

pub(crate) fn of_format(url: &str, format: Option<Format>) -> Options {
    Options {
        pause_first: Duration::from_millis(2),
        pause_max: Duration::from_millis(10),
        batch_age: PATIENCE,
        ..Options::new(Destination::parse(url, format).expect("a destination"))
    }
}

/// Pushes a span whose contents are derived from its number.
pub(crate) fn push(exporter: &Exporter, number: u64) {
    with_span(number, |span| exporter.push(span).expect("room"));
}

pub(crate) fn with_span<T>(number: u64, then: impl FnOnce(&SpanRef<'_>) -> T) -> T {
    let (name, value) = (format!("span {number}"), number.to_string());
    let tags = [TagRef::text("number", &value)];
    let id = SpanId::from_number(number + 1).expect("an id");
    let mut span = SpanRef::new(TraceId::from(id), id);
    (span.name, span.kind, span.tags) = (&name, Kind::Client, &tags);
    (span.start_ns, span.duration_ns) =
        (Some(1_700_000_000_000_000_000 + number * 1000), Some(5000));
    span.local.service = "tests";
    then(&span)
}

/// Returns the numbers of the spans in a batch, after a check that the spans are unchanged.
#[track_caller]
pub(crate) fn numbers(format: Format, batch: &[u8]) -> Vec<u64> {
    let mut spans: Vec<Span> = Vec::new();
    let outcome = Decoder::new(Limits::default()).decode(format, batch, &mut spans);
    assert!(outcome.is_good(), "{outcome:?}");
    spans.iter().map(number).collect()
}

#[track_caller]
fn number(span: &Span) -> u64 {
    let number = span.id.number() - 1;
    with_span(number, |expected| {
        let expected = expected.to_owned();
        assert_eq!(
            (span.trace_id, &span.name, span.kind),
            (expected.trace_id, &expected.name, expected.kind)
        );
        assert_eq!((span.start_ns, span.duration_ns), (expected.start_ns, expected.duration_ns));
        assert_eq!((&span.tags, &span.local), (&expected.tags, &expected.local));
    });
    number
}

/// Checks the balance of the counters: each recovered or pushed span is delivered, dropped or
/// waiting.
#[track_caller]
pub(crate) fn balanced(counters: &Counters) {
    let Counters { recovered: found, pushed, delivered, waiting, .. } = *counters;
    let dropped: u64 = Cause::ALL.iter().map(|cause| counters.dropped(*cause)).sum();
    assert_eq!(dropped, counters.dropped_total());
    assert_eq!(found + pushed, delivered + dropped + waiting, "{counters:?}");
}

/// Waits until the queue is empty, closes the exporter, and returns its final counters.
#[track_caller]
pub(crate) fn finish(exporter: Exporter) -> Counters {
    assert!(
        exporter.wait_until_empty(PATIENCE),
        "{:?} {:?}",
        exporter.counters(),
        exporter.trouble()
    );
    let counters = exporter.close();
    balanced(&counters);
    counters
}

//! Checks that apply to each decoder of spans, for any input.

use blkkin_model::Span;
use blkkin_wire::{Decoder, End, Format, Limits, Outcome, encode};

/// Decodes hostile bytes, and round-trips the resulting spans through each format.
pub(crate) fn check_batch(format: Format, batch: &[u8]) {
    let (spans, outcome) = read(Limits::default(), format, batch);
    check(batch, &spans, &outcome);
    strict(format, batch, &spans, &outcome);
    limited(format, batch);
    for format in Format::ALL {
        if format != Format::ZipkinThriftSpan || spans.len() == 1 {
            check_round_trip(format, &spans);
        }
    }
}

fn read(limits: Limits, format: Format, batch: &[u8]) -> (Vec<Span>, Outcome) {
    let mut spans = Vec::new();
    let outcome = Decoder::new(limits).decode(format, batch, &mut spans);
    assert_eq!(outcome.accepted, spans.len() as u64);
    (spans, outcome)
}

fn check(batch: &[u8], spans: &[Span], outcome: &Outcome) {
    for span in spans {
        assert!(span.annotations.is_sorted_by(|a, b| a < b));
        assert!(span.tags.is_sorted_by(|a, b| (&a.key, a.origin) < (&b.key, b.origin)));
        assert_ne!(span.parent_id, Some(span.id));
    }
    assert!(outcome.refused >= outcome.refusals.len() as u64);
    assert_eq!(outcome.is_good(), outcome.first_refusal().is_none());
    for refusal in outcome.refusals.iter().chain(outcome.first_refusal()) {
        assert!(refusal.fault.offset <= batch.len() as u64, "{refusal}");
    }
}

/// Checks that the strict decoder returns all spans of a batch or none.
fn strict(format: Format, batch: &[u8], spans: &[Span], outcome: &Outcome) {
    let mut kept = Vec::new();
    let strict = Decoder::default().strict(true).decode(format, batch, &mut kept);
    assert_eq!(strict.is_good(), outcome.is_good());
    let expected = if outcome.is_good() { spans } else { &[] };
    assert_eq!(show(&kept), show(expected));
}

/// Checks that decoding with small limits stays within bounds that follow from the limits.
fn limited(format: Format, batch: &[u8]) {
    let limits = Limits {
        batch_bytes: 4096,
        expanded_bytes: 100,
        spans: 3,
        tags: 4,
        shared_tags: 2,
        annotations: 3,
        hosts: 2,
        text_bytes: 20,
        depth: 3,
    };
    let (spans, outcome) = read(limits, format, batch);
    assert!(outcome.accepted <= 3 * 2 && outcome.accepted + outcome.refused <= 3 * 2);
    if batch.len() > 4096 {
        assert!(spans.is_empty() && matches!(outcome.end, End::Broken(_)));
    }
    let expanded: usize = spans.iter().map(|span| span.ref_buffer().as_ref().text_bytes()).sum();
    assert!(expanded <= 100 + 8 * batch.len());
    for span in spans {
        // Numbers of dropped items and an error's message add tags to those of the sender.
        assert!(span.tags.len() <= 5 && span.annotations.len() <= 3);
        // A byte of invalid UTF-8 is replaced by three.
        assert!(span.name.len() <= 60);
        assert!(span.annotations.iter().all(|it| it.value.len() <= 60));
    }
}

/// Checks that encoded spans are valid. Except in Zipkin's v1 formats, a second round trip leaves
/// them unchanged.
fn check_round_trip(format: Format, spans: &[Span]) {
    let first = encode_and_decode(format, spans);
    let is_first_format =
        matches!(format, Format::ZipkinV1Json | Format::ZipkinThrift | Format::ZipkinThriftSpan);
    if !is_first_format {
        assert_eq!(first.len(), spans.len());
        assert_eq!(show(&encode_and_decode(format, &first)), show(&first), "{format:?}");
    }
}

fn encode_and_decode(format: Format, spans: &[Span]) -> Vec<Span> {
    let mut batch = Vec::new();
    let held: Vec<_> = spans.iter().map(Span::ref_buffer).collect();
    encode(format, held.iter().map(|held| held.as_ref()), &mut batch);
    let (spans, outcome) = read(Limits::default(), format, &batch);
    assert!(outcome.is_good(), "{format:?} {outcome:?}");
    spans
}

/// Formats spans as text for comparison, since NaN does not equal itself.
fn show(spans: &[Span]) -> String {
    format!("{spans:?}")
}

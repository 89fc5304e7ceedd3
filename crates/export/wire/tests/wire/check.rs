//! Checks shared by the tests of all formats.

use crate::random::Random;
use blkkin_model::Span;
use blkkin_wire::{Decoder, End, Format, Limits, Outcome};

/// Decodes a batch; returns the spans and the outcome.
pub(crate) fn read(format: Format, batch: &[u8]) -> (Vec<Span>, Outcome) {
    let mut spans = Vec::new();
    let outcome = Decoder::default().decode(format, batch, &mut spans);
    assert_eq!(outcome.accepted, spans.len() as u64);
    (spans, outcome)
}

/// Decodes a batch that must have no faults.
pub(crate) fn good(format: Format, batch: &[u8]) -> Vec<Span> {
    let (spans, outcome) = read(format, batch);
    assert!(outcome.is_good(), "{outcome:?} of {}", String::from_utf8_lossy(batch));
    assert_eq!(outcome.end, End::Whole);
    spans
}

/// Returns the first refusal of a batch as text, or the text `nothing` if the batch has no faults.
pub(crate) fn refusal(format: Format, batch: &[u8]) -> String {
    let (_, outcome) = read(format, batch);
    outcome.first_refusal().map_or_else(|| "nothing".to_owned(), ToString::to_string)
}

/// Decodes a possibly damaged batch. Checks the invariants of spans and refusals, and that the
/// strict decoder accepts all spans or none.
pub(crate) fn hostile(format: Format, batch: &[u8]) -> (Vec<Span>, Outcome) {
    let (spans, outcome) = read(format, batch);
    for span in &spans {
        assert!(span.annotations.is_sorted_by(|a, b| a < b), "{span:?}");
        assert!(span.tags.is_sorted_by(|a, b| (&a.key, a.origin) < (&b.key, b.origin)), "{span:?}");
        assert_ne!(span.parent_id, Some(span.id));
    }
    for refusal in outcome.refusals.iter().chain(outcome.first_refusal()) {
        assert!(refusal.fault.offset <= batch.len() as u64, "{refusal}");
    }
    let mut kept = Vec::new();
    let strict = Decoder::new(Limits::default()).strict(true).decode(format, batch, &mut kept);
    assert_eq!(strict.is_good(), outcome.is_good());
    // NaN is not comparable, so compare the spans as text.
    let expected = if outcome.is_good() { spans.as_slice() } else { &[] };
    assert_eq!(format!("{kept:?}"), format!("{expected:?}"));
    (spans, outcome)
}

/// Decodes 3000 randomly damaged batches, and passes each result to `judge`.
pub(crate) fn damaged(
    format: Format,
    seed: u64,
    mut make: impl FnMut(&mut Random) -> Vec<u8>,
    mut judge: impl FnMut(&[u8], &[Span], &Outcome),
) {
    let mut random = Random(seed);
    for _ in 0..3000 {
        let batch = make(&mut random);
        let batch = random.damage(&batch);
        let (spans, outcome) = hostile(format, &batch);
        judge(&batch, &spans, &outcome);
    }
}

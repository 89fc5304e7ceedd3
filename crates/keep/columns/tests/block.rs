//! Tests that blocks return the spans that were pushed or appended, and that sorting keeps each
//! distinct span once.

mod support;

use blkkin_columns::{Block, PushError, Scratch, Sorted};
use blkkin_model::{Span, SpanId, SpanRef, TagRef, TraceId, ValueRef};
use proptest::prelude::*;
use support::{comparable_text, spans};

fn block(spans: &[Span]) -> Block {
    let mut block = Block::new();
    for (span, row) in spans.iter().zip(0..) {
        assert_eq!(block.push(&span.ref_buffer().as_ref()), Ok(row));
    }
    block
}

fn check(block: &Block, expected: &[&Span]) {
    assert_eq!(block.len(), expected.len());
    let mut scratch = Scratch::default();
    for (expected, row) in expected.iter().zip(0..) {
        let held = expected.ref_buffer();
        let span = block.span(row, &mut scratch);
        assert_eq!(comparable_text(&span.to_owned()), comparable_text(expected));
        assert_eq!(block.is_error(row), held.as_ref().is_error());
        assert_eq!(block.text(block.service_id(row)), expected.local.service);
        assert_eq!(block.text(block.remote_service_id(row)), expected.remote.service);
        assert_eq!(block.text_id(&expected.name), Some(block.name_id(row)));
        assert_eq!(
            (block.trace_low(row), block.trace_high(row)),
            (expected.trace_id.low(), expected.trace_id.high())
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_block_holds_what_it_was_given(first in spans(20), second in spans(20)) {
        let mut one = block(&first);
        let other = block(&second);
        check(&one, &first.iter().collect::<Vec<_>>());
        one.append(&other).expect("room");
        check(&one, &first.iter().chain(&second).collect::<Vec<_>>());
        one.clear();
        check(&one, &[]);
        one.append(&other).expect("room");
        check(&one, &second.iter().collect::<Vec<_>>());
    }

    #[test]
    fn sorting_keeps_each_span_once(first in spans(20), second in spans(20), twice in 0..20_usize) {
        let mut second = second;
        second.extend(first.iter().take(twice).cloned());
        let blocks = [block(&first), block(&[]), block(&second)];
        let blocks: Vec<&Block> = blocks.iter().collect();
        let sorted = Sorted::of(&blocks);
        let mut expected: Vec<String> = first.iter().chain(&second).map(comparable_text).collect();
        let all = expected.len();
        expected.sort();
        expected.dedup();
        prop_assert_eq!(sorted.len() + sorted.duplicates(), all);
        let mut scratch = Scratch::default();
        let spans: Vec<Span> =
            (0..sorted.len()).map(|index| sorted.span(index, &mut scratch).to_owned()).collect();
        let key = |span: &Span| {
            (span.trace_id.low(), span.trace_id.high(), span.start_ns, span.id)
        };
        prop_assert!(spans.is_sorted_by_key(key));
        let mut found: Vec<String> = spans.iter().map(comparable_text).collect();
        found.sort();
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn what_is_too_large_is_refused_whole() {
    let text = "x".repeat(9 << 20);
    let id = TraceId::from_number(1).zip(SpanId::from_number(1)).expect("not 0");
    let tags = [TagRef::text("a", &text)];
    let mut block = Block::new();
    let span = SpanRef { tags: &tags, ..SpanRef::new(id.0, id.1) };
    assert_eq!(block.push(&span), Err(PushError::TooLarge));
    assert_eq!((block.len(), block.texts()), (0, 1));
}

#[test]
fn byte_strings_are_kept_once() {
    let id = TraceId::from_number(1).zip(SpanId::from_number(1)).expect("not 0");
    let (value, other) = (vec![1; 1 << 20], [2; 3]);
    let keys: Vec<String> = (0..50).map(|number| format!("key {number}")).collect();
    let mut one = Block::new();
    // Each key has its own layout, so that no value equals the most recent value of its layout.
    for key in &keys {
        let tag = |value| TagRef { value: ValueRef::Bytes(value), ..TagRef::text(key, "") };
        for value in [&value[..], &other, &[]] {
            let tags = [tag(value)];
            one.push(&SpanRef { tags: &tags, ..SpanRef::new(id.0, id.1) }).expect("room");
        }
    }
    let mut both = Block::new();
    both.append(&one).expect("room");
    both.append(&one).expect("room");
    for block in [&one, &both] {
        assert!(block.memory_bytes() < 4 << 20, "{block:?}");
        for row in 0..block.len() as u32 {
            let expected = [&value[..], &other, &[]][row as usize % 3];
            let tag = block.tags(row).next().expect("a tag");
            assert!(tag.value == ValueRef::Bytes(expected), "row {row}");
        }
    }
}

/// Sorting thousands of spans that share values of megabytes takes less than 3 s. The spans differ
/// only in their last two tags.
#[test]
fn values_that_spans_share_are_compared_once() {
    const SPANS: usize = 4000;
    let id = TraceId::from_number(1).zip(SpanId::from_number(1)).expect("not 0");
    let texts = ["x".repeat(4 << 20) + "y", "x".repeat(4 << 20)];
    let bytes = vec![7; 2 << 20];
    let blocks: Vec<Block> = (0..2)
        .map(|block| {
            let mut of_block = Block::new();
            for number in 0..SPANS {
                let number = (number * 7919 % SPANS * 2 + block).to_string();
                let tags = [
                    TagRef { value: ValueRef::Bytes(&bytes), ..TagRef::text("a", "") },
                    TagRef::text("b", &texts[number.len() % 2]),
                    TagRef::text("c", &number),
                ];
                let span = SpanRef { tags: &tags, ..SpanRef::new(id.0, id.1) };
                of_block.push(&span).expect("room");
            }
            of_block
        })
        .collect();
    let begun = std::time::Instant::now();
    let sorted = Sorted::of(&[&blocks[0], &blocks[1], &blocks[0]]);
    let took = begun.elapsed();
    assert_eq!((sorted.len(), sorted.duplicates()), (2 * SPANS, SPANS));
    assert!(took < std::time::Duration::from_secs(3), "{took:?}");
}

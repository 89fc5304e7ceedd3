//! Tests of span files. Files return the spans that were written, by row and by request, and damage
//! is detected at any byte.

mod support;

use blkkin_columns::{Block, Column, File, Options, Scratch, Sorted, Writer};
use blkkin_model::{Origin, Span, SpanId, SpanRef, TagRef, TraceId};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use support::{comparable_text, spans};

fn block(spans: &[Span]) -> Block {
    let mut block = Block::new();
    for span in spans {
        block.push(&span.ref_buffer().as_ref()).expect("room");
    }
    block
}

fn write(parts: &[&Sorted<'_>], options: Options) -> Vec<u8> {
    let mut writer = Writer::create(Vec::new(), options).expect("a file");
    for part in parts {
        writer.append(part).expect("written");
    }
    let (bytes, written) = writer.finish().expect("written");
    assert_eq!(written.bytes, bytes.len() as u64);
    assert_eq!(written.rows, parts.iter().map(|part| part.len() as u64).sum::<u64>());
    bytes
}

fn all(block: &Block) -> Vec<String> {
    let mut scratch = Scratch::default();
    (0..block.len() as u32)
        .map(|row| comparable_text(&block.span(row, &mut scratch).to_owned()))
        .collect()
}

fn sorted(spans: &Sorted<'_>) -> Vec<String> {
    let mut scratch = Scratch::default();
    (0..spans.len())
        .map(|index| comparable_text(&spans.span(index, &mut scratch).to_owned()))
        .collect()
}

fn small() -> Options {
    Options { rows_of_group: 7, rows_of_page: 3, ..Options::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn a_file_holds_what_was_written(
        first in spans(20),
        second in spans(20),
        range in (0..40_u64, 0..40_u64),
    ) {
        let blocks = [block(&first), block(&second)];
        let (one, both) = (Sorted::of(&[&blocks[1]]), Sorted::of(&[&blocks[0], &blocks[1]]));
        let file = File::open(write(&[&one, &both], small())).expect("ours");
        file.verify().expect("whole");
        let expected = [sorted(&one), sorted(&both)].concat();
        prop_assert_eq!(file.len(), expected.len() as u64);
        let mut read = Block::new();
        prop_assert_eq!(file.rows(0..file.len(), &mut read).expect("whole"), file.len());
        prop_assert_eq!(all(&read), &expected[..]);

        let end = range.1.min(file.len());
        read.clear();
        file.rows(range.0..end, &mut read).expect("whole");
        let few = expected.get(range.0 as usize..end as usize).unwrap_or_default();
        prop_assert_eq!(all(&read), few);

        for low in first.iter().chain(&second).map(|span| span.trace_id.low()).chain([0, 77]) {
            read.clear();
            prop_assert!(file.trace(low, &mut read).expect("whole").is_continue());
            let mut scratch = Scratch::default();
            let mut of_trace = Vec::new();
            for part in [&one, &both] {
                for index in 0..part.len() {
                    let span = part.span(index, &mut scratch);
                    if span.trace_id.low() == low {
                        of_trace.push(comparable_text(&span.to_owned()));
                    }
                }
            }
            prop_assert_eq!(all(&read), of_trace);
        }

        for wanted in first.iter().chain(&second) {
            read.clear();
            let low = wanted.trace_id.low();
            let flow = file.read_span_in_range(0..=low, Some(wanted.id), &mut read).expect("whole");
            prop_assert!(flow.is_continue());
            let mut scratch = Scratch::default();
            let mut of_id = Vec::new();
            for part in [&one, &both] {
                for index in 0..part.len() {
                    let span = part.span(index, &mut scratch);
                    if span.trace_id.low() <= low && span.id == wanted.id {
                        of_id.push(comparable_text(&span.to_owned()));
                    }
                }
            }
            prop_assert_eq!(all(&read), of_id);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    /// Values read by column equal the values of the written spans, for whole pages and for ranges
    /// of rows. `contains_trace` finds exactly the written trace ids.
    #[test]
    fn columns_agree_with_rows(all in spans(40), range in (0..40_u64, 0..40_u64)) {
        let block = block(&all);
        let sorted = Sorted::of(&[&block]);
        let file = File::open(write(&[&sorted], small())).expect("ours");
        let mut scratch = Scratch::default();
        let rows = range.0..range.1.min(file.len());
        let columns = [Column::TraceId, Column::Name, Column::StartTime, Column::TagKey];
        for is_whole in [true, false] {
            let mut next = rows.start;
            for page in file.pages(rows.clone()) {
                let mut page = if is_whole { page } else { page.restrict(&rows) };
                file.read_presence(&mut page, Column::ParentId).expect("whole");
                file.read_columns(&mut page, &columns).expect("whole");
                prop_assert!(page.rows() > 0);
                prop_assert!(is_whole || page.first_row() == next);
                for row in 0..page.rows() {
                    let span = sorted.span(page.first_row() as usize + row, &mut scratch);
                    let has_parent = !page.values(Column::ParentId, row).is_empty();
                    prop_assert_eq!(has_parent, span.parent_id.is_some());
                    prop_assert_eq!(page.trace_id(row), Some(span.trace_id));
                    prop_assert_eq!(page.text(Column::Name, row), span.name);
                    prop_assert_eq!(page.number(Column::StartTime, row), span.start_ns);
                    let keys = page.values(Column::TagKey, row);
                    let keys = keys.map(|value| page.value_text(Column::TagKey, value));
                    let own = span.tags.iter().filter(|tag| tag.origin == Origin::Span);
                    prop_assert!(keys.eq(own.map(|tag| tag.key)));
                }
                next = page.first_row() + page.rows() as u64;
            }
            prop_assert!(rows.is_empty() || next >= rows.end);
            prop_assert!(is_whole || rows.is_empty() || next == rows.end);
        }
        for low in all.iter().map(|span| span.trace_id.low()).chain([0, 77]) {
            let is_there = all.iter().any(|span| span.trace_id.low() == low);
            prop_assert_eq!(file.contains_trace(low).expect("whole"), is_there);
        }
    }
}

/// A flipped bit or a truncation is detected when the file is opened, read or verified. Spans
/// returned nevertheless equal the written spans.
#[test]
fn damage_is_found() {
    let mut runner = TestRunner::deterministic();
    let spans: Vec<Span> = (1..8_u64)
        .map(|number| {
            let mut span = support::span().new_tree(&mut runner).expect("a span").current();
            span.id = blkkin_model::SpanId::from_number(number).expect("not 0");
            span
        })
        .collect();
    let block = block(&spans);
    let whole = Sorted::of(&[&block]);
    let bytes = write(&[&whole], Options { rows_of_page: 16, bloom: false, ..small() });
    let expected = sorted(&whole);
    let read = |bytes: Vec<u8>| {
        let file = File::open(bytes)?;
        let mut block = Block::new();
        file.rows(0..file.len(), &mut block)?;
        assert_eq!(all(&block), expected);
        file.verify()
    };
    read(bytes.clone()).expect("whole");
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        assert!(read(damaged).is_err(), "byte {at} of {}", bytes.len());
        assert!(read(bytes[..at].to_vec()).is_err(), "cut at {at}");
    }
}

/// Pages stay within the limits of readers, even if heavy spans were appended from another block.
#[test]
fn heavy_spans_of_another_block_have_pages_of_their_own() {
    let id = TraceId::from_number(1).zip(SpanId::from_number(1)).expect("not 0");
    let (mut all, mut heavy) = (Block::new(), Block::new());
    all.push(&SpanRef::new(id.0, id.1)).expect("room");
    for number in 0..40 {
        let text = format!("{number}").repeat(1 << 19);
        let tags = [TagRef::text("key", &text)];
        heavy.push(&SpanRef { tags: &tags, ..SpanRef::new(id.0, id.1) }).expect("room");
    }
    all.append(&heavy).expect("room");
    let bytes = write(&[&Sorted::of(&[&all])], Options::default());
    let file = File::open(bytes).expect("ours");
    let mut read = Block::new();
    assert_eq!(file.rows(0..file.len(), &mut read).expect("whole"), 41);
}

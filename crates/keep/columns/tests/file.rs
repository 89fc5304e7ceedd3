//! What a file gives back is what was written, by row and by request, and damage is found wherever it is.

mod support;

use blkkin_columns::{Block, Column, File, Options, PageColumns, Scratch, Sorted, Writer};
use blkkin_model::Span;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::ops::ControlFlow;
use support::{said, spans};

fn block(spans: &[Span]) -> Block {
    let mut block = Block::new();
    for span in spans {
        block.push(&span.hold().as_ref()).expect("room");
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
    (0..block.len() as u32).map(|row| said(&block.span(row, &mut scratch).to_owned())).collect()
}

fn sorted(spans: &Sorted<'_>) -> Vec<String> {
    let mut scratch = Scratch::default();
    (0..spans.len()).map(|index| said(&spans.span(index, &mut scratch).to_owned())).collect()
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
                        of_trace.push(said(&span.to_owned()));
                    }
                }
            }
            prop_assert_eq!(all(&read), of_trace);
        }

        for wanted in first.iter().chain(&second) {
            read.clear();
            let low = wanted.trace_id.low();
            let flow = file.between_of(0..=low, Some(wanted.id), &mut read).expect("whole");
            prop_assert!(flow.is_continue());
            let mut scratch = Scratch::default();
            let mut of_id = Vec::new();
            for part in [&one, &both] {
                for index in 0..part.len() {
                    let span = part.span(index, &mut scratch);
                    if span.trace_id.low() <= low && span.id == wanted.id {
                        of_id.push(said(&span.to_owned()));
                    }
                }
            }
            prop_assert_eq!(all(&read), of_id);
        }

        // Names are read of pages only that have a span without a duration.
        let mut names = Vec::new();
        for group in 0..file.groups() {
            let choose = |page: &PageColumns| {
                let rows = 0..page.rows();
                let chosen: Vec<usize> =
                    rows.filter(|&row| page.number(Column::Duration, row).is_none()).collect();
                (!chosen.is_empty()).then_some(chosen)
            };
            let visit = |page: &PageColumns, rows: Vec<usize>| {
                names.extend(rows.iter().map(|&row| page.text(Column::Name, row).to_owned()));
                ControlFlow::Continue(())
            };
            let (columns, more) = ([Column::Duration], [Column::Name, Column::Duration]);
            let flow = file.scan_in_two(group, &columns, &more, choose, visit).expect("whole");
            prop_assert!(flow.is_continue());
        }
        let mut scratch = Scratch::default();
        let mut expected = Vec::new();
        for part in [&one, &both] {
            for index in 0..part.len() {
                let span = part.span(index, &mut scratch);
                expected.extend(span.duration_ns.is_none().then(|| span.name.to_owned()));
            }
        }
        prop_assert_eq!(names, expected);
    }
}

/// A flipped bit or a missing end is found when the file is opened, read or verified; what is read nevertheless is what
/// was written.
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

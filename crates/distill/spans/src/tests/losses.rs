//! Spans with a missing start or end in traces that lost events.

use super::{TreeText, report};
use crate::{Assembler, END, LOST, Limits, Oddity, Request};
use blkkin_model::ValueRef;
use std::ops::ControlFlow;

/// Checks the requests assembled from events and losses, for both orders of the events, and with
/// the losses recorded before or after the events.
#[track_caller]
fn check(input: &[(u32, &str)], losses: &[(u32, Option<i64>, Option<i64>)], expected: &str) {
    for is_reversed in [false, true] {
        for losses_first in [false, true] {
            let mut assembler = Assembler::new(Limits::default());
            let mut drawn = TreeText::default();
            let lose = |assembler: &mut Assembler| {
                losses.iter().for_each(|&(source, from, to)| assembler.add_loss(source, from, to));
            };
            if losses_first {
                lose(&mut assembler);
            }
            let mut input = input.to_vec();
            if is_reversed {
                input.reverse();
            }
            for (source, line) in input {
                let report = crate::SpanReport { source, ..report(line) };
                assert!(assembler.add(&report, 0, &mut drawn).is_continue());
            }
            if !losses_first {
                lose(&mut assembler);
            }
            assert!(assembler.finish(&mut drawn).is_continue());
            assert_eq!(drawn.0, expected, "reversed: {is_reversed}, first: {losses_first}");
        }
    }
}

const CALL: &[(u32, &str)] = &[(7, "100 1/1 a:x cs"), (7, "120 1/1 a:x sent")];

#[test]
fn an_end_may_be_lost_behind_the_start_alone() {
    let unfinished = "1\n  1 a:x client 100 (120 sent) !unfinished\n";
    let lost = "1\n  1 a:x client 100 (120 sent) blkkin.end=lost !end_lost\n";
    check(CALL, &[], unfinished);
    check(CALL, &[(7, Some(90), Some(99))], unfinished);
    check(CALL, &[(8, Some(90), Some(200))], unfinished);
    check(CALL, &[(7, Some(90), Some(100))], lost);
    check(CALL, &[(7, Some(110), Some(115))], lost);
    // A loss after later events may include the end, too.
    check(CALL, &[(7, Some(1_000_000), Some(2_000_000))], lost);
    check(CALL, &[(7, Some(10), Some(20)), (7, Some(130), Some(140)), (7, Some(30), None)], lost);
    check(CALL, &[(7, None, Some(99))], unfinished);
    check(CALL, &[(7, Some(90), None)], lost);
    check(CALL, &[(7, None, None)], lost);
    check(CALL, &[(7, Some(i64::MIN), Some(-1))], unfinished);
}

#[test]
fn a_start_may_be_lost_before_the_end_alone() {
    let ended = &[(7, "100 1/1 a:x got"), (7, "120 1/1 a:x cr")];
    let unfinished = "1\n  1 a:x client 100 (100 got) (120 cr) !unfinished\n";
    let lost = "1\n  1 a:x client 100 (100 got) (120 cr) blkkin.start=lost !start_lost\n";
    check(ended, &[(7, Some(121), Some(200))], unfinished);
    check(ended, &[(7, Some(50), Some(60))], lost);
    check(ended, &[(7, Some(50), Some(200))], lost);
}

#[test]
fn complete_spans_are_not_marked() {
    let all = &[(7, None, None)];
    check(&[(7, "100 1/1 a:x cs"), (7, "130 1/1 a:x cr")], all, "1\n  1 a:x client 100+30\n");
    // A complete span needs no other event.
    check(&[(7, "130 1/1 a:x @server 100+30")], all, "1\n  1 a:x server 100+30\n");
    check(&[(7, "130 1/1 a:x noted")], all, "1\n  1 a:x 130 (130 noted)\n");
}

#[test]
fn each_side_is_of_the_trace_that_has_it() {
    let call = &[
        (7, "100 1/1 a:x cs"),
        (8, "110 1/1 b:x sr"),
        (9, "110 1/2<1 b:y cs"),
        (9, "120 1/2<1 b:y cr"),
    ];
    check(
        call,
        &[(8, Some(115), Some(120)), (9, Some(115), Some(120))],
        "1\n  1 a:x client 100 !unfinished\n    1 b:x server shared 110 blkkin.end=lost !end_lost\n      \
         2 b:y client 110+10\n",
    );
    // The same event in two traces is a duplicate, in either order.
    check(
        &[(7, "100 1/1 a:x cs"), (8, "100 1/1 a:x cs")],
        &[(7, Some(100), Some(110))],
        "1 duplicate:1\n  1 a:x client 100 blkkin.end=lost !end_lost\n",
    );
}

#[test]
fn requests_count_what_may_be_lost() {
    let mut assembler = Assembler::new(Limits::default());
    let mut counts = Vec::new();
    let mut sink = |request: &Request<'_>| {
        let of = |oddity| request.oddities.count(oddity);
        counts.push((of(Oddity::EndLost), of(Oddity::StartLost), of(Oddity::Unfinished)));
        assert!(request.steps[0].span.tag(END) == Some(ValueRef::Str(LOST)));
        ControlFlow::Continue(())
    };
    for line in ["100 1/1 a:x cs", "100 1/2<1 a:x sr", "105 1/3<1 a:x cr", "90 1/4<1 b:x cs"] {
        assert!(assembler.add(&report(line), 0, &mut sink).is_continue());
    }
    assembler.add_loss(0, Some(95), Some(101));
    assert!(assembler.finish(&mut sink).is_continue());
    assert_eq!(counts, [(3, 1, 0)]);
}

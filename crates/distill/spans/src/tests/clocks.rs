//! Requests of several machines, whose clocks were corrected with known errors.

use super::{TreeText, report};
use crate::{Agreement, Assembler, Limits, Request, SpanClock, SpanReport};
use blkkin_ctf::clock_offsets::{Measurement, Measurements};
use blkkin_ctf::schema::{Clock, ClockOrigin, Uuid};
use blkkin_model::{CLOCK_KEY, ValueRef};
use blkkin_reader::Alignment;
use std::ops::ControlFlow;

/// Returns the correction of a machine whose clock is behind by 500 ns, with this error.
fn alignment(node: u8, error_ns: u64) -> Alignment {
    let boot = Uuid([node; 16]);
    let origin = ClockOrigin::UnixEpoch;
    let clock = Clock { uuid: Some(boot), origin, ..Clock::default() };
    let one = Measurement { monotonic_ns: 1000, tsc: 0, reference_ns: 1500, error_ns };
    let measured = Measurements { boot, list: vec![one] };
    measured.correction(&clock).expect("a correction").into()
}

/// A call between two machines: the server's start is 100 ns before its client's.
const CALL: &[(u32, &str)] =
    &[(1, "2000 1/1 web:get @client 1500+500"), (2, "1700 1/2<1 osd:read @server 1400+300")];

fn assemble(
    input: &[(u32, &str)],
    clocks: &[(u32, u8, u64)],
    look: impl Fn(&Request<'_>) + Copy,
) -> String {
    let mut assembler = Assembler::new(Limits::default());
    for (source, node, error_ns) in clocks {
        assembler.set_alignment(*source, alignment(*node, *error_ns));
    }
    let mut drawn = TreeText::default();
    let mut sink = |request: &Request<'_>| {
        look(request);
        crate::Sink::request(&mut drawn, request)
    };
    for (source, line) in input {
        let report = SpanReport { source: *source, ..report(line) };
        assert_eq!(assembler.add(&report, 0, &mut sink), ControlFlow::Continue(()));
    }
    assert_eq!(assembler.finish(&mut sink), ControlFlow::Continue(()));
    assert!(!drawn.0.is_empty(), "no request");
    drawn.0
}

#[test]
fn a_span_within_the_error_is_not_before_its_parent() {
    let draw = |first, second| assemble(CALL, &[(1, 1, first), (2, 2, second)], |_| {});
    let within = draw(50, 50);
    assert!(!within.contains("before_parent"), "{within}");
    let beyond = draw(50, 49);
    assert!(beyond.contains("!before_parent"), "{beyond}");
    // Spans of one machine have one clock.
    let same = assemble(CALL, &[(1, 1, 50), (2, 1, 50)], |_| {});
    assert!(same.contains("!before_parent"), "{same}");
}

/// Returns the tags with clocks, in the order of the spans.
fn clock_tags<'r>(request: &'r Request<'_>) -> Vec<Option<&'r str>> {
    let tag = |step: &crate::Step<'r>| {
        let tag = step.span.tags.iter().find(|tag| tag.key == CLOCK_KEY)?;
        match tag.value {
            ValueRef::Str(text) => Some(text),
            _ => None,
        }
    };
    request.steps.iter().map(tag).collect()
}

#[test]
fn spans_tell_their_clock_where_a_machine_begins() {
    let (one, two) = (Uuid([1; 16]), Uuid([2; 16]));
    let mut input = CALL.to_vec();
    input.push((2, "1690 1/3<2 osd:disk @internal 1450+200"));
    assemble(&input, &[(1, 1, 50), (2, 2, 1234)], |request| {
        let expected = [Some(format!("{one} 50")), Some(format!("{two} 1300")), None];
        assert_eq!(clock_tags(request), expected.each_ref().map(Option::as_deref));
        let clocks: Vec<_> = request.steps.iter().filter_map(|step| step.clock).collect();
        assert_eq!(clocks.iter().map(|clock| clock.offset_ns).collect::<Vec<_>>(), [500; 3]);
        assert_eq!(request.agreement(), Agreement::Within(1284));
    });
    assemble(&input, &[(1, 1, 50)], |request| {
        assert_eq!(request.agreement(), Agreement::Partial);
        assert_eq!(clock_tags(request), [Some(&*format!("{one} 50")), Some("unknown"), None]);
    });
    assemble(&input, &[(1, 1, 50), (2, 1, 60)], |request| {
        assert_eq!(request.agreement(), Agreement::Unmeasured);
        assert_eq!(clock_tags(request), [Some(&*format!("{one} 50")), None, None]);
    });
    assemble(&input, &[], |request| {
        assert_eq!(request.agreement(), Agreement::Unmeasured);
        assert_eq!(clock_tags(request), [None; 3]);
    });
}

/// A span whose times are unknown says nothing of clocks.
#[test]
fn undated_spans_have_no_clock() {
    let mut input = CALL.to_vec();
    input.push((2, "1690 1/3<2 osd:disk undated"));
    assemble(&input, &[(1, 1, 50), (2, 2, 60)], |request| {
        assert_eq!(request.agreement(), Agreement::Within(110));
        assert_eq!(clock_tags(request)[2], None);
    });
}

#[test]
fn errors_are_rounded_up() {
    let node = Uuid([1; 16]);
    let value = |error_ns| {
        let text = crate::clocks::tag_value(Some(SpanClock { node, offset_ns: 0, error_ns }));
        text.split_once(' ').expect("two parts").1.parse::<u64>().expect("a number")
    };
    for (error, rounded) in [(0, 0), (7, 7), (99, 99), (100, 100), (101, 110), (12_345, 13_000)] {
        assert_eq!(value(error), rounded, "{error}");
    }
    assert_eq!(value(u64::MAX), u64::MAX);
}

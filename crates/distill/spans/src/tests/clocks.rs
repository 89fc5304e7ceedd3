//! Requests of several machines, whose clocks were corrected with known errors.

use super::{TreeText, report};
use crate::{Agreement, Assembler, Limits, Request, SpanReport};
use blkkin_ctf::clock_offsets::{Measurement, Offsets};
use blkkin_ctf::schema::{Clock, ClockOrigin, Uuid};
use blkkin_model::{CLOCK_ERROR_KEY, ValueRef};
use blkkin_reader::Alignment;
use std::ops::ControlFlow;

/// Returns the correction of a machine whose clock is behind by 500 ns, with this error.
fn alignment(node: u8, error_ns: u64) -> Alignment {
    let boot = Uuid([node; 16]);
    let origin = ClockOrigin::UnixEpoch;
    let clock = Clock { uuid: Some(boot), origin, ..Clock::default() };
    let one = Measurement { monotonic_ns: 1000, tsc: 0, reference_ns: 1500, error_ns };
    let offsets = Offsets { boot, measurements: vec![one] };
    offsets.correction(&clock).expect("a correction").into()
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

#[test]
fn the_first_span_of_each_machine_tells_its_error() {
    let mut input = CALL.to_vec();
    input.push((2, "1690 1/3<2 osd:disk @internal 1450+200"));
    assemble(&input, &[(1, 1, 50), (2, 2, 1234)], |request| {
        let tags: Vec<Option<i64>> = request
            .steps
            .iter()
            .map(|step| {
                let tag = step.span.tags.iter().find(|tag| tag.key == CLOCK_ERROR_KEY)?;
                match tag.value {
                    ValueRef::Int(number) => Some(number),
                    _ => None,
                }
            })
            .collect();
        assert_eq!(tags, [Some(50), Some(1300), None]);
        let clocks: Vec<_> = request.steps.iter().filter_map(|step| step.clock).collect();
        assert_eq!(clocks.iter().map(|clock| clock.offset_ns).collect::<Vec<_>>(), [500; 3]);
        assert_eq!(request.agreement(), Agreement::Within(1284));
    });
    assemble(&input, &[(1, 1, 50)], |request| {
        assert_eq!(request.agreement(), Agreement::Partial);
    });
    assemble(&input, &[(1, 1, 50), (2, 1, 60)], |request| {
        assert_eq!(request.agreement(), Agreement::Unmeasured);
    });
    assemble(&input, &[], |request| {
        assert_eq!(request.agreement(), Agreement::Unmeasured);
        let tags = request.steps.iter().flat_map(|step| step.span.tags);
        assert!(tags.into_iter().all(|tag| tag.key != CLOCK_ERROR_KEY));
    });
}

#[test]
fn errors_are_rounded_up() {
    for (error, rounded) in [(0, 0), (7, 7), (99, 99), (100, 100), (101, 110), (12_345, 13_000)] {
        assert_eq!(crate::clocks::rounded(error), rounded, "{error}");
    }
    assert_eq!(crate::clocks::rounded(u64::MAX), u64::MAX);
}

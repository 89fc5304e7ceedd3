//! Completion and eviction of requests.

use super::{TreeText, assemble, check_with, report};
use crate::{Assembler, Limits};
use std::ops::ControlFlow;

const IDLE_10: Limits = Limits {
    idle_ns: 10,
    idle_unended_ns: 0,
    awaits_callers: true,
    bytes: 1 << 20,
    spans: 1000,
    bytes_of_request: 1 << 20,
    spans_of_request: 1000,
    correct_skew: false,
};

#[test]
fn requests_are_given_out_when_nothing_has_come_for_a_while() {
    let mut assembler = Assembler::new(IDLE_10);
    let mut drawn = TreeText::default();
    let mut add = |line| {
        let report = report(line);
        assert!(assembler.add(&report, report.time_ns as i64, &mut drawn).is_continue());
        std::mem::take(&mut drawn.0)
    };
    assert_eq!(add("100 1/1 a:x e"), "");
    assert_eq!(add("105 2/2 b:y e"), "");
    assert_eq!(add("108 1/1 a:x f"), "");
    assert_eq!(add("115 3/3 c:z e"), "");
    assert_eq!(add("116 3/3 c:z f"), "2\n  2 b:y 105 (105 e)\n");
    // A late request is marked.
    assert_eq!(add("117 2/2 b:y late"), "");
    assert_eq!(add("119 3/3 c:z g"), "1\n  1 a:x 100+8 (100 e) (108 f)\n");
    assert_eq!(
        add("200 4/4 d:w e").lines().collect::<Vec<_>>(),
        ["2 late:1", "  2 b:y 117 (117 late)", "3", "  3 c:z 115+4 (115 e) (116 f) (119 g)",]
    );
    assert_eq!(assembler.open(), 1);
    let counts = assembler.counts();
    assert_eq!((counts.requests, counts.spans, counts.events), (4, 4, 8));
    assert_eq!((counts.late, counts.evicted, counts.left_out), (1, 0, 0));
}

/// A span that has not ended keeps its request open, for at most `idle_unended_ns`. A request with
/// a slow disk access was once emitted in two parts.
#[test]
fn spans_that_have_not_ended_are_waited_for() {
    let mut assembler = Assembler::new(Limits { idle_unended_ns: 50, ..IDLE_10 });
    let mut drawn = TreeText::default();
    let mut add = |line| {
        let report = report(line);
        assert!(assembler.add(&report, report.time_ns as i64, &mut drawn).is_continue());
        std::mem::take(&mut drawn.0)
    };
    // Request 1 has an event of a span, and the end of another span whose parent has no end.
    // Request 2 has all ends.
    assert_eq!(add("100 1/2<1 a:x sent"), "");
    assert_eq!(add("101 1/3<2 b:y @server 100+1"), "");
    assert_eq!(add("102 2/4 c:z @server 102+1"), "");
    assert_eq!(add("120 9/9 d:w e"), "2\n  4 c:z server 102+1\n");
    assert_eq!(add("140 1/2<1 a:x @client 99+40"), "");
    assert_eq!(add("145 1/1 a:x @server 98+47"), "");
    let whole = "1\n  1 a:x server 98+47 self 7\n    2 a:x client 99+40 self 39 (100 sent)\n      3 b:y server 100+1\n";
    assert_eq!(add("156 8/8 d:w @server 156+1"), whole);
    // Span 9 never ends.
    assert_eq!(add("169 7/7 d:w @server 169+1"), "8\n  8 d:w server 156+1\n");
    assert_eq!(
        add("180 6/6 d:w @server 180+1"),
        "7\n  7 d:w server 169+1\n9\n  9 d:w 120 (120 e)\n"
    );
}

/// A server's caller may be on another machine, whose events another assembler gets.
#[test]
fn callers_elsewhere_are_not_waited_for() {
    let limits = Limits { idle_unended_ns: 50, awaits_callers: false, ..IDLE_10 };
    let mut assembler = Assembler::new(limits);
    let mut drawn = TreeText::default();
    let mut add = |line| {
        let report = report(line);
        assert!(assembler.add(&report, report.time_ns as i64, &mut drawn).is_continue());
        std::mem::take(&mut drawn.0)
    };
    assert_eq!(add("90 1/3 wide 7"), "");
    assert_eq!(add("100 1/3<2 b:y key=value"), "");
    assert_eq!(add("101 1^7/3<2 b:y @server 100+1"), "");
    // The caller of an internal span is on the same machine.
    assert_eq!(add("102 2/4<3 c:z @internal 102+1"), "");
    let id = "70000000000000001";
    let first = format!("{id}\n  3 b:y server 100+1 key=value !missing_parent\n");
    assert_eq!(add("120 9/9 d:w @server 120+1"), first);
    // A part that follows has the same trace id.
    assert_eq!(add("121 1/2 a:x @server 90+31"), "");
    let second = format!("{id} late:1\n  2 a:x server 90+31\n");
    assert_eq!(add("140 8/8 d:w @server 140+1"), format!("9\n  9 d:w server 120+1\n{second}"));
    assert_eq!(add("141 2/3 c:z @server 101+40"), "");
    let whole = "2\n  3 c:z server 101+40 self 39\n    4 c:z internal 102+1\n";
    assert_eq!(add("160 7/7 d:w @server 160+1"), format!("8\n  8 d:w server 140+1\n{whole}"));
    // Another request with the same lower half has its own upper half.
    assert_eq!(add("161 1/4 wide 9"), "");
    assert_eq!(add("162 1/4 e:v sent"), "");
    let other = "90000000000000001 late:1\n  4 e:v 162 (162 sent)\n";
    assert_eq!(add("230 6/6 d:w @server 230+1"), format!("7\n  7 d:w server 160+1\n{other}"));
}

#[test]
fn time_does_not_go_back() {
    let mut assembler = Assembler::new(IDLE_10);
    let mut drawn = TreeText::default();
    for line in ["100 1/1 a:x e", "5 2/2 a:x e", "111 3/3 a:x e"] {
        let report = report(line);
        assert!(assembler.add(&report, report.time_ns as i64, &mut drawn).is_continue());
    }
    assert_eq!(drawn.0, "1\n  1 a:x 100 (100 e)\n2\n  2 a:x 5 (5 e)\n");
}

#[test]
fn where_room_is_short_the_oldest_goes() {
    let limits = Limits { spans: 2, ..IDLE_10 };
    let (drawn, assembler) =
        assemble(limits, "1 1/1 a:x e\n 2 2/2 a:x e\n 3 1/1 a:x f\n 4 3/3 a:x e\n 5 2/2 a:x f");
    assert_eq!(
        drawn,
        "2 evicted\n  2 a:x 2 (2 e)\n\
         1 evicted\n  1 a:x 1+2 (1 e) (3 f)\n\
         3\n  3 a:x 4 (4 e)\n\
         2 late:1\n  2 a:x 5 (5 f)\n"
    );
    assert_eq!((assembler.counts().evicted, assembler.counts().late), (2, 1));
}

#[test]
fn memory_is_bounded() {
    let bytes = 100_000;
    let limits = Limits { bytes, idle_ns: u64::MAX, ..Limits::default() };
    let mut assembler = Assembler::new(limits);
    let mut events = 0;
    let mut count = |request: &crate::Request<'_>| {
        events += request.events;
        ControlFlow::Continue(())
    };
    let mut most = 0;
    for number in 1..20_000u64 {
        let line = format!(
            "{number} {}/{} a:x key={}",
            number / 3 + 1,
            number,
            "x".repeat(number as usize % 50)
        );
        assert!(assembler.add(&report(&line), 0, &mut count).is_continue());
        assert!(assembler.bytes() <= bytes, "{}", assembler.bytes());
        most = most.max(assembler.bytes());
    }
    assert!(most > bytes / 2);
    assert!(assembler.finish(&mut count).is_continue());
    assert_eq!(events, 19_999);
    assert!(assembler.counts().evicted > 1000);
}

#[test]
fn a_request_that_is_too_large_is_cut_and_marked() {
    let limits = Limits { spans_of_request: 2, ..IDLE_10 };
    check_with(
        limits,
        "1 1/1 a:x e
         2 1/2<1 a:y e
         2 1/2<1 a:y e
         2 1/2<1 a:y e
         1 1/1 a:x e",
        "\n1 duplicate:3\n  1 a:x 1 (1 e)\n    2 a:y 2 (2 e)\n",
    );
    let (drawn, assembler) = assemble(
        limits,
        "1 1/1 a:x e\n 2 1/2<1 a:y e\n 3 1/3<1 a:z e\n 4 1/1 a:x f\n 5 1/4<1 a:z e",
    );
    assert_eq!(drawn, "1 left_out:2\n  1 a:x 1+3 (1 e) (4 f)\n    2 a:y 2 (2 e)\n");
    let counts = assembler.counts();
    assert_eq!((counts.cut, counts.left_out), (1, 2));
    // Limit by bytes.
    let limits = Limits { bytes_of_request: 4000, ..IDLE_10 };
    let text: String = (0..1000).map(|time| format!("{time} 1/1 a:x key{time}=value\n")).collect();
    let (drawn, assembler) = assemble(Limits { idle_ns: u64::MAX, ..limits }, &text);
    let left_out = assembler.counts().left_out;
    assert!((800..1000).contains(&left_out), "{left_out}");
    assert!(drawn.starts_with(&format!("1 left_out:{left_out}\n  1 a:x 0+")), "{drawn}");
}

#[test]
fn a_sink_can_stop_the_assembler() {
    let mut assembler = Assembler::new(IDLE_10);
    let mut seen = 0;
    let mut one = |_: &crate::Request<'_>| {
        seen += 1;
        ControlFlow::Break(())
    };
    for line in ["1 1/1 a:x e", "2 2/2 a:x e"] {
        assert!(assembler.add(&report(line), 0, &mut one).is_continue());
    }
    assert!(assembler.finish(&mut one).is_break());
    assert_eq!(seen, 1);
}

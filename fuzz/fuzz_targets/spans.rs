//! Fuzzes the assembly of requests from any events in any order. Each event with a trace id and a
//! span id is in exactly one request, unless the request exceeds its limit of spans, or it is an
//! activity of an unknown span. A step follows its parent. Own times add up to the self time.
//! Memory stays within its limit, pictures stay within their width, and JSON is valid.
//!
//! The first byte selects the limits and the width of pictures. Each event then has eleven bytes:
//! time, trace, span, parent, and seven bytes for name, endpoint and content. The ids are small
//! numbers, so that many events belong to the same spans.
#![no_main]

use blkkin_model::{Kind, ValueRef};
use blkkin_spans::{
    Activity, Assembler, BANDS_MAX, CompleteSpan, Limits, Oddity, OwnKind, ReportContent, Request,
    SpanReport,
};
use blkkin_text::requests::{Options, TreePrinter, json};
use libfuzzer_sys::fuzz_target;
use std::ops::ControlFlow;

const TEXTS: [&str; 16] = [
    "",
    "cs",
    "cr",
    "sr",
    "ss",
    "ms",
    "mr",
    "ws",
    "wr",
    "ca",
    "sa",
    "ma",
    "lc",
    "a",
    "10.0.0.1",
    "a text that is long\nand has \"two\" lines \u{1b}[31m\u{e4}",
];

fn number(byte: u8) -> u64 {
    match byte {
        0..240 => byte.into(),
        240..250 => u64::MAX - u64::from(byte - 240),
        _ => (i64::MAX as u64).wrapping_add(u64::from(byte - 250)),
    }
}

fn text(byte: u8) -> &'static str {
    TEXTS[usize::from(byte % 16)]
}

/// Returns an activity of one of the three kinds, on one of three threads or an unknown one.
fn activity(choice: u8, detail: u8, thread: u8, one: u8, two: u8) -> Activity<'static> {
    let (first, second) = (number(one), number(two));
    let thread = (thread % 4 > 0).then_some(u32::from(thread % 4));
    match choice % 4 {
        0 => Activity::Run { start_ns: first, duration_ns: second, thread },
        1 => Activity::Disk { device: text(detail), queued_ns: first, served_ns: second },
        _ => Activity::Wait {
            reason: OwnKind::ALL[usize::from(choice / 4) % OwnKind::ALL.len()],
            call: text(detail),
            blocked_ns: first,
            runnable_ns: second,
            waker: detail.into(),
            thread,
        },
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, events)) = bytes.split_first() else { return };
    let limits = Limits {
        idle_ns: if choice & 1 == 0 { u64::MAX } else { 20 },
        bytes: if choice & 2 == 0 { 1 << 30 } else { 4000 },
        spans_of_request: if choice & 4 == 0 { 1000 } else { 3 },
        correct_skew: choice & 8 != 0,
        ..Limits::default()
    };
    let width = 20 + usize::from(choice >> 4) * 8;
    let options = Options {
        color: false,
        ascii: false,
        width,
        annotations: true,
        kernel: true,
        utc: true,
        absolute: true,
    };
    let mut printer = TreePrinter::new(options);
    let mut seen = 0;
    let mut sink = |request: &Request<'_>| {
        seen += request.events;
        for (at, step) in request.steps.iter().enumerate() {
            match step.parent {
                Some(parent) => {
                    assert!(parent < at && step.depth == request.steps[parent].depth + 1);
                }
                None => assert_eq!(step.depth, 0),
            }
            assert!(step.self_ns <= step.span.duration_ns);
            if let Some(own) = &step.own {
                assert_eq!(Some(own.total_ns()), step.self_ns);
                assert!(own.bands.len() <= BANDS_MAX);
                assert!(own.bands.windows(2).all(|pair| pair[0].end_ns() <= pair[1].start_ns));
            }
            step.with_own_tags(|span| assert!(span.tags.is_sorted_by_key(|tag| tag.key)));
            assert!(step.span.annotations.is_sorted());
            assert!(step.span.parent_id != Some(step.span.id));
            assert_eq!(step.moved_ns.is_some(), step.has_oddity(Oddity::Moved));
        }
        let mut picture = String::new();
        printer.print(&mut picture, request);
        assert!(picture.lines().all(|line| line.chars().count() <= width.max(42)), "{picture}");
        let mut lines = Vec::new();
        json::request(&mut lines, request);
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            serde_json::from_slice::<serde_json::Value>(line).expect("JSON");
        }
        ControlFlow::Continue(())
    };
    let mut assembler = Assembler::new(limits);
    assembler.add_loss(1, Some(5), Some(100));
    assembler.add_loss(2, None, Some(i64::MIN));
    let mut parts = 0;
    for event in events.chunks_exact(11) {
        let &[time, trace, span, parent, name, service, ip, port, kind, one, two] = event else {
            return;
        };
        let content = match kind % 8 {
            0..3 => ReportContent::Event(text(one)),
            3 => ReportContent::KeyValue(text(one), ValueRef::Str(text(two))),
            4 => ReportContent::KeyValue(text(one), ValueRef::Int(two.into())),
            5 if kind >= 32 => ReportContent::Activity(activity(name, service, ip, one, two)),
            5 => ReportContent::WideTraceId,
            6 if two % 4 == 0 => ReportContent::Undated(Kind::Server),
            _ => ReportContent::Span(CompleteSpan {
                start_ns: number(one),
                duration_ns: number(two),
                kind: [Kind::Internal, Kind::Client, Kind::Server][usize::from(kind / 8 % 3)],
                debug: kind & 128 != 0,
                target: "",
                fields: &[],
            }),
        };
        let report = SpanReport {
            trace_id: u64::from(trace % 4),
            trace_id_high: if trace >= 224 { u64::from(trace % 32 / 8) } else { 0 },
            span_id: u64::from(span % 16),
            parent_id: u64::from(parent % 16),
            name: text(name),
            service: text(service),
            ip: text(ip),
            port: i32::from(port as i8) * 300,
            time_ns: number(time),
            source: u32::from(kind / 64),
            content,
        };
        parts += u64::from(
            content != ReportContent::WideTraceId
                && report.span_id != 0
                && (report.trace_id, report.trace_id_high) != (0, 0),
        );
        assert!(assembler.add(&report, time.into(), &mut sink).is_continue());
        assert!(assembler.bytes() <= limits.bytes);
    }
    assert!(assembler.finish(&mut sink).is_continue());
    assert_eq!((assembler.bytes(), assembler.open()), (0, 0));
    if limits.spans_of_request == 1000 {
        assert_eq!(seen + assembler.counts().unmatched, parts);
    }
});

//! Requests designed to consume time or memory.

use super::{TreeText, report};
use crate::{Assembler, CompleteSpan, Limits, Oddity, ReportContent, Request, Sink, SpanReport};
use blkkin_model::Kind;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// Time limit of one assembly. An algorithm that is quadratic in the number of spans should exceed
/// this limit.
const PATIENCE: Duration = Duration::from_secs(20);

fn assemble(all: impl Iterator<Item = SpanReport<'static>>, sink: &mut impl Sink) -> Assembler {
    let start = Instant::now();
    let mut assembler = Assembler::new(Limits { spans_of_request: 1 << 20, ..Limits::default() });
    for report in all {
        assert!(assembler.add(&report, 0, sink).is_continue());
    }
    assert!(assembler.finish(sink).is_continue());
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    assembler
}

fn base() -> SpanReport<'static> {
    report("5 1/1 a:x e")
}

#[test]
fn ids_of_zero_are_left_out() {
    let mut drawn = TreeText::default();
    let no_trace = SpanReport { trace_id: 0, ..base() };
    let no_span = SpanReport { span_id: 0, ..base() };
    let assembler = assemble([no_trace, no_span].into_iter(), &mut drawn);
    assert_eq!((drawn.0.as_str(), assembler.counts().left_out), ("", 2));
}

/// Assembly takes less than quadratic time in the number of spans. The inputs are a chain, a star,
/// a single cycle, many cycles, spans that share one id, and pseudo-random parents. All spans have
/// the same start.
#[test]
fn assembly_is_not_quadratic() {
    const SPANS: u64 = 100_000;
    let forms: [fn(u64) -> (u64, u64); 6] = [
        |span| (span, span - 1),
        |span| (span, u64::from(span > 1)),
        |span| (span, span % SPANS + 1),
        |span| (span, if span % 2 == 0 { span + 1 } else { span - 1 }),
        |_| (1, 0),
        |span| (span, span * 7919 % SPANS + 1),
    ];
    for (number, form) in forms.into_iter().enumerate() {
        let mut steps = 0;
        let mut count = |request: &Request<'_>| {
            steps += request.steps.len() as u64;
            assert!(
                request
                    .steps
                    .iter()
                    .zip(0..)
                    .all(|(step, at)| step.parent.is_none_or(|parent| parent < at))
            );
            ControlFlow::Continue(())
        };
        assemble(
            (1..=SPANS).map(|span| {
                let (span_id, parent_id) = form(span);
                let whole = CompleteSpan {
                    start_ns: 0,
                    duration_ns: span,
                    kind: Kind::Internal,
                    debug: false,
                    target: "",
                    fields: &[],
                };
                SpanReport { span_id, parent_id, content: ReportContent::Span(whole), ..base() }
            }),
            &mut count,
        );
        assert_eq!(steps, if number == 4 { 64 } else { SPANS }, "form {number}");
    }
}

#[test]
fn many_services_of_one_span_are_one_in_the_end() {
    let names: Vec<&'static str> = (0..10_000)
        .map(|number| &*Box::leak(format!("service {number}").into_boxed_str()))
        .collect();
    let mut count = |request: &Request<'_>| {
        assert_eq!(request.steps.len(), 64);
        assert_eq!(request.oddities.count(Oddity::ManyServices), 1);
        let annotations = request.steps.iter().map(|step| step.span.annotations.len());
        assert_eq!(annotations.sum::<usize>(), 10_000);
        ControlFlow::Continue(())
    };
    assemble(
        (1..).zip(names).map(|(time_ns, service)| SpanReport { service, time_ns, ..base() }),
        &mut count,
    );
}

#[test]
fn times_and_texts_may_be_anything() {
    let mut drawn = TreeText::default();
    let text: &'static str = Box::leak("x".repeat(1 << 20).into_boxed_str());
    let whole = CompleteSpan {
        start_ns: u64::MAX,
        duration_ns: u64::MAX,
        kind: Kind::Client,
        debug: true,
        target: text,
        fields: &[],
    };
    assemble(
        [
            SpanReport { time_ns: 0, ..base() },
            SpanReport { time_ns: u64::MAX, port: i32::MIN, name: text, ..base() },
            SpanReport {
                span_id: u64::MAX,
                parent_id: u64::MAX,
                content: ReportContent::Span(whole),
                ..base()
            },
        ]
        .into_iter(),
        &mut drawn,
    );
    assert!(drawn.0.starts_with("1\n  1 a:x 0+18446744073709551615"), "{}", &drawn.0[..100]);
}

//! Tests of the current span that observers outside of the program find while a span of `tracing`
//! is entered. The tests act as the agent of a program, which is an ignored test of this file, run
//! as a separate process.

#[path = "../../trace/tests/support/daemon.rs"]
mod support;

use blkkin_sys::testing::own_test;
use blkkin_sys::thread_slot;
use blkkin_trace::control::current_span::CurrentSpan;
use blkkin_trace::sample::{self, Sampling};
use support::{Event, TestAgent};
use tracing::{Dispatch, Span, dispatcher, info_span};
use tracing_subscriber::layer::SubscriberExt;

/// Runs a program of this file, all of whose events are recorded.
fn run(name: &str) -> (support::Program, TestAgent) {
    let agent = TestAgent::new(&format!("layer-{name}"));
    let mut command = own_test::<&str>(&[], name);
    command.env("BLKKIN_SOCKET", &agent.path).env("BLKKIN_WAIT", "30000");
    let mut child = command.spawn().unwrap();
    let mut program = agent.program();
    program.add(0, &[]);
    program.enable(0, &[support::rule("*"), support::rule("blkkin:run")]);
    program.ping();
    assert!(child.wait().unwrap().success());
    (program, agent)
}

#[test]
fn the_entered_span_is_the_current_one() {
    drop(run("enters_spans"));
}

/// The runs of spans that a program enters in turn, like an executor of futures, are exact.
#[test]
fn entered_spans_have_runs() {
    let (mut program, _agent) = run("takes_turns");
    let events = program.events(0);
    let number = |event: &Event, at: usize| {
        u64::from_le_bytes(event.fields[at][..].try_into().expect("8 bytes"))
    };
    // Ids and period: start and duration are the last fields of both event types.
    let period = |event: &Event| {
        let start_at = if event.name == "blkkin:run" { 3 } else { 4 };
        let start = number(event, start_at);
        let ids = [0, 1, 2].map(|at| number(event, at));
        (ids, start, start + number(event, start_at + 1))
    };
    let named = |name: &str| {
        let named = events.iter().filter(|event| event.name == name);
        let mut periods: Vec<_> = named.map(period).collect();
        periods.sort_by_key(|(_, _, end)| *end);
        periods
    };
    let (runs, inside) = (named("blkkin:run"), named("current_span:inside"));
    let [first] = named("current_span:first")[..] else { panic!("{events:?}") };
    let [second] = named("current_span:second")[..] else { panic!("{events:?}") };
    let expected = [first, second, first, first, second];
    assert_eq!(runs.len(), expected.len(), "{runs:?}");
    assert_eq!(inside.len(), runs.len());
    for ((run, span), inside) in runs.iter().zip(&expected).zip(&inside) {
        assert_eq!(run.0, span.0, "{runs:?}");
        for (outer, inner) in [(span, run), (run, inside)] {
            assert!(outer.1 <= inner.1 && inner.2 <= outer.2, "{outer:?} {inner:?}");
        }
    }
}

/// Program: enters two spans in turn, and then exits the outer one first. Creates a short span each
/// time.
#[test]
#[ignore = "a program of other tests"]
fn takes_turns() {
    let subscriber = tracing_subscriber::registry().with(blkkin_tracing::layer());
    dispatcher::with_default(&Dispatch::new(subscriber), || {
        let inside = || drop(info_span!("inside"));
        let (first, second) = (info_span!("first"), info_span!("second"));
        for span in [&first, &second, &first] {
            span.in_scope(inside);
        }
        let outer = first.clone().entered();
        inside();
        let inner = second.clone().entered();
        drop(outer);
        inside();
        drop(inner);
    });
}

/// Returns what an observer of this thread sees.
fn observed() -> CurrentSpan {
    CurrentSpan::of_words(thread_slot::get())
}

/// Checks that an observer of this thread sees the current span of `tracing`, and returns it.
#[track_caller]
fn check_current() -> CurrentSpan {
    let context = blkkin_tracing::current_context().unwrap();
    let (trace_id, span_id) = (context.trace_id.number(), context.span_id.number());
    let expected = CurrentSpan::Span { trace_id, span_id };
    assert_eq!(observed(), expected);
    expected
}

/// Program: enters and exits spans, and checks what an observer sees.
#[test]
#[ignore = "a program of other tests"]
fn enters_spans() {
    let subscriber = tracing_subscriber::registry().with(blkkin_tracing::layer());
    dispatcher::with_default(&Dispatch::new(subscriber), || {
        let outer = info_span!("outer");
        assert_eq!(observed(), CurrentSpan::None, "not entered yet");
        outer.in_scope(|| {
            let of_outer = check_current();
            let inner = info_span!("inner");
            assert_ne!(inner.in_scope(check_current), of_outer);
            assert_eq!(outer.in_scope(check_current), of_outer, "entered twice");
            assert_eq!(check_current(), of_outer);
            exits_in_any_order(&outer, &inner);
            assert_eq!(check_current(), of_outer);
            hides_requests_that_are_not_sampled();
            assert_eq!(check_current(), of_outer);
        });
        assert_eq!(observed(), CurrentSpan::None);
        works_on_another_thread(&outer);
    });
}

fn exits_in_any_order(outer: &Span, inner: &Span) {
    let before = observed();
    let other = info_span!(parent: None, "other");
    let first = other.clone().entered();
    let of_other = check_current();
    let second = inner.clone().entered();
    let of_inner = check_current();
    let third = outer.clone().entered();
    drop(second);
    assert_eq!(observed(), before, "the third is entered");
    drop(third);
    assert_eq!(observed(), of_other);
    let second = inner.clone().entered();
    drop(first);
    assert_eq!(observed(), of_inner);
    drop(second);
    assert_eq!(observed(), before);
}

fn hides_requests_that_are_not_sampled() {
    let sampling = sample::global().rules();
    sample::global().set(Sampling::NONE);
    let unsampled = info_span!(parent: None, "unsampled");
    sample::global().set(sampling);
    unsampled.in_scope(|| assert_eq!(observed(), CurrentSpan::None));
}

fn works_on_another_thread(span: &Span) {
    let dispatch = dispatcher::get_default(Dispatch::clone);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            dispatcher::with_default(&dispatch, || {
                assert_eq!(observed(), CurrentSpan::None);
                span.in_scope(check_current);
                assert_eq!(observed(), CurrentSpan::None);
            });
        });
    });
}

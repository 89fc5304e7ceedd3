//! Tests of the current span that observers outside of the program find while a span of `tracing`
//! is entered. The tests act as the agent of a program, which is an ignored test of this file, run
//! as a separate process.

#[path = "../../trace/tests/support/daemon.rs"]
mod support;

use blkkin_sys::testing::own_test;
use blkkin_sys::thread_slot;
use blkkin_trace::control::current_span::CurrentSpan;
use blkkin_trace::sample::{self, Sampling};
use support::TestAgent;
use tracing::{Dispatch, Span, dispatcher, info_span};
use tracing_subscriber::layer::SubscriberExt;

#[test]
fn the_entered_span_is_the_current_one() {
    let agent = TestAgent::new("layer-current");
    let mut command = own_test::<&str>(&[], "enters_spans");
    command.env("BLKKIN_SOCKET", &agent.path).env("BLKKIN_WAIT", "30000");
    let mut child = command.spawn().unwrap();
    let mut program = agent.program();
    program.add(0, &[]);
    program.enable(0, &[support::rule("*")]);
    program.ping();
    assert!(child.wait().unwrap().success());
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

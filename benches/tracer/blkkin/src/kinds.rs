//! Records one kind of event repeatedly, and prints the cost of an operation; see [`harness`] for
//! the arguments. The active session determines whether and how events are recorded.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that says what it measured on standard output"
)]

mod annotations;
mod harness;

use annotations::{Annotation, annotations};
use blkkin_trace::sample::Sampling;
use blkkin_trace::{Level, Sampler, event};
use harness::{Kind, Work};
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::LazyLock;

static ANNOTATIONS: LazyLock<[Annotation; 4]> = LazyLock::new(|| annotations(&Sampler::new()));

/// Annotations of four requests that are not sampled.
static UNSAMPLED: LazyLock<[Annotation; 4]> = LazyLock::new(|| {
    let nobody = Sampler::new();
    nobody.set(Sampling::NONE);
    annotations(&nobody)
});

const KINDS: [Kind; 8] = [
    Kind { name: "one", record: one, idle: numbers, events: 1 },
    Kind { name: "annotation", record: annotation, idle: over_annotations, events: 1 },
    Kind { name: "blkin-span", record: child_span, idle: over_annotations, events: 2 },
    Kind { name: "span", record: span, idle: over_annotations, events: 1 },
    Kind { name: "unsampled-span", record: unsampled_span, idle: over_annotations, events: 0 },
    Kind { name: "enter", record: enter, idle: over_annotations, events: 0 },
    Kind { name: "run", record: enter, idle: over_annotations, events: 1 },
    Kind { name: "unsampled-enter", record: unsampled_enter, idle: over_annotations, events: 0 },
];

fn main() -> ExitCode {
    LazyLock::force(&ANNOTATIONS);
    LazyLock::force(&UNSAMPLED);
    harness::main(&KINDS)
}

fn one(work: &Work) {
    for i in work.operations() {
        event!(Level::Info, "bench:one", number = i as i32);
    }
}

fn numbers(work: &Work) {
    for i in work.operations() {
        black_box(i);
    }
}

/// Calls `operation` once for each number in `work`, with the annotations in turn. `black_box`
/// costs as much as a cheap operation, so it is called once for all four annotations.
#[inline(always)]
fn each(of: &'static [Annotation; 4], work: &Work, operation: impl Fn(&Annotation)) {
    let operations = work.operations();
    let mut left = (operations.end - operations.start) as usize;
    while left >= of.len() {
        black_box(of).iter().for_each(&operation);
        left -= of.len();
    }
    black_box(of)[..left].iter().for_each(&operation);
}

fn annotation(work: &Work) {
    each(&ANNOTATIONS, work, |one| one.trace.keyval(one.key, one.val));
}

/// Records child spans with new span ids, each as two annotations.
fn child_span(work: &Work) {
    each(&ANNOTATIONS, work, |one| {
        let child = one.trace.child(one.trace.name());
        child.keyval(one.key, one.val);
        child.keyval(one.key, one.val);
    });
}

/// Records child spans with new span ids, each as a single event when the span ends.
fn span(work: &Work) {
    each(&ANNOTATIONS, work, |one| one.trace.child(one.trace.name()).span().end());
}

fn unsampled_span(work: &Work) {
    each(&UNSAMPLED, work, |one| one.trace.child(one.trace.name()).span().end());
}

/// Enters and exits spans, which become the thread's current span. Each exit ends a run, which is
/// recorded if the session wants runs.
fn enter(work: &Work) {
    each(&ANNOTATIONS, work, |one| drop(one.trace.enter()));
}

fn unsampled_enter(work: &Work) {
    each(&UNSAMPLED, work, |one| drop(one.trace.enter()));
}

fn over_annotations(work: &Work) {
    each(&ANNOTATIONS, work, |one| {
        black_box((&one.trace, one.key, one.val));
    });
}

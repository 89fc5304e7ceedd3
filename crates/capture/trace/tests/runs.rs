//! Tests of the runs of spans, which a thread records when it stops to show a span as its current
//! one. The tests act as the agent of programs, which are ignored tests of this file, run as
//! separate processes.
//!
//! The programs record short spans with digits as names, the markers, while they show other spans.
//! A test compares a text such as `root [1]`, for a run of the span `root` during which the marker
//! 1 started and ended.

#[path = "support/daemon.rs"]
mod support;

use blkkin_sys::testing::{Fork, in_child, own_test, while_interrupted};
use blkkin_trace::context::Decision;
use blkkin_trace::sample::Sampling;
use blkkin_trace::{Endpoint, Sampler, Span, SpanContext, SpanId, Trace, TraceId};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use support::{Event, Program, TestAgent, filtered, rule};

static ALL: Sampler = Sampler::new();
static OSD: Endpoint<'static> = Endpoint::named("osd.3");

/// A program, connected to a test agent, that waits for its next step.
struct RunningProgram {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    program: Program,
    agent: TestAgent,
}

/// Prefix of lines that a program prints, to distinguish them from lines of the test harness.
const MARK: &str = "program: ";

/// Patterns of all events of spans. The one with a star does not enable runs.
const WITH_RUNS: &str = "blkkin:* blkkin:run";

/// Returns a rule for each of the patterns.
fn rules(events: &str) -> Vec<blkkin_trace::control::EventRule> {
    events.split(' ').map(rule).collect()
}

impl RunningProgram {
    /// Starts a program, which waits before its `main` for the agent's rules: to record the events
    /// whose names match one of the patterns in `events`.
    fn start(name: &str, events: &str) -> RunningProgram {
        let agent = TestAgent::new(&format!("runs-{name}"));
        let mut command = own_test::<&str>(&[], name);
        command.env("BLKKIN_SOCKET", &agent.path).env("BLKKIN_WAIT", "30000");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut program = agent.program();
        program.add(0, &[]);
        program.enable(0, &rules(events));
        program.ping();
        RunningProgram { child, input, output: BufReader::new(output), program, agent }
    }

    /// Changes the rules of the channel.
    fn enable(&mut self, events: &str) {
        self.program.enable(0, &rules(events));
        self.program.ping();
    }

    /// Waits until the program has printed a line.
    #[track_caller]
    fn wait_for_line(&mut self) {
        let mut line = String::new();
        while !line.contains(MARK) {
            line.clear();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "it has ended");
        }
    }

    #[track_caller]
    fn go_on(&mut self) {
        self.input.write_all(b"\n").unwrap();
    }

    /// Waits for the program's end, checks that it ends successfully, and returns its events.
    #[track_caller]
    fn end(mut self) -> Recorded {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success(), "{rest}");
        Recorded::of(&self.program.events(0))
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Prints a line for the test, in the program's process.
fn print_line() {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{MARK}").unwrap();
    output.flush().unwrap();
}

/// Waits for the next step, in the program's process. Returns false at the end of the input.
fn wait_for_step() -> bool {
    print_line();
    std::io::stdin().read_line(&mut String::new()).unwrap() > 0
}

/// The ids of a span: trace id, lower and upper half, and span id.
type Ids = [u64; 3];

#[derive(Clone, Copy, Debug)]
struct Period {
    ids: Ids,
    start: u64,
    end: u64,
}

impl Period {
    /// Reads ids, start and duration from the fields of an event.
    fn of(event: &Event, duration_at: usize) -> Period {
        let number = |at: usize| u64::from_le_bytes(event.fields[at][..].try_into().unwrap());
        let start = number(duration_at - 1);
        Period { ids: [0, 1, 2].map(number), start, end: start + number(duration_at) }
    }

    fn contains(&self, other: &Period) -> bool {
        self.start <= other.start && other.end <= self.end
    }
}

/// The events of a program.
#[derive(Debug, Default)]
struct Recorded {
    /// Runs, by their end.
    runs: Vec<Period>,
    /// Spans with their names, by their end.
    spans: Vec<(String, Period)>,
}

impl Recorded {
    fn of(events: &[Event]) -> Recorded {
        let mut recorded = Recorded::default();
        for event in events {
            match &*event.name {
                "blkkin:run" => recorded.runs.push(Period::of(event, 4)),
                "blkkin:span" => {
                    let name = String::from_utf8(event.fields[9].clone()).unwrap();
                    recorded.spans.push((name, Period::of(event, 5)));
                }
                name => assert_eq!(name, "blkkin:wide_trace_id"),
            }
        }
        recorded.runs.sort_by_key(|run| run.end);
        recorded.spans.sort_by_key(|(_, span)| span.end);
        recorded
    }

    /// Returns each run as a line: the span's name, and the markers within the run. Checks that
    /// each run is within its span.
    #[track_caller]
    fn lines(&self) -> Vec<String> {
        self.runs.iter().map(|run| self.line(run)).collect()
    }

    #[track_caller]
    fn line(&self, run: &Period) -> String {
        let span = self.spans.iter().find(|(_, span)| span.ids == run.ids);
        let (name, span) = span.unwrap_or_else(|| panic!("{run:?} in {self:?}"));
        assert!(span.contains(run), "{run:?} in {self:?}");
        let is_marker = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
        let markers =
            self.spans.iter().filter(|(name, span)| is_marker(name) && run.contains(span));
        let markers: Vec<_> = markers.map(|(name, _)| &**name).collect();
        format!("{name} [{}]", markers.join(" "))
    }
}

fn root(name: &'static str) -> Span<'static> {
    Trace::root_wide(name, &OSD, &ALL).span()
}

fn mark(name: &'static str) {
    Trace::root("marker", &OSD, &ALL).child(name).span().end();
}

#[test]
fn runs_of_nested_spans_follow_each_other() {
    let recorded = RunningProgram::start("nests", WITH_RUNS).end();
    assert_eq!(recorded.lines(), ["root [1]", "child [2]", "inner [3]", "child [4]", "root [5]"]);
    // No moment is missing.
    for pair in recorded.runs.windows(2) {
        assert!(pair[0].end >= pair[1].start, "{recorded:?}");
    }
}

/// Program: enters nested spans.
#[test]
#[ignore = "a program of other tests"]
fn nests() {
    let root = root("root");
    let _root = root.enter();
    mark("1");
    {
        let child = root.child("child").span();
        let _child = child.enter();
        mark("2");
        {
            let inner = child.child("inner").span();
            let _inner = inner.enter();
            mark("3");
        }
        mark("4");
    }
    mark("5");
}

#[test]
fn runs_of_unrelated_spans_are_exact() {
    let recorded = RunningProgram::start("takes_turns", WITH_RUNS).end();
    assert_eq!(recorded.lines(), ["first [1]", "second [3]", "first [5]"]);
}

/// Program: works for two requests in turn, like an executor of futures.
#[test]
#[ignore = "a program of other tests"]
fn takes_turns() {
    let (first, second) = (root("first"), root("second"));
    let poll = |span: &Span<'_>, marker| {
        let _entered = span.enter();
        mark(marker);
    };
    poll(&first, "1");
    mark("2");
    poll(&second, "3");
    mark("4");
    poll(&first, "5");
    mark("6");
}

#[test]
fn requests_that_are_not_sampled_interrupt_runs() {
    let recorded = RunningProgram::start("hides", WITH_RUNS).end();
    assert_eq!(recorded.lines(), ["root [1]", "root [3]"]);
}

/// Program: works for a request that is not sampled within one that is, and the reverse.
#[test]
#[ignore = "a program of other tests"]
fn hides() {
    let none = Sampler::new();
    none.set(Sampling::NONE);
    let unsampled = Trace::root("unsampled", &OSD, &none);
    let with_ids = Trace::with_context("unsampled", &OSD, &SpanContext::root(Decision::No));
    let _outside = with_ids.enter();
    let root = root("root");
    let entered = root.enter();
    mark("1");
    {
        let _unsampled = unsampled.enter();
        mark("2");
    }
    mark("3");
    drop(entered);
    mark("4");
}

/// A run is the period in which a span is shown, also if guards are dropped in another order.
#[test]
fn guards_in_any_order_end_the_run_of_the_shown_span() {
    let recorded = RunningProgram::start("drops_in_another_order", WITH_RUNS).end();
    assert_eq!(recorded.lines(), ["first [1]", "second [2]", "first [4]", "second [5]"]);
}

/// Program: drops the guard of the outer span first.
#[test]
#[ignore = "a program of other tests"]
fn drops_in_another_order() {
    let (first, second) = (root("first"), root("second"));
    let outer = first.enter();
    mark("1");
    let inner = second.enter();
    mark("2");
    drop(outer);
    mark("3");
    // Restores the first span, which is shown until the next enter.
    drop(inner);
    mark("4");
    let entered = second.enter();
    mark("5");
    drop(entered);
}

#[test]
fn each_thread_has_runs_of_its_own() {
    let recorded = RunningProgram::start("works_on_threads", WITH_RUNS).end();
    let mut lines = recorded.lines();
    lines.sort_unstable();
    // Three runs are at the same time, so each has both markers of that time.
    let expected = ["root [0 1 2]", "root [1 2]", "root [3]", "thread [1 2]", "thread [5]"];
    assert_eq!(lines, expected, "{recorded:?}");
}

/// Program: two threads work at once for the root span, one of them also for a child. The main
/// thread shows the root all the time. One thread ends while a span is entered.
#[test]
#[ignore = "a program of other tests"]
fn works_on_threads() {
    let (root, barrier) = (root("root"), Barrier::new(2));
    let (root, barrier) = (&root, &barrier);
    let child = root.child("thread").span();
    let child = &child;
    let entered = root.enter();
    mark("0");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _root = root.enter();
            barrier.wait();
            mark("1");
            mark("2");
            barrier.wait();
        });
        scope.spawn(move || {
            let _child = child.enter();
            barrier.wait();
            barrier.wait();
        });
    });
    drop(entered);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let outer = root.enter();
            mark("3");
            let inner = child.enter();
            mark("4");
            // The thread ends before the last run.
            std::mem::forget((outer, inner));
        });
    });
    let _child = child.enter();
    mark("5");
}

#[test]
fn runs_that_no_channel_wants_are_not_recorded() {
    let mut running = RunningProgram::start("takes_turns", "blkkin:span");
    running.wait_for_end();
    let recorded = running.end();
    assert_eq!((recorded.runs.len(), recorded.spans.len()), (0, 8), "{recorded:?}");
}

/// The event type is listed even if no channel has wanted it.
#[test]
fn the_type_of_runs_has_ids_in_hexadecimal() {
    let mut running = RunningProgram::start("nests", "other:*");
    running.wait_for_end();
    let types = running.program.types();
    let event = types.values().find(|event| event.name == "blkkin:run").expect("a type");
    let fields: Vec<_> =
        event.fields.iter().map(|field| format!("{} {:?}", field.name, field.kind)).collect();
    let expected = [
        "trace_id Unsigned { width: Bits64, hex: true }",
        "trace_id_high Unsigned { width: Bits64, hex: true }",
        "span_id Unsigned { width: Bits64, hex: true }",
        "start Unsigned { width: Bits64, hex: false }",
        "duration Unsigned { width: Bits64, hex: false }",
    ];
    assert_eq!(fields, expected);
}

#[test]
fn runs_are_recorded_from_the_next_enter_on() {
    let mut running = RunningProgram::start("waits_in_spans", "blkkin:span");
    running.wait_for_line();
    // Shown already: `first`. The program enters `second` within it.
    running.enable(WITH_RUNS);
    running.go_on();
    running.wait_for_line();
    // Shown: `second`. The program enters `third` within it.
    running.enable("blkkin:span");
    running.go_on();
    running.wait_for_line();
    // Shown: `third`. The program enters `fourth` within it.
    running.enable(WITH_RUNS);
    running.go_on();
    let recorded = running.end();
    assert_eq!(recorded.lines(), ["fourth [4]"]);
}

/// Program: enters nested spans, and waits within each.
#[test]
#[ignore = "a program of other tests"]
fn waits_in_spans() {
    let [first, second, third, fourth] = ["first", "second", "third", "fourth"].map(root);
    let in_first = first.enter();
    mark("1");
    wait_for_step();
    let in_second = second.enter();
    mark("2");
    wait_for_step();
    let in_third = third.enter();
    mark("3");
    wait_for_step();
    let in_fourth = fourth.enter();
    mark("4");
    drop(in_fourth);
    mark("5");
    drop(in_third);
    mark("6");
    drop(in_second);
    mark("7");
    drop(in_first);
}

/// Filters apply to runs, and a channel may have several rules.
#[test]
fn filters_choose_runs() {
    let mut running = RunningProgram::start("waits_and_takes_turns", "blkkin:span");
    running.wait_for_line();
    let rules = [rule("blkkin:span"), filtered("blkkin:run", "trace_id_high == 0")];
    running.program.enable(0, &rules);
    running.program.ping();
    running.go_on();
    assert_eq!(running.end().lines(), ["narrow [1]"]);
}

/// Program: works for a request with a trace id of 64 bits, and for one of 128 bits.
#[test]
#[ignore = "a program of other tests"]
fn waits_and_takes_turns() {
    wait_for_step();
    let narrow = Trace::root("narrow", &OSD, &ALL).span();
    let entered = narrow.enter();
    mark("1");
    drop(entered);
    let wide = root("wide");
    let _entered = wide.enter();
    mark("2");
}

#[test]
fn a_forked_child_continues_the_run() {
    let mut running = RunningProgram::start("forks_within_a_span", WITH_RUNS);
    let mut child = running.agent.program();
    child.add(0, &[]);
    child.enable(0, &rules(WITH_RUNS));
    child.ping();
    let of_child = child.wait_for(0, 3);
    running.wait_for_line();
    running.go_on();
    let recorded = running.end();
    assert_eq!(recorded.lines(), ["root [1 2]"]);
    let of_child = Recorded::of(&of_child);
    let run = of_child.runs[0];
    assert_eq!(run.ids, recorded.runs[0].ids);
    assert_eq!(run.start, recorded.runs[0].start, "it started in the parent");
    assert!(run.contains(&of_child.spans[0].1), "{of_child:?}");
    assert_eq!(of_child.spans[0].0, "3");
}

/// Program: forks while a span is entered; the child exits the span.
#[test]
#[ignore = "a program of other tests"]
fn forks_within_a_span() {
    let root = root("root");
    let entered = root.enter();
    mark("1");
    let entered = std::cell::Cell::new(Some(entered));
    let ended = in_child(Fork::Library, |_: &[AtomicU64; 1]| {
        mark("3");
        drop(entered.take());
        mark("4");
    });
    assert_eq!(ended.map(|[word]| word), Ok(0));
    wait_for_step();
    mark("2");
}

/// A signal handler may enter spans while it interrupts a change of the current span.
#[test]
fn handlers_of_signals_leave_no_gap_in_runs() {
    let mut running = RunningProgram::start("is_interrupted_in_runs", "blkkin:run");
    let (mut handled, mut split) = (0, 0);
    for batch in 0..BATCHES {
        running.wait_for_line();
        let recorded = Recorded::of(&running.program.events(0));
        if batch > 0 {
            let counts = check_batch(recorded, batch - 1);
            (handled, split) = (handled + counts.0, split + counts.1);
        }
        running.go_on();
    }
    running.wait_for_end();
    assert!(handled > 0 && split > 0, "not interrupted: {handled} {split}");
}

const BATCHES: u64 = 20;
/// Number of times that the program enters two nested spans in a batch.
const PAIRS: u64 = 300;
/// Span id of signal handlers.
const HANDLER: u64 = 1 << 40;

/// Checks the runs of a batch. Returns the number of runs of handlers, and of runs that a handler
/// has split or lengthened.
#[track_caller]
fn check_batch(recorded: Recorded, batch: u64) -> (usize, usize) {
    let mut runs = recorded.runs;
    runs.sort_by_key(|run| run.start);
    let mut count_of: HashMap<u64, usize> = HashMap::new();
    let (mut shown_until, mut last) = (0, 0);
    for run in &runs {
        let [trace, high, span] = run.ids;
        assert_eq!((trace, high), (7, 8));
        let is_first = !count_of.contains_key(&span);
        *count_of.entry(span).or_default() += 1;
        let is_outer = span % 2 == 0;
        if span != HANDLER {
            // A run is not longer than the program worked for the pair of spans.
            assert!(span / 2 >= last / 2, "{span} after {last}: {runs:?}");
            last = last.max(span);
        }
        if run.start > shown_until && span != HANDLER {
            assert!(is_first && is_outer, "a gap before {run:?} in {runs:?}");
        }
        shown_until = shown_until.max(run.end);
    }
    let first = 2 * (1 + batch * PAIRS);
    for outer in (first..first + 2 * PAIRS).step_by(2) {
        // The outer span has a run before, and one after the inner one.
        assert!(count_of.get(&outer) >= Some(&2), "{outer} in {runs:?}");
        assert!(count_of.get(&(outer + 1)) >= Some(&1), "{outer} in {runs:?}");
    }
    let handled = count_of.remove(&HANDLER).unwrap_or_default();
    let split = count_of.values().sum::<usize>() - 3 * PAIRS as usize;
    (handled, split)
}

/// Returns a span whose span id is `number`.
fn numbered(number: u64) -> Trace<'static> {
    let context = SpanContext {
        trace_id: TraceId::from_number(8 << 64 | 7).unwrap(),
        span_id: SpanId::from_number(number).unwrap(),
        ..SpanContext::root(Decision::Yes)
    };
    Trace::with_context("numbered", &OSD, &context)
}

/// Program: enters spans in handlers of frequent signals, and in the interrupted code.
#[test]
#[ignore = "a program of other tests"]
fn is_interrupted_in_runs() {
    /// Number of handlers that may still enter spans, so that the rings hold all runs.
    static LEFT: AtomicU64 = AtomicU64::new(0);
    fn handle() {
        if LEFT.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
            let handler = numbered(HANDLER);
            drop(handler.enter());
        }
    }
    let mut number = 2;
    for _ in 0..BATCHES {
        wait_for_step();
        let interrupted = while_interrupted(handle, || {
            for pair in 0..PAIRS {
                let (outer, inner) = (numbered(number), numbered(number + 1));
                let _outer = outer.enter();
                if pair % 30 == 0 {
                    LEFT.store(20, Relaxed);
                    // The thread that sends signals may not run at other times.
                    while LEFT.load(Relaxed) > 15 {
                        std::hint::spin_loop();
                    }
                }
                drop(inner.enter());
                number += 2;
            }
        });
        assert_eq!(interrupted, Ok(()));
    }
}

impl RunningProgram {
    /// Waits until the program has ended successfully. Its events remain to be consumed.
    #[track_caller]
    fn wait_for_end(&mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

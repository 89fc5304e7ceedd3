//! Tests of a thread's current span, which observers outside of the program read from the thread's
//! memory. The tests act as the agent of programs, which are ignored tests of this file, run as
//! separate processes.

#[path = "support/daemon.rs"]
mod support;

use blkkin_sys::testing::{Stopped, own_test};
use blkkin_sys::thread_slot;
use blkkin_trace::context::Decision;
use blkkin_trace::control::current_span::{CurrentSpan, SlotOffset};
use blkkin_trace::sample::Sampling;
use blkkin_trace::{Endpoint, Sampler, SpanContext, Trace};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use support::{Program, TestAgent};

static ALL: Sampler = Sampler::new();
static OSD: Endpoint<'static> = Endpoint::named("osd.3");

/// Returns what an observer of this thread sees.
fn observed() -> CurrentSpan {
    CurrentSpan::of_words(thread_slot::get())
}

fn shown(trace: &Trace<'_>) -> CurrentSpan {
    let SpanContext { trace_id, span_id, .. } = trace.context().unwrap();
    CurrentSpan::Span { trace_id: trace_id.number(), span_id: span_id.number() }
}

/// A program, connected to a test agent, that waits for its next step.
struct RunningProgram {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    program: Program,
    _agent: TestAgent,
}

/// Prefix of lines that a program prints, to distinguish them from lines of the test harness.
const MARK: &str = "program: ";

impl RunningProgram {
    /// Starts a program, which waits for the agent's rules before its `main`.
    fn start(name: &str) -> RunningProgram {
        let agent = TestAgent::new(&format!("current-{name}"));
        let mut command = own_test::<&str>(&[], name);
        command.env("BLKKIN_SOCKET", &agent.path).env("BLKKIN_WAIT", "30000");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut program = agent.program();
        program.add(0, &[]);
        program.enable(0, &[support::rule("*")]);
        program.ping();
        RunningProgram { child, input, output: BufReader::new(output), program, _agent: agent }
    }

    /// Returns the program's next line.
    #[track_caller]
    fn read_line(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "it has ended");
            if let Some((_, said)) = line.split_once(MARK) {
                return said.trim_end().to_owned();
            }
        }
    }

    /// Makes the program go on, and checks that it ends successfully.
    #[track_caller]
    fn end(mut self) {
        // A program that has ended reads nothing.
        let _ = self.input.write_all(b"\n");
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.output, &mut rest).unwrap();
        assert!(self.child.wait().unwrap().success(), "{rest}");
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Prints a line for the test, in the program's process.
fn print_line(what: &str) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{MARK}{what}").unwrap();
    output.flush().unwrap();
}

/// Waits for the next step, in the program's process.
fn wait_for_step() {
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

#[test]
fn the_current_span_follows_enters_and_exits() {
    RunningProgram::start("enters_and_exits").end();
}

/// Program: checks what an observer sees.
#[test]
#[ignore = "a program of other tests"]
fn enters_and_exits() {
    let root = Trace::root_wide("root", &OSD, &ALL).span();
    let child = root.child("child").span();
    assert_eq!(observed(), CurrentSpan::None);
    {
        let _root = root.enter();
        assert_eq!(observed(), shown(&root));
        {
            let _child = child.enter();
            assert_eq!(observed(), shown(&child));
            let _again = root.enter();
            assert_eq!(observed(), shown(&root));
        }
        assert_eq!(observed(), shown(&root));
        // Neither a new span nor the end of one changes the current span.
        root.child("other").span().end();
        drop(child);
        assert_eq!(observed(), shown(&root));
        restores_after_a_panic(&root);
        is_unknown_to_other_threads(&root);
    }
    assert_eq!(observed(), CurrentSpan::None);
    is_hidden_by_requests_that_are_not_sampled();
}

fn restores_after_a_panic(current: &Trace<'_>) {
    let child = current.child("child");
    let panics = std::panic::catch_unwind(|| {
        let _child = child.enter();
        assert_eq!(observed(), shown(&child));
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(panics.is_err());
    assert_eq!(observed(), shown(current));
}

fn is_unknown_to_other_threads(current: &Trace<'_>) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(observed(), CurrentSpan::None);
            let child = current.child("child");
            let _child = child.enter();
            assert_eq!(observed(), shown(&child));
        });
    });
    assert_eq!(observed(), shown(current));
}

/// Work for a request that is not sampled is not attributed to the sampled request around it.
fn is_hidden_by_requests_that_are_not_sampled() {
    let none = Sampler::new();
    none.set(Sampling::NONE);
    let unsampled = Trace::root("unsampled", &OSD, &none);
    let with_ids = Trace::with_context("unsampled", &OSD, &SpanContext::root(Decision::No));
    let root = Trace::root("root", &OSD, &ALL);
    for unsampled in [unsampled, with_ids] {
        let _outside = unsampled.enter();
        assert_eq!(observed(), CurrentSpan::None);
        {
            let _root = root.enter();
            {
                let _unsampled = unsampled.enter();
                assert_eq!(observed(), CurrentSpan::None);
            }
            assert_eq!(observed(), shown(&root));
        }
        assert_eq!(observed(), CurrentSpan::None);
    }
}

/// Without an agent no observer knows the offset, so nothing is stored.
#[test]
fn nothing_is_stored_before_an_agent_connects() {
    let mut command = own_test::<&str>(&[], "stores_nothing");
    let status = command.env("BLKKIN_SOCKET", "/nonexistent/agent").status().unwrap();
    assert!(status.success());
}

/// Program: checks that an enter stores nothing.
#[test]
#[ignore = "a program of other tests"]
fn stores_nothing() {
    let root = Trace::root("root", &OSD, &ALL).span();
    let _root = root.enter();
    assert_eq!(observed(), CurrentSpan::None);
}

/// Program: enters a different span on each of three threads, and prints the threads and the ids.
#[test]
#[ignore = "a program of other tests"]
fn enters_on_threads() {
    let barrier = std::sync::Barrier::new(4);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let root = Trace::root_wide("root", &OSD, &ALL);
                let _root = root.enter();
                let context = root.context().unwrap();
                let (trace, span) = (context.trace_id.number(), context.span_id.number());
                print_line(&format!("{} {trace} {span}", blkkin_sys::thread_id()));
                barrier.wait();
            });
        }
        wait_for_step();
        barrier.wait();
    });
}

#[cfg(target_arch = "x86_64")]
#[test]
fn an_observer_finds_the_current_span_of_each_thread() {
    let mut running = RunningProgram::start("enters_on_threads");
    let offset = running.program.current_span().expect("an offset in the catalog");
    for _ in 0..3 {
        let line = running.read_line();
        let words: Vec<&str> = line.split(' ').collect();
        let [thread, trace_id, span_id] = words[..] else { panic!("{line}") };
        let expected = CurrentSpan::Span {
            trace_id: trace_id.parse().unwrap(),
            span_id: span_id.parse().unwrap(),
        };
        assert_eq!(current_span_of(thread.parse().unwrap(), offset), expected);
    }
    // The main thread has entered no span.
    assert_eq!(current_span_of(running.child.id(), offset), CurrentSpan::None);
    running.end();
}

/// Stops a thread of a program, and reads its current span.
#[cfg(target_arch = "x86_64")]
fn current_span_of(thread: u32, offset: SlotOffset) -> CurrentSpan {
    let stopped = Stopped::new(thread).unwrap();
    let address = stopped.thread_pointer().unwrap();
    let address = address.wrapping_add_signed(offset.bytes().into());
    CurrentSpan::of_words(stopped.words(address).unwrap())
}

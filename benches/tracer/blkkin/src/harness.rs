//! Runs an operation repeatedly in several threads, and prints its cost as one line of JSON. The
//! arguments are `KIND OPERATIONS THREADS WARM_UP`. `benches/tracer/harness.c` is the equivalent in
//! C, with the same clocks.

use nix::sched::{CpuSet, sched_setaffinity};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use std::ops::Range;
use std::process::ExitCode;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

const THREADS_MAX: i64 = 64;

/// Number of operations in the measurement of the loop without recording, which takes some
/// milliseconds.
const LOOP_OPERATIONS: i64 = 4_000_000;

/// Number of portions of a warm-up. In the pauses between portions, readers empty the buffers.
const PORTIONS: i64 = 8;
const PAUSE: Duration = Duration::from_millis(5);
/// Number of unmeasured operations at the start of each thread. They touch the thread's stack and
/// the tracer's memory for the first time, which is not part of the cost of an event.
const FIRST_OPERATIONS: i64 = 64;

/// Range of operation numbers that a thread performs.
pub(crate) struct Work(Range<i64>);

impl Work {
    /// Returns the numbers of the operations. They are negative in warm-ups and in a thread's first
    /// operations.
    pub(crate) fn operations(&self) -> Range<i64> {
        self.0.clone()
    }
}

/// A kind of operation to measure.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// Function that performs the operations, so that their events are recorded.
    pub(crate) record: fn(&Work),
    /// Function with the same loop and arguments that records nothing.
    pub(crate) idle: fn(&Work),
    /// Number of events that one operation records.
    pub(crate) events: i64,
}

/// Runs the measurement that the program's arguments select.
pub(crate) fn main(kinds: &[Kind]) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match parse(kinds, &arguments) {
        Some(plan) => {
            plan.measure();
            ExitCode::SUCCESS
        }
        None => {
            let names: Vec<&str> = kinds.iter().map(|kind| kind.name).collect();
            eprintln!(
                "usage: KIND OPERATIONS THREADS WARM_UP\noperations are divided evenly among \
                 threads, warm-ups by {PORTIONS}; kinds: {}",
                names.join(" ")
            );
            ExitCode::from(2)
        }
    }
}

struct Plan<'a> {
    kind: &'a Kind,
    operations: i64,
    threads: i64,
    /// Number of warm-up operations on each processor.
    warm_ups: i64,
    processors: i64,
}

fn parse<'a>(kinds: &'a [Kind], arguments: &[String]) -> Option<Plan<'a>> {
    let [name, numbers @ ..] = arguments else { return None };
    let kind = kinds.iter().find(|kind| kind.name == name)?;
    let numbers: Vec<i64> = numbers.iter().map_while(|number| number.parse().ok()).collect();
    let &[operations, threads, warm_ups] = &numbers[..] else { return None };
    let is_sensible = (1..=THREADS_MAX).contains(&threads)
        && operations >= threads
        && operations % threads == 0
        && warm_ups >= 0
        && warm_ups % PORTIONS == 0;
    let processors = thread::available_parallelism().map_or(1, |count| count.get() as i64);
    is_sensible.then_some(Plan { kind, operations, threads, warm_ups, processors })
}

impl Plan<'_> {
    fn measure(&self) {
        let idle_ns = self.idle_ns();
        self.warm_up();
        let (wall_ns, cpu_ns) = self.run();
        let (kind, operations) = (self.kind, self.operations);
        let tried = kind.events
            * (operations + self.threads * FIRST_OPERATIONS + self.warm_ups * self.processors);
        let of_each = |sum: f64| sum / operations as f64;
        // `wall_ns` is a thread's mean wall time for an operation. All threads perform equally many
        // operations.
        println!(
            "{{\"kind\": \"{}\", \"threads\": {}, \"operations\": {operations}, \
             \"events_tried\": {tried}, \"wall_ns\": {:.3}, \"cpu_ns\": {:.3}, \"loop_ns\": {:.3}}}",
            kind.name,
            self.threads,
            of_each(wall_ns),
            of_each(cpu_ns),
            idle_ns
        );
    }

    fn idle_ns(&self) -> f64 {
        let start = now_ns(ClockId::CLOCK_THREAD_CPUTIME_ID);
        (self.kind.idle)(&Work(0..LOOP_OPERATIONS));
        (now_ns(ClockId::CLOCK_THREAD_CPUTIME_ID) - start) / LOOP_OPERATIONS as f64
    }

    fn warm_up(&self) {
        let portion = self.warm_ups / PORTIONS;
        for processor in 0..self.processors {
            run_on(processor);
            for number in 0..PORTIONS {
                let start = number * portion - self.warm_ups;
                (self.kind.record)(&Work(start..start + portion));
                thread::sleep(PAUSE);
            }
        }
    }

    /// Runs the operations in all threads. Returns the sums of the threads' wall times and
    /// processor times, in nanoseconds.
    fn run(&self) -> (f64, f64) {
        let barrier = Barrier::new(self.threads as usize);
        let part = self.operations / self.threads;
        let work = &|number: i64| {
            run_on(number % self.processors);
            (self.kind.record)(&Work(-FIRST_OPERATIONS..0));
            barrier.wait();
            let wall = now_ns(ClockId::CLOCK_MONOTONIC);
            let cpu = now_ns(ClockId::CLOCK_THREAD_CPUTIME_ID);
            (self.kind.record)(&Work(0..part));
            let cpu = now_ns(ClockId::CLOCK_THREAD_CPUTIME_ID) - cpu;
            (now_ns(ClockId::CLOCK_MONOTONIC) - wall, cpu)
        };
        thread::scope(|scope| {
            let threads: Vec<_> =
                (0..self.threads).map(|number| scope.spawn(move || work(number))).collect();
            let parts = threads.into_iter().map(|thread| thread.join().expect("a thread's times"));
            parts.fold((0.0, 0.0), |sum, part| (sum.0 + part.0, sum.1 + part.1))
        })
    }
}

fn now_ns(clock: ClockId) -> f64 {
    clock_gettime(clock).map_or(f64::NAN, |now| now.tv_sec() as f64 * 1e9 + now.tv_nsec() as f64)
}

fn run_on(processor: i64) {
    let mut set = CpuSet::new();
    // If this fails, the thread moves between processors, which only adds noise.
    let _ = set.set(processor as usize).and_then(|()| sched_setaffinity(Pid::from_raw(0), &set));
}

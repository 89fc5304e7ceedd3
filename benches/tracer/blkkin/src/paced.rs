//! Records events at a fixed rate: `PROGRAM KIND RATE SECONDS THREADS`, with the total rate of all
//! threads in events per second. Kinds: `annotation`, and `time`, an event that contains the
//! monotonic time just before it is recorded. Prints the number of events and the actual time in
//! seconds.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that says what it did on standard output"
)]

mod annotations;

use annotations::annotations;
use blkkin_trace::{Level, Sampler, event};
use nix::time::{ClockId, clock_gettime};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

/// Pause between the portions of annotations that a thread records.
const PAUSE: Duration = Duration::from_micros(200);
/// Maximum factor by which a thread that is behind its rate may exceed the rate. One annotation
/// after each pause is always permitted.
const HASTE: u64 = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, numbers @ ..] = &arguments[..] else { return usage() };
    let numbers: Vec<u64> = numbers.iter().map_while(|number| number.parse().ok()).collect();
    let &[rate, seconds, threads @ 1..=64] = &numbers[..] else { return usage() };
    if rate < threads {
        return usage();
    }
    let own_rate = rate / threads;
    let start = Instant::now();
    let record: fn(u64, Duration) -> u64 = match kind.as_str() {
        "annotation" => annotate,
        "time" => tell_times,
        _ => return usage(),
    };
    let events: u64 = thread::scope(|scope| {
        let duration = Duration::from_secs(seconds);
        let start = |_| scope.spawn(move || record(own_rate, duration));
        let threads: Vec<_> = (0..threads).map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread's events")).sum()
    });
    println!("{{\"events_tried\": {events}, \"seconds\": {:.3}}}", start.elapsed().as_secs_f64());
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("usage: annotation|time RATE SECONDS THREADS");
    ExitCode::from(2)
}

/// Records annotations in portions, at `rate` events a second. Returns the number of annotations.
fn annotate(rate: u64, duration: Duration) -> u64 {
    let annotations = annotations(&Sampler::new());
    let all = rate * duration.as_secs();
    let in_time = |time: Duration| (time.as_nanos() as u64).saturating_mul(rate) / 1_000_000_000;
    let portion_max = (HASTE * in_time(PAUSE)).max(1);
    let (start, mut done) = (Instant::now(), 0);
    while done < all {
        thread::sleep(PAUSE);
        let end = in_time(start.elapsed()).clamp(done, done + portion_max).min(all);
        for i in done..end {
            let one = &annotations[i as usize % annotations.len()];
            one.trace.keyval(one.key, one.val);
        }
        done = end;
    }
    done
}

/// Records events at `rate` a second, each with the time just before it is recorded. Returns the
/// number of events.
fn tell_times(rate: u64, duration: Duration) -> u64 {
    let all = rate * duration.as_secs();
    let start = Instant::now();
    for i in 0..all {
        let due = start + Duration::from_nanos((i + 1) * 1_000_000_000 / rate);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        event!(Level::Info, "bench:time", ns = now_ns());
    }
    all
}

fn now_ns() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |now| now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}

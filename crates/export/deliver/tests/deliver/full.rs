//! Tests of promises D4 and D7: a full file system is a temporary state. The pushing program gets
//! an error, refused batches without room are counted, and the exporter continues by itself once
//! there is room.

use crate::accounts::{finish, options};
use crate::program_run::{RESUMES, push};
use crate::server::{Reply, Server};
use blkkin_deliver::{Cause, Counters, Exporter, Options, Refusal};
use blkkin_sys::testing::{Mounted, deadline, env_number, figure, skip};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// Lower bound of the initial sizes of the file systems, in KiB: a queue of `QUEUE_BYTES` reserves
/// 5 MiB at a time.
const KIB: u64 = 5 << 10;
const QUEUE_BYTES: u64 = 40 << 20;

/// Pushes numbered spans, beginning with `from`, until a span or flush is refused. Returns the
/// number after the last accepted span, and the refusal.
fn fill(exporter: &Exporter, from: u64) -> (u64, Refusal) {
    for number in from.. {
        if let Err(refusal) = push(exporter, number) {
            return (number, refusal);
        }
        if number % 10 == 9
            && let Err(refusal) = exporter.flush()
        {
            // The last span was accepted and waits for room.
            return (number + 1, refusal);
        }
    }
    unreachable!("there is an end to everything")
}

/// Fills the file system twice and enlarges it each time, then fills it while the destination
/// refuses batches. Returns the counters, and the longest time from an enlargement to a flush.
fn fill_and_resume(mounted: &Mounted, kib: u64) -> (Counters, Duration) {
    let status = Arc::new(AtomicU16::new(503));
    let answers = Arc::clone(&status);
    let server = Server::new(move |_, _| Reply::status(answers.load(Ordering::Relaxed)));
    let queue = Some(mounted.path().join("queue"));
    let pause_max = Duration::from_millis(100);
    let options = Options {
        queue,
        queue_bytes_max: QUEUE_BYTES,
        pause_first: pause_max,
        pause_max,
        ..options(&server.url("/api/v2/spans"))
    };
    let exporter = Exporter::open(options.clone()).expect("an exporter");
    let (mut next, mut slowest) = (0, Duration::ZERO);
    for round in 0..2 {
        let (pushed, refusal) = fill(&exporter, next);
        assert!(matches!(refusal, Refusal::Disk(_)), "{kib} KiB: {refusal}");
        assert!(!exporter.wait_for_room(Duration::from_millis(50)));
        let counters = exporter.counters();
        assert_eq!(
            (counters.pushed, counters.waiting),
            (pushed, pushed),
            "what was refused is not counted"
        );
        assert!(pushed > next, "{kib} KiB: nothing more is taken");
        let begun = Instant::now();
        mounted.resize(kib + (round + 1) * (6 << 10));
        assert!(exporter.wait_for_room(deadline(RESUMES)), "{kib} KiB: it does not go on");
        push(&exporter, pushed).expect("room");
        exporter.flush().expect("room");
        slowest = slowest.max(begun.elapsed());
        next = pushed + 1;
    }
    // Batches that the destination refuses have no room in the folder, and do not block the queue.
    let (pushed, _) = fill(&exporter, next);
    let rest = mounted.path().join("the rest");
    let filled = std::fs::write(&rest, vec![0; (kib as usize + (12 << 10)) << 10]);
    assert!(filled.is_err(), "there is no room left");
    status.store(400, Ordering::Relaxed);
    let begun = Instant::now();
    while exporter.counters().refused_not_stored == 0 {
        assert!(begun.elapsed() < deadline(RESUMES), "{:?}", exporter.trouble());
        std::thread::sleep(Duration::from_millis(1));
    }
    status.store(202, Ordering::Relaxed);
    std::fs::remove_file(rest).expect("removed");
    let counters = finish(exporter);
    assert_eq!(counters.pushed, pushed);
    assert_eq!(counters.delivered + counters.dropped(Cause::Refused), pushed, "{counters:?}");
    // The next exporter finds an empty queue.
    let again = finish(Exporter::open(options).expect("an exporter"));
    assert_eq!(again.recovered, 0, "{again:?}");
    (counters, slowest)
}

#[test]
fn d4_a_full_file_system_is_a_state_that_ends() {
    let (mut sizes, mut spans, mut refused, mut slowest) = (0, 0, 0, Duration::ZERO);
    for kib in (KIB + 128..).step_by(64).take(env_number("TEST_SIZES", 3) as usize) {
        let Ok(mounted) = Mounted::in_memory(kib) else {
            return skip("d4_a_full_file_system_is_a_state_that_ends", "only root can mount one");
        };
        let (counters, took) = fill_and_resume(&mounted, kib);
        (sizes, slowest) = (sizes + 1, slowest.max(took));
        spans += counters.pushed;
        refused += counters.refused_not_stored;
    }
    figure(
        "D4",
        &format!(
            "queues on {sizes} file systems that run full twice: {spans} spans taken, each delivered or counted; {refused} \
             refused batches had no room to be put aside; they go on after {} ms at most",
            slowest.as_millis()
        ),
    );
}

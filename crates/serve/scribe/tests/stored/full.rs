//! Tests of the promises D4 and D7: a full file system is a temporary state. The daemon keeps
//! running, answers `TRY_LATER`, counts the denied messages, and resumes by itself when space is
//! free.

use crate::harness::{DaemonRun, HANG, RESUMES, SentMessages, Stores};
use blkkin_sys::testing::{Mounted, deadline, env_number, figure, skip};
use std::time::{Duration, Instant};

/// Size of the smallest tested file system, in KiB. A category reserves 8 MiB at a time.
const KIB: u64 = 11 << 10;

/// Fills a mounted file system, enlarges it and checks delivery, twice. Returns the number of
/// acknowledged batches, and the longest time from the enlargement to the delivery of all messages.
fn fill_and_resume(mounted: &Mounted, kib: u64) -> (u64, Duration) {
    let stores = Stores::new(mounted.path());
    let start = || DaemonRun::start(&[], &stores).unwrap_or_else(|end| panic!("{end:?}"));
    let (mut sent, mut life) = (SentMessages::default(), start());
    let mut slowest = Duration::ZERO;
    for round in 0..2 {
        while sent.send(&life, 1, Duration::from_millis(300)) {}
        assert!(sent.later > 0, "{kib} KiB: nobody was told to come again");
        // The file store has no space either; after 2 s its retries are at their maximum interval.
        std::thread::sleep(Duration::from_secs(2));
        let denied = life.client().counter("scribe_overall:denied for queue size");
        assert_eq!(denied.expect("a counter"), sent.later as i64);
        let begun = Instant::now();
        mounted.resize(kib + (round + 1) * (24 << 10));
        assert!(sent.send(&life, 1, deadline(RESUMES)), "{kib} KiB: it does not go on");
        life.wait_for_delivery(&sent, &stores, deadline(RESUMES))
            .unwrap_or_else(|why| panic!("{kib} KiB: {why}"));
        slowest = slowest.max(begun.elapsed());
    }
    assert!(life.end().success());
    let mut life = start();
    assert!(sent.send(&life, 1, HANG));
    life.wait_for_delivery(&sent, &stores, HANG).expect("all comes");
    assert!(life.end().success());
    sent.check(&stores, sent.again).unwrap_or_else(|why| panic!("{kib} KiB: {why}"));
    (sent.acknowledged, slowest)
}

#[test]
fn d4_a_full_file_system_is_a_state_that_ends() {
    let (mut sizes, mut acknowledged, mut slowest) = (0, 0, Duration::ZERO);
    for kib in (KIB..).step_by(64).take(env_number("TEST_SIZES", 1) as usize) {
        let Ok(mounted) = Mounted::in_memory(kib) else {
            return skip("d4_a_full_file_system_is_a_state_that_ends", "only root can mount one");
        };
        let (count, took) = fill_and_resume(&mounted, kib);
        (sizes, acknowledged, slowest) = (sizes + 1, acknowledged + count, slowest.max(took));
    }
    figure(
        "D4",
        &format!(
            "daemons of Scribe's on {sizes} file systems that run full twice: {acknowledged} batches answered OK, 0 lost; \
             they go on after {} ms at most",
            slowest.as_millis()
        ),
    );
}

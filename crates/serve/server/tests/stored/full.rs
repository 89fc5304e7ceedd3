//! Tests of the promises D4 and D7: a store whose file system or memory is full refuses batches,
//! while the server answers other requests. The server accepts batches again by itself when the
//! file system has free space.

use crate::harness::{SentRequests, send_http, start};
use blkkin_lake::{Lake, Options};
use blkkin_server::{Listen, Server, Settings};
use blkkin_sys::testing::{Mounted, deadline, env_number, figure, skip};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Maximum time until the server accepts batches again after space is free.
const RESUMES: Duration = Duration::from_secs(5);

/// Number of refused batches after which the file system counts as full and is enlarged.
const REFUSALS: u64 = 20;

/// Fills a mounted file system and enlarges it, twice. Returns the number of acknowledged requests
/// and the longest time until the server accepted batches again.
fn fill_and_resume(mounted: &Mounted, kib: u64) -> (u64, Duration) {
    let data = mounted.path().join("data");
    let mut sent = SentRequests::default();
    let life = start(&data);
    let mut slowest = Duration::ZERO;
    for round in 0..2 {
        let mut refused = 0;
        while refused < REFUSALS {
            match sent.send_one(life.web) {
                Some(202) => {}
                Some(503) => refused += 1,
                other => panic!("{other:?} on {kib} KiB"),
            }
        }
        let (status, _) = send_http(life.web, "GET", "/health", "").expect("it lives");
        assert_eq!(status, 200);
        assert!(life.metric("blkkin_store_batches_turned_away_total") > 0);
        // A batch that finds all workers busy is refused without the store.
        let counted =
            life.metric(r#"zipkin_collector_messages_turned_away_total{transport="http"}"#);
        assert_eq!(counted, sent.statuses[&503], "{kib} KiB");
        sent.check(&life).unwrap_or_else(|why| panic!("{kib} KiB, full: {why}"));
        mounted.resize(kib * (round + 2));
        let begun = Instant::now();
        while sent.send_one(life.web) != Some(202) {
            assert!(begun.elapsed() < deadline(RESUMES), "{kib} KiB: it does not go on");
            std::thread::sleep(Duration::from_millis(10));
        }
        slowest = slowest.max(begun.elapsed());
    }
    assert!(life.end().success());
    let life = start(&data);
    sent.check(&life).unwrap_or_else(|why| panic!("{kib} KiB: {why}, {:?}", life.said));
    assert!(life.end().success());
    (sent.acknowledged(), slowest)
}

#[test]
fn d4_a_full_file_system_is_a_state_that_ends() {
    let (mut sizes, mut acknowledged, mut slowest) = (0, 0, Duration::ZERO);
    for kib in (320..1024).step_by(64).take(env_number("TEST_SIZES", 3) as usize) {
        let Ok(mounted) = Mounted::in_memory(kib) else {
            return skip("d4_a_full_file_system_is_a_state_that_ends", "only root can mount one");
        };
        let (count, took) = fill_and_resume(&mounted, kib);
        acknowledged += count;
        slowest = slowest.max(took);
        sizes += 1;
    }
    figure(
        "D4",
        &format!(
            "servers on {sizes} file systems that run full twice: {acknowledged} requests acknowledged, 0 lost; \
             they go on after {} ms at most",
            slowest.as_millis()
        ),
    );
}

/// D7: a store whose memory is full does not block the server. Clients send small batches, and each
/// batch that reaches the store waits for a second. Meanwhile the server answers other requests,
/// and refuses further batches at once.
#[test]
fn d7_a_store_without_room_does_not_stop_the_server() {
    let directory = tempfile::tempdir().expect("a directory");
    let hour = Duration::from_secs(3600);
    let options = Options { memory_bytes_max: 1, file_after: hour, ..Options::default() };
    let (lake, _) = Lake::open(directory.path(), options).expect("a store");
    let web = vec![([127, 0, 0, 1], 0).into()];
    let listen = Listen { web, ..Listen::default() };
    let settings = Settings { listen, ..Settings::default() };
    let running = Server::start(Arc::new(lake), settings).expect("a server");
    let web = running.web[0];
    assert_eq!(SentRequests::default().send_one(web), Some(202));
    let is_over = AtomicBool::new(false);
    let (mut slowest, mut refused) = (Duration::ZERO, 0);
    std::thread::scope(|scope| {
        let senders: Vec<_> = (1..=16)
            .map(|sender| {
                let is_over = &is_over;
                scope.spawn(move || {
                    let mut sent = SentRequests::from(sender * 1_000_000);
                    while !is_over.load(Relaxed) {
                        assert_eq!(sent.send_one(web), Some(503));
                        std::thread::sleep(Duration::from_millis(10));
                    }
                    sent.statuses[&503]
                })
            })
            .collect();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(4) {
            let asked = Instant::now();
            let (status, _) = send_http(web, "GET", "/health", "").expect("an answer");
            assert!(matches!(status, 200 | 503), "{status}");
            slowest = slowest.max(asked.elapsed());
            std::thread::sleep(Duration::from_millis(20));
        }
        is_over.store(true, Relaxed);
        refused = senders.into_iter().map(|sender| sender.join().expect("no panic")).sum::<u64>();
    });
    running.stop();
    figure(
        "D7",
        &format!(
            "no room in the store: /health answers after {slowest:?}, {refused} refusals in 4 s"
        ),
    );
    assert!(slowest < deadline(Duration::from_millis(90)), "{slowest:?}, {refused} refusals");
    // If each refusal took a second, each worker would refuse four or five batches.
    assert!(refused > 100, "{refused}");
}

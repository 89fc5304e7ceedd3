//! Tests of several agents, at once and one after another. They set up each [`AgentAddress`]
//! themselves, because a program that runs as root connects to only one agent.

use super::*;
use crate::event;
use blkkin_control::ToApplication;
use std::sync::atomic::{AtomicBool, Ordering};
use support::{LONG, ProgramMessage, TestAgent as Listening, rule};

#[path = "../../../tests/support/daemon.rs"]
mod support;

/// Two agents have separate channels. Polling for an absent agent ends after a while; the agent is
/// found when it starts to listen.
#[test]
fn a_program_talks_to_several_daemons() {
    static IS_OVER: AtomicBool = AtomicBool::new(false);
    let (first, mut second) = (Listening::new("first"), Listening::new("second"));
    second.close();
    let daemons = [&first, &second].map(|daemon| AgentAddress {
        path: daemon.path.clone().leak(),
        state: State::Paused { until: Instant::now(), is_absent: false },
        pause: PAUSE_MIN,
        orphans: Vec::new(),
        orphans_until: Instant::now(),
    });
    let mut connections = Connections { addresses: daemons.into(), ..Connections::new() };
    assert!(connections.connect() && crate::channels::prepare());
    let thread = std::thread::spawn(move || {
        let id = blkkin_sys::thread_id();
        let sleeper = std::thread::spawn(move || switches(id));
        connections.run_until(|_| IS_OVER.load(Ordering::SeqCst), None);
        sleeper.join().unwrap()
    });
    let mut one = first.program();
    one.add(7, &[]);
    one.enable(7, &[rule("several:*")]);
    one.ping();
    event!(crate::Level::Info, "several:first");
    assert_eq!(one.names(7), ["several:first"]);
    // Wait until polling has ended.
    std::thread::sleep(Duration::from_millis(7500));
    let start = Instant::now();
    second.listen();
    let mut two = second.program();
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    two.add(7, &[]);
    two.enable(7, &[rule("several:s*")]);
    two.ping();
    event!(crate::Level::Info, "several:both");
    event!(crate::Level::Info, "several:second");
    assert_eq!(one.names(7), ["several:both", "several:second"]);
    assert_eq!(two.names(7), ["several:second"]);
    // The channels of an agent that has exited are kept for a while.
    drop(first);
    drop(one);
    let is_gone = || {
        event!(crate::Level::Info, "several:second");
        blkkin_sys::testing::mapped_files(std::process::id(), "memfd:rings").unwrap() <= 2
    };
    let start = Instant::now();
    while !is_gone() {
        assert!(start.elapsed() < LONG);
    }
    two.ping();
    assert!(!two.names(7).is_empty());
    IS_OVER.store(true, Ordering::SeqCst);
    // Wakes the thread, if it still sleeps.
    let mut bytes = Vec::new();
    blkkin_control::encode(&ToApplication::Ping(99), &mut bytes).unwrap();
    two.try_send_bytes(&bytes, &[]);
    let (before, after) = thread.join().unwrap();
    while two.next_message(LONG).0 != ProgramMessage::End {}
    assert_eq!(before, after, "it has woken");
}

/// Orphans expire even if agents keep connecting and exiting without reading them. The number of
/// orphans is limited.
#[test]
fn what_was_left_is_kept_for_a_while() {
    let listening = Listening::new("left");
    let now = Instant::now();
    let ago = |seconds| now.checked_sub(Duration::from_secs(seconds)).expect("a time");
    let check = |ages: &[u64], expected: &[u64]| {
        let mut daemon = AgentAddress {
            path: listening.path.clone().leak(),
            state: State::Paused { until: now, is_absent: false },
            pause: PAUSE_MIN,
            orphans: ages.iter().map(|age| Orphan::for_test(ago(*age))).collect(),
            orphans_until: now + ORPHAN_PATIENCE,
        };
        // An agent connects and closes the connection at once, three times.
        for _ in 0..3 {
            daemon.connect(Clock::Tsc);
            let come = listening.connected(LONG);
            drop(come.expect("it was found"));
            while matches!(daemon.state, State::Connected { .. }) {
                daemon.process(&mut CatalogFile::default());
            }
            daemon.state = State::Paused { until: now, is_absent: false };
        }
        let ages = daemon.orphans.iter().map(|orphan| orphan.age(now).as_secs());
        assert_eq!(ages.collect::<Vec<u64>>(), expected);
    };
    check(&[], &[]);
    check(&[61, 50, 0], &[50, 0]);
    let many: Vec<u64> = (0..130).map(|_| 30).chain([20; 10]).collect();
    check(&many, &many[many.len() - ORPHANS_MAX..]);
}

/// Returns the thread's context-switch counts after six seconds and after seven.
fn switches(thread: u32) -> (String, String) {
    let switches = || {
        let status = format!("/proc/self/task/{thread}/status");
        let status = std::fs::read_to_string(status).unwrap();
        status.lines().filter(|line| line.contains("ctxt_switches")).collect()
    };
    std::thread::sleep(Duration::from_secs(6));
    let before = switches();
    std::thread::sleep(Duration::from_secs(1));
    (before, switches())
}

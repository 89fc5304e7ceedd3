//! Sessions, from their creation to their traces: what programs are told, and what is on disk.

mod support;

use blkkin_control::{Activity, Mode, Purpose, Reply, Request, Snapshot};
use blkkin_ctf::metadata;
use blkkin_ring::Outcome;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use support::{Node, Program, events, eventually, read, trace_below};

#[test]
fn what_a_program_records_is_in_the_trace() {
    let mut node = Node::new();
    node.record_all(Purpose::Record);
    let mut program = Program::start(&node);
    assert_eq!(program.in_force[&0].len(), 1);
    program.tell(0, "test:first");
    for number in 0..1000 {
        assert_eq!(program.record(0, 0, number), Outcome::Recorded);
    }
    // It is there soon, while the session goes on.
    let trace = eventually("the trace is there", || trace_below(&node.output()));
    eventually("the events are written", || (read(&trace).numbers.len() == 1000).then_some(()));
    let schema = metadata::parse(fs::read(trace.join("metadata")).unwrap()).unwrap();
    assert_eq!(schema.streams[0].events[0].name.as_deref(), Some("test:first"));
    // Another type, which is described before its events are there.
    program.tell(1, "test:second");
    program.record(0, 1, 1000);
    eventually("the event is written", || (read(&trace).numbers.len() == 1001).then_some(()));
    let schema = metadata::parse(fs::read(trace.join("metadata")).unwrap()).unwrap();
    assert_eq!(schema.streams[0].events.len(), 2);
    // What is recorded last, before it goes.
    program.record(0, 1, 1001);
    program.goodbye();
    let expected: Vec<(u16, u64)> =
        (0..1002).map(|number| (u16::from(number >= 1000), number)).collect();
    eventually("all is written", || {
        let found = read(&trace);
        (found.is_whole && found.numbers == expected).then_some(())
    });
    // It says goodbye before it is gone.
    let told = eventually("it has ended", || {
        let told = node.ask(&Request::Status(None));
        (!matches!(told[0], Reply::Ring(_))).then_some(told)
    });
    let [Reply::Ended(ended), quotas @ ..] = &told[..] else { panic!("{told:?}") };
    assert!(quotas.iter().all(|reply| matches!(reply, Reply::Quota(_))), "{quotas:?}");
    assert_eq!((ended.events_discarded, ended.packets_lost), (0, 0));
}

#[test]
fn programs_are_told_what_changes() {
    let mut node = Node::new();
    let mut program = Program::start(&node);
    assert!(program.writers.is_empty());
    // Requests are done when the program has followed; so it must follow on a thread of its own.
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                program.obey();
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        node.record_all(Purpose::Record);
        node.ask(&Request::DisableEvents(events("a:*")));
        node.ask(&Request::StopSession("s".into()));
        done.store(true, Relaxed);
    });
    assert_eq!(program.writers.len(), 1);
    // It stays attached, and has no rules.
    assert_eq!(program.in_force[&0], []);
    drop(program);
    let listed = node.ask(&Request::ListSessions(None));
    let [Reply::Session(session), Reply::Channel(channel), rules @ ..] = &listed[..] else {
        panic!("{listed:?}")
    };
    assert_eq!(session.activity, Activity::Stopped);
    assert_eq!((&*channel.name, channel.mode), ("channel0", Mode::Discard));
    assert_eq!(rules.len(), 2);
    node.ask(&Request::DestroySession("s".into()));
    assert_eq!(node.ask(&Request::ListSessions(None)), []);
    assert!(node.refusal(&Request::StartSession("t".into())).contains("no session `t`"));
}

#[test]
fn events_that_find_no_room_are_counted() {
    let mut node = Node::new();
    node.record_all(Purpose::Record);
    let mut program = Program::start(&node);
    program.tell(0, "test:first");
    // Faster than anybody can read.
    let attempted = 3_000_000;
    let mut lost = 0;
    for number in 0..attempted {
        lost += u64::from(program.record(0, 0, number) == Outcome::Full);
    }
    program.goodbye();
    let trace = trace_below(&node.output()).unwrap();
    eventually("all is accounted for", || {
        let found = read(&trace);
        let accounted = found.numbers.len() as u64 + found.discarded;
        (found.is_whole && found.discarded == lost && accounted == attempted).then_some(())
    });
}

#[test]
fn snapshots_hold_the_latest_events() {
    let mut node = Node::new();
    node.record_all(Purpose::Snapshot);
    let mut program = Program::start(&node);
    program.tell(0, "test:first");
    let snapshot = |node: &mut Node| {
        let request = Request::Snapshot(Snapshot { session: "s".into(), output: None });
        let replies = node.ask(&request);
        let [Reply::Written(path)] = &replies[..] else { panic!("{replies:?}") };
        read(&trace_below(path).unwrap()).numbers
    };
    for number in 0..10 {
        program.record(0, 0, number);
    }
    assert_eq!(snapshot(&mut node).len(), 10);
    for number in 10..1_000_000 {
        program.record(0, 0, number);
    }
    let numbers = snapshot(&mut node);
    assert_eq!(numbers.last(), Some(&(0, 999_999)));
    assert!(numbers.len() < 1_000_000 && numbers.len() > 10_000, "{}", numbers.len());
    // The flight recorder outlives the program.
    program.goodbye();
    eventually("the program is gone", || {
        let all = blkkin_control::Applications {
            processes: blkkin_control::Processes::default(),
            event_types: false,
        };
        node.ask(&Request::ListApplications(all)).is_empty().then_some(())
    });
    assert_eq!(snapshot(&mut node), numbers);
}

//! Tests of sessions, from their creation to their traces: the messages to programs, and the files
//! on disk.

mod support;

use blkkin_agent::{Background, Limits};
use blkkin_control::{
    Activity, Cause, Channel, Mode, NewChannel, Purpose, Reply, Request, Session, Snapshot,
};
use blkkin_ctf::metadata;
use blkkin_ring::{Event, Outcome};
use blkkin_sys::testing::skip;
use rustix::fs::{Advice, fadvise};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use support::{
    Node, Program, TraceContent, events, eventually, hello_after_refusal, read, trace_below,
    traces_below,
};

#[test]
fn recorded_events_are_in_the_trace() {
    let mut node = Node::new();
    node.record_all(Purpose::Record);
    let mut program = Program::start(&node);
    assert_eq!(program.in_force[&0].len(), 1);
    program.add_type(0, "test:first");
    for number in 0..1000 {
        assert_eq!(program.record(0, 0, number), Outcome::Recorded);
    }
    // The events are written soon, while the session is still active.
    let trace = eventually("the trace is there", || trace_below(&node.output()));
    eventually("the events are written", || (read(&trace).numbers.len() == 1000).then_some(()));
    let schema = metadata::parse(fs::read(trace.join("metadata")).unwrap()).unwrap();
    assert_eq!(schema.streams[0].events[0].name.as_deref(), Some("test:first"));
    // A type that was added later is described before its events are in the trace.
    program.add_type(1, "test:second");
    program.record(0, 1, 1000);
    eventually("the event is written", || (read(&trace).numbers.len() == 1001).then_some(()));
    let schema = metadata::parse(fs::read(trace.join("metadata")).unwrap()).unwrap();
    assert_eq!(schema.streams[0].events.len(), 2);
    // The last event before `Goodbye` is written too.
    program.record(0, 1, 1001);
    program.goodbye();
    let expected: Vec<(u16, u64)> =
        (0..1002).map(|number| (u16::from(number >= 1000), number)).collect();
    eventually("all is written", || {
        let found = read(&trace);
        (found.is_whole && found.numbers == expected).then_some(())
    });
    // The agent may still have the program's rings when all is written.
    let told = eventually("it has ended", || {
        let told = node.ask(&Request::Status(None));
        (!matches!(told[0], Reply::Ring(_))).then_some(told)
    });
    let [Reply::Ended(ended), quotas @ ..] = &told[..] else { panic!("{told:?}") };
    assert!(quotas.iter().all(|reply| matches!(reply, Reply::Quota(_))), "{quotas:?}");
    assert_eq!((ended.events_discarded, ended.packets_lost), (0, 0));
}

#[test]
fn changes_are_sent_to_programs() {
    let mut node = Node::new();
    let mut program = Program::start(&node);
    assert!(program.writers.is_empty());
    // A request is answered when the program has confirmed the change, so the program handles its
    // messages on another thread.
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                program.handle_messages();
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        node.record_all(Purpose::Record);
        let mut filtered = events("a:*");
        filtered.selection.filter = Some("x > 0".to_owned());
        let why = node.refusal(&Request::DisableEvents(filtered));
        assert!(why.contains("cannot be disabled by a filter"), "{why}");
        node.ask(&Request::DisableEvents(events("a:*")));
        node.ask(&Request::StopSession("s".into()));
        done.store(true, Relaxed);
    });
    assert_eq!(program.writers.len(), 1);
    // The program stays attached, without rules.
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

/// Reads the start of a file. Returns the number of bytes that the kernel had to read from the
/// disk; `None` if the kernel does not report this.
fn read_from_disk(file: &File) -> Option<u64> {
    let read = || {
        let counts = fs::read_to_string("/proc/thread-self/io").ok()?;
        counts.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse::<u64>().ok())
    };
    let before = read()?;
    file.read_exact_at(&mut [0; 4096], 0).unwrap();
    Some(read()? - before)
}

/// Returns whether the kernel reports how much it reads from the disk under this directory.
fn reports_disk_reads(directory: &Path) -> bool {
    let path = directory.join("probe");
    fs::write(&path, [1; 4096]).unwrap();
    let file = File::open(&path).unwrap();
    file.sync_all().unwrap();
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    fs::remove_file(&path).unwrap();
    read_from_disk(&file).is_some_and(|bytes| bytes > 0)
}

#[test]
fn written_pages_are_dropped_from_the_page_cache() {
    let mut node = Node::new();
    let directory = node.output();
    if !reports_disk_reads(directory.parent().unwrap()) {
        let reason = "a disk is needed, of which the kernel tells what was read";
        skip("written_pages_are_dropped_from_the_page_cache", reason);
        return;
    }
    node.record_all(Purpose::Record);
    let mut program = Program::start(&node);
    program.add_type(0, "test:first");
    // On one processor, only one file of the trace grows.
    let mut processors = CpuSet::new();
    processors.set(sched_getcpu());
    sched_setaffinity(None, &processors).unwrap();
    let mut bytes = [1; 8192];
    let mut record = || {
        for _ in 0..1000 {
            let mut event = Event::new(&mut bytes, 8000, 0).unwrap();
            if program.writers[&0].record(&mut event) == Outcome::Full {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    };
    let mut grown = |size: u64| {
        eventually("a file grows", || {
            record();
            let files = fs::read_dir(trace_below(&directory)?).unwrap();
            let mut files = files.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
            files.find(|path| fs::metadata(path).unwrap().len() >= size)
        })
    };
    let file = File::open(grown(32 << 20)).unwrap();
    file.sync_all().unwrap();
    assert_eq!(read_from_disk(&file), Some(0), "it is forgotten too soon");
    grown(128 << 20);
    file.sync_all().unwrap();
    // The size stays close to the limit; with a much larger file, the kernel might drop the pages
    // by itself.
    let is_forgotten = (1..=8).any(|pieces| {
        grown((128 + 16 * pieces) << 20);
        std::thread::sleep(Duration::from_millis(50));
        read_from_disk(&file).unwrap() > 0
    });
    assert!(is_forgotten, "all of it is in memory");
    program.goodbye();
}

#[test]
fn events_that_find_no_room_are_counted() {
    let mut node = Node::new();
    node.record_all(Purpose::Record);
    let mut program = Program::start(&node);
    program.add_type(0, "test:first");
    // The program records faster than the agent can read.
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

/// Takes a snapshot, and returns the content of its only trace.
fn snapshot(node: &mut Node) -> TraceContent {
    let request = Request::Snapshot(Snapshot { session: "s".into(), output: None });
    let replies = node.ask(&request);
    let Some(Reply::Written(path)) = replies.last() else { panic!("{replies:?}") };
    read(&trace_below(path).unwrap())
}

#[test]
fn snapshots_hold_the_latest_events() {
    let mut node = Node::new();
    node.record_all(Purpose::Snapshot);
    let mut program = Program::start(&node);
    program.add_type(0, "test:first");
    let snapshot = |node: &mut Node| snapshot(node).numbers;
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
    // The rings for snapshots outlive the program.
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

/// A write error of one session is not reported to a command that stops another session.
#[test]
fn write_errors_concern_one_session() {
    let mut node = Node::new();
    node.record_all(Purpose::Record);
    let output = node.directory.path().join("other");
    node.record_all_as("other", Purpose::Record, output.clone());
    // A plain file in place of the directory for traces makes all writes fail.
    fs::write(output.join("ust"), "").unwrap();
    let mut program = Program::start(&node);
    program.add_type(0, "test:first");
    for channel in [0, 1] {
        program.record(channel, 0, 7);
    }
    program.while_handling(|| {
        node.ask(&Request::StopSession("s".into()));
        let refusal = node.refusal(&Request::StopSession("other".into()));
        assert!(refusal.contains("not all that was recorded can be written"), "{refusal}");
        node.ask(&Request::DestroySession("s".into()));
    });
    let trace = trace_below(&node.output()).unwrap();
    assert_eq!(read(&trace).numbers, [(0, 7)]);
}

/// A program that reconnects continues its trace, whether its earlier connection is closed or still
/// open. All recorded events are in the trace or snapshot, and discarded events are counted.
#[test]
fn programs_that_reconnect_continue_their_trace() {
    for purpose in [Purpose::Record, Purpose::Snapshot] {
        for is_open in [false, true] {
            check_coming_back(purpose, is_open);
        }
    }
}

fn check_coming_back(purpose: Purpose, is_open: bool) {
    let mut node = Node::new();
    node.record_all(purpose);
    let mut program = Program::start(&node);
    program.add_type(0, "test:first");
    let (mut count, mut lost) = (0, 0);
    let mut record = |program: &Program, more: u64| {
        for number in count..count + more {
            lost += u64::from(program.record(0, 0, number) == Outcome::Full);
        }
        count += more;
    };
    let mut open = Vec::new();
    for round in 0..3 {
        record(&program, 1000);
        if purpose == Purpose::Record {
            eventually("it is written", || trace_below(&node.output()));
        }
        if !is_open {
            program.lose_connection();
            std::thread::sleep(Duration::from_millis(20));
        }
        // Records while the agent may not read the rings. In one round, the rings cannot hold all
        // events.
        let much = if purpose == Purpose::Record && round == 1 { 300_000 } else { 1000 };
        record(&program, much);
        let before = program.reconnect(&node);
        if is_open {
            open.push(before);
        }
    }
    record(&program, 1000);
    let expected: Vec<(u16, u64)> = (0..count).map(|number| (0, number)).collect();
    if purpose == Purpose::Snapshot {
        let found = snapshot(&mut node);
        assert!(found.numbers == expected, "{} of {count}", found.numbers.len());
        assert_eq!((found.gaps, found.discarded), (0, 0));
        return;
    }
    program.goodbye();
    eventually("all of it is one trace", || {
        let found = read(&trace_below(&node.output())?);
        let is_distinct = found.numbers.windows(2).all(|pair| pair[0].1 < pair[1].1);
        let accounted = found.numbers.len() as u64 + found.discarded;
        let is_exact = is_distinct && found.discarded == lost && accounted == count;
        (found.is_whole && is_exact && found.gaps == 0).then_some(())
    });
    assert!(is_open || lost > 0);
}

/// The notes of a program that has sent `Goodbye` are dropped when the file of notes is next
/// rewritten, so the file does not grow with the number of past programs. The notes of a program
/// that may reconnect are kept.
#[test]
fn notes_go_with_programs() {
    let mut node = Node::new();
    node.record_all(Purpose::Record);
    let notes = node.agent.as_ref().unwrap().socket().with_extension("sessions");
    let noted = || {
        let notes = fs::read(&notes).unwrap();
        notes.windows(8).filter(|part| part == b"prog_ram").count()
    };
    let program = Program::start(&node);
    assert_eq!(noted(), 1);
    let mut most = 0;
    for _ in 0..350 {
        Program::start(&node).goodbye();
        most = most.max(noted());
    }
    assert!((200..400).contains(&most), "{most}");
    // Programs without `Goodbye` may reconnect while their process runs, so their notes are kept.
    for _ in 0..40 {
        drop(Program::start(&node));
    }
    eventually("only this one is noted, and those that may come back", || {
        node.ask(&Request::EnableEvents(events("*")));
        (noted() == 1 + 40).then_some(())
    });
    program.goodbye();
    let kept = "those are noted as long as this process is there";
    eventually(kept, || {
        node.ask(&Request::EnableEvents(events("*")));
        (noted() == 40).then_some(())
    });
    node.ask(&Request::DestroySession("s".into()));
    assert_eq!(noted(), 0);
}

/// A clear drops all earlier events of all programs, and their losses. The traces have all later
/// events.
#[test]
fn clear_drops_all_that_was_recorded() {
    let mut node = Node::new();
    node.record_all(Purpose::Record);
    let clear = Request::ClearSession("s".into());
    let count_of = |number| {
        move |node: &Node| {
            let traces = traces_below(&node.output());
            (traces.iter().map(|trace| read(trace).numbers.len()).sum::<usize>() == number)
                .then_some(())
        }
    };
    // A program that has ended, a program that may reconnect, and a program that has lost events.
    start(&node).goodbye();
    drop(start(&node));
    let mut program = start(&node);
    eventually("all is written", || count_of(3)(&node));
    program.lose_connection();
    let tried = 300_000;
    let lost = (0..tried).filter(|_| program.record(0, 0, 2) == Outcome::Full).count();
    assert!(lost > 0);
    program.reconnect(&node);
    eventually("all is written", || count_of(3 + tried as usize - lost)(&node));
    let traces = traces_below(&node.output());
    // A file that no agent has made is kept, and so is its directory.
    let foreign = traces[0].join("notes.txt");
    fs::write(&foreign, "").unwrap();
    node.ask(&clear);
    eventually("nothing is left", || count_of(0)(&node));
    assert!(foreign.exists());
    fs::remove_file(foreign).unwrap();
    node.ask(&clear);
    for number in 10..20 {
        assert_eq!(program.record(0, 0, number), Outcome::Recorded);
    }
    start(&node).goodbye();
    program.goodbye();
    eventually("what came later is there", || count_of(11)(&node));
    let left = traces_below(&node.output());
    assert!(left.iter().all(|trace| read(trace).is_whole && read(trace).discarded == 0));
    // One trace is empty: that of the program that may reconnect.
    assert_eq!(left.len(), 3, "{left:?}");
    node.ask(&clear);
    eventually("nothing is left", || count_of(0)(&node));
}

/// Connects a program, and records one event.
fn start(node: &Node) -> Program {
    let mut program = Program::start(node);
    program.add_type(0, "test:first");
    program.record(0, 0, 1);
    program
}

/// A clear also drops the events of a session that takes snapshots.
#[test]
fn clear_drops_flight_recorders() {
    let mut node = Node::new();
    node.record_all(Purpose::Snapshot);
    start(&node).goodbye();
    let mut program = start(&node);
    // The program reconnects before the clear, as after the start of another agent.
    program.lose_connection();
    program.reconnect(&node);
    program.record(0, 0, 2);
    node.ask(&Request::ClearSession("s".into()));
    for number in 10..20 {
        program.record(0, 0, number);
    }
    let expected: Vec<(u16, u64)> = (10..20).map(|number| (0, number)).collect();
    assert_eq!(snapshot(&mut node).numbers, expected);
    // Cleared events do not reappear when the program reconnects.
    program.lose_connection();
    program.reconnect(&node);
    assert_eq!(snapshot(&mut node).numbers, expected);
}

/// A snapshot of rings in discard mode has the events that were recorded before the rings were
/// full, even if the program has reconnected. After a clear, new events are recorded again.
#[test]
fn snapshots_of_what_came_first() {
    let mut node = Node::new();
    let output = Some(node.output());
    let session = Session { name: "s".into(), purpose: Purpose::Snapshot, output };
    node.ask(&Request::CreateSession(session));
    let channel = Channel {
        name: "c".into(),
        mode: Mode::Discard,
        subbuffer_size: Some(4096),
        subbuffer_count: Some(4),
        contexts: vec![],
        wait_us: 0,
        event_size: None,
    };
    node.ask(&Request::CreateChannel(NewChannel { session: "s".into(), channel }));
    node.ask(&Request::EnableEvents(events("*")));
    node.ask(&Request::StartSession("s".into()));
    let mut program = Program::start(&node);
    program.add_type(0, "test:first");
    let mut number = 0;
    for is_cleared in [false, true] {
        if is_cleared {
            node.ask(&Request::ClearSession("s".into()));
        }
        let mut expected = Vec::new();
        let mut lost = 0;
        for _ in 0..2 {
            // Records more events than the rings of all processors hold.
            for _ in 0..300 * (support::online_processors() + 1) * 4 {
                match program.record(0, 0, number) {
                    Outcome::Recorded => expected.push((0, number)),
                    _ => lost += 1,
                }
                number += 1;
            }
            let found = snapshot(&mut node);
            assert!(found.numbers == expected, "{} {}", found.numbers.len(), expected.len());
            assert!(lost > 0 && found.gaps == 0);
            program.lose_connection();
            program.reconnect(&node);
        }
    }
}

/// A refused program is counted even if it is preempted between connecting and sending `Hello`.
#[test]
fn d10_programs_that_say_hello_after_their_refusal_are_counted() {
    let limits = Limits { connections: 1, ..Limits::default() };
    let mut node = Node::with(Background::start_with(|_| (), limits, None, None).unwrap());
    node.record_all(Purpose::Record);
    let socket = node.agent.as_ref().unwrap().socket().to_owned();
    hello_after_refusal(&socket);
    eventually("it is counted", || {
        let mut status = node.ask(&Request::Status(None)).into_iter();
        status.find_map(|reply| match reply {
            Reply::Loss(loss) if loss.cause == Cause::Quota => Some(loss),
            _ => None,
        })
    });
}

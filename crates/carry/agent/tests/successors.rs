//! Tests with successive agents on one socket: the next agent restores the saved state, and
//! programs reconnect with their rings.

mod support;

use blkkin_agent::Limits;
use blkkin_control::{
    Cause, Channel, Events, Mode, NewChannel, Purpose, Reply, Request, Session, Snapshot,
};
use blkkin_ring::{Cells, Clock, Outcome, Writer};
use blkkin_sys::SharedMemory;
use blkkin_sys::testing::Random;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use support::{
    LOG, OrphanedRings, Program, Succession, TraceContent, events, eventually, quota, read,
    trace_below, traces_below,
};

/// Makes and starts a session that records all events into each of these channels.
fn record_all(agents: &Succession, purpose: Purpose, channels: &[&str]) {
    let session = Session { name: "s".into(), purpose, output: Some(agents.output()) };
    agents.ask(&Request::CreateSession(session));
    for name in channels {
        let mode = match purpose {
            Purpose::Record => Mode::Discard,
            Purpose::Snapshot => Mode::Overwrite,
        };
        let channel = Channel {
            mode,
            subbuffer_size: Some(SUBBUFFER as u64),
            subbuffer_count: Some(4),
            ..Channel::named(*name)
        };
        agents.ask(&Request::CreateChannel(NewChannel { session: "s".into(), channel }));
        agents.ask(&Request::EnableEvents(Events { channel: Some((*name).into()), ..events("*") }));
    }
    agents.ask(&Request::StartSession("s".into()));
}

const SUBBUFFER: usize = 256 << 10;

/// Returns the bytes that the quota charges for a channel's rings while they hold few events.
fn set_size(purpose: Purpose) -> u64 {
    let agents = Succession::begin(Limits::default());
    record_all(&agents, purpose, &["c"]);
    let _program = program(&agents);
    quota(&mut agents.client(), blkkin_sys::user_id(), "ring-bytes").0
}

fn program(agents: &Succession) -> Program {
    let mut program = Program::start_at(&agents.socket());
    program.add_type(0, "test:first");
    program
}

/// Starts an agent and a program that records `count` events. Returns both when all events are
/// written.
fn recording(count: u64) -> (Succession, Program) {
    let agents = Succession::begin(Limits::default());
    record_all(&agents, Purpose::Record, &["c"]);
    let program = program(&agents);
    record(&program, 0..count);
    wait_for(&agents, count);
    (agents, program)
}

fn record(program: &Program, numbers: std::ops::Range<u64>) {
    numbers.for_each(|number| assert_eq!(program.record(0, 0, number), Outcome::Recorded));
}

/// Waits until the only trace has each of the events 0 to `count` (exclusive) once, and reports no
/// loss.
fn wait_for(agents: &Succession, count: u64) {
    let expected: Vec<(u16, u64)> = (0..count).map(|number| (0, number)).collect();
    eventually("all of it is one trace", || {
        let found = read(&trace_below(&agents.output())?);
        let others = (found.discarded, found.gaps, found.back);
        let is_exact = found.numbers == expected && others == (0, 0, 0);
        (found.is_whole && is_exact).then_some(())
    });
}

/// Returns the number of lost packets of all freed rings, as the agent reports it.
fn lost(agents: &Succession) -> u64 {
    let replies = agents.ask(&Request::Status(None));
    let lost = replies.iter().filter_map(|reply| match reply {
        Reply::Ended(ended) => Some(ended.packets_lost),
        _ => None,
    });
    lost.sum()
}

/// No event is lost or written twice if a program loses its connection several times, at different
/// points of the protocol, with and without a change of agents.
#[test]
fn each_event_is_written_once_despite_lost_connections() {
    for first_agent_stays in [true, false] {
        let (mut agents, mut program) = recording(100);
        program.lose_connection();
        record(&program, 100..200);
        if !first_agent_stays {
            agents.start_next();
        }
        // The program loses the connection before it has mapped its new rings, or before it has
        // handled the message to keep its rings.
        program.reconnect_and_disconnect(&agents.socket());
        record(&program, 200..300);
        program.reconnect_and_disconnect(&agents.socket());
        record(&program, 300..400);
        program.reconnect_to(&agents.socket());
        record(&program, 400..500);
        wait_for(&agents, 500);
        // The program has the same rings, or new rings in their place.
        let (used, _) = quota(&mut agents.client(), blkkin_sys::user_id(), "ring-bytes");
        assert_eq!(used, set_size(Purpose::Record));
        agents.start_next();
        program.reconnect_to(&agents.socket());
        record(&program, 500..600);
        agents.end();
        wait_for(&agents, 600);
    }
}

/// In any sequence of lost connections, reconnections and new agents, each event is written once or
/// counted as discarded.
#[test]
fn random_lives_of_programs_and_agents_lose_no_event() {
    let number = |variable, usual| {
        std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
    };
    let first = number("TEST_SEED", 1);
    // In the second case the descriptors suffice for one program only, so a new connection makes
    // the agent end the absence of the disconnected program.
    for (descriptors, shared) in [(u64::MAX, 1), (11, 2)] {
        for seed in first..first + number("TEST_LIVES", 30) {
            live(seed * shared, Limits { descriptors, ..Limits::default() });
        }
    }
}

fn live(seed: u64, limits: Limits) {
    let mut agents = Succession::begin(limits);
    record_all(&agents, Purpose::Record, &["c"]);
    // While ended commands still count as connected, the descriptors do not suffice for rings.
    let without_clients = |agents: &Succession, programs: u64| {
        let is_asked = || {
            let mut client = agents.try_client().ok()?;
            Some(quota(&mut client, blkkin_sys::user_id(), "connections").0)
        };
        eventually("there are no others but who asks", || {
            is_asked().filter(|connections| *connections <= programs + 1).map(drop)
        });
    };
    without_clients(&agents, 0);
    let mut program = program(&agents);
    let mut random = Random::new(seed);
    let (mut story, mut recorded, mut full) = (Vec::new(), 0, 0);
    let mut record = |program: &Program, random: &mut Random| {
        // In one of eight rounds, more events are recorded than the rings hold.
        let tries = if random.chance(8) { 60_000 } else { 1 + random.below(30u64) };
        for _ in 0..tries {
            match program.record(program.newest, 0, recorded) {
                Outcome::Recorded => recorded += 1,
                _ => full += 1,
            }
        }
    };
    // Gives the agent time to notice a lost connection, or no time.
    let pause = |random: &mut Random| {
        std::thread::sleep(Duration::from_millis(15 * random.below(2u64)));
    };
    record(&program, &mut random);
    for _ in 0..14 {
        let what = ["record", "lose", "vanish", "come", "come slowly", "restart", "clients"];
        let what = random.one_of(&what);
        story.push(what);
        if !["record", "clients"].contains(&what) {
            program.lose_connection();
            pause(&mut random);
        }
        match what {
            "record" => record(&program, &mut random),
            "vanish" => program.reconnect_and_disconnect(&agents.socket()),
            "come" => drop(program.reconnect_to(&agents.socket())),
            "come slowly" => {
                program.reconnect_without_handling(&agents.socket());
                pause(&mut random);
                record(&program, &mut random);
                eventually("a ping", || program.handle_messages().then_some(()));
            }
            "restart" => agents.start_next(),
            "clients" => {
                drop((0..3).map(|_| agents.try_client()).collect::<Vec<_>>());
                without_clients(&agents, 1);
            }
            _ => {}
        }
        pause(&mut random);
    }
    program.lose_connection();
    pause(&mut random);
    program.reconnect_to(&agents.socket());
    record(&program, &mut random);
    agents.end();
    let mut all = TraceContent { is_whole: true, ..TraceContent::default() };
    for found in traces_below(&agents.output()).iter().map(|trace| read(trace)) {
        all.numbers.extend(found.numbers);
        all.discarded += found.discarded;
        all.gaps += found.gaps;
        all.back += found.back;
        all.is_whole &= found.is_whole;
    }
    all.numbers.sort_unstable();
    let is_exact = all.numbers.iter().map(|(_, number)| *number).eq(0..recorded);
    let others = (all.is_whole, all.discarded, all.gaps, all.back);
    assert!(
        is_exact && others == (true, full, 0, 0),
        "seed {seed}, {limits:?}: {} events of {recorded}, {full} lost; {others:?}; {story:?}",
        all.numbers.len()
    );
}

/// A thread records more events than the rings hold, while its program repeatedly loses the
/// connection and reconnects. Each event is written once or counted as discarded.
#[test]
fn full_rings_of_programs_that_come_and_go() {
    let (mut agents, mut program) = recording(1);
    let memory = program.memories.remove(&0).unwrap();
    let done = AtomicBool::new(false);
    let (recorded, full) = std::thread::scope(|scope| {
        let records = scope.spawn(|| {
            let writer = Writer::new(Cells::new(memory), Clock::Tsc).unwrap();
            let (mut recorded, mut full) = (1, 0);
            while !done.load(Relaxed) {
                match support::record_with(&writer, recorded) {
                    Outcome::Recorded => recorded += 1,
                    _ => full += 1,
                }
            }
            (recorded, full)
        });
        for _ in 0..10 {
            for pause in [20, 30, 30] {
                std::thread::sleep(Duration::from_millis(pause));
                match pause {
                    20 => program.lose_connection(),
                    _ => program.reconnect_and_disconnect(&agents.socket()),
                }
            }
            program.reconnect_to(&agents.socket());
        }
        done.store(true, Relaxed);
        records.join().unwrap()
    });
    agents.end();
    let found = read(&trace_below(&agents.output()).unwrap());
    assert!(full > 0);
    assert_eq!(found.numbers.len() as u64, recorded);
    assert_eq!((found.discarded, found.gaps, found.back), (full, 0, 0));
}

/// A program that reconnects while its session is being destroyed is sent messages to unmap its
/// rings.
#[test]
fn reconnect_during_destruction_of_the_session() {
    let (agents, mut away) = recording(1);
    // The agent waits for the confirmation of this program, which does not answer, so the
    // destruction takes a while.
    let idle = program(&agents);
    away.lose_connection();
    eventually("it is known to be away", || {
        (quota(&mut agents.client(), blkkin_sys::user_id(), "connections").0 == 2).then_some(())
    });
    std::thread::scope(|scope| {
        scope.spawn(|| agents.ask(&Request::DestroySession("s".into())));
        eventually("it goes", || {
            let sessions = agents.ask(&Request::ListSessions(None));
            (!sessions.iter().any(|one| matches!(one, Reply::Session(_)))).then_some(())
        });
        away.reconnect_to(&agents.socket());
    });
    eventually("it has let go", || {
        away.handle_messages();
        (away.files.is_empty() && away.orphan_count() == 0).then_some(())
    });
    drop(idle);
}

/// Events that are recorded while the program is disconnected are written when its session stops,
/// and when the agent ends.
#[test]
fn what_is_recorded_meanwhile_is_written_at_the_end() {
    let (mut agents, mut program) = recording(100);
    program.lose_connection();
    eventually("it is known to be away", || {
        (quota(&mut agents.client(), blkkin_sys::user_id(), "connections").0 == 1).then_some(())
    });
    record(&program, 100..200);
    agents.ask(&Request::StopSession("s".into()));
    assert_eq!(read(&trace_below(&agents.output()).unwrap()).numbers.len(), 200);
    record(&program, 200..300);
    agents.end();
    assert_eq!(read(&trace_below(&agents.output()).unwrap()).numbers.len(), 300);
}

/// Events that a program records into its old rings after a clear are written, if the program was
/// sent new rings before the clear and has not mapped them yet.
#[test]
fn cleared_before_rings_are_taken() {
    let (mut agents, mut program) = recording(100);
    program.lose_connection();
    agents.start_next();
    record(&program, 100..200);
    program.reconnect_and_disconnect(&agents.socket());
    agents.ask(&Request::ClearSession("s".into()));
    record(&program, 0..50);
    program.reconnect_to(&agents.socket());
    record(&program, 50..60);
    wait_for(&agents, 60);
}

/// The agent continues to read all sets of rings of a program that reconnects, even if their number
/// exceeds the limit for sets from earlier agents.
#[test]
fn more_channels_than_are_taken_of_others() {
    let agents = Succession::begin(Limits::default());
    let names: Vec<String> = (0..3).map(|number| format!("s{number}")).collect();
    for name in &names {
        let session = name.clone();
        let output = Some(agents.output().join(name));
        agents.ask(&Request::CreateSession(Session {
            name: session.clone(),
            purpose: Purpose::Record,
            output,
        }));
        for channel in (0..24).map(|number| format!("c{number}")) {
            let (subbuffer_size, subbuffer_count) = (Some(64 << 10), Some(2));
            let new = Channel { subbuffer_size, subbuffer_count, ..Channel::named(&*channel) };
            let session = session.clone();
            agents.ask(&Request::CreateChannel(NewChannel { session, channel: new }));
            let session = name.clone();
            let channel = Some(channel);
            agents.ask(&Request::EnableEvents(Events { session, channel, ..events("*") }));
        }
        agents.ask(&Request::StartSession(session));
    }
    let mut program = program(&agents);
    let channels: Vec<u32> = program.writers.keys().copied().collect();
    assert_eq!(channels.len(), 72);
    let record = |program: &Program, number| {
        for channel in &channels {
            assert_eq!(program.record(*channel, 0, number), Outcome::Recorded);
        }
    };
    record(&program, 0);
    program.lose_connection();
    record(&program, 1);
    program.reconnect_without_handling(&agents.socket());
    record(&program, 2);
    eventually("a ping", || program.handle_messages().then_some(()));
    record(&program, 3);
    eventually("all are written", || {
        let traces = names.iter().flat_map(|name| traces_below(&agents.output().join(name)));
        (traces.map(|trace| read(&trace).numbers.len()).sum::<usize>() == 4 * 72).then_some(())
    });
}

/// A program whose session was stopped during the program's absence stops recording when it
/// reconnects. All of its events are written, and it records again after the next start.
#[test]
fn sessions_that_are_stopped_meanwhile() {
    for first_agent_stays in [true, false] {
        let (mut agents, mut program) = recording(100);
        program.lose_connection();
        record(&program, 100..200);
        agents.ask(&Request::StopSession("s".into()));
        if !first_agent_stays {
            agents.start_next();
        }
        program.reconnect_to(&agents.socket());
        eventually("it is told to stop", || {
            program.handle_messages();
            program.in_force.values().all(Vec::is_empty).then_some(())
        });
        wait_for(&agents, 200);
        agents.ask(&Request::StartSession("s".into()));
        program.while_handling(|| record_again(&agents));
        record(&program, 200..201);
        wait_for(&agents, 201);
    }
}

fn record_again(agents: &Succession) {
    agents.ask(&Request::EnableEvents(Events { channel: Some("c".into()), ..events("*") }));
}

/// A clear also drops the events and losses of a program that is disconnected.
#[test]
fn what_is_cleared_meanwhile_does_not_come_back() {
    for first_agent_stays in [true, false] {
        let (mut agents, mut program) = recording(100);
        let mut tries = 0..100_000_000;
        assert!(tries.any(|_| program.record(0, 0, 3) == Outcome::Full));
        program.lose_connection();
        eventually("it is known to be away", || {
            quota(&mut agents.client(), blkkin_sys::user_id(), "connections").0.eq(&1).then_some(())
        });
        agents.ask(&Request::ClearSession("s".into()));
        if !first_agent_stays {
            agents.start_next();
        }
        program.reconnect_to(&agents.socket());
        record(&program, 0..7);
        wait_for(&agents, 7);
        agents.end();
        wait_for(&agents, 7);
    }
}

/// Packets with events of a type wait in the rings while the type's description exceeds the user's
/// quota. Types that were described earlier stay in the metadata.
#[test]
fn types_without_room() {
    let type_bytes = 1500;
    let agents = Succession::begin(Limits { type_bytes, ..Limits::default() });
    record_all(&agents, Purpose::Record, &["c"]);
    let mut first = program(&agents);
    record(&first, 0..3);
    wait_for(&agents, 3);
    first.add_type(1, &format!("test:second{}", "x".repeat(180)));
    for number in 3..10 {
        first.record(0, number as u32 % 2, number);
    }
    eventually("it is told", || {
        let log = LOG.lock().unwrap();
        log.iter().any(|line| line.contains("bytes of event types")).then_some(())
    });
    std::thread::sleep(Duration::from_millis(600));
    wait_for(&agents, 3);
    let trace = trace_below(&agents.output()).unwrap();
    let metadata = fs::read_to_string(trace.join("metadata")).unwrap();
    assert!(metadata.contains("test:first") && !metadata.contains("test:second"));
}

/// After a change of agents, all channels of a program continue in the same trace, even if the
/// program offers the rings of one channel only.
#[test]
fn channels_that_are_lost_beside_others() {
    let mut agents = Succession::begin(Limits::default());
    record_all(&agents, Purpose::Record, &["a", "b"]);
    let mut before = program(&agents);
    for channel in [0, 1] {
        before.record(channel, 0, 0);
    }
    let of_both =
        |count: usize, found: &TraceContent| found.numbers.len() == 2 * count && found.is_whole;
    let both = |count: usize| {
        eventually("both channels are written", || {
            let found = read(&trace_below(&agents.output())?);
            (of_both(count, &found) && (found.discarded, found.gaps) == (0, 0)).then_some(())
        });
    };
    both(1);
    agents.end();
    // The program offers the rings of the first channel only.
    let live = OrphanedRings { file: before.files.remove(&0).unwrap(), is_spent: false };
    agents.start_next();
    let mut after = Program::start_with(&agents.socket(), std::process::id(), vec![live]);
    after.add_type(0, "test:first");
    eventually("it has rings", || {
        after.handle_messages();
        (after.writers.len() == 2).then_some(())
    });
    for number in 1..10 {
        for channel in [0, 1] {
            after.record(channel, 0, number);
        }
    }
    let found = eventually("both channels are written", || {
        let found = read(&trace_below(&agents.output())?);
        of_both(10, &found).then_some(found)
    });
    assert_eq!((found.discarded, found.gaps), (0, 0));
}

/// Memory that no agent has made is neither mapped nor allocated, whatever its size.
#[test]
fn foreign_memory_is_not_mapped() {
    let (agents, _program) = recording(1);
    let big = SharedMemory::create_sparse(c"big", 512 << 20).unwrap().0;
    let left = OrphanedRings { file: big.try_clone().unwrap(), is_spent: true };
    let other = Program::start_with(&agents.socket(), std::process::id(), vec![left]);
    eventually("it is done with", || {
        agents.ask(&Request::Status(None));
        Some(())
    });
    assert!(big.metadata().unwrap().blocks() * 512 < 1 << 20);
    drop(other);
}

/// Events that cannot be written stay in the rings, and writing is retried, as long as the program
/// may reconnect. Afterwards the events are counted as lost and reported.
#[test]
fn unwritten_events_wait_or_are_counted() {
    let agents = Succession::begin(Limits::default());
    record_all(&agents, Purpose::Record, &["c"]);
    let obstacle = agents.output().join("ust");
    fs::write(&obstacle, "").unwrap();
    let mut away = program(&agents);
    record(&away, 0..10);
    away.lose_connection();
    let gone = program(&agents);
    record(&gone, 0..5);
    gone.goodbye();
    eventually("what the one has recorded is lost", || (lost(&agents) > 0).then_some(()));
    let before = lost(&agents);
    fs::remove_file(&obstacle).unwrap();
    away.reconnect_to(&agents.socket());
    record(&away, 10..20);
    wait_for(&agents, 20);
    assert_eq!(lost(&agents), before);
}

/// Sets of orphaned rings beyond the limit are counted as lost, and reported. The program continues
/// to record.
#[test]
fn more_rings_than_are_taken() {
    let mut agents = Succession::begin(Limits::default());
    record_all(&agents, Purpose::Record, &["c"]);
    let mut before = program(&agents);
    before.record(0, 0, 0);
    let rules =
        |agents: &Succession| quota(&mut agents.client(), blkkin_sys::user_id(), "rule-bytes");
    let (rule_bytes, _) = rules(&agents);
    assert!(rule_bytes > 0);
    agents.end();
    record(&before, 1..100);
    // Memory that does not hold rings is not counted as a loss.
    let other = |is_spent| OrphanedRings { file: support::sealed_memory(), is_spent };
    let spent = (0..3).map(|_| other(true));
    let live = OrphanedRings { file: before.files.remove(&0).unwrap(), is_spent: false };
    let orphans = spent.chain((0..66).map(|_| other(false))).chain([live]).collect();

    agents.start_next();
    let mut after = Program::start_with(&agents.socket(), std::process::id(), orphans);
    after.add_type(0, "test:first");
    eventually("it has rings, and has got all others back", || {
        after.handle_messages();
        (!after.writers.is_empty() && after.orphan_count() == 0).then_some(())
    });
    let told = "have left more than 64 sets of rings; the others are lost: 6";
    let log = LOG.lock().unwrap().clone();
    assert!(log.iter().any(|line| line.contains(told)), "{log:?}");
    assert_eq!(rules(&agents), (rule_bytes, 0), "rules of earlier agents count too");
    // The lost set has one packet for each processor on which the program has run.
    assert!(lost(&agents) > 0);
    assert_eq!(after.record(0, 0, 100), Outcome::Recorded);
    eventually("it is written", || {
        let traces = traces_below(&agents.output());
        let numbers = |trace: &std::path::PathBuf| read(trace).numbers;
        traces.iter().flat_map(numbers).any(|one| one == (0, 100)).then_some(())
    });
}

/// Rings of ended programs or agents that are kept for snapshots are charged to their user. They
/// are evicted to make room for new rings, and the loss is reported.
#[test]
fn kept_rings_are_evicted_for_new_rings() {
    // The limit suffices for three sets of rings, and not for four.
    let (set, rings) = (set_size(Purpose::Snapshot), support::online_processors() as u64 + 1);
    let limits = Limits { ring_bytes: 7 * set / 2, ..Limits::default() };
    let mut agents = Succession::begin(limits);
    record_all(&agents, Purpose::Snapshot, &["c"]);
    let told = |agents: &Succession| {
        agents.ask(&Request::Status(None)).into_iter().find_map(|reply| match reply {
            Reply::Released(released) => Some((released.rings, released.packets_lost)),
            _ => None,
        })
    };
    let mut first = program(&agents);
    for number in 0..3 {
        first.record(0, 0, number);
        agents.end();
        first.lose_connection();
        agents.start_next();
        first.reconnect_to(&agents.socket());
        first.record(0, 0, 100 + number);
    }
    // The first set was evicted to make room for the fourth one.
    assert_eq!(told(&agents), Some((rings, 1)));
    let kept = [(0, 1), (0, 2), (0, 100), (0, 101), (0, 102)];
    assert_eq!(snapshot(&agents).numbers, kept);
    // The use of the quota is the same after the program has lost its connection and reconnected.
    first.handle_messages();
    assert_eq!(first.orphan_count(), 2);
    first.reconnect_and_disconnect(&agents.socket());
    first.reconnect_to(&agents.socket());
    assert_eq!((snapshot(&agents).numbers, told(&agents)), (kept.to_vec(), Some((rings, 1))));
    let used = || quota(&mut agents.client(), blkkin_sys::user_id(), "ring-bytes").0;
    assert_eq!(used(), 3 * set);
    // Rings of an ended program are evicted for a new program.
    first.goodbye();
    let next = program(&agents);
    next.record(0, 0, 7);
    let (released, lost) = told(&agents).unwrap();
    assert!(released > rings && lost > 1, "{released} {lost}");
    next.goodbye();
    for number in 8..20 {
        let next = program(&agents);
        assert_eq!(next.record(0, 0, number), Outcome::Recorded);
        next.goodbye();
    }
    assert!((1..=limits.ring_bytes).contains(&used()));
    agents.ask(&Request::ClearSession("s".into()));
    assert_eq!(told(&agents), None);
    assert_eq!(used(), 0);
}

/// Takes a snapshot, and returns the content of its only trace. Asserts that no packet is missing.
fn snapshot(agents: &Succession) -> TraceContent {
    let replies = agents.ask(&Request::Snapshot(Snapshot { session: "s".into(), output: None }));
    let Some(Reply::Written(path)) = replies.last() else { panic!("{replies:?}") };
    let found = read(&trace_below(Path::new(path)).unwrap());
    assert_eq!(found.gaps, 0);
    found
}

/// Unwritten packets of a recording are not dropped, even if their rings and the new rings together
/// exceed the quota.
#[test]
fn unwritten_packets_exceed_the_quota() {
    let user = blkkin_sys::user_id();
    let set = set_size(Purpose::Record);
    let mut agents = Succession::begin(Limits { ring_bytes: set + 1, ..Limits::default() });
    record_all(&agents, Purpose::Record, &["c"]);
    let mut program = program(&agents);
    for round in 0..3 {
        record(&program, 2 * round..2 * round + 1);
        agents.end();
        program.lose_connection();
        record(&program, 2 * round + 1..2 * round + 2);
        agents.start_next();
        program.reconnect_to(&agents.socket());
    }
    wait_for(&agents, 6);
    eventually("there is one set of rings", || {
        (quota(&mut agents.client(), user, "ring-bytes") == (set, 0)).then_some(())
    });
}

/// L11: pages that a program has written are charged to its user. If the user exceeds the quota,
/// the rings that use most memory are replaced once their packets are written: no recorded event is
/// lost, and the memory is freed.
#[test]
fn l11_rings_that_hold_much_are_given_up() {
    let limit = 3 << 18;
    let agents = Succession::begin(Limits { ring_bytes: limit, ..Limits::default() });
    let session =
        Session { name: "s".into(), purpose: Purpose::Record, output: Some(agents.output()) };
    agents.ask(&Request::CreateSession(session));
    agents.ask(&Request::EnableEvents(events("*")));
    agents.ask(&Request::StartSession("s".into()));
    let mut program = program(&agents);
    let used = || quota(&mut agents.client(), blkkin_sys::user_id(), "ring-bytes");
    assert!(used().0 <= 256 << 10, "nothing is written yet: {:?}", used());
    // Records enough events that the memory exceeds the limit. Two sub-buffers exceed it, however
    // fast the agent reads.
    let mut recorded = Vec::new();
    for number in 0..1_000_000 {
        if program.record(program.newest, 0, number) == Outcome::Recorded {
            recorded.push((0, number));
        }
    }
    eventually("the program gets other rings", || {
        program.handle_messages();
        let (used, refused) = used();
        (refused > 0 && used <= limit && !program.writers.is_empty()).then_some(())
    });
    // While the program has neither the old rings nor new ones, its events are not counted.
    let status = agents.ask(&Request::Status(None));
    let renewed = status.iter().filter_map(|reply| match reply {
        Reply::Loss(loss) if loss.cause == Cause::Quota => Some(loss.uncounted),
        _ => None,
    });
    let (renewals, refused) = (renewed.sum::<u64>(), used().1);
    assert!(renewals > 0 && renewals <= refused, "{status:?}");
    for number in 0..100 {
        assert_eq!(program.record(program.newest, 0, 2_000_000 + number), Outcome::Recorded);
        recorded.push((0, 2_000_000 + number));
    }
    program.goodbye();
    eventually("all of it is one trace", || {
        let found = read(&trace_below(&agents.output())?);
        (found.is_whole && found.numbers == recorded).then_some(())
    });
}

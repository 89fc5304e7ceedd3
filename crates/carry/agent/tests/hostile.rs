//! Tests with programs that violate the protocol, and with requests beyond limits. Other programs
//! and commands are not harmed.

mod support;

use blkkin_control::{
    Applications, Channel, HEADER_SIZE, Hello, Mode, NewChannel, Opening, Processes, Purpose,
    Reply, Request, Role, Session, Version, catalog, encode,
};
use blkkin_ring::{Outcome, packet};
use blkkin_sys::socket::Socket;
use blkkin_sys::testing::Random;
use std::io::Write;
use std::process::Command;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Relaxed, Release},
};
use std::time::{Duration, Instant};
use support::{Node, Program, events, eventually, figure, quota, read, record_with, trace_below};

/// Guard that sets a flag on drop, so that other threads of the test end.
struct StopGuard<'d>(&'d AtomicBool);

impl Drop for StopGuard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Returns how long the programs of a test violate the protocol; 3 s by default.
fn long() -> Duration {
    seconds("TEST_HOSTILE_SECONDS", 3)
}

fn seconds(variable: &str, usual: u64) -> Duration {
    let seconds = std::env::var(variable).ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(usual))
}

/// A program that writes random words to any part of its rings' memory harms no other program.
#[test]
fn scribbled_rings() {
    check(scribble);
}

/// Writes random words to the memory of rings until `done` is set. A ring that held invalid data is
/// not read again, so new programs with new rings are started repeatedly.
fn scribble(node: &Node, random: &mut Random, done: &AtomicBool) {
    while !done.load(Relaxed) {
        let mut program = Program::start(node);
        program.add_type(0, "hostile:event");
        for _ in 0..200 {
            let memory = &program.memories[&0];
            for _ in 0..1000 {
                let size = memory.size() as u64;
                // Three of four words are in the first 8 KiB, where the positions of the rings are.
                let limit = if random.next().is_multiple_of(4) { size } else { 8192 };
                let at = (random.next() % (limit / 8) * 8) as usize;
                let value = match random.next() % 4 {
                    0 => random.next(),
                    1 => u64::MAX,
                    2 => memory.word(at).load(Relaxed).wrapping_add(random.next() % 4096),
                    _ => random.next() % (1 << 22),
                };
                memory.word(at).store(value, Relaxed);
            }
            program.wake();
            program.handle_messages();
        }
    }
}

/// A catalog with invalid descriptions of types, and with entries that point anywhere, harms no
/// other program.
#[test]
fn scribbled_catalogs() {
    check(|node, random, done| {
        while !done.load(Relaxed) {
            let mut program = Program::start(node);
            program.add_type(0, "hostile:event");
            for index in 0..2000 {
                program.record(0, (index % 60_000) as u16 as u32, index);
                let at = (random.next() % (catalog::SIZE as u64 / 8) * 8) as usize;
                program.catalog.word(at).store(random.next() >> (random.next() % 64), Relaxed);
                program.catalog.word(catalog::COUNT).store(random.next() % 20_000, Relaxed);
            }
            program.goodbye();
        }
    });
}

/// Peers that send invalid bytes, and peers that open connections continuously, harm no other
/// program.
#[test]
fn nonsense_and_floods() {
    check(|node, random, done| {
        let socket = node.agent.as_ref().unwrap().socket().to_owned();
        let mut open = Vec::new();
        while !done.load(Relaxed) {
            let Ok(stream) = blkkin_sys::socket::Socket::connect(&socket) else {
                std::thread::yield_now();
                continue;
            };
            let bytes: Vec<u8> = (0..random.next() % 200).map(|_| random.next() as u8).collect();
            let _ = stream.send(&bytes, &[]);
            open.push(stream);
            if open.len() > 200 {
                open.drain(..150);
            }
        }
    });
}

/// A process that keeps recording after `Goodbye`, faster than its rings can be read, harms no
/// other program.
#[test]
fn recorders_after_the_goodbye() {
    check(|node, _, done| {
        while !done.load(Relaxed) {
            let mut program = Program::start(node);
            program.add_type(0, "hostile:event");
            let writer = program.writers.remove(&0).unwrap();
            let end = Instant::now() + Duration::from_millis(300);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for number in 0.. {
                        record_with(&writer, number);
                        if number % 1000 == 0 && (Instant::now() > end || done.load(Relaxed)) {
                            return;
                        }
                    }
                });
                std::thread::sleep(Duration::from_millis(20));
                program.goodbye();
            });
        }
    });
}

/// Requests to stop, restart and destroy a session are answered within 4 s, even if a program
/// ignores all rules and does not answer `Ping`.
#[test]
fn sessions_end_without_confirmations() {
    let mut node = Node::new();
    node.record_all(Purpose::Record);
    let mut program = Program::start(&node);
    program.add_type(0, "hostile:event");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| announce_events(&program, &done));
        // The other thread must end even if a request fails.
        let ends = [
            Request::StopSession("s".into()),
            Request::StartSession("s".into()),
            Request::DestroySession("s".into()),
        ];
        let mut took = Vec::new();
        for request in &ends {
            let begun = Instant::now();
            let answered = node.client.request_all(request);
            took.push(begun.elapsed());
            if answered.is_err() {
                break;
            }
        }
        done.store(true, Relaxed);
        assert_eq!(took.len(), ends.len());
        assert!(took.iter().all(|took| *took < Duration::from_secs(4)), "{took:?}");
    });
}

/// Advances the write position of each ring by one event whenever the agent has read the ring, as
/// fast as possible.
fn announce_events(program: &Program, done: &AtomicBool) {
    // Size of an event in bytes, in the layout that the crate of the rings documents.
    let (event, memory) = (18, &program.memories[&0]);
    let shape = program.writers[&0].shape();
    let size = shape.subbuffer_size as u64;
    let header = packet::Header {
        uuid: shape.uuid,
        stream: shape.stream,
        cpu: 0,
        first_time: 0,
        last_time: 0,
        content_size: size,
        packet_size: size,
        number: 0,
        discarded: 0,
    };
    for place in (0..shape.rings).flat_map(|ring| shape.data_of(ring).step_by(size as usize)) {
        memory.copy_in(place, &header.to_bytes());
    }
    let mut written = vec![0; shape.rings];
    while !done.load(Relaxed) {
        for (ring, written) in written.iter_mut().enumerate() {
            let control = 4096 + ring * 256;
            if memory.word(control + 128).load(Relaxed) != *written {
                continue;
            }
            *written = match *written % size {
                0 => *written + packet::SIZE as u64 + event,
                used if used + 2 * event < size => *written + event,
                used => *written - used + size + packet::SIZE as u64 + event,
            };
            memory.word(control).store(*written, Release);
        }
    }
}

/// Kinds of load that a program causes as fast as possible. The first two are permitted; the others
/// violate the protocol.
const LOADS: [(&str, Load); 5] = [
    ("records", |node, done| {
        let mut program = Program::start(node);
        program.add_type(0, "honest:event");
        while !done.load(Relaxed) {
            for number in 0..1000 {
                program.record(0, 0, number);
            }
            program.handle_messages();
        }
    }),
    ("comes and goes", |node, done| {
        while !done.load(Relaxed) {
            let mut program = Program::start(node);
            program.add_type(0, "honest:event");
            for number in 0..1000 {
                program.record(0, 0, number);
            }
            program.goodbye();
        }
    }),
    ("scribbles", |node, done| scribble(node, &mut Random::new(7), done)),
    ("claims", |node, done| {
        let mut program = Program::start(node);
        program.add_type(0, "hostile:event");
        std::thread::scope(|scope| {
            scope.spawn(|| announce_events(&program, done));
            while !done.load(Relaxed) {
                program.wake();
                std::thread::sleep(Duration::from_micros(100));
            }
        });
    }),
    ("wakes", |node, done| {
        let program = Program::start(node);
        while !done.load(Relaxed) {
            program.wake();
        }
    }),
];

type Load = fn(&Node, &AtomicBool);

/// Maximum processor time of an agent under hostile load, in percent of one processor.
const SHARE_MAX: u64 = 75;

/// Prints the processor time of an agent under the load `TEST_LOAD`, in percent of one processor.
/// `shares_of_the_agents_time` runs this test in a separate process.
#[test]
#[ignore = "a program of other tests"]
fn agent_under_load() {
    let wanted = std::env::var("TEST_LOAD").unwrap();
    let (_, load) = LOADS.iter().find(|(name, _)| *name == wanted).unwrap();
    let mut node = Node::new();
    node.record_all(Purpose::Record);
    let done = AtomicBool::new(false);
    let (begun, before) = (Instant::now(), agent_time());
    std::thread::scope(|scope| {
        scope.spawn(|| load(&node, &done));
        let _over = StopGuard(&done);
        std::thread::sleep(seconds("TEST_SHARE_SECONDS", 2));
    });
    let share = (agent_time() - before).as_secs_f64() / begun.elapsed().as_secs_f64();
    let said = writeln!(std::io::stdout(), "\nshare {:.0}", share * 100.0);
    said.unwrap();
}

/// Returns the processor time of the agent's threads, which run in this process.
fn agent_time() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let ticks = |thread: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        let own = stat.split_once("(blkkin-")?.1.rsplit_once(") ")?.1;
        let parts = own.split(' ').skip(11).take(2);
        Some(parts.map(|part| part.parse::<u64>().unwrap()).sum::<u64>())
    };
    Duration::from_millis(10 * threads.filter_map(ticks).sum::<u64>())
}

/// The agent's processor time under a hostile program is at most [`SHARE_MAX`] percent of one
/// processor, and at most 1.5 times the time under the more expensive permitted load plus 10
/// percentage points.
#[test]
fn shares_of_the_agents_time() {
    let share = |load: &str| -> u64 {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "agent_under_load"])
            .env("TEST_LOAD", load)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let share = text.lines().find_map(|line| line.strip_prefix("share "));
        share.unwrap_or_else(|| panic!("{load}: {output:?}")).parse().unwrap()
    };
    let shares = LOADS.map(|(name, _)| (name, share(name)));
    let most = shares[..2].iter().map(|(_, share)| share).max().unwrap();
    for (load, share) in &shares[2..] {
        let is_fair = *share <= SHARE_MAX && *share <= most * 3 / 2 + 10;
        assert!(is_fair, "a program that {load} has the agent work too much: {shares:?}");
    }
    let shares = shares.map(|(load, share)| format!("{load} {share} %"));
    let shares = shares.join(", ");
    figure("H1", &format!("the agent's share of a processor, where a program {shares}"));
}

/// A false process id in `Hello` is shown only as `pid_inner`. The process id and the executable
/// are those that the kernel reports. A request for the false process id does not find the program.
#[test]
fn forged_numbers_of_processes() {
    let mut node = Node::new();
    let program = Program::start_as(&node, 1);
    let all = Applications { processes: Processes::default(), event_types: false };
    let listed = node.ask(&Request::ListApplications(all));
    let [Reply::Application(listed)] = &listed[..] else { panic!("{listed:?}") };
    assert_eq!((listed.pid, listed.pid_inner), (std::process::id(), 1));
    let own = std::env::current_exe().unwrap();
    assert_eq!(listed.executable, own.to_str().unwrap());
    let first = Processes { pids: vec![1], executables: vec![], children: false };
    let first = Applications { processes: first, event_types: false };
    assert_eq!(node.ask(&Request::ListApplications(first)), []);
    drop(program);
}

/// Sessions and channels beyond the limits are refused with a reason. A program records without
/// loss beside another program that adds ten thousand types.
#[test]
fn quotas() {
    let mut node = Node::new();
    node.record_all(Purpose::Record);
    let mut honest = Program::start(&node);
    honest.add_type(0, "honest:event");
    honest.record(0, 0, 0);
    let trace = eventually("the trace is there", || trace_below(&node.output()));
    let session = |number: usize| {
        let output = Some(node.directory.path().join(format!("of-{number}")));
        let name = format!("s{number}");
        Request::CreateSession(Session { name, purpose: Purpose::Snapshot, output })
    };
    let requests: Vec<Request> = (1..=256).map(session).collect();
    let (last, others) = requests.split_last().unwrap();
    for request in others {
        node.ask(request);
    }
    let refusal = node.refusal(last);
    assert!(refusal.contains("256 sessions"), "{refusal}");
    let channel = |number: usize| {
        let channel = Channel {
            name: format!("c{number}"),
            mode: Mode::Discard,
            subbuffer_size: None,
            subbuffer_count: None,
            contexts: vec![],
            wait_us: 0,
            event_size: None,
        };
        Request::CreateChannel(NewChannel { session: "s1".into(), channel })
    };
    for number in 0..32 {
        node.ask(&channel(number));
    }
    let refusal = node.refusal(&channel(32));
    assert!(refusal.contains("32 channels"), "{refusal}");
    // One program adds ten thousand types at once.
    let mut greedy = Program::start(&node);
    for index in 0..10_000 {
        greedy.add_type(index, "greedy:event");
    }
    greedy.record(0, 0, 1);
    for number in 1..1000 {
        assert_eq!(honest.record(0, 0, number), Outcome::Recorded);
    }
    eventually("its types are known", || {
        let all = Applications { processes: Processes::default(), event_types: false };
        let listed = node.ask(&Request::ListApplications(all));
        let is_greedy = |reply: &Reply| matches!(reply, Reply::Application(one) if one.event_type_count == 10_000);
        listed.iter().any(is_greedy).then_some(())
    });
    honest.goodbye();
    eventually("all is written", || {
        let found = read(&trace);
        (found.is_whole && found.numbers.len() == 1000 && found.discarded == 0).then_some(())
    });
}

/// Rules that exceed the quota are refused with the reason. Sampling rules are charged to the same
/// quota. The destruction of a session returns its share.
#[test]
fn rules_are_charged_to_a_quota() {
    let mut node = Node::new();
    node.record_all(Purpose::Record);
    let output = node.directory.path().join("other");
    node.record_all_as("other", Purpose::Record, output);
    // The filter is nearly as long as permitted.
    let rule = |session: &str, number: usize| {
        let mut rule = events(&format!("test:{number}"));
        rule.session = session.into();
        rule.selection.filter = Some(format!("n == {number:<65000}"));
        rule
    };
    let mut taken = 0;
    let refusal = loop {
        let session = ["s", "other"][taken % 2];
        match node.client.request_all(&Request::EnableEvents(rule(session, taken))) {
            Ok(_) => taken += 1,
            Err(refusal) => break refusal.to_string(),
        }
        assert!(taken < 100, "4 MiB are enough for anybody");
    };
    assert!(taken > 60, "{taken}");
    assert!(refusal.contains("more than 4 MiB of rules"), "{refusal}");
    let told = |node: &mut Node| quota(&mut node.client, blkkin_sys::user_id(), "rule-bytes");
    let (used, refused) = told(&mut node);
    assert!((60 * 65_000..=4 << 20).contains(&used) && refused == 1, "{used} {refused}");
    node.ask(&Request::DestroySession("other".into()));
    assert!(told(&mut node).0 < used * 2 / 3);
    node.ask(&Request::EnableEvents(rule("s", taken)));
    // Sampling rules are charged to the same quota as the rules of sessions.
    let before = told(&mut node);
    node.ask(&Request::SetSampling(Some("1/2".into())));
    assert!(told(&mut node).0 > before.0);
    node.ask(&Request::SetSampling(None));
    assert_eq!(told(&mut node), before);
    // A rule that the channel has already takes no more of the quota.
    let before = told(&mut node);
    node.ask(&Request::EnableEvents(rule("s", taken)));
    assert_eq!(told(&mut node), before);
}

/// Runs two threads with hostile programs (`others`) beside a well-behaved program. Asserts that
/// the trace of the well-behaved program has all of its events, and that the agent answers.
fn check(others: impl Fn(&Node, &mut Random, &AtomicBool) + Sync) {
    let mut node = Node::new();
    node.record_all(Purpose::Record);
    let mut honest = Program::start(&node);
    honest.add_type(0, "honest:event");
    honest.record(0, 0, 0);
    let trace = eventually("the trace is there", || trace_below(&node.output()));
    let done = AtomicBool::new(false);
    let count = std::thread::scope(|scope| {
        // Ends the other threads even if an assertion fails here.
        let _over = StopGuard(&done);
        let (node, done, others) = (&node, &done, &others);
        for seed in [7, 8] {
            scope.spawn(move || others(node, &mut Random::new(seed), done));
        }
        let end = Instant::now() + long();
        let mut count = 1;
        while Instant::now() < end {
            for _ in 0..100 {
                assert_eq!(honest.record(0, 0, count), Outcome::Recorded);
                count += 1;
            }
            honest.handle_messages();
            std::thread::sleep(Duration::from_millis(1));
        }
        done.store(true, Relaxed);
        count
    });
    let all = Applications { processes: Processes::default(), event_types: true };
    let listed = node.ask(&Request::ListApplications(all));
    assert!(listed.iter().any(|reply| matches!(reply, Reply::Application(_))));
    honest.goodbye();
    eventually("all is written", || {
        let found = read(&trace);
        let expected = found.numbers.iter().copied().eq((0..count).map(|number| (0, number)));
        (found.is_whole && expected && found.discarded == 0).then_some(())
    });
}

/// A command is answered before most requests of 50 other commands, which send thousands of
/// requests each.
#[test]
fn requests_of_many_at_once() {
    let mut node = Node::new();
    let (role, program, release) = (Role::Command, "x".into(), "0".into());
    let mut opening = Vec::new();
    let hello = Hello { version: Version::OURS, role, program, release };
    encode(&Opening::Hello(hello), &mut opening).unwrap();
    let mut requests = Vec::new();
    for rules in ["1/2", "1/3"] {
        encode(&Request::SetSampling(Some(rules.into())), &mut requests).unwrap();
    }
    let requests = requests.repeat(2000);
    let path = node.agent.as_ref().unwrap().socket().to_owned();
    let all: Vec<Socket> = (0..50).map(|_| Socket::connect(&path).unwrap()).collect();
    let answers = || {
        let (mut bytes, mut none) = ([0; 4096], Vec::new());
        let read = |socket: &Socket| socket.receive(&mut bytes, &mut none).unwrap_or(0);
        all.iter().map(read).sum::<usize>() / HEADER_SIZE
    };
    for socket in &all {
        assert_eq!(socket.send(&opening, &[]).unwrap(), opening.len());
    }
    let mut welcome = 0;
    eventually("they are welcome", || {
        welcome += answers();
        (welcome >= 50).then_some(())
    });
    let asked: usize = all.iter().map(|all| all.send(&requests, &[]).unwrap_or(0)).sum();
    let asked = asked / (requests.len() / 4000);
    let done = AtomicBool::new(false);
    let answered = std::thread::scope(|scope| {
        let over = StopGuard(&done);
        let answered = scope.spawn(|| {
            let mut answered = 0;
            while !done.load(Relaxed) {
                answered += answers();
            }
            answered
        });
        for _ in 0..3 {
            node.ask(&Request::Status(None));
        }
        drop(over);
        answered.join().unwrap()
    });
    figure(
        "H3",
        &format!("3 of one command beside {answered} of {asked} that 50 others ask at once"),
    );
    assert!(asked > 50 * 1000 && answered < asked / 4, "{answered} of {asked}");
}

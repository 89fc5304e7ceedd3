//! Tests of sessions whose trace is divided into chunks: each event is in one chunk or counted as
//! discarded, each chunk is complete, and only a session's own chunks are removed.

mod support;

use blkkin_agent::Limits;
use blkkin_control::{
    Channel, Chunk, Chunks, Events, HookReport, NewChannel, Purpose, Reply, Request, Rotation,
    Session, SessionRotation,
};
use blkkin_ring::{Cells, Clock, Outcome, Writer};
use blkkin_sys::testing::Random;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use support::{Program, Succession, TraceContent, events, eventually, read, traces_below};

const SUBBUFFER: usize = 64 << 10;

/// Makes and starts session `s`, which is divided into chunks and records all events.
fn record_in_chunks(agents: &Succession, rotation: Rotation) {
    let session =
        Session { name: "s".into(), purpose: Purpose::Record, output: Some(agents.output()) };
    agents.ask(&Request::CreateSession(session));
    agents.ask(&Request::DivideSession(SessionRotation { session: "s".into(), rotation }));
    let channel = Channel {
        subbuffer_size: Some(SUBBUFFER as u64),
        subbuffer_count: Some(4),
        ..Channel::named("c")
    };
    agents.ask(&Request::CreateChannel(NewChannel { session: "s".into(), channel }));
    agents.ask(&Request::EnableEvents(Events { channel: Some("c".into()), ..events("*") }));
    agents.ask(&Request::StartSession("s".into()));
}

fn program(agents: &Succession) -> Program {
    let mut program = Program::start_at(&agents.socket());
    program.add_type(0, "test:first");
    program
}

fn record(program: &Program, numbers: std::ops::Range<u64>) {
    for number in numbers {
        assert_eq!(program.record(program.newest, 0, number), Outcome::Recorded);
    }
}

/// Rotates session `s`. Returns the closed chunk; `None` if nothing was recorded.
fn rotate(agents: &Succession) -> Option<PathBuf> {
    let replies = agents.ask(&Request::RotateSession("s".into()));
    replies.into_iter().find_map(|reply| match reply {
        Reply::Written(path) => Some(path),
        _ => None,
    })
}

fn chunks(agents: &Succession) -> (Chunks, Vec<Chunk>) {
    let mut replies = agents.ask(&Request::ListChunks("s".into())).into_iter();
    let Some(Reply::Chunks(summary)) = replies.next() else { panic!("no summary") };
    let each = replies.filter_map(|reply| match reply {
        Reply::Chunk(chunk) => Some(chunk),
        _ => None,
    });
    (summary, each.collect())
}

/// Returns the directories of all chunks, in the order of their names.
fn directories(output: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(output).into_iter().flatten().flatten();
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    all.sort();
    all
}

/// Reads the traces of all chunks. Each has its own count of packets and discarded events.
fn read_all(output: &Path) -> TraceContent {
    let mut all = TraceContent { is_whole: true, ..TraceContent::default() };
    for trace in directories(output).iter().flat_map(|chunk| traces_below(chunk)) {
        let found = read(&trace);
        all.numbers.extend(found.numbers);
        all.discarded += found.discarded;
        all.gaps += found.gaps;
        all.back += found.back;
        all.is_whole &= found.is_whole;
    }
    all.numbers.sort_unstable();
    all
}

/// Asserts that each of the events 0 to `recorded` (exclusive) is in one chunk, and that `full`
/// events are counted as discarded.
#[track_caller]
fn assert_conserved(output: &Path, recorded: u64, full: u64, story: &str) {
    let all = read_all(output);
    let is_exact = all.numbers.iter().map(|(_, number)| *number).eq(0..recorded);
    let others = (all.is_whole, all.discarded, all.gaps, all.back);
    assert!(
        is_exact && others == (true, full, 0, 0),
        "{} events of {recorded}, {full} discarded; {others:?}; {story}",
        all.numbers.len()
    );
}

/// Returns the number of events that babeltrace2 reads below a directory; `None` if it is not
/// installed. It must report nothing.
fn babeltrace2_events(directory: &Path) -> Option<usize> {
    let output = Command::new("babeltrace2").arg(directory).output().ok()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{directory:?}: {errors}");
    Some(output.stdout.iter().filter(|byte| **byte == b'\n').count())
}

fn is_marked(chunk: &Path) -> bool {
    chunk.join(".recording").exists()
}

/// A rotation closes a chunk with all events so far. The next chunk describes the program anew and
/// is readable alone, and all together have each event once.
#[test]
fn each_chunk_is_readable_alone() {
    let agents = Succession::begin(Limits::default());
    record_in_chunks(&agents, Rotation::default());
    let program = program(&agents);
    assert_eq!(rotate(&agents), None, "nothing was recorded");
    let mut closed = Vec::new();
    for part in 0..3 {
        record(&program, 100 * part..100 * (part + 1));
        let chunk = rotate(&agents).unwrap();
        let [trace] = &traces_below(&chunk)[..] else { panic!("{chunk:?}") };
        let numbers = read(trace).numbers.into_iter().map(|(_, number)| number);
        assert!(numbers.eq(100 * part..100 * (part + 1)));
        assert!(!is_marked(&chunk) && !is_marked(trace), "it is complete");
        assert!(babeltrace2_events(&chunk).is_none_or(|count| count == 100));
        closed.push(chunk);
    }
    let (summary, each) = chunks(&agents);
    assert_eq!((summary.count, summary.removed), (4, 0));
    let paths = each.iter().filter(|chunk| chunk.is_closed).map(|chunk| &chunk.path);
    assert!(paths.eq(&closed));
    assert!(is_marked(&each[3].path), "the open chunk is distinguishable");
    assert_conserved(&agents.output(), 300, 0, "");
    assert!(babeltrace2_events(&agents.output()).is_none_or(|count| count == 300));
    // The last chunk is empty, and is removed.
    agents.ask(&Request::StopSession("s".into()));
    agents.ask(&Request::DestroySession("s".into()));
    assert_eq!(directories(&agents.output()), closed);
    let (summary, each) = chunks(&agents);
    assert!(summary.is_destroyed && each.len() == 3);
}

/// Threads record more events than the rings hold while the session is rotated again and again.
/// Each event is in one chunk or counted as discarded.
#[test]
fn rotations_of_a_running_program_lose_no_event() {
    let mut agents = Succession::begin(Limits::default());
    record_in_chunks(&agents, Rotation::default());
    let mut program = program(&agents);
    let memory = program.memories.remove(&program.newest).unwrap();
    let writer = Writer::new(Cells::new(memory), Clock::Tsc).unwrap();
    let done = AtomicBool::new(false);
    let (threads, rotations) = (3, 40);
    let counts: Vec<(u64, u64)> = program.while_handling(|| {
        std::thread::scope(|scope| {
            let record = |thread: u64| {
                let (writer, done) = (&writer, &done);
                move || {
                    let (mut recorded, mut full) = (0, 0);
                    while !done.load(Relaxed) {
                        match support::record_with(writer, thread << 48 | recorded) {
                            Outcome::Recorded => recorded += 1,
                            _ => full += 1,
                        }
                        if recorded % 64 == 0 {
                            std::thread::sleep(Duration::from_micros(50));
                        }
                    }
                    (recorded, full)
                }
            };
            let running: Vec<_> = (0..threads).map(|thread| scope.spawn(record(thread))).collect();
            for _ in 0..rotations {
                rotate(&agents);
            }
            done.store(true, Relaxed);
            running.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    });
    agents.end();
    let all = read_all(&agents.output());
    for (thread, (recorded, _)) in (0..).zip(&counts) {
        let own = all.numbers.iter().map(|(_, number)| number).filter(|one| **one >> 48 == thread);
        assert!(own.map(|number| number & ((1 << 48) - 1)).eq(0..*recorded), "thread {thread}");
    }
    let full: u64 = counts.iter().map(|(_, full)| full).sum();
    assert_eq!((all.is_whole, all.discarded, all.gaps, all.back), (true, full, 0, 0));
    assert!(directories(&agents.output()).len() > rotations / 2);
}

/// In any sequence of rotations, lost connections, reconnections and new agents, each event is in
/// one chunk or counted as discarded.
#[test]
fn random_lives_with_rotations_lose_no_event() {
    let number = |variable, usual| {
        std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
    };
    let first = number("TEST_SEED", 1);
    (first..first + number("TEST_LIVES", 30)).for_each(live);
}

fn live(seed: u64) {
    let mut agents = Succession::begin(Limits::default());
    let mut random = Random::new(seed);
    // In one half of the lives, chunks are closed by their size, too.
    let size = random.chance(2).then_some(8 << 10);
    record_in_chunks(&agents, Rotation { size, ..Rotation::default() });
    let mut program = program(&agents);
    let (mut story, mut recorded, mut full) = (Vec::new(), 0, 0);
    let mut record = |program: &Program, random: &mut Random| {
        let tries = if random.chance(8) { 30_000 } else { 1 + random.below(300u64) };
        for _ in 0..tries {
            match program.record(program.newest, 0, recorded) {
                Outcome::Recorded => recorded += 1,
                _ => full += 1,
            }
        }
    };
    let pause = |random: &mut Random| {
        std::thread::sleep(Duration::from_millis(15 * random.below(2u64)));
    };
    record(&program, &mut random);
    let mut is_connected = true;
    for _ in 0..14 {
        let what = ["record", "rotate", "rotate", "lose", "vanish", "come", "restart"];
        let what = random.one_of(&what);
        story.push(what);
        if !["record", "rotate"].contains(&what) {
            program.lose_connection();
            is_connected = false;
            pause(&mut random);
        }
        match what {
            "record" => record(&program, &mut random),
            // With a program that has not returned, the chunk stays open for some seconds.
            "rotate" if is_connected => {
                program.while_handling(|| rotate(&agents));
            }
            "vanish" => program.reconnect_and_disconnect(&agents.socket()),
            "come" => {
                program.reconnect_to(&agents.socket());
                is_connected = true;
            }
            "restart" => agents.start_next(),
            _ => {}
        }
        record(&program, &mut random);
        pause(&mut random);
    }
    program.lose_connection();
    pause(&mut random);
    program.reconnect_to(&agents.socket());
    record(&program, &mut random);
    program.while_handling(|| rotate(&agents));
    agents.end();
    assert_conserved(&agents.output(), recorded, full, &format!("seed {seed}: {story:?}"));
}

/// A chunk that is left by a rotation while a program has not returned to a new agent stays open
/// for the program, which is then moved.
#[test]
fn programs_that_return_after_a_rotation_are_moved() {
    let mut agents = Succession::begin(Limits::default());
    record_in_chunks(&agents, Rotation::default());
    let mut program = program(&agents);
    record(&program, 0..100);
    program.lose_connection();
    agents.start_next();
    record(&program, 100..200);
    let chunk = std::thread::scope(|scope| {
        let rotated = scope.spawn(|| rotate(&agents));
        std::thread::sleep(Duration::from_millis(200));
        assert!(!rotated.is_finished(), "the chunk waits for the program");
        program.reconnect_to(&agents.socket());
        program.while_handling(|| rotated.join().unwrap().unwrap())
    });
    assert_eq!(read_all(&agents.output()).numbers.len(), 200);
    let [trace] = &traces_below(&chunk)[..] else { panic!("{chunk:?}") };
    assert!(!is_marked(trace));
    record(&program, 200..300);
    let second = rotate(&agents).unwrap();
    assert!(second != chunk);
    assert_conserved(&agents.output(), 300, 0, "");
    assert!(babeltrace2_events(&agents.output()).is_none_or(|count| count == 300));
}

/// Chunks are closed at their size. Not more than the permitted number are kept; the others are
/// counted, and a directory that the user has put in the place of a chunk is not touched.
#[test]
fn the_oldest_chunks_are_removed_and_counted() {
    let agents = Succession::begin(Limits::default());
    let rotation = Rotation { size: Some(16 << 10), files: Some(3), ..Rotation::default() };
    record_in_chunks(&agents, rotation);
    let program = program(&agents);
    let foreign = agents.output().join("foreign");
    fs::create_dir(&foreign).unwrap();
    let mut recorded = 0;
    let mut fill = |program: &Program| {
        let before = chunks(&agents).1.last().unwrap().sequence;
        eventually("the next chunk", || {
            record(program, recorded..recorded + 100);
            recorded += 100;
            let (_, each) = chunks(&agents);
            each.last().filter(|last| last.sequence > before).cloned()
        })
    };
    fill(&program);
    let first = chunks(&agents).1[0].clone();
    assert!(first.bytes >= 16 << 10, "{first:?}");
    // The user has moved the first chunk away.
    let moved = agents.directory.path().join("moved");
    fs::rename(&first.path, &moved).unwrap();
    fs::create_dir(&first.path).unwrap();
    fs::write(first.path.join("precious"), "").unwrap();
    for _ in 0..4 {
        fill(&program);
    }
    let (summary, _) = eventually("three chunks", || {
        let (summary, each) = chunks(&agents);
        (each.len() == 3 && directories(&agents.output()).len() == 5).then_some((summary, each))
    });
    assert_eq!(summary.removed, 2, "of six chunks, one was moved, and three are there");
    assert!(summary.removed_bytes >= 32 << 10);
    assert!(first.path.join("precious").exists() && moved.exists() && foreign.exists());
}

/// All chunks together keep within the total size, and an idle session's chunk is closed at its
/// age.
#[test]
fn the_total_size_and_the_age_are_limited() {
    let agents = Succession::begin(Limits::default());
    let total = 256 << 10;
    let rotation = Rotation { total: Some(total), age_ms: Some(300), ..Rotation::default() };
    record_in_chunks(&agents, rotation);
    let program = program(&agents);
    record(&program, 0..1);
    eventually("the chunk is old enough", || {
        chunks(&agents).1.iter().any(|chunk| chunk.is_closed).then_some(())
    });
    let mut number = 1;
    eventually("chunks are removed", || {
        record(&program, number..number + 200);
        number += 200;
        let (summary, _) = chunks(&agents);
        (summary.removed > 5).then_some(())
    });
    eventually("the limit is kept", || (chunks(&agents).0.bytes <= total).then_some(()));
}

/// With the smallest permitted size and age, the agent rotates by itself once a second at most: it
/// serves other sessions, too.
#[test]
fn rotations_by_size_and_age_are_a_second_apart() {
    let agents = Succession::begin(Limits::default());
    let rotation = Rotation { size: Some(4096), age_ms: Some(1), ..Rotation::default() };
    record_in_chunks(&agents, rotation);
    let program = program(&agents);
    let begun = Instant::now();
    let mut recorded = 0;
    while begun.elapsed() < Duration::from_millis(2500) {
        record(&program, recorded..recorded + 20);
        recorded += 20;
        std::thread::sleep(Duration::from_millis(5));
    }
    let last = chunks(&agents).1.last().unwrap().sequence;
    let seconds = begun.elapsed().as_secs();
    assert!((3..=seconds + 2).contains(&last), "{last} chunks in {seconds} s");
    // A command is not delayed.
    record(&program, recorded..recorded + 20);
    rotate(&agents).unwrap();
    rotate(&agents);
    assert!(chunks(&agents).1.last().unwrap().sequence > last);
    assert_conserved(&agents.output(), recorded + 20, 0, "");
}

/// A program that returns while its chunk is being removed continues in the current chunk.
#[test]
fn programs_that_return_while_their_chunk_is_removed_lose_no_event() {
    let mut agents = Succession::begin(Limits::default());
    record_in_chunks(&agents, Rotation { files: Some(2), ..Rotation::default() });
    let mut absent = program(&agents);
    record(&absent, 0..100);
    absent.lose_connection();
    agents.start_next();
    record(&absent, 100..200);
    let name = "another_process_records";
    let this = std::env::current_exe().unwrap();
    let mut other = Command::new(this)
        .args(["--exact", name, "--ignored"])
        .env("TEST_SOCKET", agents.socket())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let chunk = rotate(&agents).unwrap();
    // The removal of these files takes many turns of the agent.
    (0..4000).for_each(|name| fs::write(chunk.join(format!("{name}")), "").unwrap());
    eventually("the next rotation", || rotate(&agents));
    absent.reconnect_to(&agents.socket());
    assert!(chunk.exists(), "it was removed too early for this test");
    absent.while_handling(|| eventually("the removal", || (!chunk.exists()).then_some(())));
    record(&absent, 200..300);
    other.kill().unwrap();
    other.wait().unwrap();
    agents.end();
    let numbers = read_all(&agents.output()).numbers.into_iter().map(|(_, number)| number);
    let of_absent: Vec<u64> = numbers.filter(|number| *number < 1000).collect();
    assert_eq!(of_absent, (100..300).collect::<Vec<u64>>());
}

/// The other process of the test above. It is ended by that test.
#[test]
#[ignore = "another test runs it"]
fn another_process_records() {
    let Ok(socket) = std::env::var("TEST_SOCKET") else { return };
    let mut program = Program::start_at(Path::new(&socket));
    program.add_type(0, "test:first");
    for number in 1000..4000 {
        program.while_handling(|| std::thread::sleep(Duration::from_millis(10)));
        program.record(program.newest, 0, number);
    }
}

/// The limits and the list of chunks survive the agent, and so do counts of failed hooks.
#[test]
fn the_next_agent_knows_the_chunks() {
    let mut agents = Succession::begin(Limits::default());
    let rotation = Rotation {
        files: Some(3),
        name_pattern: Some("{session}.%Y.{seq}".into()),
        ..Rotation::default()
    };
    record_in_chunks(&agents, rotation);
    let mut program = program(&agents);
    for part in 0..3 {
        record(&program, 10 * part..10 * (part + 1));
        rotate(&agents).unwrap();
    }
    let (summary, before) = eventually("one is removed", || {
        Some(chunks(&agents)).filter(|(summary, _)| summary.removed == 1)
    });
    let failure = Some("exit status 1".into());
    let number = summary.number;
    let report = HookReport { session: "s".into(), number, sequence: before[0].sequence, failure };
    agents.ask(&Request::ReportHook(report));
    assert!(support::LOG.lock().unwrap().iter().any(|line| line.contains("exit status 1")));
    program.lose_connection();
    agents.start_next();
    let (summary, after) = chunks(&agents);
    assert_eq!((summary.removed, summary.hook_failures, summary.rotation.files), (1, 1, Some(3)));
    let paths =
        |chunks: &[Chunk]| chunks.iter().map(|chunk| chunk.path.clone()).collect::<Vec<_>>();
    assert_eq!(paths(&after), paths(&before));
    assert!(after[0].is_handled && after[0].path.to_str().unwrap().ends_with(".000002"));
    program.reconnect_to(&agents.socket());
    record(&program, 30..40);
    program.while_handling(|| rotate(&agents).unwrap());
    eventually("another is removed", || (chunks(&agents).0.removed == 2).then_some(()));
}

/// Rotations that cannot work are refused, and so are chunks of sessions that are not divided.
#[test]
fn bad_rotations_are_refused() {
    let agents = Succession::begin(Limits::default());
    let refusal =
        |request: &Request| agents.client().request_all(request).map(drop).unwrap_err().to_string();
    let session =
        Session { name: "s".into(), purpose: Purpose::Record, output: Some(agents.output()) };
    agents.ask(&Request::CreateSession(session));
    assert!(refusal(&Request::RotateSession("s".into())).contains("not divided"));
    assert!(refusal(&Request::ListChunks("none".into())).contains("no session `none`"));
    let divide = |rotation| {
        refusal(&Request::DivideSession(SessionRotation { session: "s".into(), rotation }))
    };
    let default = Rotation::default;
    assert!(divide(Rotation { size: Some(1), ..default() }).contains("4096 bytes"));
    assert!(divide(Rotation { files: Some(1), ..default() }).contains("2 to 1024 chunks"));
    assert!(divide(Rotation { age_ms: Some(0), ..default() }).contains("at once"));
    let (size, total) = (Some(1 << 20), Some(1 << 19));
    assert!(divide(Rotation { size, total, ..default() }).contains("all chunks"));
    let name_pattern = Some("{sequel}".into());
    assert!(divide(Rotation { name_pattern, ..default() }).contains("there is no `{sequel}`"));
    agents.ask(&Request::StartSession("s".into()));
    assert!(divide(default()).contains("has a trace already"));
    assert!(directories(&agents.output()).is_empty(), "no chunk was made");
}

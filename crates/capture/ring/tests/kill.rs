//! Writers that are killed at random moments. All events that they recorded are found whole, and
//! other writers can use the ring, even if the dead writer held its lock.

mod support;

use blkkin_ring::{Cells, Clock, Mode, Outcome, Writer};
use blkkin_sys::SharedMemory;
use blkkin_sys::testing::Random;
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use support::{Harvest, Set, record, shape};

const THREADS: u64 = 4;
/// Environment variable with the path of the rings' memory and the kind of writer (`sequences` or
/// `lock`), separated by a space. The test passes it to the program to be killed, which is this
/// same executable.
const MEMORY: &str = "BLKKIN_TEST_RING";

/// Program for the tests: records until it is killed. Does nothing as an ordinary test.
#[test]
fn victim() {
    let Ok(variable) = std::env::var(MEMORY) else { return };
    let (path, kind) = variable.split_once(' ').unwrap();
    let file = File::options().read(true).write(true).open(path).unwrap();
    let writer = writer(&file, kind == "sequences");
    std::thread::scope(|scope| {
        for who in 0..THREADS {
            let writer = &writer;
            scope.spawn(move || {
                for number in 0.. {
                    record(writer, who, number);
                    if number % 50 == 0 {
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
}

fn writer(file: &File, with_sequences: bool) -> Writer {
    let cells = Cells::new(SharedMemory::map(file.as_fd()).unwrap());
    let writer = Writer::new(cells, Clock::Monotonic).unwrap();
    if with_sequences { writer } else { writer.without_sequences() }
}

fn start_victim(set: &Set, with_sequences: bool) -> Child {
    let path = format!("/proc/{}/fd/{}", std::process::id(), set.file.as_raw_fd());
    let kind = if with_sequences { "sequences" } else { "lock" };
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "victim", "--nocapture"])
        .env(MEMORY, format!("{path} {kind}"))
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn check(with_sequences: bool, round: u64) {
    let what = format!("sequences: {with_sequences}, round {round}");
    let processors = std::thread::available_parallelism().unwrap().get();
    let set = Set::new(shape(processors + 1, 256 << 10, 4, Mode::Discard));
    let (mut readers, mut harvest) = (set.readers(Clock::Monotonic), Harvest::default());
    let mut victim = start_victim(&set, with_sequences);
    let mut random = Random::new(round + 1);
    while harvest.events.is_empty() {
        set.take_all(&mut readers, true, &mut harvest);
    }
    for _ in 0..random.below(8) {
        set.take_all(&mut readers, true, &mut harvest);
        std::thread::sleep(Duration::from_micros(random.below(1500)));
    }
    victim.kill().unwrap();
    victim.wait().unwrap();
    set.take_all(&mut readers, true, &mut harvest);

    let mut counts: HashMap<u64, (u64, u64)> = HashMap::new();
    for (_, who, number, _) in &harvest.events {
        let (count, highest) = counts.entry(*who).or_default();
        *count += 1;
        *highest = (*highest).max(*number);
    }
    // Events missing before the last one found were counted as lost.
    let missing: u64 = counts.values().map(|(count, highest)| highest + 1 - count).sum();
    assert!(missing <= set.lost(), "{what}: {missing} missing, {} lost", set.lost());

    // The next writer can record all its events.
    let heir = writer(&set.file, with_sequences);
    let mut found = Harvest::default();
    for number in 0..20_000 {
        assert_ne!(record(&heir, 99, number), Outcome::NoRing, "{what}");
        if number % 500 == 0 {
            set.take_all(&mut readers, true, &mut found);
        }
    }
    set.take_all(&mut readers, true, &mut found);
    let numbers: std::collections::HashSet<u64> =
        found.events.iter().filter(|event| event.1 == 99).map(|event| event.2).collect();
    assert_eq!(numbers.len(), 20_000, "{what}");
}

#[test]
fn a_killed_writer_leaves_what_it_had_recorded() {
    for round in 0..40 {
        check(true, round);
        check(false, round);
    }
}

/// Offsets of `OWNER` of two rings, as in the crate's documentation.
const OWNERS: [usize; 2] = [4096 + 24, 4096 + 256 + 24];

fn owner(process: u32, thread: u32) -> u64 {
    u64::from(process) << 22 | u64::from(thread)
}

/// Stores `owner` in the `OWNER` word of both rings. Returns true if this thread can then lock a
/// ring.
fn is_free(owner: u64) -> bool {
    let set = Set::new(shape(2, 4096, 2, Mode::Discard));
    let memory = SharedMemory::map(set.file.as_fd()).unwrap();
    for word in OWNERS {
        memory.word(word).store(owner, Relaxed);
    }
    let writer = set.writer(Clock::Monotonic).without_sequences();
    let outcome = record(&writer, 1, 0);
    assert_eq!(set.lost(), u64::from(outcome == Outcome::NoRing));
    outcome == Outcome::Recorded
}

/// The lock of a thread that ended while it held the lock is taken over; a live thread keeps its
/// lock. Random kills seldom hit the first case.
#[test]
fn a_dead_holders_lock_is_taken_over() {
    let process = std::process::id();
    let dead = std::thread::spawn(blkkin_sys::thread_id).join().unwrap();
    while blkkin_sys::thread_exists(process, dead) {
        std::thread::yield_now();
    }
    assert!(is_free(owner(process, dead)));
    // The lock of a live thread is not taken over, even if the thread has no record of it.
    assert!(!is_free(owner(process, blkkin_sys::thread_id())));
    let (tell, told) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let living = std::thread::spawn(move || {
        tell.send(blkkin_sys::thread_id()).unwrap();
        ended.recv()
    });
    assert!(!is_free(owner(process, told.recv().unwrap())));
    drop(end);
    assert!(living.join().unwrap().is_err());
}

/// The lock of another process's thread, such as a child's, is taken over only after that process
/// has ended.
#[test]
fn a_holder_of_another_process_keeps_its_lock_until_it_ends() {
    let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
    let id = child.id();
    let is_free_while_it_lives = is_free(owner(id, id));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!is_free_while_it_lives);
    assert!(is_free(owner(id, id)));
    // A holder is identified by both ids: this thread's id does not keep the lock of a dead
    // process.
    assert!(is_free(owner(id, blkkin_sys::thread_id())));
}

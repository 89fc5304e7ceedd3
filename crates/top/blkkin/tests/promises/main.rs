//! Tests of promises with real agents, servers and programs: a program is not affected by its
//! agent, recorded events survive killed processes or are counted as lost, no program or user harms
//! another. The name of a test of a numbered promise begins with the promise's number. Counts and
//! durations are small by default; environment variables increase them, as in
//! `cargo xtask torture`.

#[path = "../support/mod.rs"]
mod support;

mod bounded;
mod bounds;
mod clocks;
mod conditions;
mod crashes;
mod identity;
mod isolation;
mod losses;
mod scale;
mod start_order;

use blkkin_ring::packet;
use blkkin_sys::SharedMemory;
use blkkin_trace::{EventType, Level, event};
use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Barrier;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};
use support::node::{
    Node, Program, Running, check_all, check_distinct, env_number, eventually, figure, is_root,
    numbers, read, say, trace_directories, traces_below,
};
use support::process::{Signal, signal};
use support::{is_installed, skip};

/// Acts as the program that these tests trace; see [`numbers`].
#[test]
#[ignore = "a program of other tests"]
fn program() {
    numbers();
}

/// Acts as a tested program: makes a system call as a mark before and after it records events,
/// prints its result, and ends with its own exit status.
#[test]
#[ignore = "a program of other tests"]
fn marks() {
    let count = env_number("TEST_COUNT", 1000);
    // The first event of a type registers the type.
    record(0);
    say("\nready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let mark = || drop(fs::metadata("/test-mark"));
    mark();
    let begun = Instant::now();
    let mut sum = 0;
    for number in 1..=count {
        record(number);
        sum += number * number % 7;
    }
    let took = begun.elapsed();
    mark();
    say(format_args!("worked out: {sum}"));
    if env_number("TEST_TIMES", 0) == 1 {
        say(took.as_nanos() as u64 / count);
    }
    std::process::exit(7);
}

/// Acts as a tested program: writes its progress to memory shared with the test, before and after
/// it records each event.
#[test]
#[ignore = "a program of other tests"]
fn notes() {
    let path = std::env::var_os("TEST_MEMORY").unwrap();
    let file = File::options().read(true).write(true).open(path).unwrap();
    let memory = SharedMemory::map(file.as_fd()).unwrap();
    let last = env_number("TEST_COUNT", u64::MAX);
    say("\nready");
    for number in 1..=last {
        memory.word(BEGUN).store(number, Release);
        record(number - 1);
        memory.word(DONE).store(number, Release);
        if number % 500 == 0 {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    loop {
        std::thread::park();
    }
}

const BEGUN: usize = 0;
const DONE: usize = 64;

/// Acts as a tested program: records on many threads in parallel.
#[test]
#[ignore = "a program of other tests"]
fn crowd() {
    let (threads, each) = (env_number("TEST_THREADS", 10), env_number("TEST_COUNT", 100));
    let first = env_number("TEST_FIRST", 0);
    record(first);
    let (begin, end) = (Barrier::new(threads as usize + 1), Barrier::new(threads as usize + 1));
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (begin, end) = (&begin, &end);
            let work = move || {
                begin.wait();
                for number in 0..each {
                    record(first + 1 + thread * each + number);
                    if number % 10 == 9 {
                        std::thread::yield_now();
                    }
                }
                // Each thread waits here until all exist at the same time.
                end.wait();
            };
            std::thread::Builder::new().stack_size(64 << 10).spawn_scoped(scope, work).unwrap();
        }
        begin.wait();
        end.wait();
        say("\nready");
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).unwrap();
    });
    say(1 + threads * each);
}

/// Acts as a tested program: registers a number of event types, and records one event of each.
#[test]
#[ignore = "a program of other tests"]
fn greedy() {
    let first = env_number("TEST_FIRST", 0);
    for number in 0..env_number("TEST_COUNT", 100) {
        let name = format!("test:t{number}").leak();
        let one = EventType::new(name, Level::Info, &["n"], ("", 0));
        Box::leak(Box::new(one)).record((first + number,));
    }
    say("\nready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    say(0);
}

fn record(number: u64) {
    event!(Level::Info, "test:number", n = number);
}

/// Returns true if the test runs as root and these programs are installed. Otherwise reports the
/// test as skipped.
fn can(test: &str, programs: &[&str]) -> bool {
    if !is_root() {
        skip(test, "only root can do that");
        return false;
    }
    has(test, programs)
}

fn has(test: &str, programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| !is_installed(program));
    missing.inspect(|program| skip(test, &format!("{program} is missing"))).is_none()
}

/// Runs a command and checks that it succeeds; returns its standard output.
#[track_caller]
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Checks that babeltrace2 succeeds and prints `count` events. Reports the check as skipped if
/// babeltrace2 is missing.
#[track_caller]
fn check_with_babeltrace2(output: &Path, count: usize) {
    if !is_installed("babeltrace2") {
        return skip("promises", "babeltrace2 is missing");
    }
    let text = run(Command::new("babeltrace2").arg(output));
    assert_eq!(text.lines().count(), count);
}

fn status_of(pid: u32, word: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {word}: {status}")).trim().to_owned()
}

/// Resources that a process holds: number of descriptors, and number and total size of the mappings
/// that programs and agents share (rings and catalogs).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holdings {
    descriptors: usize,
    mappings: usize,
    bytes: u64,
}

fn holdings(pid: u32) -> Holdings {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let own: Vec<&str> = maps.lines().filter(|line| line.contains("memfd:blkkin")).collect();
    let size = |line: &&str| {
        let place = place_of(line);
        place.end - place.start
    };
    Holdings {
        descriptors: fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count(),
        mappings: own.len(),
        bytes: own.iter().map(size).sum(),
    }
}

/// Returns the address range in a line of a process's memory map.
fn place_of(line: &str) -> std::ops::Range<u64> {
    let (from, to) = line.split_whitespace().next().unwrap().split_once('-').unwrap();
    let number = |text| u64::from_str_radix(text, 16).unwrap();
    number(from)..number(to)
}

/// Control group of test processes, removed on drop.
struct Group(PathBuf);

impl Group {
    /// Creates a control group in the directory `folder` of `/sys/fs/cgroup`. Returns `None` if
    /// control groups are missing or not permitted.
    fn new(folder: &str) -> Option<Group> {
        let path = Path::new("/sys/fs/cgroup").join(folder);
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Relaxed);
        let path = path.join(format!("blkkin-test-{}-{number}", std::process::id()));
        fs::create_dir(&path).ok()?;
        let group = Group(path);
        // Without control groups this is an ordinary directory.
        group.0.join("cgroup.procs").exists().then_some(group)
    }

    fn set(&self, what: &str, value: impl std::fmt::Display) -> bool {
        let path = self.0.join(what);
        path.exists() && fs::write(path, value.to_string()).is_ok()
    }

    /// Freezes or thaws the group's processes.
    fn freeze(&self, is_still: bool) {
        let (state, number) = if is_still { ("FROZEN", "1") } else { ("THAWED", "0") };
        let is_told = self.set("freezer.state", state) || self.set("cgroup.freeze", number);
        assert!(is_told, "{}", self.0.display());
        let said = |file: &str| fs::read_to_string(self.0.join(file)).unwrap_or_default();
        eventually(state, || {
            let is_so = said("freezer.state").trim() == state
                || said("cgroup.events").contains(&format!("frozen {number}"));
            is_so.then_some(())
        });
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for line in fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default().lines() {
            let _ = fs::write(self.0.with_file_name("cgroup.procs"), line);
        }
        // The kernel may still be removing processes that have just ended.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

//! Programs that record, with a real agent: what they recorded is in the trace, also when one of the two is
//! killed. The one oracle: numbered events. All that were tried are in the trace, or counted as lost.

mod support;

use blkkin_trace::{Level, event};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A program of the tests below: records events with numbers, in bursts, until its standard input ends.
/// Says how many it has recorded, whenever it is asked.
#[test]
#[ignore = "a program of other tests"]
fn numbers() {
    let burst: u64 = std::env::var("TEST_BURST").map_or(100, |text| text.parse().unwrap());
    let pause: u64 = std::env::var("TEST_PAUSE_US").map_or(100, |text| text.parse().unwrap());
    let (asked, ask) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for _ in std::io::stdin().lock().lines() {
            let _ = asked.send(());
        }
    });
    println!("\nready");
    let mut number = 0u64;
    loop {
        for _ in 0..burst {
            event!(Level::Info, "test:number", n = number);
            number += 1;
        }
        match ask.try_recv() {
            Ok(()) => println!("{number}"),
            Err(std::sync::mpsc::TryRecvError::Disconnected) => return,
            Err(_) => {}
        }
        if pause > 0 {
            std::thread::sleep(Duration::from_micros(pause));
        }
    }
}

/// A node: a place for an agent's socket, and for traces.
struct Node {
    directory: tempfile::TempDir,
}

/// Something that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Node {
    fn new() -> Node {
        Node { directory: tempfile::tempdir().unwrap() }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("run/agent.sock")
    }

    fn output(&self) -> PathBuf {
        self.directory.path().join("trace")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_blkkin"));
        command.args(arguments).env("BLKKIN_SOCKET", self.socket());
        command
    }

    fn agent(&self) -> Running {
        let agent = self
            .command(&["agent"])
            .stderr(if std::env::var_os("TEST_LOUD").is_some() {
                Stdio::inherit()
            } else {
                Stdio::null()
            })
            .spawn()
            .unwrap();
        let agent = Running(agent);
        let asks = || self.command(&["session", "list"]).output().unwrap().status.success();
        eventually("the agent answers", || asks().then_some(()));
        agent
    }

    fn do_it(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn record_all(&self) {
        self.do_it(&["session", "create", "s", "-o", self.output().to_str().unwrap()]);
        self.do_it(&["event", "enable", "test:*"]);
        self.do_it(&["session", "start", "s"]);
    }

    /// A program that records, and that has found the agent.
    fn program(&self, burst: u64, pause_us: u64) -> Program {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "numbers"])
            .env("BLKKIN_SOCKET", self.socket())
            .env("BLKKIN_WAIT", "5000")
            .env("TEST_BURST", burst.to_string())
            .env("TEST_PAUSE_US", pause_us.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while line.trim() != "ready" {
            line.clear();
            assert_ne!(lines.read_line(&mut line).unwrap(), 0);
        }
        Program { running: Running(child), lines }
    }
}

struct Program {
    running: Running,
    lines: BufReader<std::process::ChildStdout>,
}

impl Program {
    /// How many events it has tried to record.
    fn count(&mut self) -> u64 {
        self.running.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim().parse().unwrap()
    }

    /// Has it end by itself.
    fn end(mut self) {
        drop(self.running.0.stdin.take());
        self.running.0.wait().unwrap();
    }
}

fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what} does not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The numbers in a trace, as blkkin reads them, and how many events are said to be lost.
fn read(output: &Path) -> (Vec<u64>, u64) {
    let view = Command::new(env!("CARGO_BIN_EXE_blkkin"))
        .args(["view", "--json"])
        .arg(output)
        .output()
        .unwrap();
    assert!(view.status.success(), "{}", String::from_utf8_lossy(&view.stderr));
    let (mut numbers, mut lost) = (Vec::new(), 0);
    for line in view.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let value: serde_json::Value = serde_json::from_slice(line).unwrap();
        match value["type"].as_str() {
            Some("event") => numbers.push(value["fields"]["n"].as_u64().unwrap()),
            Some("end") => lost = value["events_lost"].as_u64().unwrap(),
            _ => {}
        }
    }
    numbers.sort_unstable();
    (numbers, lost)
}

/// Nothing is there twice.
fn check_distinct(numbers: &[u64]) {
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "an event is there twice");
}

#[test]
fn all_that_is_recorded_is_in_the_trace() {
    let node = Node::new();
    let _agent = node.agent();
    node.record_all();
    let mut program = node.program(10, 1000);
    std::thread::sleep(Duration::from_millis(300));
    program.count();
    let count = {
        let count = program.count();
        program.end();
        count
    };
    node.do_it(&["session", "stop", "s"]);
    node.do_it(&["session", "destroy", "s"]);
    let (numbers, lost) = read(&node.output());
    check_distinct(&numbers);
    assert_eq!(lost, 0);
    assert!(numbers.len() as u64 >= count && numbers[0] == 0);
    assert_eq!(numbers.last(), Some(&(numbers.len() as u64 - 1)));
}

/// What was committed before a program is killed is in the trace, and nothing is in doubt.
#[test]
fn killed_programs_leave_what_they_recorded() {
    let node = Node::new();
    let _agent = node.agent();
    node.record_all();
    let mut program = node.program(1000, 0);
    std::thread::sleep(Duration::from_millis(200));
    let count = program.count();
    drop(program);
    node.do_it(&["session", "stop", "s"]);
    node.do_it(&["session", "destroy", "s"]);
    let (numbers, lost) = read(&node.output());
    check_distinct(&numbers);
    let last = *numbers.last().unwrap();
    // All up to some moment; behind the last event that was recorded some may have been lost.
    assert!(numbers.len() as u64 + lost >= count, "{} {lost} {count}", numbers.len());
    assert!(numbers.len() as u64 + lost >= last + 1);
}

/// Agents are killed at any moment, and started anew: what programs recorded is in the trace, once, and
/// what found no room is counted.
#[test]
fn killed_agents_lose_nothing() {
    let node = Node::new();
    let mut agent = node.agent();
    node.record_all();
    let mut program = node.program(200, 200);
    let cycles: u64 = std::env::var("TEST_KILLS").map_or(5, |text| text.parse().unwrap());
    for cycle in 0..cycles {
        std::thread::sleep(Duration::from_millis(50 + 37 * (cycle % 7)));
        agent.0.kill().unwrap();
        agent.0.wait().unwrap();
        std::thread::sleep(Duration::from_millis(20 * (cycle % 3)));
        agent = node.agent();
    }
    // It is found again within a second.
    std::thread::sleep(Duration::from_millis(1000));
    let count = program.count();
    program.end();
    node.do_it(&["session", "stop", "s"]);
    node.do_it(&["session", "destroy", "s"]);
    let (numbers, lost) = read(&node.output());
    check_distinct(&numbers);
    let last = *numbers.last().unwrap();
    if numbers.len() as u64 + lost != last + 1 {
        let gaps = numbers.windows(2).filter(|pair| pair[1] != pair[0] + 1);
        let gaps: Vec<_> = gaps.map(|pair| (pair[0], pair[1], pair[1] - pair[0] - 1)).collect();
        eprintln!("gaps (from, to, missing): {gaps:?}");
        let view = node.command(&["view", "--json"]).arg(node.output()).output().unwrap();
        let (mut n, mut packet) = (0, String::new());
        for line in String::from_utf8(view.stdout).unwrap().lines() {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            match value["type"].as_str() {
                Some("event") => {
                    n = value["fields"]["n"].as_u64().unwrap();
                    packet = value["packet"].to_string();
                }
                Some("loss") => eprintln!("after {n} {packet}: {line}"),
                _ => {}
            }
        }
    }
    assert_eq!(numbers.len() as u64 + lost, last + 1, "lost {lost}, {count} at least");
    assert!(last + 1 >= count);
    let traces = std::fs::read_dir(node.output().join("ust/pid")).unwrap().count();
    assert_eq!(traces, 1, "all of it is one trace");
}

//! Node for tests that record: an agent, traced programs, and checks of their events. Events are
//! numbered: each attempted event must be in the trace or counted as lost.

#[allow(unused_imports, reason = "not each test needs all of it")]
pub use blkkin_sys::testing::{env_number, figure};

use blkkin_client::{Client, Timeouts};
use blkkin_control::{Application, Applications, Processes, Reply, Request};
use blkkin_sys::testing::own_test;
use blkkin_trace::{Level, event};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Acts as the traced program. Called by the ignored test `program` of a test file, which
/// [`Node::program`] runs. Records numbered events in bursts until its standard input ends. Prints
/// the number of attempts for each input line, and at the end.
pub fn numbers() {
    let burst = env_number("TEST_BURST", 100);
    let pause = env_number("TEST_PAUSE_US", 100);
    let (asked, ask) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for _ in std::io::stdin().lock().lines() {
            let _ = asked.send(());
        }
    });
    say("\nready");
    let mut number = 0u64;
    loop {
        for _ in 0..burst {
            event!(Level::Info, "test:number", n = number);
            number += 1;
        }
        match ask.try_recv() {
            Ok(()) => say(number),
            Err(std::sync::mpsc::TryRecvError::Disconnected) => break,
            Err(_) => {}
        }
        if pause > 0 {
            std::thread::sleep(Duration::from_micros(pause));
        }
    }
    say(number);
}

/// Prints a line on standard output, which the parent process reads.
pub fn say(what: impl std::fmt::Display) {
    writeln!(std::io::stdout().lock(), "{what}").expect("somebody to say it to");
}

pub fn is_root() -> bool {
    blkkin_sys::user_id() == 0
}

/// Directory for the socket of an agent, for traces, and for copied programs.
pub struct Node {
    pub directory: tempfile::TempDir,
}

/// Child process that is killed on drop.
pub struct Running(pub Child);

impl Running {
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Kills the process with SIGKILL, whatever it is doing.
    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Node {
    pub fn new() -> Node {
        Node { directory: tempfile::tempdir().unwrap() }
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("run/agent.sock")
    }

    pub fn output(&self) -> PathBuf {
        self.directory.path().join("trace")
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_blkkin"));
        command.args(arguments).env("BLKKIN_SOCKET", self.socket());
        command
    }

    pub fn agent(&self) -> Running {
        self.agent_by(self.command(&["agent"]))
    }

    /// Starts an agent in its own mount namespace. The shell script `mounts` runs there before the
    /// agent.
    pub fn agent_behind(&self, mounts: &str) -> Running {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-ec"]);
        command.arg(format!("{mounts}\nexec \"$0\" agent"));
        command.arg(env!("CARGO_BIN_EXE_blkkin")).env("BLKKIN_SOCKET", self.socket());
        self.agent_by(command)
    }

    pub fn agent_by(&self, mut command: Command) -> Running {
        let is_loud = std::env::var_os("TEST_LOUD").is_some();
        command.stderr(if is_loud { Stdio::inherit() } else { Stdio::null() });
        let agent = Running(command.spawn().unwrap());
        let asks = || self.command(&["session", "list"]).output().unwrap().status.success();
        eventually("the agent answers", || asks().then_some(()));
        agent
    }

    #[track_caller]
    pub fn run(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        // Status 3 means done with losses, which tests count themselves.
        assert!(matches!(output.status.code(), Some(0 | 3)), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn record_all(&self) {
        self.record_all_to(&self.output());
    }

    pub fn record_all_to(&self, output: &Path) {
        self.run(&["session", "create", "s", "-o", output.to_str().unwrap()]);
        self.run(&["event", "enable", "test:*"]);
        self.run(&["session", "start", "s"]);
    }

    /// Stops and destroys the session, which writes all recorded data.
    #[track_caller]
    pub fn end_session(&self) {
        self.run(&["session", "stop", "s"]);
        self.run(&["session", "destroy", "s"]);
    }

    /// Returns the programs connected to the agent.
    pub fn applications(&self) -> Vec<Application> {
        applications_of(&self.socket())
    }

    /// Starts a program that records, and waits until it is connected to the agent.
    pub fn program(&self, burst: u64, pause_us: u64) -> Program {
        self.program_behind(&[], burst, pause_us)
    }

    /// Starts the same program as [`Node::program`], through the command `starter`.
    pub fn program_behind(&self, starter: &[&str], burst: u64, pause_us: u64) -> Program {
        let mut command = self.test_program(starter, "program");
        command.env("TEST_BURST", burst.to_string()).env("TEST_PAUSE_US", pause_us.to_string());
        Program::start(command)
    }

    /// Returns the command of a program that is one of the ignored tests.
    pub fn test_program(&self, starter: &[&str], name: &str) -> Command {
        let mut command = own_test(starter, name);
        command
            .env("BLKKIN_SOCKET", self.socket())
            .env("BLKKIN_WAIT", "5000")
            .current_dir(self.directory.path());
        command
    }
}

pub struct Program {
    pub running: Running,
    lines: BufReader<ChildStdout>,
}

impl Program {
    /// Starts the program, and waits until it reports `ready`.
    pub fn start(mut command: Command) -> Program {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut program = Program { running: Running(child), lines };
        while program.line() != "ready" {}
        program
    }

    pub fn id(&self) -> u32 {
        self.running.id()
    }

    /// Returns the program's next line of output.
    #[track_caller]
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "it has ended");
        line.trim().to_owned()
    }

    /// Returns the program's output up to its end.
    pub fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        rest
    }

    /// Sends the program an input line, and returns the number that the program prints for it; for
    /// [`numbers`], the number of events attempted so far.
    #[track_caller]
    pub fn count(&mut self) -> u64 {
        self.running.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        self.line().parse().unwrap()
    }

    /// Closes the program's input and waits for its end. Returns the number that the program prints
    /// before its end; for [`numbers`], the total number of attempted events.
    #[track_caller]
    pub fn end(mut self) -> u64 {
        drop(self.running.0.stdin.take());
        let count = self.line().parse().unwrap();
        self.rest();
        assert!(self.running.0.wait().unwrap().success());
        count
    }
}

/// Returns the programs connected to the agent at this socket; empty if the agent does not answer.
pub fn applications_of(socket: &Path) -> Vec<Application> {
    let all = Applications { processes: Processes::default(), event_types: false };
    let Ok(mut client) = Client::connect(&[socket.to_owned()], "test", "0", Timeouts::default())
    else {
        return Vec::new();
    };
    let replies = client.request_all(&Request::ListApplications(all)).unwrap_or_default();
    let application = |reply| match reply {
        Reply::Application(application) => Some(application),
        _ => None,
    };
    replies.into_iter().filter_map(application).collect()
}

#[track_caller]
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what} does not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Reads the traces below `output` with `blkkin view`. Returns the numbers of their events in
/// ascending order, and the number of events reported as lost.
#[track_caller]
pub fn read(output: &Path) -> (Vec<u64>, u64) {
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

/// Checks that no number occurs twice in a sorted list.
#[track_caller]
pub fn check_distinct(numbers: &[u64]) {
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "an event is there twice");
}

/// Checks that each attempted event is in the trace once or counted as lost; returns the number of
/// lost events.
#[track_caller]
pub fn check_all(output: &Path, tried: u64) -> u64 {
    let (numbers, lost) = read(output);
    check_distinct(&numbers);
    assert_eq!(
        numbers.len() as u64 + lost,
        tried,
        "{} are there, {lost} lost, and missing are {:?}",
        numbers.len(),
        gaps(&numbers, tried)
    );
    lost
}

/// Returns the first ranges of numbers below `end` that are not in a sorted list.
fn gaps(numbers: &[u64], end: u64) -> Vec<std::ops::Range<u64>> {
    let ends = numbers.iter().copied().chain([end]);
    let begins = std::iter::once(0).chain(numbers.iter().map(|number| number + 1));
    begins.zip(ends).map(|(begin, end)| begin..end).filter(|gap| !gap.is_empty()).take(8).collect()
}

/// Returns the traces of programs. A directory without metadata is no trace yet, and no command
/// reads it.
pub fn traces_below(output: &Path) -> Vec<PathBuf> {
    let mut traces = trace_directories(output);
    traces.retain(|trace| trace.join("metadata").is_file());
    traces
}

/// Returns the directories of the programs' traces, including those that are no trace yet.
pub fn trace_directories(output: &Path) -> Vec<PathBuf> {
    let directories = std::fs::read_dir(output.join("ust/pid")).into_iter().flatten().flatten();
    directories.map(|entry| entry.path()).collect()
}

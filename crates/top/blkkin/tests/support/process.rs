//! Control of a program that runs during the test: its lines as they arrive, signals, and its end.

pub use blkkin_sys::testing::{Signal, signal};

use super::text;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum time of each step of a test.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub struct Running {
    child: Child,
    lines: Receiver<String>,
    errors: Receiver<String>,
}

/// Exit status and remaining output of a program.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    /// Lines of standard output that the test has not read yet.
    pub lines: Vec<String>,
    /// Lines of standard error that the test has not read yet.
    pub errors: Vec<String>,
}

impl Running {
    pub fn start(command: &mut Command) -> Running {
        Running::spawn(command.stdin(Stdio::null()))
    }

    /// Starts a program that reads what the test writes.
    pub fn start_with_input(command: &mut Command) -> (Running, ChildStdin) {
        let mut running = Running::spawn(command.stdin(Stdio::piped()));
        let input = running.child.stdin.take().expect("a pipe");
        (running, input)
    }

    fn spawn(command: &mut Command) -> Running {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let lines = lines_of(child.stdout.take().expect("a pipe"));
        let errors = lines_of(child.stderr.take().expect("a pipe"));
        Running { child, lines, errors }
    }

    /// Returns the next line of standard output.
    #[track_caller]
    pub fn line(&mut self) -> String {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(error) => panic!("no line has come ({error}); {:?}", self.kill()),
        }
    }

    /// Returns the next line of standard error.
    #[track_caller]
    pub fn error(&mut self) -> String {
        match self.errors.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(error) => panic!("no error has come ({error}); {:?}", self.kill()),
        }
    }

    /// Checks the next lines of standard output.
    #[track_caller]
    pub fn expect(&mut self, lines: &[&str]) {
        for line in lines {
            assert_eq!(self.line(), *line);
        }
    }

    /// Stops reading standard output, so that the pipe closes at the next line.
    pub fn close(&mut self) {
        (_, self.lines) = mpsc::channel();
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGINT, as Ctrl-C does.
    pub fn interrupt(&self) {
        signal(self.child.id(), Signal::INT);
    }

    /// Waits for the program to end; fails after [`PATIENCE`].
    #[track_caller]
    pub fn end(mut self) -> Ended {
        let start = Instant::now();
        while self.child.try_wait().expect("a child").is_none() {
            if start.elapsed() > PATIENCE {
                panic!("it does not end; {:?}", self.kill());
            }
            thread::sleep(Duration::from_millis(1));
        }
        self.collect()
    }

    fn kill(&mut self) -> Ended {
        let _ = self.child.kill();
        self.collect()
    }

    fn collect(&mut self) -> Ended {
        let status = self.child.wait().expect("a child");
        Ended { status, lines: self.lines.iter().collect(), errors: self.errors.iter().collect() }
    }
}

fn lines_of(output: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n') {
            if sender.send(text(&line.expect("to read"))).is_err() {
                break;
            }
        }
    });
    lines
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until `holds` returns true; fails after [`PATIENCE`].
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "waiting until {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Returns true if a process has its own handler for SIGINT.
pub fn handles_sigint(id: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 << 1 != 0)
}

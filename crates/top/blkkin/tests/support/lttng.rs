//! LTTng with its session daemon and a traced program, which is in `tests/lttng`.
//!
//! The sockets of root's session daemon have a fixed path, so root uses a running daemon if there
//! is one. Otherwise the test starts and ends its own.

use super::process::{Signal, signal};
use super::{Scratch, is_installed, run, skip, text};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Maximum time to wait for LTTng's session daemon.
const PATIENCE: Duration = Duration::from_secs(20);

/// LTTng environment of one test: home directory, traced program, and the session daemon if the
/// test started it.
pub struct Lttng {
    pub scratch: Scratch,
    pub program: PathBuf,
    daemon: Option<Child>,
    /// Lock that limits the tests to one session daemon at a time. It must be dropped last.
    _alone: File,
}

impl Lttng {
    /// Builds the traced program and starts a session daemon if needed. Returns the reason if this
    /// is impossible.
    pub fn start() -> Result<Lttng, String> {
        // The name contains the user, as another user's file cannot be opened.
        let lock = format!("blkkin-lttng-{}.lock", blkkin_sys::user_id());
        let alone = File::create(std::env::temp_dir().join(lock));
        let alone = alone.and_then(|file| file.lock().map(|()| file)).expect("a lock");
        for program in ["lttng", "lttng-sessiond", "babeltrace2", "cc"] {
            if !is_installed(program) {
                return Err(format!("{program} is not installed"));
            }
        }
        let scratch = Scratch::new("lttng");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/lttng");
        let program = scratch.0.join("program");
        let mut compiler = Command::new("cc");
        compiler.arg("-I").arg(&source).arg(source.join("program.c")).arg("-o").arg(&program);
        let compiled = run(compiler.args(["-llttng-ust", "-ldl"]));
        if !compiled.status.success() {
            return Err(format!("no program for LTTng-UST: {}", text(&compiled.stderr)));
        }
        let mut lttng = Lttng { scratch, program, daemon: None, _alone: alone };
        if !lttng.answers() {
            let mut daemon = lttng.command("lttng-sessiond");
            let daemon = daemon.arg("--no-kernel").stdout(Stdio::null()).stderr(Stdio::null());
            lttng.daemon = Some(daemon.spawn().expect("a session daemon"));
            let start = Instant::now();
            while !lttng.answers() {
                if start.elapsed() > PATIENCE {
                    return Err("the session daemon does not answer".to_owned());
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(lttng)
    }

    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("LTTNG_HOME", &self.scratch.0);
        command
    }

    fn answers(&self) -> bool {
        run(self.command("lttng").args(["--no-sessiond", "list"])).status.success()
    }

    #[track_caller]
    pub fn lttng(&self, arguments: &[&str]) {
        let output = run(self.command("lttng").arg("--no-sessiond").args(arguments));
        assert!(output.status.success(), "lttng {arguments:?}: {}", text(&output.stderr));
    }

    /// Starts a session with all contexts of the test, and with one channel that has the given
    /// options.
    pub fn session(&self, name: &str, kind: &[&str], channel: &[&str]) -> Session<'_> {
        self.session_of(name, kind, channel, "blkkin_sample:*")
    }

    pub fn session_of(
        &self,
        name: &str,
        kind: &[&str],
        channel: &[&str],
        events: &str,
    ) -> Session<'_> {
        let name = format!("blkkin-{name}-{}", std::process::id());
        let directory = self.scratch.0.join(&name);
        let output = format!("--output={}", directory.display());
        self.start_session(
            Session { lttng: self, name, directory },
            &[&[&*output][..], kind].concat(),
            channel,
            events,
        )
    }

    /// Starts a live session at a relay whose ports for control and data are given. The relay
    /// writes it to a directory below `directory`.
    pub fn live_session(
        &self,
        name: &str,
        directory: &Path,
        (control, data): (u16, u16),
        channel: &[&str],
    ) -> Session<'_> {
        let session = Session {
            lttng: self,
            name: format!("blkkin-{name}-{}", std::process::id()),
            directory: directory.to_owned(),
        };
        let control = format!("--ctrl-url=tcp://127.0.0.1:{control}");
        let data = format!("--data-url=tcp://127.0.0.1:{data}");
        self.start_session(session, &["--live=100000", &control, &data], channel, "blkkin_sample:*")
    }

    fn start_session<'l>(
        &self,
        session: Session<'l>,
        create: &[&str],
        channel: &[&str],
        events: &str,
    ) -> Session<'l> {
        self.lttng(&[&["create", &session.name][..], create].concat());
        session.lttng("enable-channel", &[&["--userspace"][..], channel, &["sample"]].concat());
        let contexts = ["--type=vpid", "--type=vtid", "--type=procname"];
        session.lttng("add-context", &[&["--userspace"][..], &contexts].concat());
        session.lttng("enable-event", &["--userspace", "--channel=sample", events]);
        self.lttng(&["start", &session.name]);
        session
    }

    /// Starts the traced program, and waits until it has hit each tracepoint `rounds` times.
    pub fn program(&self, rounds: usize) -> Program {
        let mut command = Command::new(&self.program);
        command.env("LTTNG_HOME", &self.scratch.0).arg(rounds.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the traced program");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut program = Program { child, input, output };
        program.wait();
        program
    }
}

impl Drop for Lttng {
    fn drop(&mut self) {
        if let Some(daemon) = &mut self.daemon {
            // On SIGTERM the daemon ends its consumers, too.
            signal(daemon.id(), Signal::TERM);
            let _ = daemon.wait();
        }
    }
}

pub struct Program {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Program {
    pub fn wait(&mut self) {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the traced program to go on");
        assert_eq!(line, "done\n");
    }

    pub fn once_more(&mut self) {
        self.input.write_all(b"\n").expect("the traced program to read");
        self.wait();
    }

    pub fn end(mut self) {
        drop(self.input);
        assert!(self.child.wait().expect("the traced program").success());
    }
}

pub struct Session<'l> {
    lttng: &'l Lttng,
    pub name: String,
    pub directory: PathBuf,
}

impl Session<'_> {
    #[track_caller]
    pub fn lttng(&self, command: &str, arguments: &[&str]) {
        let session = format!("--session={}", self.name);
        self.lttng.lttng(&[&[command, &session][..], arguments].concat());
    }

    /// Stops the session; returns the directory of the recording.
    pub fn end(self) -> PathBuf {
        self.lttng.lttng(&["stop", &self.name]);
        self.directory.clone()
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        run(self.lttng.command("lttng").args(["--no-sessiond", "destroy", &self.name]));
    }
}

/// Number of times that the program hits each tracepoint before it waits for input.
pub const ROUNDS: usize = 100;
/// Number of events that the program, which has six tracepoints, records before it waits for
/// input.
pub const EVENTS: usize = 6 * ROUNDS;

/// Options for per-user buffers, with enough sub-buffers for all events.
pub const BY_USER: &[&str] = &["--buffers-uid", "--subbuf-size=16K", "--num-subbuf=16"];
/// Options for per-process buffers, with enough sub-buffers for all events.
pub const BY_PROCESS: &[&str] = &["--buffers-pid", "--subbuf-size=16K", "--num-subbuf=16"];

pub fn start(test: &str) -> Option<Lttng> {
    Lttng::start().map_err(|reason| skip(test, &reason)).ok()
}

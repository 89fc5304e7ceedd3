//! Comparison with babeltrace2 on traces recorded by LTTng-UST: with buffers per user or per
//! process, with rotations, as snapshots, read while they grow, and rewritten by BlkKin. The traced
//! program is in `tests/lttng`.
//!
//! The sockets of root's session daemon have a fixed path, so root uses a running daemon if there
//! is one. Otherwise the test starts and ends its own.

mod support;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use support::corpus::losses;
use support::node::eventually;
use support::process::{Running, Signal, signal};
use support::{Scratch, blkkin, bytes_below, is_installed, run, skip, text};

/// Maximum time to wait for LTTng's session daemon.
const PATIENCE: Duration = Duration::from_secs(20);

/// LTTng environment of one test: home directory, traced program, and the session daemon if the
/// test started it.
struct Lttng {
    scratch: Scratch,
    program: PathBuf,
    daemon: Option<Child>,
    /// Lock that limits the tests to one session daemon at a time. It must be dropped last.
    _alone: File,
}

impl Lttng {
    /// Builds the traced program and starts a session daemon if needed. Returns the reason if this
    /// is impossible.
    fn start() -> Result<Lttng, String> {
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

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("LTTNG_HOME", &self.scratch.0);
        command
    }

    fn answers(&self) -> bool {
        run(self.command("lttng").args(["--no-sessiond", "list"])).status.success()
    }

    #[track_caller]
    fn lttng(&self, arguments: &[&str]) {
        let output = run(self.command("lttng").arg("--no-sessiond").args(arguments));
        assert!(output.status.success(), "lttng {arguments:?}: {}", text(&output.stderr));
    }

    /// Starts a session with all contexts of the test, and with one channel that has the given
    /// options.
    fn session(&self, name: &str, kind: &[&str], channel: &[&str]) -> Session<'_> {
        self.session_of(name, kind, channel, "blkkin_sample:*")
    }

    fn session_of(&self, name: &str, kind: &[&str], channel: &[&str], events: &str) -> Session<'_> {
        let name = format!("blkkin-{name}-{}", std::process::id());
        let directory = self.scratch.0.join(&name);
        let output = format!("--output={}", directory.display());
        self.lttng(&[&["create", &name, &output][..], kind].concat());
        let session = Session { lttng: self, name, directory };
        session.lttng("enable-channel", &[&["--userspace"][..], channel, &["sample"]].concat());
        let contexts = ["--type=vpid", "--type=vtid", "--type=procname"];
        session.lttng("add-context", &[&["--userspace"][..], &contexts].concat());
        session.lttng("enable-event", &["--userspace", "--channel=sample", events]);
        self.lttng(&["start", &session.name]);
        session
    }

    /// Starts the traced program, and waits until it has hit each tracepoint `rounds` times.
    fn program(&self, rounds: usize) -> Program {
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

struct Program {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Program {
    fn wait(&mut self) {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the traced program to go on");
        assert_eq!(line, "done\n");
    }

    fn once_more(&mut self) {
        self.input.write_all(b"\n").expect("the traced program to read");
        self.wait();
    }

    fn end(mut self) {
        drop(self.input);
        assert!(self.child.wait().expect("the traced program").success());
    }
}

struct Session<'l> {
    lttng: &'l Lttng,
    name: String,
    directory: PathBuf,
}

impl Session<'_> {
    #[track_caller]
    fn lttng(&self, command: &str, arguments: &[&str]) {
        let session = format!("--session={}", self.name);
        self.lttng.lttng(&[&[command, &session][..], arguments].concat());
    }

    /// Stops the session; returns the directory of the recording.
    fn end(self) -> PathBuf {
        self.lttng.lttng(&["stop", &self.name]);
        self.directory.clone()
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        run(self.lttng.command("lttng").args(["--no-sessiond", "destroy", &self.name]));
    }
}

/// Compares the output of `blkkin view` and babeltrace2 with several sets of options; returns the
/// number of events.
#[track_caller]
fn compare(path: &Path) -> usize {
    let mut events = 0;
    let sets: [&[&str]; 3] =
        [&[], &["--names", "all", "--fields", "all"], &["--clock-cycles", "--no-delta"]];
    for options in sets {
        let mut theirs = Command::new("babeltrace2");
        let theirs = run(theirs.env("TZ", "UTC").args(options).arg(path));
        assert!(theirs.status.success(), "{path:?}: {}", text(&theirs.stderr));
        for threads in ["1", "3"] {
            let mut ours = blkkin(Path::new("/"));
            ours.args(["view", "--threads", threads]).args(options).arg(path);
            let ours = run(&mut ours);
            assert!(ours.status.success(), "{path:?}: {}", text(&ours.stderr));
            let (expected, got) = (text(&theirs.stdout), text(&ours.stdout));
            let different = expected.lines().zip(got.lines()).position(|(a, b)| a != b);
            if let Some(line) = different {
                let of = |text: &str| text.lines().nth(line).unwrap_or_default().to_owned();
                panic!("{path:?}, line {line}:\n{}\n{}", of(&expected), of(&got));
            }
            events = expected.lines().count();
            assert_eq!(events, got.lines().count(), "{path:?}: number of events");
        }
    }
    events
}

/// Returns all trace directories at and below `path`.
fn traces(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    if path.join("metadata").is_file() {
        found.push(path.to_owned());
    }
    for entry in fs::read_dir(path).expect("a directory") {
        let entry = entry.expect("an entry");
        if entry.file_type().expect("a type").is_dir() {
            found.extend(traces(&entry.path()));
        }
    }
    found
}

/// Number of times that the program hits each tracepoint before it waits for input.
const ROUNDS: usize = 100;
/// Number of events that the program, which has six tracepoints, records before it waits for input.
const EVENTS: usize = 6 * ROUNDS;

/// Options for per-user buffers, with enough sub-buffers for all events.
const BY_USER: &[&str] = &["--buffers-uid", "--subbuf-size=16K", "--num-subbuf=16"];
/// Options for per-process buffers, with enough sub-buffers for all events.
const BY_PROCESS: &[&str] = &["--buffers-pid", "--subbuf-size=16K", "--num-subbuf=16"];

fn start(test: &str) -> Option<Lttng> {
    Lttng::start().map_err(|reason| skip(test, &reason)).ok()
}

#[test]
fn recorded_traces_read_as_babeltrace2_reads_them() {
    let Some(lttng) = start("lttng") else { return };

    // Buffers by user, with two rotations.
    let session = lttng.session("uid", &[], BY_USER);
    let mut program = lttng.program(ROUNDS);
    let mut other = lttng.program(ROUNDS);
    lttng.lttng(&["rotate", &session.name]);
    program.once_more();
    lttng.lttng(&["rotate", &session.name]);
    other.once_more();
    program.end();
    other.end();
    let directory = session.end();
    assert_eq!(compare(&directory), 4 * EVENTS);
    let chunks = traces(&directory);
    assert!(chunks.len() >= 3, "{chunks:?}");
    assert_eq!(chunks.iter().map(|chunk| compare(chunk)).sum::<usize>(), 4 * EVENTS);

    // Buffers by process.
    let session = lttng.session("pid", &[], BY_PROCESS);
    let (program, other) = (lttng.program(ROUNDS), lttng.program(ROUNDS));
    program.end();
    other.end();
    let directory = session.end();
    assert_eq!(compare(&directory), 2 * EVENTS);
    assert_eq!(traces(&directory).iter().map(|trace| compare(trace)).sum::<usize>(), 2 * EVENTS);

    // Snapshots; the second contains the events of the first again.
    let session = lttng.session("snapshot", &["--snapshot"], BY_USER);
    let mut program = lttng.program(ROUNDS);
    lttng.lttng(&["snapshot", "record", &format!("--session={}", session.name)]);
    program.once_more();
    lttng.lttng(&["snapshot", "record", &format!("--session={}", session.name)]);
    program.end();
    let directory = session.end();
    let snapshots = traces(&directory);
    assert_eq!(snapshots.len(), 2, "{snapshots:?}");
    for snapshot in &snapshots {
        assert!(compare(snapshot) >= EVENTS);
    }
    compare(&directory);
}

/// Runs babeltrace2 on a trace; returns its output.
#[track_caller]
fn babeltrace(path: &Path, options: &[&str]) -> std::process::Output {
    let output = run(Command::new("babeltrace2").env("TZ", "UTC").args(options).arg(path));
    assert!(output.status.success(), "{path:?}: {}", text(&output.stderr));
    output
}

/// Process of `view --follow` on a session, and its output so far.
struct Following {
    running: Running,
    lines: Vec<String>,
}

impl Following {
    fn start(session: &Session<'_>) -> Following {
        let mut command = blkkin(&session.directory.join(".."));
        command.args(["view", "--follow", "--no-delta"]).arg(&session.directory);
        Following { running: Running::start(&mut command), lines: Vec::new() }
    }

    fn expect(&mut self, count: usize) {
        self.lines.extend((0..count).map(|_| self.running.line()));
    }

    /// Ends the process with Ctrl-C. Checks its whole output against the trace that is now in the
    /// directory.
    fn end(mut self, directory: &Path) {
        self.running.interrupt();
        let ended = self.running.end();
        assert_eq!(ended.status.code(), Some(130), "{ended:?}");
        // Warnings are possible, as the directory may have been missing at first.
        let is_waiting = |line: &String| line.starts_with("warning: ");
        assert!(ended.lines.is_empty() && ended.errors.iter().all(is_waiting), "{ended:?}");
        // Packets arrive by processor, so the order of events differs.
        self.lines.sort();
        let theirs = text(&babeltrace(directory, &["--no-delta"]).stdout);
        let mut theirs: Vec<&str> = theirs.lines().collect();
        theirs.sort();
        assert_eq!(self.lines, theirs, "{directory:?}");
    }
}

#[test]
fn a_recording_is_followed_while_it_goes_on() {
    let Some(lttng) = start("lttng-follow") else { return };
    for (name, channel) in [("follow-uid", BY_USER), ("follow-pid", BY_PROCESS)] {
        let session = lttng.session(name, &[], channel);
        let mut following = Following::start(&session);
        // A rotation writes all data and moves the files.
        let mut program = lttng.program(ROUNDS);
        lttng.lttng(&["rotate", &session.name]);
        following.expect(EVENTS);
        program.once_more();
        lttng.lttng(&["rotate", &session.name]);
        following.expect(EVENTS);
        // A new process has a new trace, if buffers are by process.
        let other = lttng.program(ROUNDS);
        program.once_more();
        program.end();
        other.end();
        let directory = session.end();
        following.expect(2 * EVENTS);
        following.end(&directory);
    }

    // With a switch timer, data is written without a rotation; metadata, including that of new
    // event classes, only with one.
    let by_timer = [BY_USER, &["--switch-timer=20000"]].concat();
    let session = lttng.session_of("follow-timer", &[], &by_timer, "blkkin_sample:integers");
    let mut following = Following::start(&session);
    let mut program = lttng.program(ROUNDS);
    lttng.lttng(&["rotate", &session.name]);
    following.expect(ROUNDS);
    program.once_more();
    following.expect(ROUNDS);
    session.lttng("enable-event", &["--userspace", "--channel=sample", "blkkin_sample:*"]);
    program.once_more();
    lttng.lttng(&["rotate", &session.name]);
    following.expect(EVENTS);
    program.once_more();
    following.expect(EVENTS);
    program.end();
    let directory = session.end();
    following.end(&directory);
}

/// Checks that babeltrace2 prints the same for merged and converted traces as for `path`, and the
/// selected events of `path` for cut traces.
fn check_written(lttng: &Lttng, path: &Path) {
    let source = babeltrace(path, &[]);
    let (source_text, source_losses) = (text(&source.stdout), losses(&source));
    let events = source_text.lines().count();
    assert!(events > EVENTS, "{events} events");
    let written = lttng.scratch.0.join("written");
    fs::create_dir_all(&written).expect("to make a folder");
    let write = |arguments: &[&str], from: &Path, to: &str| {
        let to = written.join(to);
        let mut command = blkkin(&written);
        let output = run(command.args(arguments).arg(from).arg("-o").arg(&to));
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        to
    };
    let only_losses = |output: &std::process::Output| {
        let told = text(&output.stderr);
        assert!(told.lines().all(|line| line.starts_with("WARNING: Tracer ")), "{told}");
    };
    let merged = write(&["merge"], path, "merged");
    let new = write(&["convert", "--to", "ctf2"], path, "ctf2");
    let old = write(&["convert", "--to", "ctf1"], &new, "ctf1");
    for whole in [&merged, &old] {
        let theirs = babeltrace(whole, &[]);
        assert!(text(&theirs.stdout) == source_text, "{whole:?}");
        assert_eq!(losses(&theirs), source_losses, "{whole:?}");
        only_losses(&theirs);
        assert!(run(blkkin(&written).arg("view").arg(whole)).stdout == theirs.stdout, "{whole:?}");
    }

    // The middle third, and the selection of a filter.
    let seconds = text(&babeltrace(path, &["--clock-seconds", "--no-delta"]).stdout);
    let time = |line: usize| {
        let line = seconds.lines().nth(line).expect("a line");
        line[1..].split_once(']').expect("a time").0.to_owned()
    };
    let range = ["--begin", &time(events / 3), "--end", &time(2 * events / 3)];
    let cut = write(&[&["cut"][..], &range].concat(), path, "cut");
    let theirs = babeltrace(&cut, &[]);
    assert!(theirs.stdout == babeltrace(path, &range).stdout, "{range:?}");
    only_losses(&theirs);
    let filtered = write(&["cut", "--filter", "name == \"*:bare\""], path, "filtered");
    let all = text(&babeltrace(path, &["--no-delta"]).stdout);
    let expected: String = all
        .lines()
        .filter(|line| line.contains(":bare: "))
        .map(|line| format!("{line}\n"))
        .collect();
    assert!(
        text(&babeltrace(&filtered, &["--no-delta"]).stdout) == expected && !expected.is_empty()
    );
    fs::remove_dir_all(&written).expect("to remove");
}

#[test]
fn what_is_written_of_recorded_traces_reads_as_they_do() {
    let Some(lttng) = start("lttng-rewrite") else { return };

    // Buffers by process, with a rotation.
    let session = lttng.session("chunks", &[], BY_PROCESS);
    let mut program = lttng.program(ROUNDS);
    let other = lttng.program(ROUNDS);
    lttng.lttng(&["rotate", &session.name]);
    program.once_more();
    program.end();
    other.end();
    let directory = session.end();
    check_written(&lttng, &directory);

    // Far more events than fit into the buffers.
    let little = ["--buffers-uid", "--subbuf-size=4K", "--num-subbuf=2"];
    let session = lttng.session("discarded", &[], &little);
    let mut program = lttng.program(100 * ROUNDS);
    // On a busy machine LTTng's consumer reads few of the packets of one round.
    eventually("256 KiB are on disk", || {
        program.once_more();
        (bytes_below(&session.directory) >= 256 << 10).then_some(())
    });
    program.end();
    let directory = session.end();
    let told = losses(&babeltrace(&directory, &[]));
    assert!(told.contains("Tracer discarded "), "{told}");
    check_written(&lttng, &directory);

    // Packets were overwritten between snapshots.
    let overwritten = ["--overwrite", "--buffers-uid", "--subbuf-size=16K", "--num-subbuf=8"];
    let session = lttng.session("overwritten", &["--snapshot"], &overwritten);
    let mut program = lttng.program(ROUNDS);
    let record = || lttng.lttng(&["snapshot", "record", &format!("--session={}", session.name)]);
    record();
    for _ in 0..20 {
        program.once_more();
    }
    record();
    program.end();
    let directory = session.end();
    let told = losses(&babeltrace(&directory, &[]));
    assert!(told.contains(" packet"), "{told}");
    check_written(&lttng, &directory);
}

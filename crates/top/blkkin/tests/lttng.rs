//! Traces that LTTng-UST really records must read as babeltrace2 reads them: buffers by user and
//! by process, rotations and snapshots. The traced program is in `tests/lttng`.
//!
//! Root's session daemon has one fixed place for its sockets, so that root uses the running one
//! if there is one. In all other cases the test starts its own, and ends it.

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use support::{Scratch, blkkin, is_installed, run, skip, text};

/// How long a daemon may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// LTTng with a home of its own.
struct Lttng {
    scratch: Scratch,
    program: PathBuf,
    daemon: Option<Child>,
}

impl Lttng {
    /// Builds the traced program and sees to a session daemon; or tells what is missing.
    fn start() -> Result<Lttng, String> {
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
        let mut lttng = Lttng { scratch, program, daemon: None };
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

    /// Records a session: channels by `buffers`, all contexts that the test wants.
    fn session(&self, name: &str, kind: &[&str], buffers: &str) -> Session<'_> {
        let name = format!("blkkin-{name}-{}", std::process::id());
        let directory = self.scratch.0.join(&name);
        let output = format!("--output={}", directory.display());
        self.lttng(&[&["create", &name, &output][..], kind].concat());
        let session = Session { lttng: self, name, directory };
        session.lttng(
            "enable-channel",
            &["--userspace", buffers, "--subbuf-size=16K", "--num-subbuf=16", "sample"],
        );
        let contexts = ["--type=vpid", "--type=vtid", "--type=procname"];
        session.lttng("add-context", &[&["--userspace"][..], &contexts].concat());
        session.lttng("enable-event", &["--userspace", "--channel=sample", "blkkin_sample:*"]);
        self.lttng(&["start", &session.name]);
        session
    }

    /// Starts the traced program, which has hit each tracepoint when this returns.
    fn program(&self) -> Program {
        let mut command = Command::new(&self.program);
        command.env("LTTNG_HOME", &self.scratch.0).arg("100");
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
            // Asked kindly, it ends its consumers too.
            run(Command::new("kill").arg(daemon.id().to_string()));
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

    /// The directory of what was recorded.
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

/// Compares the two programs' output, with several sets of options; gives the number of events.
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

/// All directories below `path` that are traces.
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

/// Events of one run through all tracepoints of the program.
const EVENTS: usize = 600;

#[test]
fn recorded_traces_read_as_babeltrace2_reads_them() {
    let lttng = match Lttng::start() {
        Ok(lttng) => lttng,
        Err(reason) => return skip("lttng", &reason),
    };

    // By user, and rotated in the middle.
    let session = lttng.session("uid", &[], "--buffers-uid");
    let mut program = lttng.program();
    let mut other = lttng.program();
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

    // By process.
    let session = lttng.session("pid", &[], "--buffers-pid");
    let (program, other) = (lttng.program(), lttng.program());
    program.end();
    other.end();
    let directory = session.end();
    assert_eq!(compare(&directory), 2 * EVENTS);
    assert_eq!(traces(&directory).iter().map(|trace| compare(trace)).sum::<usize>(), 2 * EVENTS);

    // Snapshots, of which the second has the first's events again.
    let session = lttng.session("snapshot", &["--snapshot"], "--buffers-uid");
    let mut program = lttng.program();
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

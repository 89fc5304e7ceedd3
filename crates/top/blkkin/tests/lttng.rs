//! Comparison with babeltrace2 on traces recorded by LTTng-UST: with buffers per user or per
//! process, with rotations, as snapshots, read while they grow, and rewritten by BlkKin. The traced
//! program is in `tests/lttng`.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::corpus::losses;
use support::lttng::{BY_PROCESS, BY_USER, EVENTS, Lttng, ROUNDS, Session, start};
use support::node::eventually;
use support::process::Running;
use support::{blkkin, bytes_below, run, text};

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

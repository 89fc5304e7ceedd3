//! Tests of `view` with a closed pipe, with output errors, with `--limit`, with few descriptors,
//! and with a trace on standard input.

mod support;

use std::fs::{File, OpenOptions};
use std::process::Command;
use support::corpus::{corpus, expectation};
use support::growing_trace::{Growing, Packet, write_slow_trace};
use support::process::Running;
use support::recipe::Recipe;
use support::{Scratch, blkkin, run, run_with_input, text, with_limit};

fn recipe(name: &str) -> Recipe {
    Recipe::read(&corpus().join("good").join(format!("{name}.ctf")))
}

/// Creates a scratch directory with traces of the corpus.
fn with_traces(scratch: &str, names: &[&str]) -> Scratch {
    let scratch = Scratch::new(scratch);
    names.iter().for_each(|name| recipe(name).write(&scratch.0));
    scratch
}

/// Runs a command whose standard output is closed after the first line. Returns its exit status and
/// messages.
fn run_with_closed_pipe(command: &mut Command) -> (Option<i32>, String) {
    let mut running = Running::start(command);
    running.line();
    running.close();
    let ended = running.end();
    (ended.status.code(), ended.errors.join("\n"))
}

#[test]
fn a_closed_pipe_is_a_quiet_end() {
    let scratch = with_traces("view-closed", &["losses-beside-gaps"]);
    write_slow_trace(&scratch.0.join("endless"));
    let check = |arguments: &[&str], status: i32, expected: &str| {
        let said = run_with_closed_pipe(blkkin(&scratch.0).args(arguments));
        assert_eq!(said, (Some(status), expected.to_owned()), "{arguments:?}");
    };
    check(&["view", "endless"], 0, "");
    check(&["view", "--threads", "1", "endless"], 0, "");
    check(&["view", "--json", "endless"], 0, "");
    check(&["view", "--follow", "endless"], 0, "");
    check(&["view", "--follow", "--json", "endless"], 0, "");
    // Unreadable input is still reported.
    let nowhere = "error: nowhere: cannot open: no such file or directory";
    check(&["view", "endless", "nowhere"], 1, nowhere);
    // The losses are printed before the pipe is closed; a total would be wrong, as reading ended
    // early.
    let (status, errors) =
        run_with_closed_pipe(blkkin(&scratch.0).args(["view", "losses-beside-gaps", "endless"]));
    assert_eq!(status, Some(0));
    assert!(!errors.contains("in all"), "{errors}");
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let scratch = with_traces("view-full", &["string"]);
    for arguments in [
        &["view", "string"][..],
        &["view", "--threads", "1", "string"],
        &["view", "--json", "string"],
        &["view", "--count", "string"],
        &["view", "--follow", "--limit", "1", "string"],
        &["view", "--follow", "--limit", "1", "--json", "string"],
        &["info", "string"],
        &["info", "--json", "string"],
        &["merge", "--json", "string", "-o", "merged"],
        &["--help"],
        &["view", "--help"],
        &["--version"],
    ] {
        let full = OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
        let output = run(blkkin(&scratch.0).args(arguments).stdout(full));
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let expected = "error: cannot write output: No space left on device (os error 28)\n";
        assert_eq!(text(&output.stderr), expected, "{arguments:?}");
    }
}

/// A loss is reported between the events where it occurred if standard output and standard error
/// are the same file.
#[test]
fn losses_stand_between_the_events() {
    let scratch = with_traces("view-together", &["losses-beside-gaps"]);
    for threads in ["1", "2"] {
        let path = scratch.0.join("both");
        let both = File::create(&path).expect("a file");
        let mut command = blkkin(&scratch.0);
        command.args(["view", "--threads", threads, "losses-beside-gaps"]);
        command.stdout(both.try_clone().expect("a file")).stderr(both);
        assert!(command.status().expect("the program").success());
        let written = std::fs::read_to_string(&path).expect("to read");
        // First characters of the lines: events, warnings, and the total.
        let order: String = written.lines().filter_map(|line| line.chars().next()).collect();
        assert_eq!(order, "W[WW[W[W[l", "{written}");
    }
}

#[test]
fn a_limit_shows_the_first_events() {
    let names = ["discarded-later", "several-stream-classes", "string"];
    let scratch = with_traces("view-limit", &names);
    let view = |arguments: &[&str]| {
        let output = run(blkkin(&scratch.0).args([&["view"], arguments, &names].concat()));
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let all = view(&[]);
    assert!(all.len() > 8);
    let is_hello = |line: &&String| line.contains("says");
    let some: Vec<String> = all.iter().filter(is_hello).cloned().collect();
    let without_delta = |lines: &[String]| -> Vec<String> {
        lines.iter().map(|line| line.split_once(") ").expect("a delta").1.to_owned()).collect()
    };
    assert_eq!(some.len(), 4);
    for limit in 0..all.len() + 2 {
        let count = limit.min(all.len());
        let limit = limit.to_string();
        for threads in ["1", "2"] {
            let limited = ["--threads", threads, "--limit", &limit];
            assert_eq!(view(&limited), all[..count]);
            assert_eq!(view(&[&limited[..], &["--count"]].concat()), [count.to_string()]);
            let json = view(&[&limited[..], &["--json"]].concat());
            let events = json.iter().filter(|line| line.starts_with("{\"type\":\"event\""));
            assert_eq!(events.count(), count);
            let end: serde_json::Value = serde_json::from_str(&json[json.len() - 1]).expect("JSON");
            assert_eq!(end["events"], count);
        }
        let hellos = view(&["--limit", &limit, "--filter", "name == \"says\""]);
        assert_eq!(without_delta(&hellos), without_delta(&some[..count.min(some.len())]));
    }
}

#[test]
fn standard_input_is_metadata_and_packets() {
    let scratch = with_traces("view-stdin", &["string", "contexts"]);
    let file = |name: &str, file: &str| std::fs::read(scratch.0.join(name).join(file)).unwrap();
    let (metadata, stream) = (file("string", "metadata"), file("string", "stream"));
    let string = text(&expectation("good", "string", "txt"));
    let check = |arguments: &[&str], input: &[&[u8]], expected: (i32, &str, &str)| {
        let output = run_with_input(blkkin(&scratch.0).args(arguments), &input.concat());
        let (status, lines, errors) = expected;
        assert_eq!(text(&output.stderr), errors, "{arguments:?}");
        assert_eq!(text(&output.stdout), lines, "{arguments:?}");
        assert_eq!(output.status.code(), Some(status), "{arguments:?}");
    };
    check(&["view", "-"], &[&metadata, &stream], (0, &string, ""));
    check(&["view", "-", "--metadata", "string/metadata"], &[&stream], (0, &string, ""));
    check(&["view", "--count", "-"], &[&metadata, &stream], (0, "4\n", ""));
    check(&["view", "-"], &[&metadata], (0, "", ""));
    let first = string.lines().next().expect("a line");
    check(&["view", "--limit", "1", "-"], &[&metadata, &stream], (0, &format!("{first}\n"), ""));
    let contexts = text(&expectation("good", "contexts", "txt"));
    let lines = contexts.lines().count() + string.lines().count();
    let count = format!("{lines}\n");
    check(&["view", "--count", "contexts", "-"], &[&metadata, &stream], (0, &count, ""));

    let missing = "error: <stdin>: metadata: standard input has no metadata before its packets; \
                   begin with it (cat metadata stream | …) or give --metadata FILE\n";
    check(&["view", "-"], &[], (1, "", missing));
    check(&["view", "-"], &[&stream], (1, "", missing));
    let cut = "error: <stdin>: offset 100: file ends 92 bytes before its last packet does\n\
               hint: the events before are complete; for a recording that goes on use --follow\n";
    let two: Vec<&str> = string.lines().take(2).collect();
    let two = format!("{}\n", two.join("\n"));
    check(&["view", "-"], &[&metadata, &stream[..100]], (1, &two, cut));
    check(
        &["view", "--metadata", "string/metadata", "string"],
        &[],
        (
            2,
            "",
            "error: --metadata is for standard input, which is not read\n\
             hint: give `-` as a path, or leave --metadata out: directories have their own\n",
        ),
    );
    check(
        &["view", "--metadata", "nowhere", "-"],
        &[&stream],
        (1, "", "error: nowhere: cannot open: no such file or directory\n"),
    );
    let mut command = blkkin(&scratch.0);
    command.env("TMPDIR", scratch.0.join("nowhere")).args(["view", "-"]);
    let output = run_with_input(&mut command, &[&metadata[..], &stream[..]].concat());
    let expected = "error: <stdin>: cannot make a temporary file: no such file or directory\n";
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(1), expected));
}
/// `blkkin` can read, count and merge a trace with more streams than it has file descriptors.
#[test]
fn many_streams_are_read_with_few_descriptors() {
    let scratch = Scratch::new("view-many");
    let growing = Growing::begin(&scratch.0.join("trace"), 1);
    for stream in 0..600 {
        for seq in 0..2 {
            let time = 1000 * seq + stream;
            let events = [(0, time, seq as u8)];
            growing.packet(Packet { stream, seq, time: (time, time), lost: 0, events: &events });
        }
    }
    let limited = |arguments: &[&str]| {
        let output = run(&mut with_limit("-n 320", blkkin(&scratch.0).args(arguments)));
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let expected = limited(&["view", "--threads", "1", "trace"]);
    assert_eq!(expected.lines().count(), 1200);
    let mut times: Vec<&str> = expected.lines().map(|line| &line[..20]).collect();
    assert!(times.is_sorted());
    times.dedup();
    assert_eq!(times.len(), 1200);
    assert_eq!(limited(&["view", "--threads", "3", "trace"]), expected);
    assert_eq!(limited(&["view", "--count", "trace"]), "1200\n");
    limited(&["merge", "trace", "-o", "merged"]);
    assert_eq!(limited(&["view", "merged"]), expected);
}

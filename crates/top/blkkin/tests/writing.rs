//! Tests of `merge`, `cut` and `convert`: target directories, messages, several source traces, and
//! the output after a failure, an interrupt or a kill.

mod support;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output};
use support::corpus::corpus;
use support::growing_trace::{Growing, Packet, write_slow_trace};
use support::process::{Running, Signal, handles_sigint, signal, until};
use support::recipe::Recipe;
use support::{Scratch, blkkin, is_installed, run, skip, text, with_limit};

/// Creates a scratch directory with traces of the corpus.
fn with_traces(scratch: &str, names: &[&str]) -> Scratch {
    let scratch = Scratch::new(scratch);
    for name in names {
        Recipe::read(&corpus().join("good").join(format!("{name}.ctf"))).write(&scratch.0);
    }
    scratch
}

fn blkkin_in(scratch: &Scratch, arguments: &[&str]) -> Output {
    run(blkkin(&scratch.0).args(arguments))
}

/// Returns the lines that `view` prints.
#[track_caller]
fn lines(scratch: &Scratch, arguments: &[&str]) -> Vec<String> {
    let output = blkkin_in(scratch, &[&["view", "--no-delta"], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout).lines().map(str::to_owned).collect()
}

/// Returns the lines that babeltrace2 prints; standard error must be empty.
#[track_caller]
fn babeltrace(scratch: &Scratch, paths: &[&str]) -> Vec<String> {
    let mut command = Command::new("babeltrace2");
    let output =
        run(command.current_dir(&scratch.0).env("TZ", "UTC").arg("--no-delta").args(paths));
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(str::to_owned).collect()
}

/// Writes a trace with an event at each of `times`, each in its own packet. The events have
/// consecutive numbers, modulo 256.
fn numbered(path: &Path, id: u8, times: impl Iterator<Item = u64>) -> Growing {
    let growing = Growing::begin(path, id);
    for (seq, time) in times.enumerate() {
        let events = [(0, time, seq as u8)];
        growing.packet(Packet {
            stream: 0,
            seq: seq as u64,
            time: (time, time),
            lost: 0,
            events: &events,
        });
    }
    growing
}

#[test]
fn several_traces_are_written_as_several() {
    if !is_installed("babeltrace2") {
        return skip("writing", "babeltrace2 is not installed");
    }
    // Traces without UUIDs; with clocks of different frequencies; with several clocks in one trace;
    // one with a UUID among others without.
    for names in [
        &["contexts", "several-stream-classes", "header-compact"][..],
        &["clock-frequency-above-ghz", "clock-frequency-odd", "array"],
        &["clocks-several", "clock-frequency"],
        &["uuid-in-header", "string", "packets-empty"],
    ] {
        let scratch = with_traces("writing-several", names);
        let merged = blkkin_in(&scratch, &[&["merge"], names, &["-o", "merged"]].concat());
        assert!(merged.status.success(), "{}", text(&merged.stderr));
        // Events of the same nanosecond have no defined order.
        let sorted = |mut lines: Vec<String>| {
            lines.sort();
            lines
        };
        let expected = sorted(babeltrace(&scratch, names));
        assert_eq!(sorted(babeltrace(&scratch, &["merged"])), expected);
        assert_eq!(sorted(lines(&scratch, &["merged"])), expected);
        for name in names {
            let alone = babeltrace(&scratch, &[name]);
            assert!(!alone.is_empty());
            assert_eq!(babeltrace(&scratch, &[&format!("merged/{name}")]), alone);
        }
    }
}

/// Traces nested in another trace are written beside that trace, as babeltrace2 does not search
/// traces for nested traces.
#[test]
fn traces_within_a_trace_are_written_beside_it() {
    if !is_installed("babeltrace2") {
        return skip("writing", "babeltrace2 is not installed");
    }
    let scratch = Scratch::new("writing-nested");
    for (id, path) in ["x", "x/y", "x/y/z", "w"].iter().enumerate() {
        numbered(&scratch.0.join("all").join(path), id as u8, 0..5);
    }
    let expected = lines(&scratch, &["all"]);
    assert_eq!(expected.len(), 20);
    let merged = blkkin_in(&scratch, &["merge", "all", "-o", "merged"]);
    assert!(merged.status.success(), "{}", text(&merged.stderr));
    assert_eq!(lines(&scratch, &["merged"]), expected);
    assert_eq!(babeltrace(&scratch, &["merged"]), expected);
}

/// Events of the same nanosecond are in the order of their traces' UUIDs, in the source and in the
/// output.
#[test]
fn order_does_not_change() {
    if !is_installed("babeltrace2") {
        return skip("writing", "babeltrace2 is not installed");
    }
    let scratch = Scratch::new("writing-order");
    let names: Vec<String> = (0..9).map(|id| format!("{}", (id * 5) % 9)).collect();
    for (id, name) in names.iter().enumerate() {
        numbered(&scratch.0.join("all").join(name), id as u8, (100..110).map(|time| time / 2));
    }
    let expected = lines(&scratch, &["all"]);
    assert_eq!(expected.len(), 90);
    assert_eq!(babeltrace(&scratch, &["all"]), expected);
    for arguments in [&["merge", "all", "-o", "merged"][..], &["merge", "merged", "-o", "again"]] {
        let merged = blkkin_in(&scratch, arguments);
        assert!(merged.status.success(), "{}", text(&merged.stderr));
        let path = arguments[3];
        assert_eq!(lines(&scratch, &[path]), expected, "{path}");
        assert_eq!(babeltrace(&scratch, &[path]), expected, "{path}");
    }
}

/// Parts of one trace, which have equal UUIDs, become one trace. A copy of a trace, or a cut of it,
/// is a separate trace.
#[test]
fn uuids_tell_traces_apart() {
    if !is_installed("babeltrace2") {
        return skip("writing", "babeltrace2 is not installed");
    }
    let scratch = Scratch::new("writing-uuids");
    numbered(&scratch.0.join("whole"), 1, 0..100);
    let all = lines(&scratch, &["whole"]);
    assert_eq!(all.len(), 100);
    let write = |arguments: &[&str]| {
        let output = blkkin_in(&scratch, arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    };
    write(&["cut", "--end", "+59ns", "whole", "-o", "first"]);
    write(&["cut", "--begin", "+60ns", "whole", "-o", "second"]);
    write(&["cut", "--timerange", "+30ns,+70ns", "whole", "-o", "middle"]);
    write(&["merge", "whole", "-o", "copy"]);
    write(&["convert", "--to", "ctf1", "whole", "-o", "converted"]);
    let read = |paths: &[&str], expected: &[String]| {
        assert_eq!(lines(&scratch, paths), expected, "{paths:?}");
        assert_eq!(babeltrace(&scratch, paths), expected, "{paths:?}");
    };
    read(&["first", "second"], &all);
    write(&["merge", "first", "second", "-o", "halves"]);
    read(&["halves"], &all);
    // Each event is printed once for each trace that contains it.
    let twice: Vec<String> = all.iter().flat_map(|line| [line.clone(), line.clone()]).collect();
    for copy in ["copy", "converted", "halves"] {
        read(&["whole", copy], &twice);
        read(&[copy, "whole"], &twice);
    }
    let mut with_middle = [&all[..], &all[30..71]].concat();
    with_middle.sort();
    read(&["whole", "middle"], &with_middle);

    // One trace in two directories is still written as one.
    let parts = with_traces("writing-parts", &["rotation"]);
    let parts_in = |paths: &[&str], to| {
        let output = blkkin_in(&parts, &[&["merge"], paths, &["-o", to]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(parts.0.join(to).join("metadata").is_file());
        lines(&parts, &[to])
    };
    let expected = lines(&parts, &["rotation"]);
    assert_eq!(parts_in(&["rotation"], "one"), expected);
    assert_eq!(parts_in(&["rotation/second-2", "rotation/archives/first-1"], "two"), expected);
}

/// Returns all files and directories below a path, with the sizes of files and 0 for directories.
fn tree(path: &Path) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path).into_iter().flatten() {
        let path = entry.expect("an entry").path();
        let size = if path.is_dir() { 0 } else { path.metadata().expect("a file").len() };
        found.extend(tree(&path));
        found.push((path.display().to_string(), size));
    }
    found.sort();
    found
}

/// A command that fails prints a message and changes no file.
#[test]
fn what_cannot_be_done_changes_nothing() {
    let scratch = with_traces("writing-errors", &["string"]);
    fs::create_dir(scratch.0.join("full")).expect("to make a folder");
    fs::write(scratch.0.join("full/file"), "something").expect("to write");
    let broken = scratch.0.join("broken");
    fs::create_dir(&broken).expect("to make a folder");
    fs::write(broken.join("metadata"), "/* CTF 1.8 */ trace {").expect("to write");
    let before = tree(&scratch.0);
    let check = |arguments: &[&str], status: i32, expected: &str| {
        let output = blkkin_in(&scratch, arguments);
        assert_eq!(text(&output.stderr), expected, "{arguments:?}");
        assert_eq!(output.status.code(), Some(status), "{arguments:?}");
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
        assert_eq!(tree(&scratch.0), before, "{arguments:?}");
    };
    let not_empty = |path: &str| {
        format!(
            "error: {path}: the directory is not empty\n\
             hint: give a new directory with -o; nothing is overwritten\n"
        )
    };
    check(&["merge", "string", "-o", "full"], 1, &not_empty("full"));
    check(&["merge", "string", "-o", "string"], 1, &not_empty("string"));
    check(&["convert", "--to", "ctf2", ".", "-o", "."], 1, &not_empty("."));
    check(
        &["merge", "string", "-o", "full/file"],
        1,
        "error: full/file: cannot use as a directory: Not a directory (os error 20)\n",
    );
    check(
        &["merge", "string", "-o", "full/file/a/b"],
        1,
        "error: full/file/a/b: cannot use as a directory: Not a directory (os error 20)\n",
    );
    check(
        &["merge", "string", "-o", "/proc/blkkin/new"],
        1,
        "error: /proc/blkkin: cannot create directory: no such file or directory\n",
    );
    check(
        &["merge", "nowhere", "-o", "new"],
        1,
        "error: nowhere: cannot open: no such file or directory\n",
    );
    check(
        &["merge", "broken", "-o", "new"],
        1,
        "error: broken/metadata: metadata: line 1, column 21 (offset 20): `{` without its `}`\n",
    );
    check(
        &["cut", "string", "-o", "new"],
        2,
        "error: nothing is said about which part to cut\n\
         hint: give --begin, --end, --timerange or --filter; merge and convert copy all\n",
    );
    check(
        &["cut", "--begin", "5", "--end", "4", "string", "-o", "new"],
        2,
        "error: the time range ends before it begins\n",
    );
    check(
        &["cut", "--filter", "nothing == 1", "string", "-o", "new"],
        2,
        "error: bad filter: unknown field `nothing`\n  nothing == 1\n  ^^^^^^^\n",
    );
}

/// A directory without write permission is reported. (Root may write anywhere.)
#[test]
fn what_is_not_allowed_is_told() {
    let scratch = with_traces("writing-forbidden", &["string"]);
    let forbidden = scratch.0.join("forbidden");
    fs::create_dir(&forbidden).expect("to make a folder");
    let mode = |mode| {
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
        fs::set_permissions(&forbidden, permissions).expect("to set permissions");
    };
    mode(0o555);
    let output = blkkin_in(&scratch, &["merge", "string", "-o", "forbidden/new"]);
    let in_it = blkkin_in(&scratch, &["merge", "string", "-o", "forbidden"]);
    mode(0o755);
    if fs::metadata(&scratch.0).expect("a folder").uid() == 0 {
        assert!(output.status.success(), "{}", text(&output.stderr));
        return;
    }
    let expected = "error: forbidden/new: cannot create directory: permission denied\n";
    assert_eq!((text(&output.stderr).as_str(), output.status.code()), (expected, Some(1)));
    let expected = "error: forbidden/.metadata.partial: cannot create: permission denied\n";
    assert_eq!((text(&in_it.stderr).as_str(), in_it.status.code()), (expected, Some(1)));
    assert!(tree(&forbidden).is_empty());
}

/// A write that fails in the middle leaves no files. A limit on file sizes acts like a full disk.
#[test]
fn a_full_disk_leaves_nothing_behind() {
    let scratch = Scratch::new("writing-full");
    numbered(&scratch.0.join("trace"), 1, 0..2000);
    fs::create_dir(scratch.0.join("empty")).expect("to make a folder");
    let before = tree(&scratch.0);
    let limited = |blocks: u32, to: &str| {
        let mut command = blkkin(&scratch.0);
        run(&mut with_limit(&format!("-f {blocks}"), command.args(["merge", "trace", "-o", to])))
    };
    // Limits in blocks of 512 bytes: enough for half of the metadata; enough for the metadata, but
    // not for all events.
    for (blocks, file) in [(1, ".metadata.partial"), (16, "stream_0")] {
        for to in ["new/one", "empty"] {
            let output = limited(blocks, to);
            let hint = match file {
                "stream_0" => "hint: what had been written so far was removed\n",
                _ => "",
            };
            let expected =
                format!("error: {to}/{file}: cannot write: File too large (os error 27)\n{hint}");
            assert_eq!(text(&output.stderr), expected);
            assert_eq!(output.status.code(), Some(1));
            assert_eq!(tree(&scratch.0), before, "{blocks} blocks, {to}");
        }
    }
    let output = limited(2000, "empty");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(lines(&scratch, &["empty"]).len(), 2000);
}

#[test]
fn a_new_trace_may_be_within_the_old_one() {
    let scratch = Scratch::new("writing-within");
    numbered(&scratch.0.join("trace"), 1, 0..10);
    let all = lines(&scratch, &["trace"]);
    for (way, to) in [("ctf1", "trace/one"), ("ctf2", "trace/two/deeper")] {
        // The source of the second conversion contains the output of the first.
        let expected = lines(&scratch, &["trace"]);
        let output = blkkin_in(&scratch, &["convert", "--to", way, "trace", "-o", to]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(lines(&scratch, &[to]), expected);
    }
    assert_eq!(lines(&scratch, &["trace"]).len(), 4 * all.len());
}

#[test]
fn what_was_done_is_told() {
    let scratch = with_traces("writing-told", &["losses-beside-gaps", "string"]);
    let told = |arguments: &[&str]| {
        let output = blkkin_in(&scratch, arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        [text(&output.stdout), text(&output.stderr)]
    };
    let check = |arguments: &[&str], expected: &str| {
        assert_eq!(told(arguments), ["".to_owned(), expected.to_owned()]);
    };
    check(&["merge", "string", "-o", "a"], "a: 4 events in 1 packet, 0.0 MB\n");
    check(
        &["cut", "--begin", "5", "--end", "6", "string", "-o", "b"],
        "b: 0 events in 0 packets, 0.0 MB\n",
    );
    check(
        &["merge", "losses-beside-gaps", "-o", "c"],
        "c: 4 events in 4 packets, 0.0 MB\n\
         lost by the tracer, as the new trace tells too: 5 events, an unknown number of events at \
         1 place, 3 packets\n",
    );
    let [json, messages] = told(&["merge", "losses-beside-gaps", "string", "-o", "d", "--json"]);
    assert_eq!(messages, "");
    let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let size = tree(&scratch.0.join("d"))
        .iter()
        .filter(|(path, _)| path.ends_with("stream"))
        .map(|(_, size)| size)
        .sum::<u64>();
    let expected = serde_json::json!({
        "output": "d", "traces": 2, "streams": 2, "events": 8, "packets": 5, "bytes": size,
        "events_lost": 5, "events_lost_unknown": 1, "packets_lost": 3, "problems": [],
    });
    assert_eq!(value, expected);
}

#[test]
fn ctrl_c_leaves_a_trace_of_what_was_read() {
    let scratch = Scratch::new("writing-interrupt");
    write_slow_trace(&scratch.0.join("trace"));
    let run_until = |arguments: &[&str], is_time: &dyn Fn(u32) -> bool, cause: Signal| {
        let running = Running::start(blkkin(&scratch.0).args(arguments));
        until("it is in the middle", || is_time(running.id()));
        signal(running.id(), cause);
        running.end()
    };
    let has_written = |to: &'static str| {
        let to = scratch.0.join(to);
        move |_| fs::metadata(to.join("stream_0")).is_ok_and(|file| file.len() > 0)
    };
    // A few streams are enough to be interrupted while writing.
    let few: Vec<String> = (0..5).map(|number| format!("trace/stream_{number}")).collect();
    let few: Vec<&str> = few.iter().map(String::as_str).collect();
    for (to, arguments, cause) in [
        ("merged", &["merge"][..], Signal::INT),
        ("converted", &["convert", "--to", "ctf2"], Signal::TERM),
        ("cut", &["cut", "--filter", "x < 200"], Signal::INT),
    ] {
        let arguments = [arguments, &few, &["-o", to]].concat();
        let ended = run_until(&arguments, &has_written(to), cause);
        assert_eq!(ended.status.code(), Some(130), "{ended:?}");
        let [written, interrupted] = &ended.errors[..] else { panic!("{ended:?}") };
        assert_eq!(interrupted, "interrupted: what was read until then is written");
        let count = blkkin_in(&scratch, &["view", "--count", to]);
        let count = text(&count.stdout).trim().to_owned();
        assert!(written.starts_with(&format!("{to}: {count} events in ")), "{count}, {ended:?}");
        if to == "merged" {
            // The output contains the first events of all streams together.
            let merged = blkkin_in(&scratch, &["view", "merged"]);
            let limit = ["view", "--limit", &count];
            let first = blkkin_in(&scratch, &[&limit, &few[..]].concat());
            assert!(!first.stdout.is_empty() && merged.stdout == first.stdout, "{count} events");
            if is_installed("babeltrace2") {
                let mut command = Command::new("babeltrace2");
                let read = run(command.arg("--output-format=dummy").arg(scratch.0.join("merged")));
                assert!(read.status.success() && read.stderr.is_empty(), "{}", text(&read.stderr));
            }
        }
    }
    // Ctrl-C also ends a command whose filter selects no event.
    let nothing = ["cut", "--filter", "x > 255", "trace", "-o", "nothing"];
    let ended = run_until(&nothing, &handles_sigint, Signal::INT);
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
    assert_eq!(ended.errors[1..], ["interrupted: what was read until then is written"]);
    assert!(lines(&scratch, &["nothing"]).is_empty());
    for arguments in [&["view", "--count", "trace"][..], &["view", "--filter", "x > 255", "trace"]]
    {
        let ended = run_until(arguments, &handles_sigint, Signal::INT);
        assert_eq!(ended.status.code(), Some(130), "{ended:?}");
        assert!(ended.errors.is_empty(), "{ended:?}");
    }
    // The output of a killed command is not a trace.
    let merge = [&["merge"], &few[..], &["-o", "killed"]].concat();
    run_until(&merge, &has_written("killed"), Signal::KILL);
    let killed = blkkin_in(&scratch, &["view", "killed"]);
    assert!(text(&killed.stderr).starts_with("error: killed: no CTF trace found\n"));
    assert_eq!(killed.status.code(), Some(1));
}

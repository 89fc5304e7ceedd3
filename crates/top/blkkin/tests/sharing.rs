//! Channels that share memory: they join and leave while a program records, none exceeds its share,
//! and a flood in one pushes out no event of another.

mod support;

use blkkin_sys::testing::mapped_files;
use serde_json::Value;
use std::process::Command;
use support::node::{self, Node, Program, check_distinct, eventually, read, traces_below};
use support::process::{Signal, signal};
use support::{is_installed, run, skip, text};

#[test]
#[ignore = "a program of other tests"]
fn program() {
    node::numbers();
}

/// Returns the output of a command as JSON.
fn json(node: &Node, arguments: &[&str]) -> Value {
    serde_json::from_str(&node.run(arguments)).expect("JSON")
}

/// Asserts that a command is refused with these words.
#[track_caller]
fn refused(node: &Node, arguments: &[&str], words: &str) {
    let output = node.command(arguments).output().expect("a command");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains(words), "{arguments:?}: {errors}");
}

/// Returns the channels with their sizes in bytes, shares and shared channels.
fn channels(node: &Node) -> Vec<(String, u64, Option<u64>, bool)> {
    let listed = json(node, &["channel", "list", "--json"]);
    let one = |channel: &Value| {
        let number = |key: &str| channel[key].as_u64().unwrap_or(0);
        let size = number("subbuffer_size") * number("subbuffer_count");
        let name = channel["name"].as_str().expect("a name").to_owned();
        (name, size, channel["share_percent"].as_u64(), channel["shared"] == true)
    };
    listed["channels"].as_array().expect("a list").iter().map(one).collect()
}

/// Returns whether a program has memory of rings.
fn has_rings(program: &Program) -> bool {
    mapped_files(program.id(), "memfd:blkkin-rings").expect("its memory") > 0
}

/// A channel leaves and comes back while its program records: all events from each time in between
/// are in the trace once.
#[test]
fn channels_come_and_go() {
    let node = Node::new();
    let agent = node.agent();
    let output = node.output();
    node.run(&["session", "create", "s", "-o", output.to_str().expect("text")]);
    let sizes = ["--subbuf-size", "64K", "--num-subbuf", "16", "--context", "tid"];
    node.run(&[&["channel", "create", "all", "--shared"], &sizes[..]].concat());
    node.run(&["channel", "create", "half", "--of", "all", "--share", "60%"]);
    node.run(&["channel", "create", "quarter", "--of", "all", "--share", "25"]);
    let own = |name: &str, size, share, is_shared| (name.to_owned(), size, share, is_shared);
    let expected = [
        own("all", 1 << 20, None, true),
        own("half", 512 << 10, Some(60), false),
        own("quarter", 256 << 10, Some(25), false),
    ];
    assert_eq!(channels(&node), expected);
    let list = node.run(&["channel", "list"]);
    for words in ["25 % free", "50 % of all, at most 60 %", "25 % of all"] {
        assert!(list.contains(words), "{list}");
    }
    let join = ["channel", "create", "more", "--of", "all", "--share", "50%"];
    refused(&node, &join, "only 25 % of channel `all` is free");
    refused(&node, &["channel", "create", "x", "--of", "half", "--share", "5%"], "is not shared");
    refused(&node, &["channel", "create", "x", "--of", "all", "--share", "0%"], "1% to 100%");
    refused(&node, &["event", "enable", "-c", "all", "test:*"], "has no events of its own");
    refused(&node, &["channel", "remove", "all"], "is divided among half (50 %), quarter (25 %)");
    refused(&node, &["channel", "remove", "none"], "the channels are `all`, `half`, `quarter`");

    node.run(&["event", "enable", "-c", "half", "test:*"]);
    node.run(&["session", "start", "s"]);
    let mut program = node.program(10, 1000);
    program.count();
    eventually("it is recorded", || (!traces_below(&output).is_empty()).then_some(()));
    let first = program.count();
    assert!(has_rings(&program));
    node.run(&["channel", "remove", "half"]);
    // All that was recorded until then is in the trace.
    let (numbers, lost) = read(&output);
    assert!(numbers.len() as u64 >= first && lost == 0, "{} of {first}", numbers.len());
    let removed = *numbers.last().expect("events");
    assert_eq!(removed + 1, numbers.len() as u64);
    assert!(!has_rings(&program), "the rings are gone");
    assert_eq!(channels(&node).len(), 2);

    // The next agent knows the channels.
    signal(agent.id(), Signal::KILL);
    drop(agent);
    let _agent = node.agent();
    assert_eq!(channels(&node), [expected[0].clone(), expected[2].clone()]);
    eventually("the program is back", || (!node.applications().is_empty()).then_some(()));
    refused(&node, &["channel", "create", "half"], "a removed channel `half`");
    node.run(&["channel", "create", "half", "--of", "all", "--share", "70%"]);
    node.run(&["event", "enable", "-c", "half", "test:*"]);
    let second = program.count();
    let saved = node.run(&["session", "save", "s"]);
    for line in ["shared = true", "of = \"all\"", "share = \"70%\""] {
        assert!(saved.contains(line), "{saved}");
    }
    let tried = program.end();
    node.end_session();
    let (numbers, lost) = read(&output);
    check_distinct(&numbers);
    assert_eq!(lost, 0);
    let after = numbers.partition_point(|number| *number <= removed);
    assert_eq!(after as u64, removed + 1);
    let (_, rest) = numbers.split_at(after);
    let begin = *rest.first().expect("events of the second time");
    assert!(begin <= second && rest.len() as u64 == tried - begin, "{begin} {second} {tried}");
    if is_installed("babeltrace2") {
        let read = run(Command::new("babeltrace2").arg(&output));
        assert_eq!(text(&read.stdout).lines().count(), numbers.len());
        assert_eq!(text(&read.stderr), "", "packets are numbered on");
    }
    // The definition makes the same session.
    let file = node.directory.path().join("s.toml");
    std::fs::write(&file, saved.replace(output.to_str().expect("text"), "/tmp/unused"))
        .expect("a file");
    let again = node.directory.path().join("again");
    node.run(&[
        "session",
        "load",
        file.to_str().expect("text"),
        "-o",
        again.to_str().expect("text"),
    ]);
    let names: Vec<String> = channels(&node).into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["all", "half", "quarter"]);
}

/// A flood fills its own share, so a snapshot has the rare events from before it, too.
#[test]
fn floods_push_out_no_event_of_others() {
    let node = Node::new();
    let _agent = node.agent();
    let output = node.output();
    node.run(&["session", "create", "s", "--snapshot", "-o", output.to_str().expect("text")]);
    let sizes = ["--overwrite", "--subbuf-size", "4K", "--num-subbuf", "32"];
    node.run(&[&["channel", "create", "all", "--shared"], &sizes[..]].concat());
    for (name, filter) in [("rare", "n < 100"), ("flood", "n >= 100")] {
        node.run(&["channel", "create", name, "--of", "all", "--share", "50%"]);
        node.run(&["event", "enable", "-c", name, "--filter", filter, "test:*"]);
    }
    node.run(&["session", "start", "s"]);
    let mut program = node.program(1000, 1000);
    eventually("it is a flood", || (program.count() > 100_000).then_some(()));
    let snapshot = node.run(&["session", "snapshot", "s"]);
    let (numbers, _) = read(std::path::Path::new(snapshot.trim()));
    let rare = numbers.partition_point(|number| *number < 100);
    assert_eq!(rare, 100, "all rare events");
    let flood = numbers.len() - rare;
    assert!(flood > 0, "some of the flood");
    program.end();
}

/// Rings of programs that have ended, or that return later, are removed, too.
#[test]
fn absent_programs_lose_removed_channels() {
    let node = Node::new();
    let agent = node.agent();
    let output = node.output();
    node.run(&["session", "create", "s", "--snapshot", "-o", output.to_str().expect("text")]);
    node.run(&["channel", "create", "gone", "--overwrite"]);
    node.run(&["event", "enable", "-c", "gone", "test:*"]);
    node.run(&["session", "start", "s"]);
    let ended = node.program(10, 1000);
    ended.end();
    let mut away = node.program(10, 1000);
    away.count();
    let snapshots = std::cell::Cell::new(0);
    let events = || {
        let path = node.directory.path().join(format!("snapshot{}", snapshots.get()));
        snapshots.set(snapshots.get() + 1);
        node.run(&["session", "snapshot", "s", "-o", path.to_str().expect("text")]);
        if traces_below(&path).is_empty() { 0 } else { read(&path).0.len() }
    };
    assert!(events() > 0);
    signal(agent.id(), Signal::KILL);
    signal(away.id(), Signal::STOP);
    drop(agent);
    let _agent = node.agent();
    node.run(&["channel", "remove", "gone"]);
    signal(away.id(), Signal::CONT);
    eventually("it is back", || (!node.applications().is_empty()).then_some(()));
    eventually("its rings are removed", || (!has_rings(&away)).then_some(()));
    assert_eq!(events(), 0);

    let next = node.program(10, 1000);
    node.run(&["channel", "create", "gone", "--overwrite", "--num-subbuf", "8"]);
    node.run(&["event", "enable", "-c", "gone", "test:*"]);
    next.end();
    assert!(events() > 0);
    node.run(&["channel", "remove", "gone"]);
    away.end();
    assert_eq!(events(), 0);
    // Without a name, the next channel gets a free one.
    node.run(&["channel", "create", "channel0", "--context", "tid"]);
    node.run(&["channel", "remove", "channel0"]);
    node.run(&["event", "enable", "test:*"]);
    assert_eq!(channels(&node)[0].0, "channel1");
}

/// A trace whose channels were all removed is whole, also after the agent's death.
#[test]
fn traces_of_removed_channels_are_whole() {
    let node = Node::new();
    let agent = node.agent();
    let output = node.output();
    node.record_all();
    let mut program = node.program(10, 1000);
    program.count();
    node.run(&["channel", "remove", "channel0"]);
    signal(agent.id(), Signal::KILL);
    drop(agent);
    let _agent = node.agent();
    eventually("the program is back", || (!node.applications().is_empty()).then_some(()));
    let listed = json(&node, &["session", "list", "s", "--json"]);
    assert_eq!(listed["sessions"][0]["losses"], serde_json::json!([]));
    for trace in traces_below(&output) {
        assert!(!trace.join(".recording").exists(), "{trace:?} is not recorded any more");
    }
    for number in 0..40 {
        let name = format!("c{number}");
        node.run(&["channel", "create", &name]);
        node.run(&["channel", "remove", &name]);
    }
    program.end();
    node.end_session();
}

/// Probes of the kernel come and go in the same way.
#[test]
fn probes_come_and_go() {
    let node = Node::new();
    let _agent = node.agent();
    let output = node.output();
    const TEST: &str = "probes_come_and_go";
    if !is_installed("babeltrace2") {
        return skip(TEST, "babeltrace2 is missing");
    }
    node.run(&["session", "create", "s", "-o", output.to_str().expect("text")]);
    let create = ["channel", "create", "all", "--kernel", "--shared"];
    let created = node.command(&create).output().expect("a command");
    if !created.status.success() {
        let reason = text(&created.stderr);
        assert!(reason.contains("cannot record events of the kernel"), "{reason}");
        return skip(TEST, reason.lines().next().unwrap_or_default());
    }
    node.run(&["session", "start", "s"]);
    let join = |name: &str, event: &str| {
        node.run(&["channel", "create", name, "--of", "all", "--share", "50%"]);
        node.command(&["event", "enable", "--kernel", "-c", name, event]).output()
    };
    let enabled = join("opened", "syscall:openat").expect("a command");
    if !enabled.status.success() {
        let reason = text(&enabled.stderr);
        let is_expected = ["not mounted", "ermission", "is missing", "was built", "needs"];
        assert!(is_expected.iter().any(|part| reason.contains(part)), "{reason}");
        return skip(TEST, reason.lines().next().unwrap_or_default());
    }
    for _ in 0..2 {
        assert!(join("closed", "syscall:close").expect("a command").status.success());
        std::fs::read("/proc/self/stat").expect("a file");
        node.run(&["channel", "remove", "closed"]);
    }
    node.end_session();
    let read = run(Command::new("babeltrace2").arg(&output));
    let events = text(&read.stdout);
    for event in ["syscall:openat", "syscall:close"] {
        assert!(events.contains(event), "{event}");
    }
    assert_eq!(text(&read.stderr), "", "packets are numbered on");
}

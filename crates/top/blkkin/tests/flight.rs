//! Flight recorder: sessions for snapshots that keep events for a time, or in a given memory. Their
//! snapshots, and what commands tell about how far back they reach.

mod support;

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use support::node::{Node, check_all, check_distinct, eventually, figure, numbers, read};
use support::text;

/// Acts as the program that these tests trace; see [`numbers`].
#[test]
#[ignore = "a program of other tests"]
fn program() {
    numbers();
}

/// Makes a session for snapshots, whose default directory is below the node's.
#[track_caller]
fn create_session(node: &Node, name: &str, options: &[&str]) {
    let output = node.directory.path().join(name);
    let create = ["session", "create", name, "--snapshot", "-o", output.to_str().unwrap()];
    node.run(&[&create, options].concat());
}

/// Makes and starts a session for snapshots of all test events.
fn start_session(node: &Node, options: &[&str]) {
    create_session(node, "flight", options);
    node.run(&["event", "enable", "-s", "flight", "test:*"]);
    node.run(&["session", "start", "flight"]);
}

/// Runs a command that prints one JSON object. Status 3, which means losses, is permitted.
#[track_caller]
fn json(node: &Node, arguments: &[&str]) -> Value {
    serde_json::from_str(&node.run(&[arguments, &["--json"]].concat())).unwrap()
}

/// Returns the reach of the only program's rings, as `blkkin status` tells it.
#[track_caller]
fn reach(node: &Node) -> Value {
    let status = json(node, &["status", "flight", "--interval", "0"]);
    let reaches = status["reaches"].as_array().unwrap();
    assert_eq!(reaches.len(), 1, "{status}");
    reaches[0].clone()
}

/// Takes a snapshot; returns its directory, and what the command tells.
#[track_caller]
fn snapshot(node: &Node, name: &str) -> (std::path::PathBuf, String) {
    let output = node.directory.path().join(name);
    let arguments = ["session", "snapshot", "flight", "-o", output.to_str().unwrap()];
    let done = node.command(&arguments).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    (output, text(&done.stderr))
}

/// Returns the times of numbered events in nanoseconds since 1970.
#[track_caller]
fn times(output: &Path) -> BTreeMap<u64, u64> {
    let mut view = Command::new(env!("CARGO_BIN_EXE_blkkin"));
    let view = view.args(["view", "--json"]).arg(output).output().unwrap();
    assert!(view.status.success(), "{view:?}");
    let lines = text(&view.stdout);
    let values = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let events = values.filter(|value| value["type"] == "event");
    events
        .map(|event| (event["fields"]["n"].as_u64().unwrap(), event["time"].as_u64().unwrap()))
        .collect()
}

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

/// A snapshot of a session with `--keep` has every event of that time, and of older events at most
/// the rest of a packet for each processor. A recording of the same events tells their times.
#[test]
fn a_snapshot_has_the_time_that_was_asked_for() {
    const KEEP: Duration = Duration::from_secs(2);
    const SUBBUFFER: u64 = 4096;
    let node = Node::new();
    let _agent = node.agent();
    create_session(&node, "flight", &["--keep", "2s"]);
    let sizes = ["--subbuf-size", "4096", "--num-subbuf", "8192"];
    let channel = ["channel", "create", "c", "-s", "flight", "--overwrite"];
    node.run(&[&channel[..], &sizes].concat());
    node.run(&["event", "enable", "-s", "flight", "test:*"]);
    node.run(&["session", "start", "flight"]);
    node.run(&["session", "create", "s", "-o", node.output().to_str().unwrap()]);
    node.run(&["event", "enable", "-s", "s", "test:*"]);
    node.run(&["session", "start", "s"]);
    let mut program = node.program(20, 1000);
    // An event has a header of at least 12 bytes and a number of 8.
    let rings = std::thread::available_parallelism().unwrap().get() as u64 + 1;
    let older_max = rings * SUBBUFFER / 20;
    eventually("there are old events", || (program.count() > 10 * older_max).then_some(()));
    std::thread::sleep(KEEP);
    let tried = program.count();
    let before = now_ns();
    let (output, told) = snapshot(&node, "snapshot");
    let after = now_ns();
    let all = program.end();
    node.end_session();
    assert_eq!(check_all(&node.output(), all), 0);
    let times = times(&node.output());
    let (found, lost) = read(&output);
    check_distinct(&found);
    let last = *found.last().unwrap();
    assert!(last + 1 >= tried && lost == 0, "{last} of {tried}, {lost} lost");
    let keep_ns = KEEP.as_nanos() as u64;
    let is_missing = |n: &u64| times[n] >= after - keep_ns && found.binary_search(n).is_err();
    let missing: Vec<u64> = (0..=last).filter(is_missing).collect();
    assert!(missing.is_empty(), "{missing:?}");
    // The program may have left a processor in the middle of a packet, and returned to it later.
    let is_old = |n: &&u64| times[n] < before - keep_ns;
    let (older, all_older) = (found.iter().filter(is_old), times.keys().filter(is_old));
    let (older, all_older) = (older.count() as u64, all_older.count() as u64);
    assert!(older <= older_max && all_older > 9 * older_max, "{older} of {all_older}");
    // The rings have all events, so nothing limits the time.
    assert!(!told.contains("reach"), "{told}");
    figure("flight", &format!("{} events in {KEEP:?}, {older} older ones", found.len()));
}

/// With `--memory`, the rings of a program have at most that size. Commands tell how far back they
/// reach if that is less than `--keep` asks.
#[test]
fn memory_limits_the_rings_and_commands_tell() {
    const MEMORY: u64 = 3 << 20;
    /// Header page and control words, which are not for events.
    const CONTROLS: u64 = 64 << 10;
    let node = Node::new();
    let _agent = node.agent();
    start_session(&node, &["--keep", "1h", "--memory", "3M"]);
    let mut program = node.program(1000, 1000);
    eventually("the rings exist", || {
        let status = json(&node, &["status", "flight", "--interval", "0"]);
        (status["reaches"][0]["age_ns"].as_u64() > Some(0)).then_some(())
    });
    let begun = reach(&node);
    assert_eq!(begun["channel"], "channel0");
    let size_max = begun["memory_max"].as_u64().unwrap();
    assert!(size_max > MEMORY / 2 && size_max <= MEMORY + CONTROLS, "{begun}");
    let full = eventually("a ring overwrites events", || {
        let reach = reach(&node);
        (reach["complete"] == false).then_some(reach)
    });
    let age_ns = full["age_ns"].as_u64().unwrap();
    assert!(age_ns > 0 && age_ns < 3_600_000_000_000, "{full}");
    let memory = full["memory"].as_u64().unwrap();
    assert!(memory > 0 && memory <= size_max, "{full}");
    let advice = "the rings reach back";
    let status = node.run(&["status", "flight", "--interval", "0"]);
    assert!(status.contains(advice) && status.contains("REACHES BACK"), "{status}");
    let list = node.run(&["session", "list", "flight"]);
    assert!(list.contains("keeps the last 1h, at most 3M"), "{list}");
    assert!(list.contains(advice), "{list}");
    let tried = program.count();
    let (output, told) = snapshot(&node, "snapshot");
    assert!(told.contains(advice) && told.contains(", not 1h; a session with --memory"), "{told}");
    assert!(support::bytes_below(&output) <= MEMORY + CONTROLS);
    let (found, lost) = read(&output);
    check_distinct(&found);
    let last = *found.last().unwrap();
    assert!(last + 1 >= tried, "{last} of {tried}");
    assert!((found.len() as u64) < last + 1, "no event was overwritten");
    assert_eq!(lost, 0, "a ring was never full");
    program.end();
}

/// The rings of a session without sizes are larger than the smallest ones on a machine with enough
/// memory. Another agent continues the session, with its time, its memory and the events before.
#[test]
fn the_next_agent_keeps_the_same() {
    let node = Node::new();
    let agent = node.agent();
    start_session(&node, &["--keep", "10min"]);
    create_session(&node, "other", &["--memory", "32M"]);
    let mut program = node.program(20, 1000);
    eventually("there are events", || (program.count() > 1000).then_some(()));
    let before = reach(&node);
    agent.kill();
    let _agent = node.agent();
    eventually("it is found", || (!node.applications().is_empty()).then_some(()));
    let session = |name: &str| json(&node, &["session", "list", name])["sessions"][0].clone();
    let flight = session("flight");
    assert_eq!((&flight["keep_ms"], &flight["memory"]), (&600_000.into(), &Value::Null));
    assert_eq!(flight["channels"][0]["subbuffer_count"], Value::Null);
    let other = session("other");
    assert_eq!((&other["keep_ms"], &other["memory"]), (&Value::Null, &(32 << 20).into()));
    let tried = program.count();
    let reach = eventually("the rings are adopted", || {
        let reach = reach(&node);
        (reach["age_ns"].as_u64() > before["age_ns"].as_u64()).then_some(reach)
    });
    assert_eq!(reach["complete"], true, "{reach}");
    let (output, _) = snapshot(&node, "snapshot");
    let (found, lost) = read(&output);
    check_distinct(&found);
    let last = *found.last().unwrap();
    assert_eq!((found.len() as u64, lost), (last + 1, 0));
    assert!(last + 1 >= tried);
    program.end();
    let rings = std::thread::available_parallelism().unwrap().get() as u64 + 1;
    assert!(before["memory_max"].as_u64().unwrap() >= rings * (2 << 20), "{before}");
    figure(
        "flight",
        &format!("default rings: {} MiB", before["memory_max"].as_u64().unwrap() >> 20),
    );
}

#[test]
fn impossible_sizes_are_refused() {
    let node = Node::new();
    let _agent = node.agent();
    let refused = |options: &[&str], status: i32, expected: &str| {
        let create = ["session", "create", "flight"];
        let output = node.command(&[&create, options].concat()).output().unwrap();
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{errors}");
        assert!(errors.contains(expected), "{errors}");
    };
    refused(&["--keep", "2min"], 2, "--snapshot");
    refused(&["--memory", "2M"], 2, "--snapshot");
    refused(&["--snapshot", "--keep", "2"], 2, "not a time with its unit");
    refused(&["--snapshot", "--memory", "1K"], 1, "[bad-value]");
    refused(&["--snapshot", "--memory", "8T"], 1, "[quota]");
    // Nothing was made, so that the name is free.
    create_session(&node, "flight", &["--memory", "1M"]);
    let channel = ["channel", "create", "c", "-s", "flight", "--overwrite", "--subbuf-size", "16M"];
    let output = node.command(&channel).output().unwrap();
    assert!(text(&output.stderr).contains("--memory"), "{output:?}");
}

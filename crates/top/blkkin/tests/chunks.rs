//! Traces in chunks by the command line: a program that records on while chunks are closed, agents
//! that are restarted, commands for closed chunks, SIGUSR2, and definitions of sessions as files.

mod support;

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use support::node::{Node, eventually, numbers, read};
use support::process::{Signal, signal};
use support::text;

/// Acts as the program that these tests trace; see [`numbers`].
#[test]
#[ignore = "a program of other tests"]
fn program() {
    numbers();
}

/// Makes and starts session `s` of all test events, with these options.
fn start(node: &Node, options: &[&str]) {
    let output = node.output();
    let create = ["session", "create", "s", "-o", output.to_str().unwrap()];
    node.run(&[&create, options].concat());
    node.run(&["event", "enable", "test:*"]);
    node.run(&["session", "start", "s"]);
}

fn rotate(node: &Node) -> PathBuf {
    PathBuf::from(node.run(&["session", "rotate", "s"]).trim_end())
}

/// Returns what `session list` tells of session `s`.
fn listed(node: &Node) -> Value {
    let list = node.run(&["session", "list", "s", "--json"]);
    serde_json::from_str::<Value>(&list).unwrap()["sessions"][0].clone()
}

fn chunks(output: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(output).into_iter().flatten().flatten();
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    all.sort();
    all
}

/// Reads the numbered events of each chunk alone, and asserts that all together are what a reading
/// of the parent directory gives, once each. Returns the number of events and of losses.
#[track_caller]
fn check_chunks(output: &Path) -> (Vec<u64>, u64) {
    let (mut all, mut lost) = (Vec::new(), 0);
    for chunk in chunks(output) {
        let (numbers, own_lost) = read(&chunk);
        all.extend(numbers);
        lost += own_lost;
    }
    all.sort_unstable();
    let (mut together, lost_together) = read(output);
    together.sort_unstable();
    assert_eq!(all.len(), together.len());
    assert!(all == together && lost == lost_together);
    let distinct: BTreeSet<u64> = all.iter().copied().collect();
    assert_eq!(distinct.len(), all.len(), "an event is in two chunks");
    (all, lost)
}

/// Returns the number of events that babeltrace2 reads; `None` if it is not installed.
fn babeltrace2(directory: &Path) -> Option<usize> {
    let output = Command::new("babeltrace2").arg(directory).output().ok()?;
    assert!(output.status.success(), "{directory:?}: {}", text(&output.stderr));
    Some(output.stdout.iter().filter(|byte| **byte == b'\n').count())
}

/// A program records at full speed while chunks are closed by command and by size, and the agent is
/// killed and restarted. Each attempted event is in one chunk or counted as lost.
#[test]
fn no_event_is_lost_or_doubled_by_rotations() {
    let node = Node::new();
    let mut agent = node.agent();
    start(&node, &["--size", "200K"]);
    let program = node.program(1000, 1000);
    for round in 0..12 {
        std::thread::sleep(Duration::from_millis(50));
        if round % 4 == 3 {
            agent.kill();
            agent = node.agent();
            eventually("the program is back", || (!node.applications().is_empty()).then_some(()));
        }
        rotate(&node);
    }
    let tried = program.end();
    node.end_session();
    // An agent that is killed between making a chunk's directory and saving this leaves it empty.
    let is_empty = |chunk: &PathBuf| {
        let mut entries = fs::read_dir(chunk).unwrap().flatten();
        entries.all(|entry| entry.file_name() == ".recording")
    };
    let empty: Vec<PathBuf> = chunks(&node.output()).into_iter().filter(is_empty).collect();
    assert!(empty.len() <= 3, "more than there were agents: {empty:?}");
    empty.iter().for_each(|chunk| fs::remove_dir_all(chunk).unwrap());
    let (numbers, lost) = check_chunks(&node.output());
    assert_eq!(numbers.len() as u64 + lost, tried);
    assert!(chunks(&node.output()).len() >= 12);
    assert!(babeltrace2(&node.output()).is_none_or(|count| count == numbers.len()));
}

/// The closed chunk is printed and complete; the oldest ones are removed, and commands tell it.
#[test]
fn commands_show_chunks() {
    let node = Node::new();
    let _agent = node.agent();
    let options = ["--files", "3", "--name-pattern", "{session}.%Y.{seq}"];
    start(&node, &options);
    let program = node.program(100, 1000);
    let mut last = PathBuf::new();
    for _ in 0..4 {
        std::thread::sleep(Duration::from_millis(50));
        last = rotate(&node);
        assert!(!last.join(".recording").exists());
        let (numbers, _) = read(&last);
        assert!(!numbers.is_empty());
        assert!(babeltrace2(&last).is_none_or(|count| count == numbers.len()));
    }
    assert!(last.file_name().unwrap().to_str().unwrap().ends_with(".000004"));
    let summary = eventually("the oldest are removed", || {
        Some(listed(&node)["chunks"].clone()).filter(|chunks| chunks["removed"] == 2)
    });
    assert_eq!((&summary["count"], &summary["files"]), (&3.into(), &3.into()));
    eventually("their directories are gone", || (chunks(&node.output()).len() == 3).then_some(()));
    assert!(node.run(&["session", "list", "s"]).contains("removed: 2 oldest chunks"));
    assert!(node.run(&["status", "--interval", "0"]).contains("has removed its 2 oldest chunks"));
    let json = node.run(&["session", "rotate", "s", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert!(Path::new(json["written"][0].as_str().unwrap()).is_dir(), "{json}");
    program.end();
    node.end_session();
    let refused = node.command(&["session", "create", "t", "--name-pattern", "{sesion}"]).output();
    let refused = refused.unwrap();
    assert!(!refused.status.success());
    assert!(text(&refused.stderr).contains("did you mean `{session}`"), "{refused:?}");
    let list = node.run(&["session", "list"]);
    assert!(!list.contains('t') || list.is_empty(), "no session is left: {list}");
}

/// The command runs once for each closed chunk, also for the last one. Failures are counted.
#[test]
fn commands_run_for_closed_chunks() {
    let node = Node::new();
    let _agent = node.agent();
    let moved = node.directory.path().join("moved");
    fs::create_dir(&moved).unwrap();
    let command = format!("test ! -e refuse || exit 7; mv \"$1\" '{}'", moved.display());
    start(&node, &["--rotate", "--on-chunk", &command]);
    let program = node.program(100, 1000);
    for count in 1..3 {
        std::thread::sleep(Duration::from_millis(50));
        let chunk = rotate(&node);
        eventually("the chunk is moved", || (!chunk.exists()).then_some(()));
        eventually("it is there", || (chunks(&moved).len() == count).then_some(()));
    }
    fs::write(node.output().join("refuse"), "").unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let chunk = rotate(&node);
    eventually("the failure is counted", || {
        (listed(&node)["chunks"]["hook_failures"] == 1).then_some(())
    });
    assert!(chunk.exists());
    fs::remove_file(node.output().join("refuse")).unwrap();
    let tried = program.end();
    node.end_session();
    eventually("the last chunk is moved", || (chunks(&moved).len() == 3).then_some(()));
    fs::rename(&chunk, moved.join("failed")).unwrap();
    let (numbers, lost) = check_chunks(&moved);
    assert_eq!(numbers.len() as u64 + lost, tried);
}

/// SIGUSR2 to `blkkin record` closes a chunk.
#[test]
fn sigusr2_closes_a_chunk_of_a_recording() {
    let node = Node::new();
    let output = node.output();
    let done = node.directory.path().join("done");
    let hook = format!("echo \"$BLKKIN_CHUNK\" >> '{}'", done.display());
    let program = std::env::current_exe().unwrap();
    let mut record = Command::new(env!("CARGO_BIN_EXE_blkkin"));
    record.args(["record", "--rotate", "--on-chunk", &hook, "--json", "-o"]).arg(&output);
    record.arg("--").arg(program).args(["--exact", "program", "--ignored", "--nocapture"]);
    record.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut record = record.spawn().unwrap();
    for count in 1..4 {
        eventually("events in the next chunk", || {
            let last = chunks(&output).pop()?;
            (chunks(&output).len() == count && !support::node::traces_below(&last).is_empty())
                .then_some(())
        });
        std::thread::sleep(Duration::from_millis(100));
        signal(record.id(), Signal::USR2);
        eventually("the next chunk", || (chunks(&output).len() == count + 1).then_some(()));
    }
    drop(record.stdin.take());
    let ended = record.wait_with_output().unwrap();
    assert!(matches!(ended.status.code(), Some(0 | 3)), "{ended:?}");
    let printed = text(&ended.stdout);
    let summary = printed.lines().last().unwrap();
    let summary: Value = serde_json::from_str(summary).unwrap();
    let (numbers, _) = check_chunks(&output);
    assert_eq!((&summary["events"], &summary["programs"]), (&numbers.len().into(), &1.into()));
    assert_eq!(text(&ended.stderr).matches("closed ").count(), 3, "{ended:?}");
    let handled = fs::read_to_string(done).unwrap();
    assert!(handled.lines().map(PathBuf::from).eq(chunks(&output)), "{handled}");
}

/// A saved session is loaded as it was, also under another name; a bad file is refused with its
/// line, and leaves nothing.
#[test]
fn sessions_are_saved_and_loaded() {
    let node = Node::new();
    let _agent = node.agent();
    let output = node.output();
    let options = ["--size", "10M", "--files", "3", "--age", "10min", "--size-max", "1G"];
    let create = ["session", "create", "s", "-o", output.to_str().unwrap()];
    node.run(&[&create, &options[..]].concat());
    node.run(&["channel", "create", "main", "--num-subbuf", "8", "--context", "pid,tid"]);
    let filter = "n > 3 && n != 7";
    node.run(&["event", "enable", "-c", "main", "test:*", "-x", "test:no", "--filter", filter]);
    node.run(&["event", "disable", "-c", "main", "test:never"]);
    let file = node.directory.path().join("s.toml");
    let file = file.to_str().unwrap();
    node.run(&["session", "save", "s", "-o", file]);
    assert!(!node.command(&["session", "save", "s", "-o", file]).status().unwrap().success());
    let before = listed(&node);
    node.run(&["session", "destroy", "s"]);
    let other = node.directory.path().join("other");
    node.run(&["session", "load", file, "-o", other.to_str().unwrap()]);
    let after = listed(&node);
    for key in ["channels", "rules", "size_max", "purpose", "keep_ms"] {
        assert_eq!(before[key], after[key], "{key}");
    }
    for key in ["size", "age_ms", "files", "total", "name_pattern"] {
        assert_eq!(before["chunks"][key], after["chunks"][key], "{key}");
    }
    assert_eq!(after["output"], other.to_str().unwrap());
    let text_of_file = fs::read_to_string(file).unwrap();
    let bad = node.directory.path().join("bad.toml");
    fs::write(&bad, text_of_file.replace("num-subbuf", "num-subuf")).unwrap();
    let refused = node.command(&["session", "load", bad.to_str().unwrap()]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let errors = text(&refused.stderr);
    assert!(errors.contains("did you mean `num-subbuf`?") && errors.contains("line "), "{errors}");
    // The agent refuses sub-buffers of this size, and the session is destroyed again.
    fs::write(&bad, text_of_file.replace("num-subbuf = 8", "num-subbuf = 1073741824")).unwrap();
    let gone = node.directory.path().join("gone");
    let load = ["session", "load", bad.to_str().unwrap(), "--name", "t", "-o"];
    let refused = node.command(&[&load, &[gone.to_str().unwrap()][..]].concat()).output().unwrap();
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(!gone.exists() && !node.command(&["session", "list", "t"]).status().unwrap().success());
}

//! `blkkin demo`, as a newcomer starts it: it shows a request that crossed all of the chain, and leaves nothing running
//! however it ends.

use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SERVICES: [&str; 5] = ["composer", "mapper", "nbd", "store.1", "store.2"];

fn start(directory: &Path, arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_blkkin"))
        .args(["demo", "--json", "--no-cost", "--listen", "127.0.0.1:0", "--dir"])
        .arg(directory)
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .expect("started")
}

fn lines(demo: &mut Child) -> impl Iterator<Item = Value> + use<> {
    let output = demo.stdout.take().expect("a pipe");
    let lines = BufReader::new(output).lines().map(|line| line.expect("text"));
    lines.map(|line| serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}")))
}

/// The processes of the chain, which are not the demo's own.
fn processes(started: &Value, own: u32) -> Vec<u64> {
    let parts = started["parts"].as_array().expect("parts");
    let pids = parts.iter().map(|part| part["pid"].as_u64().expect("a number"));
    pids.filter(|&pid| pid != u64::from(own)).collect()
}

#[track_caller]
fn are_gone(processes: &[u64]) {
    let end = Instant::now() + Duration::from_secs(20);
    let runs = |pid: &&u64| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // What nobody has waited for yet runs no more.
        !status.is_empty() && !status.contains(") Z ")
    };
    while let Some(pid) = processes.iter().find(runs) {
        assert!(Instant::now() < end, "process {pid} still runs");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_request_is_shown_and_nothing_stays() {
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path().join("demo");
    let mut demo = start(&directory, &["--for", "5s"]);
    let lines: Vec<Value> = lines(&mut demo).collect();
    let status = demo.wait().expect("ended");
    let types: Vec<&str> = lines.iter().filter_map(|line| line["type"].as_str()).collect();
    assert_eq!(types, ["started", "request", "totals"], "{lines:?}");
    assert!(lines.iter().all(|line| line["schema"] == "blkkin.demo.v1"));
    let [started, request, totals] = &lines[..] else { panic!("{lines:?}") };
    let processes = processes(started, demo.id());
    assert_eq!(processes.len(), SERVICES.len(), "{started}");
    let spans = request["spans"].as_array().expect("spans");
    let services: BTreeSet<&str> =
        spans.iter().filter_map(|span| span["local"]["service"].as_str()).collect();
    assert!(services.iter().eq(&SERVICES), "{services:?}");
    assert_eq!(totals["spansLost"], 0, "{totals}");
    let stored = totals["spansStored"].as_u64().expect("a number");
    let requests = totals["requests"].as_u64().expect("a number");
    assert!(requests > 0 && stored >= 4 * requests, "{totals}");
    assert!(status.success(), "{status}");
    are_gone(&processes);

    // What was stored is there for other commands.
    let found = Command::new(env!("CARGO_BIN_EXE_blkkin"))
        .args(["query", "--json", "--slowest", "--limit", "1", "--data"])
        .arg(directory.join("spans"))
        .output()
        .expect("asked");
    assert!(String::from_utf8_lossy(&found.stdout).contains("nbd"), "{found:?}");
}

#[test]
fn the_trace_is_begun_anew_and_no_request_is_lost() {
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path().join("demo");
    let mut demo = start(&directory, &["--for", "6s", "--rate", "300", "--trace-size", "100K"]);
    let lines: Vec<Value> = lines(&mut demo).collect();
    let status = demo.wait().expect("ended");
    let totals = lines.last().expect("a line");
    assert_eq!(totals["spansLost"], 0, "{lines:?}");
    let stored = totals["spansStored"].as_u64().expect("a number");
    let requests = totals["requests"].as_u64().expect("a number");
    assert!(requests > 0 && stored >= 4 * requests, "{totals}");
    assert!(status.success(), "{status}");
    let found = Command::new(env!("CARGO_BIN_EXE_blkkin"))
        .args(["query", "--json", "--limit", "100000", "--data"])
        .arg(directory.join("spans"))
        .output()
        .expect("asked");
    let found = String::from_utf8_lossy(&found.stdout);
    let begun_here = found.lines().filter(|line| line.contains(r#""service":"nbd","name":"#));
    assert!(begun_here.count() as u64 >= requests, "{totals}");
    // Only the last part of it is there.
    let traces = std::fs::read_dir(directory.join("trace")).expect("a directory");
    let names: Vec<_> = traces.map(|entry| entry.expect("an entry").file_name()).collect();
    let [name] = &names[..] else { panic!("{names:?}") };
    let number: u32 = name.to_string_lossy().parse().expect("a number");
    assert!(number > 1, "{name:?}");
}

#[test]
fn nothing_stays_of_one_that_was_killed() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut demo = start(&directory.path().join("demo"), &[]);
    let started = lines(&mut demo).next().expect("a line");
    let processes = processes(&started, demo.id());
    assert_eq!(processes.len(), SERVICES.len(), "{started}");
    demo.kill().expect("killed");
    demo.wait().expect("ended");
    are_gone(&processes);
}

#[test]
fn directories_of_others_are_left_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("precious"), "data").expect("written");
    let mut demo = start(directory.path(), &[]);
    assert_eq!(demo.wait().expect("ended").code(), Some(2));
    assert_eq!(std::fs::read_dir(directory.path()).expect("a directory").count(), 1);
}

//! Recording of the block storage example. Each sampled request is one tree across the services;
//! its shape depends on the kind of request. Requests that are not sampled leave no span.

mod support;

use blkkin_blockstack::{Load, Options, Stack};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;
use support::blkkin;
use support::node::Node;

/// Acts as a process of the storage chain, with the arguments in the environment variable
/// `TEST_ROLE`.
#[test]
#[ignore = "a program of other tests"]
fn role() {
    let arguments = std::env::var("TEST_ROLE").expect("arguments");
    let _ = blkkin_blockstack::run(arguments.split_whitespace().map(Into::into));
}

/// Returns the command that runs a process of the storage chain, which is a test of this file. A
/// shell script moves the arguments to a variable, as the test harness does not pass them on.
fn program(node: &Node) -> Vec<OsString> {
    let script = "TEST_ROLE=\"$*\" exec \"$0\" --ignored --exact --nocapture --test-threads=1 role";
    let socket = node.socket();
    let words = ["env", "BLKKIN_WAIT=5000", "sh", "-c", script];
    let mut program: Vec<OsString> = words.iter().map(Into::into).collect();
    program.insert(1, format!("BLKKIN_SOCKET={}", socket.display()).into());
    program.push(std::env::current_exe().unwrap().into());
    program
}

/// Contents of the trace of a load.
#[derive(Default)]
struct Recorded {
    /// Spans of each traced request.
    requests: Vec<Vec<Value>>,
    /// Number of runs for each span id.
    runs: BTreeMap<u64, u64>,
    /// Number of requests that the load made.
    count: u64,
}

/// Records a load of 300 ms.
fn recorded(sample: Option<&str>) -> Recorded {
    let node = Node::new();
    let _agent = node.agent();
    let output = node.output();
    node.run(&["session", "create", "s", "-o", output.to_str().unwrap()]);
    node.run(&["event", "enable", "*", "blkkin:run"]);
    node.run(&["session", "start", "s"]);
    let directory = node.directory.path().join("stack");
    let mut options = Options::new(&directory, program(&node));
    options.sample = sample.map(str::to_owned);
    let stack = Stack::start(options).unwrap();
    let mut load = Load::new(stack.nbd().unwrap().clone(), Duration::from_millis(300));
    (load.clients, load.depth, load.mix, load.flush_every) = (1, 8, 50, 20);
    (load.rate, load.region) = (Some(500.0), Some(1 << 20));
    let report = load.run().unwrap();
    assert!(report.is_right() && report.errors == 0, "{report}");
    let count = report.read_count() + report.write_count() + report.flushes + report.verified;
    stack.stop().unwrap();
    node.end_session();
    let mut spans = blkkin(node.directory.path());
    let printed = spans.args(["spans", "--json"]).arg(&output).output().unwrap();
    if String::from_utf8_lossy(&printed.stderr).contains("no CTF trace found") {
        // No program created a trace.
        return Recorded { count, ..Recorded::default() };
    }
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    let mut requests: Vec<Vec<Value>> = Vec::new();
    for line in String::from_utf8(printed.stdout).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        match line["type"].as_str() {
            Some("request") => {
                assert_eq!(line["oddities"], serde_json::json!({}), "{line}");
                requests.push(Vec::new());
            }
            Some("span") => requests.last_mut().unwrap().push(line),
            Some("end") => {
                let counted = ["events_lost", "events_not_understood", "requests_late"];
                assert!(counted.iter().all(|name| line[*name] == 0), "{line}");
            }
            _ => {}
        }
    }
    let runs = blkkin(node.directory.path())
        .args(["view", "--json", "--filter", "name == \"blkkin:run\""])
        .arg(&output)
        .output()
        .unwrap();
    assert!(runs.status.success(), "{}", String::from_utf8_lossy(&runs.stderr));
    let lines = String::from_utf8(runs.stdout).unwrap();
    let mut runs = BTreeMap::new();
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if line["type"] == "event" {
            *runs.entry(line["fields"]["span_id"].as_u64().unwrap()).or_default() += 1;
        }
    }
    Recorded { requests, runs, count }
}

/// Formats a request as a tree: a line for each span, indented below its parent, in an order
/// independent of timing.
fn shape(spans: &[Value]) -> String {
    fn below(spans: &[Value], parent: Option<u64>, depth: usize) -> Vec<String> {
        let of = spans.iter().filter(|span| span["parent"].as_u64() == parent);
        let mut subtrees: Vec<String> = of
            .map(|span| {
                let text = |name: &str| span[name].as_str().unwrap_or("");
                let kind = text("kind").chars().take(6).collect::<String>();
                let indent = " ".repeat(2 * depth);
                let line = format!("{indent}{}: {} ({kind})\n", text("service"), text("name"));
                let step = Some(span["step"].as_u64().unwrap());
                line + &below(spans, step, depth + 1).concat()
            })
            .collect();
        subtrees.sort();
        subtrees
    }
    below(spans, None, 0).concat()
}

const READ: &str = "\
nbd: read (server)
  nbd: volume read (client)
    composer: volume read (server)
      composer: object read (client)
        mapper: object read (server)
          mapper: copy read (client)
            store: copy read (server)
";

/// Expected tree of a read of an object that does not exist yet.
const READ_OF_NOTHING: &str = "\
nbd: read (server)
  nbd: volume read (client)
    composer: volume read (server)
      composer: object read (client)
        mapper: object read (server)
";

const WRITE: &str = "\
nbd: write (server)
  nbd: volume write (client)
    composer: volume write (server)
      composer: object write (client)
        mapper: object write (server)
          mapper: copy write (client)
            store.1: copy write (server)
              store.1: apply (intern)
              store.1: journal (intern)
          mapper: copy write (client)
            store.2: copy write (server)
              store.2: apply (intern)
              store.2: journal (intern)
";

const FLUSH: &str = "\
nbd: flush (server)
  nbd: volume flush (client)
    composer: volume flush (server)
      composer: object flush (client)
        mapper: object flush (server)
          mapper: copy flush (client)
            store.1: copy flush (server)
              store.1: journal (intern)
          mapper: copy flush (client)
            store.2: copy flush (server)
              store.2: journal (intern)
";

#[test]
fn requests_cross_all_services() {
    let Recorded { requests, runs, count } = recorded(None);
    let mut journal_runs = 0;
    assert_eq!(requests.len() as u64, count, "each request is there, and once");
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for spans in &requests {
        let root = &spans[0];
        let name = root["name"].as_str().unwrap();
        let shape = shape(spans);
        match name {
            "read" => {
                let shape = shape.replace("store.1", "store").replace("store.2", "store");
                assert!(shape == READ || shape == READ_OF_NOTHING, "{shape}");
            }
            "write" => assert_eq!(shape, WRITE),
            "flush" => assert_eq!(shape, FLUSH),
            _ => panic!("{name}"),
        }
        *counts.entry(name).or_default() += 1;
        let tags = root["tags"].as_array().unwrap();
        let tag = |key: &str| {
            let found = tags.iter().find(|tag| tag["key"] == key);
            found.unwrap_or_else(|| panic!("{key}: {root}"))["value"].clone()
        };
        assert_eq!(tag("length"), if name == "flush" { 0 } else { 4096 });
        assert!(tag("offset").as_u64().unwrap() < 1 << 20);
        assert!(tag("handle").as_u64().unwrap() < 8);
        assert_eq!(root["annotations"][0]["value"], "sent to composer");
        // The nbd server works for a request when it arrives, and when it is answered.
        let runs_of = |span: &Value| {
            let id = u64::from_str_radix(span["id"].as_str().unwrap(), 16).unwrap();
            runs.get(&id).copied().unwrap_or(0)
        };
        assert_eq!(runs_of(root), 2, "{root}");
        for span in spans {
            // Both sides of a call have one id. A store works for several journal spans at once,
            // and shows one of them.
            match span["name"].as_str() {
                Some("journal") => journal_runs += runs_of(span),
                _ => assert!(runs_of(span) > 0, "{span}"),
            }
        }
        // A child is within its parent: all processes use the same clock.
        for span in spans {
            let Some(parent) = span["parent"].as_u64() else { continue };
            let parent = &spans[parent as usize];
            let end =
                |span: &Value| span["start"].as_u64().unwrap() + span["duration"].as_u64().unwrap();
            assert!(span["start"].as_u64() >= parent["start"].as_u64(), "{span} {parent}");
            // Both ends are rounded to nanoseconds.
            assert!(end(span) <= end(parent) + 1, "{span} {parent}");
        }
    }
    assert!(["read", "write", "flush"].iter().all(|name| counts[name] > 2), "{counts:?}");
    assert!(journal_runs > 0);
}

/// Requests that are not sampled at their start leave no span, and sampled requests are complete.
#[test]
fn some_requests_are_followed() {
    let Recorded { requests, count, .. } = recorded(Some("1/10"));
    assert!(
        !requests.is_empty() && requests.len() as u64 * 3 < count,
        "{} {count}",
        requests.len()
    );
    assert!(requests.iter().all(|spans| spans[0]["service"] == "nbd" && spans.len() >= 5));
    let Recorded { requests, runs, .. } = recorded(Some("0/s"));
    assert!(requests.is_empty() && runs.is_empty());
}

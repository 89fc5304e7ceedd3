//! Clocks of several nodes that disagree: a relay measures them, and `spans` and the server align
//! the requests that cross the nodes.

mod support;

use blkkin_trace::{Endpoint, Trace, sample};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use support::node::{self, Node, Program, eventually, is_root};
use support::relay::{Kind, Relay};
use support::server::{Server, http, on_free_ports};
use support::{blkkin, run, skip, text};

/// Makes a request, and tells its header, when asked to; serves a part of another's when told its
/// header.
#[test]
#[ignore = "a program of other tests"]
fn program() {
    static DISK: Endpoint<'static> = Endpoint::new("disk", "10.0.0.1", 6800);
    static WEB: Endpoint<'static> = Endpoint::new("web", "10.0.0.2", 80);
    blkkin_trace::start();
    node::say("\nready");
    let mut lines = std::io::stdin().lock().lines().map(|line| line.expect("text"));
    while let Some(line) = lines.next() {
        if let Some(header) = line.strip_prefix("serve ") {
            let sampler = sample::global();
            let call = Trace::receive_traceparent("serve", &DISK, header.as_bytes(), sampler);
            let span = call.server_span();
            std::thread::sleep(Duration::from_millis(5));
            drop(span);
            node::say("served");
            continue;
        }
        let request = Trace::root_wide("call", &WEB, sample::global());
        let span = request.client_span();
        node::say(request.traceparent().as_str());
        lines.next();
        drop(span);
        node::say("done");
    }
    node::say(0);
}

/// Time by which one node's clock is behind.
const BEHIND_S: f64 = 30.0;

/// Returns the library by which a process sees another time of day.
fn fake_time() -> Option<PathBuf> {
    let folder = format!("/usr/lib/{}-linux-gnu/faketime", std::env::consts::ARCH);
    let library = Path::new(&folder).join("libfaketimeMT.so.1");
    library.exists().then_some(library)
}

/// Starts an agent whose session is sent to a relay, and a program.
fn start(node: &Node, relay: &Relay, name: &str, clock: Option<&Path>) -> (node::Running, Program) {
    let arguments = ["agent", "--traces", &spools(node)];
    let mut agent = node.command(&arguments);
    if let Some(library) = clock {
        // Another boot makes it another machine.
        let boot = node.directory.path().join("boot");
        fs::write(&boot, "3c1a7a52-0d6f-4a62-9a0b-6a1f6f7f0001\n").expect("a file");
        agent = Command::new("unshare");
        agent.args(["--mount", "--propagation", "private", "sh", "-ec"]);
        agent.arg("mount --bind \"$0\" /proc/sys/kernel/random/boot_id; exec env \"$@\"");
        agent.arg(boot).arg(format!("LD_PRELOAD={}", library.display()));
        agent.arg(format!("FAKETIME=-{BEHIND_S}")).arg("FAKETIME_DONT_FAKE_MONOTONIC=1");
        agent.arg("DONT_FAKE_MONOTONIC=1").arg(env!("CARGO_BIN_EXE_blkkin")).args(arguments);
        agent.env("BLKKIN_SOCKET", node.socket());
    }
    let agent = node.agent_by(agent);
    node.run(&["session", "create", name, "--net", &relay.target()]);
    node.run(&["event", "enable", "blkkin:*", "zipkin:*"]);
    node.run(&["session", "start", name]);
    (agent, Program::start(node.test_program(&[], "program")))
}

fn spools(node: &Node) -> String {
    node.directory.path().join("spools").to_str().expect("text").to_owned()
}

fn tell(program: &mut Program, what: &str) {
    let input = program.running.0.stdin.as_mut().expect("a pipe");
    input.write_all(format!("{what}\n").as_bytes()).expect("written");
}

/// Lets one program make a request of which the other serves a part. Returns its trace id.
fn request(asking: &mut Program, serving: &mut Program) -> String {
    tell(asking, "ask");
    let header = asking.line();
    tell(serving, &format!("serve {header}"));
    assert_eq!(serving.line(), "served");
    tell(asking, "end");
    assert_eq!(asking.line(), "done");
    header.split('-').nth(1).expect("a trace id").to_owned()
}

/// Span of a request: its start and end in nanoseconds, and the error of its clock.
#[derive(Clone, Copy, Debug)]
struct SpanTimes {
    start: i64,
    end: i64,
    error: Option<i64>,
}

/// Returns the calls of client and server in the lines of `spans --json`, by trace id.
fn calls(lines: &str) -> Vec<(String, [SpanTimes; 2])> {
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let spans: Vec<Value> = lines.filter(|line| line["type"] == "span").collect();
    let times = |span: &Value| {
        let start = span["start"].as_i64().expect("a start");
        let end = start + span["duration"].as_i64().expect("a duration");
        SpanTimes { start, end, error: span["clock"]["error"].as_i64() }
    };
    let servers = spans.iter().filter(|span| span["kind"] == "server");
    let both = servers.filter_map(|server| {
        let id = &server["trace_id"];
        let client = spans.iter().find(|it| it["trace_id"] == *id && it["kind"] == "client")?;
        Some((id.as_str().expect("an id").to_owned(), [times(client), times(server)]))
    });
    both.collect()
}

/// Asserts that a server's part lies within its client's, within the errors of both clocks.
#[track_caller]
fn check_aligned(calls: &[(String, [SpanTimes; 2])]) {
    for (id, [client, server]) in calls {
        let error = client.error.expect("an error") + server.error.expect("an error");
        // The relay is on this machine.
        assert!((1..500_000_000).contains(&error), "{error}");
        let early = client.start - server.start;
        let late = server.end - client.end;
        assert!(early <= error && late <= error, "{id}: {early} {late} {error}");
    }
}

#[test]
fn requests_across_nodes_are_aligned() {
    let name = "requests_across_nodes_are_aligned";
    let Some(library) = fake_time() else { return skip(name, "libfaketime is not installed") };
    if !is_root() {
        return skip(name, "only root can have another boot's identity");
    }
    let (one, two) = (Node::new(), Node::new());
    let relay = Relay::start_in(one.directory.path(), Kind::Ours);
    let mut server = one.command(&[]);
    let server = on_free_ports(&mut server).args(["--memory", "--from", &relay.url()]);
    let server = Server::start(server);
    let (agent_one, mut asking) = start(&one, &relay, "one", None);
    let (agent_two, mut serving) = start(&two, &relay, "two", Some(&library));
    let host = relay_host(&relay);
    // One viewer reads the session of the node whose clock is wrong.
    let mut follow = blkkin(one.directory.path());
    follow.args(["spans", "--json", "--follow", "--from", "beginning"]);
    let follow = follow.arg(format!("net://127.0.0.1:{}/host/{host}/two", relay.live));
    let follow = follow.stdout(Stdio::piped()).spawn().expect("a viewer");
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(request(&mut asking, &mut serving));
        std::thread::sleep(Duration::from_millis(400));
    }
    let stored = eventually("the server has all", || {
        let all: Option<Vec<_>> = ids.iter().map(|id| stored(&server, id)).collect();
        all
    });
    asking.end();
    serving.end();
    for (node, name) in [(&one, "one"), (&two, "two")] {
        node.run(&["session", "stop", name]);
        node.run(&["session", "destroy", name]);
    }
    let followed = follow.wait_with_output().expect("a viewer");
    agent_one.kill();
    agent_two.kill();

    let traces = relay.directory.to_str().expect("text");
    let spans = |words: &[&str]| {
        let output = run(blkkin(one.directory.path()).arg("spans").args(words).arg(traces));
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let aligned = calls(&spans(&["--json"]));
    assert_eq!(aligned.len(), ids.len(), "{aligned:?}");
    check_aligned(&aligned);
    let tree = spans(&[]);
    assert_eq!(tree.matches("clocks ±").count(), ids.len(), "{tree}");
    assert!(!tree.contains("before"), "{tree}");
    // The recorded times are as they were.
    let recorded = calls(&spans(&["--json", "--recorded-times"]));
    assert_eq!(recorded.len(), ids.len());
    for (id, [client, server]) in &recorded {
        let behind = (client.start - server.start) as f64 / 1e9;
        assert!((behind - BEHIND_S).abs() < 5.0, "{id}: {behind} s");
        assert_eq!((client.error, server.error), (None, None));
    }
    // The server has read each node by itself, and the viewer one of them.
    for [client, server] in stored {
        let errors = client.error.expect("an error") + server.error.expect("an error");
        let early = client.start - server.start;
        assert!(early <= errors + 2000, "{early} {errors}");
    }
    let followed = text(&followed.stdout);
    let lines = followed.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let starts: Vec<i64> =
        lines.filter(|it| it["type"] == "span").filter_map(|it| it["start"].as_i64()).collect();
    let expected: Vec<i64> = aligned.iter().map(|(_, [_, server])| server.start).collect();
    assert_eq!(starts, expected, "one event has one time, whoever reads it and when");
    server.end();
}

/// Returns the name of the machine in the relay's list of sessions.
fn relay_host(relay: &Relay) -> String {
    eventually("a session", || {
        let list = run(&mut relay.ls(&["--json"]));
        let list: Value = serde_json::from_str(&text(&list.stdout)).ok()?;
        let sessions = list["sessions"].as_array()?;
        let two = sessions.iter().find(|session| session["session"] == "two")?;
        Some(two["host"].as_str()?.to_owned())
    })
}

/// Returns the spans of client and server that a server has of a request.
fn stored(server: &Server, id: &str) -> Option<[SpanTimes; 2]> {
    let path = format!("/api/v2/trace/{id}");
    let reply = http(server.web, "GET", &path, "", b"").expect("an answer");
    let spans: Vec<Value> = serde_json::from_str(&reply.body).ok()?;
    let of = |kind: &str| {
        let span = spans.iter().find(|span| span["kind"] == kind)?;
        let start = span["timestamp"].as_i64()? * 1000;
        let end = start + span["duration"].as_i64()? * 1000;
        let error = span["tags"]["blkkin.clock"].as_str()?.split_once(' ')?.1.parse().ok();
        Some(SpanTimes { start, end, error })
    };
    Some([of("CLIENT")?, of("SERVER")?])
}

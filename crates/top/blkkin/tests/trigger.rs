//! `blkkin trigger`: conditions that real programs meet, and the actions that follow.

mod support;

use blkkin_trace::{Endpoint, Trace, sample};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use support::node::{self, Node, Program, eventually, is_root};
use support::process::signal;
use support::relay::{Kind, Relay};
use support::server::{Server, http, on_free_ports};
use support::{run, skip, text};

/// Records fast spans without a pause, and does what its input lines say.
#[test]
#[ignore = "a program of other tests"]
fn program() {
    static DISK: Endpoint<'static> = Endpoint::new("disk", "10.0.0.1", 6800);
    blkkin_trace::start();
    let (sender, asked) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let _ = sender.send(line.expect("text"));
        }
    });
    node::say("\nready");
    loop {
        let request = Trace::root_wide("write", &DISK, sample::global());
        let traceparent = request.traceparent();
        let span = request.span();
        match asked.recv_timeout(Duration::from_millis(2)).as_deref() {
            Ok("ask") => {
                node::say(traceparent.as_str());
                let _ = asked.recv();
            }
            Ok(line) if let Some(header) = line.strip_prefix("serve ") => {
                let sampler = sample::global();
                let call = Trace::receive_traceparent("serve", &DISK, header.as_bytes(), sampler);
                drop(call.server_span());
            }
            Ok("slow") => std::thread::sleep(SLOW),
            Ok("failed") => span.keyval("error", "no space"),
            Ok("die") => std::process::abort(),
            Ok(_) | Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
        }
    }
    node::say(0);
}

/// Duration of a slow span. Others take two milliseconds, and more if the machine is busy.
const SLOW: Duration = Duration::from_millis(600);

/// Node with a flight recorder and triggers of its own.
struct Fixture {
    node: Node,
    agent: Option<node::Running>,
    /// Name of the machine for all commands; `None` for its own.
    host: Option<String>,
}

impl Fixture {
    fn new() -> Fixture {
        Fixture { node: Node::new(), agent: None, host: None }.with_flight_recorder()
    }

    fn with_flight_recorder(mut self) -> Fixture {
        self.start_agent();
        self.run(&["session", "create", "flight", "--snapshot"]);
        self.run(&["event", "enable", "-s", "flight", "blkkin:*", "zipkin:*"]);
        self.run(&["session", "start", "flight"]);
        self
    }

    fn start_agent(&mut self) {
        let traces = self.node.directory.path().join("traces");
        let traces = traces.to_str().expect("text");
        self.agent = Some(self.node.agent_by(self.command(&["agent", "--traces", traces])));
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = match &self.host {
            None => self.node.command(arguments),
            Some(host) => {
                let mut command = Command::new("unshare");
                command.args([
                    "--uts",
                    "sh",
                    "-ec",
                    "hostname \"$1\"; shift; exec \"$@\"",
                    "sh",
                    host,
                ]);
                command.arg(env!("CARGO_BIN_EXE_blkkin")).args(arguments);
                command.env("BLKKIN_SOCKET", self.node.socket());
                command
            }
        };
        command.env("BLKKIN_TRIGGERS", self.node.directory.path().join("triggers"));
        command
    }

    #[track_caller]
    fn run(&self, arguments: &[&str]) -> String {
        let output = run(&mut self.command(arguments));
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    #[track_caller]
    fn refuse(&self, arguments: &[&str], status: i32, part: &str) {
        let output = run(&mut self.command(arguments));
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {errors}");
        assert!(errors.contains(part), "{arguments:?}: {errors}");
    }

    fn program(&self) -> Program {
        Program::start(self.node.test_program(&[], "program"))
    }

    fn trigger(&self, name: &str) -> Value {
        let list = self.run(&["trigger", "ls", "--json"]);
        let list: Value = serde_json::from_str(&list).expect("JSON");
        assert_eq!(list["schema"], "blkkin.triggers.v1");
        let all = list["triggers"].as_array().expect("a list");
        all.iter().find(|one| one["name"] == name).expect("the trigger").clone()
    }

    #[track_caller]
    fn await_acted(&self, name: &str, times: u64) -> Value {
        eventually(&format!("{name} has acted {times} times"), || {
            Some(self.trigger(name)).filter(|trigger| trigger["acted"] == times)
        })
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        for line in self.run(&["trigger", "ls"]).lines().skip(1) {
            let name = line.split_whitespace().next().unwrap_or_default();
            let _ = self.command(&["trigger", "remove", name]).output();
        }
    }
}

impl Fixture {
    /// Records events in a session for snapshots, on a node of this name.
    fn on_host(host: &str) -> Fixture {
        let node = Node::new();
        let fixture = Fixture { node, agent: None, host: Some(host.to_owned()) };
        fixture.with_flight_recorder()
    }
}

/// Lets a program make a request that takes a time, of which another one serves a part. Returns its
/// trace id.
fn request(asking: &mut Program, serving: &mut Program, time: Duration) -> String {
    tell(asking, "ask");
    let traceparent = asking.line();
    tell(serving, &format!("serve {traceparent}"));
    std::thread::sleep(time);
    tell(asking, "done");
    traceparent.split('-').nth(1).expect("a trace id").to_owned()
}

/// Returns the trace ids that a server has, with the number of spans of each.
fn stored(server: &Server) -> BTreeMap<String, usize> {
    let query = "/api/v2/traces?limit=1000&lookback=86400000";
    let reply = http(server.web, "GET", query, "", b"").expect("an answer");
    let traces: Vec<Vec<Value>> = serde_json::from_str(&reply.body).expect("JSON");
    let id = |spans: &[Value]| spans[0]["traceId"].as_str().expect("an id").to_owned();
    traces.iter().map(|spans| (id(spans), spans.len())).collect()
}

/// Only slow requests are sent, and those that are asked for, with their spans of all programs.
#[test]
fn slow_requests_are_sent_whole() {
    let fixture = Fixture::new();
    let server = Server::start(on_free_ports(&mut fixture.command(&[])).arg("--memory"));
    let to = format!("http://{}/api/v2/spans", server.web);
    let (mut asking, mut serving) = (fixture.program(), fixture.program());
    let words =
        ["trigger", "add", "tail", "--slower", "500ms", "--requests", "flight", "--to", &to];
    fixture.run(&[&words[..], &["--delay", "200ms", "--every", "200ms"]].concat());
    let slow = request(&mut asking, &mut serving, SLOW);
    eventually("the request is sent", || (!stored(&server).is_empty()).then_some(()));
    assert_eq!(stored(&server), BTreeMap::from([(slow.clone(), 2)]));
    let fast = request(&mut asking, &mut serving, Duration::ZERO);
    fixture.run(&["trigger", "fire", "tail", "--request", &fast]);
    let both = BTreeMap::from([(slow, 2), (fast, 2)]);
    eventually("the named request is sent", || (stored(&server) == both).then_some(()));
    let others: Vec<String> = (0..3).map(|_| request(&mut asking, &mut serving, SLOW)).collect();
    eventually("requests during the rest are sent", || {
        let stored = stored(&server);
        others.iter().all(|id| stored.get(id) == Some(&2)).then_some(())
    });
    let sent = fixture.trigger("tail")["requests"].clone();
    assert_eq!((&sent["found"], &sent["missing"]), (&5.into(), &0.into()), "{sent}");
    let list = fixture.run(&["trigger", "ls"]);
    assert!(list.contains("tail: 5 requests found, 0 not in memory, 0 left out"), "{list}");
    server.end();
    asking.end();
    serving.end();
}

/// A request that is slow on one node is sent by another one, too, that has served it fast.
#[test]
fn nodes_send_the_same_requests() {
    if !is_root() {
        return skip("nodes_send_the_same_requests", "only root can set host names");
    }
    let (one, two) = (Fixture::on_host("node-one"), Fixture::on_host("node-two"));
    let relay = Relay::start_in(one.node.directory.path(), Kind::Ours);
    let server = Server::start(on_free_ports(&mut one.command(&[])).arg("--memory"));
    let to = format!("http://{}/api/v2/spans", server.web);
    let (share, port) = (relay.target(), relay.live.to_string());
    for node in [&one, &two] {
        let words = ["trigger", "add", "tail", "--slower", "500ms", "--requests", "flight"];
        let sharing = ["--to", &to, "--share", &share, "--share-live-port", &port];
        node.run(&[&words[..], &sharing, &["--delay", "300ms", "--every", "200ms"]].concat());
    }
    let (mut asking, mut serving) = (one.program(), two.program());
    // A node finds the sessions of others every two seconds.
    eventually("the request is sent by both", || {
        let id = request(&mut asking, &mut serving, SLOW);
        std::thread::sleep(Duration::from_millis(1500));
        (stored(&server).get(&id) == Some(&2)).then_some(())
    });
    let sent = two.trigger("tail");
    assert_eq!(sent["events"], 0, "{sent}");
    assert!(sent["requests"]["found"].as_u64() > Some(0), "{sent}");
    server.end();
    asking.end();
    serving.end();
}

fn tell(program: &mut Program, what: &str) {
    let input = program.running.0.stdin.as_mut().expect("a pipe");
    input.write_all(format!("{what}\n").as_bytes()).expect("written");
}

/// Returns the durations of the spans in a trace, in milliseconds, with the time of each end.
fn spans(trace: &str) -> Vec<(i64, f64)> {
    let output = run(support::blkkin(Path::new("/")).args(["spans", "--json", trace]));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    let lines = printed.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    let spans = lines.filter(|line: &Value| line["type"] == "span");
    spans
        .filter_map(|span| {
            let (start, duration) = (span["start"].as_i64()?, span["duration"].as_i64()?);
            Some((start + duration, duration as f64 / 1e6))
        })
        .collect()
}

/// A slow span causes a snapshot with the span and with what followed it. Fast ones do not.
#[test]
fn slow_requests_cause_snapshots() {
    let fixture = Fixture::new();
    let mut program = fixture.program();
    let words = ["trigger", "add", "slow", "--slower", "500ms", "--snapshot", "flight"];
    fixture.run(&[&words[..], &["--delay", "300ms", "--every", "1h"]].concat());
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(fixture.trigger("slow")["events"], 0);
    tell(&mut program, "slow");
    let trigger = fixture.await_acted("slow", 1);
    assert_eq!(trigger["events"], 1);
    let cause: Value = serde_json::from_str(trigger["last_cause"].as_str().unwrap()).expect("JSON");
    assert_eq!(
        (&cause["name"], &cause["fields"]["span_name"]),
        (&"blkkin:span".into(), &"write".into())
    );
    let snapshot = trigger["snapshots"][0].as_str().expect("a path").to_owned();
    let spans = spans(&snapshot);
    let slow: Vec<_> = spans.iter().filter(|(_, duration)| *duration >= 500.0).collect();
    assert_eq!(slow.len(), 1, "{spans:?}");
    let aftermath = spans.iter().filter(|(end, _)| *end > slow[0].0 + 100_000_000).count();
    assert!(aftermath > 10, "{aftermath}");
    // Too soon after the last action.
    tell(&mut program, "slow");
    eventually("the event is skipped", || (fixture.trigger("slow")["skipped"] == 1).then_some(()));
    fixture.run(&["trigger", "remove", "slow"]);
    assert!(Path::new(&snapshot).exists());
    fixture.run(&[&words[..], &["--every", "1ms", "--keep", "2"]].concat());
    let mut snapshots = Vec::new();
    for times in 1..=3 {
        tell(&mut program, "slow");
        let trigger = fixture.await_acted("slow", times);
        let paths = trigger["snapshots"].as_array().expect("a list");
        snapshots.push(paths.last().and_then(Value::as_str).expect("a path").to_owned());
    }
    let kept: Vec<bool> = snapshots.iter().map(|path| Path::new(path).exists()).collect();
    assert_eq!(kept, [false, true, true]);
    fixture.run(&["trigger", "remove", "slow"]);
    assert!(!fixture.run(&["session", "list"]).contains("trigger-slow"));
    program.end();
}

/// A failed request runs a command, once. The trigger is done, and its session is gone.
#[test]
fn failed_requests_run_commands() {
    let fixture = Fixture::new();
    let mut program = fixture.program();
    let file = fixture.node.directory.path().join("told");
    let command = format!("echo \"$BLKKIN_TRIGGER $1 $BLKKIN_EVENT\" >> {}", file.display());
    let words = ["trigger", "add", "failed", "--failed", "--once", "--run", &command];
    fixture.run(&[&words[..], &["--snapshot", "flight"]].concat());
    assert!(fixture.run(&["session", "list"]).contains("trigger-failed"));
    for _ in 0..3 {
        tell(&mut program, "failed");
    }
    let trigger = fixture.await_acted("failed", 1);
    let told = fs::read_to_string(&file).expect("the command has run");
    assert_eq!(told.lines().count(), 1);
    assert!(told.starts_with("failed /") && told.contains("no space"), "{told}");
    assert!(told.contains(trigger["snapshots"][0].as_str().expect("a path")), "{told}");
    eventually("it is done", || (fixture.trigger("failed")["status"] == "done").then_some(()));
    assert!(!fixture.run(&["session", "list"]).contains("trigger-failed"));
    fixture.refuse(&["trigger", "fire", "failed"], 1, "does not run");
    program.end();
}

/// The trigger outlives its agent. After its own end it continues where it was.
/// Receives a request of HTTP, answers with a status, and returns the first line and the body.
fn receive(listener: &TcpListener, status: &str) -> (String, String) {
    let (mut stream, _) = listener.accept().expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let (mut text, mut bytes) = (String::new(), [0; 4096]);
    let whole = loop {
        let size = stream.read(&mut bytes).expect("bytes");
        assert_ne!(size, 0, "{text}");
        text.push_str(&String::from_utf8_lossy(&bytes[..size]));
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head
            .lines()
            .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            break (head.lines().next().expect("a line").to_owned(), body.to_owned());
        }
    };
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
    stream.write_all(answer.as_bytes()).expect("answered");
    whole
}

/// Notices reach a web address, also at a later attempt; failures are shown.
#[test]
fn notices_are_sent() {
    let fixture = Fixture::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let url = format!("http://{address}/hook?key=a");
    let words = ["trigger", "add", "bad", "--failed", "--snapshot", "flight", "--notify", &url];
    fixture.run(&[&words[..], &["--every", "1ms"]].concat());
    let mut program = fixture.program();
    tell(&mut program, "failed");
    receive(&listener, "500 Broken");
    let (line, body) = receive(&listener, "200 OK");
    assert_eq!(line, "POST /hook?key=a HTTP/1.1");
    let notice: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(
        (&notice["schema"], &notice["trigger"]),
        (&"blkkin.notice.v1".into(), &"bad".into())
    );
    assert!(notice["event"]["name"].is_string(), "{notice}");
    let snapshot = notice["snapshot"].as_str().expect("a path");
    assert!(Path::new(snapshot).is_dir());
    let text = notice["text"].as_str().expect("words");
    assert!(text.starts_with("trigger bad acted: ") && text.contains(snapshot), "{text}");
    assert_eq!(fixture.await_acted("bad", 1)["trouble"], Value::Null);
    drop(listener);
    fixture.run(&["trigger", "fire", "bad"]);
    let trouble = fixture.await_acted("bad", 2)["trouble"].as_str().expect("words").to_owned();
    assert!(trouble.contains(&format!("http://{address} takes no notice: ")), "{trouble}");
    program.end();
}

#[test]
fn triggers_survive_restarts() {
    let mut fixture = Fixture::new();
    let mut program = fixture.program();
    let words = ["trigger", "add", "t", "--failed", "--run", "true", "--every", "1ms"];
    fixture.run(&words);
    tell(&mut program, "failed");
    fixture.await_acted("t", 1);
    fixture.agent.take().expect("an agent").kill();
    fixture.start_agent();
    eventually("the program returns", || (!fixture.node.applications().is_empty()).then_some(()));
    // The trigger may not have connected yet.
    tell(&mut program, "failed");
    let trigger = fixture.await_acted("t", 2);
    assert!(trigger["trouble"].is_null(), "{trigger}");
    let pid = fixture.trigger("t")["pid"].as_i64().expect("an id");
    let pid = Pid::from_raw(i32::try_from(pid).expect("an id")).expect("an id");
    kill_process(pid, Signal::KILL).expect("killed");
    eventually("it is down", || (fixture.trigger("t")["status"] == "down").then_some(()));
    tell(&mut program, "failed");
    std::thread::sleep(Duration::from_millis(200));
    fixture.run(&["trigger", "start", "--all"]);
    // Two events were acted on before, and the third one came while the trigger was down.
    fixture.await_acted("t", 3);
    assert_eq!(fixture.trigger("t")["events"], 3);
    fixture.run(&["trigger", "fire", "t"]);
    assert_eq!(fixture.await_acted("t", 4)["last_cause"], "fired by hand");
    fixture.run(&["trigger", "add", "signal", "--agent-signal", "--run", "true"]);
    std::thread::sleep(Duration::from_millis(300));
    signal(fixture.agent.as_ref().expect("an agent").id(), Signal::USR1);
    assert_eq!(fixture.await_acted("signal", 1)["last_cause"], "the agent got a signal");
    // Another trigger is ended during its delay.
    let words = ["trigger", "add", "late", "--failed", "--run", "true", "--delay", "1min"];
    fixture.run(&words);
    tell(&mut program, "failed");
    eventually("it is pending", || (fixture.trigger("late")["events"] == 1).then_some(()));
    let pid = fixture.trigger("late")["pid"].as_i64().expect("an id");
    let pid = Pid::from_raw(i32::try_from(pid).expect("an id")).expect("an id");
    kill_process(pid, Signal::TERM).expect("ended");
    eventually("it is down", || (fixture.trigger("late")["status"] == "down").then_some(()));
    assert_eq!(fixture.trigger("late")["pending"]["events"], 1);
    fixture.run(&["trigger", "start", "late"]);
    assert_eq!(fixture.trigger("late")["pending"]["events"], 1);
    // A session that somebody has destroyed is made again.
    fixture.run(&["session", "destroy", "trigger-t"]);
    eventually("the session is there again", || {
        fixture.run(&["session", "list"]).contains("trigger-t ").then_some(())
    });
    std::thread::sleep(Duration::from_millis(300));
    tell(&mut program, "failed");
    fixture.await_acted("t", 6);
    program.end();
}

/// A process that a signal ends causes a snapshot.
#[test]
fn killed_programs_are_noticed() {
    let fixture = Fixture::new();
    if !is_root() {
        return skip("killed_programs_are_noticed", "events of the kernel are for root");
    }
    let words = ["trigger", "add", "killed", "--killed", "--snapshot", "flight"];
    let added = run(&mut fixture.command(&words));
    if !added.status.success() {
        return skip("killed_programs_are_noticed", &text(&added.stderr));
    }
    fixture.program().end();
    std::thread::sleep(Duration::from_millis(300));
    let before = fixture.trigger("killed")["events"].as_u64().expect("a number");
    let mut program = fixture.program();
    let pid = u64::from(program.id());
    tell(&mut program, "die");
    let is_cause = |trigger: &Value| {
        let cause: Value =
            serde_json::from_str(trigger["last_cause"].as_str().unwrap_or("null")).expect("JSON");
        cause["context"]["pid"] == pid && cause["name"] == "process:exit"
    };
    eventually("the end is noticed", || {
        let trigger = fixture.trigger("killed");
        let events = trigger["events"].as_u64().expect("a number");
        // Programs of other tests may have been killed a moment before.
        (is_cause(&trigger) || before > 0 && events > before).then_some(())
    });
}

/// Lost events and full disks act on sessions.
#[test]
fn losses_and_disks_are_watched() {
    let fixture = Fixture::new();
    let limit = format!("{}=1000000T", fixture.node.directory.path().display());
    fixture.run(&["trigger", "add", "full", "--disk-free", &limit, "--stop", "flight", "--once"]);
    let trigger = fixture.await_acted("full", 1);
    assert!(trigger["last_cause"].as_str().expect("text").contains(" free"), "{trigger}");
    assert!(fixture.run(&["session", "list"]).contains("stopped"));
    fixture.run(&["trigger", "add", "again", "--disk-free", &limit, "--start", "flight"]);
    fixture.await_acted("again", 1);
    assert!(!fixture.run(&["session", "list"]).contains("stopped"));
    fixture.run(&["session", "create", "small", "--rotate"]);
    let words = ["--subbuf-size", "4K", "--num-subbuf", "2", "-s", "small"];
    fixture.run(&[&["channel", "create", "c"], &words[..]].concat());
    fixture.run(&["event", "enable", "-s", "small", "test:*"]);
    fixture.run(&["session", "start", "small"]);
    let words = ["trigger", "add", "lossy", "--lost", "small=10", "--rotate", "small"];
    fixture.run(&words);
    std::thread::sleep(Duration::from_millis(1500));
    let mut flood = fixture.node.test_program(&[], "flood");
    flood.env("TEST_PAUSE_US", "0").env("TEST_BURST", "100000");
    let flood = Program::start(flood);
    let trigger = fixture.await_acted("lossy", 1);
    assert!(trigger["last_cause"].as_str().expect("text").contains("`small` lost"), "{trigger}");
    flood.end();
}

#[test]
#[ignore = "a program of other tests"]
fn flood() {
    node::numbers();
}

#[test]
fn commands_say_what_is_wrong() {
    let fixture = Fixture::new();
    let add = ["trigger", "add", "t"];
    let check =
        |words: &[&str], status, part| fixture.refuse(&[&add, words].concat(), status, part);
    check(&["--run", "true"], 2, "no condition");
    check(&["--slower", "1ms"], 2, "no action");
    check(&["--failed", "--filter", "x == 1", "--run", "true"], 2, "without events");
    check(&["--slower", "0s", "--run", "true"], 2, "--slower");
    check(&["--slower", "x", "--run", "true"], 2, "--slower");
    let sent = ["--failed", "--requests", "flight", "--to", "http://localhost:9411"];
    check(&[&sent[..], &["--ca", "ca.pem"]].concat(), 2, "absolute");
    check(&["nothing", "--run", "true"], 2, "PROVIDER:NAME");
    check(&["a:b", "--filter", "x = 1", "--run", "true"], 2, "did you mean `==`?");
    check(&["--failed", "--snapshot", "fligh"], 1, "did you mean `flight`?");
    check(&["--lost", "web", "--run", "true"], 2, "web=1000");
    check(&["--kernel", "process:exit", "--slower", "1s", "--run", "true"], 2, "of programs");
    check(&["--failed", "--keep", "2", "--run", "true"], 2, "--snapshot");
    check(&["--failed", "--notify", "mail"], 2, "neither `syslog` nor a URL");
    fixture.refuse(
        &["trigger", "add", "a/b", "--failed", "--run", "true"],
        2,
        "the name of a trigger",
    );
    fixture.refuse(&["trigger", "remove", "../x"], 1, "no trigger");
    fixture.run(&["trigger", "add", "slow", "--slower", "1s", "--run", "true"]);
    fixture.refuse(&["trigger", "add", "slow", "--failed", "--run", "true"], 1, "trigger remove");
    fixture.refuse(&["trigger", "fire", "slaw"], 1, "did you mean `slow`?");
    let list = fixture.run(&["trigger", "ls"]);
    assert!(list.contains("slow") && list.contains("waiting"), "{list}");
    assert!(list.contains("--slower 1s --run true"), "{list}");
    fixture.run(&["trigger", "remove", "slow"]);
    assert_eq!(fixture.run(&["trigger", "ls"]), "");
}

//! `blkkin session create --net`: sessions that the agent's forwarder sends to relays. Each
//! attempted event must be at the relay once or counted as lost.

mod support;

use blkkin_trace::{Endpoint, Trace, sample};
use std::collections::BTreeSet;
use std::fs;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use support::node::{self, Node, Program, check_all, eventually, read, traces_below};
use support::process::{Running, Signal, signal};
use support::relay::{Kind, Relay};
use support::server::{Server, http, on_free_ports};
use support::{is_installed, skip};

#[test]
#[ignore = "a program of other tests"]
fn program() {
    node::numbers();
}

/// Records requests of two spans until standard input ends, and prints their number.
#[test]
#[ignore = "a program of other tests"]
fn requests() {
    static DISK: Endpoint<'static> = Endpoint::new("disk", "10.0.0.1", 6800);
    blkkin_trace::start();
    let (sender, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = std::io::stdin().lock().lines().count();
        let _ = sender.send(());
    });
    node::say("\nready");
    let mut requests = 0_u64;
    while ended.recv_timeout(Duration::from_millis(5)).is_err() {
        let request = Trace::root_wide("write", &DISK, sample::global());
        let inner = request.child("journal");
        let span = request.span();
        drop(inner.span());
        drop(span);
        requests += 1;
    }
    node::say(requests);
}

/// Returns the directory where the agent makes directories of sessions.
fn spools(node: &Node) -> PathBuf {
    node.directory.path().join("spools")
}

fn start_agent(node: &Node) -> node::Running {
    let spools = spools(node);
    node.agent_by(node.command(&["agent", "--traces", spools.to_str().unwrap()]))
}

fn begin_session(node: &Node, options: &[&str]) {
    node.run(&[&["session", "create", "s"], options].concat());
    node.run(&["event", "enable", "test:*", "zipkin:*", "blkkin:*"]);
    node.run(&["session", "start", "s"]);
}

/// Returns the forwardings that `blkkin status` shows.
fn forwardings(node: &Node) -> Vec<serde_json::Value> {
    let status: serde_json::Value =
        serde_json::from_str(&node.run(&["status", "--json"])).expect("JSON");
    status["forwardings"].as_array().expect("a list").clone()
}

/// Waits until the relay has everything of the destroyed session, and the spool is removed.
#[track_caller]
fn await_delivery(node: &Node) {
    eventually("the session is delivered", || forwardings(node).is_empty().then_some(()));
    let left = fs::read_dir(spools(node)).into_iter().flatten().flatten();
    let left: Vec<PathBuf> = left.map(|entry| entry.path()).collect();
    assert!(left.is_empty(), "{left:?}");
}

fn relays(test: &str) -> Vec<Kind> {
    if is_installed("lttng-relayd") {
        return vec![Kind::Ours, Kind::Lttng];
    }
    skip(test, "lttng-relayd is not installed");
    vec![Kind::Ours]
}

/// Most streams are idle, and do not delay viewers.
#[test]
fn sessions_are_viewed_while_they_record() {
    for kind in relays("sessions_are_viewed_while_they_record") {
        let node = Node::new();
        let relay = Relay::start_in(node.directory.path(), kind);
        let _agent = start_agent(&node);
        begin_session(&node, &["--net", &relay.target()]);
        let program = node.program(1, 2000);
        eventually("the relay has streams", || {
            relay.session()?["streams"].as_u64()?.checked_sub(2)
        });
        let session = relay.session().expect("a session");
        let url = session["url"].as_str().expect("a URL");
        let mut view = Running::start(node.command(&["view"]).arg(url));
        // lttng-relayd permits one viewer of a session.
        let is_second = kind == Kind::Ours && is_installed("babeltrace2");
        let theirs = || Running::start(Command::new("babeltrace2").args(["-i", "lttng-live", url]));
        let mut theirs = is_second.then(theirs);
        for running in std::iter::once(&mut view).chain(&mut theirs) {
            for _ in 0..500 {
                assert!(running.line().contains("test:number"));
            }
        }
        let tried = program.end();
        node.run(&["session", "destroy", "s"]);
        assert_eq!(view.end().status.code(), Some(0));
        assert!(theirs.is_none_or(|theirs| theirs.end().status.success()));
        await_delivery(&node);
        assert_eq!(check_all(&relay.directory, tried), 0);
    }
}

/// Requests are printed while the session records, all of them once.
#[test]
fn requests_of_a_session_are_followed() {
    let node = Node::new();
    let relay = Relay::start_in(node.directory.path(), Kind::Ours);
    let _agent = start_agent(&node);
    begin_session(&node, &["--net", &relay.target()]);
    let program = Program::start(node.test_program(&[], "requests"));
    let session = eventually("the relay has the session", || relay.session());
    let url = session["url"].as_str().expect("a URL");
    let words = ["spans", "--follow", "--from", "beginning", "--idle", "3s", "--json"];
    let mut spans = Running::start(node.command(&words).arg(url));
    let is_request = |line: &String| {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert!(line["type"] != "request" || line["spans"] == 2, "{line}");
        line["type"] == "request"
    };
    let mut requests = 0;
    while requests < 50 {
        requests += u64::from(is_request(&spans.line()));
    }
    let recorded = program.end();
    node.run(&["session", "destroy", "s"]);
    let ended = spans.end();
    assert_eq!(ended.status.code(), Some(0), "{:?}", ended.errors);
    requests += ended.lines.iter().filter(|line| is_request(line)).count() as u64;
    assert_eq!(requests, recorded);
}

/// Makes an authority, a relay's certificate, and directories with credentials of a node and of a
/// viewer. Returns the relay's options.
fn make_keys(home: &Path) -> Vec<String> {
    let mut ca = rcgen::CertificateParams::new(Vec::new()).expect("parameters");
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca_key = rcgen::KeyPair::generate().expect("a key");
    let ca_pem = ca.self_signed(&ca_key).expect("a certificate").pem();
    let issuer = rcgen::Issuer::new(ca, ca_key);
    let key = rcgen::KeyPair::generate().expect("a key");
    let relay = rcgen::CertificateParams::new(["localhost".to_owned()]).expect("parameters");
    let relay = relay.signed_by(&key, &issuer).expect("a certificate");
    let write = |name: &str, text: &str| {
        fs::write(home.join(name), text).expect("written");
        home.join(name).to_str().expect("text").to_owned()
    };
    let mut options = Vec::new();
    for (option, name, text) in [
        ("--tls-cert", "relay.pem", relay.pem()),
        ("--tls-key", "relay.key", key.serialize_pem()),
        ("--write-token-file", "nodes", "secret-of-node\n".to_owned()),
        ("--read-token-file", "viewers", "secret-of-viewer\n".to_owned()),
    ] {
        options.extend([option.to_owned(), write(name, &text)]);
    }
    for client in ["node", "viewer"] {
        fs::create_dir(home.join(client)).expect("a directory");
        write(&format!("{client}/ca.pem"), &ca_pem);
        write(&format!("{client}/token"), &format!("secret-of-{client}"));
    }
    options
}

/// Nodes, viewers and servers reach a relay with TLS by their tokens, and by no other way.
#[test]
fn relays_with_tls_ask_for_tokens() {
    let node = Node::new();
    let home = node.directory.path();
    let options = make_keys(home);
    let relay = Relay::start_secure(home, &options, &home.join("viewer"));
    let credentials = |of: &str, mut command: Command| {
        command.env("BLKKIN_RELAY_CREDENTIALS", home.join(of));
        command
    };
    let spools = spools(&node);
    let agent = node.command(&["agent", "--traces", spools.to_str().unwrap()]);
    let _agent = node.agent_by(credentials("node", agent));
    let server =
        Server::start(on_free_ports(&mut credentials("viewer", node.command(&[]))).args([
            "--memory",
            "--from",
            &relay.url(),
        ]));
    begin_session(&node, &["--net", &relay.target()]);
    let program = Program::start(node.test_program(&[], "requests"));
    let session = eventually("the relay has the session", || relay.session());
    let url = session["url"].as_str().expect("a URL");
    assert!(url.starts_with("nets://localhost:"), "{url}");
    let mut view = Running::start(credentials("viewer", node.command(&["view"])).arg(url));
    for _ in 0..100 {
        view.line();
    }
    let refused = |mut command: Command, part: &str| {
        let output = command.output().expect("a command");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && errors.contains(part), "{command:?}: {errors}");
        assert!(!errors.contains("secret-of"), "{errors}");
    };
    let plain = relay.url().replace("nets", "net");
    let ls = |url: &str| node.command(&["live", "ls", url]);
    refused(credentials("node", ls(&relay.url())), "the token does not permit this");
    refused(credentials("nowhere", ls(&relay.url())), "certificate");
    refused(ls(&plain), "nets://localhost");
    let forward = ["forward", "--name", "x", home.to_str().unwrap(), &relay.target()];
    refused(credentials("viewer", node.command(&forward)), "the token does not permit this");
    if is_installed("babeltrace2") {
        let mut theirs = Command::new("babeltrace2");
        theirs.args(["-i", "lttng-live", &url.replace("nets", "net")]);
        refused(theirs, "Cannot");
    }
    eventually("requests are stored", || (stored(&server).0 > 0).then_some(()));
    // Tokens are replaced while connections last.
    fs::write(home.join("viewers"), "another-secret\n").expect("written");
    signal(relay.child.id(), Signal::HUP);
    eventually("the token is no longer known", || {
        let output = credentials("viewer", ls(&relay.url())).output().expect("a command");
        let errors = String::from_utf8_lossy(&output.stderr);
        errors.contains("the token is not known").then_some(())
    });
    view.line();
    fs::write(home.join("viewer/token"), "another-secret").expect("written");
    let recorded = program.end();
    node.run(&["session", "destroy", "s"]);
    assert_eq!(view.end().status.code(), Some(0));
    await_delivery(&node);
    let all = (recorded, 2 * recorded);
    eventually("all is stored", || (stored(&server) == all).then_some(()));
}

/// Returns the numbers of requests and of spans that a server has. A request that is under way when
/// a server ends has two parts, of which the second lacks the upper half of the id.
fn stored(server: &Server) -> (u64, u64) {
    let query = "/api/v2/traces?limit=1000000&lookback=86400000";
    let reply = http(server.web, "GET", query, "", b"").expect("an answer");
    let traces: Vec<Vec<serde_json::Value>> = serde_json::from_str(&reply.body).expect("JSON");
    let text = |span: &serde_json::Value, key: &str| span[key].as_str().expect("an id").to_owned();
    let low = |id: String| id[id.len().saturating_sub(16)..].to_owned();
    let spans: BTreeSet<(String, String)> = traces
        .iter()
        .flatten()
        .map(|span| (low(text(span, "traceId")), text(span, "id")))
        .collect();
    let requests: BTreeSet<&String> = spans.iter().map(|(request, _)| request).collect();
    (requests.len() as u64, spans.len() as u64)
}

/// A server stores the requests of a relay's sessions while they are recorded, all of them, also
/// after it was ended, killed and started again.
#[test]
fn requests_of_sessions_reach_servers() {
    let node = Node::new();
    let mut relay = Relay::start_in(node.directory.path(), Kind::Ours);
    let data = node.directory.path().join("store");
    let start = |relay: &Relay| {
        let mut command = node.command(&[]);
        on_free_ports(&mut command).arg("--data").arg(&data).args(["--from", &relay.url()]);
        Server::start(&mut command)
    };
    let mut server = start(&relay);
    let _agent = start_agent(&node);
    begin_session(&node, &["--net", &relay.target()]);
    let program = Program::start(node.test_program(&[], "requests"));
    let grows = |server: &Server, from: u64| {
        eventually("requests are stored", || Some(stored(server).0).filter(|now| *now > from))
    };
    let mut requests = grows(&server, 50);
    let log = server.end();
    assert!(log.contains("reading net://") && !log.contains(" has ended\n"), "{log}");
    server = start(&relay);
    server.wait_for_log(" from 20");
    requests = grows(&server, requests + 100);
    drop(server);
    server = start(&relay);
    requests = grows(&server, requests + 100);
    // A relay that is killed shows what it has acknowledged to nobody any more.
    grows(&server, requests + 100);
    signal(program.id(), Signal::STOP);
    let mut known = ((0, 0), serde_json::Value::Null);
    eventually("the server has all that is at the relay", || {
        std::thread::sleep(Duration::from_secs(1));
        let now = (stored(&server), forwardings(&node)[0]["packets"].clone());
        (std::mem::replace(&mut known, now.clone()) == now).then_some(())
    });
    relay.kill();
    relay.restart();
    signal(program.id(), Signal::CONT);
    requests = known.0.0;
    grows(&server, requests + 100);
    let recorded = program.end();
    node.run(&["session", "destroy", "s"]);
    await_delivery(&node);
    let all = (recorded, 2 * recorded);
    eventually("all is stored", || (stored(&server) == all).then_some(()));
    server.wait_for_log(" has ended\n");
    server.end();
}

#[test]
fn sessions_are_kept_and_sent_at_once() {
    let node = Node::new();
    let relay = Relay::start_in(node.directory.path(), Kind::Ours);
    let _agent = start_agent(&node);
    let output = node.output();
    begin_session(&node, &["--net", &relay.target(), "-o", output.to_str().unwrap()]);
    let tried = node.program(50, 1000).end();
    let other = node.program(50, 1000).end();
    node.run(&["session", "destroy", "s"]);
    await_delivery(&node);
    let (kept, lost) = read(&output);
    assert_eq!(kept.len() as u64 + lost, tried + other);
    assert_eq!(read(&relay.directory), (kept, lost));
}

/// Returns the directories of chunks below a session's directory, without one that a killed relay
/// had just made: it has no metadata yet, and so no packets.
fn chunks(session: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(session).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let mut chunks: Vec<PathBuf> = paths.filter(|path| !traces_below(path).is_empty()).collect();
    chunks.sort();
    chunks
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Returns a directory of this name at or below `directory`.
fn find(directory: &Path, name: &str) -> Option<PathBuf> {
    let path = directory.join(name);
    let entries = || fs::read_dir(directory).into_iter().flatten().flatten();
    let below = || entries().find_map(|entry| find(&entry.path(), name));
    path.is_dir().then_some(path).or_else(below)
}

/// Returns the number of an event in a line of `blkkin view` or babeltrace2.
fn number_in(line: &str) -> Option<u64> {
    let rest = line.rsplit("n = ").next().filter(|_| line.contains("test:number"))?;
    rest.split([' ', ',']).next()?.parse().ok()
}

/// The relay gets the chunks of a session, each readable alone. Viewers continue from one to the
/// next, and a spool keeps no directory of a chunk that the relay has.
#[test]
fn rotated_sessions_are_sent_in_chunks() {
    for is_spool in [true, false] {
        let node = Node::new();
        let mut relay = Relay::start_in(node.directory.path(), Kind::Ours);
        let _agent = start_agent(&node);
        let (target, output) = (relay.target(), node.output());
        let mut options = vec!["--net", &*target, "--size", "300K"];
        options.extend(["-o", output.to_str().unwrap()].into_iter().filter(|_| !is_spool));
        begin_session(&node, &options);
        let mut program = node.program(20, 1000);
        eventually("the relay has streams", || {
            relay.session()?["streams"].as_u64()?.checked_sub(2)
        });
        let url = relay.session().expect("a session")["url"].as_str().expect("a URL").to_owned();
        let mut view = Running::start(&mut node.command(&["view", &url]));
        let theirs =
            || Running::start(Command::new("babeltrace2").args(["-i", "lttng-live", &url]));
        let mut theirs = is_installed("babeltrace2").then(theirs);
        let rotate = || -> serde_json::Value {
            let closed = node.run(&["session", "rotate", "s", "--json"]);
            serde_json::from_str(&closed).expect("JSON")
        };
        for _ in 0..3 {
            let before = program.count();
            let closed = rotate();
            let name = closed["chunk"].as_str().expect("a closed chunk");
            assert_eq!(closed["written"].as_array().unwrap().is_empty(), is_spool, "{closed}");
            for running in std::iter::once(&mut view).chain(&mut theirs) {
                while number_in(&running.line()).is_none_or(|number| number < before) {}
            }
            eventually("the chunk is at the relay", || find(&relay.directory, name));
            eventually("a spool has no closed chunk", || {
                (find(&spools(&node), name).is_none() || !is_spool).then_some(())
            });
        }
        relay.kill();
        assert_ne!(view.end().status.code(), Some(0));
        drop(theirs.map(Running::end));
        let before = program.count();
        eventually("a chunk is closed", || (program.count() > before + 100).then(rotate));
        relay.restart();
        let tried = program.end();
        node.run(&["session", "destroy", "s"]);
        await_delivery(&node);
        check_all(&relay.directory, tried);
        let sessions = fs::read_dir(relay.directory.join(host_name())).unwrap().flatten();
        let all: Vec<PathBuf> = sessions.flat_map(|session| chunks(&session.path())).collect();
        assert!(all.len() > 4, "{all:?}");
        let readable: usize = all.iter().map(|chunk| read(chunk).0.len()).sum();
        assert!(readable >= read(&relay.directory).0.len());
        if !is_spool {
            assert_eq!(read(&output), read(&relay.directory));
        }
    }
}

/// Packets that were acknowledged before a relay or an agent is killed are at the relay once.
#[test]
fn killed_relays_and_agents_lose_nothing() {
    let node = Node::new();
    let mut relay = Relay::start_in(node.directory.path(), Kind::Ours);
    let mut agent = start_agent(&node);
    begin_session(&node, &["--net", &relay.target()]);
    let program = node.program(20, 1000);
    for round in 0..4 {
        std::thread::sleep(Duration::from_millis(400));
        relay.kill();
        eventually("the forwarder notices", || {
            forwardings(&node).first()?["trouble"].as_str().map(|_| ())
        });
        if round % 2 == 1 {
            agent.kill();
            agent = start_agent(&node);
            // What a program records while it has no agent is lost if it ends then.
            eventually("the program is back", || (!node.applications().is_empty()).then_some(()));
        }
        relay.restart();
        eventually("the forwarder connects", || {
            forwardings(&node).first()?["connected"].as_bool()?.then_some(())
        });
    }
    // The relay is away when the session ends.
    relay.kill();
    let tried = program.end();
    node.run(&["session", "destroy", "s"]);
    let left = forwardings(&node);
    assert_eq!((left.len(), &left[0]["destroyed"]), (1, &true.into()), "{left:?}");
    assert!(node.run(&["status"]).contains("destroyed session s goes to net://127.0.0.1:"));
    agent.kill();
    let _agent = start_agent(&node);
    assert_eq!(forwardings(&node).len(), 1);
    relay.restart();
    await_delivery(&node);
    check_all(&relay.directory, tried);
}

/// While the relay is away, packets wait up to the limit. Events beyond it are counted as lost, and
/// recording goes on when the relay is back.
#[test]
fn a_full_spool_counts_what_it_cannot_hold() {
    let node = Node::new();
    let mut relay = Relay::start_in(node.directory.path(), Kind::Ours);
    relay.kill();
    let _agent = start_agent(&node);
    node.run(&["session", "create", "s", "--net", &relay.target(), "--size-max", "1M"]);
    let small = ["--subbuf-size", "64K", "--num-subbuf", "4"];
    node.run(&[&["channel", "create", "small"], &small[..]].concat());
    node.run(&["event", "enable", "test:*"]);
    node.run(&["session", "start", "s"]);
    let mut program = node.program(100, 1000);
    let lost = || {
        let status = node.run(&["status", "--json"]);
        let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
        status["lost"]["events"].as_u64().filter(|lost| *lost > 0)
    };
    eventually("events are lost", lost);
    relay.restart();
    let before = program.count();
    eventually("new events arrive", || {
        let sent = forwardings(&node).first()?["packets"].as_u64()?;
        let (numbers, _) = (sent > 0).then(|| read(&relay.directory))?;
        numbers.last().filter(|last| **last > before).map(|_| ())
    });
    let tried = program.end();
    // What waits in the rings is written when the spool has room for it.
    eventually("the rest arrives", || {
        let (numbers, lost) = read(&relay.directory);
        (numbers.len() as u64 + lost == tried).then_some(())
    });
    node.run(&["session", "destroy", "s"]);
    await_delivery(&node);
    assert!(check_all(&relay.directory, tried) > 0);
}

/// A spool that drops its oldest packets has the newest ones when the relay is back. The gap is
/// shown by viewers where it is, and its packets are counted.
#[test]
fn a_full_spool_drops_its_oldest_packets() {
    check_oldest_dropped(false);
}

/// The next agent knows how many packets were dropped, and goes on.
#[test]
fn the_next_agent_drops_the_oldest_packets() {
    check_oldest_dropped(true);
}

/// Moves the threads of a program to the second processor, if there is one.
fn move_to_second_processor(program: &Program) {
    if std::thread::available_parallelism().is_ok_and(|count| count.get() > 1) {
        let moved = Command::new("taskset").args(["-acp", "1", &program.id().to_string()]).output();
        assert!(moved.expect("taskset runs").status.success());
    }
}

#[track_caller]
fn check_oldest_dropped(is_agent_killed: bool) {
    let node = Node::new();
    let mut relay = Relay::start_in(node.directory.path(), Kind::Ours);
    let mut agent = Some(start_agent(&node));
    let options = ["--net", &relay.target(), "--size-max", "2M", "--drop", "oldest"];
    node.run(&[&["session", "create", "s"], &options[..]].concat());
    let small = ["--subbuf-size", "16K", "--num-subbuf", "64"];
    node.run(&[&["channel", "create", "small"], &small[..]].concat());
    node.run(&["event", "enable", "test:*"]);
    node.run(&["session", "start", "s"]);
    let mut program = node.program_behind(&["taskset", "-c", "0"], 100, 1000);
    eventually("the relay has events", || {
        forwardings(&node).first()?["packets"].as_u64().filter(|sent| *sent > 2)
    });
    relay.kill();
    // The packets of a stream that begins now are among those that are dropped.
    move_to_second_processor(&program);
    let away = program.count();
    let losses = || {
        let status = node.run(&["status", "--json"]);
        let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
        let count = |what: &str| status["lost"][what].as_u64().expect("a number");
        (count("events"), count("packets"))
    };
    eventually("packets are dropped", || (losses().1 > 300).then_some(()));
    if is_agent_killed {
        let before = losses();
        agent.take().into_iter().for_each(node::Running::kill);
        agent = Some(start_agent(&node));
        assert!(losses().1 >= before.1, "{before:?} {:?}", losses());
        eventually("more packets are dropped", || (losses().1 > before.1 + 100).then_some(()));
    }
    let last = program.count();
    relay.restart();
    eventually("new events arrive", || {
        let (numbers, _) = (relay.session().is_some()).then(|| read(&relay.directory))?;
        numbers.last().filter(|number| **number > last).map(|_| ())
    });
    let tried = program.end();
    node.run(&["session", "stop", "s"]);
    let (events, packets) = losses();
    node.run(&["session", "destroy", "s"]);
    await_delivery(&node);
    let (numbers, lost) = read(&relay.directory);
    node::check_distinct(&numbers);
    assert_eq!((events, numbers.first()), (lost, Some(&0)));
    let viewed = node.run(&["view", "--json", relay.directory.to_str().unwrap()]);
    let end: serde_json::Value =
        serde_json::from_str(viewed.lines().last().expect("a line")).expect("JSON");
    let missed = end["packets_lost"].as_u64().expect("a number");
    // What the killed relay had not acknowledged, the next forwarder may drop again.
    let twice = if is_agent_killed { 100 } else { 0 };
    assert!((missed..=missed + twice).contains(&packets), "{missed} are missing of {packets}");
    // The packets that the relay lacks are those after it went away.
    let missing: Vec<u64> =
        numbers.windows(2).filter(|pair| pair[1] - pair[0] > 300).map(|pair| pair[0]).collect();
    assert!(missing.iter().all(|number| *number + 5000 > away), "{missing:?}, away at {away}");
    assert!(numbers.len() as u64 + lost < tried);
    if is_installed("babeltrace2") {
        let viewed = Command::new("babeltrace2").arg(&relay.directory).output().unwrap();
        let errors = String::from_utf8_lossy(&viewed.stderr);
        let tells =
            |line: &str| line.contains("Tracer discarded") && line.contains(" packets between");
        assert!(errors.lines().any(tells), "{errors}");
    }
    drop(agent);
}

#[test]
fn commands_say_what_is_wrong() {
    let node = Node::new();
    let _agent = start_agent(&node);
    let check = |words: &[&str], status: i32, part: &str| {
        let output = node.command(words).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{words:?}: {errors}");
        assert!(errors.contains(part), "{words:?}: {errors}");
    };
    check(&["session", "create", "s", "--net", "collector"], 2, "net://HOST");
    check(&["session", "create", "s", "--net", "net://a", "--snapshot"], 2, "--snapshot");
    check(&["session", "create", "s", "--net", "net://a", "--live"], 2, "--live");
    let drop = ["session", "create", "s", "--size-max", "1M", "--drop", "oldest"];
    check(&drop, 2, "add --net URL or --live");
    check(&[&drop[..], &["--live", "-o", "t"]].concat(), 2, "--output");
    check(&["session", "create", "s", "--live", "--files", "3"], 2, "before they are sent");
    let output = Path::new("/proc/none").to_str().unwrap();
    check(&["session", "create", "s", "--live", "-o", output], 1, "/proc/none");
    node.run(&["session", "create", "s", "--net", "net://127.0.0.1:1"]);
    eventually("the refusal is shown", || {
        let trouble = forwardings(&node).first()?["trouble"].as_str()?.to_owned();
        trouble.contains("refused").then_some(())
    });
    let list = node.run(&["session", "list", "s"]);
    assert!(list.contains("goes to net://127.0.0.1:1:5343: nothing sent yet"), "{list}");
}

//! Events of the kernel in sessions: recorded beside those of programs, by rules that change while
//! they are recorded, and read by babeltrace2.

mod support;

use blkkin_trace::{Endpoint, Trace, sample};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;
use support::node::{Node, Program, Running, eventually, is_root};
use support::{is_installed, run, skip, text};

/// Traced program of these tests: writes numbered events.
#[test]
#[ignore = "the program of other tests"]
fn program() {
    support::node::numbers();
}

/// Time that each request of [`requests`] sleeps.
const SLEEP: Duration = Duration::from_millis(3);
/// Number of its requests.
const REQUESTS: usize = 20;

/// Traced program: its requests show their spans, and sleep in a child span.
#[test]
#[ignore = "the program of other tests"]
fn requests() {
    static SLEEPER: Endpoint<'static> = Endpoint::named("sleeper");
    support::node::say("\nready");
    // The tracer learns of the program a moment after it has started, and later on a busy machine.
    std::thread::sleep(Duration::from_millis(500));
    for _ in 0..REQUESTS {
        let root = Trace::root("request", &SLEEPER, &sample::Sampler::new()).span();
        let _in_root = root.enter();
        let child = root.child("sleep").span();
        let _in_child = child.enter();
        std::thread::sleep(SLEEP);
    }
    support::node::say(REQUESTS);
    let _ = std::io::stdin().lines().next();
}

/// Starts a session `s`; `None` if this machine or user does not permit probes.
fn start(test: &str, node: &Node, enable: &[&[&str]]) -> Option<Running> {
    let enable: Vec<Vec<&str>> =
        enable.iter().map(|rule| [&["event", "enable"], *rule].concat()).collect();
    start_with(test, node, node.command(&["agent"]), &enable)
}

/// Starts a session `s`, which is set up by commands, of an agent that is started by a command.
fn start_with(test: &str, node: &Node, agent: Command, set_up: &[Vec<&str>]) -> Option<Running> {
    if !is_root() {
        skip(test, "events of the kernel are for root");
        return None;
    }
    let agent = node.agent_by(agent);
    node.run(&["session", "create", "s", "-o", node.output().to_str().unwrap()]);
    set_up.iter().for_each(|arguments| drop(node.run(arguments)));
    let started = node.command(&["session", "start", "s"]).output().unwrap();
    let message = text(&started.stderr);
    if started.status.success() {
        return Some(agent);
    }
    assert!(!message.contains("the kernel refuses"), "{message}");
    skip(test, message.lines().next().unwrap_or_default());
    None
}

/// Returns the events of the trace whose name is `name`.
fn events(output: &Path, name: &str) -> Vec<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_blkkin"));
    let view = run(command.args(["view", "--json"]).arg(output));
    assert!(view.status.success(), "{}", text(&view.stderr));
    let parse = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    let lines = text(&view.stdout);
    lines.lines().map(parse).filter(|value| value["name"] == name).collect()
}

/// Removes files by a program with this name, and returns the number of them.
fn remove(node: &Node, program: &str, names: &[&str]) {
    let program = match program {
        "rm" => "rm".into(),
        other => {
            let path = node.directory.path().join(other);
            if !path.exists() {
                fs::copy("/bin/rm", &path).unwrap();
            }
            path.into_os_string()
        }
    };
    for name in names {
        fs::write(node.directory.path().join(name), "").unwrap();
    }
    let status = Command::new(program).args(names).current_dir(node.directory.path()).status();
    assert!(status.unwrap().success());
}

fn paths(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["fields"]["pathname"].as_str()).collect()
}

#[test]
fn events_of_the_kernel_and_of_programs_are_in_one_session() {
    let node = Node::new();
    let rules: [&[&str]; 2] = [&["test:*"], &["--kernel", "syscall:unlinkat", "process:exec"]];
    let Some(_agent) = start("one_session", &node, &rules) else { return };
    let program = node.program(100, 1000);
    remove(&node, "rm", &["first", "second"]);
    let tried = program.end();
    node.end_session();
    let numbers = events(&node.output(), "test:number").len();
    assert!(tried > 0, "the program recorded nothing");
    let removed = events(&node.output(), "syscall:unlinkat");
    let own: Vec<&str> =
        paths(&removed).into_iter().filter(|path| ["first", "second"].contains(path)).collect();
    assert_eq!(own, ["first", "second"]);
    for event in removed.iter().filter(|event| event["fields"]["pathname"] == "first") {
        assert_eq!(event["fields"]["ret"], 0);
        assert!(event["fields"]["duration"].as_u64().unwrap() > 0);
    }
    let executed = events(&node.output(), "process:exec");
    assert!(executed.iter().any(|event| event["fields"]["name"] == "rm"), "{executed:?}");
    if !is_installed("babeltrace2") {
        return skip("one_session", "babeltrace2 is not installed");
    }
    let peer = run(Command::new("babeltrace2").arg(node.output()));
    assert!(peer.status.success(), "{}", text(&peer.stderr));
    let lines = text(&peer.stdout);
    let count = |name: &str| lines.lines().filter(|line| line.contains(name)).count();
    assert_eq!(count("syscall:unlinkat"), removed.len());
    assert_eq!(count("test:number"), numbers);
}

/// The kernel's events of a request have the ids of the span that the thread showed.
#[test]
fn waits_belong_to_the_span_that_waits() {
    let node = Node::new();
    let rules: [&[&str]; 2] = [&["blkkin:*"], &["--kernel", "request:*", "request:syscall:*"]];
    let Some(_agent) = start("waits", &node, &rules) else { return };
    let mut program = Program::start(node.test_program(&[], "requests"));
    assert_eq!(program.count(), REQUESTS as u64);
    node.end_session();
    let spans = events(&node.output(), "blkkin:span");
    let sleeps: Vec<&Value> =
        spans.iter().filter(|span| span["fields"]["span_name"] == "sleep").collect();
    assert_eq!(sleeps.len(), REQUESTS);
    let waits = events(&node.output(), "request:wait");
    let runs = events(&node.output(), "blkkin:run");
    // Events of spans have the same ids as signed numbers.
    let id = |value: &Value| value.as_u64().or(value.as_i64().map(i64::cast_unsigned)).unwrap();
    let ids = |event: &Value| ["trace_id", "span_id"].map(|name| id(&event["fields"][name]));
    let label = |event: &Value, field: &str| event["fields"][field]["labels"][0].clone();
    // The rule for waits has also enabled runs.
    let has_run = |span: &Value| runs.iter().any(|run| ids(run) == ids(span));
    assert!(sleeps.iter().all(|span| has_run(span)), "{runs:#?}");
    // The tracer learns of the program a moment after it has started.
    let mut found = 0;
    for span in &sleeps {
        let of_span: Vec<&Value> =
            waits.iter().filter(|wait| ids(wait)[1] == ids(span)[1]).collect();
        assert!(of_span.iter().all(|wait| ids(wait) == ids(span)), "{of_span:#?}");
        let sleeping = of_span.iter().filter(|wait| label(wait, "reason") == "sleep");
        assert!(sleeping.into_iter().all(|wait| label(wait, "call") == "clock_nanosleep"));
        // A thread that is preempted between the start of its timer and its sleep waits for a
        // processor meanwhile.
        let times = ["blocked", "runnable"].into_iter();
        let times = times.flat_map(|name| of_span.iter().map(move |wait| &wait["fields"][name]));
        let waited = times.map(|time| time.as_u64().unwrap()).sum();
        found += usize::from(Duration::from_nanos(waited) >= SLEEP * 9 / 10);
    }
    let sleeping = waits.iter().filter(|wait| label(wait, "reason") == "sleep").count();
    assert!(sleeping >= REQUESTS / 2, "{sleeping}: {waits:#?}");
    assert!(found >= REQUESTS - 2, "{found} of {REQUESTS}: {waits:#?}");
    let mut spans = Command::new(env!("CARGO_BIN_EXE_blkkin"));
    let requests = run(spans.args(["spans", "--json"]).arg(node.output()));
    let requests = text(&requests.stdout);
    let calls = requests.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let calls = calls.filter(|line| line["name"] == "sleep").map(|span| span["calls"].clone());
    let slept = |call: &Value| {
        call["name"] == "clock_nanosleep"
            && call["duration"].as_u64() > Some(SLEEP.as_nanos() as u64)
    };
    let calls: Vec<Value> = calls.collect();
    let slept = calls.iter().filter(|calls| {
        calls.as_array().is_some_and(|calls| calls.iter().filter(|call| slept(call)).count() == 1)
    });
    let slept = slept.count();
    assert!(slept >= REQUESTS - 2, "{slept} of {REQUESTS}: {calls:#?}");
    if !is_installed("babeltrace2") {
        return skip("waits", "babeltrace2 is not installed");
    }
    let peer = run(Command::new("babeltrace2").arg(node.output()));
    assert!(peer.status.success(), "{}", text(&peer.stderr));
    let lines = text(&peer.stdout);
    let count = lines.lines().filter(|line| line.contains("request:wait")).count();
    assert_eq!(count, waits.len());
}

/// Processes, files, threads, programs and disks are known to the reader, although they are older
/// than the session; of other processes than the named ones, nothing is.
#[test]
fn the_state_at_the_start_is_recorded() {
    let node = Node::new();
    let path = node.directory.path().join("open file");
    let file = fs::File::create(&path).unwrap();
    let mut program = Command::new("sleep").arg("100").stdin(file).spawn().unwrap();
    let pid = program.id();
    let of_program = pid.to_string();
    let rules: [&[&str]; 2] =
        [&["--kernel", "process:exit", "--pid", &of_program], &["--kernel", "state:disk"]];
    let agent = start("state", &node, &rules);
    if agent.is_some() {
        // Rules for other events do not cause it to be recorded again.
        node.run(&["event", "enable", "--kernel", "process:exec", "--pid", &of_program]);
        node.run(&["event", "disable", "--kernel", "process:exit"]);
        node.end_session();
    }
    program.kill().unwrap();
    program.wait().unwrap();
    if agent.is_none() {
        return;
    }
    let of = |name: &str, field: &str| -> Vec<Value> {
        let events = events(&node.output(), name);
        assert!(events.iter().all(|event| event["fields"]["of_pid"] == pid));
        events.iter().map(|event| event["fields"][field].clone()).collect()
    };
    assert_eq!(of("state:process", "parent"), [std::process::id()]);
    let paths = of("state:file", "path");
    let place = paths.iter().position(|found| *found == path.to_str().unwrap()).unwrap();
    assert_eq!(of("state:file", "fd")[place], 0);
    assert_eq!(of("state:thread", "name"), ["sleep"]);
    let maps = of("state:map", "path");
    assert!(maps.iter().any(|path| path.as_str().unwrap().ends_with("/sleep")), "{maps:?}");
    let disks = events(&node.output(), "state:disk");
    let has = |name: &str| disks.iter().any(|disk| disk["fields"]["name"] == name);
    let entries = fs::read_dir("/sys/class/block").unwrap().map(|entry| entry.unwrap().file_name());
    let missing: Vec<_> = entries.filter(|name| !has(name.to_str().unwrap())).collect();
    assert!(missing.is_empty(), "{missing:?}");
    if is_installed("babeltrace2") {
        let peer = run(Command::new("babeltrace2").arg(node.output()));
        assert!(peer.status.success(), "{}", text(&peer.stderr));
        let lines = text(&peer.stdout);
        assert_eq!(lines.lines().filter(|line| line.contains("state:file")).count(), paths.len());
    }
}

#[test]
fn the_state_can_be_left_out() {
    let node = Node::new();
    let rules: [&[&str]; 2] = [
        &["--kernel", "*:exit", "--no-state"],
        &["--kernel", "process:exec", "-x", "state:p*,state:map,state:file,state:disk"],
    ];
    let Some(_agent) = start("no_state", &node, &rules) else { return };
    node.end_session();
    for (name, is_recorded) in [("process", false), ("file", false), ("thread", true)] {
        let events = events(&node.output(), &format!("state:{name}"));
        assert_eq!(!events.is_empty(), is_recorded, "{name}");
    }
}

#[test]
fn rules_change_while_the_kernel_is_recorded() {
    let node = Node::new();
    let Some(_agent) = start("rules_change", &node, &[&["--kernel", "process:exit"]]) else {
        return;
    };
    remove(&node, "rm", &["before"]);
    node.run(&["event", "enable", "--kernel", "syscall:unlink*"]);
    remove(&node, "rm", &["while"]);
    node.run(&["event", "disable", "--kernel", "syscall:*"]);
    remove(&node, "rm", &["after"]);
    node.end_session();
    let removed = events(&node.output(), "syscall:unlinkat");
    let own = |path: &&str| ["before", "while", "after"].contains(path);
    assert_eq!(paths(&removed).into_iter().filter(own).collect::<Vec<_>>(), ["while"]);
    // Probes that are still wanted are not attached again.
    let exits = events(&node.output(), "process:exit");
    assert!(exits.len() >= 3, "{exits:?}");
}

#[test]
fn processes_are_chosen_by_their_executable() {
    let node = Node::new();
    let rules: [&[&str]; 1] = [&["--kernel", "syscall:unlinkat", "--exe", "remover"]];
    let Some(_agent) = start("chosen", &node, &rules) else { return };
    remove(&node, "rm", &["one"]);
    remove(&node, "remover", &["two"]);
    node.end_session();
    assert_eq!(paths(&events(&node.output(), "syscall:unlinkat")), ["two"]);
}

#[test]
fn tracepoints_are_recorded_with_their_fields() {
    let node = Node::new();
    let rules: [&[&str]; 1] = [&["--kernel", "sched:sched_process_exec"]];
    let Some(_agent) = start("tracepoints", &node, &rules) else { return };
    remove(&node, "own-rm", &["file"]);
    node.end_session();
    let executed = events(&node.output(), "sched:sched_process_exec");
    let is_own = |event: &&Value| {
        event["fields"]["filename"].as_str().is_some_and(|path| path.ends_with("/own-rm"))
    };
    assert_eq!(executed.iter().filter(is_own).count(), 1, "{executed:?}");
}

/// Each of a program's calls is recorded once, or counted as lost.
#[test]
fn every_call_is_recorded() {
    const COUNT: u64 = 300_000;
    let node = Node::new();
    let rules: [&[&str]; 1] = [&["--kernel", "syscall:read,syscall:write", "--exe", "own-dd"]];
    let Some(_agent) = start("every_call", &node, &rules) else { return };
    let status = Command::new(own_dd(&node, "own-dd"))
        .args(["if=/dev/zero", "of=/dev/null", "bs=1", &format!("count={COUNT}"), "status=none"])
        .status();
    assert!(status.unwrap().success());
    node.end_session();
    let mut command = Command::new(env!("CARGO_BIN_EXE_blkkin"));
    let view = run(command.args(["view", "--json"]).arg(node.output()));
    let lines = text(&view.stdout);
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for name in ["syscall:read", "syscall:write"] {
        let needle = format!("\"name\":\"{name}\"");
        counts.insert(name, lines.lines().filter(|line| line.contains(&needle)).count() as u64);
    }
    let end: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!(end["events_lost"], 0, "{end}");
    assert_eq!(counts["syscall:write"], COUNT);
    assert!(counts["syscall:read"] >= COUNT, "{counts:?}");
}

/// Returns the path of a copy of `dd` with a name that other tests do not record.
fn own_dd(node: &Node, name: &str) -> PathBuf {
    let path = node.directory.path().join(name);
    if !path.exists() {
        fs::copy("/bin/dd", &path).unwrap();
    }
    path
}

/// Starts the program `busy`, which makes system calls at full speed. Each of them returns 1.
fn busy_program(node: &Node) -> Running {
    let mut command = Command::new(own_dd(node, "busy"));
    command.args(["if=/dev/zero", "of=/dev/null", "bs=1", "status=none"]);
    Running(command.spawn().unwrap())
}

/// Returns the losses of session `s` by detached probes.
fn detached(node: &Node) -> (u64, String) {
    let listed = node.run(&["session", "list", "s", "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let losses = listed["sessions"][0]["losses"].as_array().unwrap();
    let loss = losses.iter().find(|loss| loss["cause"] == "probe");
    let count = loss.map_or(0, |loss| loss["uncounted"].as_u64().unwrap());
    (count, loss.map_or("", |loss| loss["reason"].as_str().unwrap()).to_owned())
}

/// Returns a rule for all system calls of the busy programs and another program. Those of the busy
/// programs cost, but the filter keeps them out of the trace.
fn all_calls(executables: &str) -> Vec<&str> {
    vec!["--kernel", "syscall:*", "--exe", executables, "--filter", "ret != 1", "--no-state"]
}

/// Probes above the budget are detached, and attached again when the session starts again or its
/// rules change. Other probes of the session stay attached.
#[test]
fn probes_above_the_budget_are_detached() {
    let node = Node::new();
    let log = node.directory.path().join("log");
    let mut agent = Command::new("sh");
    agent.args(["-c", "exec \"$0\" agent --probe-budget 0.2% 2> \"$1\""]);
    agent.arg(env!("CARGO_BIN_EXE_blkkin")).arg(&log).env("BLKKIN_SOCKET", node.socket());
    let create = |name| vec!["channel", "create", "--kernel", name];
    let enable = |name, rule: &[&'static str]| [&["event", "enable", "-c", name], rule].concat();
    let channels = [
        create("costly"),
        create("rare"),
        enable("costly", &all_calls("busy,deleter,unseen")),
        enable("rare", &["--kernel", "process:exec"]),
    ];
    // On a busy machine, the agent answers before the probes are attached.
    let remove_often = |name: &str| {
        for _ in 0..10 {
            remove(&node, "deleter", &[name]);
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let Some(_agent) = start_with("above_budget", &node, agent, &channels) else { return };
    remove_often("first");

    let busy = busy_program(&node);
    eventually("the probes are detached", || (detached(&node).0 == 1).then_some(()));
    remove(&node, "unseen", &["not recorded"]);
    let (_, reason) = detached(&node);
    let expected = ["`syscall:accept`, ", " more: detached, ", " %. They", "; the budget is 0.2 %"];
    assert!(expected.iter().all(|part| reason.contains(part)), "{reason}");
    for arguments in [&["session", "list", "s"][..], &["status"]] {
        let text = node.run(arguments);
        assert!(text.contains("events of 1 probe: "), "{text}");
        assert!(text.contains(&reason), "{text}");
    }
    let logged = fs::read_to_string(&log).unwrap();
    assert!(logged.contains(&reason), "{logged}");
    busy.kill();

    node.run(&["session", "stop", "s"]);
    node.run(&["session", "start", "s"]);
    remove_often("second");

    let busy = busy_program(&node);
    eventually("they are detached again", || (detached(&node).0 == 2).then_some(()));
    remove(&node, "unseen", &["not recorded"]);
    busy.kill();
    node.run(&["event", "disable", "-c", "costly", "--kernel", "syscall:write"]);
    remove_often("third");
    node.end_session();

    let removed = events(&node.output(), "syscall:unlinkat");
    let mut removed = paths(&removed);
    removed.dedup();
    assert_eq!(removed, ["first", "second", "third"]);
    let executed = events(&node.output(), "process:exec");
    let unseen = executed.iter().filter(|event| event["fields"]["name"] == "unseen");
    assert_eq!(unseen.count(), 2, "{executed:?}");
    let detached = events(&node.output(), "blkkin:probes_detached");
    assert_eq!(detached.len(), 2);
    for event in detached {
        let fields = &event["fields"];
        assert_eq!(fields["budget_percent"], 0.2);
        let [share, total] =
            ["share_percent", "total_percent"].map(|name| fields[name].as_f64().unwrap());
        assert!(share > 0.2 && share <= total, "{event}");
        assert!(fields["probes"].as_str().unwrap().starts_with("syscall:accept, "), "{event}");
    }
}

fn refused(node: &Node, arguments: &[&str]) -> String {
    let output: Output = node.command(arguments).output().unwrap();
    assert!(!output.status.success(), "{arguments:?}: {output:?}");
    text(&output.stderr)
}

#[test]
fn events_that_the_kernel_lacks_are_reported() {
    let node = Node::new();
    let Some(_agent) = start("reported", &node, &[&["--kernel", "process:exec"]]) else { return };
    let message = refused(&node, &["event", "enable", "--kernel", "syscall:opennat"]);
    assert!(message.contains("`syscall:opennat`"), "{message}");
    let listed = node.run(&["session", "list", "s"]);
    assert!(listed.contains("kernel0"), "{listed}");
    let message = refused(&node, &["event", "enable", "-c", "kernel0", "test:*"]);
    assert!(message.contains("records events of the kernel"), "{message}");
}

#[test]
fn a_session_goes_on_without_the_tracer() {
    let node = Node::new();
    let rules: [&[&str]; 2] = [&["test:*"], &["--kernel", "syscall:unlinkat"]];
    let Some(agent) = start("goes_on", &node, &rules) else { return };
    remove(&node, "rm", &["file"]);
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", agent.id())).unwrap();
    let tracer: i32 = children.split_whitespace().next().unwrap().parse().unwrap();
    let tracer = rustix::process::Pid::from_raw(tracer).unwrap();
    rustix::process::kill_process(tracer, rustix::process::Signal::KILL).unwrap();
    let program = node.program(100, 1000);
    let tried = program.end();
    node.end_session();
    eventually("the program's events are written", || {
        (events(&node.output(), "test:number").len() as u64 >= tried.min(1)).then_some(())
    });
    // Events up to the tracer's end were in memory that the agent had mapped.
    assert!(paths(&events(&node.output(), "syscall:unlinkat")).contains(&"file"));
}

/// Returns true if a file below `directory` contains these bytes.
fn contains(directory: &Path, bytes: &[u8]) -> bool {
    fs::read_dir(directory).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => contains(&path, bytes),
            false => fs::read(path).unwrap().windows(bytes.len()).any(|window| window == bytes),
        }
    })
}

/// The texts of redacted fields are nowhere in the trace, also not in its state; equal texts have
/// equal hashes. Filters are evaluated on the texts.
#[test]
fn redacted_texts_are_nowhere_in_the_trace() {
    let node = Node::new();
    let open = node.directory.path().join("private-open");
    let _open = fs::File::create(&open).unwrap();
    let rules: [&[&str]; 3] = [
        &[
            "--kernel",
            "syscall:unlinkat",
            "--filter",
            "pathname == \"private-*\"",
            "--redact",
            "path*=hash,pathname=hash",
        ],
        &["--kernel", "syscall:openat", "--exe", "cat", "--redact", "filename=length"],
        &["--kernel", "process:exec", "--redact", "*=hash"],
    ];
    let Some(_agent) = start("redacted", &node, &rules) else { return };
    remove(&node, "rm", &["private-a", "private-b", "other"]);
    remove(&node, "rm", &["private-a"]);
    remove(&node, "private-program", &["private-c"]);
    let read = Command::new("cat").arg(&open).status().unwrap();
    assert!(read.success());
    let listed = node.run(&["session", "list", "s"]);
    assert!(listed.contains("--redact path*=hash --redact pathname=hash"), "{listed}");
    node.end_session();

    let removed = events(&node.output(), "syscall:unlinkat");
    let hashes: Vec<&Value> =
        removed.iter().map(|event| &event["fields"]["pathname_hash"]).collect();
    let [a, b, again, c] = hashes[..] else { panic!("{removed:#?}") };
    assert!(a == again && a != b && b != c && a != c, "{hashes:?}");
    assert!(removed.iter().all(|event| event["fields"]["pathname"].is_null()), "{removed:#?}");
    let opened = events(&node.output(), "syscall:openat");
    let length = open.to_str().unwrap().len();
    let is_open = |event: &Value| event["fields"]["filename_length"] == length;
    assert!(opened.iter().any(is_open), "{opened:#?}");
    let executed = events(&node.output(), "process:exec");
    for field in ["filename_hash", "name_hash"] {
        let hashes = executed.iter().filter_map(|event| event["fields"][field].as_u64());
        assert!(hashes.collect::<BTreeSet<u64>>().len() >= 3, "{executed:#?}");
    }
    // The strictest method of all rules holds for the state.
    let files = events(&node.output(), "state:file");
    let is_own = |file: &&Value| file["fields"]["of_pid"] == std::process::id();
    let mut own_files = files.iter().filter(is_own);
    assert!(own_files.any(|file| file["fields"]["path_length"] == length), "{files:#?}");

    // The name of the hash's field shows that the search finds what is there.
    assert!(contains(&node.output(), b"pathname_hash"));
    assert!(!contains(&node.output(), b"private-"));
    if is_installed("babeltrace2") {
        let peer = run(Command::new("babeltrace2").arg(node.output()));
        assert!(peer.status.success(), "{}", text(&peer.stderr));
        let lines = text(&peer.stdout);
        assert_eq!(lines.lines().filter(|line| line.contains("pathname_hash = 0x")).count(), 4);
    }
}

/// A mistaken redaction is reported with the nearest field, and nothing is recorded by its rule.
#[test]
fn mistaken_redactions_are_reported() {
    let node = Node::new();
    let message = refused(&node, &["event", "enable", "test:*", "--redact", "name=hash"]);
    assert!(message.contains("--redact is only for events of the kernel"), "{message}");
    let message = refused(&node, &["event", "enable", "--kernel", "*:*", "--redact", "name=md5"]);
    assert!(message.contains("`name=md5` is no redaction"), "{message}");
    let Some(_agent) = start("mistaken", &node, &[&["--kernel", "process:exit"]]) else { return };
    let enable = |probe: &str, redaction: &str| {
        refused(&node, &["event", "enable", "--kernel", probe, "--redact", redaction])
    };
    // It is not recorded by an earlier rule either, without the redaction.
    node.run(&["event", "enable", "--kernel", "syscall:unlinkat"]);
    let message = enable("syscall:unlinkat", "pathnam=hash");
    let expected = "`syscall:unlinkat`: no event has a text `pathnam` to redact; did you mean \
                    `pathname`?";
    assert!(message.contains(expected), "{message}");
    let message = enable("syscall:openat", "flags=hash");
    assert!(message.contains("`flags` of `syscall:openat` is no text and no bytes"), "{message}");
    let program = std::env::current_exe().unwrap();
    let uprobe = format!("uprobe:{}:main", program.display());
    let message =
        refused(&node, &["event", "enable", "--probe", &uprobe, "--redact", "arg0=length"]);
    assert!(message.contains("`arg0` of `uprobe:"), "{message}");
    remove(&node, "rm", &["unredacted"]);
    node.end_session();
    // Events of other processes may be recorded before the mistaken rule is given.
    let is_own = |event: &Value| event["fields"]["pathname"].as_str() == Some("unredacted");
    let removed = events(&node.output(), "syscall:unlinkat");
    assert!(!removed.iter().any(is_own), "{removed:#?}");
}

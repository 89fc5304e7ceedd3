//! Promise C1: servers, agents and programs work in time namespaces with shifted clocks.

use super::*;
use crate::support::server::{Server, on_free_ports};
use std::net::TcpStream;
use std::time::{SystemTime, UNIX_EPOCH};

const YEAR: i64 = 365 * 86400;

/// Returns a command prefix that starts a program in a time namespace whose monotonic and boot-time
/// clocks are ahead by `seconds`, or behind if negative. The time of day cannot be shifted.
fn ahead(seconds: i64) -> Vec<String> {
    let [monotonic, boottime] =
        ["monotonic", "boottime"].map(|clock| format!("--{clock}={seconds}"));
    ["unshare", "--time", "--fork", "--kill-child", &monotonic, &boottime].map(str::to_owned).into()
}

/// Returns true if the test runs as root and can create time namespaces; otherwise reports the test
/// as skipped.
fn can_shift(test: &str) -> bool {
    if !can(test, &["unshare"]) {
        return false;
    }
    let starter = ahead(YEAR);
    let is_done = Command::new(&starter[0]).args(&starter[1..]).arg("true").status();
    let is_done = is_done.is_ok_and(|status| status.success());
    if !is_done {
        skip(test, "there are no time namespaces");
    }
    is_done
}

/// Returns a negative clock shift in seconds: half of the machine's uptime. A clock cannot be set
/// back by more than the uptime.
fn behind() -> i64 {
    -i64::try_from(blkkin_sys::monotonic_ns() / 2_000_000_000).unwrap()
}

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

#[test]
fn c1_servers_whose_clocks_are_years_apart() {
    if !can_shift("c1_servers_whose_clocks_are_years_apart") {
        return;
    }
    let node = Node::new();
    let began_us = now_ns() / 1000;
    let rounds = [0, YEAR, behind(), 0];
    for (round, shift) in (1..).zip(rounds) {
        let starter = ahead(shift);
        let mut command = Command::new(&starter[0]);
        command.args(&starter[1..]).arg(env!("CARGO_BIN_EXE_blkkin"));
        command.current_dir(node.directory.path());
        let mut server = Server::start(on_free_ports(&mut command).args(["--data", "kept"]));
        let spans = format!(
            r#"[{{"traceId":"{round}","id":"b","name":"work-{round}","timestamp":{},"duration":{round}000}}]"#,
            began_us + round
        );
        let kind = "content-type: application/json\r\n";
        let reply = server.ask("POST", "/api/v2/spans", kind, spans.as_bytes());
        assert!(reply.starts_with("HTTP/1.1 202 "), "{shift}: {reply}");
        // All requests are present, in order and unchanged.
        let reply = server.ask("GET", "/api/blkkin/v1/search?order=slowest", "", b"");
        let body = reply.split_once("\r\n\r\n").unwrap().1;
        let answer: serde_json::Value = serde_json::from_str(body).unwrap();
        let requests = answer["requests"].as_array().unwrap();
        let durations: Vec<u64> =
            requests.iter().map(|request| request["durationNs"].as_u64().unwrap()).collect();
        let expected: Vec<u64> = (1..=round).rev().map(|round| round * 1_000_000).collect();
        assert_eq!(durations, expected, "{shift}");
        let reply = server.ask("GET", "/api/blkkin/v1/status", "", b"");
        let body = reply.split_once("\r\n\r\n").unwrap().1;
        let status: serde_json::Value = serde_json::from_str(body).unwrap();
        assert!(status["uptimeSeconds"].as_f64().unwrap() < 600.0, "{shift}: {status}");
        server.child.kill().unwrap();
        server.child.wait().unwrap();
        // The server ends a moment after its parent.
        eventually("its end", || TcpStream::connect(server.web).is_err().then_some(()));
    }
    figure("C1", "4 servers of one store, their clocks a year apart: all is there, in order");
}

#[test]
fn c1_agents_and_programs_whose_clocks_are_years_apart() {
    if !can_shift("c1_agents_and_programs_whose_clocks_are_years_apart") {
        return;
    }
    for (agent, program) in [(0, YEAR), (0, behind()), (YEAR, 0), (behind(), YEAR)] {
        let node = Node::new();
        let began_ns = now_ns();
        let starter = ahead(agent);
        let mut command = Command::new(&starter[0]);
        command.args(&starter[1..]).arg(env!("CARGO_BIN_EXE_blkkin")).arg("agent");
        command.env("BLKKIN_SOCKET", node.socket());
        let _agent = node.agent_by(command);
        node.record_all();
        let starter = ahead(program);
        let starter: Vec<&str> = starter.iter().map(String::as_str).collect();
        let program_at = program;
        let program = node.program_behind(&starter, 10, 1000);
        eventually("it is written", || (!traces_below(&node.output()).is_empty()).then_some(()));
        std::thread::sleep(Duration::from_millis(50));
        let tried = program.end();
        node.end_session();
        assert_eq!(check_all(&node.output(), tried), 0);
        let times = times(&node.output());
        let why = format!("an agent at {agent}, a program at {program_at}");
        assert!(times.is_sorted() && times.len() as u64 == tried, "{why}");
        // Frequencies are measured, so times are right within milliseconds; the clocks are years
        // apart.
        let slack_ns = 1_000_000_000;
        let real = began_ns - slack_ns..now_ns() + slack_ns;
        let wrong = times.iter().find(|time| !real.contains(time));
        assert!(wrong.is_none(), "{why}: {wrong:?} is not in {real:?}");
    }
    figure(
        "C1",
        "agents and programs in time namespaces a year apart: order and time of day right",
    );
}

/// Returns the times of a trace's events, in nanoseconds since 1970, in the order of printing.
fn times(output: &Path) -> Vec<u64> {
    let view = run(Command::new(env!("CARGO_BIN_EXE_blkkin")).args(["view", "--json"]).arg(output));
    let lines = view.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    lines
        .filter(|line| line["type"] == "event")
        .map(|line| line["time"].as_u64().unwrap())
        .collect()
}

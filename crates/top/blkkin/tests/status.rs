//! Output of `blkkin status` for the counters of the node's agent, once and repeatedly.

mod support;

use blkkin_control::{
    Applications, Cause, EvictedRings, Loss, Processes, Quota, Reply, Request, Ring, RingTotals,
};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use support::agent::{answer, check, check_failure, command, list, no_such_session, run_command};
use support::process::{Running, handles_sigint, until};
use support::stand_in::StandIn;
use support::{is_installed, skip};

fn ring(session: &str, pid: u32, cpu: Option<u32>, look: u64) -> Reply {
    Reply::Ring(Ring {
        session: session.into(),
        channel: "main".into(),
        pid,
        cpu,
        time_ns: 1_000_000_000 + look * 500_000_000,
        events_recorded: (pid == 7).then_some(100 + look * 1000),
        events_discarded: if pid == 8 { 3 + look * 2 } else { 0 },
        packets_taken: 5,
        packets_lost: 1,
        bytes_written: look * 5000,
        bytes_waiting: 30,
        size: 100,
        events_cut: if pid == 8 { 6 } else { 0 },
    })
}

/// Returns a stand-in agent whose counters grow with each request.
fn busy() -> StandIn {
    let looks = AtomicU64::new(0);
    StandIn::answering(move |request| {
        let Request::Status(session) = request else { return answer(request) };
        if session.as_deref().is_some_and(|name| name == "wbe") {
            return no_such_session("wbe");
        }
        let look = looks.fetch_add(1, Ordering::Relaxed);
        let ended = RingTotals {
            session: "web".into(),
            channel: "main".into(),
            rings: 4,
            events_recorded: Some(12),
            events_discarded: 2,
            packets_taken: 9,
            packets_lost: 0,
            bytes_written: 77,
            events_cut: 0,
        };
        vec![
            ring("web", 7, Some(0), look),
            ring("web", 7, Some(1), look),
            ring("web", 8, None, look),
            ring("flight", 7, Some(0), look),
            Reply::Ended(ended),
            Reply::Released(EvictedRings {
                session: "flight".into(),
                channel: "main".into(),
                rings: 3,
                packets_lost: 4,
            }),
            Reply::Done,
        ]
    })
}

const STATUS_HEAD: &str = "\
agent at AGENT, release 0.9

SESSION  STATE   PURPOSE   CHANNELS  RULES  LOST  OUTPUT
web      active  record           2      2  -     /data/web
flight   new     snapshot         0      0  -     -

PROGRAM  PID  USER  EVENT TYPES  RELEASE
osd7       7  1000            2  0.2
osd8       8  1000            2  0.2

";

const STATUS_ROWS: &str = "\
SESSION  CHANNEL  PROGRAM  PID  RINGS  EVENTS  EVENTS/S  BYTES/S  FILLED  DISCARDED  LOST PACKETS
flight   main     osd7       7      1    1100      2.0k    10.0k     30%          0             1
web      main     osd7       7      2    2200      4.0k    20.0k     30%          0             2
web      main     osd8       8      1       -         -    10.0k     30%   5 (+4/s)             1
web      main     (ended)    -      4      12         -        -       -          2             0
";

const STATUS_LOST: &str = "
session web, channel main, process 8: long strings of 6 events were shortened (--string-max)
to make room, 3 old rings of session flight, channel main, had to go: 4 packets
lost in all: 7 events, 7 packets
";

fn status_requests(name: Option<&str>) -> [Request; 4] {
    let status = || Request::Status(name.map(str::to_owned));
    let processes = Processes::default();
    let applications = Applications { processes, event_types: false };
    [status(), list(name), Request::ListApplications(applications), status()]
}

#[test]
fn a_status() {
    let out = format!("{STATUS_HEAD}{STATUS_ROWS}{STATUS_LOST}");
    let arguments = ["status", "--interval", "0"];
    check(&busy(), &arguments, &status_requests(None), &out, "");
    let told = run_command(&busy(), &["status", "web", "--interval=0"]);
    assert_eq!(told.requests, status_requests(Some("web")));
    let rings = run_command(&busy(), &["status", "--interval=0", "--rings"]);
    let lines = [
        "SESSION  CHANNEL  PROGRAM  PID  CPU  EVENTS  ",
        "web      main     osd7       7    1    1100  ",
        "web      main     osd8       8  any       -  ",
        "web      main     (ended)    -    -      12  ",
    ];
    for line in lines {
        assert!(rings.out.contains(line), "{line}: {}", rings.out);
    }
    let red = run_command(&busy(), &["status", "--interval=0", "--color=always"]);
    for part in [
        "  \x1b[1m\x1b[31m5 (+4/s)\x1b[0m  ",
        "  \x1b[1m\x1b[31m2\x1b[0m  ",
        "\x1b[31mlost in all: 7 events",
    ] {
        assert!(red.out.contains(part), "{part:?}: {:?}", red.out);
    }
    let nothing = StandIn::answering(|_| vec![Reply::Done]);
    let out = "agent at AGENT, release 0.9\n\nno session\n\nno program that could be traced\n\n\
               nothing was lost\n";
    check(&nothing, &["status", "-i0"], &status_requests(None), out, "");
    check_failure(
        &busy(),
        &["status", "wbe"],
        &[Request::Status(Some("wbe".into())), list(None)],
        1,
        "error: there is no session `wbe` [no-such-session] (agent at AGENT)\nhint: did you mean `web`?\n",
    );
}

#[test]
fn a_status_as_json() {
    let told = run_command(&busy(), &["status", "--interval=0", "--json"]);
    let object: serde_json::Value = serde_json::from_str(&told.out).expect("JSON");
    let keys = ["schema", "agent", "release", "lost"].map(|key| object[key].clone());
    let lost = serde_json::json!({
        "events": 7, "packets": 7, "uncounted": false, "causes": [],
    });
    assert_eq!(keys, ["blkkin.status.v1".into(), "AGENT".into(), "0.9".into(), lost]);
    let released = serde_json::json!([
        { "session": "flight", "channel": "main", "rings": 3, "packets_lost": 4 }
    ]);
    assert_eq!(object["released"], released);
    let row = |session: &str, ended: bool, pid| {
        let seen = object["programs"].as_array().expect("a list");
        let found = seen
            .iter()
            .find(|row| row["session"] == session && row["ended"] == ended && row["pid"] == pid);
        found.unwrap_or_else(|| panic!("{session} {pid}: {object}")).clone()
    };
    let expected = serde_json::json!({
        "session": "web",
        "channel": "main",
        "ended": false,
        "pid": 8,
        "program": "osd8",
        "rings": 1,
        "events_recorded": null,
        "events_discarded": 5,
        "packets_taken": 5,
        "packets_lost": 1,
        "bytes_written": 5000,
        "bytes_waiting": 30,
        "size": 100,
        "events_cut": 6,
        "rates": { "events_recorded": null, "events_discarded": 4.0, "bytes_written": 10000.0 },
    });
    assert_eq!(row("web", false, serde_json::json!(8)), expected);
    assert_eq!(row("web", true, serde_json::Value::Null)["events_discarded"], 2);
    let rings = run_command(&busy(), &["status", "--interval=0", "--json", "--rings"]);
    let object: serde_json::Value = serde_json::from_str(&rings.out).expect("JSON");
    assert_eq!(object["rings"].as_array().map(Vec::len), Some(5));
    assert_eq!(object["rings"][2]["cpu"], 1);
}

/// The JSON output always has the quotas of users; the table has them only if requests were
/// refused.
#[test]
fn quotas() {
    let quota = |what: &str, used, refused| {
        Reply::Quota(Quota { uid: 1000, what: what.into(), used, limit: 5, refused })
    };
    let daemon = StandIn::answering(move |request| match request {
        Request::Status(_) => vec![quota("ring-bytes", 4, 2), quota("things", 3, 0), Reply::Done],
        _ => vec![Reply::Done],
    });
    let told = run_command(&daemon, &["status", "--interval=0"]);
    let expected =
        "\nrefused 2 times: user 1000 has 4 of 5 ring-bytes\nnothing else is known to be lost\n";
    assert!(told.out.ends_with(expected), "{}", told.out);
    let told = run_command(&daemon, &["status", "--interval=0", "--json"]);
    let object: serde_json::Value = serde_json::from_str(&told.out).expect("JSON");
    let quota = |what, used, refused| serde_json::json!({ "uid": 1000, "what": what, "used": used, "limit": 5, "refused": refused });
    assert_eq!(
        object["quotas"],
        serde_json::json!([quota("ring-bytes", 4, 2), quota("things", 3, 0)])
    );
}

/// Losses are shown by cause, also the losses of destroyed sessions. The exit status depends on
/// existing sessions only.
#[test]
fn losses_by_cause() {
    let loss = |session: &str, cause, [events, packets, uncounted]: [u64; 3]| {
        let (session, is_destroyed) = (session.to_owned(), session == "gone");
        let reason = (cause == Cause::Output).then(|| "No space left".to_owned());
        Reply::Loss(Loss { session, is_destroyed, cause, events, packets, uncounted, reason })
    };
    let all = move |sessions: &[&str]| {
        let losses = [
            loss("web", Cause::RingFull, [7, 0, 0]),
            loss("web", Cause::Output, [1, 2, 0]),
            loss("gone", Cause::CutOff, [0, 0, 1]),
        ];
        let is_meant = |reply: &Reply| match reply {
            Reply::Loss(loss) => sessions.contains(&&*loss.session),
            _ => false,
        };
        let mut replies: Vec<Reply> = losses.into_iter().filter(is_meant).collect();
        replies.push(Reply::Done);
        replies
    };
    let daemon = |sessions: &'static [&'static str]| {
        StandIn::answering(move |request| match request {
            Request::Status(_) => all(sessions),
            _ => vec![Reply::Done],
        })
    };
    let told = run_command(&daemon(&["web", "gone"]), &["status", "--interval=0"]);
    let expected = "\
session web lost 7 events: programs recorded faster than the agent reads (larger rings: --subbuf-size, --num-subbuf; or have programs wait: --blocking)
session web lost 1 event, 2 packets: the trace could not be written: No space left
destroyed session gone lost an unknown number of events of 1 program: the program and its agent ended at the same time
lost in all: 8 events, 2 packets
";
    assert!(told.out.ends_with(expected), "{}", told.out);
    assert_eq!(told.status, 3);
    let told = run_command(&daemon(&["gone"]), &["status", "--interval=0"]);
    assert!(told.out.ends_with("\nlost in all: an unknown number of events\n"), "{}", told.out);
    assert_eq!(told.status, 0);
    let told = run_command(&daemon(&["web"]), &["status", "--interval=0", "--json"]);
    let object: serde_json::Value = serde_json::from_str(&told.out).expect("JSON");
    let expected = serde_json::json!({
        "cause": "output", "events": 1, "packets": 2, "uncounted": 0, "reason": "No space left",
        "session": "web", "destroyed": false,
    });
    assert_eq!(object["lost"]["causes"][1], expected);
}

/// The command `status --watch` runs until Ctrl-C, a closed pipe, or the end of the agent.
#[test]
fn a_status_that_goes_on() {
    let daemon = busy();
    let watch = |arguments: &[&str]| {
        let arguments = [&["status", "--watch"], arguments].concat();
        Running::start(&mut command(&daemon.path, &arguments))
    };
    let mut running = watch(&["--interval=0.01", "--json"]);
    for _ in 0..3 {
        let object: serde_json::Value = serde_json::from_str(&running.line()).expect("JSON");
        assert_eq!(object["schema"], "blkkin.status.v1");
        assert_eq!(object["programs"][0]["rates"]["bytes_written"], 10000.0);
    }
    running.interrupt();
    let ended = running.end();
    assert_eq!((ended.status.code(), ended.errors), (Some(130), vec![]));

    // Ctrl-C also interrupts the wait for the next interval.
    let running = watch(&["--interval=1000"]);
    until("it listens", || handles_sigint(running.id()));
    running.interrupt();
    let ended = running.end();
    assert_eq!((ended.status.code(), ended.lines, ended.errors), (Some(130), vec![], vec![]));

    let mut running = watch(&["--interval=0.01"]);
    assert!(running.line().starts_with("agent at /"));
    running.close();
    let ended = running.end();
    assert_eq!((ended.status.code(), ended.errors), (Some(0), vec![]));

    let gone = StandIn::of(|mut conversation| {
        let Some((_, mut decoder)) = conversation.welcome() else { return };
        conversation.receive_request(&mut decoder);
        conversation.send(&Reply::Done);
    });
    let told = run_command(&gone, &["status", "--watch", "--interval=0.01"]);
    assert!(
        told.errors.starts_with("error: the agent at AGENT went away before"),
        "{}",
        told.errors
    );
    assert_eq!(told.status, 1);
}

/// The table is redrawn in place on a terminal. The test uses the pseudo-terminal of the program
/// `script`.
#[test]
fn a_status_on_a_terminal() {
    if !is_installed("script") {
        return skip("status", "script is not installed");
    }
    let daemon = busy();
    let program = env!("CARGO_BIN_EXE_blkkin");
    let line = format!("{program} status --watch --interval 0.01");
    let mut script = Command::new("script");
    script.args(["-q", "-e", "-c", &line, "/dev/null"]).env("TERM", "xterm");
    let mut running =
        Running::start(script.env("BLKKIN_SOCKET", &daemon.path).env_remove("NO_COLOR"));
    for _ in 0..2 {
        until("it is drawn", || running.line().starts_with("\x1b[H\x1b[Jagent at /"));
        until("losses are red", || running.line().starts_with("\x1b[1m\x1b[31mlost in all: "));
    }
}

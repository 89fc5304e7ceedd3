//! Commands that talk to the node's agent: what they ask, and what they print of the answer. A
//! stand-in speaks the agent's part; its socket shows as `AGENT`.

#[path = "../../../carry/client/tests/support/mod.rs"]
mod stand_in;
mod support;

use blkkin_control::{
    Activity, Application, Applications, Channel, Clock, Context, Ended, EventType, Events, Failed,
    Field, FieldKind, Level, Levels, Mode, NewChannel, Processes, Purpose, Reply, Request, Ring,
    Rule, Selection, Session, SessionState, Snapshot, Width, code,
};
use stand_in::StandIn;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use support::process::{Running, listens, until};
use support::{blkkin, run, text};

fn session(name: &str, activity: Activity) -> Reply {
    let purpose = if name == "flight" { Purpose::Snapshot } else { Purpose::Record };
    let output = (name == "web").then(|| "/data/web".into());
    Reply::Session(SessionState {
        session: Session { name: name.into(), purpose, output },
        activity,
        owner: 1000,
        created_ns: 1_795_165_182_000_000_000,
    })
}

fn channel(name: &str) -> Channel {
    Channel {
        name: name.into(),
        mode: Mode::Overwrite,
        subbuffer_size: Some(256 << 10),
        subbuffer_count: Some(4),
        contexts: vec![Context::Pid, Context::Supplied { name: "db:query".into() }],
    }
}

fn all() -> Selection {
    Selection {
        names: vec!["*".into()],
        excluded: vec![],
        levels: Levels::Any,
        filter: None,
        processes: Processes::default(),
    }
}

fn selection() -> Selection {
    Selection {
        names: vec!["rpc:*".into(), "disk:*".into()],
        excluded: vec!["rpc:ping".into()],
        levels: Levels::AtLeast { level: Level::Warning },
        filter: Some("ret < 0".into()),
        processes: Processes { pids: vec![7, 8], executables: vec!["osd*".into()], children: true },
    }
}

/// The session `web`, with all that it has.
fn web() -> Vec<Reply> {
    let rule =
        |enabled, selection| Reply::Rule(Rule { channel: "main".into(), enabled, selection });
    let plain = Channel {
        name: "plain".into(),
        mode: Mode::Discard,
        subbuffer_size: None,
        subbuffer_count: None,
        contexts: vec![],
    };
    vec![
        session("web", Activity::Active),
        Reply::Channel(channel("main")),
        Reply::Channel(plain),
        rule(true, selection()),
        rule(false, all()),
    ]
}

fn application(pid: u32) -> Reply {
    Reply::Application(Application {
        pid,
        pid_inner: pid,
        uid: 1000,
        program: format!("osd{pid}"),
        executable: if pid == 7 { "/usr/bin/osd".into() } else { String::new() },
        release: "0.2".into(),
        clock: Clock::Tsc,
        event_type_count: 2,
    })
}

fn event_type(name: &str) -> Reply {
    let field = |name: &str, kind| Field { name: name.into(), kind };
    let signed = FieldKind::Signed { width: Width::Bits32, hex: false };
    Reply::EventType(EventType {
        index: 0,
        name: name.into(),
        level: Level::Info,
        file: if name == "rpc:send" { "rpc.c".into() } else { String::new() },
        line: 12,
        fields: vec![field("ret", signed), field("name", FieldKind::String)],
    })
}

fn failed(code: &str, message: &str) -> Vec<Reply> {
    vec![Reply::Failed(Failed { code: code.into(), message: message.into(), hint: None })]
}

fn no_such_session(name: &str) -> Vec<Reply> {
    failed(code::NO_SUCH_SESSION, &format!("there is no session `{name}`"))
}

/// Knows the sessions `web` (that records) and `flight`.
fn answer(request: &Request) -> Vec<Reply> {
    let mut replies = match request {
        Request::CreateSession(session) if session.name == "web" => {
            return failed(code::SESSION_EXISTS, "there is a session `web`");
        }
        Request::CreateSession(session) => {
            let path = format!("/data/{}", session.name).into();
            vec![Reply::Written(session.output.clone().unwrap_or(path))]
        }
        Request::Snapshot(snapshot) => {
            let path = snapshot.output.clone().unwrap_or("/data/flight-1".into());
            vec![Reply::Written(path)]
        }
        Request::ListSessions(None) => {
            let mut both = web();
            both.push(session("flight", Activity::New));
            both
        }
        Request::ListSessions(Some(name)) if name == "web" => web(),
        Request::ListSessions(Some(name)) if name == "flight" => {
            vec![session("flight", Activity::New)]
        }
        Request::ListSessions(Some(name))
        | Request::StartSession(name)
        | Request::StopSession(name)
        | Request::ClearSession(name)
        | Request::DestroySession(name)
        | Request::Status(Some(name))
            if !["web", "flight"].contains(&name.as_str()) =>
        {
            return no_such_session(name);
        }
        Request::EnableEvents(events) => match events.channel.as_deref() {
            None => return failed(code::WHICH_CHANNEL, "the session has several channels"),
            Some("mian") => return failed(code::NO_SUCH_CHANNEL, "there is no channel `mian`"),
            Some(_) => vec![],
        },
        Request::ListApplications(Applications { event_types: true, .. }) => {
            vec![application(7), event_type("rpc:send"), event_type("disk:read"), application(8)]
        }
        Request::ListApplications(_) => vec![application(7), application(8)],
        Request::GetSampling => vec![Reply::Sampling(Some("1/100,50/s".into()))],
        _ => vec![],
    };
    replies.push(Reply::Done);
    replies
}

/// Knows one session only.
fn answer_one(request: &Request) -> Vec<Reply> {
    match request {
        Request::ListSessions(_) => [web(), vec![Reply::Done]].concat(),
        _ => vec![Reply::Done],
    }
}

/// What a command has asked, and its exit status, output and errors.
struct Told {
    requests: Vec<Request>,
    status: i32,
    out: String,
    errors: String,
}

fn command(daemon: &Path, arguments: &[&str]) -> Command {
    let mut command = blkkin(Path::new("/tmp"));
    command.env("BLKKIN_SOCKET", daemon).args(arguments);
    command
}

fn tell(daemon: &StandIn, arguments: &[&str]) -> Told {
    let output = run(&mut command(&daemon.path, arguments));
    let agent = daemon.path.display().to_string();
    Told {
        requests: daemon.requests(),
        status: output.status.code().expect("an exit status"),
        out: text(&output.stdout).replace(&agent, "AGENT"),
        errors: text(&output.stderr).replace(&agent, "AGENT"),
    }
}

/// Checks a command that does what it should: what it asks, and what it prints.
#[track_caller]
fn check(daemon: &StandIn, arguments: &[&str], requests: &[Request], out: &str, errors: &str) {
    let told = tell(daemon, arguments);
    assert_eq!((told.out.as_str(), told.errors.as_str()), (out, errors));
    assert_eq!(told.requests, requests);
    assert_eq!(told.status, 0);
}

/// Checks a command that does not.
#[track_caller]
fn check_failure(
    daemon: &StandIn,
    arguments: &[&str],
    requests: &[Request],
    status: i32,
    errors: &str,
) {
    let told = tell(daemon, arguments);
    assert_eq!((told.out.as_str(), told.errors.as_str()), ("", errors));
    assert_eq!(told.requests, requests);
    assert_eq!(told.status, status);
}

fn list(name: Option<&str>) -> Request {
    Request::ListSessions(name.map(str::to_owned))
}

#[test]
fn sessions_are_made() {
    let daemon = StandIn::answering(answer);
    let create = |name: &str, purpose, output: Option<&str>| {
        let output = output.map(Into::into);
        [Request::CreateSession(Session { name: name.into(), purpose, output })]
    };
    check(
        &daemon,
        &["session", "create", "a"],
        &create("a", Purpose::Record, None),
        "/data/a\n",
        "session `a` made; it writes to the directory below (agent at AGENT)\n",
    );
    // The agent is somewhere else.
    check(
        &daemon,
        &["session", "create", "a", "-o", "x/y"],
        &create("a", Purpose::Record, Some("/tmp/x/y")),
        "/tmp/x/y\n",
        "session `a` made; it writes to the directory below (agent at AGENT)\n",
    );
    check(
        &daemon,
        &["session", "create", "a", "--snapshot", "--output=/x", "--json"],
        &create("a", Purpose::Snapshot, Some("/x")),
        "{\"schema\":\"blkkin.done.v1\",\"agent\":\"AGENT\",\"done\":\"session create\",\
         \"session\":\"a\",\"written\":[\"/x\"]}\n",
        "",
    );
    check_failure(
        &daemon,
        &["session", "create", "web"],
        &create("web", Purpose::Record, None),
        1,
        "error: there is a session `web` [session-exists] (agent at AGENT)\n",
    );
}

#[test]
fn names_are_refused_before_anybody_is_asked() {
    let daemon = StandIn::answering(answer);
    let letters = "where printable characters other than '/' may be";
    let too_long = "x".repeat(201);
    let cases: [(&[&str], String); 12] = [
        (&["session", "create", "a/b"], format!("the session's name: '/' {letters}")),
        (&["session", "create", ""], "the session's name: is empty".into()),
        (&["session", "create", ".a"], "the session's name: a name that starts with '.'".into()),
        (&["session", "start", "a\nb"], format!("the session's name: '\\n' {letters}")),
        (&["session", "list", "a/b"], format!("the session's name: '/' {letters}")),
        (&["session", "destroy", "a/b"], format!("the session's name: '/' {letters}")),
        (&["status", "a/b"], format!("the session's name: '/' {letters}")),
        (&["session", "create", &too_long], "the session's name: 201 bytes, not up to 200".into()),
        (&["channel", "create", "a/b"], format!("the channel's name: '/' {letters}")),
        (&["channel", "list", "-s", "a/b"], format!("the session's name: '/' {letters}")),
        (&["event", "enable", "a", "-c", "a/b"], format!("the channel's name: '/' {letters}")),
        (&["event", "enable", ""], "the patterns for events: is empty".into()),
    ];
    for (arguments, expected) in cases {
        check_failure(&daemon, arguments, &[], 2, &format!("error: {expected}\n"));
    }
    let wrong = tell(&daemon, &["channel", "create", "c", "--context", "pid,pid"]);
    assert_eq!(wrong.errors, "error: the contexts: two have the same name\n");
    assert_eq!((wrong.status, wrong.requests), (2, vec![]));
}

#[test]
fn sessions_run() {
    let daemon = StandIn::answering(answer);
    let one = StandIn::answering(answer_one);
    type Named = fn(String) -> Request;
    let actions: [(&str, &str, Named); 3] = [
        ("start", "started", Request::StartSession),
        ("stop", "stopped", Request::StopSession),
        ("clear", "cleared", Request::ClearSession),
    ];
    for (action, participle, request) in actions {
        let words = format!("session `web` {participle} (agent at AGENT)\n");
        check(&daemon, &["session", action, "web"], &[request("web".into())], "", &words);
        let requests = [list(None), request("web".into())];
        check(&one, &["session", action], &requests, "", &words);
        let json = format!(
            "{{\"schema\":\"blkkin.done.v1\",\"agent\":\"AGENT\",\"done\":\"session {action}\",\
             \"session\":\"web\",\"written\":[]}}\n"
        );
        let arguments = ["session", action, "web", "--json"];
        check(&daemon, &arguments, &[request("web".into())], &json, "");
    }
}

#[test]
fn sessions_that_are_not_there() {
    let daemon = StandIn::answering(answer);
    check_failure(
        &daemon,
        &["session", "start", "wbe"],
        &[Request::StartSession("wbe".into()), list(None)],
        1,
        "error: there is no session `wbe` [no-such-session] (agent at AGENT)\nhint: did you mean `web`?\n",
    );
    check_failure(
        &daemon,
        &["session", "list", "xyzzy"],
        &[list(Some("xyzzy")), list(None)],
        1,
        "error: there is no session `xyzzy` [no-such-session] (agent at AGENT)\n\
         hint: the sessions are `web`, `flight`\n",
    );
    check_failure(
        &daemon,
        &["session", "stop"],
        &[list(None)],
        2,
        "error: there are several sessions, and none is named\n\
         hint: name one of `web`, `flight`\n",
    );
    let none = StandIn::answering(|request| match request {
        Request::StartSession(name) => no_such_session(name),
        _ => vec![Reply::Done],
    });
    let hint = "hint: make one with `blkkin session create NAME`\n";
    check_failure(
        &none,
        &["session", "start", "web"],
        &[Request::StartSession("web".into()), list(None)],
        1,
        &format!("error: there is no session `web` [no-such-session] (agent at AGENT)\n{hint}"),
    );
    for arguments in [&["session", "start"][..], &["channel", "list"], &["event", "enable", "-a"]] {
        let errors = format!("error: there is no session\n{hint}");
        check_failure(&none, arguments, &[list(None)], 1, &errors);
    }
}

#[test]
fn snapshots() {
    let daemon = StandIn::answering(answer);
    let snapshot = |output: Option<&str>| {
        let output = output.map(Into::into);
        [Request::Snapshot(Snapshot { session: "flight".into(), output })]
    };
    let words = "snapshot of session `flight` written (agent at AGENT)\n";
    let arguments = ["session", "snapshot", "flight"];
    check(&daemon, &arguments, &snapshot(None), "/data/flight-1\n", words);
    let arguments = ["session", "snapshot", "flight", "-o", "x"];
    check(&daemon, &arguments, &snapshot(Some("/tmp/x")), "/tmp/x\n", words);
    let empty = StandIn::answering(answer_one);
    check(
        &empty,
        &["session", "snapshot", "flight"],
        &snapshot(None),
        "",
        "session `flight` has nothing in memory; nothing was written (agent at AGENT)\n",
    );
}

/// Those that record are stopped before.
#[test]
fn sessions_are_destroyed() {
    let daemon = StandIn::answering(answer);
    let [stop, destroy]: [fn(String) -> Request; 2] =
        [Request::StopSession, Request::DestroySession];
    let words = |name: &str| format!("session `{name}` destroyed (agent at AGENT)\n");
    check(
        &daemon,
        &["session", "destroy", "web"],
        &[list(Some("web")), stop("web".into()), destroy("web".into())],
        "",
        &words("web"),
    );
    check(
        &daemon,
        &["session", "destroy", "flight"],
        &[list(Some("flight")), destroy("flight".into())],
        "",
        &words("flight"),
    );
    check(
        &daemon,
        &["session", "destroy", "--all"],
        &[list(None), stop("web".into()), destroy("web".into()), destroy("flight".into())],
        "",
        &(words("web") + &words("flight")),
    );
    // One that does not go keeps no other.
    let keeps = StandIn::answering(|request| match request {
        Request::DestroySession(name) if name == "web" => failed(code::OUTPUT, "disk full"),
        request => answer(request),
    });
    let told = tell(&keeps, &["session", "destroy", "--all"]);
    assert_eq!(
        told.errors,
        format!("error: disk full [output] (agent at AGENT)\n{}", words("flight"))
    );
    assert_eq!(told.status, 1);
}

#[test]
fn sessions_are_listed() {
    let daemon = StandIn::answering(answer);
    check(
        &daemon,
        &["session", "list"],
        &[list(None)],
        "SESSION  STATE   PURPOSE   CHANNELS  RULES  OUTPUT\n\
         web      active  record           2      2  /data/web\n\
         flight   new     snapshot         0      0  -\n",
        "",
    );
    check(
        &daemon,
        &["session", "list", "web"],
        &[list(Some("web"))],
        "session web: active, records to /data/web\n\
         made 2026-11-20 08:59:42 by user 1000\n\
         \n\
         CHANNEL  WHEN FULL  SUB-BUFFERS  EACH  CONTEXTS\n\
         main     overwrite            4  256K  pid,db:query\n\
         plain    discard              -     -  -\n\
         \n\
         CHANNEL  RULE     EVENTS\n\
         main     enable   rpc:* disk:* --exclude rpc:ping --level warning --filter 'ret < 0' \
         --pid 7,8 --exe osd* --children\n\
         main     disable  *\n",
        "",
    );
    let told = tell(&daemon, &["session", "list", "web", "--json"]);
    let object: serde_json::Value = serde_json::from_str(&told.out).expect("JSON");
    let expected = serde_json::json!({
        "schema": "blkkin.sessions.v1",
        "agent": "AGENT",
        "sessions": [{
            "name": "web",
            "purpose": "record",
            "output": "/data/web",
            "activity": "active",
            "owner": 1000,
            "created": 1_795_165_182_000_000_000_u64,
            "channels": [
                {
                    "name": "main",
                    "mode": "overwrite",
                    "subbuffer_size": 262_144,
                    "subbuffer_count": 4,
                    "contexts": ["pid", "db:query"],
                },
                {
                    "name": "plain",
                    "mode": "discard",
                    "subbuffer_size": null,
                    "subbuffer_count": null,
                    "contexts": [],
                },
            ],
            "rules": [
                {
                    "channel": "main",
                    "enabled": true,
                    "names": ["rpc:*", "disk:*"],
                    "excluded": ["rpc:ping"],
                    "level": "warning",
                    "level_only": null,
                    "filter": "ret < 0",
                    "pids": [7, 8],
                    "executables": ["osd*"],
                    "children": true,
                },
                {
                    "channel": "main",
                    "enabled": false,
                    "names": ["*"],
                    "excluded": [],
                    "level": null,
                    "level_only": null,
                    "filter": null,
                    "pids": [],
                    "executables": [],
                    "children": false,
                },
            ],
        }],
    });
    assert_eq!(object, expected);
    let none = StandIn::answering(|_| vec![Reply::Done]);
    let words = "there is no session (agent at AGENT)\n";
    check(&none, &["session", "list"], &[list(None)], "", words);
}

#[test]
fn channels() {
    let daemon = StandIn::answering(answer);
    let create = |channel| Request::CreateChannel(NewChannel { session: "web".into(), channel });
    let full = Channel {
        name: "c".into(),
        mode: Mode::Overwrite,
        subbuffer_size: Some(1 << 20),
        subbuffer_count: Some(8),
        contexts: vec![Context::Pid, Context::Tid, Context::Supplied { name: "db:query".into() }],
    };
    let words = "channel `c` made in session `web` (agent at AGENT)\n";
    check(
        &daemon,
        &[
            "channel",
            "create",
            "c",
            "-s",
            "web",
            "--overwrite",
            "--subbuf-size=1M",
            "--num-subbuf=8",
            "--context=pid,vtid",
            "--context=$app.db:query",
        ],
        &[create(full)],
        "",
        words,
    );
    let plain = || Channel {
        name: "c".into(),
        mode: Mode::Discard,
        subbuffer_size: None,
        subbuffer_count: None,
        contexts: vec![],
    };
    let one = StandIn::answering(answer_one);
    check(&one, &["channel", "create", "c"], &[list(None), create(plain())], "", words);
    check(
        &daemon,
        &["channel", "create", "c", "-s", "web", "--discard", "--json"],
        &[create(plain())],
        "{\"schema\":\"blkkin.done.v1\",\"agent\":\"AGENT\",\"done\":\"channel create\",\
         \"session\":\"web\",\"written\":[],\"channel\":\"c\"}\n",
        "",
    );
    check(
        &daemon,
        &["channel", "list", "-s", "web"],
        &[list(Some("web"))],
        "CHANNEL  WHEN FULL  SUB-BUFFERS  EACH  CONTEXTS\n\
         main     overwrite            4  256K  pid,db:query\n\
         plain    discard              -     -  -\n",
        "",
    );
    check(
        &daemon,
        &["channel", "list", "-s", "flight"],
        &[list(Some("flight"))],
        "",
        "session `flight` has no channel yet; one is made with its first event\n",
    );
    check(
        &daemon,
        &["channel", "list", "-s", "flight", "--json"],
        &[list(Some("flight"))],
        "{\"schema\":\"blkkin.channels.v1\",\"agent\":\"AGENT\",\"session\":\"flight\",\
         \"channels\":[]}\n",
        "",
    );
    let wrong = tell(&daemon, &["channel", "create", "c", "--subbuf-size", "300K"]);
    assert!(wrong.errors.contains("not a power of two, as 256K and 512K are"), "{}", wrong.errors);
    assert_eq!((wrong.status, wrong.requests), (2, vec![]));
}

#[test]
fn events_are_enabled_and_disabled() {
    let daemon = StandIn::answering(answer);
    let events = |channel: Option<&str>, selection| Events {
        session: "web".into(),
        channel: channel.map(str::to_owned),
        selection,
    };
    check(
        &daemon,
        &[
            "event",
            "enable",
            "-s=web",
            "-c=main",
            "rpc:*",
            "disk:*",
            "-x",
            "rpc:ping",
            "--level=warning",
            "--filter=ret < 0",
            "--pid=7,8",
            "--exe=osd*",
            "--children",
        ],
        &[Request::EnableEvents(events(Some("main"), selection()))],
        "",
        "events rpc:*, disk:* enabled in session `web`, channel `main` (agent at AGENT)\n",
    );
    // As `lttng` has them.
    let only = Selection {
        names: vec!["a".into(), "b".into()],
        excluded: vec!["c".into(), "d".into()],
        levels: Levels::Exactly { level: Level::Debug },
        ..all()
    };
    let one = StandIn::answering(answer_one);
    check(
        &one,
        &["event", "disable", "a,b", "--exclude", "c,d", "--loglevel-only", "TRACE_DEBUG"],
        &[list(None), Request::DisableEvents(events(None, only))],
        "",
        "events a, b disabled in session `web` (agent at AGENT)\n",
    );
    check(
        &daemon,
        &["event", "disable", "--all", "-s", "web", "--json"],
        &[Request::DisableEvents(events(None, all()))],
        "{\"schema\":\"blkkin.done.v1\",\"agent\":\"AGENT\",\"done\":\"event disable\",\
         \"session\":\"web\",\"written\":[],\"channel\":null,\"names\":[\"*\"]}\n",
        "",
    );
    let enable = |channel| Request::EnableEvents(events(channel, all()));
    check_failure(
        &daemon,
        &["event", "enable", "-a", "-s", "web"],
        &[enable(None), list(Some("web"))],
        1,
        "error: the session has several channels [which-channel] (agent at AGENT)\n\
         hint: name one with --channel: `main`, `plain`\n",
    );
    check_failure(
        &daemon,
        &["event", "enable", "-a", "-s", "web", "-c", "mian"],
        &[enable(Some("mian")), list(Some("web"))],
        1,
        "error: there is no channel `mian` [no-such-channel] (agent at AGENT)\nhint: did you mean `main`?\n",
    );
    check_failure(
        &daemon,
        &["event", "enable", "a", "-f", "ret < && x"],
        &[],
        2,
        "error: bad filter: expected a field or value before `&&`\n  ret < && x\n        ^^\n",
    );
    check_failure(
        &daemon,
        &["event", "enable", "a", "--children"],
        &[],
        2,
        "error: --children is said of no program\nhint: give --pid or --exe, or leave --children \
         out: all programs are meant\n",
    );
    let wrong = tell(&daemon, &["event", "enable"]);
    assert!(wrong.errors.contains("not provided:\n  <PATTERN>"), "{}", wrong.errors);
    assert_eq!(wrong.status, 2);
}

#[test]
fn events_are_listed() {
    let daemon = StandIn::answering(answer);
    let request =
        |processes| [Request::ListApplications(Applications { processes, event_types: true })];
    check(
        &daemon,
        &["event", "list"],
        &request(Processes::default()),
        "osd7 (pid 7, /usr/bin/osd): 2 event types\n  \
         EVENT      LEVEL  PLACE\n  \
         disk:read  info   -\n  \
         rpc:send   info   rpc.c:12\n\
         \n\
         osd8 (pid 8): 0 event types\n",
        "",
    );
    let processes = Processes { pids: vec![7], executables: vec!["osd".into()], children: true };
    let told = tell(&daemon, &["event", "list", "--fields", "--pid=7", "--exe=osd", "--children"]);
    assert_eq!(told.requests, request(processes));
    let line = "  rpc:send   info   rpc.c:12  ret: i32, name: string\n";
    assert!(told.out.contains(line), "{}", told.out);
    let told = tell(&daemon, &["event", "list", "--json"]);
    let object: serde_json::Value = serde_json::from_str(&told.out).expect("JSON");
    assert_eq!(
        (&object["schema"], &object["agent"]),
        (&"blkkin.events.v1".into(), &"AGENT".into())
    );
    let expected = serde_json::json!({
        "pid": 7,
        "pid_inner": 7,
        "uid": 1000,
        "program": "osd7",
        "executable": "/usr/bin/osd",
        "release": "0.2",
        "clock": "tsc",
        "event_type_count": 2,
        "event_types": [
            {
                "name": "disk:read",
                "level": "info",
                "file": null,
                "line": 12,
                "fields": [{ "name": "ret", "type": "i32" }, { "name": "name", "type": "string" }],
            },
            {
                "name": "rpc:send",
                "level": "info",
                "file": "rpc.c",
                "line": 12,
                "fields": [{ "name": "ret", "type": "i32" }, { "name": "name", "type": "string" }],
            },
        ],
    });
    assert_eq!(object["programs"][0], expected);
    assert_eq!(object["programs"].as_array().map(Vec::len), Some(2));
    let none = StandIn::answering(|_| vec![Reply::Done]);
    let words = "no such program runs (agent at AGENT)\n";
    check(&none, &["event", "list"], &request(Processes::default()), "", words);
}

#[test]
fn sampling() {
    let daemon = StandIn::answering(answer);
    let get = [Request::GetSampling];
    check(&daemon, &["sampling"], &get, "1/100,50/s\n", "");
    let json = "{\"schema\":\"blkkin.sampling.v1\",\"agent\":\"AGENT\",\"rules\":\"1/100,50/s\"}\n";
    check(&daemon, &["sampling", "--json"], &get, json, "");
    let set = |rules: Option<&str>| [Request::SetSampling(rules.map(str::to_owned))];
    let words = "sampling is 1/7 from now on (agent at AGENT)\n";
    check(&daemon, &["sampling", "1/7"], &set(Some("1/7")), "", words);
    let words = "sampling is default from now on (agent at AGENT)\n";
    check(&daemon, &["sampling", "--default"], &set(None), "", words);
    let default = StandIn::answering(|_| vec![Reply::Sampling(None), Reply::Done]);
    check(&default, &["sampling"], &get, "default\n", "");
    check_failure(
        &daemon,
        &["sampling", "1/10,5"],
        &[],
        2,
        "error: bad rules `1/10,5`, byte 5: a rule without '/'\nhint: write for instance 1/100 \
         for one request of 100, 50/s for at most 50 a second, or both: 1/100,50/s\n",
    );
}

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
    })
}

/// Gives other numbers at each look.
fn busy() -> StandIn {
    let looks = AtomicU64::new(0);
    StandIn::answering(move |request| {
        let Request::Status(session) = request else { return answer(request) };
        if session.as_deref().is_some_and(|name| name == "wbe") {
            return no_such_session("wbe");
        }
        let look = looks.fetch_add(1, Ordering::Relaxed);
        let ended = Ended {
            session: "web".into(),
            channel: "main".into(),
            rings: 4,
            events_recorded: Some(12),
            events_discarded: 2,
            packets_taken: 9,
            packets_lost: 0,
            bytes_written: 77,
        };
        vec![
            ring("web", 7, Some(0), look),
            ring("web", 7, Some(1), look),
            ring("web", 8, None, look),
            ring("flight", 7, Some(0), look),
            Reply::Ended(ended),
            Reply::Done,
        ]
    })
}

const STATUS_HEAD: &str = "\
agent at AGENT, release 0.9

SESSION  STATE   PURPOSE   CHANNELS  RULES  OUTPUT
web      active  record           2      2  /data/web
flight   new     snapshot         0      0  -

PROGRAM  PID  USER  EVENT TYPES  RELEASE
osd7       7  1000            2  0.2
osd8       8  1000            2  0.2

";

const STATUS_ROWS: &str = "\
SESSION  CHANNEL  PROGRAM  PID  RINGS  EVENTS  EVENTS/S  BYTES/S  WAITING  DROPPED  DROPPED/S  OVERWRITTEN
flight   main     osd7       7      1    1100      2.0k    10.0k      30%        0          0            1
web      main     osd7       7      2    2200      4.0k    20.0k      30%        0          0            2
web      main     osd8       8      1       -         -    10.0k      30%        5          4            1
web      main     (ended)    -      4      12         -        -        -        2          -            0
";

const STATUS_LOST: &str = "\nlost: 7 events that found rings full, 3 packets overwritten\n";

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
    let told = tell(&busy(), &["status", "web", "--interval=0"]);
    assert_eq!(told.requests, status_requests(Some("web")));
    let rings = tell(&busy(), &["status", "--interval=0", "--rings"]);
    let lines = [
        "SESSION  CHANNEL  PROGRAM  PID  CPU  EVENTS  ",
        "web      main     osd7       7    1    1100  ",
        "web      main     osd8       8  any       -  ",
        "web      main     (ended)    -    -      12  ",
    ];
    for line in lines {
        assert!(rings.out.contains(line), "{line}: {}", rings.out);
    }
    let red = tell(&busy(), &["status", "--interval=0", "--color=always"]);
    for part in
        ["  \x1b[1m\x1b[31m5\x1b[0m  ", "  \x1b[1m\x1b[31m2\x1b[0m  ", "\x1b[31mlost: 7 events"]
    {
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
    let told = tell(&busy(), &["status", "--interval=0", "--json"]);
    let object: serde_json::Value = serde_json::from_str(&told.out).expect("JSON");
    let keys = ["schema", "agent", "release", "lost"].map(|key| object[key].clone());
    let lost = serde_json::json!({ "events": 7, "packets": 3 });
    assert_eq!(keys, ["blkkin.status.v1".into(), "AGENT".into(), "0.9".into(), lost]);
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
        "rates": { "events_recorded": null, "events_discarded": 4.0, "bytes_written": 10000.0 },
    });
    assert_eq!(row("web", false, serde_json::json!(8)), expected);
    assert_eq!(row("web", true, serde_json::Value::Null)["events_discarded"], 2);
    let rings = tell(&busy(), &["status", "--interval=0", "--json", "--rings"]);
    let object: serde_json::Value = serde_json::from_str(&rings.out).expect("JSON");
    assert_eq!(object["rings"].as_array().map(Vec::len), Some(5));
    assert_eq!(object["rings"][2]["cpu"], 1);
}

/// Until Ctrl-C, until nobody reads, or until the agent goes.
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

    // Also while it waits.
    let running = watch(&["--interval=1000"]);
    until("it listens", || listens(running.id()));
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
        conversation.hear(&mut decoder);
        conversation.say(&Reply::Done);
    });
    let told = tell(&gone, &["status", "--watch", "--interval=0.01"]);
    assert!(
        told.errors.starts_with("error: the agent at AGENT went away before"),
        "{}",
        told.errors
    );
    assert_eq!(told.status, 1);
}

#[test]
fn without_an_agent() {
    let folder = support::Scratch::new("without-an-agent");
    let socket = folder.0.join("agent.sock");
    for arguments in [
        &["session", "list"][..],
        &["session", "create", "a"],
        &["channel", "create", "a"],
        &["event", "enable", "a"],
        &["status"],
        &["sampling"],
    ] {
        let output = run(&mut command(&socket, arguments));
        let errors = text(&output.stderr).replace(&socket.display().to_string(), "AGENT");
        let expected = "error: no agent runs (none at AGENT)\nhint: start one with `blkkin agent`, \
                        or use `blkkin record -- COMMAND`, which needs none\n";
        assert_eq!((output.status.code(), errors.as_str()), (Some(1), expected));
    }
}

/// A user's own agent is asked before the system's; which one it was is told.
#[test]
fn an_agent_of_the_users_own() {
    let daemon = StandIn::answering(answer);
    let folder = support::Scratch::new("own-agent");
    let socket = folder.0.join("blkkin/agent.sock");
    std::fs::create_dir_all(socket.parent().expect("a folder")).expect("to make a folder");
    std::os::unix::fs::symlink(&daemon.path, &socket).expect("to link");
    let mut command = blkkin(Path::new("/tmp"));
    command.env_remove("BLKKIN_SOCKET").env("XDG_RUNTIME_DIR", &folder.0);
    let output = run(command.args(["session", "start", "web"]));
    let errors = text(&output.stderr);
    match blkkin_user() {
        // Root's is the system's.
        0 => assert!(!errors.contains("own-agent"), "{errors}"),
        _ => {
            let expected = format!("session `web` started (agent at {})\n", socket.display());
            assert_eq!(errors, expected);
        }
    }
}

fn blkkin_user() -> u32 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").expect("a process").uid()
}

#[test]
fn an_agent_that_takes_too_long() {
    let daemon = StandIn::of(|mut conversation| {
        conversation.welcome();
        conversation.wait();
    });
    check_failure(
        &daemon,
        &["session", "stop", "web", "--timeout", "0.1"],
        &[],
        1,
        "error: the agent at AGENT has not answered for 0.1 s\nhint: it may still do it: look \
         with `blkkin status`; --timeout waits longer\n",
    );
}

#[test]
fn habits_of_lttng() {
    let check = |word: &str, expected: &str| {
        let output = run(blkkin(Path::new("/tmp")).arg(word));
        let errors = text(&output.stderr);
        let expected = format!("error: unrecognized subcommand '{word}'\n\n  tip: {expected}\n\n");
        assert!(errors.starts_with(&expected), "{errors}");
        assert_eq!(output.status.code(), Some(2));
    };
    check("start", "it is `blkkin session start` here");
    check("list", "it is `blkkin session list`, or `blkkin event list` here");
    check("enable-event", "it is `blkkin event enable` here");
    check("sesion", "a similar subcommand exists: 'session'");
}

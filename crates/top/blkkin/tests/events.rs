//! Requests of `blkkin channel` and `blkkin event` to the node's agent, and their output.

mod support;

use blkkin_control::{
    Applications, Channel, Context, Events, Level, Levels, Mode, NewChannel, Processes, Reply,
    Request, Selection,
};
use support::agent::{all, answer, answer_one, check, check_failure, list, run_command, selection};
use support::stand_in::StandIn;

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
        wait_us: 0,
        event_size: Some(128 << 10),
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
            "--string-max=128K",
            "--context=pid,vtid",
            "--context=$app.db:query",
        ],
        &[create(full)],
        "",
        words,
    );
    let plain = || Channel::named("c");
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
        "CHANNEL  DOMAIN  WHEN FULL         SUB-BUFFERS  EACH  STRING MAX  CONTEXTS\n\
         main     user    overwrite                   4  256K          4K  pid,db:query\n\
         plain    user    wait 1s, discard            -     -           -  -\n",
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
    for (option, wait_us) in [("--blocking", 1_000_000), ("--blocking=20ms", 20_000)] {
        let channel = Channel { wait_us, ..plain() };
        let create = create(channel);
        check(&one, &["channel", "create", option, "c"], &[list(None), create], "", words);
    }
    let check_wrong = |option: &str, why: &str| {
        let wrong = run_command(&daemon, &["channel", "create", "c", "--overwrite", option]);
        assert!(wrong.errors.contains(why), "{}", wrong.errors);
        assert_eq!((wrong.status, wrong.requests), (2, vec![]));
    };
    check_wrong("--blocking=11m", "more than 10m, the longest time but inf");
    check_wrong("--blocking=5", "not a time with its unit, such as 500us, 20ms or 2s");
    check_wrong("--blocking", "'--overwrite' cannot be used with '--blocking");
    check_wrong("--string-max=2M", "not within 512 and 1M");
    let wrong = run_command(&daemon, &["channel", "create", "c", "--subbuf-size", "300K"]);
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
    // The same options as in `lttng`.
    let only = Selection {
        names: vec!["rpc:a".into(), "rpc:b".into()],
        excluded: vec!["rpc:c".into(), "rpc:d".into()],
        levels: Levels::Exactly { level: Level::Debug },
        ..all()
    };
    let one = StandIn::answering(answer_one);
    check(
        &one,
        &[
            "event",
            "disable",
            "rpc:a,rpc:b",
            "--exclude",
            "rpc:c,rpc:d",
            "--loglevel-only",
            "TRACE_DEBUG",
        ],
        &[list(None), Request::DisableEvents(events(None, only))],
        "",
        "events rpc:a, rpc:b disabled in session `web` (agent at AGENT)\n",
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
        &["event", "enable", "rpc:a", "-f", "ret < && x"],
        &[],
        2,
        "error: bad filter: expected a field or value before `&&`\n  ret < && x\n        ^^\n",
    );
    check_failure(
        &daemon,
        &["event", "enable", "rpc:a", "--children"],
        &[],
        2,
        "error: --children is said of no program\nhint: give --pid or --exe, or leave --children \
         out: all programs are meant\n",
    );
    let wrong = run_command(&daemon, &["event", "enable"]);
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
    let told =
        run_command(&daemon, &["event", "list", "--fields", "--pid=7", "--exe=osd", "--children"]);
    assert_eq!(told.requests, request(processes));
    let line = "  rpc:send   info   rpc.c:12  ret: i32, name: string\n";
    assert!(told.out.contains(line), "{}", told.out);
    let told = run_command(&daemon, &["event", "list", "--json"]);
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
        "event_types_refused": 0,
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

//! Tests of `blkkin session` and `blkkin sampling`, of behaviour that is common to all commands for
//! the node's agent, and of the suggestions for subcommands of `lttng`. The tests compare the
//! requests that a command sends, and its output for the agent's replies. The path of the agent's
//! socket is shown as `AGENT`.

mod support;

use blkkin_control::{
    Purpose, Reply, Request, RetainingSession, Retention, Session, Snapshot, code,
};
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use support::agent::{
    answer, answer_one, check, check_failure, command, failed, list, no_such_session, run_command,
};
use support::stand_in::StandIn;
use support::{blkkin, run, text};

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
        "session `a` made (agent at AGENT):\n",
    );
    // The path is made absolute, as the agent's working directory differs.
    check(
        &daemon,
        &["session", "create", "a", "-o", "x/y"],
        &create("a", Purpose::Record, Some("/tmp/x/y")),
        "/tmp/x/y\n",
        "session `a` made (agent at AGENT):\n",
    );
    check(
        &daemon,
        &["session", "create", "a", "--snapshot", "--output=/x", "--json"],
        &create("a", Purpose::Snapshot, Some("/x")),
        "{\"schema\":\"blkkin.done.v1\",\"agent\":\"AGENT\",\"done\":\"session create\",\
         \"session\":\"a\",\"written\":[\"/x\"]}\n",
        "",
    );
    let (keep_ms, memory) = (Some(120_000), Some(256 << 20));
    let session = Session { name: "a".into(), purpose: Purpose::Snapshot, output: None };
    let retention = Retention { keep_ms, memory };
    check(
        &daemon,
        &["session", "create", "a", "--snapshot", "--keep", "2min", "--memory", "256M"],
        &[Request::CreateRetainingSession(RetainingSession { session, retention })],
        "/data/a\n",
        "session `a` made (agent at AGENT):\n",
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
        (&["event", "enable", "a:b", "-c", "a/b"], format!("the channel's name: '/' {letters}")),
        (&["event", "enable", ""], "one of the patterns for events is empty".into()),
    ];
    for (arguments, expected) in cases {
        check_failure(&daemon, arguments, &[], 2, &format!("error: {expected}\n"));
    }
    let wrong = run_command(&daemon, &["channel", "create", "c", "--context", "pid,pid"]);
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
             \"session\":\"web\",\"written\":[]{}}}\n",
            if action == "stop" { ",\"losses\":[]" } else { "" },
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
    let words = "snapshot of session `flight` written (agent at AGENT):\n";
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

/// `session destroy` stops active sessions before it destroys them.
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
    // A failure for one session does not prevent the destruction of the others.
    let keeps = StandIn::answering(|request| match request {
        Request::DestroySession(name) if name == "web" => failed(code::OUTPUT, "disk full"),
        request => answer(request),
    });
    let told = run_command(&keeps, &["session", "destroy", "--all"]);
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
        "SESSION  STATE   PURPOSE   CHANNELS  RULES  LOST  OUTPUT\n\
         web      active  record           2      2  -     /data/web\n\
         flight   new     snapshot         0      0  -     -\n",
        "",
    );
    check(
        &daemon,
        &["session", "list", "web"],
        &[list(Some("web"))],
        "session web: active, records to /data/web\n\
         made 2026-11-20 08:59:42 by user 1000\n\
         \n\
         CHANNEL  DOMAIN  WHEN FULL         SUB-BUFFERS  EACH  STRING MAX  CONTEXTS\n\
         main     user    overwrite                   4  256K          4K  pid,db:query\n\
         plain    user    wait 1s, discard            -     -           -  -\n\
         \n\
         CHANNEL  RULE     EVENTS\n\
         main     enable   rpc:* disk:* --exclude rpc:ping --level warning --filter 'ret < 0' \
         --pid 7,8 --exe osd* --children\n\
         main     disable  *\n",
        "",
    );
    let told = run_command(&daemon, &["session", "list", "web", "--json"]);
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
                    "domain": "user",
                    "shared": false,
                    "part_of": null,
                    "share_percent": null,
                    "mode": "overwrite",
                    "subbuffer_size": 262_144,
                    "subbuffer_count": 4,
                    "contexts": ["pid", "db:query"],
                    "blocking_us": 0,
                    "string_max": 4096,
                },
                {
                    "name": "plain",
                    "domain": "user",
                    "shared": false,
                    "part_of": null,
                    "share_percent": null,
                    "mode": "discard",
                    "subbuffer_size": null,
                    "subbuffer_count": null,
                    "contexts": [],
                    "blocking_us": 1_000_000,
                    "string_max": null,
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
                    "redactions": [],
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
                    "redactions": [],
                },
            ],
            "losses": [],
            "keep_ms": null,
            "memory": null,
            "reaches": [],
            "forwarding": null,
            "size_max": null,
            "direct": null,
            "chunks": null,
        }],
    });
    assert_eq!(object, expected);
    let none = StandIn::answering(|_| vec![Reply::Done]);
    let words = "there is no session (agent at AGENT)\n";
    check(&none, &["session", "list"], &[list(None)], "", words);
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

#[test]
fn without_an_agent() {
    let folder = support::Scratch::new("without-an-agent");
    let socket = folder.0.join("agent.sock");
    for arguments in [
        &["session", "list"][..],
        &["session", "create", "a"],
        &["channel", "create", "a"],
        &["event", "enable", "a:b"],
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

/// Returns a command that runs `blkkin` as a user other than root. Tests run by root use the user
/// nobody, who cannot enter root's directories, so the program is copied to `folder`.
fn by_a_user(folder: &Path) -> Command {
    let program = folder.join("program");
    // Copied by another process: a child started meanwhile by another thread would inherit the file
    // open for writing, and then the program cannot be executed.
    let copied = run(Command::new("cp").arg(env!("CARGO_BIN_EXE_blkkin")).arg(&program));
    assert!(copied.status.success(), "{copied:?}");
    let mut command = match std::fs::metadata("/proc/self").expect("a process").uid() {
        0 => Command::new("setpriv"),
        _ => Command::new(&program),
    };
    if command.get_program() == "setpriv" {
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program);
    }
    command.current_dir("/tmp").env_remove("BLKKIN_SOCKET").env("XDG_RUNTIME_DIR", folder);
    command
}

/// A command connects to the user's own agent below `XDG_RUNTIME_DIR`. The command's message names
/// the agent's socket, also if the user may not connect.
#[test]
fn an_agent_of_the_users_own() {
    let daemon = StandIn::answering(answer);
    let folder = support::Scratch::new("own-agent");
    let socket = folder.0.join("blkkin/agent.sock");
    std::fs::create_dir_all(socket.parent().expect("a folder")).expect("to make a folder");
    std::os::unix::fs::symlink(&daemon.path, &socket).expect("to link");
    let permit = |mode| {
        std::fs::set_permissions(&daemon.path, Permissions::from_mode(mode)).expect("to change");
    };
    permit(0o777);
    let output = run(by_a_user(&folder.0).args(["session", "start", "web"]));
    let expected = format!("session `web` started (agent at {})\n", socket.display());
    assert_eq!((text(&output.stderr), output.status.code()), (expected, Some(0)));
    permit(0o000);
    let mut command = by_a_user(&folder.0);
    let output = run(command.args(["session", "start", "web"]).env("BLKKIN_SOCKET", &socket));
    let expected = format!("error: you may not talk to the agent at {}\nhint: ", socket.display());
    assert!(text(&output.stderr).starts_with(&expected), "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(1));
}

/// An agent that may not create the directory of its socket suggests to set `BLKKIN_SOCKET`, both
/// for programs and for commands. Containers, cron and `su` provide no runtime directory.
#[test]
fn an_agent_without_a_runtime_directory() {
    let folder = support::Scratch::new("no-runtime");
    let closed = folder.0.join("closed");
    std::fs::create_dir(&closed).expect("a folder");
    std::fs::set_permissions(&closed, Permissions::from_mode(0o555)).expect("to change");
    let output = run(by_a_user(&folder.0).arg("agent").env("XDG_RUNTIME_DIR", &closed));
    let errors = text(&output.stderr);
    let (error, hint) = errors.split_once("\nhint: ").expect("a hint");
    assert!(error.contains("closed/blkkin`: Permission denied"), "{errors}");
    assert!(hint.contains("export BLKKIN_SOCKET=$HOME/.blkkin/agent.sock"), "{errors}");
    assert!(hint.contains("programs and commands"), "{errors}");
    assert_eq!(output.status.code(), Some(1));
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
    if cfg!(not(feature = "sql")) {
        check(
            "sql",
            "this blkkin was built without SQL, by --no-default-features or --without-sql",
        );
    }
}

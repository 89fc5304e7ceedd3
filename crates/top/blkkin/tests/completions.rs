//! Tests of completion in shells: it offers names from the agent, is fast, and prints only
//! candidates.

mod support;

use blkkin_control::{
    Activity, Channel, EventType, Level, Purpose, Reply, Request, Session, SessionState,
};
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use support::stand_in::StandIn;
use support::{blkkin, is_installed, run, skip, text};

fn names(request: &Request) -> Vec<Reply> {
    let session = |name: &str| {
        Reply::Session(SessionState {
            session: Session { name: name.into(), purpose: Purpose::Record, output: None },
            activity: Activity::New,
            owner: 0,
            created_ns: 0,
        })
    };
    let channel = |name: &str| Reply::Channel(Channel::named(name));
    let event = |name: &str| {
        Reply::EventType(EventType {
            index: 0,
            name: name.into(),
            level: Level::Info,
            file: String::new(),
            line: 0,
            fields: vec![],
        })
    };
    match request {
        Request::ListSessions(Some(_)) => vec![session("web"), channel("main"), Reply::Done],
        Request::ListSessions(None) => vec![
            session("web"),
            channel("main"),
            session("web-2"),
            channel("other"),
            // Must not be a candidate, as a shell would run it.
            session("$(reboot)"),
            Reply::Done,
        ],
        _ => vec![event("rpc:send"), event("rpc:receive"), event("rpc:send"), Reply::Done],
    }
}

/// Runs `blkkin` as a shell does to complete the last word of a line.
fn offer(socket: &Path, line: &str) -> Output {
    let words: Vec<&str> = line.split(' ').collect();
    let mut command = blkkin(Path::new("/tmp"));
    command.env("BLKKIN_SOCKET", socket).env("BLKKIN_COMPLETE", "bash").env("_CLAP_IFS", "\n");
    command.env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string());
    run(command.arg("--").args(words))
}

#[track_caller]
fn check(daemon: &StandIn, line: &str, expected: &[&str]) {
    let output = offer(&daemon.path, line);
    let offered = text(&output.stdout);
    // Options are offered wherever a word is possible.
    let offered: Vec<&str> = offered.lines().filter(|word| !word.starts_with('-')).collect();
    assert_eq!(offered, expected, "{line}");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
}

#[test]
fn live_names() {
    let daemon = StandIn::answering(names);
    check(&daemon, "blkkin session sta", &["start"]);
    for line in [
        "blkkin session start ",
        "blkkin session destroy we",
        "blkkin status w",
        "blkkin channel list -s ",
        "blkkin event enable x --session ",
    ] {
        check(&daemon, line, &["web", "web-2"]);
    }
    daemon.requests();
    check(&daemon, "blkkin event enable -s web -c ", &["main"]);
    assert_eq!(daemon.requests(), [Request::ListSessions(Some("web".into()))]);
    check(&daemon, "blkkin event enable -c ", &["main", "other"]);
    check(&daemon, "blkkin event enable ", &["rpc:receive", "rpc:send"]);
    check(&daemon, "blkkin event enable rpc:s", &["rpc:send"]);
    check(&daemon, "blkkin event enable a -x rpc:r", &["rpc:receive"]);
    check(&daemon, "blkkin event enable a --level war", &["warning"]);
    check(&daemon, "blkkin channel create c --context pr", &["procname"]);
    check(&daemon, "blkkin completions f", &["fish"]);
}

/// Completion ends quickly without candidates if there is no agent, or if the agent is silent,
/// sends names without end, or sends invalid data.
#[test]
fn agents_that_are_of_no_use() {
    let silent = StandIn::of(|mut conversation| conversation.wait());
    let endless = StandIn::of(|mut conversation| {
        let Some((_, mut decoder)) = conversation.welcome() else { return };
        conversation.receive_request(&mut decoder);
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(2) {
            conversation.send(&Reply::Written("/x".into()));
        }
    });
    let confused = StandIn::of(|mut conversation| conversation.send_bytes(b"HTTP/1.1 400\r\n"));
    let sockets = [&silent.path, &endless.path, &confused.path, Path::new("/nowhere")];
    for socket in sockets {
        let start = Instant::now();
        let output = offer(socket, "blkkin session start we");
        // The limit includes an allowance for a busy machine.
        assert!(start.elapsed() < Duration::from_secs(2), "{socket:?}: {:?}", start.elapsed());
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
        assert_eq!(text(&output.stdout), "");
    }
}

#[test]
fn shells_that_are_not_known() {
    let mut command = blkkin(Path::new("/tmp"));
    let output = run(command.env("BLKKIN_COMPLETE", "tcsh").args(["--", "blkkin", ""]));
    assert_eq!((output.status.code(), output.stdout, output.stderr), (Some(1), vec![], vec![]));
}

#[test]
fn scripts_for_shells() {
    for (shell, part) in [
        ("bash", "complete -o nospace -o bashdefault -F _blkkin blkkin\n"),
        ("zsh", "#compdef blkkin\n"),
        ("fish", "complete --keep-order --exclusive --command blkkin "),
    ] {
        let output = run(blkkin(Path::new("/tmp")).args(["completions", shell]));
        let script = text(&output.stdout);
        assert!(script.contains(part) && script.contains("BLKKIN_COMPLETE"), "{shell}: {script}");
        assert_eq!((output.status.code(), output.stderr), (Some(0), vec![]));
        if !is_installed(shell) {
            skip("completions", &format!("{shell} is not installed"));
            continue;
        }
        // The script must have no syntax errors.
        let output = support::run_with_input(Command::new(shell).arg("-n"), script.as_bytes());
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    }
}

/// The generated fish script completes names from the running agent.
#[test]
fn live_names_in_fish() {
    if !is_installed("fish") {
        return skip("completions in fish", "fish is not installed");
    }
    let daemon = StandIn::answering(names);
    let home = support::Scratch::new("fish");
    let line = "blkkin completions fish | source; complete -C 'blkkin event enable rpc:'";
    let mut command = Command::new("fish");
    command.args(["--no-config", "-c", line]).env("PATH", path()).env("HOME", &home.0);
    let output = run(command.env("BLKKIN_SOCKET", &daemon.path));
    assert_eq!((text(&output.stdout).as_str(), text(&output.stderr).as_str()), {
        ("rpc:receive\nrpc:send\n", "")
    });
}

/// Returns a `PATH` with the program's directory first.
fn path() -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_blkkin")).parent().expect("a folder");
    format!("{}:/usr/bin:/bin", program.display())
}

/// Names with colons are completed in bash, although bash splits words at `:` and `=`.
#[test]
fn names_with_colons_in_bash() {
    let daemon = StandIn::answering(names);
    if !is_installed("bash") {
        return skip("completions in bash", "bash is not installed");
    }
    let script = text(&run(blkkin(Path::new("/tmp")).args(["completions", "bash"])).stdout);
    let check = |words: &[&str], line: &str, expected: &str| {
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let input = format!(
            "{script}\nCOMP_WORDBREAKS=$' \\t\\n\"\\'><=;|&(:'\nCOMP_WORDS=({})\n\
             COMP_CWORD={}\nCOMP_LINE='{line}'\nCOMP_POINT={}\n_blkkin blkkin x y\n\
             printf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
            quoted.join(" "),
            words.len() - 1,
            line.len()
        );
        let mut command = Command::new("bash");
        command.args(["--norc", "-s"]).env("PATH", path()).env("BLKKIN_SOCKET", &daemon.path);
        let output = support::run_with_input(&mut command, input.as_bytes());
        let words = text(&output.stdout);
        let words: Vec<&str> = words.lines().filter(|word| !word.starts_with('-')).collect();
        assert_eq!(words.join(" "), expected, "{line}");
        assert_eq!(text(&output.stderr), "");
    };
    let start = ["blkkin", "event", "enable"];
    check(&[&start[..], &[""]].concat(), "blkkin event enable ", "rpc:receive rpc:send");
    check(&[&start[..], &["rp"]].concat(), "blkkin event enable rp", "rpc:receive rpc:send");
    check(&[&start[..], &["rpc", ":"]].concat(), "blkkin event enable rpc:", "receive send");
    check(&[&start[..], &["rpc", ":", "s"]].concat(), "blkkin event enable rpc:s", "send");
    check(
        &[&start[..], &["rpc", ":", "x", ""]].concat(),
        "blkkin event enable rpc:x ",
        "rpc:receive rpc:send",
    );
    check(
        &["blkkin", "channel", "list", "--session", "=", "web-"],
        "blkkin channel list --session=web-",
        "web-2",
    );
}

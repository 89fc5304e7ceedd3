//! Helpers for tests of commands that use the node's agent: a stand-in agent with two sessions, and
//! checks of a command's requests and output.

use super::stand_in::StandIn;
use super::{blkkin, run, text};
use blkkin_control::{
    Activity, Application, Applications, Channel, Clock, Context, EventType, Failed, Field,
    FieldKind, Level, Levels, Mode, Processes, Purpose, Reply, Request, Rule, Selection, Session,
    SessionState, Width, code,
};
use std::path::Path;
use std::process::Command;

pub fn session(name: &str, activity: Activity) -> Reply {
    let purpose = if name == "flight" { Purpose::Snapshot } else { Purpose::Record };
    let output = (name == "web").then(|| "/data/web".into());
    Reply::Session(SessionState {
        session: Session { name: name.into(), purpose, output },
        activity,
        owner: 1000,
        created_ns: 1_795_165_182_000_000_000,
    })
}

pub fn channel(name: &str) -> Channel {
    Channel {
        name: name.into(),
        mode: Mode::Overwrite,
        subbuffer_size: Some(256 << 10),
        subbuffer_count: Some(4),
        contexts: vec![Context::Pid, Context::Supplied { name: "db:query".into() }],
        wait_us: 0,
        event_size: Some(4096),
    }
}

pub fn all() -> Selection {
    Selection::for_names(["*"])
}

pub fn selection() -> Selection {
    Selection {
        names: vec!["rpc:*".into(), "disk:*".into()],
        excluded: vec!["rpc:ping".into()],
        levels: Levels::AtLeast { level: Level::Warning },
        filter: Some("ret < 0".into()),
        processes: Processes { pids: vec![7, 8], executables: vec!["osd*".into()], children: true },
    }
}

/// Returns the replies about session `web`, its channels and its rules.
pub fn web() -> Vec<Reply> {
    let rule =
        |enabled, selection| Reply::Rule(Rule { channel: "main".into(), enabled, selection });
    vec![
        session("web", Activity::Active),
        Reply::Channel(channel("main")),
        Reply::Channel(Channel { wait_us: 1_000_000, ..Channel::named("plain") }),
        rule(true, selection()),
        rule(false, all()),
    ]
}

pub fn application(pid: u32) -> Reply {
    Reply::Application(Application {
        pid,
        pid_inner: pid,
        uid: 1000,
        program: format!("osd{pid}"),
        executable: if pid == 7 { "/usr/bin/osd".into() } else { String::new() },
        release: "0.2".into(),
        clock: Clock::Tsc,
        event_type_count: 2,
        event_types_refused: 0,
    })
}

pub fn event_type(name: &str) -> Reply {
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

pub fn failed(code: &str, message: &str) -> Vec<Reply> {
    vec![Reply::Failed(Failed { code: code.into(), message: message.into(), hint: None })]
}

pub fn no_such_session(name: &str) -> Vec<Reply> {
    failed(code::NO_SUCH_SESSION, &format!("there is no session `{name}`"))
}

/// Answers a request as an agent with the sessions `web`, which records, and `flight`.
pub fn answer(request: &Request) -> Vec<Reply> {
    let mut replies = match request {
        Request::CreateSession(session) if session.name == "web" => {
            return failed(code::SESSION_EXISTS, "there is a session `web`");
        }
        Request::CreateSession(session) => {
            let path = format!("/data/{}", session.name).into();
            vec![Reply::Written(session.output.clone().unwrap_or(path))]
        }
        Request::CreateRetainingSession(new) => {
            vec![Reply::Written(format!("/data/{}", new.session.name).into())]
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

/// Answers a request as an agent with the session `web` alone.
pub fn answer_one(request: &Request) -> Vec<Reply> {
    match request {
        Request::ListSessions(_) => [web(), vec![Reply::Done]].concat(),
        _ => vec![Reply::Done],
    }
}

/// Result of a command against a stand-in agent: requests, exit status, output and errors.
pub struct CommandOutcome {
    pub requests: Vec<Request>,
    pub status: i32,
    pub out: String,
    pub errors: String,
}

pub fn command(daemon: &Path, arguments: &[&str]) -> Command {
    let mut command = blkkin(Path::new("/tmp"));
    command.env("BLKKIN_SOCKET", daemon).args(arguments);
    command
}

pub fn run_command(daemon: &StandIn, arguments: &[&str]) -> CommandOutcome {
    let output = run(&mut command(&daemon.path, arguments));
    let agent = daemon.path.display().to_string();
    CommandOutcome {
        requests: daemon.requests(),
        status: output.status.code().expect("an exit status"),
        out: text(&output.stdout).replace(&agent, "AGENT"),
        errors: text(&output.stderr).replace(&agent, "AGENT"),
    }
}

/// Checks requests and output of a command that succeeds.
#[track_caller]
pub fn check(daemon: &StandIn, arguments: &[&str], requests: &[Request], out: &str, errors: &str) {
    let told = run_command(daemon, arguments);
    assert_eq!((told.out.as_str(), told.errors.as_str()), (out, errors));
    assert_eq!(told.requests, requests);
    assert_eq!(told.status, 0);
}

/// Checks requests, exit status and errors of a command that fails.
#[track_caller]
pub fn check_failure(
    daemon: &StandIn,
    arguments: &[&str],
    requests: &[Request],
    status: i32,
    errors: &str,
) {
    let told = run_command(daemon, arguments);
    assert_eq!((told.out.as_str(), told.errors.as_str()), ("", errors));
    assert_eq!(told.requests, requests);
    assert_eq!(told.status, status);
}

pub fn list(name: Option<&str>) -> Request {
    Request::ListSessions(name.map(str::to_owned))
}

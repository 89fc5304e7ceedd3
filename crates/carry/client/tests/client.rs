//! Tests of a client with a stand-in for the agent: replies, and an agent that is absent, refuses,
//! sends invalid data, does not answer, or closes the connection.

mod support;

use blkkin_client::{Client, Error, Timeouts};
use blkkin_control::{
    Activity, Answer, Failed, Purpose, Refused, Reply, Request, Role, Session, SessionState,
    Version, code,
};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use support::StandIn;

const PATIENCE: Timeouts =
    Timeouts { opening: Duration::from_secs(20), item: Duration::from_secs(20) };
const IMPATIENCE: Timeouts =
    Timeouts { opening: Duration::from_millis(50), item: Duration::from_millis(50) };

fn connect(path: &Path, patience: Timeouts) -> Result<Client, Error> {
    Client::connect(&[path.to_owned()], "test", "1", patience)
}

fn session(name: &str) -> Reply {
    Reply::Session(SessionState {
        session: Session { name: name.into(), purpose: Purpose::Record, output: None },
        activity: Activity::New,
        owner: 7,
        created_ns: 1,
    })
}

fn no_such_session() -> Reply {
    let (code, message) = (code::NO_SUCH_SESSION.into(), "there is no session `x`".into());
    Reply::Failed(Failed { code, message, hint: Some("make it".into()) })
}

/// Asserts the message and the hint of an error. `PATH` in both stands for `path`.
#[track_caller]
fn check(error: &Error, path: &Path, message: &str, hint: Option<&str>) {
    let path = path.display().to_string();
    assert_eq!(error.to_string().replace(&path, "PATH"), message);
    assert_eq!(error.hint().map(|hint| hint.replace(&path, "PATH")).as_deref(), hint);
}

#[test]
fn requests_one_after_the_other() {
    let daemon = StandIn::answering(|request| match request {
        Request::ListSessions(None) => vec![session("a"), session("b"), Reply::Done],
        Request::StartSession(_) => vec![no_such_session()],
        _ => vec![Reply::Done],
    });
    let mut client = connect(&daemon.path, PATIENCE).expect("welcome");
    assert_eq!((client.address(), client.release()), (daemon.path.as_path(), "0.9"));
    let list = Request::ListSessions(None);
    let start = Request::StartSession("x".into());
    let both = vec![session("a"), session("b")];
    assert_eq!(client.request_all(&list).expect("a list"), both);
    // Unread items of a reply are skipped.
    let first = client.request(&list).expect("a list").next();
    assert!(matches!(first, Some(Ok(Reply::Session(_)))));
    assert_eq!(client.request_all(&list).expect("a list"), both);
    let error = client.request_all(&start).expect_err("no such session");
    check(
        &error,
        &daemon.path,
        "there is no session `x` [no-such-session] (agent at PATH)",
        Some("make it"),
    );
    // A failed request does not end the connection.
    let _ = client.request(&start).expect("to be asked");
    assert_eq!(client.request_all(&Request::GetSampling).expect("an answer"), []);
    let asked = [list.clone(), list.clone(), list, start.clone(), start, Request::GetSampling];
    assert_eq!(daemon.requests(), asked);
}

#[test]
fn hello_is_sent_first() {
    let daemon = StandIn::of(|mut conversation| {
        let (hello, _) = conversation.welcome().expect("a hello");
        assert_eq!((hello.version, hello.role), (Version::OURS, Role::Command));
        assert_eq!((hello.program.as_str(), hello.release.as_str()), ("test", "1"));
    });
    connect(&daemon.path, PATIENCE).expect("welcome");
}

/// A client connects to the first address at which an agent listens.
#[test]
fn the_users_daemon_and_the_systems() {
    let daemon = StandIn::answering(|_| vec![Reply::Done]);
    let nobody = daemon.path.with_file_name("nobody");
    drop(UnixListener::bind(&nobody).expect("to listen"));
    let absent = daemon.path.with_file_name("absent");
    let addresses = [absent.clone(), nobody.clone(), daemon.path.clone()];
    let client = Client::connect(&addresses, "test", "1", PATIENCE).expect("welcome");
    assert_eq!(client.address(), daemon.path);
    let tried = [absent.clone(), nobody];
    let error = Client::connect(&tried, "test", "1", PATIENCE).expect_err("nobody");
    check(
        &error,
        daemon.path.parent().expect("a folder"),
        "no agent runs (none at PATH/absent, nor at PATH/nobody)",
        Some("start one with `blkkin agent`, or use `blkkin record -- COMMAND`, which needs none"),
    );
}

#[test]
fn not_permitted() {
    let daemon = StandIn::answering(|_| vec![Reply::Done]);
    let permissions = std::fs::Permissions::from_mode(0o0);
    std::fs::set_permissions(&daemon.path, permissions).expect("to change");
    match connect(&daemon.path, PATIENCE) {
        Err(error) => check(
            &error,
            &daemon.path,
            "you may not talk to the agent at PATH",
            Some(
                "join the group that the socket belongs to (`ls -l PATH` shows it), or start an \
                 agent of your own with `blkkin agent`",
            ),
        ),
        // Root may always connect, so the error is made without a socket.
        Ok(_) => {
            let error = Error::NotPermitted { address: PathBuf::from("/x") };
            check(&error, Path::new("/x"), "you may not talk to the agent at PATH", {
                Some(
                    "join the group that the socket belongs to (`ls -l PATH` shows it), or start \
                     an agent of your own with `blkkin agent`",
                )
            });
        }
    }
    std::fs::set_permissions(&daemon.path, std::fs::Permissions::from_mode(0o600)).expect("back");
}

#[test]
fn a_path_that_is_too_long() {
    let path = PathBuf::from(format!("/{}", "x".repeat(200)));
    let error = connect(&path, PATIENCE).expect_err("too long");
    let hint = error.hint();
    assert!(error.to_string().starts_with("cannot talk to an agent at /xx"), "{error}");
    assert_eq!(hint.as_deref(), Some("paths of sockets have at most 107 bytes"));
}

#[test]
fn refused() {
    let check_refusal = |try_again, hint| {
        let daemon = StandIn::of(move |mut conversation| {
            let (version, reason) = (Version { major: 9, minor: 3 }, "too old".to_owned());
            conversation.send(&Answer::Refused(Refused { version, try_again, reason }));
        });
        let error = connect(&daemon.path, PATIENCE).expect_err("refused");
        check(&error, &daemon.path, "the agent at PATH refuses: too old", hint);
    };
    check_refusal(false, None);
    check_refusal(true, Some("try again later"));
}

#[test]
fn another_version() {
    let daemon = StandIn::of(|mut conversation| {
        conversation.welcome_as(Version { major: 9, minor: 3 });
        conversation.wait();
    });
    let error = connect(&daemon.path, PATIENCE).expect_err("another version");
    let told = "cannot understand the agent at PATH: the other side speaks version 9.3 of \
                BlkKin's protocol, this one 1.2; install the same release on both sides, and start \
                them again";
    check(&error, &daemon.path, told, None);
}

/// Items of unknown kinds in a newer agent's replies are skipped.
#[test]
fn a_newer_daemon() {
    let daemon = StandIn::of(|mut conversation| {
        let newer = Version { minor: Version::OURS.minor + 1, ..Version::OURS };
        let Some((_, mut decoder)) = conversation.welcome_as(newer) else { return };
        while conversation.receive_request(&mut decoder).is_some() {
            conversation.send_bytes(b"\x03\0\0\0\xff\x04new");
            conversation.send(&session("a"));
            conversation.send(&Reply::Done);
        }
    });
    let mut client = connect(&daemon.path, PATIENCE).expect("welcome");
    let all = client.request_all(&Request::ListSessions(None)).expect("a list");
    assert_eq!(all, [session("a")]);
}

#[test]
fn nonsense() {
    let check_nonsense = |bytes: &'static [u8], message, hint| {
        let daemon = StandIn::of(move |mut conversation| {
            conversation.send_bytes(bytes);
            conversation.wait();
        });
        let error = connect(&daemon.path, PATIENCE).expect_err("nonsense");
        check(&error, &daemon.path, message, Some(hint));
    };
    check_nonsense(
        b"SSH-2.0-x\r\n",
        "cannot understand the agent at PATH: byte 4: frame, kind: a message of kind 0x2e32 \
         is unknown",
        "BLKKIN_SOCKET may name the socket of another program",
    );
    check_nonsense(
        b"\xff\xff\xff\xff\x02\0",
        "cannot understand the agent at PATH: byte 0: frame, size: 4294967295 bytes, not up \
         to 4096",
        "install the same release on both sides, and start the agent again",
    );
}

#[test]
fn a_daemon_that_goes() {
    let told = "the agent at PATH went away before it had answered";
    let hint = "it may have done it nevertheless: look with `blkkin session list`; the agent's own \
                messages say why it ended";
    let daemon = StandIn::of(drop);
    let error = connect(&daemon.path, PATIENCE).expect_err("gone");
    check(&error, &daemon.path, told, Some(hint));

    let daemon = StandIn::of(|mut conversation| {
        let Some((_, mut decoder)) = conversation.welcome() else { return };
        conversation.receive_request(&mut decoder);
        conversation.send(&session("a"));
        // The connection ends within a message.
        conversation.send_bytes(b"\x05\0\0");
    });
    let mut client = connect(&daemon.path, PATIENCE).expect("welcome");
    let mut replies = client.request(&Request::ListSessions(None)).expect("to be asked");
    assert_eq!(replies.next().expect("an item").expect("a session"), session("a"));
    check(&replies.next().expect("an error").expect_err("gone"), &daemon.path, told, Some(hint));
    assert!(replies.next().is_none());
    let again = client.request_all(&Request::GetSampling).expect_err("still gone");
    check(&again, &daemon.path, told, Some(hint));
}

#[test]
fn a_daemon_that_says_nothing() {
    let told = "the agent at PATH has not answered for 0.05 s";
    let daemon = StandIn::of(|mut conversation| conversation.wait());
    let start = Instant::now();
    let error = connect(&daemon.path, IMPATIENCE).expect_err("late");
    check(&error, &daemon.path, told, None);
    assert!(start.elapsed() >= IMPATIENCE.opening);

    let daemon = StandIn::of(|mut conversation| {
        conversation.welcome();
        conversation.send(&session("a"));
        conversation.wait();
    });
    let patience = Timeouts { opening: PATIENCE.opening, ..IMPATIENCE };
    let mut client = connect(&daemon.path, patience).expect("welcome");
    let error = client.request_all(&Request::ListSessions(None)).expect_err("late");
    check(&error, &daemon.path, told, None);
}

/// Skipped messages do not extend the timeout of an item.
#[test]
fn a_daemon_that_takes_its_time() {
    let daemon = StandIn::of(|mut conversation| {
        let newer = Version { minor: Version::OURS.minor + 1, ..Version::OURS };
        conversation.welcome_as(newer);
        for _ in 0..40 {
            conversation.send_bytes(b"\0\0\0\0\xff\x04");
            std::thread::sleep(Duration::from_millis(10));
        }
        conversation.send(&Reply::Done);
        conversation.wait();
    });
    let patience = Timeouts { opening: PATIENCE.opening, ..IMPATIENCE };
    let mut client = connect(&daemon.path, patience).expect("welcome");
    let error = client.request_all(&Request::GetSampling).expect_err("late");
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
}

/// The timeout of connecting also holds if the agent accepts no connections and its backlog is
/// full.
#[test]
fn a_daemon_that_takes_nobody() {
    let folder = std::env::temp_dir().join(format!("blkkin-full-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("to make a folder");
    let path = folder.join("agent.sock");
    let _listener = UnixListener::bind(&path).expect("to listen");
    let mut waiting = Vec::new();
    let error = loop {
        assert!(waiting.len() < 100_000, "the queue has no end");
        let (sender, connected) = std::sync::mpsc::channel();
        let target = path.clone();
        std::thread::spawn(move || {
            let _ = sender.send(std::os::unix::net::UnixStream::connect(target));
        });
        match connected.recv_timeout(Duration::from_millis(200)) {
            Ok(stream) => waiting.push(stream.expect("a place in the queue")),
            Err(_) => break connect(&path, IMPATIENCE).expect_err("full"),
        }
    };
    check(&error, &path, "the agent at PATH has not answered for 0.05 s", None);
    drop(waiting);
    let _ = std::fs::remove_dir_all(&folder);
}

/// A request that exceeds the limits fails in the client, and is not sent.
#[test]
fn requests_beyond_limits() {
    let request = Request::StartSession("a/b".into());
    let fault = "StartSession, session: '/' where printable characters other than '/' may be";
    assert_eq!(blkkin_client::check(&request).expect_err("unfit").to_string(), fault);
    let daemon = StandIn::answering(|_| vec![Reply::Done]);
    let mut client = connect(&daemon.path, PATIENCE).expect("welcome");
    let error = client.request_all(&request).expect_err("unfit");
    check(&error, &daemon.path, fault, None);
    assert_eq!(client.request_all(&Request::GetSampling).expect("an answer"), []);
    assert_eq!(daemon.requests(), [Request::GetSampling]);
}

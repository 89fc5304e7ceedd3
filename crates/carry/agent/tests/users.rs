//! Tests of a public agent with several users: permissions, quotas, owners of files, and outputs on
//! unresponsive or foreign file systems. Only root can run these tests, with threads of other
//! users; they are skipped otherwise.

mod support;

use blkkin_agent::{Limits, Options};
use blkkin_client::{Client, Timeouts};
use blkkin_control::{
    Applications, Channel, Hello, Mode, NewChannel, Opening, Processes, Purpose, Reply, Request,
    RetainingSession, Retention, Role, Session, Snapshot, Version, encode,
};
use blkkin_sys::testing::skip;
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use support::{Hung, Program, Running, Served, events, eventually, figure, quota};

/// Name and id of the group whose members control all sessions. The id is that of Debian; some
/// other distributions use another id for this name.
const GROUP: (&str, u32) = ("daemon", 1);
const SOMEBODY: u32 = 54_321;

/// A public agent on a thread, with a temporary directory for its socket and outputs.
struct Public {
    /// The agent, declared first so that it ends before the directory is removed.
    agent: Option<Running>,
    directory: tempfile::TempDir,
    limits: Limits,
}

impl Public {
    /// Starts a public agent. Skips the test and returns `None` unless root runs it.
    fn start(test: &str) -> Option<Public> {
        Public::start_with(test, Limits::default())
    }

    fn start_with(test: &str, limits: Limits) -> Option<Public> {
        if blkkin_sys::user_id() != 0 {
            skip(test, "only root can be other users");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let mut public = Public { agent: None, directory, limits };
        public.start_next();
        Some(public)
    }

    /// Ends the running agent, and starts the next one on the same socket.
    fn start_next(&mut self) {
        self.agent = None;
        self.agent = Some(Running::start(Options {
            signals: None,
            socket: self.socket(),
            is_public: true,
            group: GROUP.0.to_owned(),
            traces: None,
            manager: None,
            watchdog: None,
            limits: self.limits,
            kernel_tracer: None,
            forwarder: None,
            log: |_| (),
        }));
    }

    fn client(&self) -> Client {
        self.try_client().unwrap()
    }

    fn try_client(&self) -> Result<Client, blkkin_client::Error> {
        Client::connect(&[self.socket()], "test", "0", Timeouts::default())
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("agent.sock")
    }

    /// Connects a command of a user in these groups. The first group is the user's primary group.
    fn client_of(&self, user: u32, groups: [u32; 2]) -> Client {
        as_user(user, groups, || self.client())
    }

    fn program(&self) -> Program {
        Program::start_at(&self.socket())
    }

    /// Takes a snapshot of session `s`. Returns, for each trace in it, the numbers of the events.
    fn snapshot(&self, client: &mut Client) -> Vec<Vec<u64>> {
        let request = Request::Snapshot(Snapshot { session: "s".into(), output: None });
        let replies = client.request_all(&request).unwrap();
        let Some(Reply::Written(path)) = replies.last() else { panic!("{replies:?}") };
        let traces = support::traces_below(path).into_iter();
        let numbers = |trace: PathBuf| {
            support::read(&trace).numbers.into_iter().map(|(_, number)| number).collect()
        };
        traces.map(numbers).collect()
    }

    /// Makes a directory that belongs to `user`, with mode 0700.
    fn directory_of(&self, user: u32) -> PathBuf {
        let path = self.directory.path().join(format!("of-{user}"));
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::chown(&path, Some(user), Some(user)).unwrap();
        path
    }
}

/// Runs `work` on a thread with the rights of `user` and `groups`.
fn as_user<T: Send>(user: u32, groups: [u32; 2], work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let work = || {
            let all = groups.map(Gid::from_raw);
            let (uid, gid) = (Uid::from_raw(user), all[0]);
            set_thread_groups(&all[1..]).unwrap();
            set_thread_res_gid(gid, gid, gid).unwrap();
            set_thread_res_uid(uid, uid, uid).unwrap();
            work()
        };
        scope.spawn(work).join().unwrap()
    })
}

fn session(output: PathBuf) -> Request {
    let (name, output) = ("s".into(), Some(output));
    Request::CreateSession(Session { name, purpose: Purpose::Snapshot, output })
}

/// Members of the group see all sessions. The agent uses the groups that the peer had when it
/// connected, because the peer's process id may have been reused since.
#[test]
fn members_of_the_group_see_all_sessions() {
    let public = Public::start("members_of_the_group_see_all_sessions");
    let Some(public) = public else { return };
    public.client().request_all(&session(public.directory.path().join("trace"))).unwrap();
    let check = |groups: [u32; 2], expected: usize| {
        let mut client = public.client_of(SOMEBODY, groups);
        let sessions = client.request_all(&Request::ListSessions(None)).unwrap();
        assert_eq!(sessions.len(), expected, "{groups:?}: {sessions:?}");
    };
    check([SOMEBODY, SOMEBODY], 0);
    check([SOMEBODY, GROUP.1], 1);
    check([GROUP.1, SOMEBODY], 1);
}

/// A snapshot to a path in the request is written with the requester's rights and belongs to the
/// requester, even if another user owns the session. A snapshot without a path belongs to the
/// session's owner.
#[test]
fn snapshots_are_made_by_who_asks_for_them() {
    let public = Public::start("snapshots_are_made_by_who_asks_for_them");
    let Some(public) = public else { return };
    let roots = public.directory_of(0);
    let somebodys = public.directory_of(SOMEBODY);
    let mut root = public.client();
    for request in [
        session(roots.join("trace")),
        Request::EnableEvents(events("*")),
        Request::StartSession("s".into()),
    ] {
        root.request_all(&request).unwrap();
    }
    let mut program = public.program();
    program.add_type(0, "test:first");
    program.record(0, 0, 1);
    let mut member = public.client_of(SOMEBODY, [GROUP.1, SOMEBODY]);
    let snapshot = |output| Request::Snapshot(Snapshot { session: "s".into(), output });
    let refused = member.request_all(&snapshot(Some(roots.join("not-theirs")))).unwrap_err();
    assert!(refused.to_string().contains("ermission denied"), "{refused}");
    assert!(!roots.join("not-theirs").exists());
    let path = somebodys.join("snapshot");
    let replies = member.request_all(&snapshot(Some(path.clone()))).unwrap();
    assert_eq!(replies.last(), Some(&Reply::Written(path.clone())));
    let trace = support::trace_below(&path).unwrap();
    assert_eq!(support::read(&trace).numbers, [(0, 1)]);
    for made in [&path, &trace, &trace.join("metadata"), &trace.join("channel0_0")] {
        let made = fs::metadata(made).unwrap();
        assert_eq!((made.uid(), made.gid()), (SOMEBODY, GROUP.1));
    }
    // Without a path, a snapshot is written below the session's output.
    let replies = member.request_all(&snapshot(None)).unwrap();
    let Some(Reply::Written(path)) = replies.last() else { panic!("{replies:?}") };
    assert_eq!(
        (path.parent(), fs::metadata(path).unwrap().uid()),
        (Some(&*roots.join("trace")), 0)
    );
}

/// Departed programs are kept up to a limit for each user. Many programs of one user do not
/// displace those of another user.
#[test]
fn what_has_ended_is_kept_for_each_user() {
    let public = Public::start("what_has_ended_is_kept_for_each_user");
    let Some(public) = public else { return };
    let mut root = public.client();
    let channel = Channel {
        name: "small".into(),
        mode: Mode::Overwrite,
        subbuffer_size: Some(4096),
        subbuffer_count: Some(4),
        contexts: vec![],
        wait_us: 0,
        event_size: None,
    };
    for request in [
        session(public.directory.path().join("trace")),
        Request::CreateChannel(NewChannel { session: "s".into(), channel }),
        Request::EnableEvents(events("*")),
        Request::StartSession("s".into()),
    ] {
        root.request_all(&request).unwrap();
    }
    let all = Applications { processes: Processes::default(), event_types: false };
    let run = |root: &mut Client, number: u64| {
        let mut program = public.program();
        program.add_type(0, "test:first");
        program.record(0, 0, number);
        program.goodbye();
        eventually("it is gone", || {
            let listed = root.request_all(&Request::ListApplications(all.clone())).unwrap();
            listed.is_empty().then_some(())
        });
    };
    run(&mut root, 1000);
    for number in 0..70 {
        let root = &mut root;
        as_user(SOMEBODY, [SOMEBODY, SOMEBODY], || run(root, number));
    }
    let mut found = public.snapshot(&mut root);
    found.sort();
    let expected: Vec<Vec<u64>> = (6..70).chain([1000]).map(|number| vec![number]).collect();
    assert_eq!(found, expected);
    // The evicted rings of dropped programs are counted.
    let status = root.request_all(&Request::Status(None)).unwrap();
    let rings = |reply: &Reply| match reply {
        Reply::Ended(ended) => Some(ended.rings),
        _ => None,
    };
    assert!(status.iter().find_map(rings).is_some_and(|rings| rings >= 6), "{status:?}");
}

const OWN: [u32; 2] = [SOMEBODY, SOMEBODY];

/// Makes a session of a plain user that records the user's program. Returns the user's command, the
/// program, and the session's output.
fn record_own(public: &Public) -> (Client, Program, PathBuf) {
    let output = public.directory_of(SOMEBODY).join("trace");
    let mut client = public.client_of(SOMEBODY, OWN);
    for request in [
        Request::CreateSession(Session {
            name: "s".into(),
            purpose: Purpose::Record,
            output: Some(output.clone()),
        }),
        Request::EnableEvents(events("*")),
        Request::StartSession("s".into()),
    ] {
        client.request_all(&request).unwrap();
    }
    let mut program = as_user(SOMEBODY, OWN, || public.program());
    program.add_type(0, "own:event");
    (client, program, output)
}

/// Asserts that the agent answers root within five seconds, and reports the answer time as a figure
/// for N8.
#[track_caller]
fn check_answers(what: &str, socket: PathBuf) {
    let begun = Instant::now();
    let (sender, answered) = std::sync::mpsc::channel();
    // Asks on another thread, because the client's own timeout is longer.
    std::thread::spawn(move || {
        let client = Client::connect(&[socket], "test", "0", Timeouts::default());
        let answer = client.and_then(|mut client| client.request_all(&Request::ListSessions(None)));
        let _ = sender.send(answer.map(drop).map_err(|error| error.to_string()));
    });
    let answer = answered.recv_timeout(Duration::from_secs(5));
    assert_eq!(answer, Ok(Ok(())), "{what}: others are not answered");
    figure("N8", &format!("{what}: others are answered within {:?}", begun.elapsed()));
}

/// Sends a request that must fail, and returns the error message.
fn refusal(client: &mut Client, request: &Request) -> String {
    client.request_all(request).unwrap_err().to_string()
}

const NOT_ENTERED: &str = "another file system is mounted below the session's directory";

/// N8: An unresponsive file system that a user mounts below the session's output, before a trace
/// exists, is not entered: a stop and a clear of the session fail. Events that are recorded after
/// the clear are written after the unmount.
#[test]
fn n8_what_is_mounted_below_an_output_is_not_entered() {
    let test = "n8_what_is_mounted_below_an_output_is_not_entered";
    let Some(public) = Public::start(test) else { return };
    let (mut client, program, output) = record_own(&public);
    fs::create_dir(output.join("ust")).unwrap();
    std::os::unix::fs::chown(output.join("ust"), Some(SOMEBODY), Some(SOMEBODY)).unwrap();
    let Some(hung) = Hung::over(test, &output.join("ust"), SOMEBODY) else { return };
    program.record(0, 0, 1);
    program.wake();
    std::thread::sleep(Duration::from_millis(300));
    check_answers("a mount over a directory of an output", public.socket());
    let why = refusal(&mut client, &Request::StopSession("s".into()));
    assert!(why.contains(NOT_ENTERED), "{why}");
    let why = refusal(&mut client, &Request::ClearSession("s".into()));
    assert!(why.contains(NOT_ENTERED), "{why}");
    program.record(0, 0, 2);
    program.wake();
    drop(hung);
    eventually("it is written", || {
        let trace = support::trace_below(&output)?;
        (support::read(&trace).numbers == [(0, 2)]).then_some(())
    });
}

/// N8: An unresponsive file system that a user mounts over an open trace is not entered. Packets
/// with a new event type wait in the rings until the unmount, because the metadata must be
/// rewritten before them.
#[test]
fn n8_what_is_mounted_over_a_trace_is_not_entered() {
    let test = "n8_what_is_mounted_over_a_trace_is_not_entered";
    let Some(public) = Public::start(test) else { return };
    let (mut client, mut program, output) = record_own(&public);
    program.record(0, 0, 1);
    program.wake();
    let trace = eventually("it is written", || {
        let trace = support::trace_below(&output)?;
        (support::read(&trace).numbers == [(0, 1)]).then_some(trace)
    });
    let Some(hung) = Hung::over(test, &trace, SOMEBODY) else { return };
    program.add_type(1, "own:other");
    program.record(0, 1, 2);
    program.wake();
    std::thread::sleep(Duration::from_millis(300));
    check_answers("a mount over a trace", public.socket());
    let why = refusal(&mut client, &Request::StopSession("s".into()));
    assert!(why.contains(NOT_ENTERED), "{why}");
    drop(hung);
    eventually("it is written", || {
        (support::read(&trace).numbers == [(0, 1), (1, 2)]).then_some(())
    });
}

/// N8: Only root may have outputs on network file systems. Outputs on file systems that a user
/// serves are refused.
#[test]
fn n8_outputs_on_file_systems_of_others_are_refused() {
    let test = "n8_outputs_on_file_systems_of_others_are_refused";
    let Some(public) = Public::start(test) else { return };
    let (mut root, mut own) = (public.client(), public.client_of(SOMEBODY, OWN));
    let mut create = |is_root: bool, mounted: &Served, name: &str| {
        let output = Some(mounted.path().join(name));
        let session = Session { name: name.into(), purpose: Purpose::Record, output };
        let client = if is_root { &mut root } else { &mut own };
        let answer = client.request_all(&Request::CreateSession(session));
        answer.map(drop).map_err(|error| error.to_string())
    };
    let Some(network) = Served::start(test, "fuse.sshfs", 0) else { return };
    let why = create(false, &network, "own").unwrap_err();
    assert!(why.contains("(sshfs) depends on other machines"), "{why}");
    assert!(why.contains("`blkkin record`"), "{why}");
    assert_eq!(create(true, &network, "roots"), Ok(()));
    let Some(users) = Served::start(test, "fuse.any", SOMEBODY) else { return };
    for is_root in [false, true] {
        let why = create(is_root, &users, "any").unwrap_err();
        assert!(why.contains("served by a user's program"), "{why}");
    }
    let Some(local) = Served::start(test, "fuse.any", 0) else { return };
    assert_eq!(create(false, &local, "local"), Ok(()));
}

/// N8: An unresponsive file system that is mounted over a trace or over the session's output does
/// not block the next agent.
#[test]
fn n8_outputs_that_hang_do_not_keep_the_next_agent() {
    let test = "n8_outputs_that_hang_do_not_keep_the_next_agent";
    let Some(mut public) = Public::start(test) else { return };
    let (_, mut program, output) = record_own(&public);
    program.record(0, 0, 1);
    program.wake();
    let trace = eventually("it is written", || support::trace_below(&output));
    let mut go_on = |what: &str, path: &Path, number: u64| {
        public.agent = None;
        let hung = Hung::over(test, path, SOMEBODY)?;
        public.start_next();
        check_answers(&format!("a mount over {what}, and a new agent"), public.socket());
        as_user(SOMEBODY, OWN, || program.reconnect_to(&public.socket()));
        program.record(program.newest, 0, number);
        program.wake();
        check_answers(&format!("its program is back, under a mount over {what}"), public.socket());
        Some((hung, public.client_of(SOMEBODY, OWN)))
    };
    let Some((hung, _)) = go_on("its trace", &trace, 2) else { return };
    drop(hung);
    eventually("it is written", || {
        let has_it = |trace: PathBuf| support::read(&trace).numbers.iter().any(|one| one.1 == 2);
        support::traces_below(&output).into_iter().any(has_it).then_some(())
    });
    let Some((hung, mut client)) = go_on("its output", &output, 3) else { return };
    let why = refusal(&mut client, &Request::StopSession("s".into()));
    assert!(why.contains("served by a user's program"), "{why}");
    drop(hung);
}

/// Programs and commands of one user share a quota of connections. A command beyond the quota is
/// refused with the reason, and other users are not affected.
#[test]
fn a_quota_of_connections() {
    let limits = Limits { connections: 4, ..Limits::default() };
    let Some(public) = Public::start_with("a_quota_of_connections", limits) else { return };
    let mut root = public.client();
    let (commands, programs) = as_user(SOMEBODY, OWN, || {
        (public.client(), [public.program(), public.program(), public.program()])
    });
    let refused = as_user(SOMEBODY, OWN, || public.try_client().unwrap_err().to_string());
    let expected = format!(
        "user {SOMEBODY} would have more than 4 connections; end some programs or commands"
    );
    assert!(refused.contains(&expected), "{refused}");
    assert_eq!(quota(&mut root, SOMEBODY, "connections"), (4, 1));
    assert_eq!(quota(&mut root, 0, "connections"), (1, 0));
    drop((commands, programs));
    eventually("they are gone", || {
        (quota(&mut root, SOMEBODY, "connections").0 == 0).then_some(())
    });
    let mut own = public.client_of(SOMEBODY, OWN);
    // A plain user sees no quotas of other users.
    assert_eq!(quota(&mut own, SOMEBODY, "connections").0, 1);
    assert_eq!(quota(&mut own, 0, "connections"), (0, 0));
}

/// Incomplete messages of one user share a quota, however many connections they arrive on.
#[test]
fn a_quota_of_messages() {
    let limits = Limits { message_bytes: 100_000, ..Limits::default() };
    let Some(public) = Public::start_with("a_quota_of_messages", limits) else { return };
    let mut root = public.client();
    let mut halves = Vec::new();
    for (kept, refused) in [(1, 0), (2, 0), (3, 0), (3, 1), (3, 2)] {
        halves.push(as_user(SOMEBODY, OWN, || IncompleteRequest::send(&public.socket())));
        eventually("three are kept, and others dropped", || {
            let bytes = quota(&mut root, SOMEBODY, "message-bytes");
            assert!(bytes.0 <= 100_000, "{bytes:?}");
            let connections = quota(&mut root, SOMEBODY, "connections");
            (bytes == (kept * HALF_SIZE, refused) && connections == (kept, 0)).then_some(())
        });
    }
    let _half = IncompleteRequest::send(&public.socket());
    eventually("it is another user's", || {
        (quota(&mut root, 0, "message-bytes") == (HALF_SIZE, 0)).then_some(())
    });
}

/// Event types of all programs of one user share a quota. They are charged once more for each trace
/// that describes them.
#[test]
fn a_quota_of_event_types() {
    let limits = Limits { type_bytes: 1_000_000, ..Limits::default() };
    let Some(public) = Public::start_with("a_quota_of_event_types", limits) else { return };
    let mut root = public.client();
    for request in record_all(&public, Purpose::Record) {
        root.request_all(&request).unwrap();
    }
    // A program's types take half of the quota, and their descriptions in its trace the other half.
    let greedy = || {
        let mut program = public.program();
        (0..700).for_each(|index| program.add_type(index, "greedy:event"));
        program.record(0, 0, 1);
        program
    };
    let used_by = |root: &mut Client, user| quota(root, user, "type-bytes");
    let _roots = greedy();
    let all = eventually("its types are described", || {
        let (used, refused) = used_by(&mut root, 0);
        assert_eq!(refused, 0);
        (used > 500_000).then_some(used)
    });
    let _first = as_user(SOMEBODY, OWN, greedy);
    eventually("they are described", || (used_by(&mut root, SOMEBODY).0 == all).then_some(()));
    let _second = as_user(SOMEBODY, OWN, greedy);
    eventually("those of the second are refused in part", || {
        let (used, refused) = used_by(&mut root, SOMEBODY);
        assert!(used <= 1_000_000, "{used}");
        (used > all && refused > 0).then_some(())
    });
    assert_eq!(used_by(&mut root, 0), (all, 0), "it is another user's");
}

/// Rings of all programs of one user share a quota. Rings of ended programs are evicted to make
/// room.
#[test]
fn a_quota_of_rings() {
    let test = "a_quota_of_rings";
    let limits = Limits::default();
    // Without a stated size, rings would be smaller if the quota is.
    let record_in = |public: &Public, root: &mut Client| {
        for request in record_all(public, Purpose::Snapshot) {
            let request = match request {
                Request::CreateSession(session) => {
                    let memory = Some((support::online_processors() as u64 + 1) << 21);
                    let retention = Retention { keep_ms: None, memory };
                    Request::CreateRetainingSession(RetainingSession { session, retention })
                }
                request => request,
            };
            root.request_all(&request).unwrap();
        }
    };
    let Some(public) = Public::start_with(test, limits) else { return };
    let mut root = public.client();
    record_in(&public, &mut root);
    let program = public.program();
    let (size, _) = quota(&mut root, 0, "ring-bytes");
    assert!(size > 3 << 20);
    drop((program, root, public));

    let limits = Limits { ring_bytes: 2 * size + 1, ..limits };
    let Some(public) = Public::start_with(test, limits) else { return };
    let mut root = public.client();
    record_in(&public, &mut root);
    let [first, second, third] =
        as_user(SOMEBODY, OWN, || [public.program(), public.program(), public.program()]);
    let has_rings = |program: &Program| !program.writers.is_empty();
    assert!(has_rings(&first) && has_rings(&second) && !has_rings(&third));
    assert!(has_rings(&public.program()), "it is another user's");
    assert_eq!(quota(&mut root, SOMEBODY, "ring-bytes"), (2 * size, 1));
    // Rings of ended programs are kept while the quota permits.
    drop((first, second, third));
    let count = |root: &mut Client| {
        let applications = Applications { processes: Processes::default(), event_types: false };
        root.request_all(&Request::ListApplications(applications)).unwrap().len()
    };
    eventually("they have ended", || (count(&mut root) == 0).then_some(()));
    assert_eq!(quota(&mut root, SOMEBODY, "ring-bytes").0, 2 * size);
    assert!(as_user(SOMEBODY, OWN, || has_rings(&public.program())));
}

/// Descriptors of one user share a quota, whether they are sockets, memory or files.
#[test]
fn a_quota_of_descriptors() {
    let test = "a_quota_of_descriptors";
    let recording = |limits| {
        let public = Public::start_with(test, limits)?;
        let mut root = public.client();
        for request in record_all(&public, Purpose::Record) {
            root.request_all(&request).unwrap();
        }
        Some((public, root))
    };
    let Some((public, mut root)) = recording(Limits::default()) else { return };
    let program = as_user(SOMEBODY, OWN, || public.program());
    let (each, _) = quota(&mut root, SOMEBODY, "descriptors");
    // Three descriptors are the connection, the catalog and the eventfd. The others are for rings
    // and their files.
    assert!(each > 3 + 2, "{each}");
    drop((program, root, public));

    let limits = Limits { descriptors: 2 * each + 3, ..Limits::default() };
    let (public, mut root) = recording(limits).unwrap();
    let [first, second, third] =
        as_user(SOMEBODY, OWN, || [public.program(), public.program(), public.program()]);
    let has_rings = |program: &Program| !program.writers.is_empty();
    assert!(has_rings(&first) && has_rings(&second) && !has_rings(&third));
    let refused = as_user(SOMEBODY, OWN, || public.try_client().unwrap_err().to_string());
    assert!(refused.contains("descriptors; end programs or sessions"), "{refused}");
    assert_eq!(quota(&mut root, SOMEBODY, "descriptors"), (limits.descriptors, 2));
    assert!(has_rings(&public.program()), "it is another user's");
    drop((first, second, third));
    eventually("they are gone", || {
        (quota(&mut root, SOMEBODY, "connections").0 == 0).then_some(())
    });
    // The programs may reconnect for a while. All of their descriptors but the connections stay
    // charged until their absence ends, or until other programs need the descriptors.
    assert_eq!(quota(&mut root, SOMEBODY, "descriptors").0, 2 * (each - 1));
    let others = as_user(SOMEBODY, OWN, || [public.program(), public.program()]);
    assert!(others.iter().all(has_rings));
    drop(others);
    eventually("they are given back", || {
        (quota(&mut root, SOMEBODY, "descriptors").0 == 0).then_some(())
    });
}

/// Returns the requests that make and start session `s`, which records the programs of all users.
fn record_all(public: &Public, purpose: Purpose) -> [Request; 3] {
    let (name, output) = ("s".into(), Some(public.directory.path().join("trace")));
    [
        Request::CreateSession(Session { name, purpose, output }),
        Request::EnableEvents(events("*")),
        Request::StartSession("s".into()),
    ]
}

/// Number of bytes that are sent of an incomplete request.
const HALF_SIZE: u64 = 30_000;

/// A connected command that has sent only the start of a request.
struct IncompleteRequest(#[expect(dead_code, reason = "held open")] UnixStream);

impl IncompleteRequest {
    fn send(socket: &Path) -> IncompleteRequest {
        let mut stream = UnixStream::connect(socket).unwrap();
        let hello = Hello {
            version: Version::OURS,
            role: Role::Command,
            program: "half".into(),
            release: "0".into(),
        };
        let mut bytes = Vec::new();
        encode(&Opening::Hello(hello), &mut bytes).unwrap();
        let mut request = Vec::new();
        encode(&Request::ListSessions(None), &mut request).unwrap();
        // The header announces a payload of a megabyte.
        request[..4].copy_from_slice(&(1u32 << 20).to_le_bytes());
        request.resize(HALF_SIZE as usize, 0);
        bytes.extend(request);
        // Fails if the agent closes the connection meanwhile.
        let _ = stream.write_all(&bytes);
        IncompleteRequest(stream)
    }
}

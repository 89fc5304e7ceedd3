//! Users of a public agent: who may what, and whose files are whose. Only root can try that, with threads
//! that are other users'; anybody else skips it.

mod support;

use blkkin_agent::{Agent, Options};
use blkkin_client::{Client, Patience};
use blkkin_control::{
    Applications, Channel, Mode, NewChannel, Processes, Purpose, Reply, Request, Session, Snapshot,
};
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::fs;
use std::io::PipeWriter;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::thread::JoinHandle;
use support::{Program, events, eventually, skip};

/// The group of this agent: one that each machine has.
const GROUP: (&str, u32) = ("daemon", 1);
const SOMEBODY: u32 = 54_321;

/// An agent for all users, on a thread.
struct Public {
    directory: tempfile::TempDir,
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<std::io::Result<()>>>,
}

impl Public {
    /// None for anybody but root.
    fn start(test: &str) -> Option<Public> {
        if blkkin_sys::user_id() != 0 {
            skip(test, "only root can be other users");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let options = Options {
            socket: directory.path().join("agent.sock"),
            is_public: true,
            group: GROUP.0.to_owned(),
            traces: None,
            manager: None,
            log: |_| (),
        };
        let mut agent = Agent::bind(options).unwrap();
        let (stopped, stop) = std::io::pipe().unwrap();
        let thread = std::thread::spawn(move || agent.run(stopped.as_fd()));
        Some(Public { directory, stop: Some(stop), thread: Some(thread) })
    }

    fn client(&self) -> Client {
        let addresses = [self.directory.path().join("agent.sock")];
        Client::connect(&addresses, "test", "0", Patience::default()).unwrap()
    }

    /// A command of a user in these groups, the first of which is the user's own.
    fn client_of(&self, user: u32, groups: [u32; 2]) -> Client {
        as_user(user, groups, || self.client())
    }

    fn program(&self) -> Program {
        Program::start_at(&self.directory.path().join("agent.sock"))
    }

    /// Takes a snapshot; the numbers in each of its traces.
    fn snapshot(&self, client: &mut Client) -> Vec<Vec<u64>> {
        let request = Request::Snapshot(Snapshot { session: "s".into(), output: None });
        let replies = client.ask_all(&request).unwrap();
        let [Reply::Written(path)] = &replies[..] else { panic!("{replies:?}") };
        let traces = support::traces_below(path).into_iter();
        let numbers = |trace: PathBuf| {
            support::read(&trace).numbers.into_iter().map(|(_, number)| number).collect()
        };
        traces.map(numbers).collect()
    }

    /// A directory that a user and nobody else can write to.
    fn directory_of(&self, user: u32) -> PathBuf {
        let path = self.directory.path().join(format!("of-{user}"));
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::chown(&path, Some(user), Some(user)).unwrap();
        path
    }
}

/// Does something as another user, on a thread of its own.
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

impl Drop for Public {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn session(output: PathBuf) -> Request {
    let (name, output) = ("s".into(), Some(output));
    Request::CreateSession(Session { name, purpose: Purpose::Snapshot, output })
}

/// Who is in the group is known by the connection, not by the process, which may be another one by then.
#[test]
fn members_of_the_group_see_all_sessions() {
    let public = Public::start("members_of_the_group_see_all_sessions");
    let Some(public) = public else { return };
    public.client().ask_all(&session(public.directory.path().join("trace"))).unwrap();
    let check = |groups: [u32; 2], expected: usize| {
        let mut client = public.client_of(SOMEBODY, groups);
        let sessions = client.ask_all(&Request::ListSessions(None)).unwrap();
        assert_eq!(sessions.len(), expected, "{groups:?}: {sessions:?}");
    };
    check([SOMEBODY, SOMEBODY], 0);
    check([SOMEBODY, GROUP.1], 1);
    check([GROUP.1, SOMEBODY], 1);
}

/// A snapshot goes where who asks for it may write, and belongs to them, whosever the session is.
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
        root.ask_all(&request).unwrap();
    }
    let mut program = public.program();
    program.tell(0, "test:first");
    program.record(0, 0, 1);
    let mut member = public.client_of(SOMEBODY, [GROUP.1, SOMEBODY]);
    let snapshot = |output| Request::Snapshot(Snapshot { session: "s".into(), output });
    let refused = member.ask_all(&snapshot(Some(roots.join("not-theirs")))).unwrap_err();
    assert!(refused.to_string().contains("ermission denied"), "{refused}");
    assert!(!roots.join("not-theirs").exists());
    let path = somebodys.join("snapshot");
    let replies = member.ask_all(&snapshot(Some(path.clone()))).unwrap();
    assert_eq!(replies, [Reply::Written(path.clone())]);
    let trace = support::trace_below(&path).unwrap();
    assert_eq!(support::read(&trace).numbers, [(0, 1)]);
    for made in [&path, &trace, &trace.join("metadata"), &trace.join("channel0_0")] {
        let made = fs::metadata(made).unwrap();
        assert_eq!((made.uid(), made.gid()), (SOMEBODY, GROUP.1));
    }
    // Where nothing is said, it goes where the session's go.
    let replies = member.ask_all(&snapshot(None)).unwrap();
    let [Reply::Written(path)] = &replies[..] else { panic!("{replies:?}") };
    assert_eq!(
        (path.parent(), fs::metadata(path).unwrap().uid()),
        (Some(&*roots.join("trace")), 0)
    );
}

/// What is kept of programs that have ended is bounded for each user: many of one do not push others' out.
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
    };
    for request in [
        session(public.directory.path().join("trace")),
        Request::CreateChannel(NewChannel { session: "s".into(), channel }),
        Request::EnableEvents(events("*")),
        Request::StartSession("s".into()),
    ] {
        root.ask_all(&request).unwrap();
    }
    let all = Applications { processes: Processes::default(), event_types: false };
    let run = |root: &mut Client, number: u64| {
        let mut program = public.program();
        program.tell(0, "test:first");
        program.record(0, 0, number);
        program.goodbye();
        eventually("it is gone", || {
            let listed = root.ask_all(&Request::ListApplications(all.clone())).unwrap();
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
    // What is not kept any more is counted.
    let status = root.ask_all(&Request::Status(None)).unwrap();
    let rings = |reply: &Reply| match reply {
        Reply::Ended(ended) => Some(ended.rings),
        _ => None,
    };
    assert!(status.iter().find_map(rings).is_some_and(|rings| rings >= 6), "{status:?}");
}

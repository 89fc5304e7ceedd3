//! Promise H2: a process that connects and ends immediately is not mistaken for a later process
//! with its pid, even while another process holds the connection.

use super::*;
use blkkin_control::{
    Answer, Clock, Decoder, Hello, Messages, Opening, Received, Reply, Request, Role, Version,
    encode,
};
use blkkin_sys::socket::{Listener, Socket};

/// Acts as a program that connects to the agent, passes the connection to another process, and
/// ends.
#[test]
#[ignore = "a program of other tests"]
fn connects() {
    let path = |variable| PathBuf::from(std::env::var_os(variable).unwrap());
    let agent = Socket::connect(&path("TEST_AGENT")).unwrap();
    let holder = Socket::connect(&path("TEST_HOLDER")).unwrap();
    assert_eq!(holder.send(b"x", &[agent.as_fd()]).unwrap(), 1);
}

/// Connection to the agent that was opened by a process which has ended since.
struct OrphanConnection {
    socket: Socket,
    /// Id of the process that connected.
    pid: u32,
}

impl OrphanConnection {
    fn say<M: Messages>(&self, message: &M) {
        let mut bytes = Vec::new();
        encode(message, &mut bytes).unwrap();
        assert_eq!(self.socket.send(&bytes, &[]).unwrap(), bytes.len());
    }

    fn hear<M: Messages>(&self, decoder: &mut Decoder<M>) -> M {
        eventually("an answer", || {
            let (mut bytes, mut descriptors) = ([0; 4096], Vec::new());
            match self.socket.receive(&mut bytes, &mut descriptors) {
                Ok(0) => panic!("the agent has closed the connection"),
                Ok(size) => decoder.feed(&bytes[..size], descriptors),
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
            }
            match decoder.take().unwrap() {
                Some(Received::Message { message, .. }) => Some(message),
                _ => None,
            }
        })
    }

    fn greet(&self, role: Role) -> Decoder<Answer> {
        let (program, release) = ("of-nobody".into(), "0".into());
        self.say(&Opening::Hello(Hello { version: Version::OURS, role, program, release }));
        let mut decoder = Decoder::new();
        assert!(matches!(self.hear(&mut decoder), Answer::Welcome(_)));
        decoder
    }
}

/// Returns a command prefix that runs a program as the given user with the given groups.
fn as_user(user: u32, groups: &str) -> Command {
    let mut command = Command::new("setpriv");
    let user = user.to_string();
    command.args(["--reuid", &user, "--regid", &user, "--groups", groups]);
    command
}

/// Id of a user who is no member of [`GROUP`].
const STRANGER: u32 = 65534;
/// Id of a user who may control all sessions, as a member of [`GROUP`].
const MASTER: u32 = 12;
/// Name and id of the group whose members may control all sessions.
const GROUP: (&str, &str) = ("daemon", "1");

struct Place {
    /// Directory that every user can read.
    folder: PathBuf,
    tests: PathBuf,
    holder: Listener,
    agent: Running,
}

const SOCKET: &str = "/run/blkkin/agent.sock";

impl Place {
    fn new(folder: &Path) -> Place {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
        let tests = folder.join("tests");
        fs::copy(std::env::current_exe().unwrap(), &tests).unwrap();
        let holder = folder.join("holder");
        let listener = Listener::bind(&holder).unwrap();
        fs::set_permissions(&holder, fs::Permissions::from_mode(0o666)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_blkkin"));
        command.args(["agent", "--group", GROUP.0]).env_remove("BLKKIN_SOCKET");
        let agent = Running(command.stderr(Stdio::null()).spawn().unwrap());
        eventually("the agent listens", || Path::new(SOCKET).exists().then_some(()));
        Place { folder: folder.to_owned(), tests, holder: listener, agent }
    }

    /// Returns a connection to the agent; the process of [`STRANGER`] that opened it has ended.
    fn connection(&self) -> OrphanConnection {
        let mut command = as_user(STRANGER, &STRANGER.to_string());
        command.arg(&self.tests).args(["--ignored", "--exact", "identity::connects"]);
        command.env("TEST_AGENT", SOCKET).env("TEST_HOLDER", self.folder.join("holder"));
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        let socket = eventually("it connects", || self.holder.accept().ok());
        let mut held = Vec::new();
        eventually("it gives its connection away", || {
            socket.receive(&mut [0; 9], &mut held).is_ok().then_some(())
        });
        assert!(child.wait().unwrap().success());
        OrphanConnection { socket: Socket::from(held.pop().unwrap()), pid: child.id() }
    }
}

/// Starts processes of user [`MASTER`] until one has this pid.
fn start_with_pid(pid: u32) -> Running {
    eventually("the number is used again", || {
        fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).unwrap();
        let mut command = as_user(MASTER, GROUP.1);
        let other = Running(command.args(["sleep", "1000"]).spawn().unwrap());
        (other.id() == pid).then_some(other)
    })
}

/// Acts as a test program in its own PID namespace with its own `/run`. It checks that the agent
/// never mistakes a process for a later process with the same pid.
#[test]
#[ignore = "a program of other tests"]
fn numbers_are_used_again() {
    let node = Node::new();
    let place = Place::new(node.directory.path());
    let mut list = Command::new(env!("CARGO_BIN_EXE_blkkin"));
    list.args(["session", "create", "roots", "-o"]).arg(node.directory.path().join("roots"));
    run(&mut list);
    for round in 0..env_number("TEST_NUMBERS", 20) {
        // The agent accepts the connection, or receives its `Hello`, long after the process has
        // ended.
        let is_late = round % 2 == 0;
        if is_late {
            signal(place.agent.id(), Signal::STOP);
        }
        let [program, command] = [place.connection(), place.connection()];
        let [other, another] = [start_with_pid(program.pid), start_with_pid(command.pid)];
        for process in [&other, &another] {
            let runs = || fs::read_link(format!("/proc/{}/exe", process.id())).ok();
            let is_sleep = || runs().is_some_and(|path| path.ends_with("sleep"));
            eventually("it sleeps", || is_sleep().then_some(()));
        }
        if is_late {
            signal(place.agent.id(), Signal::CONT);
        }
        program.greet(Role::Application { pid: 1, clock: Clock::Monotonic });
        let found = listed();
        let [found] = &found[..] else { panic!("{found:?}") };
        assert_eq!((found.pid, found.uid), (program.pid, STRANGER));
        assert_eq!(found.executable, "", "that is another process's");
        let mut decoder: Decoder<Reply> = command.greet(Role::Command).followed_by();
        command.say(&Request::ListSessions(None));
        let reply = command.hear(&mut decoder);
        assert_eq!(reply, Reply::Done, "it sees what only the master and root may");
        drop((program, other, another));
        eventually("it is gone", || listed().is_empty().then_some(()));
    }
    say("\nwas never taken for another");
}

fn listed() -> Vec<blkkin_control::Application> {
    support::node::applications_of(Path::new(SOCKET))
}

#[test]
fn h2_who_is_gone_is_not_taken_for_who_has_its_number_now() {
    let test = "h2_who_is_gone_is_not_taken_for_who_has_its_number_now";
    if !can(test, &["unshare", "mount", "setpriv", "sleep"]) {
        return;
    }
    if !Path::new("/proc/sys/kernel/ns_last_pid").exists() {
        return skip(test, "this kernel does not let one choose the number of the next process");
    }
    let rounds = env_number("TEST_NUMBERS", 20);
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "sh", "-ec"]);
    command.arg("mount -t tmpfs run /run && exec \"$0\" \"$@\"");
    command.arg(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "--nocapture", "identity::numbers_are_used_again"]);
    let said = run(command.env_remove("BLKKIN_SOCKET"));
    assert!(said.contains("was never taken for another"), "{said}");
    figure("H2", &format!("{rounds} numbers of processes used again: 0 taken for another"));
}

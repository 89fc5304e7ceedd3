//! Promises H2, H3, K2 and P1. Users cannot see or control each other's programs, and cannot exceed
//! their quotas. Programs may run in their own namespaces, and stopped, frozen or idle programs
//! delay nothing. The agent has only the capabilities that it needs.

use super::*;
use blkkin_client::{Client, Timeouts};
use blkkin_control::{Events, Purpose, Request, Selection, Session};

/// Agent of root at the system's socket path, in a mount namespace with its own `/run`.
struct Public {
    node: Node,
    agent: Running,
    program: PathBuf,
    tests: PathBuf,
}

const NOBODY: &str = "65534";

impl Public {
    fn new() -> Public {
        let node = Node::new();
        let directory = node.directory.path();
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
        // Copied to a directory in which every user can execute it.
        let copy = |from: &Path, name: &str| {
            let to = directory.join(name);
            fs::copy(from, &to).unwrap();
            to
        };
        let program = copy(Path::new(env!("CARGO_BIN_EXE_blkkin")), "blkkin");
        let tests = copy(&std::env::current_exe().unwrap(), "tests");
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-ec"]);
        command.arg("mount -t tmpfs run /run && exec \"$0\" agent --traces \"$1\"");
        command.arg(&program).arg(directory.join("traces")).env_remove("BLKKIN_SOCKET");
        let traces = directory.join("traces");
        fs::create_dir(&traces).unwrap();
        fs::set_permissions(&traces, fs::Permissions::from_mode(0o777)).unwrap();
        let agent = Running(command.stderr(Stdio::null()).spawn().unwrap());
        let public = Public { node, agent, program, tests };
        eventually("the agent answers", || {
            let mut list = public.enter(
                &["setpriv", "--reuid", "0", "--regid", "0", "--clear-groups"],
                &public.program,
            );
            list.args(["session", "list"]).output().unwrap().status.success().then_some(())
        });
        public
    }

    fn enter(&self, starter: &[&str], program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["--mount", "--target", &self.agent.id().to_string()])
            .args(starter)
            .arg(program);
        command.env_remove("BLKKIN_SOCKET").env_remove("XDG_RUNTIME_DIR");
        command.current_dir(self.node.directory.path());
        command
    }

    fn as_user(&self, user: &str, program: &Path) -> Command {
        self.enter(&["setpriv", "--reuid", user, "--regid", user, "--clear-groups"], program)
    }

    fn tell(&self, user: &str, arguments: &[&str]) -> (bool, String) {
        let output = self.as_user(user, &self.program).args(arguments).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    }

    fn program(&self, user: &str) -> Program {
        let mut command = self.as_user(user, &self.tests);
        command.args(["--ignored", "--exact", "--nocapture", "program"]);
        command.env("BLKKIN_WAIT", "5000").env("BLKKIN_PROGRAM", format!("of{user}"));
        Program::start(command)
    }
}

#[test]
fn h2_other_users_are_neither_seen_nor_controlled() {
    let test = "h2_other_users_are_neither_seen_nor_controlled";
    if !can(test, &["unshare", "mount", "nsenter", "setpriv"]) {
        return;
    }
    let public = Public::new();
    let (roots, nobodys) = (public.program("0"), public.program(NOBODY));
    let told = |user, arguments: &[&str]| {
        let (is_done, text) = public.tell(user, arguments);
        assert!(is_done, "{user} {arguments:?}: {text}");
        text
    };
    let traces = public.node.directory.path().join("traces");
    for (user, name) in [("0", "roots"), (NOBODY, "nobodys")] {
        told(user, &["session", "create", name, "-o", traces.join(name).to_str().unwrap()]);
        told(user, &["event", "enable", "-s", name, "test:*"]);
        told(user, &["session", "start", name]);
    }
    // Root sees both sessions, other users only their own.
    let listed = told("0", &["event", "list"]);
    assert!(listed.contains("of0") && listed.contains("of65534"), "{listed}");
    let listed = told(NOBODY, &["event", "list"]);
    assert!(!listed.contains("of0") && listed.contains("of65534"), "{listed}");
    let listed = told(NOBODY, &["session", "list"]);
    assert!(!listed.contains("roots") && listed.contains("nobodys"), "{listed}");
    assert!(!told(NOBODY, &["status"]).contains("roots"));
    for action in ["stop", "destroy", "clear"] {
        let (is_done, text) = public.tell(NOBODY, &["session", action, "roots"]);
        assert!(!is_done && text.contains("no session `roots`"), "{text}");
    }
    let (is_done, text) = public.tell(NOBODY, &["event", "enable", "-s", "roots", "other:*"]);
    assert!(!is_done && text.contains("no session `roots`"), "{text}");
    // The agent does not write where the user may not.
    let (is_done, text) = public.tell(NOBODY, &["session", "create", "x", "-o", "/etc/of-nobody"]);
    assert!(!is_done && text.contains("ermission denied"), "{text}");
    let of_nobody = nobodys.end();
    let of_root = roots.end();
    told("0", &["session", "destroy", "roots"]);
    told(NOBODY, &["session", "destroy", "nobodys"]);
    let names = |name: &str| -> Vec<String> {
        let traces = traces_below(&traces.join(name)).into_iter();
        let mut names: Vec<String> = traces
            .map(|trace| {
                trace.file_name().unwrap().to_string_lossy().split('-').next().unwrap().to_owned()
            })
            .collect();
        names.sort();
        names
    };
    assert_eq!(names("roots"), ["of0", "of65534"]);
    assert_eq!(names("nobodys"), ["of65534"]);
    let (numbers, lost) = read(&traces.join("nobodys"));
    assert!(numbers.len() as u64 + lost <= of_nobody && of_root > 0);
    figure("H2", "another user sees, controls and records none of root's programs and sessions");
}

#[test]
fn h3_more_connections_than_one_user_may_have() {
    let test = "h3_more_connections_than_one_user_may_have";
    let node = Node::new();
    let agent = node.agent();
    node.record_all();
    let program = node.program(100, 1000);
    let wanted = env_number("TEST_CONNECTIONS", 4300);
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    if limit.maximum.is_some_and(|most| most < wanted + 100) {
        return skip(test, "too few descriptors");
    }
    let mut raised = limit;
    raised.current = raised.maximum;
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
    let mut open = Vec::new();
    for _ in 0..wanted {
        open.push(eventually("a connection", || {
            std::os::unix::net::UnixStream::connect(node.socket()).ok()
        }));
    }
    let refused = node.command(&["session", "list"]).output().unwrap();
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && words.contains("more than 4096 connections"), "{words}");
    drop(open);
    eventually("others are let in", || {
        node.command(&["session", "list"]).output().unwrap().status.success().then_some(())
    });
    let tried = program.end();
    node.end_session();
    assert_eq!(check_all(&node.output(), tried), 0);
    let size = status_of(agent.id(), "VmHWM");
    figure(
        "H3",
        &format!(
            "{wanted} connections: {tried} events of another program, 0 lost; the agent took {size}"
        ),
    );
}

/// Event types beyond a program's quota are refused with a message and counted. Other programs lose
/// no event.
#[test]
fn h3_more_types_than_one_program_may_have() {
    let node = Node::new();
    let log = node.directory.path().join("log");
    let mut command = node.command(&["agent"]);
    command.stderr(File::create(&log).unwrap());
    let _agent = Running(command.spawn().unwrap());
    eventually("the agent listens", || node.socket().exists().then_some(()));
    node.record_all();
    let other = node.program(100, 1000);
    let (told, refused) = (16_384, 616);
    let mut command = node.test_program(&[], "greedy");
    let first = 1 << 40;
    command.env("TEST_COUNT", (told + refused).to_string()).env("TEST_FIRST", first.to_string());
    let greedy = Program::start(command);
    let id = greedy.id();
    let json =
        || -> serde_json::Value { serde_json::from_str(&node.run(&["status", "--json"])).unwrap() };
    let own = |status: serde_json::Value| {
        let programs = status["applications"].as_array().unwrap().clone();
        programs.into_iter().find(|one| one["pid"] == id).unwrap()
    };
    eventually("its types are known", || (own(json())["event_type_count"] == told).then_some(()));
    assert_eq!(own(json())["event_types_refused"], refused);
    let status = node.run(&["status"]);
    let words = format!("({id}): {refused} event types not recorded: too many (16384 at most");
    assert!(status.contains(&words), "{status}");
    greedy.end();
    eventually("the agent tells of it", || {
        fs::read_to_string(&log)
            .unwrap()
            .contains(&format!("({id}): {refused} event types"))
            .then_some(())
    });
    let tried = other.end();
    node.end_session();
    let (numbers, lost) = read(&node.output());
    check_distinct(&numbers);
    let (others, own): (Vec<u64>, Vec<u64>) = numbers.iter().partition(|number| **number < first);
    assert_eq!((others.len() as u64, own.len(), lost), (tried, told, 0));
    figure(
        "H3",
        &format!(
            "{} event types: {refused} refused, in words, and counted; {tried} events of another program, 0 lost",
            told + refused
        ),
    );
}

/// A user who opens connections until descriptors run out only prevents new connections. The agent
/// still records, and creates the files of new traces.
#[test]
fn h3_more_connections_than_there_are_descriptors() {
    let node = Node::new();
    let log = node.directory.path().join("log");
    let mut command = Command::new("sh");
    command.args(["-ec", "ulimit -n 100; exec \"$0\" agent 2> \"$1\""]);
    command.arg(env!("CARGO_BIN_EXE_blkkin")).arg(&log).env("BLKKIN_SOCKET", node.socket());
    let agent = node.agent_by(command);
    node.record_all();
    let mut program = node.program(10, 1000);
    eventually("the trace is there", || (!traces_below(&node.output()).is_empty()).then_some(()));
    let mut command = Client::connect(&[node.socket()], "test", "0", Timeouts::default()).unwrap();
    let connect = || std::os::unix::net::UnixStream::connect(node.socket()).unwrap();
    let mut open: Vec<_> = (0..200).map(|_| connect()).collect();
    let refused = node.command(&["session", "list"]).output().unwrap();
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && words.contains("of 100 descriptors only the 25"),
        "{words}"
    );
    // Files of a new trace can still be created.
    let other = node.directory.path().join("other");
    let session =
        Session { name: "other".into(), purpose: Purpose::Record, output: Some(other.clone()) };
    let selection = Selection::for_names(["test:*"]);
    let events = Events { session: "other".into(), channel: None, selection };
    for request in [
        Request::CreateSession(session),
        Request::EnableEvents(events),
        Request::StartSession("other".into()),
    ] {
        command.request_all(&request).unwrap();
    }
    eventually("the other trace is there", || {
        let traces = traces_below(&other);
        let size = |path: &PathBuf| fs::metadata(path.join("channel0_0")).ok().map(|one| one.len());
        traces.first().and_then(size).filter(|size| *size > 0)
    });
    // No descriptor is left at all, as if the whole machine had none.
    let pid = rustix::process::Pid::from_raw(agent.id() as i32);
    let limit = |most: u64| {
        let limit = rustix::process::Rlimit { current: Some(most), maximum: Some(100) };
        rustix::process::prlimit(pid, rustix::process::Resource::Nofile, limit).unwrap();
    };
    limit(1);
    let lines = || fs::read_to_string(&log).unwrap().lines().count();
    let told = lines();
    open.extend((0..20).map(|_| connect()));
    let (begun, before) = (program.count(), cpu_time(agent.id()));
    std::thread::sleep(Duration::from_secs(2));
    let (ended, took) = (program.count(), cpu_time(agent.id()) - before);
    assert!(took < Duration::from_millis(1500), "it took {took:?}, and had little to do");
    assert!(ended > begun + 1000);
    assert!(lines() <= told + 1, "{}", fs::read_to_string(&log).unwrap());
    limit(100);
    drop(open);
    eventually("others are let in", || {
        node.command(&["session", "list"]).output().unwrap().status.success().then_some(())
    });
    let tried = program.end();
    node.run(&["session", "destroy", "--all"]);
    assert_eq!(check_all(&node.output(), tried), 0);
    figure(
        "H3",
        "no descriptor left: nothing of another program was lost, its new trace was begun",
    );
}

/// Returns the CPU time that the main thread of a process has used.
fn cpu_time(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    Duration::from_nanos(stat.split_whitespace().next().unwrap().parse().unwrap())
}

#[test]
fn k2_a_program_in_namespaces_of_its_own() {
    if !can("k2_a_program_in_namespaces_of_its_own", &["unshare"]) {
        return;
    }
    let node = Node::new();
    let _agent = node.agent();
    node.record_all();
    let starter =
        ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount", "--mount-proc"];
    let program = node.program_behind(&starter, 10, 1000);
    let [application] = &node.applications()[..] else { panic!("one program") };
    assert_eq!(status_of(application.pid, "NSpid"), format!("{}\t1", application.pid));
    assert_ne!(application.pid, program.id(), "that is who has started it");
    assert_eq!(application.pid_inner, 1);
    eventually("it is written", || (!traces_below(&node.output()).is_empty()).then_some(()));
    let status = node.run(&["status"]);
    assert!(status.contains(&application.pid.to_string()), "{status}");
    let tried = program.end();
    node.end_session();
    assert_eq!(check_all(&node.output(), tried), 0);
    let trace = &traces_below(&node.output())[0];
    assert!(trace.to_string_lossy().contains(&format!("-{}-", application.pid)), "{trace:?}");
    let metadata = fs::read_to_string(trace.join("metadata")).unwrap();
    assert!(metadata.contains("\tvpid = 1;"), "{metadata}");
    figure("K2", "own pid, mount and user namespace: outer and inner number right, nothing lost");
}

/// Checks that a stopped program delays neither the agent nor other programs.
fn check_stopped(what: &str, stop: impl FnOnce(u32) -> Box<dyn FnOnce()>) {
    let node = Node::new();
    let _agent = node.agent();
    node.record_all();
    let (other, stopped) = (node.program(10, 1000), node.program(10, 1000));
    std::thread::sleep(Duration::from_millis(50));
    let go_on = stop(stopped.id());
    let id = other.id();
    let tried = other.end();
    let begun = Instant::now();
    node.run(&["session", "stop", "s"]);
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(4), "{what}: stop took {took:?}");
    let is_own = |trace: &&PathBuf| trace.to_string_lossy().contains(&format!("-{id}-"));
    let traces = traces_below(&node.output());
    let lost = check_all(traces.iter().find(is_own).expect("its trace"), tried);
    assert_eq!(lost, 0);
    go_on();
    let tried = stopped.end();
    node.run(&["session", "destroy", "s"]);
    let (numbers, lost) = read(&node.output());
    assert!(lost == 0 && tried > 0 && !numbers.is_empty());
    figure("K2", &format!("{what}: stop took {took:.1?}, others' events are there"));
}

#[test]
fn k2_a_stopped_program_holds_nobody_up() {
    check_stopped("a stopped program", |pid| {
        signal(pid, Signal::STOP);
        Box::new(move || signal(pid, Signal::CONT))
    });
}

#[test]
fn k2_a_frozen_program_holds_nobody_up() {
    // Control groups of version 1, and of version 2 beside version 1 or alone.
    let groups: Vec<Group> =
        ["freezer", "unified", "."].into_iter().filter_map(Group::new).collect();
    if groups.is_empty() {
        return skip("k2_a_frozen_program_holds_nobody_up", "there is no freezer");
    }
    for group in groups {
        check_stopped("a frozen program", |pid| {
            assert!(group.set("cgroup.procs", pid));
            group.freeze(true);
            Box::new(move || group.freeze(false))
        });
    }
}

#[test]
fn k2_who_is_idle_does_not_wake() {
    let node = Node::new();
    let agent = node.agent();
    node.record_all();
    let mut programs = Vec::new();
    for _ in 0..3 {
        // The program has recorded events, and waits.
        let mut command = node.test_program(&[], "crowd");
        command.env("TEST_THREADS", "3");
        programs.push(Program::start(command));
    }
    let switches = |pid: u32| -> u64 {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
        let status =
            |thread: fs::DirEntry| fs::read_to_string(thread.path().join("status")).unwrap();
        let count = |status: String| {
            let line =
                status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            line.unwrap().trim().parse::<u64>().unwrap()
        };
        threads.map(status).map(count).sum()
    };
    let all = || -> Vec<u64> {
        let programs = programs.iter().map(Program::id);
        std::iter::once(agent.id()).chain(programs).map(switches).collect()
    };
    // By then the library has checked for the last time whether the program has closed its files.
    std::thread::sleep(Duration::from_millis(5500));
    let before = all();
    let seconds = env_number("TEST_IDLE_SECONDS", 5);
    std::thread::sleep(Duration::from_secs(seconds));
    assert_eq!(all(), before, "of the agent, and of each program");
    figure("K2", &format!("agent and 3 programs: 0 wake-ups in {seconds} s"));
}

#[test]
fn p1_root_gives_up_what_it_does_not_need() {
    let test = "p1_root_gives_up_what_it_does_not_need";
    if !can(test, &[]) {
        return;
    }
    let node = Node::new();
    let agent = node.agent();
    node.record_all();
    let _program = node.program(10, 1000);
    for thread in fs::read_dir(format!("/proc/{}/task", agent.id())).unwrap().flatten() {
        let thread: u32 = thread.file_name().to_string_lossy().parse().unwrap();
        let name = fs::read_to_string(format!("/proc/{thread}/comm")).unwrap();
        let allowed = match name.trim() {
            // CAP_SYS_PTRACE, to read executables and descriptors of other users' processes.
            "blkkin-looker" | "blkkin-caller" => 1 << 19,
            // CAP_DAC_OVERRIDE, CAP_SETGID and CAP_SETUID, to override file permissions and to
            // change users and groups.
            _ => 1 << 1 | 1 << 6 | 1 << 7,
        };
        for set in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
            let set = u64::from_str_radix(&status_of(thread, set), 16).unwrap();
            assert_eq!(set & !allowed, 0, "{set:x}");
        }
        assert_eq!(status_of(thread, "NoNewPrivs"), "1");
        assert_eq!(status_of(thread, "Seccomp"), "2");
        assert_eq!(status_of(thread, "Groups"), "");
    }
    figure(
        "P1",
        "powers c2 at most, or 80000 of the threads that look at processes, no new privileges, system calls filtered",
    );
}

/// The agent of a user other than root has no capabilities.
#[test]
fn p1_a_users_agent_has_no_powers() {
    let test = "p1_a_users_agent_has_no_powers";
    if !can(test, &["setpriv"]) {
        return;
    }
    let node = Node::new();
    let directory = node.directory.path();
    fs::set_permissions(directory, fs::Permissions::from_mode(0o777)).unwrap();
    let program = directory.join("blkkin");
    fs::copy(env!("CARGO_BIN_EXE_blkkin"), &program).unwrap();
    let as_nobody = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
        command.arg(&program).args(arguments).env("BLKKIN_SOCKET", node.socket());
        command
    };
    let agent = node.agent_by(as_nobody(&["agent"]));
    let output = node.output();
    run(&mut as_nobody(&["session", "create", "s", "-o", output.to_str().unwrap()]));
    run(&mut as_nobody(&["event", "enable", "test:*"]));
    run(&mut as_nobody(&["session", "start", "s"]));
    for thread in fs::read_dir(format!("/proc/{}/task", agent.id())).unwrap().flatten() {
        let thread = thread.file_name().to_string_lossy().parse().unwrap();
        for set in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
            assert_eq!(status_of(thread, set), "0".repeat(16), "{set}");
        }
        assert_eq!(status_of(thread, "NoNewPrivs"), "1");
        assert_eq!(status_of(thread, "Seccomp"), "2");
    }
    figure("P1", "a user's agent: no powers, no new privileges, system calls filtered");
}

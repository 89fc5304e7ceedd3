//! Tests of C programs that load the library before the C library, with a test agent and without
//! any agent.

#[path = "../../trace/tests/support/daemon.rs"]
mod support;

use blkkin_sys::testing::{Scratch, figure, is_installed, skip};
use blkkin_trace::control::Context;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use support::{Event, Program, TestAgent, rule};

/// Returns the library, which cargo builds before this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    test.parent().expect("a folder").join("libblkkin_preload.so")
}

#[track_caller]
fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
    output
}

/// The compiled program `calls.c`, in a directory of its own.
struct Calls {
    scratch: Scratch,
    program: PathBuf,
}

impl Calls {
    /// Compiles the program. Reports the test as skipped without a compiler.
    fn build(test: &str) -> Option<Calls> {
        if !is_installed("cc") {
            skip(test, "cc is not installed");
            return None;
        }
        let scratch = Scratch::new(&format!("preload-{test}"));
        let program = scratch.0.join("calls");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/calls.c");
        let mut command = Command::new("cc");
        command.args(["-O1", "-Wall", "-Wextra", "-Wno-unused-result", "-Wno-nonnull", "-o"]);
        run(command.arg(&program).arg(source).arg("-pthread"));
        Some(Calls { scratch, program })
    }

    /// Returns a command that runs the program in a new directory, without the library.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        let folder = self.scratch.0.join("work");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).expect("to make a directory");
        command.args(arguments).current_dir(folder).env_remove("LD_LIBRARY_PATH");
        command.env_remove("LD_PRELOAD").stdin(Stdio::null());
        command
    }

    /// Returns a command that runs the program with the library.
    fn with_library(&self, arguments: &[&str], socket: &Path) -> Command {
        let mut command = self.command(arguments);
        command.env("LD_PRELOAD", library()).env("BLKKIN_SOCKET", socket);
        command
    }

    /// Starts the program under an agent, which the program waits for.
    fn start(&self, agent: &TestAgent, arguments: &[&str]) -> Running {
        let mut command = self.with_library(arguments, &agent.path);
        command.env("BLKKIN_WAIT", "30000").stdout(Stdio::piped());
        Running(Some(command.spawn().expect("to start")))
    }
}

struct Running(Option<Child>);

impl Running {
    /// Waits until the program has exited successfully, and returns its output.
    #[track_caller]
    fn end(mut self) -> String {
        let output = self.0.take().expect("a child").wait_with_output().expect("to wait");
        assert!(output.status.success(), "{}", output.status);
        String::from_utf8(output.stdout).expect("a text")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Requests all events of a program, with the contexts that `blkkin io` needs.
fn record(program: &mut Program) {
    program.add(0, &[Context::Pid, Context::Tid]);
    program.enable(0, &[rule("syscall:*"), rule("state:*")]);
    program.ping();
}

/// Values of an event's fields, by name.
struct Call {
    name: String,
    pid: i32,
    tid: i32,
    fields: HashMap<String, Vec<u8>>,
}

impl Call {
    #[track_caller]
    fn bytes(&self, field: &str) -> &[u8] {
        self.fields.get(field).unwrap_or_else(|| panic!("{} has no {field}", self.name))
    }

    #[track_caller]
    fn text(&self, field: &str) -> &str {
        std::str::from_utf8(self.bytes(field)).expect("a text")
    }

    /// Returns a number of 4 or 8 bytes.
    #[track_caller]
    fn number(&self, field: &str) -> i64 {
        match *self.bytes(field) {
            [a, b, c, d] => i32::from_le_bytes([a, b, c, d]).into(),
            ref bytes => i64::from_le_bytes(bytes.try_into().expect("8 bytes")),
        }
    }

    fn ret(&self) -> i64 {
        self.number("ret")
    }
}

/// Returns the recorded events with their fields' names.
fn calls(program: &mut Program) -> Vec<Call> {
    let events = program.events(0);
    let types: HashMap<String, Vec<String>> = program
        .types()
        .into_values()
        .map(|one| (one.name, one.fields.into_iter().map(|field| field.name).collect()))
        .collect();
    let number = |bytes: &[u8]| i32::from_le_bytes(bytes.try_into().expect("4 bytes"));
    let call = |event: Event| {
        let names = types[&event.name].iter().cloned();
        let (pid, tid) = (number(&event.contexts[0]), number(&event.contexts[1]));
        let fields = names.zip(event.fields).collect();
        Call { name: event.name, pid, tid, fields }
    };
    events.into_iter().map(call).collect()
}

/// Returns the system calls, and checks that the state of the process was recorded once.
#[track_caller]
fn system_calls(program: &mut Program) -> Vec<Call> {
    let pid = i64::from(program.pid());
    let (state, calls): (Vec<Call>, Vec<Call>) =
        calls(program).into_iter().partition(|call| call.name.starts_with("state:"));
    let mut processes = state.iter().filter(|call| call.name == "state:process");
    let process = processes.next().expect("the process");
    assert!(processes.next().is_none());
    assert_eq!((process.number("of_pid"), process.text("name")), (pid, "calls"));
    assert!(process.text("cwd").ends_with("/work"), "{}", process.text("cwd"));
    let input = state.iter().find(|call| call.name == "state:file" && call.number("fd") == 0);
    assert_eq!(input.expect("standard input").text("path"), "/dev/null");
    assert!(state.iter().chain(&calls).all(|call| i64::from(call.pid) == pid));
    calls
}

/// Each call is recorded with the name and the result that the kernel's tracepoint has, and the
/// program observes neither other results nor another `errno`.
#[test]
fn all_calls_are_recorded_and_unchanged() {
    let Some(program) = Calls::build("all") else { return };
    let plain = run(&mut program.command(&["calls"]));
    let agent = TestAgent::new("preload-all");
    let running = program.start(&agent, &["calls"]);
    let mut peer = agent.program();
    record(&mut peer);
    let output = running.end();
    assert_eq!(output, String::from_utf8_lossy(&plain.stdout));

    let calls = system_calls(&mut peer);
    let found: Vec<String> =
        calls.iter().map(|one| format!("{} {}", one.name, one.ret())).collect();
    let expected: Vec<String> = output
        .lines()
        .map(|line| format!("syscall:{}", line.split(" errno").next().expect("a line")))
        .collect();
    for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert_eq!(found, expected, "call {index}");
    }
    assert_eq!(found.len(), expected.len());
    check_fields(&calls);
}

/// Checks arguments of some calls of `calls.c`.
#[track_caller]
fn check_fields(calls: &[Call]) {
    let of = |name: &str| -> Vec<&Call> {
        calls.iter().filter(|call| call.name == format!("syscall:{name}")).collect()
    };
    let opens = of("openat");
    let paths: Vec<&str> = opens.iter().take(14).map(|call| call.text("filename")).collect();
    let long = "x".repeat(4095);
    let cut = "x".repeat(4000);
    let expected = [
        "missing", "file", "file", "file", "file", ".", "file", "missing", "file", "file", "", "",
        &long, &cut,
    ];
    assert_eq!(paths, expected);
    assert_eq!(opens[0].number("dfd"), -100);
    assert_eq!((opens[0].number("flags"), opens[0].number("mode")), (0, 0));
    assert_eq!((opens[1].number("flags"), opens[1].number("mode")), (0o102, 0o640));
    assert_eq!(opens[4].number("dfd"), 99);
    let renames = of("renameat2");
    assert_eq!((renames[0].text("oldname"), renames[0].text("newname")), ("again", "file"));
    assert_eq!((renames[2].text("oldname"), renames[2].number("flags")), ("", 0xff));
    let read = of("read")[0];
    assert_eq!((read.number("count"), read.ret()), (4, 4));
    assert_ne!(read.number("buf"), 0);
    let vectors = of("pwritev")[1];
    let numbers = ["vlen", "pos_l", "pos_h"].map(|field| vectors.number(field));
    assert_eq!(numbers, [2, 28, 0]);
    let map = of("mmap")[0];
    assert_eq!((map.number("addr"), map.ret()), (0x1000_0000, 0x1000_0000));
    assert_eq!(of("mmap").len(), 2, "anonymous memory is not recorded");
    let pipe = of("pipe2")[0].bytes("fildes");
    let [first, second] = [0, 4].map(|at| i32::from_le_bytes(pipe[at..at + 4].try_into().unwrap()));
    assert_eq!(second, first + 1);
    assert_eq!(of("pipe2")[2].bytes("fildes"), [0xff; 8]);
    let arguments: Vec<i64> = of("fcntl").iter().map(|call| call.number("arg")).collect();
    assert_eq!(arguments, [60, 60, 0, 0, 0]);

    let bind = of("bind")[0].bytes("umyaddr");
    assert_eq!((bind.len(), &bind[..9]), (110, &b"\x01\0socket\0"[..]));
    let loopback = [127, 0, 0, 1];
    let connects = of("connect");
    assert_eq!(connects[2].bytes("uservaddr")[4..8], loopback);
    assert!(connects[3].bytes("uservaddr").is_empty() && connects[4].bytes("uservaddr").is_empty());
    assert_eq!(of("accept")[0].bytes("upeer_sockaddr"), 1u16.to_le_bytes());
    let accepts = of("accept4");
    assert_eq!(accepts[0].bytes("upeer_sockaddr").len(), 16);
    assert_eq!(accepts[0].bytes("upeer_sockaddr")[4..8], loopback);
    assert!(accepts[1].bytes("upeer_sockaddr").is_empty());
    let received = of("recvfrom");
    assert_eq!(received.last().unwrap().bytes("addr")[4..8], loopback);
    // The call with a time limit of 30 ms.
    let duration = received[4].number("duration");
    assert!((29_000_000..3_000_000_000).contains(&duration), "{duration}");
    assert!(calls.iter().all(|call| (1..3_000_000_000).contains(&call.number("duration"))));
}

/// Without an agent, the program makes the same system calls between its start and its exit, and
/// has the same results.
#[test]
fn without_an_agent_nothing_changes() {
    let Some(program) = Calls::build("alone") else { return };
    let plain = run(&mut program.command(&["calls"]));
    let none = program.scratch.0.join("no-agent");
    let with_library = run(&mut program.with_library(&["calls"], &none));
    assert_eq!(
        String::from_utf8_lossy(&with_library.stdout),
        String::from_utf8_lossy(&plain.stdout)
    );
    if !is_installed("strace") {
        return skip("without_an_agent_nothing_changes", "strace is not installed");
    }
    let traced = |command: &Command| -> Vec<String> {
        let log = program.scratch.0.join("strace");
        let mut traced = Command::new("strace");
        traced.args(["-qq", "-o"]).arg(&log);
        for (name, value) in command.get_envs() {
            let set = value.map(|value| format!("={}", value.to_string_lossy()));
            let name = name.to_string_lossy();
            traced.arg("-E").arg(format!("{name}{}", set.unwrap_or_default()));
        }
        traced.arg(command.get_program()).args(command.get_args());
        run(traced.current_dir(command.get_current_dir().expect("a directory")));
        let text = std::fs::read(&log).expect("a file");
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines = text.lines().skip_while(|line| !line.contains("sched_setaffinity"));
        // The C library's heap exists already if the library has used it.
        let is_of_heap = |name: &&str| ["brk", "getrandom"].contains(name);
        let names = lines.filter_map(|line| line.split('(').next()).filter(|one| !is_of_heap(one));
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        // At exit the tracer withdraws the page of its bell.
        let end = names.iter().rposition(|name| name == "connect").expect("the last call");
        names.truncate(end);
        names
    };
    let expected = traced(&program.command(&["calls"]));
    assert!(expected.len() > 100, "{expected:?}");
    assert_eq!(traced(&program.with_library(&["calls"], &none)), expected);
}

#[test]
fn calls_of_all_threads_are_recorded() {
    let Some(program) = Calls::build("threads") else { return };
    let agent = TestAgent::new("preload-threads");
    let running = program.start(&agent, &["threads"]);
    let mut peer = agent.program();
    record(&mut peer);
    running.end();
    let mut counts = BTreeMap::new();
    for call in system_calls(&mut peer).iter().filter(|call| call.name == "syscall:read") {
        *counts.entry(call.tid).or_insert(0) += 1;
    }
    assert_eq!(counts.into_values().collect::<Vec<i32>>(), [200; 4]);
}

/// Calls of a signal handler are recorded, also if the handler interrupts the recording of a call,
/// and neither changes the other's `errno`.
#[test]
fn calls_of_signal_handlers_are_recorded() {
    let Some(program) = Calls::build("signals") else { return };
    let agent = TestAgent::new("preload-signals");
    let running = program.start(&agent, &["signals"]);
    let mut peer = agent.program();
    record(&mut peer);
    let written: usize = running.end().trim().parse().expect("a number");
    let calls = system_calls(&mut peer);
    let count = |name: &str, is_right: &dyn Fn(i64) -> bool| {
        calls.iter().filter(|call| call.name == name && is_right(call.ret())).count()
    };
    assert_eq!(count("syscall:write", &|ret| ret == 1), written);
    assert_eq!(count("syscall:write", &|ret| ret == -9), written);
    assert_eq!(count("syscall:read", &|ret| ret == 1), 1000);
    assert_eq!(count("syscall:read", &|ret| ret == -9), 1000);
}

/// A forked child is recorded as a process of its own, with the state that it has inherited.
#[test]
fn forked_children_are_recorded() {
    let Some(program) = Calls::build("forks") else { return };
    let agent = TestAgent::new("preload-forks");
    let running = program.start(&agent, &["forks"]);
    let mut parent = agent.program();
    record(&mut parent);
    let mut child = agent.program();
    record(&mut child);
    running.end();
    let paths = |calls: &[Call]| -> Vec<String> {
        let opens = calls.iter().filter(|call| call.name == "syscall:openat");
        opens.map(|call| call.text("filename").to_owned()).collect()
    };
    assert_ne!(child.pid(), parent.pid());
    let events = calls(&mut child);
    assert_eq!(paths(&events), ["of-child"]);
    let process = events.iter().find(|call| call.name == "state:process").expect("the child");
    assert_eq!(process.number("of_pid"), i64::from(child.pid()));
    assert_eq!(process.number("parent"), i64::from(parent.pid()));
    let mut files = events.iter().filter(|call| call.name == "state:file");
    assert!(files.any(|call| call.number("fd") == 3 && call.text("path") == "/dev/null"));
    assert_eq!(paths(&system_calls(&mut parent)), ["/dev/null", "of-parent"]);
}

/// Calls of a child of `vfork`, which has its parent's memory, are not recorded as the parent's.
#[test]
fn children_of_vfork_are_silent() {
    let Some(program) = Calls::build("vforks") else { return };
    let agent = TestAgent::new("preload-vforks");
    let running = program.start(&agent, &["vforks"]);
    let mut peer = agent.program();
    record(&mut peer);
    running.end();
    let calls = system_calls(&mut peer);
    let found: Vec<_> = calls.iter().map(|call| (&*call.name, call.number("fd"))).collect();
    assert_eq!(found, [("syscall:close", 97)]);
}

/// A program that closes all descriptors is recorded as before.
#[test]
fn a_program_may_close_all_descriptors() {
    let Some(program) = Calls::build("closes") else { return };
    let agent = TestAgent::new("preload-closes");
    let running = program.start(&agent, &["closes"]);
    let mut peer = agent.program();
    record(&mut peer);
    let pid = peer.pid();
    running.end();
    let calls = system_calls(&mut peer);
    let last: Vec<_> = calls.iter().rev().take(3).map(|call| (&*call.name, call.ret())).collect();
    let expected = [("syscall:close_range", 0), ("syscall:openat", 3), ("syscall:close", -9)];
    assert_eq!((calls[0].pid, &last[..2]), (pid.cast_signed(), &expected[..2]));
    assert_eq!(calls.iter().filter(|call| call.name == "syscall:close").count(), 697);
}

/// A thread can be cancelled in a recorded call. A call that is no cancellation point in the C
/// library does not become one.
#[test]
fn recorded_calls_can_be_cancelled() {
    let Some(program) = Calls::build("cancels") else { return };
    let agent = TestAgent::new("preload-cancels");
    let running = program.start(&agent, &["cancels"]);
    let mut peer = agent.program();
    record(&mut peer);
    running.end();
    let calls = system_calls(&mut peer);
    let names: Vec<&str> = calls.iter().map(|call| &*call.name).collect();
    assert_eq!(names, ["syscall:pipe2", "syscall:dup"]);
}

/// Libraries may make calls before this library has started.
#[test]
fn calls_before_the_start_work() {
    let Some(program) = Calls::build("early") else { return };
    let folder = &program.scratch.0;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/early.c");
    let early = folder.join("libearly.so");
    let mut command = Command::new("cc");
    run(command.args(["-shared", "-fPIC", "-o"]).arg(&early).arg(source));
    let none = folder.join("no-agent");
    // The library that is loaded later starts earlier.
    let both = format!("{}:{}", library().display(), early.display());
    run(program.with_library(&["none"], &none).env("LD_PRELOAD", both));
}

/// Cost of a recorded call and of one that is not recorded. Only printed: the machine may be busy.
#[test]
fn cost_of_a_call() {
    let Some(program) = Calls::build("cost") else { return };
    let measured = |output: &str| output.trim().parse::<f64>().expect("a number");
    let count = std::env::var("TEST_PRELOAD_CALLS").unwrap_or_else(|_| "200".to_owned());
    let arguments = ["bench", &count];
    let plain = run(&mut program.command(&arguments)).stdout;
    let none = program.scratch.0.join("no-agent");
    let alone = run(&mut program.with_library(&arguments, &none)).stdout;
    let [plain, alone] = [plain, alone].map(|output| measured(&String::from_utf8_lossy(&output)));
    let recorded = |contexts: &[Context], rules: &[&str]| {
        let agent = TestAgent::new("preload-cost");
        let mut running = program.start(&agent, &arguments);
        let mut peer = agent.program();
        peer.add(0, contexts);
        peer.enable(0, &rules.iter().map(|one| rule(one)).collect::<Vec<_>>());
        peer.ping();
        // The program pauses between rounds, of which each fits into the rings.
        let child = running.0.as_mut().expect("a child");
        while child.try_wait().expect("to wait").is_none() {
            peer.events(0);
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        measured(&running.end())
    };
    let off = recorded(&[], &["other:*"]);
    let bare = recorded(&[], &["syscall:*"]);
    let whole = recorded(&[Context::Pid, Context::Tid], &["syscall:*"]);
    let text = format!(
        "read of a byte from /dev/zero: {plain} ns; with the library and without an agent \
         {alone} ns; with an agent, not recorded {off} ns, recorded {bare} ns, with pid and tid \
         {whole} ns"
    );
    figure("preload", &text);
    #[allow(clippy::print_stdout, reason = "the result of the measurement")]
    {
        println!("{text}");
    }
}

//! Tests of the connection between programs and an agent; the tests act as the agent. They show
//! that programs and agents find each other, and that programs describe their event types before
//! their events, follow the rules, and survive forks, signals and sandboxes.
//!
//! The programs are ignored tests of this file, run as separate processes. A program makes one step
//! for each line of its input.

#[path = "support/daemon.rs"]
mod support;

use blkkin_sys::testing::{
    Call, Fork, confine, figure, in_child, own_test, refuse, stack_used, while_interrupted,
};
use blkkin_trace::control::{
    self, Answer, Context, FromApplication, Hello, KeepChannel, Levels, Opening, Refused, Role,
    ToApplication, Version, limits,
};
use blkkin_trace::{
    Endpoint, EventType, Level, Trace, channels, event, event_enum, registry, sample, set_context,
};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};
use support::{LONG, Program, ProgramMessage, TestAgent, add, filtered, rule};

/// A running program; each line in its input makes it do a step.
struct RunningProgram {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<std::process::ChildStdout>,
}

/// Prefix of lines that a program prints, to distinguish them from lines of the test harness.
const MARK: &str = "program: ";

impl RunningProgram {
    fn start(name: &str, daemon: &TestAgent) -> RunningProgram {
        RunningProgram::with(name, daemon, &[])
    }

    fn with(name: &str, daemon: &TestAgent, variables: &[(&str, &str)]) -> RunningProgram {
        let mut command = own_test::<&str>(&[], name);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("BLKKIN_") {
                command.env_remove(name);
            }
        }
        command.env("BLKKIN_SOCKET", &daemon.path).envs(variables.iter().copied());
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        RunningProgram { child, input, output: BufReader::new(output) }
    }

    /// Makes the program do a step, and returns its next line.
    #[track_caller]
    fn step(&mut self) -> String {
        self.input.as_mut().unwrap().write_all(b"\n").unwrap();
        self.read_line()
    }

    /// Returns the program's next line.
    #[track_caller]
    fn read_line(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "it has ended");
            if let Some((_, said)) = line.split_once(MARK) {
                return said.trim_end().to_owned();
            }
        }
    }

    /// Closes the program's input and waits for the program's end; panics if the program failed.
    #[track_caller]
    fn end(mut self) {
        self.input = None;
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {rest}");
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Prints a line for the test, in the program's process.
fn print_line(what: &str) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{MARK}{what}").unwrap();
    output.flush().unwrap();
}

/// Waits for the next step, in the program's process. Returns false at the end of the input.
fn wait_for_step() -> bool {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap() > 0
}

/// Program: records an event for each step, with the step's number.
#[test]
#[ignore = "a program of other tests"]
fn counts() {
    let mut number = 0u32;
    while wait_for_step() {
        event!(Level::Info, "count:step", number = number, name = "a name");
        number += 1;
        print_line("done");
    }
}

#[test]
fn a_program_is_found_and_records_what_it_is_told_to() {
    let daemon = TestAgent::new("found");
    let mut running = RunningProgram::start("counts", &daemon);
    let mut program = daemon.program();
    assert_eq!(program.pid(), running.child.id());
    let Some(Hello { version, role, program: name, release }) = program.hello.clone() else {
        panic!("no hello");
    };
    let clock = match blkkin_sys::tsc_is_steady() {
        true => control::Clock::Tsc,
        false => control::Clock::Monotonic,
    };
    assert_eq!(role, Role::Application { pid: running.child.id(), clock });
    assert_eq!((version, &*release), (Version::OURS, env!("CARGO_PKG_VERSION")));
    assert!(name.starts_with("daemon-"), "{name}");
    assert!(program.types().is_empty());
    program.add(3, &[]);
    program.enable(3, &[rule("count:*")]);
    program.ping();
    // The first event of the type is recorded.
    running.step();
    let [event] = &program.wait_for(3, 1)[..] else { panic!("one event") };
    assert_eq!(event.name, "count:step");
    assert_eq!(event.fields, [&[0, 0, 0, 0][..], b"a name"]);
    let types = program.types();
    assert_eq!(types.len(), 1);
    assert!(types[&0].file.ends_with("daemon.rs") && types[&0].line > 0);
    assert_eq!(types[&0].fields[1].kind, control::FieldKind::String);
    // After the answer to the ping, disabled events are no longer recorded.
    program.enable(3, &[]);
    program.ping();
    running.step();
    program.enable(3, &[rule("count:*")]);
    program.ping();
    running.step();
    let [event] = &program.wait_for(3, 1)[..] else { panic!("one event") };
    assert_eq!(event.fields[0], [2, 0, 0, 0]);
    // Removing a channel unmaps its memory.
    let maps = format!("/proc/{}/maps", running.child.id());
    assert!(std::fs::read_to_string(&maps).unwrap().contains("memfd:rings"));
    program.remove(3);
    program.ping();
    assert!(!std::fs::read_to_string(&maps).unwrap().contains("memfd:rings"));
    running.step();
    program.add(3, &[]);
    program.enable(3, &[rule("count:*")]);
    program.ping();
    running.step();
    assert_eq!(program.wait_for(3, 1)[0].fields[0], [4, 0, 0, 0]);
    // The program sends `Goodbye` at its end.
    running.end();
    assert_eq!(program.next_message(LONG).0, ProgramMessage::Message(FromApplication::Goodbye));
    assert_eq!(program.next_message(LONG).0, ProgramMessage::End);
}

#[test]
fn who_records_wakes_the_daemon() {
    let daemon = TestAgent::new("wake");
    let mut running = RunningProgram::start("counts", &daemon);
    let mut program = daemon.program();
    program.add(0, &[]);
    program.enable(0, &[rule("*")]);
    program.ping();
    running.step();
    assert_eq!(program.channels[&0].wakes(), 0);
    program.channels[&0].fall_asleep();
    running.step();
    running.step();
    assert_eq!(program.channels[&0].wakes(), 1);
    running.end();
}

/// Program: records at once, before any step.
#[test]
#[ignore = "a program of other tests"]
fn hurries() {
    event!(Level::Info, "hurry:first");
    print_line("done");
    wait_for_step();
}

#[test]
fn what_is_enabled_from_the_start_counts_from_the_first_line_on() {
    let daemon = TestAgent::new("hurry");
    let mut running = RunningProgram::with("hurries", &daemon, &[("BLKKIN_WAIT", "20000")]);
    let mut program = daemon.program();
    program.add(1, &[]);
    program.enable(1, &[rule("hurry:*")]);
    std::thread::sleep(Duration::from_millis(200));
    program.ping();
    running.read_line();
    assert_eq!(program.names(1), ["hurry:first"]);
    running.end();
}

/// The first event of a short program is recorded if the program waits the default time for the
/// agent's rules.
#[test]
fn l10_a_short_program_records_its_first_event() {
    let daemon = TestAgent::new("short");
    let mut running = RunningProgram::start("hurries", &daemon);
    let mut program = daemon.program();
    program.add(1, &[]);
    program.enable(1, &[rule("hurry:*")]);
    program.ping();
    running.read_line();
    assert_eq!(program.names(1), ["hurry:first"]);
    running.end();
}

#[test]
fn a_daemon_that_does_not_answer_delays_a_program_no_longer_than_it_waits() {
    let daemon = TestAgent::new("silent");
    let start = Instant::now();
    let mut running = RunningProgram::start("hurries", &daemon);
    running.read_line();
    running.end();
    let at_once = start.elapsed();
    let start = Instant::now();
    let mut running = RunningProgram::with("hurries", &daemon, &[("BLKKIN_WAIT", "300")]);
    running.read_line();
    running.end();
    let waited = start.elapsed();
    assert!(waited >= Duration::from_millis(300), "{waited:?}");
    assert!(waited < LONG && at_once < LONG, "{at_once:?} {waited:?}");
}

/// Program: in each step calls [`blkkin_trace::start`], records an event, and prints whether the
/// process has the library's thread.
#[test]
#[ignore = "a program of other tests"]
fn looks() {
    while wait_for_step() {
        blkkin_trace::start();
        event!(Level::Info, "look:step");
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let names = tasks.map(|task| {
            let path = task.unwrap().path().join("comm");
            std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
        });
        print_line(if names.into_iter().any(|name| name == "blkkin") { "thread" } else { "none" });
    }
}

#[test]
fn without_a_daemon_there_is_no_thread_until_one_is_looked_for() {
    let mut daemon = TestAgent::new("late");
    daemon.close();
    let mut running = RunningProgram::start("looks", &daemon);
    assert_eq!(running.step(), "none");
    assert_eq!(running.step(), "none");
    daemon.listen();
    std::thread::sleep(Duration::from_millis(1100));
    // Repeated, because the thread sets its own name after its start.
    let start = Instant::now();
    while running.step() != "thread" {
        assert!(start.elapsed() < LONG);
    }
    let mut program = daemon.program();
    // The thread may have been seen before it had connected: a type is not registered while no
    // event can be wanted.
    assert_eq!(running.step(), "thread");
    program.ping();
    assert_eq!(program.types().len(), 1);
    running.end();
}

/// Requests a connection through a program's bell page, like an agent that starts after the
/// program. Waits until the program has published the page.
fn ring(pid: u32, number: u64) {
    let start = Instant::now();
    while !try_ring(pid, number) {
        assert!(start.elapsed() < LONG, "it cannot be called");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Requests a connection through a program's bell page. Returns false until the program has
/// published the page.
fn try_ring(pid: u32, number: u64) -> bool {
    use std::os::unix::fs::FileExt;
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap() {
        let path = entry.unwrap().path();
        if std::fs::read_link(&path).unwrap_or_default().ends_with("memfd:blkkin-bell (deleted)") {
            let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
            let mut bytes = [0; control::bell::SIZE];
            file.read_exact_at(&mut bytes, 0).unwrap();
            if bytes[..8] != control::bell::MAGIC.to_ne_bytes() {
                return false;
            }
            file.write_all_at(&number.to_ne_bytes(), control::bell::CALL).unwrap();
            return true;
        }
    }
    false
}

fn threads(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().count()
}

/// A program without an agent has no library thread. After an agent has requested a connection
/// through the bell page, the program connects at its next event.
#[test]
fn l10_a_program_older_than_the_daemon_is_attached_by_its_next_event() {
    let mut daemon = TestAgent::new("older");
    daemon.close();
    let mut running = RunningProgram::start("counts", &daemon);
    running.step();
    let pid = running.child.id();
    let before = threads(pid);
    // The bell is rung although no agent listens, as by an agent that the program cannot reach.
    ring(pid, 1);
    running.step();
    let start = Instant::now();
    while threads(pid) != before {
        assert!(start.elapsed() < LONG);
    }
    running.step();
    assert_eq!(threads(pid), before);
    daemon.listen();
    assert!(daemon.connected(Duration::from_millis(100)).is_none());
    running.step();
    ring(pid, 2);
    assert!(daemon.connected(Duration::from_millis(100)).is_none(), "before it has an event");
    running.step();
    let mut program = daemon.program();
    program.add(0, &[]);
    program.enable(0, &[rule("count:*")]);
    program.ping();
    running.step();
    assert_eq!(program.wait_for(0, 1)[0].name, "count:step");
    // The program has withdrawn the page with its bell.
    let links = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let links = links.map(|entry| std::fs::read_link(entry.unwrap().path()).unwrap_or_default());
    assert!(!links.into_iter().any(|link| link.to_string_lossy().contains("blkkin-bell")));
    running.end();
}

/// Program: records only in signal handlers at first, and only outside of them in a later step.
#[test]
#[ignore = "a program of other tests"]
fn only_handles() {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    fn handle() {
        event!(Level::Info, "handles:inside");
        COUNT.fetch_add(1, SeqCst);
    }
    wait_for_step();
    print_line("ready");
    wait_for_step();
    let interrupted = while_interrupted(handle, || {
        while COUNT.load(SeqCst) < 1000 {
            std::hint::spin_loop();
        }
    });
    assert_eq!(interrupted, Ok(()));
    print_line("handled");
    wait_for_step();
    event!(Level::Info, "handles:outside");
    print_line("done");
    wait_for_step();
}

/// A signal handler starts no thread; the next event outside of a signal handler starts it.
#[test]
fn l10_signal_handlers_leave_it_to_others_to_attach() {
    let mut daemon = TestAgent::new("handles");
    daemon.close();
    let mut running = RunningProgram::start("only_handles", &daemon);
    // The program has already tried to connect, and found no agent.
    assert_eq!(running.step(), "ready");
    daemon.listen();
    ring(running.child.id(), 1);
    assert_eq!(running.step(), "handled");
    assert!(daemon.connected(Duration::from_millis(100)).is_none());
    running.step();
    daemon.program();
}

#[test]
fn who_is_disabled_does_nothing() {
    let daemon = TestAgent::new("disabled");
    let mut running = RunningProgram::with("looks", &daemon, &[("BLKKIN_DISABLE", "1")]);
    assert_eq!(running.step(), "none");
    assert!(daemon.connected(Duration::from_millis(50)).is_none());
    running.end();
}

#[test]
fn mistakes_in_variables_are_told_if_somebody_wants_to_know() {
    let daemon = TestAgent::new("mistakes");
    let check = |debug: &str, expected: &[&str]| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "hurries"]).env("BLKKIN_SOCKET", &daemon.path);
        command.env("BLKKIN_WAIT", "soon").env("BLKKIN_SAMPLE", "1/x").env("BLKKIN_DEBUG", debug);
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success());
        let said = String::from_utf8(output.stderr).unwrap();
        let lines: Vec<_> = said.lines().filter(|line| line.starts_with("blkkin: ")).collect();
        assert_eq!(lines.len(), expected.len(), "{said}");
        for (line, expected) in lines.iter().zip(expected) {
            assert!(line.contains(expected), "{line}");
        }
    };
    check("1", &["BLKKIN_WAIT", "BLKKIN_SAMPLE"]);
    check("0", &[]);
}

#[test]
fn a_program_is_called_as_is_said() {
    let daemon = TestAgent::new("called");
    let running = RunningProgram::with("counts", &daemon, &[("BLKKIN_PROGRAM", "a\nname")]);
    assert_eq!(daemon.program().hello.unwrap().program, "aname");
    running.end();
}

/// Program: records events with fields of several types.
#[test]
#[ignore = "a program of other tests"]
fn filters() {
    let pass = || {
        for number in -2i32..3 {
            event!(
                Level::Warning,
                "filter:all",
                signed = number,
                small = number as i8,
                text = if number == 1 { "one" } else { "other" },
                float = f64::from(number) / 2.0,
                is_odd = number % 2 != 0,
                big = u64::MAX,
            );
        }
        event!(Level::Info, "filter:none");
    };
    while wait_for_step() {
        pass();
        print_line("done");
    }
}

#[test]
fn filters_decide_for_each_event() {
    let daemon = TestAgent::new("filters");
    let mut running = RunningProgram::start("filters", &daemon);
    let mut program = daemon.program();
    program.add(0, &[]);
    let pid = running.child.id();
    let mut check = |filter: &str, expected: &[i32]| {
        program.enable(0, &[filtered("filter:*", filter)]);
        program.ping();
        running.step();
        let number = |event: support::Event| match event.fields.first() {
            Some(bytes) => i32::from_le_bytes(bytes[..].try_into().unwrap()),
            None => 99,
        };
        let found: Vec<_> = program.events(0).into_iter().map(number).collect();
        assert_eq!(found, expected, "{filter}");
    };
    check("signed < 0", &[-2, -1]);
    check("small == -2 || float == 0.5", &[-2, 1]);
    check("is_odd", &[-1, 1]);
    check(r#"text == "on*""#, &[1]);
    check("big == 0xffffffffffffffff && float > 0.5", &[2]);
    check(r#"$event.name == "filter:none""#, &[99]);
    check("severity <= warning && signed == 0", &[0]);
    check("severity == info", &[99]);
    check("severity == \"info\"", &[99]);
    check(&format!("$ctx.pid == {pid} && signed == 1"), &[1]);
    check(&format!("pid != {pid}"), &[]);
    check(r#"tid > 0 && $ctx.procname == "filters" && cpu >= 0 && signed == 2"#, &[2]);
    check("missing == 1", &[]);
    check("!(missing == 1) && signed == 2", &[2]);
    check(&format!("{}signed == 1{}", "(".repeat(60), ")".repeat(60)), &[1]);
    check(&format!("{}(signed == 1)", "!".repeat(60)), &[1]);
    // A filter that the program cannot parse is never true.
    check("signed <", &[]);
}

#[test]
fn one_of_several_rules_is_enough() {
    let daemon = TestAgent::new("rules");
    let mut running = RunningProgram::start("filters", &daemon);
    let mut program = daemon.program();
    program.add(0, &[]);
    program.add(1, &[]);
    let disabled = |name| control::EventRule { enabled: false, ..rule(name) };
    let mut info = rule("*");
    info.levels = Levels::Exactly { level: Level::Info };
    program.enable(0, &[filtered("*", "signed == 1"), filtered("filter:a*", "signed == 2"), info]);
    program.enable(1, &[rule("filter:*"), disabled("filter:all"), filtered("*", "signed == 0")]);
    program.ping();
    running.step();
    let [a, b] = ["filter:all", "filter:none"];
    assert_eq!(program.names(0), [a, a, b]);
    assert_eq!(program.names(1), [a, b]);
}

/// Program: sets application contexts, and records on a named thread.
#[test]
#[ignore = "a program of other tests"]
fn contexts() {
    while wait_for_step() {
        set_context("test:request", "first");
        let thread = std::thread::Builder::new().name("named thread".to_owned());
        let record = || {
            event!(Level::Info, "context:event", field = 7u16, text = "some text");
            print_line(&format!("{}", blkkin_sys::thread_id()));
        };
        thread.spawn(record).unwrap().join().unwrap();
        set_context("test:request", "second");
    }
}

#[test]
fn contexts_stand_before_the_fields() {
    let daemon = TestAgent::new("contexts");
    let mut running = RunningProgram::start("contexts", &daemon);
    let mut program = daemon.program();
    let supplied = |name: &str| Context::Supplied { name: name.to_owned() };
    let mut contexts = vec![supplied("test:request"), supplied("test:none")];
    contexts.extend(Context::ALL);
    program.add(0, &contexts);
    program.add(1, &[]);
    program.add(2, &[Context::Cpu]);
    program.enable(0, &[rule("context:*")]);
    program.enable(1, &[rule("context:*")]);
    program.enable(2, &[filtered("*", r#"field == 7 && $app.test:request == "first""#)]);
    program.ping();
    let tid: i32 = running.step().parse().unwrap();
    for channel in [0, 1, 2] {
        let [event] = &program.wait_for(channel, 1)[..] else { panic!("one event") };
        assert_eq!(event.fields, [&[7, 0][..], b"some text"], "{channel}");
        if channel > 0 {
            continue;
        }
        assert_eq!(event.contexts[..2], [&b"first"[..], b""]);
        for (context, bytes) in Context::ALL.iter().zip(&event.contexts[2..]) {
            let namespace = |kind: &str| {
                use std::os::unix::fs::MetadataExt;
                let found = std::fs::metadata(format!("/proc/self/ns/{kind}")).unwrap();
                (found.ino() as u32).to_le_bytes().to_vec()
            };
            let expected = match context {
                Context::Pid => running.child.id().to_le_bytes().to_vec(),
                Context::Tid => tid.to_le_bytes().to_vec(),
                Context::Procname => b"named thread\0\0\0\0\0".to_vec(),
                Context::Cpu => {
                    assert!(u32::from_le_bytes(bytes[..].try_into().unwrap()) < 8192);
                    continue;
                }
                Context::PidNamespace => namespace("pid"),
                Context::MountNamespace => namespace("mnt"),
                Context::UserNamespace => namespace("user"),
                Context::NetworkNamespace => namespace("net"),
                Context::TimeNamespace => namespace("time"),
                Context::UtsNamespace => namespace("uts"),
                Context::IpcNamespace => namespace("ipc"),
                Context::CgroupNamespace => namespace("cgroup"),
                Context::CgroupId | Context::Supplied { .. } => continue,
            };
            assert_eq!(*bytes, expected, "{context:?}");
        }
    }
    // Channels that are added and removed, with and without contexts, do not reuse each other's
    // numbers.
    for turn in 0..40u32 {
        program.remove(2);
        let contexts = [Context::Pid, Context::Tid];
        program.add(2, &contexts[..turn as usize % 3]);
        program.enable(2, &[rule("context:*")]);
        program.ping();
        running.step();
        assert_eq!(program.wait_for(2, 1)[0].fields, [&[7, 0][..], b"some text"], "{turn}");
    }
}

#[test]
fn a_daemon_that_comes_back_finds_its_programs_again() {
    let mut daemon = TestAgent::new("back");
    let mut running = RunningProgram::start("counts", &daemon);
    for turn in 0..3 {
        let start = Instant::now();
        let mut program = daemon.program();
        assert!(turn == 0 || start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        program.add(0, &[]);
        program.enable(0, &[rule("*")]);
        program.ping();
        // Orphaned rings that the agent has not replaced are released.
        assert_eq!(program.orphans, if turn == 0 { vec![] } else { vec![0] });
        let rings = blkkin_sys::testing::mapped_files(running.child.id(), "memfd:rings");
        assert_eq!(rings.unwrap(), 1);
        running.step();
        assert_eq!(program.wait_for(0, 1)[0].name, "count:step");
        daemon.close();
        drop(program);
        // Without an agent the program continues.
        std::thread::sleep(Duration::from_millis(100));
        running.step();
        daemon.listen();
    }
    running.end();
}

/// If the agent keeps a channel's rings at the next connection, the rings stay mapped and the
/// channel's rules stay in force.
#[test]
fn a_daemon_that_is_found_again_keeps_the_rings() {
    let daemon = TestAgent::new("keeps");
    let mut running = RunningProgram::start("counts", &daemon);
    let mut before = daemon.program();
    before.add(3, &[]);
    before.enable(3, &[rule("*")]);
    before.ping();
    let maps = format!("/proc/{}/maps", running.child.id());
    let rings = || {
        let maps = std::fs::read_to_string(&maps).unwrap();
        maps.lines().find(|line| line.contains("memfd:rings")).map(str::to_owned)
    };
    let was = rings();
    assert!(was.is_some());
    let channel = before.channels.remove(&3).unwrap();
    drop(before);
    let mut program = daemon.program();
    assert_eq!(program.orphans, [0]);
    // The agent now uses another number for the channel.
    let keep = KeepChannel { channel: 8, orphan: 0 };
    program.send(&ToApplication::KeepChannel(keep), &[]);
    program.channels.insert(8, channel);
    program.ping();
    assert_eq!(rings(), was);
    running.step();
    assert_eq!(program.wait_for(8, 1)[0].name, "count:step");
    program.enable(8, &[rule("nothing:*")]);
    program.ping();
    running.step();
    program.enable(8, &[rule("*")]);
    program.ping();
    running.step();
    program.wait_for(8, 1);
    program.remove(8);
    program.ping();
    assert_eq!(rings(), None);
    // The rings can be kept only once.
    program.send(&ToApplication::KeepChannel(keep), &[]);
    assert_eq!(program.next_message(LONG).0, ProgramMessage::End);
    running.end();
}

#[test]
fn nonsense_ends_the_conversation_and_it_is_begun_anew() {
    let daemon = TestAgent::new("nonsense");
    let running = RunningProgram::start("counts", &daemon);
    let (remove, apply) = (ToApplication::RemoveChannel(7), ToApplication::Apply(7));
    let say_all: [&dyn Fn(&mut Program); 6] = [
        &|program| program.send(&remove, &[]),
        &|program| program.send(&apply, &[]),
        &|program| program.send_bytes(&[0xff; 100], &[]),
        &|program| {
            program.add(1, &[]);
            program.add(1, &[]);
        },
        &|program| program.send(&Opening::Hello(program.hello.clone().unwrap()), &[]),
        &|program| {
            program.add(1, &[]);
            let rule = control::ChannelRule { channel: 1, rule: rule("*") };
            let mut bytes = Vec::new();
            control::encode(&ToApplication::Rule(rule), &mut bytes).unwrap();
            for _ in 0..=limits::RULES_MAX {
                program.try_send_bytes(&bytes, &[]);
            }
        },
    ];
    let start = Instant::now();
    for say in say_all {
        let mut program = daemon.program();
        say(&mut program);
        assert_eq!(program.next_message(LONG).0, ProgramMessage::End);
    }
    // The pauses between connections grow to a second each.
    let took = start.elapsed();
    assert!(took > Duration::from_secs(2) && took < Duration::from_secs(15), "{took:?}");
    // Invalid memory disables only its channel.
    let mut program = daemon.program();
    let (reads, writes) = std::io::pipe().unwrap();
    program.send(&add(1, &[]), &[reads.as_fd(), writes.as_fd()]);
    program.enable(1, &[rule("*")]);
    program.ping();
    program.remove(1);
    program.ping();
    running.end();
}

#[test]
fn who_is_refused_for_good_is_silent() {
    let daemon = TestAgent::new("refused");
    let mut running = RunningProgram::start("looks", &daemon);
    let refuse = |try_again| {
        let mut program = Program::new(daemon.connected(LONG).unwrap());
        program.receive_hello();
        let reason = "because".to_owned();
        let refused = Refused { version: Version::OURS, try_again, reason };
        program.send(&Answer::Refused(refused), &[]);
    };
    refuse(true);
    refuse(true);
    refuse(false);
    assert!(daemon.connected(Duration::from_millis(1500)).is_none());
    // The same if the program starts the search itself.
    assert_eq!(running.step(), "none");
    assert!(daemon.connected(Duration::from_millis(100)).is_none());
    running.end();
}

/// Program: prints the rules of the process's sampler.
#[test]
#[ignore = "a program of other tests"]
fn samples() {
    while wait_for_step() {
        print_line(&sample::global().rules().to_string());
    }
}

#[test]
fn a_daemon_overrules_sampling() {
    let daemon = TestAgent::new("sampling");
    let mut running = RunningProgram::with("samples", &daemon, &[("BLKKIN_SAMPLE", "1/100")]);
    assert_eq!(running.step(), "1/100");
    let mut program = daemon.program();
    let mut check = |rules: Option<&str>, expected: &str| {
        program.send(&ToApplication::Sampling(rules.map(str::to_owned)), &[]);
        program.ping();
        assert_eq!(running.step(), expected);
    };
    check(Some("1/7,50/s"), "1/7,50/s");
    check(None, "1/100");
    check(Some("1/3"), "1/3");
    drop(program);
    let mut program = daemon.program();
    program.ping();
    assert_eq!(running.step(), "1/100");
    running.end();
}

/// Program: registers 6000 types on four threads at the same time, in one step.
#[test]
#[ignore = "a program of other tests"]
fn races() {
    const TYPES: usize = 1500;
    wait_for_step();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for number in 0..TYPES {
                    let name = format!("race:{thread}_{number}").leak();
                    let place = (file!(), line!());
                    let event = EventType::new(name, Level::Info, &["a", "b"], place);
                    Box::leak(Box::new(event)).record((1u8, "text"));
                    if number % 100 == 0 {
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
    assert_eq!(registry::types_refused(), 0);
    print_line("done");
    wait_for_step();
}

/// No agent misses a type that is registered while agents connect and disconnect repeatedly. All
/// recorded events can be decoded, because their types were described before.
#[test]
fn no_type_is_missed_while_daemons_come_and_go() {
    let mut daemon = TestAgent::new("race");
    let mut running = RunningProgram::start("races", &daemon);
    running.input.as_mut().unwrap().write_all(b"\n").unwrap();
    let mut last = None;
    for turn in 0..5 {
        let mut program = daemon.program();
        program.add(0, &[]);
        program.enable(0, &[rule("race:*")]);
        program.ping();
        // Panics if a type was not described.
        program.events(0);
        if turn < 4 {
            daemon.close();
            daemon.listen();
        } else {
            last = Some(program);
        }
    }
    running.read_line();
    let mut program = last.unwrap();
    program.events(0);
    let types = program.types();
    assert_eq!(types.len(), 6000);
    for thread in 0..4 {
        for number in [0, 1, 999, 1499] {
            let name = format!("race:{thread}_{number}");
            assert!(types.values().any(|event| event.name == name), "{name}");
        }
    }
    running.end();
}

/// Program: records events of three types that cannot be described, and of a valid one.
#[test]
#[ignore = "a program of other tests"]
fn oversized() {
    wait_for_step();
    let place = (file!(), line!());
    let long = format!("p:{}", "x".repeat(limits::EVENT_NAME_SIZE_MAX)).leak();
    let bad: [EventType; 3] = [
        EventType::new(long, Level::Info, &[], place),
        EventType::new("p:twice", Level::Info, &["a", "a"], place),
        EventType::new("p:letters", Level::Info, &["a b"], place),
    ];
    let [one, two, three] = &*Box::leak(Box::new(bad));
    one.record(());
    two.record((1u8, 2u8));
    three.record((1u8,));
    event!(Level::Info, "p:good");
    print_line(&registry::types_refused().to_string());
    wait_for_step();
}

#[test]
fn types_that_cannot_be_told_are_refused() {
    let daemon = TestAgent::new("oversized");
    let mut running = RunningProgram::start("oversized", &daemon);
    let mut program = daemon.program();
    program.add(0, &[]);
    program.enable(0, &[rule("*")]);
    program.ping();
    assert_eq!(running.step(), "3");
    assert_eq!(program.names(0), ["p:good"]);
    assert_eq!(program.types().len(), 1);
    running.end();
}

/// After the first seconds of a connection, the library's thread sleeps until the agent sends a
/// message.
#[test]
fn an_idle_thread_does_not_wake() {
    let daemon = TestAgent::new("idle");
    let mut running = RunningProgram::start("counts", &daemon);
    let mut program = daemon.program();
    program.add(0, &[]);
    program.enable(0, &[rule("*")]);
    program.ping();
    // In the first seconds the thread checks whether its connection was closed.
    std::thread::sleep(Duration::from_millis(5500));
    let switches = || {
        let tasks = format!("/proc/{}/task", running.child.id());
        let mut found = None;
        for task in std::fs::read_dir(tasks).unwrap() {
            let path = task.unwrap().path();
            let name = std::fs::read_to_string(path.join("comm")).unwrap();
            if name.trim() == "blkkin" {
                let status = std::fs::read_to_string(path.join("status")).unwrap();
                let lines = status.lines().filter(|line| line.contains("ctxt_switches"));
                found = Some(lines.map(str::to_owned).collect::<Vec<_>>());
            }
        }
        found.expect("the thread")
    };
    let before = switches();
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(switches(), before);
    for _ in 0..1000 {
        running.step();
    }
    running.end();
}

/// Program: forks in each step and waits for the child. The child makes the next steps until it
/// reads "end".
#[test]
#[ignore = "a program of other tests"]
fn forks() {
    let fork = match std::env::var("FORK").as_deref() {
        Ok("raw") => Fork::Raw,
        _ => Fork::Library,
    };
    while wait_for_step() {
        event!(Level::Info, "fork:parent");
        let ended = in_child(fork, |_: &[AtomicU64; 1]| {
            // A type that the parent has registered, and a type that the parent has not.
            event!(Level::Info, "fork:parent");
            event!(Level::Info, "fork:child", step = 0);
            print_line("forked");
            for step in 1.. {
                let mut line = String::new();
                std::io::stdin().read_line(&mut line).unwrap();
                match line.trim() {
                    "" if line.is_empty() => break,
                    "start" => blkkin_trace::start(),
                    "end" => break,
                    _ => {}
                }
                event!(Level::Info, "fork:parent");
                event!(Level::Info, "fork:child", step = step);
                print_line("done");
            }
        });
        print_line(&format!("{ended:?}"));
    }
}

impl RunningProgram {
    #[track_caller]
    fn step_with(&mut self, line: &str) -> String {
        self.input.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
        self.read_line()
    }
}

#[test]
fn a_forked_child_is_a_process_of_its_own() {
    let daemon = TestAgent::new("fork");
    let mut running = RunningProgram::start("forks", &daemon);
    let mut parent = daemon.program();
    parent.add(0, &[]);
    parent.enable(0, &[rule("*")]);
    parent.ping();
    assert_eq!(running.step(), "forked");
    let mut child = daemon.program();
    assert_ne!(child.pid(), parent.pid());
    let Some(Hello { role: Role::Application { pid, .. }, .. }) = child.hello.clone() else {
        panic!("no application");
    };
    assert_eq!(pid, child.pid());
    child.add(0, &[Context::Pid, Context::Tid]);
    child.enable(0, &[rule("*")]);
    child.ping();
    assert_eq!(running.step(), "done");
    let events = child.wait_for(0, 2);
    assert_eq!(events[1].name, "fork:child");
    assert_eq!(events[1].fields, [[1, 0, 0, 0]]);
    assert_eq!(events[1].contexts, [pid.to_le_bytes(), pid.to_le_bytes()]);
    // The child's first events occurred before the child was attached. They were not recorded, not
    // even into the parent's rings.
    assert_eq!(parent.names(0), ["fork:parent"]);
    let named = |program: &Program, name| {
        program.types().values().filter(|event| event.name == name).count()
    };
    assert_eq!((named(&parent, "fork:parent"), named(&parent, "fork:child")), (1, 0));
    assert_eq!((named(&child, "fork:parent"), named(&child, "fork:child")), (3, 2));
    assert_eq!(running.step_with("end"), "Ok([0])");
    assert_eq!(child.next_message(LONG).0, ProgramMessage::End);
    // The parent is unchanged.
    assert_eq!(running.step(), "forked");
    let _second = daemon.program();
    assert_eq!(parent.names(0), ["fork:parent"]);
    parent.ping();
    // A child does not keep a connection of its parent open.
    running.child.kill().unwrap();
    assert_eq!(parent.next_message(LONG).0, ProgramMessage::End);
}

#[test]
fn a_child_that_waits_records_from_its_first_line_on() {
    check_child(&[("BLKKIN_WAIT", "20000")]);
}

/// The first event of a forked child is recorded if the child waits the default time for the
/// agent's rules.
#[test]
fn l10_a_child_records_from_its_first_line_on() {
    check_child(&[]);
}

fn check_child(variables: &[(&str, &str)]) {
    let daemon = TestAgent::new(&format!("waits-{}", variables.len()));
    let mut running = RunningProgram::with("forks", &daemon, variables);
    let mut parent = daemon.program();
    parent.add(0, &[]);
    parent.enable(0, &[rule("*")]);
    parent.ping();
    running.input.as_mut().unwrap().write_all(b"\n").unwrap();
    let mut child = daemon.program();
    child.add(0, &[]);
    child.enable(0, &[rule("*")]);
    child.ping();
    assert_eq!(running.read_line(), "forked");
    assert_eq!(child.names(0), ["fork:parent", "fork:child"]);
    assert_eq!(parent.names(0), ["fork:parent"]);
    assert_eq!(running.step_with("end"), "Ok([0])");
    running.end();
}

#[test]
fn a_child_that_nobody_was_told_of_leaves_its_parents_rings_alone() {
    let daemon = TestAgent::new("raw");
    let mut running = RunningProgram::with("forks", &daemon, &[("FORK", "raw")]);
    let mut parent = daemon.program();
    parent.add(0, &[]);
    parent.add(1, &[Context::Pid]);
    parent.enable(0, &[rule("*")]);
    parent.enable(1, &[filtered("*", "1 == 1")]);
    parent.ping();
    assert_eq!(running.step(), "forked");
    assert_eq!(running.step(), "done");
    assert_eq!(parent.names(0), ["fork:parent"]);
    assert_eq!(parent.names(1), ["fork:parent"]);
    assert!(daemon.connected(Duration::from_millis(700)).is_none());
    assert_eq!(running.step_with("start"), "done");
    let mut child = daemon.program();
    child.add(0, &[]);
    child.enable(0, &[rule("*")]);
    child.ping();
    assert_eq!(running.step(), "done");
    assert_eq!(child.names(0), ["fork:parent", "fork:child"]);
    assert_eq!(parent.names(0), [""; 0]);
    parent.ping();
    assert_eq!(running.step_with("end"), "Ok([0])");
    running.end();
}

/// Program: forks in each step. The child first installs a seccomp filter if the step's line is
/// "child"; the parent does if it is "both".
#[test]
#[ignore = "a program of other tests"]
fn forks_into_sandboxes() {
    let mut line = String::new();
    while std::io::stdin().read_line(&mut line).unwrap() > 0 {
        if line.trim() == "both" {
            assert!(refuse(Call::Getrandom));
        }
        let is_sandboxed = line.trim() == "child";
        let ended = in_child(Fork::Library, |[is_refused]: &[AtomicU64; 1]| {
            is_refused.store((!is_sandboxed || refuse(Call::Getrandom)).into(), SeqCst);
            event!(Level::Info, "sandbox:child");
        });
        print_line(&format!("{ended:?}"));
        line.clear();
    }
}

/// A child that has installed a seccomp filter is not attached, because the filter may kill a
/// thread for the system calls of attaching. A filter installed before the fork does not prevent
/// attaching.
#[test]
fn children_that_sandbox_themselves_are_left_alone() {
    let daemon = TestAgent::new("sandboxes");
    let mut running =
        RunningProgram::with("forks_into_sandboxes", &daemon, &[("BLKKIN_WAIT", "20000")]);
    let mut parent = daemon.program();
    parent.add(0, &[]);
    parent.enable(0, &[rule("*")]);
    parent.ping();
    assert_eq!(running.step_with("child"), "Ok([1])");
    assert!(daemon.connected(Duration::ZERO).is_none());
    for line in ["none", "both"] {
        running.input.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut child = daemon.program();
        child.add(0, &[]);
        child.enable(0, &[rule("*")]);
        child.ping();
        assert_eq!(running.read_line(), "Ok([1])");
        assert_eq!(child.names(0), ["sandbox:child"]);
    }
    running.end();
}

/// Program: forks 200 times, while the tracer's thread executes messages of an agent.
#[test]
#[ignore = "a program of other tests"]
fn forks_often() {
    wait_for_step();
    for number in 0..200 {
        let ended = in_child(Fork::Library, |_: &[AtomicU64; 1]| {
            event!(Level::Info, "often:child", number = number);
            set_context("often:context", "child");
            blkkin_trace::start();
            // Some children live long enough to connect.
            if number % 10 == 0 {
                std::thread::sleep(Duration::from_millis(20));
                event!(Level::Info, "often:child", number = number);
            }
        });
        assert_eq!(ended, Ok([0]));
        event!(Level::Info, "often:parent", number = number);
        set_context("often:context", "parent");
    }
    print_line("done");
    wait_for_step();
}

/// Children do not wait for a lock that the parent's thread held at the fork: they end in time, and
/// so does the parent.
#[test]
fn forks_while_rules_change() {
    let daemon = TestAgent::new("often");
    // The agent does not answer the children, so a longer wait would delay them.
    let mut running = RunningProgram::with("forks_often", &daemon, &[("BLKKIN_WAIT", "0")]);
    let mut parent = daemon.program();
    parent.add(0, &[Context::Supplied { name: "often:context".to_owned() }]);
    running.input.as_mut().unwrap().write_all(b"\n").unwrap();
    let (mut children, mut parents) = (Vec::new(), 0);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(SeqCst) {
                if let Some(socket) = daemon.connected(Duration::from_millis(10)) {
                    children.push(socket);
                }
            }
        });
        scope.spawn(|| {
            while !is_done.load(SeqCst) {
                parent.add(1, &[]);
                parent.enable(0, &[filtered("often:*", "number >= 0")]);
                parent.enable(1, &[rule("*")]);
                parent.ping();
                parents += parent.names(0).iter().filter(|name| *name == "often:parent").count();
                assert!(!parent.names(0).iter().any(|name| name == "often:child"));
                parent.remove(1);
            }
        });
        // Stops the other threads even if the test fails.
        struct StopGuard<'d>(&'d AtomicBool);
        impl Drop for StopGuard<'_> {
            fn drop(&mut self) {
                self.0.store(true, SeqCst);
            }
        }
        let _done = StopGuard(&is_done);
        assert_eq!(running.read_line(), "done");
    });
    assert!(parents > 0);
    assert!(!children.is_empty());
    running.end();
}

/// Program: records in handlers of frequent signals, and in the interrupted code.
#[test]
#[ignore = "a program of other tests"]
fn is_interrupted() {
    fn handle() {
        event!(Level::Info, "signal:handler", text = "handled");
        event!(Level::Debug, "signal:filtered", number = 7);
    }
    static IS_OVER: AtomicBool = AtomicBool::new(false);
    wait_for_step();
    std::thread::spawn(|| {
        wait_for_step();
        IS_OVER.store(true, SeqCst);
    });
    let interrupted = while_interrupted(handle, || {
        for number in (0..10u32).cycle().take_while(|_| !IS_OVER.load(SeqCst)) {
            event!(Level::Info, "signal:body", text = "not handled");
            event!(Level::Debug, "signal:filtered", number = number);
        }
    });
    assert_eq!(interrupted, Ok(()));
    print_line("done");
    wait_for_step();
}

#[test]
fn signal_handlers_record() {
    let daemon = TestAgent::new("signals");
    let mut running = RunningProgram::start("is_interrupted", &daemon);
    let mut program = daemon.program();
    program.add(0, &[]);
    program.add(1, &[Context::Tid, Context::Procname]);
    running.input.as_mut().unwrap().write_all(b"\n").unwrap();
    let start = Instant::now();
    let mut counts = [0; 3];
    while start.elapsed() < Duration::from_secs(1) || counts.contains(&0) {
        assert!(start.elapsed() < LONG, "{counts:?}");
        program.enable(0, &[rule("signal:*")]);
        program.enable(1, &[filtered("signal:filtered", "number == 7")]);
        program.ping();
        std::thread::sleep(Duration::from_millis(1));
        for event in program.events(0) {
            match &*event.name {
                "signal:handler" => counts[0] += 1,
                "signal:body" => counts[1] += 1,
                name => assert_eq!(name, "signal:filtered"),
            }
        }
        for event in program.events(1) {
            assert_eq!((&*event.name, &*event.fields[0]), ("signal:filtered", &[7, 0, 0, 0][..]));
            counts[2] += 1;
        }
        program.enable(0, &[]);
        program.ping();
    }
    running.input.as_mut().unwrap().write_all(b"\n").unwrap();
    running.read_line();
    running.end();
}

#[derive(Clone, Copy)]
enum State {
    Idle,
    Busy = 7,
    Broken = -1,
}
event_enum!(State as i16 { Idle, Busy, Broken });

/// Program: records events with arrays, sequences and enumerations.
#[test]
#[ignore = "a program of other tests"]
fn has_many_values() {
    while wait_for_step() {
        for state in [State::Idle, State::Busy, State::Broken] {
            let latencies: Vec<f32> = vec![0.5; state as u8 as usize % 8];
            event!(
                Level::Info,
                "many:values",
                state = state,
                id = [1u8, 2, 3],
                latencies = latencies,
                name = "between",
                offsets = &[-1i64, 1][..],
            );
        }
        print_line("done");
    }
}

#[test]
fn arrays_sequences_and_enumerations_are_recorded() {
    let daemon = TestAgent::new("many");
    let mut running = RunningProgram::start("has_many_values", &daemon);
    let mut program = daemon.program();
    program.add(0, &[]);
    let mut check = |filter: &str, expected: &[i16]| {
        program.enable(0, &[filtered("many:*", filter)]);
        program.ping();
        running.step();
        let events = program.events(0);
        let states: Vec<_> = events
            .iter()
            .map(|event| i16::from_le_bytes(event.fields[0][..].try_into().unwrap()))
            .collect();
        assert_eq!(states, expected, "{filter}");
        for (event, state) in events.iter().zip(states) {
            assert_eq!(event.fields[1], [1, 2, 3]);
            assert_eq!(event.fields[2], 0.5f32.to_le_bytes().repeat(state as u8 as usize % 8));
            assert_eq!(event.fields[3], b"between");
            assert_eq!(event.fields[4], [(-1i64).to_le_bytes(), 1i64.to_le_bytes()].concat());
        }
    };
    check("1 == 1", &[0, 7, -1]);
    check(r#"state == "Busy""#, &[7]);
    check("state < 0", &[-1]);
    check(r#"state != "B*""#, &[0]);
    check("id[2] == 3 && offsets[0] < 0", &[0, 7, -1]);
    check("id[3] == 3", &[]);
    check("latencies[6] == 0.5", &[7, -1]);
    check(r#"name == "between" && offsets[1] == 1"#, &[0, 7, -1]);
    let types = program.types();
    let kinds: Vec<_> = types[&0].fields.iter().map(|field| field.kind.word()).collect();
    assert_eq!(kinds, ["enum", "array", "sequence", "string", "sequence"]);
    let control::FieldKind::Enum { labels, .. } = &types[&0].fields[0].kind else { panic!() };
    let labels: Vec<_> = labels.iter().map(|label| (&*label.name, label.value)).collect();
    assert_eq!(labels, [("Idle", 0), ("Busy", 7), ("Broken", u64::MAX)]);
    running.end();
}

/// Program: records events of all kinds in a signal handler on a small stack, including the first
/// events of their types.
#[test]
#[ignore = "a program of other tests"]
fn has_little_stack() {
    static OSD: Endpoint<'static> = Endpoint::new("osd.3", "10.0.0.7", 6802);
    static LONG: OnceLock<String> = OnceLock::new();
    LONG.set("x".repeat(100_000)).unwrap();
    fn long() -> &'static str {
        LONG.get().unwrap()
    }
    let bodies: [(&str, fn()); 8] = [
        ("small", || event!(Level::Info, "stack:small", number = 7u32, text = "text")),
        ("medium", || event!(Level::Info, "stack:medium", text = &long()[..400])),
        ("long", || event!(Level::Info, "stack:long", text = &long()[..3000], number = 7u32)),
        ("cut", || event!(Level::Info, "stack:cut", text = long(), other = long())),
        ("many", || {
            event!(
                Level::Info,
                "stack:many",
                a = 1u64,
                b = long(),
                c = 1.0,
                d = "d",
                e = long(),
                f = true,
                g = 7u8,
                h = &long()[..5],
                i = "i",
                j = 1i64,
                k = &long()[..60],
                l = "end",
            );
        }),
        ("annotation", || {
            let trace = Trace::root("client io", &OSD, sample::global());
            trace.event("happened");
            trace.keyval("key", long());
            trace.keyval("number", 7);
        }),
        ("wide", || {
            let trace = Trace::root_wide(&long()[..100], &OSD, sample::global());
            trace.child(long()).event(long());
        }),
        ("span", || {
            let trace = Trace::root("client io", &OSD, sample::global());
            drop(trace.child("a span").span());
            drop(trace.child(&long()[..300]).span());
        }),
    ];
    let value = "v".repeat(255);
    for name in ["test:one", "test:two"] {
        assert!(set_context(name, &value));
    }
    assert!(wait_for_step());
    loop {
        for (name, body) in bodies {
            print_line(&format!("{name} {}", stack_used(LITTLE_STACK, body).unwrap()));
        }
        print_line("done");
        if !wait_for_step() {
            break;
        }
    }
}

/// Size in bytes of an alternate signal stack in old programs. The kernel's signal frame occupies a
/// part of the stack, almost half of it with AVX-512.
const LITTLE_STACK: usize = 8192;
/// Maximum stack use of recording, in bytes: promise L9.
const STACK_USED_MAX: usize = 4096;

/// L9: recording any event needs at most 4 KiB of stack, even with contexts and with the most
/// deeply nested filters.
#[test]
fn l9_recording_needs_little_stack() {
    let daemon = TestAgent::new("stack");
    let mut running = RunningProgram::start("has_little_stack", &daemon);
    let mut program = daemon.program();
    let supplied = |name: &str| Context::Supplied { name: name.to_owned() };
    let mut contexts = vec![supplied("test:one"), supplied("test:two")];
    contexts.extend(Context::ALL);
    program.add(0, &[]);
    program.add(1, &contexts);
    program.add(2, &[]);
    program.add(3, &contexts);
    let names = || [rule("stack:*"), rule("zipkin:*"), rule("blkkin:*")];
    let filter = r#"(text != "y*" && $ctx.procname != "z") || ($app.test:one == "v*" && tid > 0)"#;
    let filters =
        |filter: &str| ["stack:*", "zipkin:*", "blkkin:*"].map(|name| filtered(name, filter));
    let nested = |start: &str, count, inner: &str| {
        format!("{}{inner}{}", start.repeat(count), ")".repeat(count))
    };
    let [sum, not] = [nested("1 + (", 59, "tid"), nested("!(", 29, "tid < 0")];
    let deep = format!(r#"{sum} > 0 && {not} && $app.test:one == "v*""#);
    program.enable(0, &names());
    program.enable(1, &names());
    program.enable(2, &filters(filter));
    program.enable(3, &filters(filter));
    program.add(4, &[]);
    program.add(5, &contexts);
    program.enable(4, &filters(&deep));
    program.enable(5, &filters(&deep));
    program.ping();
    let mut most = 0;
    // The first pass records the first event of each type, the last one into one channel only.
    for pass in 0..3 {
        let channels = if pass < 2 { 0..6 } else { 1..2 };
        if pass == 2 {
            [0, 2, 3, 4, 5].into_iter().for_each(|channel| program.enable(channel, &[]));
            program.ping();
        }
        running.input.as_mut().unwrap().write_all(b"\n").unwrap();
        loop {
            let said = running.read_line();
            let Some((name, used)) = said.split_once(' ') else { break };
            let used = used.parse::<usize>().unwrap();
            assert!(used <= STACK_USED_MAX, "pass {pass}: {name}: {used} bytes of stack");
            most = most.max(used);
        }
        for channel in channels {
            let names = program.names(channel);
            assert_eq!(names.len(), 5 + 3 + 2 + 2, "channel {channel}: {names:?}");
        }
    }
    figure("L9", &format!("recording takes {most} bytes of stack at most"));
    running.end();
}

/// Program: restricts one of its threads to a few system calls; the thread continues to record.
#[test]
#[ignore = "a program of other tests"]
fn is_confined() {
    static STEP: AtomicU64 = AtomicU64::new(0);
    std::thread::spawn(|| {
        assert!(confine());
        STEP.store(1, SeqCst);
        event!(Level::Info, "confined:first", text = "of a new type");
        STEP.store(2, SeqCst);
        while STEP.load(SeqCst) != 3 {
            std::hint::spin_loop();
        }
        for number in 0..20_000u32 {
            event!(Level::Info, "confined:many", number = number);
        }
        event!(Level::Info, "confined:last");
        STEP.store(4, SeqCst);
        loop {
            std::hint::spin_loop();
        }
    });
    wait_for_step();
    for step in [2, 4] {
        let start = Instant::now();
        while STEP.load(SeqCst) != step && start.elapsed() < LONG {
            std::thread::sleep(Duration::from_millis(1));
        }
        print_line(&format!("{}", STEP.load(SeqCst)));
        wait_for_step();
        STEP.fetch_max(step + 1, SeqCst);
    }
}

#[test]
fn a_confined_thread_makes_no_system_call() {
    let daemon = TestAgent::new("confined");
    let variables = [("BLKKIN_WAIT", "20000")];
    let mut running = RunningProgram::with("is_confined", &daemon, &variables);
    let mut program = daemon.program();
    program.add(0, &[]);
    program.add(1, &[Context::Cpu, Context::Supplied { name: "a:b".to_owned() }]);
    program.enable(0, &[rule("confined:*")]);
    program.enable(1, &[filtered("confined:*", r#"!has(number) && name != "x""#)]);
    program.ping();
    assert_eq!(running.step(), "2");
    assert_eq!(program.names(0), ["confined:first"]);
    assert_eq!(program.names(1), ["confined:first"]);
    assert_eq!(running.step(), "4");
    // More events than there is room for, so sub-buffers were left and events were lost.
    assert!(program.names(0).len() > 1000);
    assert_eq!(program.names(1), ["confined:last"]);
    running.end();
}

/// Program: starts threads that record and end.
#[test]
#[ignore = "a program of other tests"]
fn has_threads() {
    wait_for_step();
    for _ in 0..100 {
        let threads = [(); 5].map(|()| {
            std::thread::spawn(|| {
                event!(Level::Info, "thread:event", tid = blkkin_sys::thread_id())
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
    print_line("done");
    wait_for_step();
}

#[test]
fn threads_come_and_go() {
    let daemon = TestAgent::new("threads");
    let mut running = RunningProgram::start("has_threads", &daemon);
    let mut program = daemon.program();
    program.add(0, &[Context::Tid]);
    program.enable(0, &[rule("*")]);
    program.ping();
    assert_eq!(running.step(), "done");
    let events = program.wait_for(0, 500);
    assert!(events.iter().all(|event| event.contexts[0] == event.fields[0]));
    running.end();
}

/// Channels beyond a program's maximum are not attached. The numbers of channels without contexts
/// are not reused for channels with contexts.
#[test]
fn channels_beyond_the_most_are_left_out() {
    let daemon = TestAgent::new("two");
    let mut running = RunningProgram::start("counts", &daemon);
    let mut program = daemon.program();
    // More channels than a program can have.
    for number in 0..40 {
        program.add(number, &[]);
        program.enable(number, &[rule("count:*")]);
    }
    program.ping();
    running.step();
    let counts: Vec<_> = (0..40).map(|number| program.names(number).len()).collect();
    assert_eq!(counts.iter().sum::<usize>(), channels::CHANNELS_MAX, "{counts:?}");
    for number in 0..40 {
        program.remove(number);
    }
    program.add(77, &[Context::Pid]);
    program.enable(77, &[rule("count:*")]);
    program.ping();
    running.step();
    assert_eq!(program.names(77).len(), 0, "all places are for channels without contexts");
    program.add(78, &[]);
    program.enable(78, &[rule("count:*")]);
    program.ping();
    running.step();
    assert_eq!(program.names(78).len(), 1);
    running.end();
}

//! Tests of programs with the library and a connection to an agent. `life.c` is the program for
//! forks, sandboxes, closed descriptors and exits. Other programs test sampling, the use of stack,
//! and events with fields.

#[path = "../../../trace/tests/support/bpftrace.rs"]
mod bpftrace;
#[path = "../../../trace/tests/support/daemon.rs"]
mod support;

use super::*;
use blkkin_kernel::{UsdtArgument, UserProgram};
use blkkin_sys::testing::Stopped;
use blkkin_trace::Level;
use blkkin_trace::control::current_span::{CurrentSpan, SlotOffset};
use blkkin_trace::control::{Context, FromApplication, ToApplication};
use bpftrace::{Bpftrace, wait_for_zero};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;
use support::{LONG, Program, ProgramMessage, TestAgent, filtered, rule};

/// A compiled program and the directory that it was built in.
struct TestProgram {
    scratch: Scratch,
    program: PathBuf,
}

#[derive(Clone, Copy, PartialEq)]
enum Link {
    Dynamically,
    Statically,
    Not,
}

fn build(name: &str, link: Link) -> Option<TestProgram> {
    let compiler = compilers(name, Language::C).into_iter().next()?;
    let scratch = Scratch::new(&format!("life-{name}"));
    let program = scratch.0.join("life");
    let build = Build { compiler, language: Language::C, standard: "gnu17", options: &["-O1"] };
    let mut command = build.command(&scratch);
    command.arg(here().join("tests/programs/life.c")).arg("-o").arg(&program);
    let folder = library_folder();
    match link {
        Link::Dynamically => {
            command.arg("-L").arg(&folder).arg("-lblkkin");
            command.arg(run_path(&scratch));
        }
        Link::Statically => {
            command.arg(folder.join("libblkkin.a")).args(["-lm", "-lgcc_s"]);
        }
        // Links stubs of the library's symbols. The program loads the library as a plugin.
        Link::Not => {
            let none = scratch.0.join("none.c");
            let text = "int blkkin_enabled_levels; int blkkin_set_context(void){return 0;}\n\
                        static long no_call; long *blkkin_call_ = &no_call;\n\
                        int blkkin_enabled_by_now(void){return 0;}\n\
                        int blkkin_event(void){return 0;} int blkkin_keyval_integer(void){return 0;}\n";
            std::fs::write(&none, text).expect("to write");
            command.arg(none);
        }
    }
    command.args(["-pthread", "-ldl"]);
    run(&mut command);
    Some(TestProgram { scratch, program })
}

/// Environment variable with which a program waits up to 30 s for the agent.
const PATIENT: [(&str, &str); 1] = [("BLKKIN_WAIT", "30000")];

/// A running program; each line on its standard input starts its next step.
struct RunningProgram {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl TestProgram {
    fn start(&self, daemon: &TestAgent, arguments: &[&OsStr]) -> RunningProgram {
        self.start_with(daemon, arguments, &[])
    }

    fn start_with(
        &self,
        daemon: &TestAgent,
        arguments: &[&OsStr],
        variables: &[(&str, &str)],
    ) -> RunningProgram {
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir(&self.scratch.0).env_remove("LD_LIBRARY_PATH");
        command.env("BLKKIN_SOCKET", &daemon.path).env_remove("BLKKIN_WAIT");
        command.envs(variables.iter().copied());
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("to start");
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("a pipe"));
        RunningProgram { child, input, output: BufReader::new(output) }
    }
}

impl RunningProgram {
    #[track_caller]
    fn go_on(&mut self) {
        self.input.as_mut().expect("a pipe").write_all(b"\n").expect("to write");
    }

    #[track_caller]
    fn read_line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.output.read_line(&mut line).expect("to read"), 0, "it has ended");
        line.trim_end().to_owned()
    }

    #[track_caller]
    fn step(&mut self) -> String {
        self.go_on();
        self.read_line()
    }

    /// Closes the program's standard input, and checks that the program then exits successfully.
    #[track_caller]
    fn end(mut self) {
        self.input = None;
        assert!(self.child.wait().expect("a child").success());
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn listens(program: &mut Program) {
    program.add(0, &[]);
    program.enable(0, &[rule("zipkin:*")]);
    program.ping();
}

/// Returns the integer values of the recorded events.
fn numbers(program: &mut Program) -> Vec<i64> {
    let number = |event: support::Event| {
        i64::from_le_bytes(event.fields.last().expect("a field")[..].try_into().expect("8 bytes"))
    };
    program.events(0).into_iter().map(number).collect()
}

#[test]
fn programs_in_c_are_found() {
    for link in [Link::Dynamically, Link::Statically] {
        let Some(life) = build("found", link) else { return };
        let daemon = TestAgent::new("capi-found");
        let mut running = life.start(&daemon, &["macros".as_ref()]);
        let mut program = daemon.program();
        assert_eq!(program.hello.as_ref().expect("a hello").program, "life");
        assert_eq!(running.step(), "off");
        program.add(0, &[Context::Supplied { name: "life:context".to_owned() }]);
        program.enable(0, &[rule("zipkin:*")]);
        program.ping();
        assert_eq!(running.step(), "on");
        let [event] = &program.wait_for(0, 1)[..] else { panic!("one event") };
        assert_eq!(event.fields.last().expect("a field"), b"from a macro");
        assert_eq!(event.contexts, [b"of C"]);
        running.end();
        assert_eq!(program.next_message(LONG).0, ProgramMessage::Message(FromApplication::Goodbye));
    }
}

/// The event types of annotations are listed before the first annotation is recorded. `lttng list
/// -u` lists blkin's types equally early.
#[test]
fn d7_types_of_annotations_are_told_at_once() {
    for link in [Link::Dynamically, Link::Statically] {
        let Some(life) = build("types", link) else { return };
        let daemon = TestAgent::new("capi-types");
        let mut running = life.start(&daemon, &["macros".as_ref()]);
        let mut program = daemon.program();
        program.ping();
        let types = program.types();
        let mut told: Vec<_> =
            types.values().map(|one| (&*one.name, one.level, one.fields.len())).collect();
        told.sort_unstable_by_key(|(name, ..)| *name);
        let expected = [
            ("zipkin:keyval_integer", Level::Warning, 9),
            ("zipkin:keyval_string", Level::Warning, 9),
            ("zipkin:timestamp", Level::Warning, 8),
        ];
        assert_eq!(told, expected);
        assert_eq!(running.step(), "off");
        // The annotation is unwanted, so no type of another level is registered.
        assert_eq!(program.types().len(), 3);
        running.end();
    }
}

#[test]
fn a_program_that_closes_all_files_is_found_again() {
    let Some(life) = build("closes", Link::Dynamically) else { return };
    let daemon = TestAgent::new("capi-closes");
    let mut running = life.start(&daemon, &["closes".as_ref()]);
    let mut program = daemon.program();
    listens(&mut program);
    // After that time the thread no longer checks for a closed connection, and would not notice by
    // itself.
    std::thread::sleep(Duration::from_millis(5200));
    assert_eq!(running.step(), "closed");
    // The program must not write to a descriptor that is another file now.
    program.channels[&0].fall_asleep();
    assert_eq!(running.step(), "done");
    assert_eq!(program.channels[&0].wakes(), 0);
    assert_eq!(numbers(&mut program), [0]);
    program.send(&ToApplication::Ping(1), &[]);
    assert_eq!(program.next_message(LONG).0, ProgramMessage::End);
    let mut program = daemon.program();
    listens(&mut program);
    assert_eq!(running.step(), "done");
    assert_eq!(numbers(&mut program), [1]);
    running.end();
}

#[test]
fn a_program_that_becomes_a_daemon_is_found_again() {
    let Some(life) = build("daemon", Link::Dynamically) else { return };
    let daemon = TestAgent::new("capi-daemon");
    let mut running = life.start_with(&daemon, &["daemon".as_ref()], &PATIENT);
    let mut parent = daemon.program();
    listens(&mut parent);
    assert_eq!(running.step(), "closed");
    assert_eq!(parent.next_message(LONG).0, ProgramMessage::End);
    let parents = parent.pid();
    // The child connects at its first event, and the event is recorded.
    assert!(daemon.connected(Duration::from_millis(100)).is_none());
    running.go_on();
    let mut child = daemon.program();
    assert_ne!(child.pid(), parents);
    listens(&mut child);
    assert_eq!(running.read_line(), "done");
    assert_eq!(numbers(&mut child), [0]);
    // Ends the child, whose parent is not this process.
    running.input = None;
    assert_eq!(child.next_message(LONG).0, ProgramMessage::Message(FromApplication::Goodbye));
}

/// The library opens no descriptor with the number of a standard stream that the program is about
/// to reopen.
#[test]
fn a_program_may_replace_its_standard_streams() {
    let Some(life) = build("replaces", Link::Dynamically) else { return };
    let mut daemon = TestAgent::new("capi-replaces");
    let mut running = life.start(&daemon, &["replaces".as_ref()]);
    let mut program = daemon.program();
    listens(&mut program);
    running.go_on();
    // Makes the library reconnect while the streams are closed.
    std::thread::sleep(Duration::from_millis(100));
    daemon.close();
    drop(program);
    daemon.listen();
    let mut program = daemon.program();
    listens(&mut program);
    program.wait_for(0, 1);
    running.end();
}

#[test]
fn a_plugin_can_be_loaded_a_thousand_times() {
    let Some(life) = build("plugs", Link::Not) else { return };
    let daemon = TestAgent::new("capi-plugs");
    let library = library_folder().join("libblkkin.so");
    let mut running = life.start(&daemon, &["plugs".as_ref(), library.as_os_str()]);
    assert_eq!(running.read_line(), "plugged");
    let mut program = daemon.program();
    listens(&mut program);
    assert_eq!(running.step(), "done");
    assert_eq!(program.events(0).len(), 999);
    program.ping();
    assert!(daemon.connected(Duration::from_millis(100)).is_none());
    running.end();
}

#[test]
fn what_is_recorded_at_the_very_end_counts() {
    let Some(life) = build("exits", Link::Dynamically) else { return };
    let daemon = TestAgent::new("capi-exits");
    for _ in 0..20 {
        let mut running = life.start(&daemon, &["exits".as_ref()]);
        let mut program = daemon.program();
        listens(&mut program);
        running.go_on();
        assert_eq!(program.next_message(LONG).0, ProgramMessage::Message(FromApplication::Goodbye));
        assert_eq!(program.next_message(LONG).0, ProgramMessage::End);
        let numbers = numbers(&mut program);
        // If a ring is full, the last events may be lost; the rings have room for some thousands.
        let is_full = numbers.len() > 1000;
        assert!(is_full || numbers.contains(&98) && numbers.contains(&99), "{numbers:?}");
        running.end();
    }
}

/// The first event of a forked child waits until the agent's rules have also reached the variables
/// that the C macros check.
#[test]
fn l10_children_record_all_that_they_have() {
    let Some(life) = build("forks", Link::Dynamically) else { return };
    let daemon = TestAgent::new("capi-forks");
    let mut running = life.start(&daemon, &["forks".as_ref()]);
    let mut parent = daemon.program();
    listens(&mut parent);
    for child in 0..100 {
        running.go_on();
        let mut program = daemon.program();
        listens(&mut program);
        assert_eq!(running.read_line(), "done");
        assert_eq!(numbers(&mut program), (10 * child..10 * child + 10).collect::<Vec<_>>());
    }
    running.end();
}

/// A forked child has no library thread before its first event, so it may make system calls that
/// require a single-threaded process. Its first event afterwards is recorded.
#[test]
fn l10_a_child_may_make_a_user_namespace_and_records_afterwards() {
    let Some(life) = build("unshares", Link::Dynamically) else { return };
    let mut daemon = TestAgent::new("capi-unshares");
    daemon.close();
    let mut alone = life.start(&daemon, &["unshares".as_ref()]);
    if alone.step() != "done" {
        return skip("l10_a_child_may_make_a_user_namespace", "this machine does not permit it");
    }
    alone.end();
    daemon.listen();
    let mut running = life.start_with(&daemon, &["unshares".as_ref()], &PATIENT);
    let mut parent = daemon.program();
    listens(&mut parent);
    running.go_on();
    let mut child = daemon.program();
    assert_ne!(child.pid(), parent.pid());
    listens(&mut child);
    assert_eq!(running.read_line(), "done");
    assert_eq!(numbers(&mut child), [0]);
    running.end();
}

/// The library's start waits until its thread has made the system calls of a new thread, so the
/// program may forbid such calls right after the start.
#[test]
fn l10_a_program_may_sandbox_itself_at_once() {
    let Some(life) = build("sandboxes", Link::Dynamically) else { return };
    let daemon = TestAgent::new("capi-sandboxes");
    for turn in 0..20 {
        let mut running = life.start(&daemon, &["sandboxes".as_ref()]);
        let status = running.child.wait().expect("to wait");
        assert!(status.success(), "{turn}: {status}");
    }
}

/// The library does not exceed a limit on the size of files, which also applies to memory files.
/// Exceeding the limit would kill the program.
#[test]
fn l10_a_limit_on_the_size_of_files_ends_no_program() {
    let Some(life) = build("fsize", Link::Dynamically) else { return };
    for limit in ["0", "3", "64"] {
        // Each round has another agent, because the program reconnects repeatedly.
        let daemon = TestAgent::new(&format!("capi-fsize-{limit}"));
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -f $0 && exec \"$1\" counts", limit]).arg(&life.program);
        command.env("BLKKIN_SOCKET", &daemon.path).env_remove("LD_LIBRARY_PATH");
        command.env("BLKKIN_WAIT", "5000");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.spawn().expect("to start");
        let mut program = Program::new(daemon.connected(LONG).expect("a program"));
        program.receive_hello();
        let release = "test".to_owned();
        let version = blkkin_trace::control::Version::OURS;
        let welcome = blkkin_trace::control::Welcome { version, release };
        program.send(&blkkin_trace::control::Answer::Welcome(welcome), &[]);
        let status = child.wait().expect("to wait");
        assert!(status.success(), "{limit}: {status}");
    }
}

#[test]
fn what_is_spawned_is_another_program() {
    let Some(life) = build("spawns", Link::Dynamically) else { return };
    let daemon = TestAgent::new("capi-spawns");
    let mut running = life.start(&daemon, &["spawns".as_ref()]);
    let mut program = daemon.program();
    listens(&mut program);
    assert_eq!(running.step(), "done");
    // Rings of several processors are read in turn, so the numbers are not in order.
    let mut numbers = numbers(&mut program);
    numbers.sort_unstable();
    assert_eq!(numbers, (0..50).collect::<Vec<_>>());
    assert!(daemon.connected(Duration::from_millis(50)).is_none());
    program.ping();
    running.end();
}

#[test]
fn a_program_that_executes_another_is_that_one() {
    let Some(life) = build("executes", Link::Dynamically) else { return };
    let daemon = TestAgent::new("capi-executes");
    let mut running = life.start(&daemon, &["executes".as_ref()]);
    let mut before = daemon.program();
    listens(&mut before);
    running.go_on();
    assert_eq!(before.next_message(LONG).0, ProgramMessage::End);
    let mut program = daemon.program();
    assert_eq!(program.pid(), running.child.id());
    listens(&mut program);
    assert_eq!(running.step(), "done");
    assert_eq!(numbers(&mut program), [0]);
    assert_eq!(numbers(&mut before), [0; 0]);
    running.end();
}

#[test]
fn programs_with_others_rights_are_not_traced() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    let Some(life) = build("rights", Link::Dynamically) else { return };
    let is_root = std::fs::metadata("/proc/self").expect("a process").uid() == 0;
    if !is_root {
        return skip("programs_with_others_rights_are_not_traced", "only root can make one");
    }
    let daemon = TestAgent::new("capi-rights");
    let nobody = 65534;
    chown(&life.program, Some(nobody), None).expect("to give it away");
    let mode = std::fs::Permissions::from_mode(0o4755);
    std::fs::set_permissions(&life.program, mode).expect("to change its rights");
    let mut running = life.start(&daemon, &["macros".as_ref()]);
    assert_eq!(running.step(), "off");
    let status = format!("/proc/{}/status", running.child.id());
    let status = std::fs::read_to_string(status).expect("a process");
    let line = status.lines().find(|line| line.starts_with("Uid:")).expect("its users");
    if !line.contains("65534") {
        return skip("programs_with_others_rights_are_not_traced", "the file system forbids it");
    }
    assert!(daemon.connected(Duration::from_millis(200)).is_none());
    running.end();
}

/// Builds the program `source`, which runs until its input ends.
fn build_of(source: &str, language: Language, standard: &str, link: Link) -> Option<TestProgram> {
    let compiler = compilers(source, language).into_iter().next()?;
    let scratch = Scratch::new(&format!("life-{}-{}", source.replace('.', "-"), link as u8));
    let program = scratch.0.join(stem(source));
    let mut command = Build { compiler, language, standard, options: &["-O2"] }.command(&scratch);
    command.arg(here().join("tests/programs").join(source)).arg("-o").arg(&program);
    match link {
        Link::Dynamically => {
            command.arg("-L").arg(library_folder()).args(["-lblkkin", &run_path(&scratch)]);
        }
        _ => {
            command.arg(library_folder().join("libblkkin.a")).args(["-lm", "-lgcc_s"]);
        }
    }
    run(command.args(["-pthread", "-ldl"]));
    Some(TestProgram { scratch, program })
}

/// D2: sampling rules apply to programs in C and C++, and each request is recorded as a whole or
/// not at all.
#[test]
fn sampling_decides_about_requests_of_programs_in_c() {
    for (source, language, standard) in
        [("sampled.c", Language::C, "c99"), ("sampled.cc", Language::Cxx, "c++17")]
    {
        let Some(life) = build_of(source, language, standard, Link::Dynamically) else { return };
        let daemon = TestAgent::new(&format!("capi-{}", source.replace('.', "-")));
        let mut running = life.start(&daemon, &[]);
        let mut program = daemon.program();
        listens(&mut program);
        // Number of events of 1000 requests, in all styles together.
        let all: usize = if language == Language::C { 3000 } else { 6000 };
        let mut check = |rules: Option<&str>, low: usize, high: usize| {
            let rules = rules.map(str::to_owned);
            program.send(&ToApplication::Sampling(rules.clone()), &[]);
            program.ping();
            let (mut sampled, mut events) = (0, Vec::new());
            // Ten rounds, because the rings have room for one.
            for _ in 0..10 {
                sampled += running.step().parse::<usize>().expect("a number");
                events.extend(program.events(0));
            }
            assert!((low..=high).contains(&sampled), "{source}: {rules:?}: {sampled} contexts");
            let recorded = events.len() * 1000 / all;
            assert!((low..=high).contains(&recorded), "{source}: {rules:?}: {recorded} of 1000");
            // Each request has all three events.
            let mut of_request = std::collections::HashMap::new();
            for event in &events {
                *of_request.entry(event.fields[4].clone()).or_insert(0) += 1;
            }
            assert!(of_request.values().all(|count| *count == 3), "{source}: {rules:?}");
        };
        check(None, 1000, 1000);
        check(Some("1/10"), 40, 200);
        check(Some("1/1000000000"), 0, 3);
        check(None, 1000, 1000);
        running.end();
    }
}

/// The environment variable `BLKKIN_SAMPLE` sets the sampling rate of programs in C too.
#[test]
fn the_variable_samples_programs_in_c() {
    let Some(life) = build_of("sampled.c", Language::C, "c99", Link::Statically) else { return };
    let daemon = TestAgent::new("capi-sample-variable");
    let mut running = life.start_with(&daemon, &[], &[("BLKKIN_SAMPLE", "1/10")]);
    let mut program = daemon.program();
    listens(&mut program);
    let (mut sampled, mut events) = (0, 0);
    for _ in 0..10 {
        sampled += running.step().parse::<usize>().expect("a number");
        events += program.events(0).len();
    }
    assert!((40..=200).contains(&sampled), "{sampled} contexts");
    assert!((40..=200).contains(&(events / 3)), "{events} events");
    running.end();
}

/// L9: recording in C and C++ needs at most 4 KiB of an alternate stack of 8 KiB, with all contexts
/// and with a filter of the deepest nesting.
#[test]
fn l9_recording_in_c_needs_little_stack() {
    let mut most = 0;
    for (language, standard, link) in [
        (Language::C, "c99", Link::Dynamically),
        (Language::C, "c11", Link::Statically),
        (Language::Cxx, "c++17", Link::Dynamically),
    ] {
        let Some(life) = build_of("little.c", language, standard, link) else { return };
        let daemon = TestAgent::new(&format!("capi-little-{standard}"));
        let mut running = life.start(&daemon, &[]);
        let mut program = daemon.program();
        let mut contexts: Vec<Context> = Context::ALL.into();
        contexts.push(Context::Supplied { name: "test:one".to_owned() });
        let nested = |start: &str, count, inner: &str| {
            format!("{}{inner}{}", start.repeat(count), ")".repeat(count))
        };
        let [sum, not] = [nested("1 + (", 59, "tid"), nested("!(", 29, "tid < 0")];
        let deep = format!(r#"{sum} > 0 && {not} && $app.test:one == "m*" && text != "z*x*y""#);
        // Annotations have no field `text`, so the filter accepts them by `!has`.
        let deep = format!("!has(text) || {deep}");
        let names = ["stack:*", "zipkin:*"];
        for (channel, contexts) in [&[][..], &contexts, &[], &contexts].into_iter().enumerate() {
            program.add(channel as u32, contexts);
            let rules = names.map(|name| match channel < 2 {
                true => rule(name),
                false => filtered(name, &deep),
            });
            program.enable(channel as u32, &rules);
        }
        program.ping();
        // The first pass records the first event of each type.
        for pass in 0..2 {
            running.go_on();
            loop {
                let heard = running.read_line();
                let Some((name, used)) = heard.split_once(": ") else { break };
                let used = used.parse::<usize>().expect("a number");
                assert!(used <= 4096, "{standard}, pass {pass}: {name}: {used} bytes of stack");
                most = most.max(used);
            }
            for channel in 0..4 {
                let names = program.names(channel);
                assert_eq!(names.len(), 3 + 2 + 2 + 3, "{standard}, {channel}: {names:?}");
            }
        }
        running.end();
    }
    figure("L9", &format!("recording in C takes {most} bytes of stack at most"));
}

/// Events with fields defined by the program are recorded, described with their source lines, and
/// filtered. This holds in C and in C++, with the shared and with the static library.
#[test]
fn events_of_ones_own_in_c() {
    for (language, standard, link) in [
        (Language::C, "c99", Link::Dynamically),
        (Language::C, "c11", Link::Statically),
        (Language::Cxx, "c++11", Link::Dynamically),
        (Language::Cxx, "c++20", Link::Statically),
    ] {
        let Some(life) = build_of("events.c", language, standard, link) else { return };
        let daemon = TestAgent::new(&format!("capi-events-{standard}"));
        let mut running = life.start(&daemon, &[]);
        assert_eq!(
            running.read_line(),
            "0",
            "arguments are not evaluated where nobody wants the event"
        );
        let mut program = daemon.program();
        program.add(0, &[]);
        program.enable(0, &[rule("osd:*"), rule("my.app:*")]);
        program.ping();
        assert_eq!(running.step(), "1");
        let events = program.events(0);
        let names: Vec<_> = events.iter().map(|event| &*event.name).collect();
        let expected = ["osd:none", "osd:write", "my.app:quoted name", "osd:many", "osd:arrays"];
        assert_eq!(names, expected, "{standard}");
        assert_eq!(events[1].fields, [&1i32.to_le_bytes()[..], b"/dev/vda"]);
        let many = &events[3].fields;
        assert_eq!(many[0], (-8i8).to_le_bytes());
        assert_eq!(many[1], [8]);
        assert_eq!(many[2], (-16i16).to_le_bytes());
        assert_eq!(many[3], 16u16.to_le_bytes());
        assert_eq!(many[4], (-32i32).to_le_bytes());
        assert_eq!(many[5], 32u32.to_le_bytes());
        assert_eq!(many[6], (-64i64).to_le_bytes());
        assert_eq!(many[7], 64u64.to_le_bytes());
        assert_eq!(many[8], 255u32.to_le_bytes());
        assert_eq!(many[9], 1.5f32.to_le_bytes());
        assert_eq!(many[10], (-2.5f64).to_le_bytes());
        assert_eq!(many[11], [1]);
        assert_eq!(many[12], 8u64.to_le_bytes());
        assert_eq!(many[13], b"/dev");
        assert_eq!(many[14], (-1i64).to_le_bytes());
        assert_eq!(many[15], b"");
        let arrays = &events[4].fields;
        assert_eq!(arrays[0], 7i32.to_le_bytes());
        assert_eq!(arrays[1], [-1i32, 2, 3].map(i32::to_le_bytes).concat());
        assert_eq!(arrays[2], [0.5f64, 0.25].map(f64::to_le_bytes).concat());
        assert_eq!((&*arrays[3], &*arrays[4]), (&b"/de"[..], &b""[..]));
        assert_eq!(arrays[5], 9i32.to_le_bytes());

        let types = program.types();
        let types: std::collections::HashMap<_, _> =
            types.values().map(|found| (&*found.name, found)).collect();
        let source =
            std::fs::read_to_string(here().join("tests/programs/events.c")).expect("a file");
        let line = source.lines().position(|line| line.contains("BLKKIN_EVENT(osd, write,"));
        let write = types["osd:write"];
        assert!(write.file.ends_with("tests/programs/events.c"), "{}", write.file);
        assert_eq!(Some(write.line as usize), line.map(|line| line + 1));
        let names: Vec<_> = write.fields.iter().map(|field| &*field.name).collect();
        assert_eq!(names, ["count", "path"]);
        let kinds = types["osd:arrays"].fields.iter().map(|field| field.kind.word());
        let expected = ["enum", "array", "sequence", "sequence", "sequence", "signed"];
        assert_eq!(kinds.collect::<Vec<_>>(), expected);

        let mut check = |filter: &str, expected: &[&str]| {
            program.enable(0, &[support::filtered("osd:*", filter)]);
            program.ping();
            running.step();
            assert_eq!(program.names(0), expected, "{filter}");
        };
        check(r#"path == "/dev/*""#, &["osd:write"]);
        check(r#"state == "busy" && offsets[0] < 0"#, &["osd:arrays"]);
        check("l && k < 0 && i == 0xff", &["osd:many"]);
        check("count > 1000", &[]);
        running.end();
    }
}

/// Probes of `events.c`, with the sizes of their arguments: negative for signed integers. Of more
/// than twelve arguments the first twelve are passed.
const PROBES: [(&str, &[i8]); 5] = [
    ("my.app:quoted name", &[-4]),
    ("osd:arrays", &[-4, 8, 8, 8, 8, 8, 8, 8, -4]),
    ("osd:many", &[-1, 1, -2, 2, -4, 4, -8, 8, 4, 4, 8, 1]),
    ("osd:none", &[]),
    ("osd:write", &[-4, 8]),
];

/// Events are USDT probes with each compiler, in each language and with all usual options.
#[test]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn events_have_notes_of_probes() {
    let scratch = Scratch::new("capi-notes");
    let program = scratch.0.join("events");
    let run_path = run_path(&scratch);
    for (language, word, standards) in
        [(Language::C, "c", ["c99", "gnu17"]), (Language::Cxx, "c++", ["c++11", "c++20"])]
    {
        for compiler in compilers("events_have_notes_of_probes", language) {
            let all: [&[&str]; 4] = [
                &["-O0", "-fPIE", "-pie"],
                &["-O2", "-fPIC", "-ffunction-sections", "-Wl,--gc-sections"],
                &["-O3", "-fno-pie", "-no-pie"],
                &["-O1", "-flto"],
            ];
            for (options, standard) in
                all.iter().flat_map(|options| standards.map(|standard| (options, standard)))
            {
                let build = Build { compiler, language, standard, options };
                let mut command = build.command(&scratch);
                command.args(["-x", word]).arg(here().join("tests/programs/events.c"));
                command.args(["-x", "none", "-L"]).arg(library_folder()).arg("-lblkkin");
                let output = command.args([&run_path, "-o"]).arg(&program).output();
                let output = output.expect("a compiler");
                let errors = String::from_utf8_lossy(&output.stderr);
                // Not every installation of clang can link such files.
                if options.contains(&"-flto") && errors.contains("LLVMgold") {
                    continue;
                }
                assert!(output.status.success(), "{command:?}: {errors}");
                check_notes(&program, &format!("{command:?}"));
                run(command.arg("-DBLKKIN_NO_USDT"));
                let program = UserProgram::open(&program).expect("a program");
                assert_eq!(program.usdt().expect("probes"), [], "BLKKIN_NO_USDT");
            }
        }
    }
}

#[track_caller]
fn check_notes(program: &Path, command: &str) {
    let probes = UserProgram::open(program).expect("a program").usdt().expect("probes");
    let size = |argument: &UsdtArgument| {
        let size = argument.size.cast_signed();
        if argument.is_signed { -size } else { size }
    };
    let mut found: Vec<_> = probes
        .iter()
        .map(|probe| {
            assert!(probe.semaphore_offset.is_some(), "{command}: {probe:?}");
            let sizes: Vec<i8> = probe.arguments.iter().map(size).collect();
            (format!("{}:{}", probe.provider, probe.name), sizes)
        })
        .collect();
    found.sort();
    let expected = PROBES.map(|(name, sizes)| (name.to_owned(), sizes.to_vec()));
    assert_eq!(found, expected, "{command}");
    if is_installed("readelf") {
        let mut command = Command::new("readelf");
        let output = run(command.arg("--notes").arg(program));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.is_empty(), "{errors}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("Name: quoted name"));
    }
}

/// bpftrace prints each event of a program, with its fields, whether or not an agent records it.
/// Arguments are evaluated while bpftrace is attached, and not afterwards.
#[test]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn bpftrace_prints_events_in_c() {
    const SCRIPT: [(&str, &str); 5] = [
        ("my.app:quoted name", r#"printf("quoted %d\n", arg0);"#),
        (
            "osd:arrays",
            r#"printf("arrays %d %d %d %d %d\n", arg0, *(int32 *)(arg1 + 8), arg3, *(uint8 *)(arg4 + 1), arg5);"#,
        ),
        ("osd:many", r#"printf("many %d %d %d %d %d %d\n", arg0, arg1, arg2, arg3, arg4, arg5);"#),
        ("osd:none", r#"printf("none\n");"#),
        ("osd:write", r#"printf("write %d %s\n", arg0, str(arg1));"#),
    ];
    for (language, standard, link) in [
        (Language::C, "c99", Link::Dynamically),
        (Language::Cxx, "c++11", Link::Dynamically),
        (Language::C, "gnu17", Link::Statically),
    ] {
        let Some(life) = build_of("events.c", language, standard, link) else { return };
        let daemon = TestAgent::new(&format!("capi-bpftrace-{standard}"));
        let mut running = life.start(&daemon, &[]);
        assert_eq!(running.read_line(), "0");
        let (pid, path) = (running.child.id(), &life.program);
        let names = SCRIPT.map(|(name, _)| name);
        let attach = || {
            let script = SCRIPT.map(|(name, action)| {
                let (provider, name) = name.split_once(':').expect("a colon");
                let path = path.display();
                format!("usdt:\"{path}\":\"{provider}\":\"{name}\" {{ {action} }}\n")
            });
            Bpftrace::attach("bpftrace_prints_events_in_c", &script.concat(), pid, path, &names)
        };
        let expected = |number: i32| {
            [
                "arrays 7 3 2 100 3".to_owned(),
                "many -8 8 -16 16 -32 32".to_owned(),
                "none".to_owned(),
                "quoted 1".to_owned(),
                format!("write {number} /dev/vda"),
            ]
        };
        let Some(first) = attach() else { return };
        assert_eq!(running.step(), "1", "no agent records the events");
        assert_eq!(first.end_after(5), expected(1), "{standard}");
        wait_for_zero(pid, path, &names);
        assert_eq!(running.step(), "1", "arguments are not evaluated without a tracer");

        let mut program = daemon.program();
        program.add(0, &[]);
        program.enable(0, &[rule("osd:*")]);
        program.ping();
        let Some(second) = attach() else { return };
        assert_eq!(running.step(), "2");
        assert_eq!(second.end_after(5), expected(2), "{standard}");
        wait_for_zero(pid, path, &names);
        let recorded = ["osd:none", "osd:write", "osd:many", "osd:arrays"];
        assert_eq!(program.names(0), recorded, "{standard}");
        assert_eq!(running.step(), "3");
        assert_eq!(program.names(0), recorded, "{standard}");
        running.end();
    }
}

/// `perf record` attaches to an event of a running program, and records its fields.
#[test]
#[cfg(target_arch = "x86_64")]
fn perf_records_events_in_c() {
    /// Maximum number of steps of the program until perf has attached.
    const STEPS_MAX: usize = 1000;
    let test = "perf_records_events_in_c";
    if !is_installed("perf") {
        return skip(test, "perf is not installed");
    }
    if blkkin_sys::user_id() != 0 {
        return skip(test, "perf needs root");
    }
    let Some(life) = build_of("events.c", Language::C, "gnu17", Link::Dynamically) else { return };
    let scratch = &life.scratch.0;
    // A list of known programs is in the user's home.
    let perf = |arguments: &[&str]| {
        let mut perf = Command::new("perf");
        perf.args(arguments).env("HOME", scratch).current_dir(scratch);
        perf
    };
    let program = life.program.to_str().expect("a path in UTF-8");
    run(&mut perf(&["buildid-cache", "--add", program]));
    run(&mut perf(&["probe", "--quiet", "sdt_osd:many"]));
    let daemon = TestAgent::new("capi-perf");
    let mut running = life.start(&daemon, &[]);
    assert_eq!(running.read_line(), "0");
    let pid = running.child.id();
    let record = ["record", "-q", "-e", "sdt_osd:many", "-o", "perf.data", "-p", &pid.to_string()];
    let mut recording = perf(&record).spawn().expect("to start perf");
    let is_attached = (0..STEPS_MAX).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        bpftrace::semaphore(pid, &life.program, "osd:many") != 0
    });
    // The probe is enabled a moment after it is attached.
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(20));
        running.step();
    }
    run(Command::new("kill").args(["-INT", &recording.id().to_string()]));
    recording.wait().expect("a child");
    let deleted = perf(&["probe", "--quiet", "--del", "sdt_osd:many"]).status();
    assert!(is_attached && deleted.expect("to start perf").success());
    running.end();
    let printed = perf(&["script", "-F", "event,trace", "-i", "perf.data"]).output();
    let printed = printed.expect("to start perf").stdout;
    let printed = String::from_utf8_lossy(&printed);
    // Without those that have less than 32 bits and a sign, which perf prints without it.
    let fields = "arg4=16 arg5=-32 arg6=32 arg7=-64 arg8=64 arg9=255";
    let events = printed.lines().filter(|line| line.contains("sdt_osd:many")).count();
    let complete = printed.lines().filter(|line| line.contains(fields)).count();
    assert!(events > 0 && complete == events, "{printed}");
}

/// SystemTap lists the events of a program with their arguments. It does so without a kernel to
/// probe, if a folder looks like one.
#[test]
#[cfg(target_arch = "x86_64")]
fn systemtap_lists_events_in_c() {
    let test = "systemtap_lists_events_in_c";
    if !is_installed("stap") {
        return skip(test, "SystemTap is not installed");
    }
    let Some(life) = build_of("events.c", Language::C, "gnu17", Link::Dynamically) else { return };
    let scratch = &life.scratch.0;
    let kernel = scratch.join("kernel");
    std::fs::create_dir_all(kernel.join("include/config")).expect("to make a folder");
    for (file, text) in [
        (".config", "CONFIG_UPROBES=y\nCONFIG_UTRACE=y\n"),
        ("include/config/kernel.release", "6.1.0\n"),
        ("System.map", ""),
        ("Module.symvers", ""),
    ] {
        std::fs::write(kernel.join(file), text).expect("to write a file");
    }
    let pattern = format!("process(\"{}\").mark(\"*\")", life.program.display());
    let mut stap = Command::new("stap");
    stap.arg("-r").arg(&kernel).args(["-L", &pattern]).env("HOME", scratch);
    let output = stap.output().expect("to start stap");
    let marks = String::from_utf8_lossy(&output.stdout);
    // Each line is a mark, and its arguments.
    let counts: Vec<(&str, usize)> = marks
        .lines()
        .filter_map(|line| line.split_once(".mark(\"")?.1.split_once("\")"))
        .map(|(name, arguments)| (name, arguments.matches(":long").count()))
        .collect();
    let expected = [("arrays", 9), ("many", 12), ("none", 0), ("quoted name", 1), ("write", 2)];
    assert_eq!(counts, expected, "{output:?}");
}

/// A text without a NUL is passed with one, up to its maximum size, in C++ also from inline
/// functions and templates of position-independent code.
#[test]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn bpftrace_prints_texts_of_inline_functions() {
    let test = "bpftrace_prints_texts_of_inline_functions";
    let Some(life) = build_of("probes.cc", Language::Cxx, "c++11", Link::Dynamically) else {
        return;
    };
    let daemon = TestAgent::new("capi-bpftrace-texts");
    let mut running = life.start(&daemon, &[]);
    assert_eq!(running.read_line(), "0");
    let (pid, path) = (running.child.id(), &life.program);
    let names = ["osd:text", "osd:typed"];
    let shown = path.display();
    let script = format!(
        r#"usdt:{shown}:osd:text {{ printf("text %s %d %d %d\n", str(arg0), *(uint8 *)(arg1 + 254), *(uint8 *)(arg1 + 255), arg2); }}
           usdt:{shown}:osd:typed {{ printf("typed %d\n", arg0); }}"#
    );
    let Some(bpftrace) = Bpftrace::attach(test, &script, pid, path, &names) else { return };
    assert_eq!(running.step(), "1");
    let lines = bpftrace.end_after(4);
    assert_eq!(lines, ["text /de 120 0 255", "typed -2", "typed 1", "typed 3"]);
    wait_for_zero(pid, path, &names);
    assert_eq!(running.step(), "1");
    running.end();
}

/// Wrong uses of the macros are compile errors whose messages name the mistake.
#[test]
fn wrong_events_do_not_compile() {
    let scratch = Scratch::new("capi-wrong-events");
    let check = |line: &str, expected: &str| {
        for (language, word, standard) in
            [(Language::C, "c", "c11"), (Language::Cxx, "c++", "c++11")]
        {
            for compiler in compilers("wrong_events_do_not_compile", language) {
                let source = scratch.0.join("wrong");
                let text = format!(
                    "#include <blkkin.h>\nvoid f(int n, const char *p);\n\
                     void f(int n, const char *p)\n{{\n\t(void)n; (void)p;\n\t{line}\n}}\n"
                );
                std::fs::write(&source, text).expect("to write");
                let build = Build { compiler, language, standard, options: &[] };
                let mut command = build.command(&scratch);
                command.args(["-fsyntax-only", "-x", word]).arg(&source);
                let output = command.output().expect("a compiler");
                let errors = String::from_utf8_lossy(&output.stderr);
                assert_eq!(output.status.success(), expected.is_empty(), "{line}: {errors}");
                assert!(errors.contains(expected), "{compiler}: {line}: {errors}");
            }
        }
    };
    check("BLKKIN_EVENT(a, b, BLKKIN_INFO, (int, n, n), (string, p, p));", "");
    check("BLKKIN_EVENT(a, b, BLKKIN_INFO, (number, n, n));", "BLKKIN_CLASS_number");
    check("BLKKIN_EVENT(a, b, BLKKIN_INFO, (string, n, n));", "blkkin_of_string");
    check("BLKKIN_EVENT(a, b, BLKKIN_INFO, (int, p, p));", "blkkin_of_int");
    check("BLKKIN_EVENT(a, b, BLKKIN_INFO, (int, n, n), (int, n, 1));", "blkkin_field_n");
    check("BLKKIN_EVENT(a, b, 15, (int, n, n));", "is a level");
    check("BLKKIN_EVENT(a, b, BLKKIN_INFO, (array, n, int, p, 3));", "blkkin_of_int_many");
}

/// A program in C records a run each time that it stops to show a span, if a channel wants that.
#[test]
fn programs_in_c_record_runs() {
    for link in [Link::Dynamically, Link::Statically] {
        let Some(life) = build_of("runs.c", Language::C, "c99", link) else { return };
        let daemon = TestAgent::new("capi-runs");
        let mut running = life.start(&daemon, &[]);
        let mut program = daemon.program();
        listens(&mut program);
        assert_eq!(running.step(), "done");
        assert!(program.events(0).is_empty());
        program.enable(0, &[rule("blkkin:run")]);
        program.ping();
        assert_eq!(running.step(), "done");
        let events = program.wait_for(0, 5);
        assert!(events.iter().all(|event| event.name == "blkkin:run"));
        let number = |field: &Vec<u8>| u64::from_le_bytes(field[..].try_into().expect("8 bytes"));
        let mut runs: Vec<Vec<u64>> =
            events.iter().map(|event| event.fields.iter().map(number).collect()).collect();
        runs.sort_by_key(|run| run[3] + run[4]);
        let ids: Vec<_> = runs.iter().map(|run| &run[..3]).collect();
        let (outer, inner, other) = ([1, 2, 10], [1, 0, 11], [u64::MAX, 0, u64::MAX - 1]);
        assert_eq!(ids, [outer, inner, inner, outer, other]);
        running.end();
    }
}

/// An observer outside of the program finds the current span of each thread, whether the program is
/// linked with the library or has loaded it when its threads already ran.
#[cfg(target_arch = "x86_64")]
#[test]
fn an_observer_finds_the_current_span_of_each_thread() {
    let Some(compiler) = compilers("current", Language::C).into_iter().next() else { return };
    for link in [Link::Dynamically, Link::Statically, Link::Not] {
        let scratch = Scratch::new("life-current");
        let program = scratch.0.join("current");
        let options: &[&str] = if link == Link::Not { &["-O1", "-DPLUGIN"] } else { &["-O1"] };
        let build = Build { compiler, language: Language::C, standard: "gnu17", options };
        let mut command = build.command(&scratch);
        command.arg(here().join("tests/programs/current.c")).arg("-o").arg(&program);
        let library = library_folder();
        match link {
            Link::Dynamically => {
                command.arg("-L").arg(&library).arg("-lblkkin").arg(run_path(&scratch));
            }
            Link::Statically => {
                command.arg(library.join("libblkkin.a")).args(["-lm", "-lgcc_s"]);
            }
            Link::Not => {}
        }
        run(command.args(["-pthread", "-ldl"]));
        let current = TestProgram { scratch, program };
        let daemon = TestAgent::new("capi-current");
        let library = library.join("libblkkin.so");
        // In `dlopen` the library's thread can begin only when its start no longer waits.
        let patience = if link == Link::Not { ("BLKKIN_WAIT", "0") } else { PATIENT[0] };
        let variables = [("PLUGIN_PATH", library.to_str().expect("UTF-8")), patience];
        let mut running = current.start_with(&daemon, &[], &variables);
        if link == Link::Not {
            running.go_on();
        }
        let mut program = daemon.program();
        listens(&mut program);
        running.go_on();
        let offset = program.current_span().expect("an offset in the catalog");
        for _ in 0..4 {
            check_current_spans(&mut running, offset);
            running.go_on();
        }
        running.end();
    }
}

/// Reads two lines of `current.c`, and compares the ids with what an observer finds in the threads.
#[cfg(target_arch = "x86_64")]
#[track_caller]
fn check_current_spans(running: &mut RunningProgram, offset: SlotOffset) {
    for _ in 0..2 {
        let line = running.read_line();
        let numbers: Vec<i64> = line.split(' ').map(|word| word.parse().expect("ids")).collect();
        let [thread, high, low, span_id] = numbers[..] else { panic!("{line}") };
        let trace_id = u128::from(high.cast_unsigned()) << 64 | u128::from(low.cast_unsigned());
        let expected = match trace_id {
            0 => CurrentSpan::None,
            _ => CurrentSpan::Span { trace_id, span_id: span_id.cast_unsigned() },
        };
        let stopped = Stopped::new(thread.try_into().expect("a thread")).expect("to stop it");
        let address = stopped.thread_pointer().expect("registers");
        let address = address.wrapping_add_signed(offset.bytes().into());
        let words = stopped.words(address).expect("to read its memory");
        assert_eq!(CurrentSpan::of_words(words), expected, "{line}");
    }
}

//! Probes on a program that this machine's compiler makes: each event is recorded with its
//! arguments, and nothing stays behind when the probes are detached.

mod events;

use blkkin_filter::Filter;
use blkkin_kernel::{
    Btf, ChosenProcesses, Error, Probe, ProcessScope, Recorder, Selection, TimerProbe, UserProbe,
    UserProgram,
};
use blkkin_ring::TakeOutcome;
use blkkin_sys::bpf::{AttachPoint, Program, UserInstruction};
use blkkin_sys::testing::{Scratch, is_installed, skip};
use events::{Event, Value, drain};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/targets.c");
/// Number of times that each of the two threads reaches each probe.
const RUNS: usize = 500;

/// Compiles the program; `None`, with a message, if this machine cannot.
fn compile(test: &str, scratch: &Scratch) -> Option<PathBuf> {
    if !is_installed("cc") {
        skip(test, "cc is not installed");
        return None;
    }
    if !cfg!(target_arch = "x86_64") {
        skip(test, "the probes are for x86-64");
        return None;
    }
    let path = scratch.0.join("targets");
    let mut command = Command::new("cc");
    let status = command.args(["-O2", "-pthread", "-o"]).arg(&path).arg(SOURCE).status();
    assert!(status.expect("cc").success());
    Some(path)
}

/// Returns the probes, whose texts are about the program at `path`.
fn probes(path: &Path, texts: &[&str]) -> Result<Vec<UserProbe>, Error> {
    let find = |text: &&str| {
        let text = text.replace("PROGRAM", &path.display().to_string());
        UserProbe::find(&text.parse::<Probe>().expect("a probe"), ProcessScope::All)
    };
    texts.iter().map(find).collect()
}

/// Attaches probes; `None`, with a message, if this machine or user does not permit it.
fn attach(test: &str, selection: &Selection) -> Option<(Recorder, ChosenProcesses)> {
    let attached = || -> Result<_, Error> {
        let chosen = ChosenProcesses::new()?;
        let recorder = Recorder::attach(selection, &chosen, &Btf::of_kernel()?)?;
        Ok((recorder, chosen))
    };
    match attached() {
        Ok(both) => Some(both),
        Err(error) if error.is_permission() || matches!(error, Error::Types(_)) => {
            skip(test, &error.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn selection(user: Vec<UserProbe>) -> Selection {
    Selection { user, uuid: [3; 16], ..Selection::default() }
}

/// Running program with the probes.
struct Target {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Processor time that the program has used so far.
    used: Duration,
}

impl Target {
    /// Starts the program. Each event is recorded once by each of two threads in a round.
    fn start(path: &Path, rounds: usize) -> Target {
        let mut child = Command::new(path)
            .arg(rounds.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut target = Target { child, input, output, used: Duration::ZERO };
        target.read_semaphore();
        target
    }

    fn read_semaphore(&mut self) -> u32 {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        let (semaphore, used) = line.trim().split_once(' ').expect("two numbers");
        self.used = Duration::from_nanos(used.parse().expect("a number"));
        semaphore.parse().expect("a number")
    }

    /// Returns the semaphore of the probe `typed`, after a run of the threads if `is_run` is set.
    fn semaphore(&mut self, is_run: bool) -> u32 {
        self.input.write_all(if is_run { b"r\n" } else { b"\n" }).expect("a pipe");
        self.read_semaphore()
    }

    fn end(mut self) {
        drop(self.input);
        assert!(self.child.wait().expect("an exit").success());
    }
}

/// Attaches probes, runs the program once, and returns its events.
fn record(test: &str, path: &Path, user: Vec<UserProbe>) -> Option<Vec<Event>> {
    let (mut recorder, _chosen) = attach(test, &selection(user))?;
    let mut target = Target::start(path, RUNS);
    target.semaphore(true);
    let pid = target.child.id();
    recorder.stop();
    target.semaphore(true);
    target.end();
    assert_eq!(recorder.lost(), 0);
    let events = drain(&mut recorder);
    assert!(events.iter().all(|event| event.pid == pid), "one process");
    Some(events)
}

fn named<'e>(events: &'e [Event], name: &str) -> Vec<&'e Event> {
    events.iter().filter(|event| event.name == name).collect()
}

/// Checks the numbers of a field that the two threads have counted up from `first`.
fn check_counted(events: &[&Event], field: &str, first: i64) {
    let mut numbers: Vec<i64> = events.iter().map(|event| event.number(field)).collect();
    numbers.sort_unstable();
    let expected: Vec<i64> = (first..first + RUNS as i64).flat_map(|number| [number; 2]).collect();
    assert_eq!(numbers, expected, "{field}");
}

/// Functions that a pattern matches are recorded with their arguments and results, each under its
/// own name, by one attachment and by one for each function.
#[test]
fn functions_are_recorded_with_arguments_and_results() {
    let test = "functions_are_recorded_with_arguments_and_results";
    let scratch = Scratch::new(test);
    let Some(path) = compile(test, &scratch) else { return };
    let texts = ["uprobe:PROGRAM:target_*", "uretprobe:PROGRAM:target_*"];
    for is_single in [false, true] {
        let mut user = probes(&path, &texts).expect("probes");
        let names: Vec<&str> = user[0].events().collect();
        assert_eq!(names, ["uprobe:targets:target_add", "uprobe:targets:target_multiply"]);
        if is_single {
            user = user.into_iter().map(UserProbe::with_single_attachments).collect();
        }
        let Some(events) = record(test, &path, user) else { return };
        assert_eq!(events.len(), 2 * RUNS * 4);
        let adds = named(&events, "uprobe:targets:target_add");
        check_counted(&adds, "arg0", 0);
        assert!(adds.iter().all(|event| event.number("arg1") == 1000 && event.fields.len() == 6));
        check_counted(&named(&events, "uretprobe:targets:target_add"), "ret", 1000);
        check_counted(&named(&events, "uprobe:targets:target_multiply"), "arg0", 1000);
        let products = named(&events, "uretprobe:targets:target_multiply");
        let products: BTreeSet<i64> = products.iter().map(|event| event.number("ret")).collect();
        assert_eq!(products, (1000..1000 + RUNS as i64).map(|number| -3 * number).collect());
    }
}

/// Instructions are found by an address, and by a distance from a function.
#[test]
fn instructions_are_recorded_by_address_and_offset() {
    let test = "instructions_are_recorded_by_address_and_offset";
    let scratch = Scratch::new(test);
    let Some(path) = compile(test, &scratch) else { return };
    let output = Command::new("nm").arg(&path).output();
    let Ok(output) = output else { return skip(test, "nm is not installed") };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.ends_with(" plain")).expect("the function");
    let address = u64::from_str_radix(&line[..16], 16).expect("an address");
    // The function is a `nop` of one byte and a `ret`, after an `endbr64` with some compilers.
    let code = std::fs::read(&path).expect("the program");
    let start = |bytes: &[u8]| code.windows(bytes.len()).any(|window| window == bytes);
    let size = if start(&[0xf3, 0x0f, 0x1e, 0xfa, 0x90, 0xc3]) { 5 } else { 1 };
    let texts = [format!("uprobe:PROGRAM:{address:#x}"), format!("uprobe:PROGRAM:plain+{size}")];
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let Some(events) = record(test, &path, probes(&path, &texts).expect("probes")) else { return };
    assert_eq!(named(&events, &format!("uprobe:targets:{address:#x}")).len(), 2 * RUNS);
    assert_eq!(named(&events, &format!("uprobe:targets:plain+{size}")).len(), 2 * RUNS);
}

/// Arguments of USDT probes are recorded by their location, size and sign; an address without
/// memory gives 0, and an argument in a vector register is left out.
#[test]
fn usdt_arguments_are_recorded_by_their_types() {
    let test = "usdt_arguments_are_recorded_by_their_types";
    let scratch = Scratch::new(test);
    let Some(path) = compile(test, &scratch) else { return };
    for is_single in [false, true] {
        let mut user = probes(&path, &["usdt:PROGRAM:target:*"]).expect("probes");
        if is_single {
            user = user.into_iter().map(UserProbe::with_single_attachments).collect();
        }
        let Some(events) = record(test, &path, user) else { return };
        assert_eq!(events.len(), 2 * RUNS * 2);
        let plain = named(&events, "usdt:targets:target:plain");
        assert!(plain.len() == 2 * RUNS && plain.iter().all(|event| event.fields.is_empty()));
        let typed = named(&events, "usdt:targets:target:typed");
        let expected = [
            ("arg0", -2),
            ("arg1", -2),
            ("arg2", -2),
            ("arg3", -2),
            ("arg5", -2),
            ("arg6", -40),
            ("arg7", 0x2345),
            ("arg8", -77),
            ("arg9", -5),
            ("arg11", 0),
        ];
        for event in &typed {
            for (field, number) in expected {
                assert_eq!(event.number(field), number, "{field}");
            }
            assert!(!event.fields.contains_key("arg10"));
        }
        let mut whole: Vec<i64> = typed.iter().map(|event| event.number("arg4")).collect();
        whole.sort_unstable_by_key(|number| std::cmp::Reverse(*number));
        let numbers = (0..RUNS as i64).flat_map(|index| [-2 - (index << 32); 2]);
        assert_eq!(whole, numbers.collect::<Vec<i64>>());
    }
}

/// Only events that pass the probe's filter are recorded: by values in registers and in memory, by
/// signed numbers, by the process and by the event's name.
#[test]
fn events_pass_a_filter() {
    let test = "events_pass_a_filter";
    let scratch = Scratch::new(test);
    let Some(path) = compile(test, &scratch) else { return };
    let filtered = |text: &str, filter: &str, is_single: bool| {
        let mut user = probes(&path, &[text]).expect("probes");
        for probe in &mut user {
            probe.set_filter(Filter::parse(filter).expect("a filter"));
        }
        match is_single {
            true => user.into_iter().map(UserProbe::with_single_attachments).collect(),
            false => user,
        }
    };
    // `arg4` of the USDT probe is -2 - (index << 32) as an unsigned number; `arg0` of the function
    // is the index.
    let cases = [
        ("uprobe:PROGRAM:target_add", "arg0 < 10 && arg1 == 1000", 20),
        ("uprobe:PROGRAM:target_*", "arg0 < 10", 20),
        ("uretprobe:PROGRAM:target_add", "ret >= 1490", 20),
        ("usdt:PROGRAM:target:typed", "arg4 >= 18446744073709551614", 2),
        ("usdt:PROGRAM:target:typed", "arg6 == -40 && arg7 == 0x2345", 2 * RUNS),
        ("usdt:PROGRAM:target:typed", "arg8 != -77", 0),
        ("usdt:PROGRAM:target:*", "procname == \"targets\"", 4 * RUNS),
        ("usdt:PROGRAM:target:*", "procname == \"other\"", 0),
        ("usdt:PROGRAM:target:*", "name == \"*:plain\"", 2 * RUNS),
        ("uprobe:PROGRAM:target_*", "name == \"*_multiply\" && arg0 < 1010", 20),
        ("usdt:PROGRAM:target:typed", "unknown == 0", 0),
    ];
    for (text, filter, count) in cases {
        for is_single in [false, true] {
            let Some(events) = record(test, &path, filtered(text, filter, is_single)) else {
                return;
            };
            assert_eq!(events.len(), count, "{text} {filter}");
        }
    }
}

/// The semaphore is 1 while the probe is attached, in programs that run already and in those that
/// start later, and 0 after it.
#[test]
fn semaphores_follow_the_attachment() {
    let test = "semaphores_follow_the_attachment";
    let scratch = Scratch::new(test);
    let Some(path) = compile(test, &scratch) else { return };
    for is_single in [false, true] {
        let mut target = Target::start(&path, 1);
        assert_eq!(target.semaphore(false), 0);
        let mut user = probes(&path, &["usdt:PROGRAM:*:typed"]).expect("probes");
        if is_single {
            user = user.into_iter().map(UserProbe::with_single_attachments).collect();
        }
        let Some((recorder, _chosen)) = attach(test, &selection(user)) else { return };
        assert_eq!(target.semaphore(false), 1);
        let mut later = Target::start(&path, 1);
        assert_eq!(later.semaphore(false), 1);
        drop(recorder);
        assert_eq!((target.semaphore(false), later.semaphore(false)), (0, 0));
        target.end();
        later.end();
    }
}

/// Only the chosen processes are recorded, if a probe is selected so.
#[test]
fn probes_of_chosen_processes_are_recorded() {
    let test = "probes_of_chosen_processes_are_recorded";
    let scratch = Scratch::new(test);
    let Some(path) = compile(test, &scratch) else { return };
    let probe: Probe = format!("uprobe:{}:target_add", path.display()).parse().expect("a probe");
    let probe = UserProbe::find(&probe, ProcessScope::Chosen).expect("a function");
    let Some((mut recorder, chosen)) = attach(test, &selection(vec![probe])) else { return };
    let mut targets = [Target::start(&path, RUNS), Target::start(&path, RUNS)];
    chosen.follow(targets[1].child.id());
    targets.iter_mut().for_each(|target| {
        target.semaphore(true);
    });
    recorder.stop();
    let events = drain(&mut recorder);
    let of = |pid: u32| events.iter().filter(|event| event.pid == pid).count();
    let counts = targets.each_ref().map(|target| of(target.child.id()));
    assert_eq!(counts, [0, 2 * RUNS]);
    targets.into_iter().for_each(Target::end);
}

/// A timer records the stacks of the program that is running.
#[test]
fn timers_record_stacks() {
    let test = "timers_record_stacks";
    let scratch = Scratch::new(test);
    let Some(path) = compile(test, &scratch) else { return };
    let Probe::Timer(rate) = "profile:1ms".parse().expect("a probe") else { panic!("no timer") };
    let timers = vec![TimerProbe { rate, scope: ProcessScope::Chosen }];
    let selection = Selection { timers, uuid: [4; 16], ..Selection::default() };
    let Some((mut recorder, chosen)) = attach(test, &selection) else { return };
    let mut target = Target::start(&path, 20_000_000);
    chosen.follow(target.child.id());
    target.semaphore(true);
    recorder.stop();
    let events = drain(&mut recorder);
    assert!(events.len() >= 10, "{} events", events.len());
    let stack = |event: &Event, field: &str| -> Vec<u64> {
        let Some(Value::Bytes(bytes)) = event.fields.get(field) else { panic!("{event:?}") };
        assert!(bytes.len() <= 64 * 8);
        let words = bytes.chunks_exact(8);
        words.map(|word| u64::from_le_bytes(word.try_into().expect("a word"))).collect()
    };
    for event in &events {
        assert_eq!((event.name.as_str(), event.text("name")), ("profile", "targets"));
        assert!(stack(event, "kernel_stack").iter().all(|address| address.cast_signed() < 0));
    }
    // Threads begin in code that was mapped for the program.
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", target.child.id())).expect("maps");
    let code: Vec<std::ops::Range<u64>> = maps
        .lines()
        .filter(|line| line.contains(" r-xp ") && line.ends_with("/targets"))
        .map(|line| {
            let (first, rest) = line.split_once('-').expect("a range");
            let number = |text| u64::from_str_radix(text, 16).expect("an address");
            number(first)..number(rest.split(' ').next().unwrap_or_default())
        })
        .collect();
    let is_code = |address: &u64| code.iter().any(|range| range.contains(address));
    let own = events.iter().filter(|event| stack(event, "user_stack").first().is_some_and(is_code));
    assert!(2 * own.count() > events.len(), "most samples are in the program's own code");
    target.end();
}

/// Reasons for which a probe is not possible are stated.
#[test]
fn refusals_are_stated() {
    let test = "refusals_are_stated";
    let scratch = Scratch::new(test);
    let Some(path) = compile(test, &scratch) else { return };
    let check = |text: &str, expected: &str| {
        let error = probes(&path, &[text]).expect_err("no probe").to_string();
        assert!(error.contains(expected), "{error}");
    };
    check("uprobe:PROGRAM:missing", "the program has no such function");
    check("uprobe:PROGRAM:target_add+4000", "outside of the function, which has");
    check("uprobe:PROGRAM:0xffffffffff", "no code at address 0xffffffffff");
    check("usdt:PROGRAM:other:*", "the program has no such USDT probe");
    check("uprobe:PROGRAM.c:main", "No such file");
    check("uprobe:/etc/passwd:main", "not an ELF program");
    check("kprobe:vfs_read", "it is no probe on a program");
    // An instruction that cannot be probed is refused while a process has it in memory.
    let target = Target::start(&path, 1);
    let user = probes(&path, &["uprobe:PROGRAM:invalid_code"]).expect("a place");
    let attached = ChosenProcesses::new().and_then(|chosen| {
        Recorder::attach(&selection(user), &chosen, &Btf::of_kernel()?).map(|_| ())
    });
    match attached.expect_err("no probe") {
        error if error.is_permission() => skip(test, &error.to_string()),
        error => assert!(error.to_string().contains("accepts no probe there"), "{error}"),
    }
    target.end();
}

/// Measures the processor time of a hit without a program of the kernel, with one that does
/// nothing, and with one that records.
#[test]
#[ignore = "a measurement, for a machine that does nothing else"]
#[expect(clippy::print_stdout, reason = "prints its result")]
fn cost_of_a_hit() {
    const HITS: usize = 200_000;
    /// Program that returns 0.
    const NOTHING: [u64; 2] = [0xb7, 0x95];
    let test = "cost_of_a_hit";
    let scratch = Scratch::new(test);
    let Some(path) = compile(test, &scratch) else { return };
    let measure = |name: &str, drain: &mut dyn FnMut()| {
        let mut best = Duration::MAX;
        for _ in 0..7 {
            let mut target = Target::start(&path, HITS);
            let before = target.used;
            target.semaphore(true);
            best = best.min(target.used - before);
            target.end();
            drain();
        }
        println!("{name}: {:.1} ns", best.as_nanos() as f64 / (2 * HITS) as f64);
    };
    measure("no probe", &mut || ());
    let file = UserProgram::open(&path).expect("the program");
    let function = file.symbols("target_add").expect("symbols").remove(0).file_offset;
    let mut usdt = file.usdt().expect("probes").into_iter();
    let usdt = usdt.find(|probe| probe.name == "typed").expect("a probe");
    let name = CString::new(path.to_str().expect("a path")).expect("a path");
    let places = [
        ("uprobe:PROGRAM:target_add", function, 0),
        ("usdt:PROGRAM:target:typed", usdt.file_offset, usdt.semaphore_offset.unwrap_or(0)),
    ];
    for (text, offset, counter) in places {
        let program = Program::load("nothing", &NOTHING, AttachPoint::UserInstructions);
        let Ok(program) = program else { return skip(test, "no rights") };
        let instruction = UserInstruction { offset, counter, cookie: 0 };
        let link = program.attach_to_user_instructions(&name, &[instruction], false);
        let link = link.expect("an attachment");
        measure(&format!("{text}, nothing"), &mut || ());
        drop(link);
        let user = probes(&path, &[text]).expect("a probe");
        // A ring has room for the events of a run.
        let selection = Selection { ring_size: Some(64 << 20), ..selection(user) };
        let Some((mut recorder, _chosen)) = attach(test, &selection) else { return };
        let mut buffer = Vec::new();
        measure(&format!("{text}, recorded"), &mut || {
            for ring in 0..recorder.ring_count() {
                while matches!(recorder.take(ring, &mut buffer), TakeOutcome::Packet(_)) {
                    buffer.clear();
                }
            }
        });
        assert_eq!(recorder.lost(), 0);
    }
}

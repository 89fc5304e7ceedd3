//! The first program of the guest, and the tracer that it kills.

use crate::FILES;
use crate::events::{Event, Value, drain};
use blkkin_control::FieldKind;
use blkkin_control::current_span::{SPAN, SlotOffset};
use blkkin_filter::Filter;
use blkkin_kernel::{
    Btf, ChosenProcesses, Error, FunctionPoint, FunctionProbe, HashKey, ProcessScope, Recorder,
    RequestEvents, Selection, SpanSlots, SystemCall, TraceFs, TracepointProbe,
};
use blkkin_sys::bpf::program_ids;
use blkkin_sys::testing::own_test;
use blkkin_sys::thread_slot;
use rustix::mount::{MountFlags, mount};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;
use std::slice;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Start of the lines that the guest prints for the test outside.
pub(crate) const MARK: &str = "@guest ";
/// System calls that are recorded together.
const CALLS: [&str; 16] = [
    "accept4",
    "bind",
    "clone",
    "close",
    "connect",
    "execve",
    "openat",
    "pipe2",
    "pread64",
    "read",
    "recvfrom",
    "rename",
    "sendto",
    "socketpair",
    "unlink",
    "write",
];
/// Key of the hashes of texts.
const HASH_KEY: HashKey = HashKey::of_words([1, 2]);
/// Line of the tracer that is killed.
const READY: &str = "all probes are attached";
/// Time in which the kernel must have removed the probes of a killed tracer.
const REMOVAL_TIME_MAX: Duration = Duration::from_secs(20);

#[test]
#[ignore = "the first program of a guest"]
fn records_and_prints() {
    // On another machine than the guest it would turn the machine off.
    assert_eq!(std::process::id(), 1, "only as the first program of a guest");
    for (kind, folder) in [
        ("proc", "/proc"),
        ("sysfs", "/sys"),
        ("tracefs", "/sys/kernel/tracing"),
        ("debugfs", "/sys/kernel/debug"),
        ("devtmpfs", "/dev"),
    ] {
        mount(kind, folder, kind, MountFlags::empty(), None).expect(folder);
    }
    // The test harness has begun a line.
    say("");
    print("release", rustix::system::uname().release().to_str().unwrap());
    records_events();
    records_calls();
    records_registers();
    records_waits();
    filters_events();
    redacts_texts();
    counts_missed_events();
    refuses();
    records_matches();
    leaves_nothing();
    print("end", "reached");
    let _ = rustix::termios::tcdrain(std::io::stdout());
    fs::write("/proc/sysrq-trigger", "o").expect("to turn the machine off");
    std::thread::sleep(Duration::from_secs(60));
}

/// Prints a line for the test outside.
fn print(kind: &str, line: &str) {
    say(&format!("{MARK}{kind} {line}"));
}

/// Writes a line that the test harness does not capture.
fn say(line: &str) {
    writeln!(std::io::stdout(), "{line}").expect("to write");
}

/// Returns the kernel's types, which are read once: that takes a second in a guest.
fn btf() -> &'static Btf {
    static TYPES: OnceLock<Btf> = OnceLock::new();
    TYPES.get_or_init(|| Btf::of_kernel().expect("types"))
}

fn attach(points: &[FunctionPoint], calls: Vec<SystemCall>) -> Result<Attached, Error> {
    attach_with_filters(points, calls, &[])
}

/// Attaches probes with filters of events, which are named.
fn attach_with_filters(
    points: &[FunctionPoint],
    calls: Vec<SystemCall>,
    filters: &[(&str, &str)],
) -> Result<Attached, Error> {
    let probe =
        |point: &FunctionPoint| FunctionProbe { point: point.clone(), scope: ProcessScope::Chosen };
    let selection = Selection {
        calls,
        tracepoints: vec![TracepointProbe {
            subsystem: "task".to_owned(),
            format: TraceFs::open()?.format("task", "task_rename")?,
            scope: ProcessScope::All,
        }],
        functions: points.iter().map(probe).collect(),
        filters: filters
            .iter()
            .map(|(event, text)| ((*event).to_owned(), Filter::parse(text).expect("a filter")))
            .collect(),
        uuid: [7; 16],
        process_events: [true; 3],
        ..Selection::default()
    };
    let chosen = ChosenProcesses::new()?;
    chosen.follow(std::process::id());
    let recorder = Recorder::attach(&selection, &chosen, btf())?;
    Ok(Attached { recorder, _chosen: chosen })
}

struct Attached {
    recorder: Recorder,
    _chosen: ChosenProcesses,
}

fn kprobe(function: &str, offset: u64) -> FunctionPoint {
    FunctionPoint::Kprobe { function: function.to_owned(), offset }
}

/// Returns all kinds of probes.
fn points() -> Vec<FunctionPoint> {
    let unlink = || "vfs_unlink".to_owned();
    let rename = || "__set_task_comm".to_owned();
    vec![
        kprobe("do_unlinkat", 0),
        kprobe("vfs_unlink", 0),
        FunctionPoint::Kretprobe(unlink()),
        FunctionPoint::Entry(unlink()),
        FunctionPoint::Exit(unlink()),
        FunctionPoint::RawTracepoint("task_rename".to_owned()),
        FunctionPoint::Entry(rename()),
        kprobe(&rename(), 0),
    ]
}

/// Removes files by name, and prints the events of that.
fn records_events() {
    let call = TraceFs::open().unwrap().system_call("unlink").unwrap().expect("a call");
    let mut attached = attach(&points(), vec![call]).unwrap_or_else(|error| panic!("{error}"));
    (0..FILES).for_each(|file| fs::write(format!("/file-{file}"), "content").unwrap());
    (0..FILES).for_each(|file| fs::remove_file(format!("/file-{file}")).unwrap());
    fs::remove_file("/proc").unwrap_err();
    fs::remove_file("/missing").unwrap_err();
    fs::write("/proc/self/comm", "renamed").unwrap();
    let recorder = &mut attached.recorder;
    recorder.stop();
    // Tracepoints are recorded for all processes.
    for event in drain(recorder).iter().filter(|event| event.pid == std::process::id()) {
        print("event", &text_of(recorder, event));
    }
    print("lost", &format!("{} missed {}", recorder.lost(), recorder.missed()));
}

/// Returns an event as text, without what is another in each run.
fn text_of(recorder: &Recorder, event: &Event) -> String {
    let mut types = recorder.event_types().iter();
    let event_type = types.find(|one| one.name == event.name).expect("a type");
    let mut text = event.name.clone();
    for field in &event_type.fields {
        let value = match (&event.fields[&field.name], &field.kind) {
            // The kernel has the upper half of the addresses.
            (Value::Number(..=-1), FieldKind::Unsigned { hex: true, .. }) => "pointer".to_owned(),
            (Value::Number(1..), _) if field.name == "duration" => "some".to_owned(),
            (Value::Number(number), _) => number.to_string(),
            (Value::Text(text), _) => text.clone(),
            (Value::Bytes(bytes), _) => format!("{bytes:?}"),
        };
        text.push_str(&format!(" {}={value}", field.name));
    }
    text
}

/// The program for system calls with arguments of all kinds is accepted, and records.
fn records_calls() {
    let tracefs = TraceFs::open().unwrap();
    let calls = CALLS.map(|name| tracefs.system_call(name).unwrap().expect(name));
    let attached = attach(&[], calls.to_vec());
    let mut attached = attached.unwrap_or_else(|error| panic!("{error}"));
    fs::write("/file", "content").unwrap();
    fs::rename("/file", "/new").unwrap();
    attached.recorder.stop();
    let events = drain(&mut attached.recorder);
    let of = |name: &str| events.iter().find(|event| event.name == name).expect("a call");
    let rename = of("syscall:rename");
    assert!(rename.text("oldname") == "/file" && rename.text("newname") == "/new", "{rename:?}");
    assert_eq!(of("syscall:write").number("ret"), 7);
    print("calls", "recorded");
}

/// A thread that shows a current span is recorded when it sleeps.
fn records_waits() {
    const SLEEP: i64 = 20_000_000;
    let offset = SlotOffset::new(thread_slot::offset().unwrap()).unwrap();
    let slots = Arc::new(SpanSlots::new().unwrap_or_else(|error| panic!("{error}")));
    assert!(slots.insert(1, offset));
    let calls = TraceFs::open().unwrap().system_calls().unwrap();
    let recorded_calls = calls.iter().filter(|call| call.name == "clock_nanosleep").cloned();
    let recorded_calls = recorded_calls.collect();
    let requests =
        RequestEvents { slots, waits: true, disk: true, recorded_calls, calls: calls.into() };
    let selection = Selection { requests: Some(requests), ..Selection::default() };
    let chosen = ChosenProcesses::all_except(&[]).unwrap();
    let recorder = Recorder::attach(&selection, &chosen, btf());
    let mut recorder = recorder.unwrap_or_else(|error| panic!("{error}"));
    thread_slot::set(&[SPAN, 1, 2, 3]);
    std::thread::sleep(Duration::from_nanos(SLEEP as u64));
    thread_slot::set(&[0; 4]);
    recorder.stop();
    let events = drain(&mut recorder);
    let of_span = |name: &'static str| {
        events.iter().filter(move |event| {
            let ids = ["trace_id", "trace_id_high", "span_id"].map(|name| event.number(name));
            event.name == name && ids == [1, 2, 3]
        })
    };
    let sleep = of_span("request:wait").filter(|event| event.number("reason") == 5);
    let slept: i64 = sleep.map(|event| event.number("blocked")).sum();
    let called: i64 =
        of_span("request:syscall:clock_nanosleep").map(|event| event.number("duration")).sum();
    let has_slept = slept > SLEEP / 2 && called > SLEEP / 2;
    print("waits", if has_slept { "slept" } else { "has not slept" });
}

/// A function without a description is recorded with the registers of its arguments, and an
/// instruction within a function is recorded.
fn records_registers() {
    // The function begins with a call of 5 bytes for tracers, after a mark of 4 bytes if the kernel
    // checks the targets of jumps.
    let mut inner = [5, 9].into_iter().map(|offset| kprobe("vfs_unlink", offset));
    let inner = inner.find(|point| attach(slice::from_ref(point), Vec::new()).is_ok());
    let inner = inner.expect("the second instruction");
    let untyped = untyped_function().map(|name| kprobe(&name, 0));
    let points: Vec<FunctionPoint> = untyped.iter().cloned().chain([inner.clone()]).collect();
    let mut attached = attach(&points, Vec::new()).unwrap_or_else(|error| panic!("{error}"));
    fs::remove_file("/new").unwrap();
    attached.recorder.stop();
    let events = drain(&mut attached.recorder);
    let of = |point: &FunctionPoint| {
        let name = point.to_string();
        events.iter().filter(|event| event.name == name).collect::<Vec<&Event>>()
    };
    let has_dentry = of(&inner).iter().all(|event| event.number("dx") < 0);
    print("inner", &format!("{} dentry={has_dentry}", of(&inner).len()));
    let Some(untyped) = untyped else { return print("untyped", "none") };
    assert!(of(&untyped).iter().any(|event| event.number("arg0") < 0), "{events:?}");
    let mut types = attached.recorder.event_types().iter();
    let event_type = types.find(|one| one.name == untyped.to_string()).expect("a type");
    let fields: Vec<&str> = event_type.fields.iter().map(|field| &*field.name).collect();
    print("untyped", &fields.join(" "));
}

/// Records the events that pass filters of arguments and results.
fn filters_events() {
    let unlink = || "vfs_unlink".to_owned();
    let points = [
        FunctionPoint::Exit(unlink()),
        FunctionPoint::Kretprobe(unlink()),
        FunctionPoint::Entry("__set_task_comm".to_owned()),
        kprobe("__set_task_comm", 0),
    ];
    let filters = [
        ("fexit:vfs_unlink", "ret < 0 && dentry != 0"),
        ("kretprobe:vfs_unlink", "ret == 0"),
        ("fentry:__set_task_comm", "buf == \"second\""),
        ("kprobe:__set_task_comm", "buf == \"f*\" && exec == 0"),
    ];
    let attached = attach_with_filters(&points, Vec::new(), &filters);
    let mut attached = attached.unwrap_or_else(|error| panic!("{error}"));
    fs::write("/file", "content").unwrap();
    fs::remove_file("/file").unwrap();
    fs::remove_file("/proc").unwrap_err();
    fs::write("/proc/self/comm", "first").unwrap();
    fs::write("/proc/self/comm", "second").unwrap();
    attached.recorder.stop();
    let mut names: Vec<String> = drain(&mut attached.recorder)
        .iter()
        .filter(|event| points.iter().any(|point| point.to_string() == event.name))
        .map(|event| match event.fields.get("ret") {
            Some(_) => format!("{} {}", event.name, event.number("ret")),
            None => format!("{} {}", event.name, event.text("buf")),
        })
        .collect();
    names.sort();
    print("filtered", &names.join(", "));
}

/// Texts are recorded as hashes and lengths. The programs for requests to disks are accepted, too;
/// the guest has no disk.
fn redacts_texts() {
    let tracefs = TraceFs::open().unwrap();
    let redactions = ["pathname=hash", "buf=length"].into_iter();
    let rename = FunctionProbe { point: kprobe("__set_task_comm", 0), scope: ProcessScope::Chosen };
    let selection = Selection {
        calls: vec![tracefs.system_call("unlink").unwrap().expect("a call")],
        functions: vec![rename],
        redactions: redactions.map(|text| text.parse().expect("a redaction")).collect(),
        // A guest that has just started has no random numbers.
        hash_key: Some(HASH_KEY),
        disk: Some(tracefs.system_calls().unwrap().into()),
        ..Selection::default()
    };
    let chosen = ChosenProcesses::new().unwrap();
    chosen.follow(std::process::id());
    let recorder = Recorder::attach(&selection, &chosen, btf());
    let mut recorder = recorder.unwrap_or_else(|error| panic!("{error}"));
    let paths = ["/private-a", "/private-b", "/private-a"];
    for path in paths {
        fs::write(path, "content").unwrap();
        fs::remove_file(path).unwrap();
    }
    fs::write("/proc/self/comm", "private").unwrap();
    recorder.stop();
    let events = drain(&mut recorder);
    assert!(
        events.iter().all(|event| {
            ["pathname", "buf"].iter().all(|name| !event.fields.contains_key(*name))
        })
    );
    let numbers = |name: &str, field: &str| -> Vec<i64> {
        let named = events.iter().filter(|event| event.name == name);
        named.map(|event| event.number(field)).collect()
    };
    let hashes = numbers("syscall:unlink", "pathname_hash");
    let expected = paths.map(|path| HASH_KEY.hash(path.as_bytes()).cast_signed());
    let lengths = numbers("kprobe:__set_task_comm", "buf_length");
    print("redacted", &format!("{} {lengths:?}", hashes == expected));
}

/// The probes' programs call a function that has a probe. While that probe's program runs, the
/// kernel does not run it again.
fn counts_missed_events() {
    let helper = FunctionPoint::Entry("bpf_get_current_pid_tgid".to_owned());
    let points = [helper.clone(), kprobe("vfs_unlink", 0)];
    let mut attached = attach(&points, Vec::new()).unwrap_or_else(|error| panic!("{error}"));
    fs::write("/file", "content").unwrap();
    fs::remove_file("/file").unwrap();
    let recorder = &mut attached.recorder;
    assert!(recorder.missed() > 0);
    recorder.stop();
    let is_recorded = drain(recorder).iter().any(|event| event.name == helper.to_string());
    print("recursive", &format!("recorded {is_recorded} missed {}", recorder.missed() > 0));
}

/// Returns a part of a function for opening files that the compiler has made a function of its own.
/// The kernel's types do not describe such functions.
fn untyped_function() -> Option<String> {
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap();
    let mut names = symbols.lines().filter_map(|line| line.split(' ').nth(2));
    let is_part = |name: &&str| name.starts_with("link_path_walk.") && !name.ends_with(".cold");
    names.find(is_part).map(str::to_owned)
}

/// Prints the reasons for which probes are not possible.
fn refuses() {
    let name = || "no_such_function".to_owned();
    for point in [
        kprobe(&name(), 0),
        kprobe("vfs_unlink", 1),
        kprobe("exc_int3", 0),
        FunctionPoint::Kretprobe(name()),
        FunctionPoint::Entry(name()),
        FunctionPoint::Exit("_printk".to_owned()),
        FunctionPoint::Entry("sched_clock".to_owned()),
        FunctionPoint::RawTracepoint("no_such_tracepoint".to_owned()),
    ] {
        match attach(slice::from_ref(&point), Vec::new()) {
            Err(Error::Probe { probe, refusal }) => {
                print("refused", &format!("{probe} {refusal:?}"));
            }
            Err(error) => print("refused", &format!("{point} {error:?}")),
            Ok(_) => print("refused", &format!("{point} attached")),
        }
    }
}

/// Prints matches of patterns, and records a function that one of several probes matches.
fn records_matches() {
    let matches = |point: FunctionPoint| point.matches(btf(), &TraceFs::open().unwrap());
    let points = matches(FunctionPoint::Entry("vfs_unl*k".to_owned())).unwrap();
    points.iter().for_each(|point| print("matches", &point.to_string()));
    let points = matches(FunctionPoint::Kretprobe("vfs_l*".to_owned())).unwrap();
    assert!(points.len() > 2, "{points:?}");
    let mut attached = attach(&points, Vec::new()).unwrap_or_else(|error| panic!("{error}"));
    fs::write("/file", "content").unwrap();
    fs::hard_link("/file", "/link").unwrap();
    attached.recorder.stop();
    let events = drain(&mut attached.recorder);
    let is_link = |event: &&Event| event.name == "kretprobe:vfs_link";
    let event = events.iter().find(is_link).expect("an event");
    print("matches", &text_of(&attached.recorder, event));
    match matches(FunctionPoint::Exit("*".to_owned())) {
        Err(Error::Probe { refusal, .. }) => print("matches", &format!("{refusal:?}")),
        other => panic!("{other:?}"),
    }
}

/// Kills a tracer, and prints the number of its programs and probes before and after.
fn leaves_nothing() {
    // The kernel frees the programs of earlier recordings a moment later.
    wait_for_end();
    let none = Counts::now();
    let mut command = own_test::<&str>(&[], "inside::attaches_until_it_is_killed");
    let mut tracer = command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
    let output = BufReader::new(tracer.stdout.take().unwrap());
    assert!(output.lines().map_while(Result::ok).any(|line| line == READY));
    print("attached", &Counts::now().since(&none));
    // The signal is SIGKILL.
    tracer.kill().unwrap();
    tracer.wait().unwrap();
    let begin = Instant::now();
    while Counts::now() != none && begin.elapsed() < REMOVAL_TIME_MAX {
        std::thread::sleep(Duration::from_millis(20));
    }
    print("killed", &Counts::now().since(&none));
}

#[test]
#[ignore = "a tracer in a guest"]
fn attaches_until_it_is_killed() {
    let _attached = attach(&points(), Vec::new()).unwrap_or_else(|error| panic!("{error}"));
    say(&format!("\n{READY}"));
    let _ = std::io::stdin().read(&mut [0]);
    loop {
        std::thread::park();
    }
}

/// Numbers of programs, kprobes, and functions that are traced.
#[derive(Debug, PartialEq, Eq)]
struct Counts {
    programs: usize,
    kprobes: usize,
    functions: usize,
}

impl Counts {
    fn now() -> Counts {
        // A line that begins with a tab belongs to the function before it.
        let lines = |path: &str| {
            let text = fs::read_to_string(path).expect(path);
            text.lines().filter(|line| !line.starts_with('\t')).count()
        };
        Counts {
            programs: program_ids().expect("programs").len(),
            kprobes: lines("/sys/kernel/debug/kprobes/list"),
            functions: lines("/sys/kernel/tracing/enabled_functions"),
        }
    }

    fn since(&self, other: &Counts) -> String {
        let [programs, kprobes, functions] = [
            self.programs - other.programs,
            self.kprobes - other.kprobes,
            self.functions - other.functions,
        ];
        format!("programs {programs} kprobes {kprobes} functions {functions}")
    }
}

fn wait_for_end() {
    let begin = Instant::now();
    while !program_ids().expect("programs").is_empty() && begin.elapsed() < REMOVAL_TIME_MAX {
        std::thread::sleep(Duration::from_millis(20));
    }
}

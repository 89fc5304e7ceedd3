//! Tests of events as USDT probes: their notes as BlkKin's own reader of programs finds them, and
//! their values as the real `bpftrace` prints them.
//!
//! The program that is traced is this file itself, which forbids unsafe code, as users may.
#![forbid(unsafe_code)]
#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]

#[path = "support/bpftrace.rs"]
mod bpftrace;
mod support;

use blkkin_kernel::{ArgumentLocation, UsdtArgument};
use blkkin_ring::Clock;
use blkkin_sys::testing::{is_installed, own_test, skip};
use blkkin_trace::registry::{self, Levels};
use blkkin_trace::{Level, event, event_enum};
use bpftrace::{Bpftrace, probes, wait_for_zero};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use support::{Channel, alone, rule};

#[derive(Clone, Copy)]
enum State {
    Idle,
    Broken = -7,
}
event_enum!(State as i16 { Idle, Broken });

/// Records an event of each type, and counts evaluations of a field.
fn record_all(number: i32, evaluated: &mut i32) {
    let name = format!("rb.{number}");
    let latencies: Vec<u32> = vec![12, 7, 9];
    event!(
        Level::Info,
        "usdt:write",
        number = {
            *evaluated += 1;
            number
        },
        object = name,
        bytes = 1_u64 << 40,
        byte = 200_u8,
        is_last = true,
        state = State::Broken,
    );
    event!(
        Level::Debug,
        "usdt:arrays",
        latencies = latencies,
        none = &[0_u16; 0][..],
        id = [b'x', b'y', b'z'],
        ratio = 1.5_f32,
    );
    event!(Level::Info, "usdt:none");
    event!(Level::Info, "usdt:long", text = "x".repeat(5000), state = State::Idle);
    event!(Level::Info, "usdt:large", numbers = [7_u64; 100], last = 9);
    event!(Level::Info, "usdt:huge", numbers = [7_u64; 1000], last = 9);
    generic(1_u8);
    generic(-1_i64);
    twice(number);
    twice(-number);
}

/// Has an event of one type with fields of several types, and so several notes.
fn generic<T: blkkin_trace::Value>(value: T) {
    event!(Level::Info, "usdt:generic", value = value);
}

#[inline(always)]
fn twice(number: i32) {
    event!(Level::Info, "usdt:twice", number = number);
}

/// Writes a line that the test harness does not capture.
fn say(line: &str) {
    let mut output = std::io::stdout();
    writeln!(output, "{line}").unwrap();
}

/// The program that other tests trace. Records all events for each line on its standard input, and
/// prints how often a field was evaluated and how many events the channel recorded so far.
#[test]
#[ignore = "the traced program"]
fn program() {
    let _alone = alone();
    let is_recorded = std::env::var_os("RECORDED").is_some();
    let mut channel = Channel::with(0, 1 << 17, Clock::Monotonic);
    // A type is recorded with the kinds of its first event, so a generic one cannot be recorded.
    let rules = [rule("usdt:*", &["usdt:generic"], Levels::Any)];
    registry::set_rules(0, if is_recorded { &rules } else { &[] });
    let (mut evaluated, mut recorded) = (0, 0);
    // The first events register their types. Later ones are evaluated only if they are wanted.
    if !is_recorded {
        record_all(0, &mut 0);
    }
    say("ready");
    for (number, _) in (1..).zip(std::io::stdin().lock().lines()) {
        record_all(number, &mut evaluated);
        recorded += channel.names().len();
        say(&format!("evaluated {evaluated}, recorded {recorded}"));
    }
}

/// The running program.
struct Program {
    child: Child,
    input: Option<ChildStdin>,
    lines: Box<dyn Iterator<Item = String>>,
    path: PathBuf,
}

impl Program {
    fn start(is_recorded: bool) -> Program {
        let mut command = own_test::<&str>(&[], "program");
        if is_recorded {
            command.env("RECORDED", "yes");
        }
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("to start");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let input = child.stdin.take();
        let lines = Box::new(output.lines().map_while(Result::ok));
        let path = std::env::current_exe().and_then(std::fs::canonicalize).expect("a program");
        let mut program = Program { child, input, lines, path };
        // The harness prints lines of its own before.
        assert!(program.lines.any(|line| line.ends_with("ready")));
        program
    }

    fn step(&mut self) -> String {
        self.input.as_mut().expect("a pipe").write_all(b"\n").expect("to write");
        self.lines.next().expect("a line")
    }

    fn attach(&self, test: &str, probes: &[(&str, &str)]) -> Option<Bpftrace> {
        let path = self.path.display();
        let script =
            probes.iter().map(|(name, action)| format!("usdt:{path}:{name} {{ {action} }}"));
        let script: Vec<String> = script.collect();
        let names: Vec<&str> = probes.iter().map(|(name, _)| *name).collect();
        Bpftrace::attach(test, &script.join("\n"), self.child.id(), &self.path, &names)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.input = None;
        assert!(self.child.wait().expect("a child").success() || std::thread::panicking());
    }
}

/// Returns the arguments of a probe's notes: negative sizes for signed integers.
fn sizes(name: &str) -> Vec<Vec<i8>> {
    let own = std::env::current_exe().expect("a program");
    let size = |argument: &UsdtArgument| {
        assert!(
            !matches!(argument.location, ArgumentLocation::Unsupported(_))
                || cfg!(target_arch = "aarch64")
        );
        let size = argument.size.cast_signed();
        if argument.is_signed { -size } else { size }
    };
    let mut all: Vec<Vec<i8>> =
        probes(&own, name).iter().map(|probe| probe.arguments.iter().map(size).collect()).collect();
    all.sort();
    all
}

#[test]
fn notes_have_provider_name_and_arguments() {
    #[track_caller]
    fn check(name: &str, expected: &[&[i8]]) {
        assert_eq!(sizes(name), expected, "{name}");
    }
    check("usdt:write", &[&[-4, 8, 8, 1, 1, -2]]);
    check("usdt:arrays", &[&[8, 8, 8, 8, 8, 4]]);
    check("usdt:none", &[&[]]);
    check("usdt:generic", &[&[-8], &[1]]);
    check("usdt:twice", &[&[-4]]);
    check("usdt:unknown", &[]);
}

/// The other reader of notes, that of binutils, finds the same texts.
#[test]
fn notes_are_what_readelf_expects() {
    if !is_installed("readelf") {
        return skip("notes_are_what_readelf_expects", "readelf is not installed");
    }
    let own = std::env::current_exe().expect("a program");
    let output = Command::new("readelf").args(["--notes"]).arg(own).output();
    let output = output.expect("to start readelf");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{errors}");
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let at = lines.iter().position(|line| *line == "Name: write").expect("a note");
    assert_eq!(lines[at - 1], "Provider: usdt");
    if cfg!(target_arch = "x86_64") {
        let expected =
            "Arguments: -4@0(%rdi) 8@8(%rdi) 8@16(%rdi) 1@24(%rdi) 1@32(%rdi) -2@40(%rdi)";
        assert_eq!(lines[at + 2], expected);
    }
}

/// bpftrace prints each event of a program that no agent records, with its fields. Fields are
/// evaluated while bpftrace is attached, and not afterwards.
#[test]
fn bpftrace_prints_events_that_nobody_records() {
    // bpftrace traces all processes of the program.
    let _alone = alone();
    let test = "bpftrace_prints_events_that_nobody_records";
    let mut program = Program::start(false);
    assert_eq!(program.step(), "evaluated 0, recorded 0");
    let write = (
        "usdt:write",
        r#"printf("write %d %s %llu %d %d %d\n", arg0, str(arg1), arg2, arg3, arg4, arg5);"#,
    );
    let arrays = (
        "usdt:arrays",
        r#"printf("arrays %d %d %d %d %s %x\n", arg1, *(uint32 *)arg0, *(uint32 *)(arg0 + 8), arg3, str(arg4, 4), arg5);"#,
    );
    let long = ("usdt:long", r#"printf("long %d %d\n", *(uint8 *)arg0, arg1);"#);
    let large = ("usdt:large", r#"printf("large %d %d\n", *(uint64 *)(arg0 + 792), arg1);"#);
    let huge = ("usdt:huge", r#"printf("huge %d %d\n", arg0, arg1);"#);
    let all = [write, arrays, ("usdt:none", r#"printf("none\n");"#), long, large, huge];
    let Some(bpftrace) = program.attach(test, &all) else { return };
    for number in 2..=4 {
        assert_eq!(program.step(), format!("evaluated {}, recorded 0", number - 1));
    }
    let lines = bpftrace.end_after(18);
    assert_eq!(
        lines,
        [
            "arrays 3 12 9 0 xyz 3fc00000",
            "arrays 3 12 9 0 xyz 3fc00000",
            "arrays 3 12 9 0 xyz 3fc00000",
            "huge 0 0",
            "huge 0 0",
            "huge 0 0",
            "large 7 9",
            "large 7 9",
            "large 7 9",
            "long 120 0",
            "long 120 0",
            "long 120 0",
            "none",
            "none",
            "none",
            "write 2 rb.2 1099511627776 200 1 -7",
            "write 3 rb.3 1099511627776 200 1 -7",
            "write 4 rb.4 1099511627776 200 1 -7",
        ],
    );
    wait_for_zero(program.child.id(), &program.path, &all.map(|(name, _)| name));
    assert_eq!(program.step(), "evaluated 3, recorded 0");
}

/// An event that is recorded into a ring and traced is in both. An event at several places, or in a
/// generic function, fires at each of them.
#[test]
fn recorded_events_fire_too() {
    let _alone = alone();
    let mut program = Program::start(true);
    assert_eq!(program.step(), "evaluated 1, recorded 8");
    let all = [
        ("usdt:write", r#"printf("write %d\n", arg0);"#),
        ("usdt:generic", r#"printf("generic %d\n", arg0);"#),
        ("usdt:twice", r#"printf("twice %d\n", arg0);"#),
    ];
    let Some(bpftrace) = program.attach("recorded_events_fire_too", &all) else { return };
    assert_eq!(program.step(), "evaluated 2, recorded 16");
    let lines = bpftrace.end_after(5);
    assert_eq!(lines, ["generic -1", "generic 1", "twice -2", "twice 2", "write 2"]);
    wait_for_zero(program.child.id(), &program.path, &all.map(|(name, _)| name));
    assert_eq!(program.step(), "evaluated 3, recorded 24");
}

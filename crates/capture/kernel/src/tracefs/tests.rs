//! Tests with the file system of the running kernel.

use super::{TraceFs, arguments, is_file_name};
use crate::event_format::{EventFormat, FieldKind};
use crate::system_calls;
use blkkin_sys::testing::skip;

/// Opens the file system of the running kernel, or reports that a test is skipped.
fn open(test: &str) -> Option<TraceFs> {
    TraceFs::open().map_err(|error| skip(test, &error.to_string())).ok()
}

/// The kernel's system calls are found with their numbers and arguments, and none is left out.
#[test]
fn the_running_kernels_system_calls_are_read() {
    let Some(tracefs) = open("the_running_kernels_system_calls_are_read") else { return };
    let calls = match tracefs.system_calls() {
        Ok(calls) => calls,
        Err(error) => {
            return skip("the_running_kernels_system_calls_are_read", &error.to_string());
        }
    };
    assert!(calls.windows(2).all(|pair| pair[0].number < pair[1].number));
    let texts = |name: &str| {
        let call = calls.iter().find(|call| call.name == name).expect("a system call");
        let arguments = call.arguments.iter();
        let arguments: Vec<String> =
            arguments.map(|one| format!("{}: {}", one.name, one.type_text)).collect();
        format!("{}({})", call.number, arguments.join(", "))
    };
    let expected = "257(dfd: int, filename: const char *, flags: int, mode: umode_t)";
    assert_eq!(texts("openat"), expected);
    assert_eq!(texts("getpid"), "39()");
    assert!(texts("newstat").starts_with("4(filename: const char *, "), "{}", texts("newstat"));
    assert!(calls.iter().all(|call| call.arguments.iter().all(|argument| argument.size == 8)));
    let events = tracefs.events().expect("events");
    let entries = events.iter().filter(|name| name.subsystem == "syscalls");
    let names = entries.filter_map(|name| name.event.strip_prefix("sys_enter_"));
    let unknown: Vec<&str> = names.filter(|name| system_calls::number(name).is_none()).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// The format of each of the kernel's events is understood, and its fields lie within the record.
#[test]
fn the_running_kernels_events_are_read() {
    let Some(tracefs) = open("the_running_kernels_events_are_read") else { return };
    let events = tracefs.events().expect("events");
    assert!(events.is_sorted());
    assert!(events.iter().any(|name| name.event == "sched_switch"));
    let mut count = 0;
    for name in &events {
        let format = match tracefs.format(&name.subsystem, &name.event) {
            Ok(format) => format,
            Err(error) => panic!("{name:?}: {error}"),
        };
        assert!(format.common_field_count == 4 || name.subsystem == "ftrace", "{name:?}");
        count += format.fields.len();
    }
    assert!(count > 4 * events.len());
    let format = tracefs.format("sched", "sched_switch").expect("an event");
    let field = format.own_fields().iter().find(|field| field.name == "next_comm");
    assert_eq!(field.expect("a field").kind, FieldKind::Array(16));
}

/// A private mount shows the events that every kernel has.
#[test]
fn private_mounts_have_the_events() {
    let tracefs = match TraceFs::mount() {
        Ok(tracefs) => tracefs,
        Err(error) => return skip("private_mounts_have_the_events", &error.to_string()),
    };
    let format = tracefs.format("sched", "sched_switch").expect("an event");
    assert_eq!(format.name, "sched_switch");
}

/// Names that are no file names, or of no event, are refused alike.
#[test]
fn unknown_events_are_refused() {
    let Some(tracefs) = open("unknown_events_are_refused") else { return };
    for name in ["nothing", "..", "", "a/b", "sched_switch/../sched_switch", "a\0b"] {
        let error = tracefs.format("sched", name).expect_err(name).to_string();
        assert_eq!(error, format!("the kernel has no event sched/{name}"));
    }
    assert!(is_file_name("sched_switch"));
}

/// Arguments are the plain fields after the number of the call. The text behind pointers, which new
/// kernels record in addition, is no argument.
#[test]
fn arguments_are_the_plain_fields() {
    let text = "\
name: sys_enter_openat
ID: 1
format:
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;
\tfield:int nr;\toffset:16;\tsize:8;\tsigned:0;
\tfield:const char * filename;\toffset:24;\tsize:8;\tsigned:0;
\tfield:__data_loc char[] __filename_val;\toffset:48;\tsize:4;\tsigned:0;

print fmt: \"\"
";
    let format = EventFormat::parse(text).expect("a format");
    let names: Vec<String> = arguments(&format).into_iter().map(|one| one.name).collect();
    assert_eq!(names, ["nr", "filename"]);
}

//! Probes on functions and raw tracepoints of this machine's kernel. `guest.rs` has the probes that
//! need another kernel.

mod events;
#[path = "events/permission.rs"]
mod permission;

use blkkin_filter::Filter;
use blkkin_kernel::{
    Btf, ChosenProcesses, Error, FunctionPoint, FunctionProbe, ProbeRefusal, ProcessScope,
    Recorder, Selection, TraceFs, kernel_name,
};
use blkkin_sys::testing::skip;
use events::{Event, drain};
use permission::attached;
use std::collections::BTreeSet;
use std::process::Command;

fn attach(
    points: &[(FunctionPoint, ProcessScope)],
    filters: &[(&str, &str)],
) -> Result<(Recorder, ChosenProcesses), Error> {
    let probe = |(point, scope): &(FunctionPoint, ProcessScope)| FunctionProbe {
        point: point.clone(),
        scope: *scope,
    };
    let selection = Selection {
        functions: points.iter().map(probe).collect(),
        filters: filters
            .iter()
            .map(|(event, text)| ((*event).to_owned(), Filter::parse(text).expect("a filter")))
            .collect(),
        uuid: [7; 16],
        ..Selection::default()
    };
    let chosen = ChosenProcesses::new()?;
    let recorder = Recorder::attach(&selection, &chosen, &Btf::of_kernel()?)?;
    Ok((recorder, chosen))
}

/// Attaches probes; `None` if this machine, kernel or user does not permit it.
fn recorder(
    test: &str,
    points: &[(FunctionPoint, ProcessScope)],
    filters: &[(&str, &str)],
) -> Option<(Recorder, ChosenProcesses)> {
    match attach(points, filters) {
        // `guest.rs` has a kernel that permits them.
        Err(Error::Probe {
            refusal: ProbeRefusal::Forbidden | ProbeRefusal::NoFunctionTracer,
            ..
        }) => None,
        result => attached(test, result),
    }
}

fn raw(name: &str, scope: ProcessScope) -> (FunctionPoint, ProcessScope) {
    (FunctionPoint::RawTracepoint(name.to_owned()), scope)
}

/// Raw tracepoints are recorded with integers, pointers and texts; those of all processes and those
/// of the chosen processes only.
#[test]
fn raw_tracepoints_are_recorded_with_their_arguments() {
    let test = "raw_tracepoints_are_recorded_with_their_arguments";
    let points = [
        raw("sched_switch", ProcessScope::All),
        raw("task_rename", ProcessScope::All),
        raw("sched_process_exec", ProcessScope::Chosen),
        raw("sched_process_exec", ProcessScope::Chosen),
    ];
    let Some((mut recorder, mut chosen)) = recorder(test, &points, &[]) else { return };
    chosen.set_names(BTreeSet::from([kernel_name("cat")])).unwrap();
    let mut child = Command::new("cat").arg("/dev/null").spawn().expect("cat");
    let pid = child.id();
    child.wait().unwrap();
    Command::new("head").arg("/dev/null").status().expect("head");
    recorder.stop();
    let types = recorder.event_types();
    assert_eq!(types.iter().filter(|one| one.name == "raw:sched_process_exec").count(), 1);
    let events = drain(&mut recorder);
    assert_eq!(recorder.lost(), 0);
    let named = |name: &'static str| events.iter().filter(move |event| event.name == name);
    let is_pointer = |event: &Event, name: &str| event.number(name) < 0;
    let switches: Vec<&Event> = named("raw:sched_switch").collect();
    assert!(switches.iter().any(|event| event.pid == pid));
    for event in switches {
        assert!((0..=1).contains(&event.number("preempt")), "{event:?}");
        assert!(is_pointer(event, "prev") && is_pointer(event, "next"), "{event:?}");
        assert!(event.number("prev_state") >= 0, "{event:?}");
    }
    let rename = named("raw:task_rename").find(|event| event.pid == pid).expect("a new name");
    assert!(rename.text("comm") == "cat" && is_pointer(rename, "task"));
    let execs: Vec<&Event> = named("raw:sched_process_exec").collect();
    assert!(execs.len() == 1 && execs[0].pid == pid, "{execs:?}");
    assert!(is_pointer(execs[0], "bprm") && execs[0].number("old_pid") == i64::from(pid));
}

/// Only the events that pass a filter of their arguments are recorded.
#[test]
fn filters_select_by_arguments() {
    let points = [raw("task_rename", ProcessScope::All), raw("sched_switch", ProcessScope::All)];
    let filters = [
        ("raw:task_rename", "comm == \"cat\" && task != 0"),
        ("raw:sched_switch", "prev_state == 12345"),
    ];
    let Some((mut recorder, _chosen)) = recorder("filters_select_by_arguments", &points, &filters)
    else {
        return;
    };
    let mut child = Command::new("cat").arg("/dev/null").spawn().expect("cat");
    let pid = child.id();
    child.wait().unwrap();
    Command::new("head").arg("/dev/null").status().expect("head");
    recorder.stop();
    let events = drain(&mut recorder);
    assert!(events.iter().any(|event| event.pid == pid && event.text("comm") == "cat"));
    let passes = |event: &Event| event.name == "raw:task_rename" && event.text("comm") == "cat";
    assert!(events.iter().all(passes), "{events:?}");
}

/// Entries and exits of a function are recorded with the arguments of all types, and the result.
#[test]
fn functions_are_recorded_with_arguments_and_result() {
    let test = "functions_are_recorded_with_arguments_and_result";
    let function = |name: &str| name.to_owned();
    let points = [
        (FunctionPoint::Entry(function("__set_task_comm")), ProcessScope::All),
        (FunctionPoint::Exit(function("vfs_unlink")), ProcessScope::Chosen),
        (FunctionPoint::Entry(function("vfs_unlink")), ProcessScope::Chosen),
    ];
    let Some((mut recorder, chosen)) = recorder(test, &points, &[]) else { return };
    chosen.follow(std::process::id());
    let path = std::env::temp_dir().join(format!("blkkin-functions-{}", std::process::id()));
    std::fs::write(&path, "").unwrap();
    std::fs::remove_file(&path).unwrap();
    let mut child = Command::new("cat").arg("/dev/null").spawn().expect("cat");
    let pid = child.id();
    child.wait().unwrap();
    recorder.stop();
    assert_eq!((recorder.lost(), recorder.missed()), (0, 0));
    let events = drain(&mut recorder);
    let own = |name: &'static str| {
        let is_own = move |event: &&Event| event.name == name && event.pid == std::process::id();
        events.iter().find(is_own).unwrap_or_else(|| panic!("no {name} in {events:?}"))
    };
    let (entry, exit) = (own("fentry:vfs_unlink"), own("fexit:vfs_unlink"));
    for argument in ["dir", "dentry", "delegated_inode"] {
        assert!(entry.number(argument) != 0, "{entry:?}");
        assert_eq!(entry.number(argument), exit.number(argument));
    }
    assert!(exit.number("ret") == 0 && entry.time < exit.time);
    let is_rename = |event: &&Event| event.name == "fentry:__set_task_comm" && event.pid == pid;
    let rename = events.iter().find(is_rename).expect("a new name");
    assert!(rename.text("buf") == "cat" && rename.number("exec") == 1, "{rename:?}");
}

/// A pattern stands for the tracepoints whose names match.
#[test]
fn patterns_stand_for_what_they_match() {
    let test = "patterns_stand_for_what_they_match";
    let (btf, tracefs) = match (Btf::of_kernel(), TraceFs::open()) {
        (Ok(btf), Ok(tracefs)) => (btf, tracefs),
        (btf, tracefs) => return skip(test, &format!("{:?} {:?}", btf.err(), tracefs.err())),
    };
    let matches =
        |name: &str| FunctionPoint::RawTracepoint(name.to_owned()).matches(&btf, &tracefs);
    let texts = |name: &str| -> Vec<String> {
        matches(name).expect(name).iter().map(FunctionPoint::to_string).collect()
    };
    assert_eq!(texts("sched_sw*ch"), ["raw:sched_switch"]);
    assert_eq!(texts("not_a_pattern"), ["raw:not_a_pattern"]);
    let processes = texts("sched_process_*");
    assert!(processes.is_sorted() && processes.len() >= 4, "{processes:?}");
    let refusal = |point: &str| match matches(point) {
        Err(Error::Probe { refusal, .. }) => refusal,
        other => panic!("{other:?}"),
    };
    assert_eq!(refusal("no_such_*"), ProbeRefusal::NoTracepoint);
    assert!(matches!(refusal("*"), ProbeRefusal::TooManyMatches { count: 257.., max: 256 }));
    let kprobe = FunctionPoint::Kprobe { function: "vfs_*".to_owned(), offset: 4 };
    let error = kprobe.matches(&btf, &tracefs).expect_err("an offset").to_string();
    assert!(error.starts_with("cannot record kprobe:vfs_*+4: an offset"), "{error}");
}

/// Errors say what the kernel lacks, and what to do.
#[test]
fn what_the_kernel_lacks_is_said() {
    let refusal = |point: FunctionPoint| match attach(&[(point, ProcessScope::All)], &[]) {
        Err(Error::Probe { refusal, probe }) => Some((refusal, probe)),
        Err(error) => {
            skip("what_the_kernel_lacks_is_said", &error.to_string());
            None
        }
        Ok(_) => panic!("attached"),
    };
    let name = || "no_such_function".to_owned();
    let Some(found) = refusal(FunctionPoint::RawTracepoint(name())) else { return };
    assert_eq!(found, (ProbeRefusal::NoTracepoint, "raw:no_such_function".to_owned()));
    let (found, _) = refusal(FunctionPoint::Entry(name())).unwrap();
    assert_eq!(found, ProbeRefusal::NoTypedFunction);
    let kprobe = FunctionPoint::Kprobe { function: name(), offset: 4 };
    let has_kprobes = std::path::Path::new("/sys/bus/event_source/devices/kprobe").exists();
    let expected = if has_kprobes { ProbeRefusal::NoFunction } else { ProbeRefusal::NoKprobes };
    assert_eq!(refusal(kprobe).unwrap(), (expected, "kprobe:no_such_function+4".to_owned()));
    let message = ProbeRefusal::NoKprobes.to_string();
    assert!(message.contains("CONFIG_KPROBE_EVENTS") && message.contains("fentry"), "{message}");
    // The kernel's own printing has variable arguments.
    let (found, _) = refusal(FunctionPoint::Exit("_printk".to_owned())).unwrap();
    assert_eq!(found, ProbeRefusal::Arguments);
}

//! Recordings by the kernel of this machine: the programs are accepted, and the events are those of
//! the chosen processes.

mod events;
#[path = "events/permission.rs"]
mod permission;

use blkkin_filter::Filter;
use blkkin_kernel::{
    Btf, ChosenProcesses, Error, HashKey, ProcessScope, Recorder, Selection, TraceFs,
    TracepointProbe, kernel_name,
};
use blkkin_sys::testing::skip;
use events::{Event, Value, decode_all, drain, packets};
use permission::attached;
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;
use std::time::Duration;

const UUID: [u8; 16] = *b"0123456789abcdef";

/// Attaches a recorder; `None`, with a message, if this machine or user does not permit it.
fn recorder(test: &str, calls: &[&str]) -> Option<(Recorder, ChosenProcesses)> {
    recorder_of(test, calls, &[], ProcessScope::All)
}

/// Attaches a recorder that also records tracepoints.
fn recorder_of(
    test: &str,
    calls: &[&str],
    tracepoints: &[(&str, &str)],
    scope: ProcessScope,
) -> Option<(Recorder, ChosenProcesses)> {
    recorder_with_filters(test, calls, (tracepoints, scope), &[])
}

/// Attaches a recorder with filters of events, which are named.
fn recorder_with_filters(
    test: &str,
    calls: &[&str],
    (tracepoints, scope): (&[(&str, &str)], ProcessScope),
    filters: &[(&str, &str)],
) -> Option<(Recorder, ChosenProcesses)> {
    let attach = || -> Result<_, Error> {
        let tracefs = TraceFs::open()?;
        let call = |name: &&str| Ok(tracefs.system_call(name)?.expect("a call of this kernel"));
        let tracepoint = |(group, event): &(&str, &str)| {
            let (subsystem, format) = ((*group).to_owned(), tracefs.format(group, event)?);
            Ok(TracepointProbe { subsystem, format, scope })
        };
        let selection = Selection {
            calls: calls.iter().map(call).collect::<Result<_, Error>>()?,
            tracepoints: tracepoints.iter().map(tracepoint).collect::<Result<_, Error>>()?,
            process_events: [true; 3],
            filters: filters
                .iter()
                .map(|(event, text)| ((*event).to_owned(), Filter::parse(text).expect("a filter")))
                .collect(),
            uuid: UUID,
            ..Selection::default()
        };
        let chosen = ChosenProcesses::new()?;
        let recorder = Recorder::attach(&selection, &chosen, &Btf::of_kernel()?)?;
        Ok((recorder, chosen))
    };
    attached(test, attach())
}

/// A program that is chosen by name is recorded from its first call to its exit, with its paths.
#[test]
fn a_program_is_recorded_by_name() {
    let Some((mut recorder, mut chosen)) =
        recorder("a_program_is_recorded_by_name", &["openat", "read", "write", "close"])
    else {
        return;
    };
    let names = BTreeSet::from([kernel_name("cat")]);
    chosen.set_names(names).unwrap();
    let output = Command::new("cat").arg("/etc/hostname").output().expect("cat");
    let other = Command::new("head").arg("-1").arg("/etc/hostname").output().expect("head");
    assert!(output.status.success() && other.status.success());
    recorder.stop();
    let events = drain(&mut recorder);
    assert_eq!(recorder.lost(), 0);
    let pid = events.iter().find(|event| event.name == "process:exec").expect("an exec").pid;
    assert!(events.iter().all(|event| event.pid == pid), "one process: {events:#?}");
    let exec = events.iter().find(|event| event.name == "process:exec").unwrap();
    assert_eq!(exec.text("name"), "cat");
    assert!(exec.text("filename").ends_with("/cat"));
    let path = Value::Text("/etc/hostname".to_owned());
    let is_open = |event: &Event| event.fields.get("filename") == Some(&path);
    let index = events.iter().position(is_open).expect("the file is opened");
    let open = &events[index];
    assert_eq!(open.name, "syscall:openat");
    assert!(open.number("ret") >= 0 && open.number("duration") > 0);
    assert_eq!(open.number("dfd"), -100);
    let fd = open.number("ret");
    let size = fs::metadata("/etc/hostname").unwrap().len() as i64;
    let read = |event: &&Event| event.name == "syscall:read" && event.number("fd") == fd;
    assert_eq!(events[index..].iter().find(read).expect("a read").number("ret"), size);
    let exit = events.iter().find(|event| event.name == "process:exit").expect("an exit");
    assert_eq!(exit.number("code"), 0);
}

/// A followed process hands its choice to its children; others are not recorded.
#[test]
fn descendants_are_followed() {
    let Some((mut recorder, chosen)) = recorder("descendants_are_followed", &["openat"]) else {
        return;
    };
    // The shell waits until it is followed.
    let mut shell = Command::new("sh")
        .args(["-c", "read line; (cat /etc/hostname; true) >/dev/null; cat /etc/hosts >/dev/null"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .expect("sh");
    chosen.follow(shell.id());
    assert!(chosen.has(shell.id()));
    drop(shell.stdin.take());
    shell.wait().unwrap();
    assert!(!chosen.has(shell.id()), "a process that has ended is forgotten");
    recorder.stop();
    let events = drain(&mut recorder);
    assert_eq!(recorder.lost(), 0);
    let opened = |path: &str| {
        let path = Value::Text(path.to_owned());
        events.iter().any(|event| event.fields.get("filename") == Some(&path))
    };
    assert!(opened("/etc/hostname") && opened("/etc/hosts"), "{events:#?}");
    assert!(events.iter().filter(|event| event.name == "process:fork").count() >= 2);
}

/// Addresses of sockets are recorded, those that a failed call did not return are not.
#[test]
fn addresses_of_sockets_are_recorded() {
    let Some((mut recorder, chosen)) =
        recorder("addresses_of_sockets_are_recorded", &["connect", "accept4", "bind"])
    else {
        return;
    };
    chosen.follow(std::process::id());
    let folder = std::env::temp_dir().join(format!("blkkin-kernel-{}", std::process::id()));
    let listener = UnixListener::bind(&folder).unwrap();
    let mut client = UnixStream::connect(&folder).unwrap();
    let (server, _) = listener.accept().unwrap();
    drop(server);
    let _ = client.read(&mut [0]);
    fs::remove_file(&folder).unwrap();
    recorder.stop();
    let events = drain(&mut recorder);
    let bytes = |name: &str, field: &str| {
        let of = |event: &&Event| event.name == name && event.pid == std::process::id();
        let event = events.iter().find(of).unwrap_or_else(|| panic!("{name} in {events:?}"));
        let Some(Value::Bytes(bytes)) = event.fields.get(field) else { panic!("{event:?}") };
        bytes.clone()
    };
    let connect = bytes("syscall:connect", "uservaddr");
    let path = folder.to_str().unwrap().as_bytes();
    assert_eq!(connect[..2], 1u16.to_le_bytes());
    assert_eq!(connect[2..2 + path.len()], *path);
    // An accepted client without a name has only a family.
    assert_eq!(bytes("syscall:accept4", "upeer_sockaddr"), 1u16.to_le_bytes());
}

/// More events than the rings hold are recorded or counted, while the reader sleeps and is woken.
#[test]
fn each_event_is_recorded_or_counted() {
    const CALLS: usize = 400_000;
    let Some((mut recorder, mut chosen)) = recorder("each_event_is_recorded_or_counted", &["read"])
    else {
        return;
    };
    chosen.set_names(BTreeSet::from([kernel_name("dd")])).unwrap();
    let mut command = Command::new("dd");
    // Each block makes one call.
    command.args(["if=/dev/zero", "of=/dev/null", "bs=1"]).arg(format!("count={CALLS}"));
    let mut child = command.stderr(std::process::Stdio::null()).spawn().expect("dd");
    let mut events = 0;
    let is_read = |event: &Event| event.name == "syscall:read" && event.number("ret") == 1;
    while child.try_wait().unwrap().is_none() {
        events += drain(&mut recorder).iter().filter(|event| is_read(event)).count();
        recorder.wait(&[], Duration::from_millis(20)).unwrap();
    }
    recorder.stop();
    events += drain(&mut recorder).iter().filter(|event| is_read(event)).count();
    let lost = recorder.lost() as usize;
    assert!(events <= CALLS);
    assert!(events + lost >= CALLS, "{events} recorded, {lost} lost");
}

/// Tracepoints are recorded with all their fields, texts and dynamic arrays included.
#[test]
fn tracepoints_are_recorded_with_their_fields() {
    const TRACEPOINTS: [(&str, &str); 4] = [
        ("sched", "sched_process_exec"),
        ("sched", "sched_process_fork"),
        ("sched", "sched_switch"),
        ("task", "task_rename"),
    ];
    let test = "tracepoints_are_recorded_with_their_fields";
    let all = ProcessScope::All;
    let Some((mut recorder, _chosen)) = recorder_of(test, &[], &TRACEPOINTS, all) else { return };
    let mut child = Command::new("cat").arg("/dev/null").spawn().expect("cat");
    let pid = i64::from(child.id());
    child.wait().unwrap();
    recorder.stop();
    let events = drain(&mut recorder);
    let named = |name: &'static str| events.iter().filter(move |event| event.name == name);
    let exec = named("sched:sched_process_exec").find(|event| event.number("pid") == pid);
    assert!(exec.expect("an exec").text("filename").ends_with("/cat"));
    assert!(named("sched:sched_process_fork").any(|event| event.number("child_pid") == pid));
    let mut renames = named("task:task_rename").filter(|event| event.pid == child.id());
    assert!(renames.any(|event| event.text("newcomm") == "cat"));
    let is_switch =
        |event: &Event| event.number("prev_pid") == pid && event.text("prev_comm") == "cat";
    assert!(named("sched:sched_switch").any(is_switch));
}

/// Exactly the calls and records that pass their filters are recorded, and others are not lost.
#[test]
fn filters_select_events() {
    const FILTERS: [(&str, &str); 3] = [
        ("syscall:openat", r#"filename == "*/x*" && ret >= 0"#),
        ("syscall:write", "count > 100"),
        ("task:task_rename", r#"newcomm == "blkkin-te*" && pid == tid"#),
    ];
    let calls = ["openat", "write", "close"];
    let tracepoints = [("task", "task_rename")];
    let test = "filters_select_events";
    let Some((mut recorder, chosen)) =
        recorder_with_filters(test, &calls, (&tracepoints, ProcessScope::All), &FILTERS)
    else {
        return;
    };
    let folder = std::env::temp_dir().join(format!("blkkin-filters-{}", std::process::id()));
    fs::create_dir_all(folder.join("y")).unwrap();
    chosen.follow(std::process::id());
    for name in ["x1", "1x", "y/x2", "y/z"] {
        fs::write(folder.join(name), [b'a'; 100]).unwrap();
        fs::write(folder.join(name), [b'a'; 101]).unwrap();
    }
    assert!(fs::read(folder.join("xmissing")).is_err());
    let named =
        |name: &str| std::thread::Builder::new().name(name.to_owned()).spawn(|| ()).unwrap();
    named("blkkin-te-1").join().unwrap();
    named("other").join().unwrap();
    recorder.stop();
    fs::remove_dir_all(&folder).unwrap();
    let events = drain(&mut recorder);
    assert_eq!(recorder.lost(), 0);
    let of = |name: &'static str| events.iter().filter(move |event| event.name == name);
    let own = folder.to_str().unwrap();
    let opened: Vec<&str> = of("syscall:openat").map(|event| event.text("filename")).collect();
    let expected = ["x1", "x1", "y/x2", "y/x2"].map(|name| format!("{own}/{name}"));
    let mine: Vec<&&str> = opened.iter().filter(|name| name.starts_with(own)).collect();
    assert_eq!(mine, expected.iter().collect::<Vec<_>>());
    assert!(opened.iter().all(|name| name.contains("/x")), "{opened:?}");
    assert!(of("syscall:write").all(|event| event.number("count") > 100));
    assert_eq!(of("syscall:write").filter(|event| event.number("count") == 101).count(), 4);
    assert!(of("syscall:close").count() >= 8, "a call without a filter is recorded");
    let renamed: Vec<&str> = of("task:task_rename").map(|event| event.text("newcomm")).collect();
    assert_eq!(renamed, ["blkkin-te-1"]);
}

/// Redacted events have hashes and lengths, and their packets have the texts nowhere. Filters are
/// evaluated on the texts.
#[test]
fn redacted_texts_are_not_recorded() {
    const NAMES: [&str; 3] = ["private-a", "private-longer", "private-a"];
    let folder = std::env::temp_dir().join(format!("blkkin-redacted-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let key = HashKey::random().unwrap();
    let attach = || -> Result<_, Error> {
        let tracefs = TraceFs::open()?;
        let call = |name: &str| Ok(tracefs.system_call(name)?.expect("a call of this kernel"));
        let filter = Filter::parse("filename == \"*/private-*\"").expect("a filter");
        let redaction = |text: &str| text.parse().expect("a redaction");
        let rename = tracefs.format("task", "task_rename")?;
        let selection = Selection {
            calls: [call("openat"), call("unlinkat")].into_iter().collect::<Result<_, Error>>()?,
            tracepoints: vec![TracepointProbe {
                subsystem: "task".to_owned(),
                format: rename,
                scope: ProcessScope::Chosen,
            }],
            filters: [("syscall:openat".to_owned(), filter)].into(),
            redactions: ["*name=hash", "pathname=length", "newcomm=hash"].map(redaction).into(),
            hash_key: Some(key),
            uuid: UUID,
            ..Selection::default()
        };
        let chosen = ChosenProcesses::new()?;
        let recorder = Recorder::attach(&selection, &chosen, &Btf::of_kernel()?)?;
        Ok((recorder, chosen))
    };
    let Some((mut recorder, chosen)) = attached("redacted_texts_are_not_recorded", attach()) else {
        return;
    };
    chosen.follow(std::process::id());
    for name in NAMES {
        let path = folder.join(name);
        fs::write(&path, "").unwrap();
        rustix::fs::unlink(&path).unwrap();
    }
    let renamed = std::thread::Builder::new().name("private-thread".to_owned());
    renamed.spawn(|| ()).unwrap().join().unwrap();
    recorder.stop();
    fs::remove_dir_all(&folder).unwrap();
    let types = recorder.event_types().to_vec();
    let packets = packets(&mut recorder);
    assert!(packets.iter().all(|packet| !packet.windows(7).any(|bytes| bytes == b"private")));
    let events = decode_all(&types, &packets);
    let paths = NAMES.map(|name| folder.join(name).to_str().expect("UTF-8").to_owned());
    let of = |name: &str, field: &str| -> Vec<i64> {
        let named = events.iter().filter(|event| event.name == name);
        named.map(|event| event.number(field)).collect()
    };
    let hashes = paths.clone().map(|path| key.hash(path.as_bytes()).cast_signed());
    assert_eq!(of("syscall:openat", "filename_hash"), hashes);
    assert_eq!(of("syscall:unlinkat", "pathname_length"), paths.map(|path| path.len() as i64));
    let renamed = of("task:task_rename", "newcomm_hash");
    assert_eq!(renamed, [key.hash(b"private-thread").cast_signed()]);
}

/// A filter that cannot run in the kernel is refused with its position, and one of an event that is
/// not recorded by its name.
#[test]
fn filters_that_cannot_run_are_refused() {
    let attach = |event: &str, text: &str| {
        let tracefs = TraceFs::open()?;
        let selection = Selection {
            calls: vec![tracefs.system_call("openat")?.expect("a call of this kernel")],
            filters: [(event.to_owned(), Filter::parse(text).expect("a filter"))].into(),
            uuid: UUID,
            ..Selection::default()
        };
        Recorder::attach(&selection, &ChosenProcesses::new()?, &Btf::of_kernel()?).map(|_| ())
    };
    let test = "filters_that_cannot_run_are_refused";
    match attach("syscall:openat", "ret >= 0 && flags > 0.5") {
        Err(Error::Filter { event, error }) => {
            assert_eq!(event, "syscall:openat");
            assert_eq!(error.span.start, "ret >= 0 && flags > ".len());
            assert!(error.to_string().contains("floats"), "{error}");
        }
        Err(error) => return skip(test, &error.to_string()),
        Ok(()) => panic!("a float is accepted"),
    }
    let error = attach("syscall:read", "ret > 0").expect_err("it is not recorded");
    assert!(matches!(&error, Error::FilterWithoutEvent(event) if event == "syscall:read"));
}

/// Tracepoints are recorded for the chosen processes only, if they are selected so.
#[test]
fn tracepoints_of_chosen_processes_are_recorded() {
    let test = "tracepoints_of_chosen_processes_are_recorded";
    let tracepoints = [("task", "task_rename")];
    let attached = recorder_of(test, &[], &tracepoints, ProcessScope::Chosen);
    let Some((mut recorder, chosen)) = attached else { return };
    let mut other = Command::new("sh")
        .args(["-c", "read line; exec head /dev/null"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .expect("sh");
    chosen.follow(std::process::id());
    Command::new("cat").arg("/dev/null").status().expect("cat");
    drop(other.stdin.take());
    other.wait().unwrap();
    recorder.stop();
    let events = drain(&mut recorder);
    let has = |name: &str| {
        let mut renames = events.iter().filter(|event| event.name == "task:task_rename");
        renames.any(|event| event.text("newcomm") == name)
    };
    assert!(has("cat") && !has("head"), "{events:?}");
}

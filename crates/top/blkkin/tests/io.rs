//! Tests of `blkkin io` on the kernel of this machine. Its operations equal those that strace
//! reports, programs can be added and removed while it runs, and a recorded trace contains the same
//! operations as the live output.

mod support;

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use support::{Scratch, blkkin, is_installed, run, skip, text};

/// Returns true if probes can be attached on this machine by this user; otherwise the test counts
/// as skipped.
fn has_probes(test: &str, scratch: &Scratch) -> bool {
    let output = run(blkkin(&scratch.0).args(["io", "--json", "--", "true"]));
    if output.status.success() {
        return true;
    }
    let reason = text(&output.stderr);
    let reason = reason.lines().next().unwrap_or_default();
    assert!(!reason.contains("the kernel refuses"), "{}", text(&output.stderr));
    skip(test, reason);
    false
}

fn objects(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}: {}", output.status, text(&output.stderr));
    parse(&text(&output.stdout))
}

/// Returns the objects after the first one, which names the schema.
fn parse(lines: &str) -> Vec<Value> {
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
    let mut objects = lines.lines().map(parse);
    let begin: Value = objects.next().expect("a first line");
    assert_eq!((&begin["type"], &begin["schema"]), (&"begin".into(), &"blkkin.io.v1".into()));
    objects.collect()
}

/// Script with all kinds of calls on files: relative paths, redirections, pipes and failures.
const SCRIPT: &str = "cd files && echo hello > new && cat < new | cat > copy && mv copy moved && \
    rm moved; cat missing; dd if=/dev/zero of=sums bs=4096 count=5 conv=fsync status=none; true";

/// Runs the test script under strace, and returns the number of its system calls by name and
/// result. Shell and libc behave the same in this run and in the run under `blkkin io`, except for
/// process ids.
fn calls_of_strace(scratch: &Scratch) -> BTreeMap<String, u64> {
    let traces = scratch.0.join("strace");
    let calls = "openat,read,write,close,lseek,rename,renameat2,unlink,unlinkat,fsync,dup2";
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-y", "-e"]).arg(format!("trace={calls}")).arg("-o").arg(&traces);
    let status =
        command.args(["sh", "-c", SCRIPT]).current_dir(&scratch.0).output().unwrap().status;
    assert!(status.success());
    let mut found = BTreeMap::new();
    for line in fs::read_to_string(traces).unwrap().lines() {
        let Some((_, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        // A call during which another process made one is in two lines.
        let resumed = call.strip_prefix("<... ").and_then(|rest| rest.split_once(" resumed>"));
        let Some((name, rest)) = resumed.or_else(|| call.split_once('(')) else { continue };
        let Some((_, result)) = rest.rsplit_once(" = ") else { continue };
        let result = result.split(['<', ' ']).next().unwrap_or_default();
        *found.entry(format!("{name} {result}")).or_default() += 1;
    }
    found
}

fn calls_of_blkkin(objects: &[Value]) -> BTreeMap<String, u64> {
    let names = [
        "openat",
        "read",
        "write",
        "close",
        "lseek",
        "rename",
        "renameat2",
        "unlink",
        "unlinkat",
        "fsync",
        "dup2",
    ];
    let mut found = BTreeMap::new();
    for object in objects {
        let call = object["call"].as_str().unwrap();
        if !names.contains(&call) {
            continue;
        }
        let result = match object["errno"].as_i64() {
            Some(_) => "-1".to_owned(),
            None => object["result"].to_string(),
        };
        *found.entry(format!("{call} {result}")).or_default() += 1;
    }
    found
}

#[test]
fn operations_are_those_that_strace_sees() {
    const TEST: &str = "operations_are_those_that_strace_sees";
    let scratch = Scratch::new("io-strace");
    if !has_probes(TEST, &scratch) {
        return;
    }
    let files = scratch.0.join("files");
    fs::create_dir(&files).unwrap();
    let command = ["io", "--json", "--", "sh", "-c", SCRIPT];
    let operations = objects(&run(blkkin(&scratch.0).args(command)));
    let of = |name: &str, key: &str, value: &str| {
        let is_it = |object: &&Value| object["op"] == name && object[key] == value;
        operations.iter().find(is_it).unwrap_or_else(|| panic!("{name} {key} {value}"))
    };
    let path = |name: &str| files.join(name).to_str().unwrap().to_owned();
    // Relative paths are those of the process's directory, descriptors are followed over forks.
    assert_eq!(of("write", "path", &path("new"))["done"], 6);
    assert_eq!(of("read", "path", &path("new"))["program"], "cat");
    assert_eq!(of("rename", "path", &path("copy"))["second_path"], path("moved"));
    assert_eq!(of("unlink", "path", &path("moved"))["result"], 0);
    assert_eq!(of("open", "path", &path("missing"))["error"], "ENOENT");
    assert_eq!(of("sync", "path", &path("sums"))["program"], "dd");
    assert!(operations.iter().all(|object| object["duration"].as_u64().unwrap() > 0));
    if !is_installed("strace") {
        return skip(TEST, "strace is missing: the comparison with it");
    }
    fs::remove_dir_all(&files).unwrap();
    fs::create_dir(&files).unwrap();
    let expected = calls_of_strace(&scratch);
    assert!(expected.values().sum::<u64>() > 50, "{expected:?}");
    assert_eq!(calls_of_blkkin(&operations), expected);
}

/// `blkkin io` shows the same operations for a recorded trace as it printed live. It refuses to
/// record into a directory that is not empty.
#[test]
fn a_recorded_trace_shows_the_same() {
    let scratch = Scratch::new("io-trace");
    if !has_probes("a_recorded_trace_shows_the_same", &scratch) {
        return;
    }
    fs::create_dir(scratch.0.join("files")).unwrap();
    let command = ["io", "--json", "-o", "trace", "--", "sh", "-c", SCRIPT];
    let live = objects(&run(blkkin(&scratch.0).args(command)));
    let recorded = objects(&run(blkkin(&scratch.0).args(["io", "--json", "--from", "trace"])));
    assert!(live.len() > 50);
    assert_eq!(recorded.len(), live.len());
    for (one, other) in live.iter().zip(&recorded) {
        assert_eq!(one, other);
    }
    let again = run(blkkin(&scratch.0).args(["io", "-o", "trace", "--", "true"]));
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("is not empty"), "{}", text(&again.stderr));
    let old = run(blkkin(&scratch.0).args(["io", "--format", "app-trace", "--from", "trace"]));
    let line = text(&old.stdout);
    let line = line.lines().find(|line| line.contains("op: read execname: dd")).expect("a read");
    let words: Vec<&str> = line.split(' ').collect();
    assert!(words[0].parse::<u64>().is_ok(), "{line}");
    assert_eq!([words[1], words[5], words[7], words[9]], ["op:", "pid:", "fd:", "count:"]);
}

/// Starts `blkkin io` for the program `app`, and waits until it is recording. Returns the process,
/// and its output lines parsed as JSON.
fn start(scratch: &Scratch, app: &str) -> (std::process::Child, impl Iterator<Item = Value>) {
    let mut command = blkkin(&scratch.0);
    command.args(["io", "--json", "--app", app]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("blkkin");
    let pid = child.id().to_string();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    support::process::until("it listens", || {
        let list = ["io", "apps", "ls", "--recording", &pid];
        run(blkkin(&scratch.0).args(list)).status.success()
    });
    (child, lines.skip(1).map(|line| serde_json::from_str(&line.unwrap()).unwrap()))
}

fn interrupt(child: &mut std::process::Child) {
    let pid = nix::unistd::Pid::from_raw(child.id().try_into().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

fn apps(scratch: &Scratch, pid: u32, words: &[&str]) -> String {
    let pid = pid.to_string();
    let output = run(blkkin(&scratch.0).args(["io", "apps", "--recording", &pid]).args(words));
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// A program that already runs is recorded once it is added, and not after it was removed.
#[test]
fn the_list_of_programs_changes_while_it_runs() {
    let scratch = Scratch::new("io-apps");
    if !has_probes("the_list_of_programs_changes_while_it_runs", &scratch) {
        return;
    }
    // A copy with a name that no other test has.
    let program = scratch.0.join("ticker15letters-and-more");
    fs::copy("/bin/sh", &program).unwrap();
    let mut ticker = Command::new(&program);
    ticker.args(["-c", "while :; do echo tick > tick; sleep 0.01; done"]);
    let mut ticker = ticker.current_dir(&scratch.0).spawn().expect("a shell");
    let (mut child, mut operations) = start(&scratch, "no-such-program");
    assert!(apps(&scratch, child.id(), &["ls"]).contains("no-such-program"));
    apps(&scratch, child.id(), &["add", "ticker15letters-and-more"]);
    let first = operations.next().expect("an operation");
    assert_eq!(first["program"], "ticker15letters");
    assert_eq!(first["pid"], ticker.id());
    let tick = scratch.0.join("tick");
    let is_write = |one: &Value| one["op"] == "write" && one["path"] == tick.to_str().unwrap();
    assert!(operations.by_ref().take(50).any(|one| is_write(&one)));
    let json = apps(&scratch, child.id(), &["--json", "set", "no-such-program"]);
    let list: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(list["apps"], serde_json::json!(["no-such-program"]));
    std::thread::sleep(Duration::from_millis(100));
    interrupt(&mut child);
    ticker.kill().unwrap();
    ticker.wait().unwrap();
    assert!(!Path::new(&format!("/run/blkkin/io/{}.sock", child.id())).exists());
}

#[test]
fn what_cannot_be_recorded_is_refused() {
    let scratch = Scratch::new("io-refused");
    let check = |arguments: &[&str], status: i32, message: &str| {
        let output = run(blkkin(&scratch.0).arg("io").args(arguments));
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{err}");
        assert!(err.contains(message), "{err}");
    };
    check(&[], 2, "no program is chosen");
    check(&["--from", "x", "--app", "y"], 2, "cannot be used with");
    check(&["--preload", "--block", "--", "true"], 2, "does not see them");
    check(&["--format", "app-trace", "--block", "--app", "x"], 2, "has no lines for requests");
    check(&["--from", "x", "--block"], 2, "cannot be used with");
    check(&["apps", "ls", "--recording", "1"], 1, "no recording of process 1");
    if !has_probes("what_cannot_be_recorded_is_refused", &scratch) {
        return;
    }
    check(&["--pid", "4000000"], 1, "there is no process 4000000");
    check(&["--buffer", "1T", "--app", "x"], 1, "more than");
    check(&["--", "./no-such-command"], 127, "cannot run `./no-such-command`");
    check(&["--", "sh", "-c", "exit 7"], 7, "");
}

/// `blkkin io --summary` prints the number and the total size of a program's operations on a file.
#[test]
fn sums_are_those_of_the_operations() {
    let scratch = Scratch::new("io-sums");
    if !has_probes("sums_are_those_of_the_operations", &scratch) {
        return;
    }
    let dd = ["dd", "if=/dev/zero", "of=sums", "bs=4096", "count=50", "status=none"];
    let output = run(blkkin(&scratch.0).args(["io", "--summary", "--json", "--"]).args(dd));
    let sums = objects(&output);
    let path = scratch.0.join("sums");
    let is_write = |one: &&Value| one["op"] == "write" && one["path"] == path.to_str().unwrap();
    let write = sums.iter().find(is_write).expect("the writes");
    assert_eq!((&write["count"], &write["bytes"]), (&50.into(), &204_800.into()));
    assert_eq!((&write["sequential"], &write["random"]), (&49.into(), &0.into()));
    assert!(sums.iter().filter(|one| one["type"] == "operation").count() <= 10);
    let table = run(blkkin(&scratch.0).args(["io", "--summary", "--"]).args(dd));
    let table = text(&table.stdout);
    assert!(table.lines().any(|line| line.contains("write") && line.contains("200")), "{table}");
}

/// With `--preload`, `blkkin io` records a command's calls by a library that is loaded into the
/// command. This needs no privileges.
#[test]
fn the_preloaded_library_needs_no_rights() {
    let scratch = Scratch::new("io-preload");
    fs::create_dir(scratch.0.join("files")).unwrap();
    let script = "cd files && dd if=/dev/zero of=sums bs=4096 count=50 status=none; exit 7";
    let output =
        run(blkkin(&scratch.0).args(["io", "--preload", "--json", "--", "sh", "-c", script]));
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    let lines = text(&output.stdout);
    let operations = parse(&lines);
    let path = scratch.0.join("files/sums");
    let is_write = |one: &&Value| one["op"] == "write" && one["path"] == path.to_str().unwrap();
    let writes: Vec<&Value> = operations.iter().filter(is_write).collect();
    assert_eq!(writes.len(), 50, "{lines}");
    let are_whole = |one: &&Value| one["program"] == "dd" && one["done"] == 4096;
    assert!(writes.iter().all(are_whole), "{lines}");
    let trace = ["io", "--preload", "-o", "trace", "--", "dd", "if=/dev/zero", "of=/dev/null"];
    let status = run(blkkin(&scratch.0).args(trace).args(["bs=1", "count=1000"])).status;
    assert!(status.success());
    let shown = objects(&run(blkkin(&scratch.0).args(["io", "--json", "--from", "trace"])));
    let is_read = |one: &&Value| one["op"] == "read" && one["path"] == "/dev/zero";
    assert_eq!(shown.iter().filter(is_read).count(), 1000);
    let static_command = run(blkkin(&scratch.0).args(["io", "--preload", "--app", "x", "--", "y"]));
    assert_eq!(static_command.status.code(), Some(2));
}

/// The requests that fio makes by io_uring are operations: as many reads and writes as it reports,
/// with their file, offset, size and duration.
#[test]
fn requests_of_io_uring_are_operations() {
    const TEST: &str = "requests_of_io_uring_are_operations";
    let scratch = Scratch::new("io-uring");
    if !has_probes(TEST, &scratch) {
        return;
    }
    if !is_installed("fio") {
        return skip(TEST, "fio is missing");
    }
    let fio = ["fio", "--name=x", "--filename=data", "--size=1m", "--bs=4k", "--rw=randrw"];
    let by = ["--ioengine=io_uring", "--iodepth=8", "--fsync=16", "--thread"];
    let report = ["--output-format=json", "--output=report"];
    let mut command = blkkin(&scratch.0);
    command.args(["io", "--json", "--"]).args(fio).args(by).args(report);
    let operations = objects(&run(&mut command));
    let report: Value =
        serde_json::from_str(&fs::read_to_string(scratch.0.join("report")).unwrap()).unwrap();
    let job = &report["jobs"][0];
    if job["error"] != 0 {
        return skip(TEST, "fio cannot use io_uring");
    }
    let path = scratch.0.join("data");
    for kind in ["read", "write"] {
        let call = format!("io_uring:{kind}");
        let requests: Vec<&Value> = operations.iter().filter(|one| one["call"] == *call).collect();
        assert_eq!(requests.len() as u64, job[kind]["total_ios"].as_u64().unwrap(), "{kind}");
        let bytes: u64 = requests.iter().map(|one| one["done"].as_u64().unwrap()).sum();
        assert_eq!(bytes, job[kind]["io_bytes"].as_u64().unwrap(), "{kind}");
        for one in &requests {
            assert_eq!((&one["op"], &one["path"]), (&kind.into(), &path.to_str().into()));
            assert_eq!(one["asked"], 4096);
            assert!(one["offset"].as_u64().unwrap().is_multiple_of(4096), "{one}");
            assert!(one["duration"].as_u64().unwrap() > 0, "{one}");
        }
    }
    let is_sync = |one: &&Value| one["call"] == "io_uring:fsync" && one["result"] == 0;
    assert_eq!(
        operations.iter().filter(is_sync).count() as u64,
        job["sync"]["total_ios"].as_u64().unwrap()
    );
}

/// Command that writes 30 blocks into the file `sums`, and sleeps after each third one.
const WRITER: &str = "for i in 1 2 3 4 5 6 7 8 9 10; do \
    dd if=/dev/zero of=sums bs=4096 count=3 conv=notrunc status=none; sleep 0.05; done";

/// The intervals of `blkkin top io` together have each operation once.
#[test]
fn intervals_have_each_operation_once() {
    let scratch = Scratch::new("io-top");
    if !has_probes("intervals_have_each_operation_once", &scratch) {
        return;
    }
    let top = ["top", "io", "--interval", "0.2"];
    let command = ["--", "sh", "-c", WRITER];
    let lines = objects(&run(blkkin(&scratch.0).args(top).arg("--json").args(command)));
    let of = |kind: &str| lines.iter().filter(|one| one["type"] == kind).collect::<Vec<_>>();
    let intervals = of("interval");
    assert!(intervals.len() > 1, "{intervals:?}");
    let sum = |objects: &[&Value], key: &str| {
        objects.iter().map(|one| one[key].as_u64().unwrap()).sum::<u64>()
    };
    let sums = of("sum");
    assert_eq!(sum(&sums, "count"), sum(&intervals, "operations"));
    let path = scratch.0.join("sums");
    let is_write = |one: &&&Value| one["op"] == "write" && one["path"] == path.to_str().unwrap();
    let writes: Vec<&Value> = sums.iter().filter(is_write).copied().collect();
    assert_eq!((sum(&writes, "count"), sum(&writes, "bytes")), (30, 30 * 4096));
    let table = run(blkkin(&scratch.0).args(top).args(command));
    let table = text(&table.stdout);
    assert!(table.matches("  NAME").count() > 1 && table.contains("SLOWEST"), "{table}");
    assert!(table.contains("/sums") && !table.contains('\u{1b}'), "{table}");
    let once = blkkin(&scratch.0).args(top).args(["-n", "1", "--json"]).output().unwrap();
    let once = objects(&once);
    assert_eq!(once.iter().filter(|one| one["type"] == "interval").count(), 1);
}

/// On a terminal, `blkkin top io` draws on the second screen, obeys keys, and restores the first.
#[test]
fn the_screen_obeys_keys() {
    const TEST: &str = "the_screen_obeys_keys";
    let scratch = Scratch::new("io-screen");
    if !has_probes(TEST, &scratch) {
        return;
    }
    if !is_installed("script") {
        return skip(TEST, "script is missing");
    }
    let program = env!("CARGO_BIN_EXE_blkkin");
    let top = format!("stty cols 120 rows 30; {program} top io --interval 0.2; echo status $?");
    let mut command = Command::new("script");
    command.args(["-qfec", &top, "/dev/null"]).env("LC_ALL", "C.UTF-8").current_dir(&scratch.0);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("script");
    let mut keys = child.stdin.take().unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut shown = String::new();
    let mut until = |what: &str| {
        let mut bytes = [0; 4096];
        while !shown.contains(what) {
            let size = out.read(&mut bytes).unwrap();
            assert!(size > 0, "{what} is not in {shown:?}");
            shown.push_str(&String::from_utf8_lossy(&bytes[..size]));
        }
        std::mem::take(&mut shown)
    };
    assert!(until("q quit").contains("\u{1b}[?1049h"));
    keys.write_all(b"s").unwrap();
    until("by count");
    keys.write_all(b"p").unwrap();
    until("PAUSED");
    keys.write_all(b"q").unwrap();
    let end = until("status 0");
    assert!(end.contains("\u{1b}[?25h\u{1b}[?1049l"), "{end:?}");
    drop(keys);
    child.wait().unwrap();
}

/// Directory of a control group of version 2 that is removed on drop, when its processes have
/// ended.
struct Group(std::path::PathBuf);

impl Group {
    fn create(above: &Path, name: &str) -> std::io::Result<Group> {
        let path = above.join(name);
        fs::create_dir(&path).map(|()| Group(path))
    }

    fn add(&self, pid: u32) {
        fs::write(self.0.join("cgroup.procs"), pid.to_string()).expect("to move the process");
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// Shell that copies a line of its input into a file, for each line, without other processes.
struct Copier(std::process::Child);

impl Copier {
    fn start(scratch: &Scratch, file: &str) -> Copier {
        let script = format!("while read line; do echo $line >> {file}; done");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).stdin(Stdio::piped()).current_dir(&scratch.0);
        Copier(command.spawn().expect("a shell"))
    }

    fn copy(&mut self) {
        writeln!(self.0.stdin.as_mut().unwrap(), "line").unwrap();
    }
}

impl Drop for Copier {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// The processes of a control group are recorded, those below it too: a process that is in it, one
/// that another process moves into it, and what they start; not one that has left it.
#[test]
fn processes_of_a_control_group_are_recorded() {
    const TEST: &str = "processes_of_a_control_group_are_recorded";
    let scratch = Scratch::new("io-cgroup");
    if !has_probes(TEST, &scratch) {
        return;
    }
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let Some(root) = mounts.find(|words| words[2] == "cgroup2").map(|words| words[1].to_owned())
    else {
        return skip(TEST, "no control groups of version 2 are mounted");
    };
    let name = format!("blkkin-test-{}", std::process::id());
    let Ok(group) = Group::create(Path::new(&root), &name) else {
        return skip(TEST, "control groups cannot be made");
    };
    let below = Group::create(&group.0, "below").unwrap();
    let mut present = Copier::start(&scratch, "present");
    let mut moved = Copier::start(&scratch, "moved");
    let mut left = Copier::start(&scratch, "left");
    let mut outside = Copier::start(&scratch, "outside");
    below.add(present.0.id());
    group.add(left.0.id());

    let mut command = blkkin(&scratch.0);
    command.args(["io", "--json", "--cgroup", &name]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("blkkin");
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().skip(1);
    let operations = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let pid = child.id().to_string();
    support::process::until("it listens", || {
        let list = ["io", "apps", "ls", "--recording", &pid];
        run(blkkin(&scratch.0).args(list)).status.success()
    });
    assert!(apps(&scratch, child.id(), &["ls"]).contains(&format!("cgroup:{name}")));
    below.add(moved.0.id());
    fs::write(Path::new(&root).join("cgroup.procs"), left.0.id().to_string()).unwrap();
    // The state of a process that moves is recorded soon, and that of its children with it.
    let mut starter = Command::new("sh");
    let procs = below.0.join("cgroup.procs");
    let script = format!("echo $$ > {}; sleep 1; echo line > started", procs.display());
    starter.args(["-c", &script]).current_dir(&scratch.0);
    std::thread::sleep(Duration::from_secs(1));
    for copier in [&mut outside, &mut left, &mut moved, &mut present] {
        copier.copy();
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(starter.status().unwrap().success());
    let refused = ["io", "apps", "--recording", &pid, "add", "cgroup:/no"];
    let error = run(blkkin(&scratch.0).args(refused));
    assert!(text(&error.stderr).contains("cannot choose the control group `/no`"), "{error:?}");
    interrupt(&mut child);
    let path = |name: &str| scratch.0.join(name).to_str().unwrap().to_owned();
    let written: Vec<String> = operations
        .filter(|one| one["op"] == "write" && one["program"] == "sh")
        .filter_map(|one| one["path"].as_str().map(str::to_owned))
        .filter(|path| path.contains("io-cgroup"))
        .collect();
    assert_eq!(written, [path("moved"), path("present"), path("started")]);
    drop((present, moved, left, outside));
}

/// Returns the name of the disk that a folder is on; `None` if it is on no disk, or on a device
/// that is made of others.
fn disk_of(folder: &Path) -> Option<String> {
    let device = fs::metadata(folder).unwrap().dev();
    // The kernel's encoding of a device's numbers in `st_dev`.
    let (major, minor) = (device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xfff00);
    let device = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    let is_part = device.join("partition").exists();
    let disk = if is_part { device.parent()? } else { &*device };
    let is_made = fs::read_dir(disk.join("slaves")).is_ok_and(|mut parts| parts.next().is_some());
    (!is_made && disk.join("queue").exists()).then(|| text(disk.file_name().unwrap().as_bytes()))
}

/// Returns the number of bytes that a disk has written since the machine's start.
fn written_bytes(disk: &str) -> u64 {
    let counts = fs::read_to_string(format!("/sys/block/{disk}/stat")).unwrap();
    512 * counts.split_whitespace().nth(6).unwrap().parse::<u64>().unwrap()
}

/// Returns true if requests to disks can be tested in a folder; otherwise the test counts as
/// skipped.
fn tested_disk(test: &str, scratch: &Scratch) -> Option<String> {
    if !has_probes(test, scratch) {
        return None;
    }
    let disk = disk_of(&scratch.0);
    if disk.is_none() {
        skip(test, "the temporary folder is on no disk");
    }
    disk
}

/// Each direct write has its request to the disk, which the trace and the sums have, too.
#[test]
fn direct_writes_have_their_requests() {
    const TEST: &str = "direct_writes_have_their_requests";
    let scratch = Scratch::new("io-direct");
    let Some(disk) = tested_disk(TEST, &scratch) else { return };
    let dd = ["dd", "if=/dev/zero", "of=sums", "bs=8192", "count=16", "status=none"];
    let direct = ["oflag=direct", "conv=notrunc,fsync"];
    // Afterwards, the file has its blocks, so that nothing else is written during the calls.
    if !Command::new(dd[0])
        .args(&dd[1..])
        .args(direct)
        .current_dir(&scratch.0)
        .status()
        .unwrap()
        .success()
    {
        return skip(TEST, "the file system has no direct input and output");
    }
    let before = written_bytes(&disk);
    let io = ["io", "--block", "--json", "-o", "trace", "--"];
    let live = objects(&run(blkkin(&scratch.0).args(io).args(dd).args(direct)));
    let written = written_bytes(&disk) - before;
    let path = scratch.0.join("sums");
    let is_write = |one: &&Value| one["op"] == "write" && one["path"] == path.to_str().unwrap();
    let writes: Vec<&Value> = live.iter().filter(is_write).collect();
    assert_eq!(writes.len(), 16, "{live:#?}");
    let mut sectors = BTreeSet::new();
    for write in writes {
        let [request] = &write["disk"].as_array().expect("requests")[..] else { panic!("{write}") };
        assert_eq!(request["device"], disk.as_str());
        assert_eq!((&request["operation"], &request["bytes"]), (&"write".into(), &8192.into()));
        assert_eq!(request["error"], 0);
        let [queued, served] = ["queued", "served"].map(|key| request[key].as_u64().unwrap());
        assert!(queued > 0 && served > 0, "{write}");
        assert!(queued + served < write["duration"].as_u64().unwrap(), "{write}");
        sectors.insert(request["sector"].as_u64().unwrap());
    }
    assert_eq!(sectors.len(), 16);
    assert!(written >= 16 * 8192, "{written}");
    let recorded = objects(&run(blkkin(&scratch.0).args(["io", "--json", "--from", "trace"])));
    assert_eq!(recorded, live);
    let show = |form: &[&str]| {
        text(&run(blkkin(&scratch.0).args(["io", "--from", "trace"]).args(form)).stdout)
    };
    let lines = show(&[]);
    let is_below = |line: &&str| line.contains(&format!("└ {disk}")) && line.contains(" served ");
    let below = lines.lines().filter(is_below).count();
    assert!(below >= 16, "{lines}");
    assert!(!show(&["--format", "app-trace"]).contains(&disk));
    let sums = parse(&show(&["--summary", "--json"]));
    let is_sum = |one: &&Value| one["type"] == "disk" && one["operation"] == "write";
    let sum = sums.iter().find(is_sum).expect("a sum of the disk's writes");
    assert!(sum["count"].as_u64().unwrap() >= 16 && sum["bytes"].as_u64().unwrap() >= 16 * 8192);
    assert!(sum["served"]["p50"].as_u64().unwrap() > 0, "{sum}");
    assert!(show(&["--summary"]).contains("SERVED P50"));
    let top = ["top", "io", "--block", "--interval", "0.2", "--json", "--"];
    let top = objects(&run(blkkin(&scratch.0).args(top).args(dd).args(direct)));
    let counts = top.iter().filter(is_sum).map(|one| one["count"].as_u64().unwrap());
    assert!(counts.sum::<u64>() >= 16, "{top:#?}");
    // Without the option, nothing of this is recorded.
    let without =
        objects(&run(blkkin(&scratch.0).args(["io", "--json", "--"]).args(dd).args(direct)));
    assert!(without.iter().all(|one| one["disk"].is_null() && one["type"] == "operation"));
}

/// A buffered write causes no request; `fsync` writes the data.
#[test]
fn buffered_writes_reach_the_disk_at_fsync() {
    const TEST: &str = "buffered_writes_reach_the_disk_at_fsync";
    let scratch = Scratch::new("io-fsync");
    let Some(disk) = tested_disk(TEST, &scratch) else { return };
    let io = ["io", "--block", "--json", "--", "dd", "if=/dev/zero", "of=sums", "bs=65536"];
    let lines = objects(&run(blkkin(&scratch.0).args(io).args(["count=8", "conv=fsync"])));
    let path = scratch.0.join("sums");
    let of = |op: &str| {
        let is_it = |one: &&Value| one["op"] == op && one["path"] == path.to_str().unwrap();
        let requests = lines.iter().filter(is_it).filter_map(|one| one["disk"].as_array());
        let writes = requests.flatten().filter(|one| one["operation"] == "write");
        writes
            .inspect(|one| assert_eq!(one["device"], disk.as_str()))
            .map(|one| one["bytes"].as_u64().unwrap())
            .sum::<u64>()
    };
    assert_eq!(of("write"), 0, "{lines:#?}");
    assert!(of("sync") >= 8 * 65_536, "{lines:#?}");
}

/// Pages of a mapped file are read outside of system calls, and io_uring reads asynchronously: the
/// requests are there, with their cause.
#[test]
fn requests_of_no_operation_have_their_cause() {
    const TEST: &str = "requests_of_no_operation_have_their_cause";
    let scratch = Scratch::new("io-fault");
    if tested_disk(TEST, &scratch).is_none() {
        return;
    }
    if !is_installed("fio") {
        return skip(TEST, "fio is missing");
    }
    fs::write(scratch.0.join("data"), vec![7; 1 << 20]).unwrap();
    fs::File::open(scratch.0.join("data")).unwrap().sync_all().unwrap();
    let record = |engine: &[&str]| {
        let fio =
            ["fio", "--name=read", "--filename=data", "--size=1M", "--bs=4k", "--rw=randread"];
        let io = ["io", "--block", "--json", "--"];
        objects(&run(blkkin(&scratch.0).args(io).args(fio).args(["--output=log"]).args(engine)))
    };
    let bytes = |requests: &mut dyn Iterator<Item = &Value>| {
        let reads = requests.filter(|one| one["operation"] == "read");
        reads.map(|one| one["bytes"].as_u64().unwrap()).sum::<u64>()
    };
    let lines = record(&["--ioengine=mmap"]);
    let is_fault = |one: &&Value| one["type"] == "request" && one["cause"] == "fault";
    let faults: Vec<&Value> = lines.iter().filter(is_fault).collect();
    assert!(faults.iter().all(|one| one["program"] == "fio" && one["call"].is_null()));
    // fio may have read pages of its program or of its libraries, too.
    let read = bytes(&mut faults.into_iter());
    assert!((1 << 20..1 << 21).contains(&read), "{read}: {lines:#?}");
    let uring = ["--ioengine=io_uring", "--direct=1", "--iodepth=4"];
    let lines = record(&uring);
    if !lines.iter().any(|one| one["op"] == "submit") {
        return skip(TEST, "fio has no io_uring here: its requests");
    }
    let of_enter = |one: &&Value| one["type"] == "request" && one["call"] == "io_uring_enter";
    let below = lines.iter().filter(|one| one["op"] == "submit");
    let below = below.filter_map(|one| one["disk"].as_array()).flatten();
    assert_eq!(bytes(&mut lines.iter().filter(of_enter).chain(below)), 1 << 20, "{lines:#?}");
}

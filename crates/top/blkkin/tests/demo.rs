//! Tests of `blkkin demo`, run as a new user would run it. The demo shows a request that passed
//! through all services of its storage chain, and leaves no process running, however it ends.

use blkkin_sys::testing::{Signal, signal};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SERVICES: [&str; 5] = ["composer", "mapper", "nbd", "store.1", "store.2"];

fn start(directory: &Path, arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_blkkin"))
        .args(["demo", "--json", "--no-cost", "--listen", "127.0.0.1:0", "--dir"])
        .arg(directory)
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .expect("started")
}

fn lines(demo: &mut Child) -> impl Iterator<Item = Value> + use<> {
    let output = demo.stdout.take().expect("a pipe");
    let lines = BufReader::new(output).lines().map(|line| line.expect("text"));
    lines.map(|line| serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}")))
}

/// Returns the ids of all processes of the demo, except the process of `blkkin demo` itself.
fn processes(started: &Value, own: u32) -> Vec<u64> {
    let parts = started["parts"].as_array().expect("parts");
    let pids = parts.iter().map(|part| part["pid"].as_u64().expect("a number"));
    pids.filter(|&pid| pid != u64::from(own)).collect()
}

#[track_caller]
fn are_gone(processes: &[u64]) {
    let end = Instant::now() + Duration::from_secs(20);
    let runs = |pid: &&u64| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // A zombie, not yet waited for, has ended, too.
        !status.is_empty() && !status.contains(") Z ")
    };
    while let Some(pid) = processes.iter().find(runs) {
        assert!(Instant::now() < end, "process {pid} still runs");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_request_is_shown_and_nothing_stays() {
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path().join("demo");
    let mut demo = start(&directory, &["--for", "5s"]);
    let lines: Vec<Value> = lines(&mut demo).collect();
    let status = demo.wait().expect("ended");
    let types: Vec<&str> = lines.iter().filter_map(|line| line["type"].as_str()).collect();
    assert_eq!(types, ["started", "request", "totals"], "{lines:?}");
    assert!(lines.iter().all(|line| line["schema"] == "blkkin.demo.v1"));
    let [started, request, totals] = &lines[..] else { panic!("{lines:?}") };
    let processes = processes(started, demo.id());
    assert_eq!(processes.len(), SERVICES.len(), "{started}");
    let spans = request["spans"].as_array().expect("spans");
    let services: BTreeSet<&str> =
        spans.iter().filter_map(|span| span["local"]["service"].as_str()).collect();
    assert!(services.iter().eq(&SERVICES), "{services:?}");
    assert_eq!(totals["spansLost"], 0, "{totals}");
    let stored = totals["spansStored"].as_u64().expect("a number");
    let requests = totals["requests"].as_u64().expect("a number");
    assert!(requests > 0 && stored >= 4 * requests, "{totals}");
    assert!(status.success(), "{status}");
    are_gone(&processes);

    // `blkkin query` finds the stored spans.
    let found = Command::new(env!("CARGO_BIN_EXE_blkkin"))
        .args(["query", "--json", "--slowest", "--limit", "1", "--data"])
        .arg(directory.join("spans"))
        .output()
        .expect("asked");
    assert!(String::from_utf8_lossy(&found.stdout).contains("nbd"), "{found:?}");
}

#[test]
fn the_trace_is_begun_anew_and_no_request_is_lost() {
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path().join("demo");
    let mut demo = start(&directory, &["--for", "6s", "--rate", "300", "--trace-size", "100K"]);
    let lines: Vec<Value> = lines(&mut demo).collect();
    let status = demo.wait().expect("ended");
    let totals = lines.last().expect("a line");
    assert_eq!(totals["spansLost"], 0, "{lines:?}");
    let stored = totals["spansStored"].as_u64().expect("a number");
    let requests = totals["requests"].as_u64().expect("a number");
    assert!(requests > 0 && stored >= 4 * requests, "{totals}");
    assert!(status.success(), "{status}");
    let found = Command::new(env!("CARGO_BIN_EXE_blkkin"))
        .args(["query", "--json", "--limit", "100000", "--data"])
        .arg(directory.join("spans"))
        .output()
        .expect("asked");
    let found = String::from_utf8_lossy(&found.stdout);
    let begun_here = found.lines().filter(|line| line.contains(r#""service":"nbd","name":"#));
    assert!(begun_here.count() as u64 >= requests, "{totals}");
    // Only the last recording's trace exists.
    let traces = std::fs::read_dir(directory.join("trace")).expect("a directory");
    let names: Vec<_> = traces.map(|entry| entry.expect("an entry").file_name()).collect();
    let [name] = &names[..] else { panic!("{names:?}") };
    let number: u32 = name.to_string_lossy().parse().expect("a number");
    assert!(number > 1, "{name:?}");
}

/// Closing the terminal, which signals all processes of the demo at once, ends all of them.
#[test]
fn nothing_stays_when_the_terminal_is_closed() {
    let directory = tempfile::tempdir().expect("a directory");
    // Under `nohup` the tests inherit an ignored SIGHUP, so the default is restored.
    let mut demo = Command::new("env")
        .args(["--default-signal=HUP", env!("CARGO_BIN_EXE_blkkin")])
        .args(["demo", "--json", "--no-cost", "--listen", "127.0.0.1:0", "--dir"])
        .arg(directory.path().join("demo"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let mut lines = lines(&mut demo);
    let started = lines.next().expect("a line");
    let processes = processes(&started, demo.id());
    assert_eq!(processes.len(), SERVICES.len(), "{started}");
    let parts = started["parts"].as_array().expect("parts");
    let agent = parts.iter().find(|part| part["name"] == "agent").expect("an agent");
    let socket = Path::new(agent["at"].as_str().expect("a path"));
    assert!(socket.exists());
    for pid in &processes {
        signal(u32::try_from(*pid).expect("a number"), Signal::HUP);
    }
    signal(demo.id(), Signal::HUP);
    let totals = lines.last().expect("a line");
    assert_eq!(totals["type"], "totals");
    assert!(demo.wait().expect("ended").success());
    are_gone(&processes);
    assert!(!socket.parent().expect("a directory").exists(), "{agent}");
}

/// The commands printed at the end run unchanged, even without `blkkin` in `PATH`.
#[test]
fn the_command_that_is_named_works() {
    let directory = tempfile::tempdir().expect("a directory");
    let kept = directory.path().join("with a space");
    let demo = Command::new(env!("CARGO_BIN_EXE_blkkin"))
        .args(["demo", "--no-cost", "--listen", "127.0.0.1:0", "--for", "4s", "--dir"])
        .arg(&kept)
        .output()
        .expect("started");
    let told = String::from_utf8_lossy(&demo.stderr);
    assert!(demo.status.success(), "{told}");
    assert!(!told.contains("blockstack mapper"), "{told}");
    let last = |what: &str| told.lines().find_map(|line| Some(line.split_once(what)?.1));
    let run = |line: &str| Command::new("sh").args(["-c", line]).output().expect("a shell");
    let found = run(last("To ask what was stored: ").expect("a command"));
    assert!(String::from_utf8_lossy(&found.stdout).contains("nbd"), "{found:?}");
    let removed = run(last("To remove it all: ").expect("a command"));
    assert!(removed.status.success() && !kept.exists(), "{removed:?}");
}

/// The demo writes all files to its directory, including those of the cost measurement. It does not
/// touch the home directory, which need not exist.
#[test]
fn a_home_is_not_needed() {
    let directory = tempfile::tempdir().expect("a directory");
    let permit = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(directory.path(), permit).expect("permitted");
    let is_root = blkkin_sys::user_id() == 0;
    let homes = [std::env::var_os("HOME").map(|home| Path::new(&home).join("blkkin-traces"))];
    let seen = || -> Vec<PathBuf> {
        let entries = homes.iter().flatten().filter_map(|home| std::fs::read_dir(home).ok());
        entries.flatten().flatten().map(|entry| entry.path()).collect()
    };
    let before = seen();
    let mut command = match is_root {
        // The user nobody has no home.
        true => {
            let program = directory.path().join("blkkin");
            // Copied by another process: a child started meanwhile by another thread would inherit
            // the file open for writing.
            let copied =
                Command::new("cp").arg(env!("CARGO_BIN_EXE_blkkin")).arg(&program).status();
            assert!(copied.is_ok_and(|status| status.success()));
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program);
            command
        }
        false => Command::new(env!("CARGO_BIN_EXE_blkkin")),
    };
    let kept = directory.path().join("demo");
    let demo = command
        .args(["demo", "--json", "--listen", "127.0.0.1:0", "--rate", "0", "--for", "1s", "--dir"])
        .arg(&kept)
        .env_remove("XDG_RUNTIME_DIR")
        .current_dir(directory.path())
        .output()
        .expect("started");
    assert!(demo.status.success(), "{demo:?}");
    let told = String::from_utf8_lossy(&demo.stdout);
    let lines = told.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let cost = lines.into_iter().find(|line| line["type"] == "cost").expect("a cost");
    let modes = cost["iops"].as_array().expect("modes");
    assert!(
        modes.iter().all(|mode| mode["iops"].as_f64().is_some_and(|iops| iops > 0.0)),
        "{cost}"
    );
    assert!(!kept.join("cost").exists());
    let left: Vec<PathBuf> = seen().into_iter().filter(|path| !before.contains(path)).collect();
    let left = left.iter().filter(|path| path.to_string_lossy().contains("/cost-")).count();
    assert_eq!(left, 0);
}

#[test]
fn nothing_stays_of_one_that_was_killed() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut demo = start(&directory.path().join("demo"), &[]);
    let started = lines(&mut demo).next().expect("a line");
    let processes = processes(&started, demo.id());
    assert_eq!(processes.len(), SERVICES.len(), "{started}");
    demo.kill().expect("killed");
    demo.wait().expect("ended");
    are_gone(&processes);
}

#[test]
fn directories_of_others_are_left_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("precious"), "data").expect("written");
    let mut demo = start(directory.path(), &[]);
    assert_eq!(demo.wait().expect("ended").code(), Some(2));
    assert_eq!(std::fs::read_dir(directory.path()).expect("a directory").count(), 1);
}

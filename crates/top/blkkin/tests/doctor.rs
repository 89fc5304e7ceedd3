//! Tests of `blkkin doctor`: its findings agree with what commands can do on this machine, with and
//! without rights; and it leaves nothing behind.

mod support;

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use support::stand_in::StandIn;
use support::{Scratch, blkkin, run, skip, text};

fn doctor(arguments: &[&str]) -> Command {
    let mut command = blkkin(Path::new("/tmp"));
    command.arg("doctor").args(arguments).env("BLKKIN_SOCKET", "/nowhere/agent.sock");
    command
}

fn object(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{output:?}: {error}"))
}

fn check<'o>(object: &'o Value, name: &str) -> &'o Value {
    let checks = object["checks"].as_array().expect("a list");
    let found = checks.iter().find(|check| check["name"] == name);
    found.unwrap_or_else(|| panic!("{name}: {object}"))
}

/// `blkkin io` works if and only if the checks for it pass, and lists of probes agree as well.
#[test]
fn findings_are_what_commands_can_do() {
    let output = run(&mut doctor(&["--json"]));
    let all = object(&output);
    assert_eq!(all["schema"], "blkkin.doctor.v1");
    assert_eq!(output.status.code(), Some(if all["ok"] == true { 0 } else { 1 }));
    let recorded = run(blkkin(Path::new("/tmp")).args(["io", "--json", "--", "true"]));
    assert_eq!(all["features"]["io"], recorded.status.success(), "{all} {recorded:?}");
    for (feature, probe) in [
        ("syscall", "syscall:openat"),
        ("raw", "raw:sched_switch"),
        ("fentry", "fentry:vfs_unlink"),
    ] {
        if all["features"][feature] == true {
            let found = run(blkkin(Path::new("/tmp")).args(["probe", "ls", probe]));
            assert_eq!(text(&found.stdout), format!("{probe}\n"));
        }
    }
    for check in all["checks"].as_array().expect("a list") {
        let needed_by = check["needed_by"].as_array().expect("a list");
        let broken = needed_by.iter().filter(|_| check["state"] != "works");
        for feature in broken {
            assert_eq!(all["features"][feature.as_str().expect("a word")], false, "{check}");
        }
        assert!(check["found"].as_str().is_some_and(|found| !found.is_empty()), "{check}");
    }
}

#[test]
fn the_status_is_that_of_the_chosen_features() {
    let all = object(&run(&mut doctor(&["--json"])));
    for (feature, works) in all["features"].as_object().expect("features") {
        let output = run(&mut doctor(&["--json", feature]));
        let expected = if works == true { 0 } else { 1 };
        assert_eq!(output.status.code(), Some(expected), "{feature}: {}", text(&output.stdout));
        let one = object(&output);
        let checks = one["checks"].as_array().expect("a list");
        let is_needed = |check: &Value| {
            check["needed_by"].as_array().is_some_and(|all| all.contains(&feature.as_str().into()))
        };
        assert!(!checks.is_empty() && checks.iter().all(is_needed), "{one}");
    }
    assert_eq!(run(&mut doctor(&["no-such-feature"])).status.code(), Some(2));
}

#[test]
fn a_running_agent_is_found() {
    let missing = run(&mut doctor(&["agent"]));
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stdout).contains("agent &"), "{}", text(&missing.stdout));
    let agent = StandIn::answering(|_| Vec::new());
    let output = run(doctor(&["agent", "--json"]).env("BLKKIN_SOCKET", &agent.path));
    let object = object(&output);
    let found = check(&object, "agent")["found"].as_str().expect("text");
    assert!(found.ends_with(&format!(" at {}", agent.path.display())), "{found}");
    assert_eq!(output.status.code(), Some(0));
}

/// The checklist fits on a screen of 80 columns, and has a mark in front of each line.
#[test]
fn the_list_is_one_screen() {
    let output = run(doctor(&[]).env("COLUMNS", "80").env("LC_ALL", "C.UTF-8"));
    let shown = text(&output.stdout);
    let lines: Vec<&str> = shown.lines().collect();
    assert!((15..=36).contains(&lines.len()), "{shown}");
    for line in &lines {
        assert!(line.chars().count() <= 80, "{line}");
        let is_detail = line.starts_with("    ");
        let is_sum =
            ["Works: ", "Does not work: ", "   "].iter().any(|word| line.starts_with(word));
        assert!(is_detail || is_sum || line.starts_with(['✓', '✗', '?', '-']), "{line}");
    }
    let plain = run(doctor(&[]).env("LC_ALL", "C"));
    assert!(!text(&plain.stdout).contains('✓'));
}

#[test]
fn nothing_is_left() {
    let mounts = || fs::read_to_string("/proc/self/mounts").expect("the list of mounts");
    let entries = || fs::read_dir("/sys/kernel/tracing").map_or(0, Iterator::count);
    let before = (mounts(), entries());
    run(&mut doctor(&[]));
    assert_eq!((mounts(), entries()), before);
}

/// Without rights it says what is missing and what to run as root, and commands point to it.
#[test]
fn other_users_learn_what_to_do() {
    let scratch = Scratch::new("doctor-user");
    let Some(program) = support::copy_for_nobody(&scratch) else {
        return skip("other_users_learn_what_to_do", "it needs root and setpriv");
    };
    let output = run(support::as_nobody(&program).args(["doctor", "--json"]).current_dir("/"));
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let object = object(&output);
    let rights = check(&object, "rights");
    assert_eq!(rights["state"], "missing");
    let found = rights["found"].as_str().expect("text");
    assert!(found.contains("65534") && found.contains("CAP_BPF, CAP_PERFMON"), "{found}");
    assert!(rights["fix"].as_str().is_some_and(|fix| fix.starts_with("sudo ")), "{rights}");
    assert_eq!(check(&object, "memory for eBPF")["state"], "unknown");
    assert_eq!(object["features"]["io"], false);
    let types = Path::new("/sys/kernel/btf/vmlinux").exists();
    let expected = if types { "works" } else { "missing" };
    assert_eq!(check(&object, "kernel's types (BTF)")["state"], expected);
    let refused = run(support::as_nobody(&program).args(["io", "--app", "x"]).current_dir("/"));
    let err = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1));
    assert!(err.contains("blkkin doctor io"), "{err}");
}

//! Tests of `blkkin probe ls`: the names are those of this machine's kernel and programs, with
//! arguments; patterns that match nothing are errors with suggestions.

mod support;

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use support::{Scratch, blkkin, run, skip, text};

fn list(arguments: &[&str]) -> Output {
    run(blkkin(Path::new("/tmp")).args(["probe", "ls"]).args(arguments))
}

/// Returns the output of a successful list; `None` if this machine or user cannot list it.
fn listed(test: &str, arguments: &[&str]) -> Option<String> {
    let output = list(arguments);
    if output.status.success() {
        return Some(text(&output.stdout));
    }
    let reason = text(&output.stderr);
    let is_expected = ["not mounted", "permission", "Permission", "is missing", "was built"];
    assert!(is_expected.iter().any(|part| reason.contains(part)), "{reason}");
    skip(test, reason.lines().next().unwrap_or_default());
    None
}

fn objects(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn system_calls_by_pattern() {
    const TEST: &str = "system_calls_by_pattern";
    let Some(names) = listed(TEST, &["syscall:*at"]) else { return };
    let names: Vec<&str> = names.lines().collect();
    assert!(names.contains(&"syscall:openat") && names.contains(&"syscall:unlinkat"), "{names:?}");
    assert!(names.iter().all(|name| name.starts_with("syscall:") && name.ends_with("at")));
    assert!(names.is_sorted());
    let all = listed(TEST, &["syscall:*"]).expect("as before");
    assert!(all.lines().count() > 250, "{all}");
}

/// Types and names are in aligned columns, and the result follows.
#[test]
fn arguments_are_aligned() {
    let Some(shown) = listed("arguments_are_aligned", &["-v", "syscall:openat"]) else { return };
    let expected = "syscall:openat\n    \
        int            dfd\n    \
        const char *   filename\n    \
        int            flags\n    \
        umode_t        mode\n    \
        long           ret       result\n    \
        unsigned long  duration  nanoseconds\n";
    assert_eq!(shown, expected);
    let few = listed("arguments_are_aligned", &["syscall:openat"]).expect("as before");
    assert_eq!(few, "syscall:openat\n", "a pipe gets names");
}

#[test]
fn objects_have_arguments() {
    const TEST: &str = "objects_have_arguments";
    let Some(lines) = listed(TEST, &["--json", "syscall:openat*"]) else { return };
    let calls = objects(&lines);
    let call = calls.iter().find(|call| call["probe"] == "syscall:openat").expect("the call");
    assert_eq!(call["kind"], "syscall");
    assert_eq!(
        call["arguments"][1],
        serde_json::json!({"name": "filename", "type": "const char *"})
    );
    assert_eq!(call["results"][0], serde_json::json!({"name": "ret", "type": "long"}));
    let lines = listed(TEST, &["--json", "sched:sched_process_exec"]).expect("as before");
    let event = &objects(&lines)[0];
    let expected = serde_json::json!({"name": "filename", "type": "char[]"});
    assert!(event["arguments"].as_array().expect("a list").contains(&expected), "{event}");
}

/// Raw tracepoints come from the kernel's types, which every user can read.
#[test]
fn raw_tracepoints_have_types() {
    const TEST: &str = "raw_tracepoints_have_types";
    let Some(shown) = listed(TEST, &["-v", "raw:sched_process_exec"]) else { return };
    assert!(shown.contains("struct linux_binprm *  bprm\n"), "{shown}");
}

#[test]
fn the_overview_counts_each_kind() {
    let output = list(&["--json"]);
    assert_eq!(output.status.code(), Some(0));
    let rows = objects(&text(&output.stdout));
    let kinds: Vec<&str> = rows.iter().filter_map(|row| row["kind"].as_str()).collect();
    let expected = [
        "syscall",
        "tracepoint",
        "process",
        "request",
        "state",
        "raw",
        "kprobe",
        "fentry",
        "uprobe",
        "usdt",
        "profile",
    ];
    assert_eq!(kinds, expected);
    for row in &rows {
        let is_available = row["available"].as_bool().expect("a truth value");
        assert_eq!(row["reason"].is_null(), is_available, "{row}");
    }
    for row in rows.iter().filter(|row| row["count"].is_u64()) {
        let pattern = row["example"].as_str().expect("a name");
        let found = list(&[pattern]);
        assert_eq!(text(&found.stdout), format!("{pattern}\n"), "{row}");
    }
    let shown = text(&list(&[]).stdout);
    assert!(shown.starts_with("KIND        COUNT  EXAMPLE"), "{shown}");
    assert!(shown.lines().count() <= 24, "{shown}");
}

#[test]
fn functions_of_a_program() {
    let program = env!("CARGO_BIN_EXE_blkkin");
    let output = list(&[&format!("uprobe:{program}:*allocator_shim*"), "--json"]);
    // A stripped program has no such names, and libc's are always there.
    let output = match output.status.success() {
        true => output,
        false => list(&["uprobe:libc.so.6:open*", "--json"]),
    };
    let found = objects(&text(&output.stdout));
    assert!(!found.is_empty(), "{}", text(&output.stderr));
    assert!(found.iter().all(|one| one["kind"] == "uprobe"), "{found:?}");
    let missing = list(&["uprobe:no-such-program:*"]);
    let err = text(&missing.stderr);
    assert_eq!(missing.status.code(), Some(1));
    assert!(err.contains("no program `no-such-program` in PATH"), "{err}");
    let unnamed = list(&["uprobe:*"]);
    assert!(text(&unnamed.stderr).contains("name a program"), "{}", text(&unnamed.stderr));
}

#[test]
fn nothing_found_is_an_error_with_suggestions() {
    const TEST: &str = "nothing_found_is_an_error_with_suggestions";
    if listed(TEST, &["syscall:openat"]).is_none() {
        return;
    }
    let check = |pattern: &str, parts: &[&str]| {
        let output = list(&[pattern]);
        let err = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), String::new()));
        assert!(parts.iter().all(|part| err.contains(part)), "{pattern}: {err}");
    };
    check("openat", &["no probe matches `openat`", "did you mean `syscall:openat`"]);
    check("syscall:opneat", &["did you mean `syscall:openat`"]);
    check("shced:*", &["did you mean `sched:*`"]);
    check("*no such name*", &["`blkkin probe ls` shows the kinds"]);
    assert_eq!(list(&["-v"]).status.code(), Some(2));
}

/// A reader such as `head` that closes the pipe is no error.
#[test]
fn a_closed_pipe_is_no_error() {
    let mut command = blkkin(Path::new("/tmp"));
    let command = command.args(["probe", "ls", "raw:*"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("blkkin");
    let mut lines = BufReader::with_capacity(64, child.stdout.take().expect("a pipe"));
    let _ = lines.read_line(&mut String::new());
    drop(lines);
    let output = child.wait_with_output().expect("its end");
    let err = text(&output.stderr);
    assert!(!err.contains("pipe"), "{err}");
    assert!(output.status.success() || err.contains("cannot be listed"), "{err}");
}

/// Without rights, the names that are public are listed, and the reason for others is stated.
#[test]
fn other_users_get_a_reason() {
    let scratch = Scratch::new("probe-user");
    let Some(program) = support::copy_for_nobody(&scratch) else {
        return skip("other_users_get_a_reason", "it needs root and setpriv");
    };
    let list = |pattern: &str| {
        run(support::as_nobody(&program).args(["probe", "ls", pattern]).current_dir("/"))
    };
    let output = list("syscall:*");
    if !output.status.success() {
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1));
        assert!(err.contains("root") && err.contains("blkkin doctor"), "{err}");
    }
    if Path::new("/sys/kernel/btf/vmlinux").exists() {
        assert_eq!(text(&list("raw:sched_switch").stdout), "raw:sched_switch\n");
    }
    let overview = run(support::as_nobody(&program).args(["probe", "ls"]));
    assert!(overview.status.success(), "{}", text(&overview.stderr));
}

#[test]
fn shells_complete_probes() {
    let offered = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let mut command: Command = blkkin(Path::new("/tmp"));
        command.env("BLKKIN_COMPLETE", "bash").env("_CLAP_IFS", "\n");
        command.env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string());
        text(&run(command.arg("--").args(words)).stdout)
    };
    assert!(offered("blkkin probe ls sysc").contains("syscall:"));
    if listed("shells_complete_probes", &["process:*"]).is_some() {
        let names = offered("blkkin probe ls process:e");
        assert_eq!(names.lines().collect::<Vec<_>>(), ["process:exec", "process:exit"]);
    }
}

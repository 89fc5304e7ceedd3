//! Recording without the page cache: nothing is lost, files are not in memory, and the next agent
//! goes on.

mod support;

use serde_json::Value;
use std::fs;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use support::node::{self, Node, check_all, is_root};
use support::{is_installed, run, skip, text};

#[test]
#[ignore = "a program of other tests"]
fn program() {
    node::numbers();
}

/// Flag of a file that is written without the page cache, as in `/proc/PID/fdinfo`.
const O_DIRECT: u32 = 0o40000;
const BLOCK: u64 = 4096;

/// Returns whether files in a directory can be written without the page cache.
fn has_direct(directory: &Path) -> bool {
    let path = directory.join("direct");
    let made = fs::File::options()
        .write(true)
        .create_new(true)
        .custom_flags(O_DIRECT.cast_signed())
        .open(&path);
    let _ = fs::remove_file(path);
    made.is_ok()
}

/// Returns the files with packets below a directory.
fn streams(output: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for trace in node::traces_below(output) {
        for entry in fs::read_dir(trace).expect("a trace").flatten() {
            let name = entry.file_name();
            let is_stream = entry.path().is_file() && name != "metadata";
            if is_stream && !name.to_string_lossy().starts_with('.') {
                found.push(entry.path());
            }
        }
    }
    found
}

/// Returns whether a process has each of these files open with the flag.
fn writes_directly(pid: u32, files: &[PathBuf]) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).expect("descriptors");
    let mut direct = Vec::new();
    for entry in descriptors.flatten() {
        let Ok(target) = fs::read_link(entry.path()) else { continue };
        let name = entry.file_name();
        let info = format!("/proc/{pid}/fdinfo/{}", name.to_string_lossy());
        let info = fs::read_to_string(info).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap_or("0");
        if u32::from_str_radix(flags.trim(), 8).expect("octal digits") & O_DIRECT != 0 {
            direct.push(target);
        }
    }
    !files.is_empty() && files.iter().all(|file| direct.contains(file))
}

/// Asserts that hardly anything of the files is in the page cache.
#[track_caller]
fn check_absent(files: &[PathBuf]) {
    if !is_installed("fincore") {
        return;
    }
    for file in files {
        let mut fincore = Command::new("fincore");
        fincore.args(["--bytes", "--noheadings", "--output", "RES"]).arg(file);
        let resident: u64 = text(&run(&mut fincore).stdout).trim().parse().expect("a number");
        assert!(resident <= 256 << 10, "{resident} bytes of {file:?} are in memory");
    }
}

#[test]
fn packets_are_written_without_the_page_cache() {
    let node = Node::new();
    if !has_direct(node.directory.path()) {
        return skip(
            "packets_are_written_without_the_page_cache",
            "the file system has no direct I/O",
        );
    }
    let agent = node.agent();
    let output = node.output();
    let create = ["session", "create", "s", "--direct", "-o", output.to_str().expect("text")];
    node.run(&create);
    node.run(&["event", "enable", "test:*"]);
    let saved = node.run(&["session", "save", "s"]);
    assert!(saved.contains("\ndirect = true\n"), "{saved}");
    node.run(&["session", "start", "s"]);
    let program = node.program(500, 1000);
    node::eventually("packets are written", || {
        let files = streams(&output);
        let size: u64 = files.iter().map(|file| file.metadata().expect("a file").size()).sum();
        (size > 1 << 20).then_some(())
    });
    assert!(writes_directly(agent.id(), &streams(&output)));
    // The next agent goes on in the same files.
    agent.kill();
    let agent = node.agent();
    let before: u64 = streams(&output).iter().map(|it| it.metadata().expect("a file").size()).sum();
    node::eventually("more packets are written", || {
        let files = streams(&output);
        let size: u64 = files.iter().map(|file| file.metadata().expect("a file").size()).sum();
        (size > before + (1 << 20)).then_some(())
    });
    let busy: Vec<PathBuf> = streams(&output)
        .into_iter()
        .filter(|file| file.metadata().expect("a file").size() > 0)
        .collect();
    assert!(writes_directly(agent.id(), &busy));
    let tried = program.end();
    let list: Value =
        serde_json::from_str(&node.run(&["session", "list", "s", "--json"])).expect("JSON");
    let slowest = &list["sessions"][0]["direct"]["slowest_write_ns"];
    assert!(slowest.as_u64() > Some(0), "{list}");
    let shown = node.run(&["session", "list", "s"]);
    assert!(shown.contains("writes without the page cache"), "{shown}");
    node.end_session();
    // Nobody has read the files yet, apart from the last headers.
    check_absent(&busy);
    for file in streams(&output) {
        assert_eq!(file.metadata().expect("a file").size() % BLOCK, 0, "{file:?}");
    }
    check_all(&output, tried);
    if is_installed("babeltrace2") {
        let read =
            run(Command::new("babeltrace2").arg("--component=sink.utils.counter").arg(&output));
        assert!(read.status.success(), "{}", text(&read.stderr));
    }
}

/// The command's trace of `record --direct` is whole, and chunks are, too.
#[test]
fn commands_are_recorded_without_the_page_cache() {
    let node = Node::new();
    if !has_direct(node.directory.path()) {
        return skip(
            "commands_are_recorded_without_the_page_cache",
            "the file system has no direct I/O",
        );
    }
    let output = node.output();
    let program = std::env::current_exe().expect("this program");
    let mut record = node.command(&["record", "--direct", "--size", "256k", "-o"]);
    record.arg(&output).arg("--").arg(program).args(["--exact", "program", "--ignored"]);
    record.arg("--nocapture").env("TEST_BURST", "20000").env("TEST_PAUSE_US", "0");
    let recorded = run(record.stdin(std::process::Stdio::null()));
    assert!(matches!(recorded.status.code(), Some(0 | 3)), "{}", text(&recorded.stderr));
    let chunks = fs::read_dir(&output).expect("chunks").flatten();
    check_absent(&chunks.flat_map(|chunk| streams(&chunk.path())).collect::<Vec<_>>());
    let lines = text(&recorded.stdout);
    let tried = lines.lines().rev().find_map(|line| line.trim().parse().ok());
    check_all(&output, tried.unwrap_or_else(|| panic!("{lines}")));
}

#[test]
fn file_systems_without_direct_writes_are_refused() {
    if !is_root() {
        return skip("file_systems_without_direct_writes_are_refused", "only root can mount one");
    }
    let node = Node::new();
    let place = node.directory.path().join("memory");
    fs::create_dir(&place).expect("a directory");
    let _agent = node.agent_behind(&format!("mount -t ramfs ramfs '{}'", place.display()));
    let mut create = node.command(&["session", "create", "s", "--direct", "-o"]);
    let refused = run(create.arg(place.join("trace")));
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(text(&refused.stderr).contains("without the page cache"), "{refused:?}");
    let list: Value =
        serde_json::from_str(&node.run(&["session", "list", "--json"])).expect("JSON");
    assert_eq!(list["sessions"].as_array().map(Vec::len), Some(0), "the session is not left over");
}

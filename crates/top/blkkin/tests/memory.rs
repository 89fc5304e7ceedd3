//! Tests of the memory needed to read a trace. Streams of any actual or claimed size need little
//! memory. The streams of `tests/corpus/large` are extended to 1 GiB with zeros that use no disk
//! space. Metadata needs more memory, but within limits. The kernel stops the program at its exit,
//! where its peak resident size is read from /proc.

mod support;

use nix::sys::ptrace;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use support::hostile::{self, Hostile};
use support::recipe::Recipe;
use support::{Scratch, blkkin};

/// Maximum peak memory in KiB, in addition to the peak of a run that reads almost no data.
const MORE_KIB_MAX: u64 = 32 << 10;
/// Size in bytes to which a stream is extended, or a metadata file that must be refused.
const STREAM_SIZE: u64 = 1 << 30;
/// Maximum peak memory in KiB of a process that reads metadata of any size.
const KIB_MAX: u64 = 256 << 10;
/// Size in bytes of metadata that needs almost no memory.
const TINY_SIZE: usize = 4 << 10;
/// Size in bytes of metadata that needs at most [`MORE_KIB_MAX`].
const SMALL_SIZE: usize = 1 << 20;
/// Size in bytes of metadata that may need the most memory.
const LARGE_SIZE: usize = 22 << 20;
/// Size in bytes of metadata slightly below the accepted maximum.
const SIZE_MAX: usize = 63 << 20;

/// Returns the peak resident size of a run, in KiB.
fn peak_kib(directory: &Path, arguments: &[&str]) -> u64 {
    run(directory, arguments).0
}

/// Runs the program; returns its peak resident size in KiB, and its exit status. A run that ends
/// before it can be traced is repeated.
fn run(directory: &Path, arguments: &[&str]) -> (u64, ExitStatus) {
    (0..5000).find_map(|_| run_once(directory, arguments)).expect("a run that can be traced")
}

fn run_once(directory: &Path, arguments: &[&str]) -> Option<(u64, ExitStatus)> {
    let mut command = blkkin(directory);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("the program");
    let pid = Pid::from_raw(child.id().try_into().expect("a process id"));
    let is_traced = ptrace::seize(pid, ptrace::Options::PTRACE_O_TRACEEXIT).is_ok();
    let peak = is_traced.then(|| peak_at_exit(pid)).flatten();
    let status = child.wait();
    Some((peak?, status.expect("the program to end")))
}

/// Waits until the traced process exits or is being killed, and returns its peak resident size in
/// KiB. The process then continues its exit without a tracer. Returns `None` if the process had
/// begun its exit before it was traced.
fn peak_at_exit(pid: Pid) -> Option<u64> {
    const EXIT: i32 = ptrace::Event::PTRACE_EVENT_EXIT as i32;
    loop {
        match waitpid(pid, None).expect("a traced process") {
            WaitStatus::PtraceEvent(_, _, EXIT) => break,
            WaitStatus::Exited(..) | WaitStatus::Signaled(..) => return None,
            WaitStatus::Stopped(_, signal) => ptrace::cont(pid, signal),
            _ => ptrace::cont(pid, None),
        }
        .expect("a stopped process");
    }
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("its memory");
    ptrace::detach(pid, None).expect("a stopped process");
    high_water_mark(&status)
}

fn high_water_mark(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

#[test]
fn large_streams_and_claims_take_little_memory() {
    let scratch = Scratch::new("memory");
    let empty = peak_kib(&scratch.0, &["view", "--help"]);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/corpus/large");
    let mut wrong = Vec::new();
    let mut count = 0;
    for entry in fs::read_dir(folder).expect("the corpus") {
        let recipe = Recipe::read(&entry.expect("an entry").path());
        recipe.write(&scratch.0);
        let stream = scratch.0.join(&recipe.name).join("stream");
        let stream = OpenOptions::new().write(true).open(stream).expect("the stream");
        stream.set_len(STREAM_SIZE).expect("to make it longer");
        for arguments in [
            &["view", "--count"][..],
            &["view", "--limit", "100"],
            &["view", "--json", "--limit", "100"],
        ] {
            let peak = peak_kib(&scratch.0, &[arguments, &[&recipe.name]].concat());
            count += 1;
            if peak > empty + MORE_KIB_MAX {
                wrong
                    .push(format!("{arguments:?} {}: {peak} KiB, {empty} when empty", recipe.name));
            }
        }
    }
    assert!(count > 10 && wrong.is_empty(), "{count} runs:\n{}", wrong.join("\n"));
}

/// Checks the peak memory for all cases of hostile metadata, in several sizes. The share of a text
/// that is filled with items varies, so some texts are refused early, some late, and some not at
/// all.
fn check_metadata(scratch: &Scratch, language: &str, cases: fn(usize) -> Vec<Hostile>) {
    let read = |case: &Hostile, size: usize, length: usize| {
        let text = case.text(size, length);
        fs::write(scratch.0.join("metadata"), text).expect("to write a file");
        run(&scratch.0, &["view", "--count", "."])
    };
    // The baseline includes the code loaded for metadata, which may be larger than the data.
    let tiny = cases(TINY_SIZE).iter().map(|case| read(case, TINY_SIZE, TINY_SIZE).0).max();
    let tiny = tiny.expect("some cases");
    let mut wrong = Vec::new();
    for (size, parts) in [(SMALL_SIZE, &[1, 3, 12][..]), (LARGE_SIZE, &[1, 6]), (SIZE_MAX, &[8])] {
        let kib_max = if size == SMALL_SIZE { tiny + MORE_KIB_MAX } else { KIB_MAX };
        for case in cases(size) {
            for part in parts {
                let (peak, status) = read(&case, size, size / part);
                if peak > kib_max || !matches!(status.code(), Some(0 | 1)) {
                    let about = format!("{language} {}, 1/{part} of {size} bytes", case.name);
                    wrong.push(format!("{about}: {peak} of {kib_max} KiB, {status}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} runs:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn hostile_tsdl_takes_bounded_memory() {
    check_metadata(&Scratch::new("memory-tsdl"), "TSDL", hostile::tsdl);
}

#[test]
fn hostile_ctf2_metadata_takes_bounded_memory() {
    check_metadata(&Scratch::new("memory-ctf2"), "CTF 2", hostile::ctf2);
}

#[test]
fn metadata_that_is_too_long_costs_its_own_trace_only() {
    let scratch = Scratch::new("memory-long");
    for name in ["long", "short"] {
        fs::create_dir(scratch.0.join(name)).expect("to make a folder");
        let text = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; };";
        fs::write(scratch.0.join(name).join("metadata"), text).expect("to write a file");
    }
    let long = OpenOptions::new().write(true).open(scratch.0.join("long/metadata"));
    long.and_then(|long| long.set_len(STREAM_SIZE)).expect("to make it longer");
    let output = support::run(support::blkkin(&scratch.0).args(["view", "--json", "."]));
    assert_eq!(output.status.code(), Some(1));
    let (out, err) = (support::text(&output.stdout), support::text(&output.stderr));
    assert!(err.contains("long/metadata: metadata: larger than 64 MiB"), "{err}");
    let traces = out.lines().next().expect("a line");
    assert!(traces.contains("./short") && !traces.contains("./long"), "{out}");
}

/// Metadata with 20,000 event classes is read within the memory limits, as TSDL and as JSON. The
/// JSON is even larger.
#[test]
fn many_tracepoints_can_be_read() {
    let scratch = Scratch::new("memory-tracepoints");
    let check = |arguments: &[&str]| {
        let (peak, status) = run(&scratch.0, arguments);
        assert!(status.success() && peak <= KIB_MAX, "{arguments:?}: {peak} KiB, {status}");
    };
    fs::create_dir(scratch.0.join("ctf1")).expect("to make a folder");
    let text = hostile::many_tracepoints(20_000);
    assert!(text.len() > 15 << 20, "{} bytes", text.len());
    fs::write(scratch.0.join("ctf1/metadata"), text).expect("to write a file");
    check(&["view", "--count", "ctf1"]);
    check(&["convert", "--to", "ctf2", "-o", "ctf2", "ctf1"]);
    check(&["view", "--count", "ctf2"]);
}

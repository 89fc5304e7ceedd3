//! The real `bpftrace`, attached to USDT probes of running programs, and the semaphores of these
//! programs.

use blkkin_kernel::{UsdtProbe, UserProgram};
use blkkin_sys::testing::{is_installed, skip};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// Maximum time that bpftrace may take to attach, and an event to arrive.
const PATIENCE: Duration = Duration::from_secs(120);

/// Lines of two timers, before and after the probes of a script. bpftrace attaches in the order of
/// the script or in the opposite order, so all probes are attached once both timers have printed a
/// line. A semaphore says less: the kernel increments it before bpftrace has set the action.
const READY: [&str; 2] = ["ready: first", "ready: last"];

/// A running `bpftrace`.
pub(crate) struct Bpftrace {
    child: Child,
    lines: Receiver<String>,
}

impl Bpftrace {
    /// Starts `bpftrace` with a program in its language, and waits until each of the probes in
    /// `names` is attached in process `pid`. Returns `None`, and reports the test as skipped, if
    /// bpftrace cannot run here.
    pub(crate) fn attach(
        test: &str,
        script: &str,
        pid: u32,
        program: &Path,
        names: &[&str],
    ) -> Option<Bpftrace> {
        if !is_installed("bpftrace") {
            skip(test, "bpftrace is not installed");
            return None;
        }
        if blkkin_sys::user_id() != 0 {
            skip(test, "bpftrace needs root");
            return None;
        }
        let [first, last] =
            READY.map(|line| format!("interval:ms:100 {{ printf(\"{line}\\n\"); }}"));
        let script = format!("{first}\n{script}\n{last}");
        let mut command = Command::new("bpftrace");
        command.args(["-B", "line", "-e", &script]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("to start bpftrace");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            let lines = output.lines().map_while(Result::ok);
            // The first line says how many probes there are; the last lines are empty.
            let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("Attaching "));
            lines.map_while(|line| sender.send(line).ok()).for_each(drop);
        });
        let bpftrace = Bpftrace { child, lines };
        let mut missing = READY.to_vec();
        while !missing.is_empty() {
            let line = bpftrace.lines.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|_| panic!("bpftrace does not attach\n{script}"));
            missing.retain(|expected| *expected != line);
        }
        for name in names {
            assert_ne!(semaphore(pid, program, name), 0, "{name}");
        }
        Some(bpftrace)
    }

    /// Waits for `count` lines, ends bpftrace, and returns all lines in alphabetical order, because
    /// bpftrace prints events of several processors in any order.
    pub(crate) fn end_after(mut self, count: usize) -> Vec<String> {
        let is_event = |line: &String| !READY.contains(&line.as_str());
        let mut lines = Vec::new();
        let start = Instant::now();
        while lines.len() < count {
            assert!(start.elapsed() < PATIENCE, "{count} lines from bpftrace, not {lines:?}");
            lines.extend(self.lines.recv_timeout(PATIENCE).ok().filter(is_event));
        }
        let interrupt = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        assert!(interrupt.expect("to start kill").success());
        self.child.wait().expect("a child");
        lines.extend(self.lines.iter().filter(is_event));
        lines.sort();
        lines
    }
}

impl Drop for Bpftrace {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until the semaphores of probes are 0. The kernel decrements them soon after the end of
/// bpftrace, not always before.
#[track_caller]
pub(crate) fn wait_for_zero(pid: u32, program: &Path, names: &[&str]) {
    let start = Instant::now();
    while let Some(name) = names.iter().find(|name| semaphore(pid, program, name) != 0) {
        assert!(start.elapsed() < PATIENCE, "the semaphore of {name} remains");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the locations of a probe `PROVIDER:NAME`.
pub(crate) fn probes(program: &Path, name: &str) -> Vec<UsdtProbe> {
    let probes = UserProgram::open(program).expect("a program").usdt().expect("probes");
    let is_named = |probe: &UsdtProbe| format!("{}:{}", probe.provider, probe.name) == name;
    probes.into_iter().filter(is_named).collect()
}

/// Returns the sum of the semaphores of a probe `PROVIDER:NAME` in the memory of a process.
pub(crate) fn semaphore(pid: u32, program: &Path, name: &str) -> u32 {
    let probes = probes(program, name);
    assert!(!probes.is_empty(), "{} has a probe {name}", program.display());
    let offsets = probes.iter().map(|probe| probe.semaphore_offset.expect("a semaphore"));
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("mappings");
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).expect("memory");
    offsets
        .map(|offset| {
            let address = maps.lines().find_map(|line| address_in(line, program, offset));
            let mut bytes = [0; 2];
            let address = address.expect("a writable mapping of the semaphore");
            memory.read_exact_at(&mut bytes, address).expect("to read memory");
            u32::from(u16::from_le_bytes(bytes))
        })
        .sum()
}

/// Returns the address at which a line of `/proc/PID/maps` maps an offset of a program's file,
/// writable.
fn address_in(line: &str, program: &Path, offset: u64) -> Option<u64> {
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let mut parts = line.split_ascii_whitespace();
    let (start, end) = parts.next()?.split_once('-')?;
    let (start, end) = (hex(start)?, hex(end)?);
    let is_writable = parts.next()?.starts_with("rw");
    let distance = offset.checked_sub(hex(parts.next()?)?)?;
    let is_there = is_writable && line.ends_with(program.to_str()?) && distance < end - start;
    is_there.then_some(start + distance)
}

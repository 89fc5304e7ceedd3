//! Abilities of this machine and this process, each found by using it for a moment: programs are
//! loaded, attached and removed. Nothing stays in the kernel, since it removes all of it when the
//! descriptors are closed.

use crate::btf::Btf;
use crate::chosen::ChosenProcesses;
use crate::event_format::EventFormat;
use crate::inability::{Inability, InabilityKind};
use crate::own_function;
use crate::recorder::{Recorder, Selection};
use crate::tracefs::{SystemCall, TraceFs};
use blkkin_sys::bpf::{
    AttachPoint, AttemptError, AttemptedHook, KernelWaker, Map, Program, RunTimes, attempt,
};
use std::fs;
use std::io;
use std::path::Path;

/// Sizes in bytes of the memory that is attempted for a ring: the default of recordings, and the
/// maximum of kernels before Linux 6.0.
const RING_SIZES: [usize; 2] = [4 << 20, 1 << 20];
/// Size of the rings of an attempted recording, in bytes.
const SMALL_RING_SIZE: usize = 128 << 10;
/// Functions that kernels have under the same name for a long time, and that run rarely.
const FUNCTIONS: [&str; 3] = ["vfs_rename", "vfs_mkdir", "vfs_unlink"];

/// Allocates the memory that a program shares with this process, and a channel that wakes this
/// process. Returns the size of the memory in bytes.
pub fn map_memory() -> Result<usize, Inability> {
    let mut last = None;
    for size in RING_SIZES {
        match Map::block("blkkin_attempt", size).and_then(|map| map.memory()) {
            Ok(_) => {
                KernelWaker::new("blkkin_attempt")
                    .map_err(|error| Inability::of_call("a ring buffer of eBPF", &error))?;
                return Ok(size);
            }
            Err(error) => last = Some(error),
        }
    }
    let error = last.unwrap_or_else(|| io::ErrorKind::Unsupported.into());
    // Before Linux 5.11, maps count as locked memory.
    let is_small_permitted = Map::block("blkkin_attempt", 1).is_ok();
    let inability = Inability::of_call("a map of eBPF", &error);
    Err(match (is_small_permitted, inability.kind) {
        (true, InabilityKind::NoRight) => Inability::absent(format!(
            "maps of eBPF may have {} only (RLIMIT_MEMLOCK)",
            locked_memory_limit()
        )),
        _ => inability,
    })
}

/// Returns the limit of locked memory of this process, as the kernel writes it.
fn locked_memory_limit() -> String {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"));
    let limit = limit.and_then(|limit| limit.split_ascii_whitespace().next());
    limit.map_or_else(|| "little memory".to_owned(), |bytes| format!("{bytes} bytes"))
}

/// Records these system calls, and the starts and ends of processes, of no process.
pub fn recording(calls: Vec<SystemCall>, btf: &Btf) -> Result<(), Inability> {
    let attach = || {
        let chosen = ChosenProcesses::new()?;
        let selection = Selection {
            calls,
            process_events: [true; 3],
            ring_size: Some(SMALL_RING_SIZE),
            ..Selection::default()
        };
        Recorder::attach(&selection, &chosen, btf)
    };
    attach().map(drop).map_err(Inability::from)
}

/// Measures the run times of programs for a moment, by which costly probes are found.
pub fn run_times() -> Result<(), Inability> {
    match RunTimes::measure() {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            Err(Inability::absent("the kernel is older than Linux 5.8"))
        }
        Err(error) => Err(Inability::of_call("not measured", &error)),
    }
}

/// Attaches a program to a raw tracepoint that runs rarely.
pub fn raw_tracepoint(btf: &Btf) -> Result<(), Inability> {
    let tracepoint = btf.raw_tracepoint("sched_process_exec").map_err(Inability::from);
    attach(AttachPoint::RawTracepoint(tracepoint?.type_id))
}

/// Attaches a program to a tracepoint that runs rarely.
pub fn tracepoint(tracefs: &TraceFs) -> Result<(), Inability> {
    let format = tracefs.format("sched", "sched_process_exec");
    let EventFormat { id, .. } = format?;
    attach(AttachPoint::Tracepoint(id))
}

fn attach(point: AttachPoint) -> Result<(), Inability> {
    let program = Program::load("blkkin_attempt", &own_function::NOTHING, point);
    let program = program
        .map_err(|failure| Inability::of_call("the kernel refuses a program", &failure.error))?;
    let link = program.attach();
    link.map(drop).map_err(|error| Inability::of_call("a program is not attached", &error))
}

/// Attaches a program to a function of the kernel by a breakpoint ("kprobe").
pub fn kernel_function() -> Result<(), Inability> {
    let mut last = Inability::absent("no function is known");
    for name in FUNCTIONS {
        match attempt(AttemptedHook::KernelFunction(name)) {
            Ok(()) => return Ok(()),
            Err(error @ AttemptError::NoEventSource(_)) => {
                return Err(no_event_source(&error, "CONFIG_KPROBE_EVENTS"));
            }
            Err(error) => last = with_rights(error.into()),
        }
    }
    Err(last)
}

/// Attaches a program to a function of the kernel by the call that compilers leave room for
/// ("fentry").
pub fn typed_function(btf: &Btf) -> Result<(), Inability> {
    let mut last = Inability::absent("the kernel's types have no known function");
    for name in FUNCTIONS {
        let Some(function) = btf.function(name) else { continue };
        match attempt(AttemptedHook::TypedFunction(function.type_id)) {
            Ok(()) => return Ok(()),
            // With rights to load programs, the kernel refuses for lack of support.
            Err(AttemptError::Attach(error)) => {
                let inability = Inability::of_call("a program is not attached", &error);
                last = match inability.kind {
                    InabilityKind::NoRight => with_rights(inability),
                    _ => Inability { kind: InabilityKind::Absent, ..inability },
                };
            }
            Err(error) => last = with_rights(error.into()),
        }
    }
    Err(last)
}

/// Attaches a program to an instruction of this program ("uprobe").
pub fn user_function() -> Result<(), Inability> {
    let offset = own_function::file_offset()
        .ok_or_else(|| Inability::absent("/proc/self/maps does not show this program"))?;
    let path = Path::new("/proc/self/exe");
    match attempt(AttemptedHook::UserInstruction { path, offset }) {
        Err(error @ AttemptError::NoEventSource(_)) => {
            Err(no_event_source(&error, "CONFIG_UPROBE_EVENTS"))
        }
        result => result.map_err(|error| with_rights(error.into())),
    }
}

/// Corrects the kind of a refusal: programs at functions need the same rights as those at clocks,
/// so if the latter are permitted, the process has the rights.
fn with_rights(inability: Inability) -> Inability {
    if inability.kind != InabilityKind::NoRight || clock().is_err() {
        return inability;
    }
    let reason = inability.reason;
    Inability::absent(format!("{reason}, although this process has the rights"))
}

fn no_event_source(error: &AttemptError, option: &str) -> Inability {
    Inability::absent(format!("the kernel was built without {option} ({error})"))
}

/// Attaches a program to the clock of the first processor, as profiles do.
pub fn clock() -> Result<(), Inability> {
    attempt(AttemptedHook::CpuClock).map_err(Inability::from)
}

/// Returns true if the kernel has probes at its functions by breakpoints ("kprobe"), as far as it
/// is visible without rights.
pub fn has_kernel_functions() -> bool {
    Path::new("/sys/bus/event_source/devices/kprobe/type").exists()
}

#[cfg(test)]
mod tests {
    use super::*;
    use blkkin_sys::testing::skip;

    /// The programs that do nothing are accepted wherever the process has the rights. What fails
    /// otherwise, fails because the kernel does not have it.
    #[test]
    fn each_attempt_says_why_it_fails() {
        let Ok(btf) = Btf::of_kernel() else { return skip("abilities", "no BTF") };
        let tracefs = match TraceFs::open() {
            Ok(tracefs) => tracefs,
            Err(error) => return skip("each_attempt_says_why_it_fails", &error.to_string()),
        };
        if let Err(error) = map_memory() {
            return skip("each_attempt_says_why_it_fails", &error.to_string());
        }
        raw_tracepoint(&btf).expect("a raw tracepoint");
        tracepoint(&tracefs).expect("a tracepoint");
        clock().expect("a clock");
        run_times().expect("run times");
        let call = tracefs.system_call("openat").expect("formats").expect("the call");
        recording(vec![call], &btf).expect("a recording");
        for result in [kernel_function(), typed_function(&btf), user_function()] {
            if let Err(inability) = result {
                assert_eq!(inability.kind, InabilityKind::Absent, "{inability}");
            }
        }
    }

    /// No program and no map of an attempt is left. The kernel numbers descriptors of this process
    /// from the lowest free one, so the next descriptor is the same if all were closed.
    #[test]
    fn attempts_leave_no_descriptor() {
        let count = || {
            let entries = fs::read_dir("/proc/self/fd").expect("the list of descriptors").flatten();
            let links = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
            let kinds = ["anon_inode:bpf", "anon_inode:[perf_event]"];
            let is_ours = |link: &std::path::PathBuf| {
                kinds.iter().any(|kind| link.to_string_lossy().starts_with(kind))
            };
            links.filter(is_ours).count()
        };
        // Other tests of this process may have descriptors open meanwhile.
        for _ in 0..100 {
            let _ = (map_memory(), clock(), kernel_function(), user_function());
            if count() == 0 {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        panic!("{} descriptors are left", count());
    }
}

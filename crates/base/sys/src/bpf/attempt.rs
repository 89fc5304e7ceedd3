//! Attempts: a program that does nothing is loaded, attached and removed again, which shows that
//! the kernel and the rights of this process permit it. Versions and configuration do not show it.

use super::{
    Attribute, Command, LICENCE, PERF_ATTRIBUTE_SIZE, PERF_FLAG_CLOSE_ON_EXEC, PROGRAM_TRACING,
    bpf, own, set_program,
};
use std::ffi::CString;
use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Program at a kernel or user function, through a performance event.
const PROGRAM_FUNCTION: u32 = 2;
/// Program at a performance event that is no tracepoint.
const PROGRAM_PERF_EVENT: u32 = 7;
/// Attachment of a tracing program to the entry of a function.
const ATTACH_FUNCTION_ENTRY: u32 = 24;
/// Type of the performance events that the kernel's software counts.
const PERF_SOFTWARE: u32 = 1;
/// Software event: the processor's clock.
const CPU_CLOCK: u64 = 0;
/// Period of the attempted clock in nanoseconds.
const CLOCK_PERIOD_NS: u64 = 10_000_000;
/// Directory of the types of performance events, for events whose type is chosen at boot.
const EVENT_SOURCES: &str = "/sys/bus/event_source/devices";

/// Code of the program: sets the result to 0 and ends.
const CODE: [u64; 2] = [0xb7, 0x95];

/// Hook at which an attempt is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptedHook<'h> {
    /// Function of the kernel, by a breakpoint at its first instruction ("kprobe").
    KernelFunction(&'h str),
    /// Function of the kernel that has this number in its BTF, by a call that the compiler left
    /// room for ("fentry").
    TypedFunction(u32),
    /// Instruction at an offset in a program's file ("uprobe"), for this process alone.
    UserInstruction {
        /// Path of the file.
        path: &'h Path,
        /// Offset of the instruction in the file, in bytes.
        offset: u64,
    },
    /// Clock of the first processor, which interrupts it at regular times.
    CpuClock,
}

/// Failed step of an [`attempt`].
#[derive(Debug)]
pub enum AttemptError {
    /// The kernel has no performance events of this type, `kprobe` or `uprobe`, or `/sys` is not
    /// mounted.
    NoEventSource(&'static str),
    /// Loading the program.
    Load(io::Error),
    /// Attaching the program.
    Attach(io::Error),
}

impl fmt::Display for AttemptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttemptError::NoEventSource(name) => write!(f, "{EVENT_SOURCES}/{name} is missing"),
            AttemptError::Load(error) => write!(f, "the program is not loaded: {error}"),
            AttemptError::Attach(error) => write!(f, "the program is not attached: {error}"),
        }
    }
}

impl std::error::Error for AttemptError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            AttemptError::NoEventSource(_) => None,
            AttemptError::Load(error) | AttemptError::Attach(error) => Some(error),
        }
    }
}

/// Loads a program that does nothing, attaches it, and removes both.
pub fn attempt(hook: AttemptedHook<'_>) -> Result<(), AttemptError> {
    match hook {
        AttemptedHook::TypedFunction(type_id) => {
            let attribute =
                program(PROGRAM_TRACING).u32(68, ATTACH_FUNCTION_ENTRY).u32(108, type_id);
            let program = load(attribute)?;
            let mut attribute = Attribute::new().descriptor(8, program.as_fd());
            let link = bpf(Command::RawTracepointOpen, &mut attribute);
            link.map(|link| drop(own(link))).map_err(AttemptError::Attach)
        }
        AttemptedHook::KernelFunction(name) => {
            let source = event_source("kprobe")?;
            let program = load(program(PROGRAM_FUNCTION))?;
            let event = Event { source, text: c_string(name.as_bytes())?, ..Event::default() };
            attach(&event, program.as_fd())
        }
        AttemptedHook::UserInstruction { path, offset } => {
            let source = event_source("uprobe")?;
            let program = load(program(PROGRAM_FUNCTION))?;
            let text = c_string(path.as_os_str().as_bytes())?;
            attach(
                &Event { source, text, offset, is_own: true, ..Event::default() },
                program.as_fd(),
            )
        }
        AttemptedHook::CpuClock => {
            let program = load(program(PROGRAM_PERF_EVENT))?;
            let event = Event {
                source: PERF_SOFTWARE,
                config: CPU_CLOCK,
                period: CLOCK_PERIOD_NS,
                ..Event::default()
            };
            attach(&event, program.as_fd())
        }
    }
}

fn c_string(bytes: &[u8]) -> Result<CString, AttemptError> {
    CString::new(bytes).map_err(|error| AttemptError::Attach(error.into()))
}

/// Returns the attribute by which a program of this type is loaded.
fn program(kind: u32) -> Attribute {
    Attribute::new()
        .u32(0, kind)
        .u32(4, CODE.len() as u32)
        .address(8, &CODE)
        .address(16, LICENCE)
        .name(48, "blkkin_attempt")
}

fn load(mut attribute: Attribute) -> Result<OwnedFd, AttemptError> {
    bpf(Command::ProgramLoad, &mut attribute).map(own).map_err(AttemptError::Load)
}

/// Reads the number of a type of performance events.
fn event_source(name: &'static str) -> Result<u32, AttemptError> {
    let text = fs::read_to_string(format!("{EVENT_SOURCES}/{name}/type"));
    let number = text.ok().and_then(|text| text.trim().parse().ok());
    number.ok_or(AttemptError::NoEventSource(name))
}

/// Performance event of an attempt.
#[derive(Debug, Default)]
struct Event {
    /// Type of the event.
    source: u32,
    config: u64,
    /// Number of occurrences for each run of the program; 0 for all of them.
    period: u64,
    /// Name of a function, or path of a file; empty for events without one.
    text: CString,
    offset: u64,
    /// Set if the event occurs only in this process.
    is_own: bool,
}

/// Opens an event, makes it run the program, and closes it.
fn attach(event: &Event, program: BorrowedFd<'_>) -> Result<(), AttemptError> {
    let mut attribute = [0u64; PERF_ATTRIBUTE_SIZE / 8];
    attribute[0] = u64::from(event.source) | (PERF_ATTRIBUTE_SIZE as u64) << 32;
    attribute[1] = event.config;
    attribute[2] = event.period;
    if !event.text.is_empty() {
        attribute[7] = event.text.as_ptr().expose_provenance() as u64;
    }
    attribute[8] = event.offset;
    let (process, processor) = if event.is_own { (0, -1) } else { (-1, 0) };
    let no_group = -1;
    // SAFETY: the attribute has the size that it tells, and the text whose address is in it ends
    // with NUL and lives until the call returns.
    #[expect(unsafe_code)]
    let result = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            attribute.as_ptr(),
            process,
            processor,
            no_group,
            PERF_FLAG_CLOSE_ON_EXEC,
        )
    };
    let descriptor = match i32::try_from(result) {
        Ok(descriptor) if descriptor >= 0 => own(descriptor),
        _ => return Err(AttemptError::Attach(io::Error::last_os_error())),
    };
    set_program(descriptor.as_fd(), program).map_err(AttemptError::Attach)
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use super::{AttemptError, AttemptedHook, attempt};
    use crate::testing::skip;
    use std::io::ErrorKind;
    use std::path::Path;

    /// The clock's program is accepted wherever the process has the rights, since each kernel with
    /// eBPF has it.
    #[test]
    fn a_program_at_the_clock() {
        match attempt(AttemptedHook::CpuClock) {
            Err(AttemptError::Load(error)) if error.kind() == ErrorKind::PermissionDenied => {
                skip("a_program_at_the_clock", &error.to_string());
            }
            result => result.expect("a program at the clock"),
        }
    }

    #[test]
    fn the_failed_step_is_named() {
        let path = Path::new("/proc/self/no-such-program");
        match attempt(AttemptedHook::UserInstruction { path, offset: 0 }) {
            Err(AttemptError::Attach(error)) => assert_eq!(error.kind(), ErrorKind::NotFound),
            Err(AttemptError::Load(error)) => assert_eq!(error.kind(), ErrorKind::PermissionDenied),
            Err(AttemptError::NoEventSource(name)) => assert_eq!(name, "uprobe"),
            Ok(()) => panic!("there is no such program"),
        }
        let result = attempt(AttemptedHook::TypedFunction(u32::MAX));
        let error = result.expect_err("there is no such type");
        assert!(matches!(error, AttemptError::Load(_)), "{error}");
        assert!(error.to_string().starts_with("the program is not loaded: "), "{error}");
    }
}

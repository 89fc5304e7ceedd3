//! Kinds of probes, and the error of a text that is not a probe.

use std::fmt;
use std::time::Duration;

/// Place in the kernel or in a program at which events are recorded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Probe {
    /// System calls, such as `syscall:openat` or `syscall:*`.
    SystemCall {
        /// Pattern of names, as [`SystemCall::name`](crate::SystemCall::name).
        name: String,
    },
    /// Tracepoints of the kernel, such as `block:block_rq_issue`, `sched:*`, or
    /// `tracepoint:sched:*`.
    Tracepoint {
        /// Pattern of names of subsystems.
        subsystem: String,
        /// Pattern of names within the subsystem.
        name: String,
    },
    /// Moment in the life of processes, such as `process:exec`.
    Process(ProcessMoment),
    /// Tracepoint of the kernel, with the arguments that the kernel passes to it, such as
    /// `raw:sched_switch`.
    RawTracepoint {
        /// Pattern of names.
        name: String,
    },
    /// Function of the kernel, such as `kprobe:vfs_unlink+4` or `fexit:vfs_unlink`.
    KernelFunction {
        /// Mechanism and moment.
        hook: KernelHook,
        /// Pattern of names of functions.
        function: String,
        /// Distance in bytes from the function's start. Not 0 only for `kprobe`, with one function.
        offset: u64,
    },
    /// Instruction of a program, such as `uprobe:bash:readline` or `uprobe:bash:0x1234`.
    UserInstruction {
        /// Path or name of the program, as for [`resolve`](crate::resolve).
        program: String,
        /// Instruction in the program.
        place: UserPlace,
    },
    /// Return from functions of a program, such as `uretprobe:bash:readline`.
    UserReturn {
        /// Path or name of the program, as for [`resolve`](crate::resolve).
        program: String,
        /// Pattern of names of functions, as for
        /// [`UserProgram::symbols`](crate::UserProgram::symbols).
        symbol: String,
    },
    /// USDT probes of a program, such as `usdt:python3:python:function__*`.
    Usdt {
        /// Path or name of the program, as for [`resolve`](crate::resolve).
        program: String,
        /// Pattern of names of providers.
        provider: String,
        /// Pattern of names within the provider.
        name: String,
    },
    /// Timer of each processor, such as `profile:99hz` or `profile:10ms`.
    Timer(TimerRate),
}

/// Moment in the life of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProcessMoment {
    /// Start of a process or a thread.
    Fork,
    /// Start of a program.
    Exec,
    /// End of a process.
    Exit,
}

/// Mechanism by which a probe is attached to a function of the kernel, and moment at which it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KernelHook {
    /// Trap at an instruction.
    Kprobe,
    /// Trap at the return from the function.
    Kretprobe,
    /// Call at the function's entry, with arguments by their types.
    Fentry,
    /// Call at the function's end, with arguments by their types and the result.
    Fexit,
}

/// Place of an instruction in a program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum UserPlace {
    /// Instruction of a function.
    Function {
        /// Pattern of names of functions, as for
        /// [`UserProgram::symbols`](crate::UserProgram::symbols).
        symbol: String,
        /// Distance in bytes from the function's start. Not 0 only with one function.
        offset: u64,
    },
    /// Address as in the program's table of symbols.
    Address(u64),
}

/// Rate of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimerRate {
    /// Number of events a second on each processor, from 1 to 10,000.
    Hertz(u32),
    /// Time between two events on a processor: 100 µs to 1 hour, in whole microseconds.
    Period(Duration),
}

impl TimerRate {
    /// Returns the time between two events on a processor, in nanoseconds.
    pub fn period_ns(self) -> u64 {
        match self {
            TimerRate::Hertz(hertz) => 1_000_000_000 / u64::from(hertz.max(1)),
            TimerRate::Period(period) => u64::try_from(period.as_nanos()).unwrap_or(u64::MAX),
        }
    }
}

impl Probe {
    /// Returns the word before the first colon of the probe's text.
    pub fn kind(&self) -> &'static str {
        match self {
            Probe::SystemCall { .. } => "syscall",
            Probe::Tracepoint { .. } => "tracepoint",
            Probe::Process(_) => "process",
            Probe::RawTracepoint { .. } => "raw",
            Probe::KernelFunction { hook: KernelHook::Kprobe, .. } => "kprobe",
            Probe::KernelFunction { hook: KernelHook::Kretprobe, .. } => "kretprobe",
            Probe::KernelFunction { hook: KernelHook::Fentry, .. } => "fentry",
            Probe::KernelFunction { hook: KernelHook::Fexit, .. } => "fexit",
            Probe::UserInstruction { .. } => "uprobe",
            Probe::UserReturn { .. } => "uretprobe",
            Probe::Usdt { .. } => "usdt",
            Probe::Timer(_) => "profile",
        }
    }
}

/// Error in the text of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeError {
    /// The text; its start if it is long.
    pub text: String,
    /// Number of the character at which the error is, from 1.
    pub position: usize,
    /// Content that is expected there.
    pub expected: String,
    /// Kind of probe that was probably meant.
    pub suggestion: Option<&'static str>,
}

impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ProbeError { text, position, expected, suggestion } = self;
        write!(f, "probe `{text}`, character {position}: expected {expected}")?;
        match suggestion {
            Some(kind) => write!(f, "; did you mean `{kind}`?"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ProbeError {}

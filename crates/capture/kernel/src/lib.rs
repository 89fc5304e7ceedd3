//! Probes that record events of the kernel. They write CTF events into rings with the layout of the
//! crate `blkkin-ring`, so the reader of traced programs' rings reads them too.
//!
//! Probes are made at run time ([`Probes`]) and record into rings ([`KernelRings`]). A [`Recorder`]
//! is both, with readers. `assembler` makes eBPF; `ring_code` makes the code that writes into
//! rings, and `chosen` the code that selects the processes to record. `syscall_code`,
//! `process_code`, `cgroup_code`, `uring_code` (requests of io_uring), `record_code` (tracepoints),
//! `function_code` (functions and raw tracepoints) and `request_code` (what is done for requests)
//! make the programs; `redaction_code` replaces texts. Offsets of fields in the kernel's
//! structures, and arguments of its functions, come from its types ([`Btf`]). The arguments of
//! system calls and the fields of tracepoints come from its tracing file system ([`TraceFs`]).
//! Locations of user-space probes come from ELF files ([`UserProgram`]). All three are untrusted
//! input: memory is bounded by the size of the file or by a limit, and an error states the offset
//! and the expected content.
//!
//! [`Listing`] finds the probes of this machine by pattern, and [`abilities`] tries which kinds of
//! probes it permits.

pub mod abilities;
mod assembler;
mod btf;
mod call_type;
mod cgroup;
mod cgroup_code;
mod chosen;
mod cpu_share;
mod error;
mod event_code;
mod event_format;
mod event_type;
mod filter_code;
mod frame;
mod function_code;
mod function_pattern;
mod function_point;
mod function_probe;
mod function_type;
mod inability;
mod listing;
mod load;
mod own_function;
mod probe;
mod probe_cost;
mod process_code;
mod program;
mod read_code;
mod record_code;
mod record_type;
mod recorder;
mod redaction;
mod redaction_code;
mod request_code;
mod ring_code;
mod rings;
mod span_slots;
pub mod state;
mod syscall_code;
mod system_calls;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod timer_probe;
mod tracefs;
mod tracer;
mod uring_code;
mod user_code;
mod user_probe;
mod user_refusal;
mod user_type;

pub use btf::{Btf, BtfError, FieldPlace, Function, Parameter, RawTracepoint, ValueForm};
pub use cgroup::Cgroup;
pub use chosen::{ChosenProcesses, kernel_name};
pub use cpu_share::CpuShare;
pub use error::{Error, ProbeRefusal};
pub use event_format::{EventFormat, FieldKind, FormatError, FormatField};
pub use event_type::EventTypes;
pub use function_point::{FunctionPoint, FunctionProbe, ProcessScope};
pub use inability::{Inability, InabilityKind};
pub use listing::{
    ArgumentRole, FoundProbes, ListedArgument, ListedProbe, Listing, ProbeKind, sample_rate_max,
};
pub use probe::{KernelHook, Probe, ProbeError, ProcessMoment, TimerRate, UserPlace};
pub use program::{
    ArgumentLocation, ProgramError, ProgramErrorKind, Register, ResolveError, ScaledIndex, Symbol,
    UsdtArgument, UsdtProbe, UserProgram, resolve,
};
pub use recorder::{Probes, Recorder, Selection, SettledMoment, TracepointProbe};
pub use redaction::HashKey;
pub use request_code::RequestEvents;
pub use rings::{Contexts, KernelRings, RingOptions};
pub use span_slots::SpanSlots;
pub use timer_probe::TimerProbe;
pub use tracefs::{Argument, EventName, SystemCall, TraceFs, TraceFsError};
pub use tracer::trace_for_agent;
pub use uring_code::UringTracepoints;
pub use user_probe::UserProbe;
pub use user_refusal::UserRefusal;

//! The kernel as a traced program: probes that write CTF events into rings, in the layout of the
//! crate `blkkin-ring`, which the same reader reads.
//!
//! Probes are made at run time ([`Recorder`]): `assembler` makes eBPF, `ring_code` the part that
//! writes into rings, `chosen` the part that knows the processes to record; `syscall_code`,
//! `process_code` and `record_code` (tracepoints) make the programs. Places of fields in the
//! kernel's structures come from its types ([`Btf`]), the arguments of system calls and the fields
//! of tracepoints from its tracing file system ([`TraceFs`]), places for user-space probes from ELF
//! files ([`UserProgram`]). All are treated as hostile: memory is bounded by the size of the file
//! or by a limit, and errors name the place and what was expected there.

mod assembler;
mod btf;
mod call_type;
mod chosen;
mod error;
mod event_format;
mod frame;
mod process_code;
mod program;
mod record_code;
mod record_type;
mod recorder;
mod ring_code;
pub mod state;
mod syscall_code;
pub mod system_calls;
mod tracefs;

pub use btf::{Btf, BtfError, FieldPlace, Function, Parameter, RawTracepoint};
pub use chosen::{ChosenProcesses, kernel_name};
pub use error::Error;
pub use event_format::{EventFormat, FieldKind, FormatError, FormatField};
pub use program::{
    ArgumentLocation, ProgramError, ProgramErrorKind, Register, ResolveError, ScaledIndex, Symbol,
    UsdtArgument, UsdtProbe, UserProgram, resolve,
};
pub use recorder::{Recorder, Selection, SettledMoment};
pub use tracefs::{Argument, EventName, SystemCall, TraceFs, TraceFsError};

//! Reasons for which a probe on a program is not possible.

use crate::program::{ProgramError, ResolveError};
use std::fmt;
use std::io;

/// Maximum number of instructions of a probe.
pub(crate) const INSTRUCTIONS_MAX: usize = 4096;

/// Reason for which a probe on a program is not possible.
#[derive(Debug)]
pub enum UserRefusal {
    /// The probe is not on a program.
    NotUser,
    /// No file of a program is found.
    Resolve(ResolveError),
    /// The file cannot be read.
    Program(ProgramError),
    /// Nothing in the file matches; the text names what was searched for.
    Nothing(&'static str),
    /// More instructions match than a probe may have.
    TooMany {
        /// Number of matching instructions.
        count: usize,
    },
    /// The address is not that of code in the file.
    NoCode {
        /// Address in the program.
        address: u64,
    },
    /// The offset is beyond the function.
    OutsideFunction {
        /// Size of the function in bytes; 0 if the program does not state it.
        size: u64,
    },
    /// The kernel was built without uprobes.
    NoUprobes,
    /// The kernel does not accept the instruction.
    NotProbed(io::Error),
}

impl From<ProgramError> for UserRefusal {
    fn from(error: ProgramError) -> UserRefusal {
        UserRefusal::Program(error)
    }
}

impl fmt::Display for UserRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UserRefusal::NotUser => {
                f.write_str("it is no probe on a program: `uprobe`, `uretprobe` or `usdt`")
            }
            UserRefusal::Resolve(error) => error.fmt(f),
            UserRefusal::Program(error) => error.fmt(f),
            UserRefusal::Nothing("function") => f.write_str(
                "the program has no such function: the compiler may have inlined it, and the \
                 functions of a stripped program are known only with its debug file",
            ),
            UserRefusal::Nothing(subject) => write!(f, "the program has no such {subject}"),
            UserRefusal::TooMany { count } => write!(
                f,
                "{count} places match, and a probe has at most {INSTRUCTIONS_MAX}; use a narrower \
                 pattern"
            ),
            UserRefusal::NoCode { address } => {
                write!(f, "the file has no code at address {address:#x}; `nm` lists addresses")
            }
            UserRefusal::OutsideFunction { size: 0 } => {
                f.write_str("the program does not state the function's size; give an address")
            }
            UserRefusal::OutsideFunction { size } => {
                write!(f, "the offset is outside of the function, which has {size} bytes")
            }
            UserRefusal::NoUprobes => f.write_str(
                "the kernel has no uprobes: it was built without CONFIG_UPROBE_EVENTS; use a \
                 kernel with it",
            ),
            UserRefusal::NotProbed(error) => write!(
                f,
                "the kernel accepts no probe there ({error}); the place must be the start of an \
                 instruction in a file that can be mapped for execution"
            ),
        }
    }
}

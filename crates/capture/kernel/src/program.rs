//! Programs as places for user-space probes: reads functions and USDT probes of an ELF file, and
//! finds the file by the name that a user gives.
//!
//! ```text
//! ELF header   class, byte order, machine; where the two tables are
//! segments     PT_LOAD maps addresses to offsets in the file; PT_NOTE has the build id
//! sections     .symtab, .dynsym: symbols, with their names in the section of the link
//!              .note.stapsdt: USDT probes; .stapsdt.base: address for prelinked files
//!              .gnu_debuglink: name of the separate file with .symtab
//! ```
//!
//! [`UserProgram`] is the entry point; [`resolve`] finds its path. Parts of a file are read when a
//! query needs them. Files are hostile: each part is checked against the file's size and a limit
//! before memory is allocated, and the work is linear in the size of the file.

mod argument;
mod build_id;
mod debug_file;
mod demangle;
mod elf;
mod error;
mod file;
mod library_cache;
mod names;
mod notes;
mod pattern;
mod resolve;
mod source;
mod symbols;
mod usdt;

#[cfg(test)]
mod tests;

pub use argument::{ArgumentLocation, Register, ScaledIndex, UsdtArgument};
pub use error::{ProgramError, ProgramErrorKind};
pub use file::UserProgram;
pub use resolve::{ResolveError, resolve};
pub use symbols::Symbol;
pub use usdt::UsdtProbe;

pub(crate) use pattern::matches_pattern;

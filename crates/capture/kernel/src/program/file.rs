//! [`UserProgram`]: opens a program and answers queries of it.

use super::elf::Elf;
use super::error::{ProgramError, ProgramErrorKind};
use super::source::Source;
use super::symbols::{Symbol, SymbolFiles};
use super::usdt::{self, UsdtProbe};
use super::{build_id, debug_file};
use std::path::{Path, PathBuf};

/// Executable or shared library.
#[derive(Debug)]
pub struct UserProgram {
    path: PathBuf,
    elf: Elf,
    /// Separate file with the symbols of a stripped program.
    debug: Option<Elf>,
    build_id: Option<Vec<u8>>,
}

impl UserProgram {
    /// Opens a 64-bit little-endian ELF file, and its separate debug file if it is stripped and
    /// such a file with the same build id is installed.
    pub fn open(path: &Path) -> Result<UserProgram, ProgramError> {
        let error = |kind| ProgramError { path: path.to_owned(), kind };
        let elf = Source::open(path).and_then(Elf::parse).map_err(error)?;
        let mut program = UserProgram::of(path.to_owned(), elf);
        if program.elf.sections_of(super::elf::SHT_SYMTAB).next().is_none() {
            program.debug = debug_file::find(path, &program.elf, program.build_id());
        }
        Ok(program)
    }

    /// Parses an ELF file in memory.
    pub fn parse(bytes: Vec<u8>) -> Result<UserProgram, ProgramError> {
        let error = |kind| ProgramError { path: PathBuf::new(), kind };
        let elf = Elf::parse(Source::in_memory(bytes)).map_err(error)?;
        Ok(UserProgram::of(PathBuf::new(), elf))
    }

    fn of(path: PathBuf, elf: Elf) -> UserProgram {
        let build_id = build_id::find(&elf);
        UserProgram { path, elf, debug: None, build_id }
    }

    /// Path with which the program was opened. Empty for a program in memory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true for a program that runs at any address, as libraries and most programs do.
    pub fn is_position_independent(&self) -> bool {
        self.elf.is_position_independent
    }

    /// Build id: identifies the link that made the program.
    pub fn build_id(&self) -> Option<&[u8]> {
        self.build_id.as_deref()
    }

    /// Returns true if the symbols are those of a separate debug file.
    pub fn has_debug_file(&self) -> bool {
        self.debug.is_some()
    }

    /// Returns the functions that the pattern matches, in the order of the file. `*` in a pattern
    /// stands for any number of characters. A pattern matches the whole name in the table of
    /// symbols, the whole demangled name, or the latter without the parameters of a C++ function.
    /// Functions that the linker chooses at run time (`STT_GNU_IFUNC`) are left out.
    pub fn symbols(&self, pattern: &str) -> Result<Vec<Symbol>, ProgramError> {
        self.files().functions(pattern).map_err(|kind| self.error(kind))
    }

    /// Returns the offset in the file of the code at an address, as in the table of symbols.
    pub fn code_offset(&self, address: u64) -> Option<u64> {
        self.elf.code_offset(address)
    }

    /// Returns the USDT probes in the order of their notes. A probe with several locations has an
    /// entry for each of them.
    pub fn usdt(&self) -> Result<Vec<UsdtProbe>, ProgramError> {
        usdt::probes(&self.files()).map_err(|kind| self.error(kind))
    }

    fn files(&self) -> SymbolFiles<'_> {
        SymbolFiles { program: &self.elf, debug: self.debug.as_ref() }
    }

    fn error(&self, kind: ProgramErrorKind) -> ProgramError {
        ProgramError { path: self.path.clone(), kind }
    }
}

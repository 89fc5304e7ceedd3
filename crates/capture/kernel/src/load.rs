//! Loading of programs into the kernel, and attaching them.

use crate::assembler::Assembler;
use crate::error::Error;
use blkkin_sys::bpf::{AttachPoint, Link, Program};

/// Loads a program for an attach point. `name` is for the kernel and for errors.
pub(crate) fn load(name: &str, code: Assembler, place: AttachPoint) -> Result<Program, Error> {
    let program = || name.to_owned();
    let functions = code.described_functions();
    let code = code.assemble().ok_or_else(|| Error::TooLong(program()))?;
    Program::load_with_functions(name, &code, &functions, place).map_err(|failure| Error::Load {
        program: program(),
        error: failure.error,
        log: failure.log,
    })
}

/// Loads a program and attaches it.
pub(crate) fn attach(name: &str, code: Assembler, place: AttachPoint) -> Result<Link, Error> {
    load(name, code, place)?.attach().map_err(|error| Error::Attach(name.to_owned(), error))
}

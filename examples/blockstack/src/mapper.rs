//! The mapper, which is C: see `mapper/mapper.c`. The one unsafe call of this example, and what must happen before `main`.

#![allow(unsafe_code)]

use std::ffi::{CString, OsString, c_char, c_int};
use std::io;
use std::os::unix::ffi::OsStringExt;

// What the mapper calls.
use blkkin as _;

unsafe extern "C" {
    fn blockstack_mapper(argc: c_int, argv: *mut *mut c_char) -> c_int;
}

/// Called before `main`, ahead of BlkKin's library: whoever links this crate is another program until it is started as a
/// role, as `blkkin demo` is.
// SAFETY: this section holds pointers to such functions. What it calls sets a flag.
#[used]
#[unsafe(link_section = ".init_array.00100")]
static AHEAD: extern "C" fn() = ahead;

extern "C" fn ahead() {
    blkkin_trace::daemon::hold();
}

/// This is a role, and traced from now on.
pub(crate) fn is_a_role() {
    std::hint::black_box(&AHEAD);
    blkkin_trace::daemon::let_go();
}

/// Runs it with these arguments; its exit status.
pub(crate) fn run(arguments: Vec<OsString>) -> io::Result<u8> {
    let arguments = std::iter::once("mapper".into()).chain(arguments);
    let texts: Result<Vec<CString>, _> =
        arguments.map(|argument| CString::new(argument.into_vec())).collect();
    let mut bytes: Vec<Vec<u8>> = texts?.into_iter().map(CString::into_bytes_with_nul).collect();
    let count = c_int::try_from(bytes.len()).map_err(io::Error::other)?;
    let mut pointers: Vec<*mut c_char> =
        bytes.iter_mut().map(|text| text.as_mut_ptr().cast()).collect();
    pointers.push(std::ptr::null_mut());
    // SAFETY: as `main` gets them: `count` pointers to strings that end with a NUL, and a null pointer behind
    // them. All may be written to, and live in `bytes` and `pointers` until the call is over. What it keeps of
    // them in variables of its own, nobody looks at after that: the process ends with the role.
    let status = unsafe { blockstack_mapper(count, pointers.as_mut_ptr()) };
    Ok(u8::try_from(status).unwrap_or(1))
}

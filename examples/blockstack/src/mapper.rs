//! The mapper, which is written in C: see `mapper/mapper.c`. This module contains the example's
//! only unsafe call, and its code that runs before `main`.

#![allow(unsafe_code)]

use std::ffi::{CString, OsString, c_char, c_int};
use std::io;
use std::os::unix::ffi::OsStringExt;

// Links the C library that the mapper calls.
use blkkin as _;

unsafe extern "C" {
    fn blockstack_mapper(argc: c_int, argv: *mut *mut c_char) -> c_int;
}

/// Constructor that postpones the start of tracing. It runs before `main` and before BlkKin's own
/// initialization. A program that links this crate, such as `blkkin demo`, must not be traced under
/// its own name before it is started as a role.
// SAFETY: the section contains pointers to functions of this type. The function only sets a flag.
#[used]
#[unsafe(link_section = ".init_array.00100")]
static INITIALIZER: extern "C" fn() = hold_tracing;

extern "C" fn hold_tracing() {
    blkkin_trace::daemon::postpone_start();
}

/// Starts tracing, once the process is known to be a role.
pub(crate) fn start_tracing() {
    std::hint::black_box(&INITIALIZER);
    blkkin_trace::daemon::start_postponed();
}

/// Runs the mapper with these arguments and returns its exit status.
pub(crate) fn run(arguments: Vec<OsString>) -> io::Result<u8> {
    let arguments = std::iter::once("mapper".into()).chain(arguments);
    let texts: Result<Vec<CString>, _> =
        arguments.map(|argument| CString::new(argument.into_vec())).collect();
    let mut bytes: Vec<Vec<u8>> = texts?.into_iter().map(CString::into_bytes_with_nul).collect();
    let count = c_int::try_from(bytes.len()).map_err(io::Error::other)?;
    let mut pointers: Vec<*mut c_char> =
        bytes.iter_mut().map(|text| text.as_mut_ptr().cast()).collect();
    pointers.push(std::ptr::null_mut());
    // SAFETY: the arguments are as for `main`: `count` pointers to NUL-terminated strings, and a
    // null pointer after them. All are writable and live in `bytes` and `pointers` until the call
    // returns. The mapper keeps some in static variables, but they are not used after the call: the
    // process ends with the role.
    let status = unsafe { blockstack_mapper(count, pointers.as_mut_ptr()) };
    Ok(u8::try_from(status).unwrap_or(1))
}

//! From pointers of C to an annotation that can be trusted: all checks, then the tracer.

use crate::emit;
use crate::layout::{Endpoint, INVALID, OK, Trace};
use std::ffi::{c_char, c_int, c_uint};

/// How many levels there are.
const LEVELS: c_uint = 15;

/// The level of everything that is recorded by blkin's functions.
pub(crate) const WARNING: c_uint = 4;

/// What an annotation says, unchecked.
#[derive(Clone, Copy)]
pub(crate) enum Said {
    Event(*const c_char),
    String { key: *const c_char, val: *const c_char },
    Integer { key: *const c_char, val: i64 },
}

impl Said {
    fn lacks_something(self) -> bool {
        match self {
            Said::Event(event) => event.is_null(),
            Said::String { key, val } => key.is_null() || val.is_null(),
            Said::Integer { key, .. } => key.is_null(),
        }
    }
}

/// Records, if everything that it needs is there. Without an endpoint, the trace's is used.
///
/// Arguments are checked whether somebody listens or not, so that a program finds its errors.
///
/// # Safety
///
/// See the crate.
// Inlined, each caller checks only what it has: that saves a third of an annotation that is off.
#[inline(always)]
pub(crate) unsafe fn record(
    trace: *const Trace,
    endpoint: *const Endpoint,
    level: c_uint,
    said: Said,
) -> c_int {
    if level >= LEVELS {
        return INVALID;
    }
    // SAFETY: the caller owes the same.
    unsafe {
        if !emit::is_enabled(level) {
            return if checked(trace, endpoint, said).is_some() { OK } else { INVALID };
        }
        match said {
            Said::Event(said) => event(trace, endpoint, level, said),
            Said::String { key, val } => string(trace, endpoint, level, key, val),
            Said::Integer { key, val } => integer(trace, endpoint, level, key, val),
        }
    }
}

/// Something happened. As the two below, it gets all in registers, and is not inlined: the memory for an
/// event would become the caller's, also of one who has nothing to record.
///
/// # Safety
///
/// See the crate.
#[inline(never)]
unsafe fn event(
    trace: *const Trace,
    endpoint: *const Endpoint,
    level: c_uint,
    event: *const c_char,
) -> c_int {
    // SAFETY: the caller owes the same.
    unsafe { check_and_emit(trace, endpoint, level, Said::Event(event)) }
}

/// Something is the case, told as a string.
///
/// # Safety
///
/// See the crate.
#[inline(never)]
unsafe fn string(
    trace: *const Trace,
    endpoint: *const Endpoint,
    level: c_uint,
    key: *const c_char,
    val: *const c_char,
) -> c_int {
    // SAFETY: the caller owes the same.
    unsafe { check_and_emit(trace, endpoint, level, Said::String { key, val }) }
}

/// Something is the case, told as an integer.
///
/// # Safety
///
/// See the crate.
#[inline(never)]
unsafe fn integer(
    trace: *const Trace,
    endpoint: *const Endpoint,
    level: c_uint,
    key: *const c_char,
    val: i64,
) -> c_int {
    // SAFETY: the caller owes the same.
    unsafe { check_and_emit(trace, endpoint, level, Said::Integer { key, val }) }
}

/// # Safety
///
/// See the crate.
#[inline(always)]
unsafe fn check_and_emit(
    trace: *const Trace,
    endpoint: *const Endpoint,
    level: c_uint,
    said: Said,
) -> c_int {
    // SAFETY: the caller's pointers are NULL or valid; no string of a checked annotation is NULL, and all
    // stay as they are during the call.
    unsafe {
        let Some((trace, endpoint)) = checked(trace, endpoint, said) else { return INVALID };
        if !trace.info.is_followed() {
            return OK;
        }
        emit::emit(trace, endpoint, level, said);
    }
    OK
}

/// The trace and its effective endpoint, if no string that is needed is NULL.
///
/// # Safety
///
/// See the crate.
#[inline(always)]
unsafe fn checked<'a>(
    trace: *const Trace,
    endpoint: *const Endpoint,
    said: Said,
) -> Option<(&'a Trace, &'a Endpoint)> {
    if said.lacks_something() {
        return None;
    }
    // SAFETY: NULL, or valid; all fields of a trace are set, and nobody changes them during the call.
    let trace = unsafe { trace.as_ref() }?;
    let endpoint = if endpoint.is_null() { trace.endpoint } else { endpoint };
    // SAFETY: as above.
    let endpoint = unsafe { endpoint.as_ref() }?;
    let is_complete = !(trace.name.is_null() || endpoint.ip.is_null() || endpoint.name.is_null());
    is_complete.then_some((trace, endpoint))
}

//! From pointers of C to an annotation that can be trusted: all checks, then the tracer.

use crate::emit;
use crate::layout::{Endpoint, INVALID, OK, Trace};
use crate::raw_annotation::RawAnnotation;
use std::ffi::{c_char, c_int, c_uint};

/// How many levels there are.
const LEVELS: c_uint = 15;

/// The level of everything that is recorded by blkin's functions.
pub(crate) const WARNING: c_uint = 4;

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
    annotation: RawAnnotation,
) -> c_int {
    if level >= LEVELS {
        return INVALID;
    }
    // SAFETY: the caller owes the same.
    unsafe {
        if !emit::is_enabled(level) {
            return if checked(trace, endpoint, annotation).is_some() { OK } else { INVALID };
        }
        match annotation {
            RawAnnotation::Event(text) => record_event(trace, endpoint, level, text),
            RawAnnotation::String { key, val } => record_string(trace, endpoint, level, key, val),
            RawAnnotation::Integer { key, val } => record_integer(trace, endpoint, level, key, val),
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
unsafe fn record_event(
    trace: *const Trace,
    endpoint: *const Endpoint,
    level: c_uint,
    event: *const c_char,
) -> c_int {
    // SAFETY: the caller owes the same.
    unsafe { check_and_emit(trace, endpoint, level, RawAnnotation::Event(event)) }
}

/// Something is the case, told as a string.
///
/// # Safety
///
/// See the crate.
#[inline(never)]
unsafe fn record_string(
    trace: *const Trace,
    endpoint: *const Endpoint,
    level: c_uint,
    key: *const c_char,
    val: *const c_char,
) -> c_int {
    // SAFETY: the caller owes the same.
    unsafe { check_and_emit(trace, endpoint, level, RawAnnotation::String { key, val }) }
}

/// Something is the case, told as an integer.
///
/// # Safety
///
/// See the crate.
#[inline(never)]
unsafe fn record_integer(
    trace: *const Trace,
    endpoint: *const Endpoint,
    level: c_uint,
    key: *const c_char,
    val: i64,
) -> c_int {
    // SAFETY: the caller owes the same.
    unsafe { check_and_emit(trace, endpoint, level, RawAnnotation::Integer { key, val }) }
}

/// # Safety
///
/// See the crate.
#[inline(always)]
unsafe fn check_and_emit(
    trace: *const Trace,
    endpoint: *const Endpoint,
    level: c_uint,
    annotation: RawAnnotation,
) -> c_int {
    // SAFETY: the caller's pointers are NULL or valid; no string of a checked annotation is NULL, and all
    // stay as they are during the call.
    unsafe {
        let Some((trace, endpoint)) = checked(trace, endpoint, annotation) else { return INVALID };
        if !trace.info.is_followed() {
            return OK;
        }
        emit::emit(trace, endpoint, level, annotation);
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
    annotation: RawAnnotation,
) -> Option<(&'a Trace, &'a Endpoint)> {
    if annotation.lacks_string() {
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

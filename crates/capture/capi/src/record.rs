//! Validates annotations from callers in C, and records the valid ones.

use crate::emit;
use crate::layout::{Endpoint, INVALID, OK, Trace};
use crate::raw_annotation::RawAnnotation;
use std::ffi::{c_char, c_int, c_uint};

/// Number of severity levels of annotations; valid levels are 0 to 14.
const LEVELS: c_uint = 15;

/// Level of the annotations that blkin's functions record.
pub(crate) const WARNING: c_uint = 4;

/// Records an annotation if its level is recorded and its request is sampled. If `endpoint` is
/// NULL, the trace's endpoint is used. Returns [`INVALID`] for an unknown level, or if the trace,
/// the endpoint or a required string is NULL.
///
/// Arguments are validated even if the level is not recorded, so that a program finds its errors.
///
/// # Safety
///
/// See "Safety" in the crate's documentation.
// Inlined, so that each caller validates only its own variant: that saves a third of the cost of an
// annotation that is not recorded.
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
    // SAFETY: by the caller's promise.
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

/// Records an annotation with an event. Like `record_string` and `record_integer`, this function
/// gets all arguments in registers and is not inlined. Inlined, the memory for an event would
/// become part of the caller's stack frame, even if nothing is recorded.
///
/// # Safety
///
/// See "Safety" in the crate's documentation.
#[inline(never)]
unsafe fn record_event(
    trace: *const Trace,
    endpoint: *const Endpoint,
    level: c_uint,
    event: *const c_char,
) -> c_int {
    // SAFETY: by the caller's promise.
    unsafe { check_and_emit(trace, endpoint, level, RawAnnotation::Event(event)) }
}

/// Records an annotation with a key and a string.
///
/// # Safety
///
/// See "Safety" in the crate's documentation.
#[inline(never)]
unsafe fn record_string(
    trace: *const Trace,
    endpoint: *const Endpoint,
    level: c_uint,
    key: *const c_char,
    val: *const c_char,
) -> c_int {
    // SAFETY: by the caller's promise.
    unsafe { check_and_emit(trace, endpoint, level, RawAnnotation::String { key, val }) }
}

/// Records an annotation with a key and an integer.
///
/// # Safety
///
/// See "Safety" in the crate's documentation.
#[inline(never)]
unsafe fn record_integer(
    trace: *const Trace,
    endpoint: *const Endpoint,
    level: c_uint,
    key: *const c_char,
    val: i64,
) -> c_int {
    // SAFETY: by the caller's promise.
    unsafe { check_and_emit(trace, endpoint, level, RawAnnotation::Integer { key, val }) }
}

/// Validates an annotation, and records it if its request is sampled.
///
/// # Safety
///
/// See "Safety" in the crate's documentation.
#[inline(always)]
unsafe fn check_and_emit(
    trace: *const Trace,
    endpoint: *const Endpoint,
    level: c_uint,
    annotation: RawAnnotation,
) -> c_int {
    // SAFETY: the caller's pointers are NULL or valid; no string of a checked annotation is NULL,
    // and none changes during the call.
    unsafe {
        let Some((trace, endpoint)) = checked(trace, endpoint, annotation) else { return INVALID };
        if !trace.info.is_followed() {
            return OK;
        }
        emit::emit(trace, endpoint, level, annotation);
    }
    OK
}

/// Returns the trace and the endpoint to record: the given endpoint, or else the trace's. Returns
/// `None` if the trace, the endpoint or a required string is NULL.
///
/// # Safety
///
/// See "Safety" in the crate's documentation.
#[inline(always)]
unsafe fn checked<'a>(
    trace: *const Trace,
    endpoint: *const Endpoint,
    annotation: RawAnnotation,
) -> Option<(&'a Trace, &'a Endpoint)> {
    if annotation.lacks_string() {
        return None;
    }
    // SAFETY: NULL, or valid; all fields of a trace are set, and no thread changes them during the
    // call.
    let trace = unsafe { trace.as_ref() }?;
    let endpoint = if endpoint.is_null() { trace.endpoint } else { endpoint };
    // SAFETY: as above.
    let endpoint = unsafe { endpoint.as_ref() }?;
    let is_complete = !(trace.name.is_null() || endpoint.ip.is_null() || endpoint.name.is_null());
    is_complete.then_some((trace, endpoint))
}

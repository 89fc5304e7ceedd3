//! From pointers of C to an annotation that can be trusted: all checks, then the tracer.

use crate::emit;
use crate::layout::{Endpoint, INVALID, OK, Trace};
use blkkin_trace::Level;
use std::ffi::{c_char, c_int, c_uint};

/// By their numbers.
pub(crate) const LEVELS: [Level; 15] = [
    Level::Emergency,
    Level::Alert,
    Level::Critical,
    Level::Error,
    Level::Warning,
    Level::Notice,
    Level::Info,
    Level::DebugSystem,
    Level::DebugProgram,
    Level::DebugProcess,
    Level::DebugModule,
    Level::DebugUnit,
    Level::DebugFunction,
    Level::DebugLine,
    Level::Debug,
];

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
    let level = usize::try_from(level).ok().and_then(|level| LEVELS.get(level));
    let Some(level) = level.filter(|_| !said.lacks_something()) else { return INVALID };
    // SAFETY: the caller's pointers are NULL or valid.
    let Some((trace, endpoint)) = (unsafe { complete(trace, endpoint) }) else { return INVALID };
    if emit::is_enabled(*level) {
        // SAFETY: no string is NULL; all live and stay as they are until this function returns.
        unsafe { emit::emit(&trace, &endpoint, *level, said) };
    }
    OK
}

/// The trace and its effective endpoint, if none of their strings is NULL.
///
/// # Safety
///
/// See the crate.
unsafe fn complete(trace: *const Trace, endpoint: *const Endpoint) -> Option<(Trace, Endpoint)> {
    // SAFETY: not NULL inside `then`, so valid; all fields of a trace are set.
    let trace = (!trace.is_null()).then(|| unsafe { trace.read() })?;
    let endpoint = if endpoint.is_null() { trace.endpoint } else { endpoint };
    // SAFETY: as above.
    let endpoint = (!endpoint.is_null()).then(|| unsafe { endpoint.read() })?;
    let is_complete = !(trace.name.is_null() || endpoint.ip.is_null() || endpoint.name.is_null());
    is_complete.then_some((trace, endpoint))
}

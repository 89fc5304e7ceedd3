//! The structures of `blkkin.h`, except those of events with fields, with compile-time checks of
//! their layout.

use std::ffi::{c_char, c_int, c_uint};
use std::mem::{align_of, offset_of, size_of};

/// Service that a span runs in, with its address and port; the structure `blkin_endpoint` in C.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "blkkin.h explains the fields")]
pub struct Endpoint {
    pub ip: *const c_char,
    pub port: c_int,
    pub name: *const c_char,
}

/// Ids of a request, a span and its parent span; the structure `blkin_trace_info` in C.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "blkkin.h explains the fields")]
pub struct TraceInfo {
    pub trace_id: i64,
    pub span_id: i64,
    pub parent_span_id: i64,
}

impl TraceInfo {
    /// Ids shared by all traces whose request is not sampled. Their children get the same ids, also
    /// in other processes, because messages carry nothing but the ids. No sampled trace has these
    /// ids; ids that were never set are all zeros.
    pub const NOT_FOLLOWED: TraceInfo = TraceInfo { trace_id: 0, span_id: -1, parent_span_id: 0 };

    /// Returns true if the request is sampled.
    #[inline(always)]
    pub fn is_followed(&self) -> bool {
        self.trace_id != 0 || self.span_id != TraceInfo::NOT_FOLLOWED.span_id
    }
}

/// The structure `blkin_trace_info_packed` of C: the three ids, big-endian.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedTraceInfo(pub [[u8; 8]; 3]);

/// A program's span with its name, ids and endpoint; the structure `blkin_trace` in C.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "blkkin.h explains the fields")]
pub struct Trace {
    pub name: *const c_char,
    pub info: TraceInfo,
    pub endpoint: *const Endpoint,
}

/// An annotation to record; the structure `blkin_annotation` in C. The `key` of a timestamp is
/// never written, so it must not be read.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "blkkin.h explains the fields")]
pub struct Annotation {
    pub kind: c_uint,
    pub key: *const c_char,
    pub value: Value,
    pub endpoint: *const Endpoint,
}

/// Value of an annotation; its kind selects the variant.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "the names say it")]
pub union Value {
    pub string: *const c_char,
    pub integer: i64,
}

/// Value of [`Annotation::kind`] for a key with a string. Unknown values count as [`TIMESTAMP`].
pub const STRING: c_uint = 0;
/// Value of [`Annotation::kind`] for a key with an integer.
pub const INTEGER: c_uint = 1;
/// Value of [`Annotation::kind`] for a moment without a key.
pub const TIMESTAMP: c_uint = 2;

/// Ids and flags that headers propagate; the structure `blkkin_context` in C.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "blkkin.h explains the fields")]
pub struct Context {
    pub info: TraceInfo,
    pub trace_id_high: i64,
    pub flags: u32,
}

/// Guard of a span that a thread has entered; the structure `blkkin_entered` in C.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EnteredSpan {
    /// The thread's former current span, if it has to be restored.
    pub replaced: [u64; 4],
    /// 1 if `replaced` has to be restored, otherwise 0.
    pub restores: u64,
}

/// Flag of a [`Context`], `BLKKIN_SAMPLED`: the request is sampled.
pub const SAMPLED: u32 = 1;
/// Flag of a [`Context`], `BLKKIN_RANDOM`: the trace id is known to be random.
pub const RANDOM: u32 = 2;
/// Flag of a [`Context`], `BLKKIN_DEBUG_TRACE`: the request is sampled whatever other samplers
/// decide.
pub const DEBUG_TRACE: u32 = 4;
/// Flag of a [`Context`], `BLKKIN_DEFERRED`: the receiver decides whether the request is sampled.
pub const DEFERRED: u32 = 8;

/// Return value for success of a C function. [`INVALID`] is `-EINVAL` and [`NO_SPACE`] is
/// `-ENOSPC`, whose numbers are the same on all architectures of Linux.
pub(crate) const OK: c_int = 0;
pub(crate) const INVALID: c_int = -22;
pub(crate) const NO_SPACE: c_int = -28;

const _: () = {
    assert!(size_of::<TraceInfo>() == 24 && size_of::<PackedTraceInfo>() == 24);
    assert!(offset_of!(TraceInfo, span_id) == 8 && offset_of!(TraceInfo, parent_span_id) == 16);
    assert!(align_of::<PackedTraceInfo>() == 1);
    assert!(size_of::<EnteredSpan>() == 40 && offset_of!(EnteredSpan, restores) == 32);
};

#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<Endpoint>() == 24);
    assert!(offset_of!(Endpoint, ip) == 0);
    assert!(offset_of!(Endpoint, port) == 8);
    assert!(offset_of!(Endpoint, name) == 16);
    assert!(size_of::<Trace>() == 40);
    assert!(offset_of!(Trace, name) == 0);
    assert!(offset_of!(Trace, info) == 8);
    assert!(offset_of!(Trace, endpoint) == 32);
    assert!(size_of::<Annotation>() == 32);
    assert!(offset_of!(Annotation, kind) == 0);
    assert!(offset_of!(Annotation, key) == 8);
    assert!(offset_of!(Annotation, value) == 16);
    assert!(offset_of!(Annotation, endpoint) == 24);
    assert!(size_of::<Context>() == 40);
    assert!(offset_of!(Context, trace_id_high) == 24);
    assert!(offset_of!(Context, flags) == 32);
};

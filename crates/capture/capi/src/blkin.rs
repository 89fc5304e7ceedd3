//! blkin's functions, each with and without a leading underscore.
//!
//! Section 2.2 of `docs/blkin.md` describes the original. This implementation behaves the same,
//! except that ids do not repeat after `fork` or without `blkin_init`, ids may be negative, ports
//! may have more than 15 bits, the state of `rand` is not changed, `blkin_init` connects to an
//! agent, requests may be unsampled, `blkin_init_trace_info` ignores NULL, and `child` may be the
//! same trace as `parent`.

use crate::emit;
use crate::guard;
use crate::layout::{
    Annotation, Endpoint, INTEGER, INVALID, OK, PackedTraceInfo, STRING, TIMESTAMP, Trace,
    TraceInfo, Value,
};
use crate::raw_annotation::RawAnnotation;
use crate::record::{self, WARNING};
use blkkin_sys::monotonic_ns;
use blkkin_trace::sample;
use std::ffi::{c_char, c_int};

/// Exports each function under two names: blkin's, and the alias in blkin's thesis.
macro_rules! both {
    ($(
        $(#[$doc:meta])*
        fn $name:ident, $alias:ident ($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)? $body:block
    )*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            ///
            /// See "Safety" in the crate's documentation.
            // SAFETY: the name is blkin's, and no other library defines it.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? $body

            /// Alias with the name in blkin's thesis.
            ///
            /// # Safety
            ///
            /// See "Safety" in the crate's documentation.
            // SAFETY: as above.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $alias($($argument: $type),*) $(-> $result)? {
                // SAFETY: by the caller's promise.
                unsafe { $name($($argument),*) }
            }
        )*
    };
}

both! {
    /// Connects to an agent, if none is connected; a program need not call this function.
    fn blkin_init, _blkin_init() -> c_int {
        guard::catch_panic((), || {
            blkkin_trace::id::prepare();
            emit::prepare();
            blkkin_trace::start();
        });
        OK
    }

    /// Initialises an endpoint. A missing address becomes "NaN", as in the original.
    fn blkin_init_endpoint, _blkin_init_endpoint(
        endpoint: *mut Endpoint,
        ip: *const c_char,
        port: c_int,
        name: *const c_char,
    ) -> c_int {
        if endpoint.is_null() {
            return INVALID;
        }
        let ip = if ip.is_null() { c"NaN".as_ptr() } else { ip };
        // SAFETY: not NULL, so valid.
        unsafe { endpoint.write(Endpoint { ip, port, name }) };
        OK
    }

    /// Initialises the root span of a new request.
    fn blkin_init_new_trace, _blkin_init_new_trace(
        new_trace: *mut Trace,
        name: *const c_char,
        endpoint: *const Endpoint,
    ) -> c_int {
        if new_trace.is_null() {
            return INVALID;
        }
        // SAFETY: not NULL, so valid.
        unsafe { new_trace.write(Trace { name, info: sampled_root(), endpoint }) };
        OK
    }

    /// Initialises `trace_info` with the ids of a new request's root span.
    fn blkin_init_trace_info, _blkin_init_trace_info(trace_info: *mut TraceInfo) {
        if !trace_info.is_null() {
            // SAFETY: not NULL, so valid.
            unsafe { trace_info.write_unaligned(sampled_root()) };
        }
    }

    /// Initialises a span whose parent is a trace of this process.
    fn blkin_init_child, _blkin_init_child(
        child: *mut Trace,
        parent: *const Trace,
        endpoint: *const Endpoint,
        child_name: *const c_char,
    ) -> c_int {
        if parent.is_null() {
            return INVALID;
        }
        // SAFETY: not NULL, so valid.
        let parent = unsafe { parent.read() };
        let endpoint = if endpoint.is_null() { parent.endpoint } else { endpoint };
        // SAFETY: by the caller's promise for its own arguments; the ids are a local variable.
        unsafe { blkin_init_child_info(child, &raw const parent.info, endpoint, child_name) }
    }

    /// Initialises a span whose parent may be in another process and is given by its ids.
    fn blkin_init_child_info, _blkin_init_child_info(
        child: *mut Trace,
        info: *const TraceInfo,
        endpoint: *const Endpoint,
        child_name: *const c_char,
    ) -> c_int {
        if child.is_null() || info.is_null() || endpoint.is_null() {
            return INVALID;
        }
        // SAFETY: not NULL, so valid.
        let parent = unsafe { info.read_unaligned() };
        let info = match parent.is_followed() {
            true => TraceInfo {
                trace_id: parent.trace_id,
                span_id: new_id(),
                parent_span_id: parent.span_id,
            },
            false => TraceInfo::NOT_FOLLOWED,
        };
        // SAFETY: not NULL, so valid.
        unsafe { child.write(Trace { name: child_name, info, endpoint }) };
        OK
    }

    /// Initialises an annotation with a key and a string.
    fn blkin_init_string_annotation, _blkin_init_string_annotation(
        annotation: *mut Annotation,
        key: *const c_char,
        val: *const c_char,
        endpoint: *const Endpoint,
    ) -> c_int {
        if annotation.is_null() || key.is_null() || val.is_null() {
            return INVALID;
        }
        let value = Value { string: val };
        // SAFETY: not NULL, so valid.
        unsafe { annotation.write(Annotation { kind: STRING, key, value, endpoint }) };
        OK
    }

    /// Initialises an annotation with a key and an integer.
    fn blkin_init_integer_annotation, _blkin_init_integer_annotation(
        annotation: *mut Annotation,
        key: *const c_char,
        val: i64,
        endpoint: *const Endpoint,
    ) -> c_int {
        if annotation.is_null() || key.is_null() {
            return INVALID;
        }
        let value = Value { integer: val };
        // SAFETY: not NULL, so valid.
        unsafe { annotation.write(Annotation { kind: INTEGER, key, value, endpoint }) };
        OK
    }

    /// Initialises an annotation with an event. The annotation's key is not written.
    fn blkin_init_timestamp_annotation, _blkin_init_timestamp_annotation(
        annotation: *mut Annotation,
        event: *const c_char,
        endpoint: *const Endpoint,
    ) -> c_int {
        if annotation.is_null() || event.is_null() {
            return INVALID;
        }
        // SAFETY: not NULL, so valid; no reference is made to it, as its key may be uninitialised.
        unsafe {
            (&raw mut (*annotation).kind).write(TIMESTAMP);
            (&raw mut (*annotation).value).write(Value { string: event });
            (&raw mut (*annotation).endpoint).write(endpoint);
        }
        OK
    }

    /// Validates an annotation and records it.
    fn blkin_record, _blkin_record(trace: *const Trace, annotation: *const Annotation) -> c_int {
        if annotation.is_null() {
            return INVALID;
        }
        // SAFETY: not NULL, so valid; the key and the value are read only if the kind has them.
        let (raw, endpoint) = unsafe {
            let key = &raw const (*annotation).key;
            let value = &raw const (*annotation).value;
            let raw = match (&raw const (*annotation).kind).read() {
                STRING => RawAnnotation::String { key: key.read(), val: value.read().string },
                INTEGER => RawAnnotation::Integer { key: key.read(), val: value.read().integer },
                _ => RawAnnotation::Event(value.read().string),
            };
            (raw, (&raw const (*annotation).endpoint).read())
        };
        // SAFETY: by the caller's promise.
        unsafe { record::record(trace, endpoint, WARNING, raw) }
    }

    /// Copies the ids of `trace` into `info`.
    fn blkin_get_trace_info, _blkin_get_trace_info(
        trace: *const Trace,
        info: *mut TraceInfo,
    ) -> c_int {
        if trace.is_null() || info.is_null() {
            return INVALID;
        }
        // SAFETY: neither is NULL, so both are valid; name and endpoint may be uninitialised.
        unsafe { info.write_unaligned((&raw const (*trace).info).read()) };
        OK
    }

    /// Copies the ids of `info` into `trace`.
    fn blkin_set_trace_info, _blkin_set_trace_info(
        trace: *mut Trace,
        info: *const TraceInfo,
    ) -> c_int {
        if trace.is_null() || info.is_null() {
            return INVALID;
        }
        // SAFETY: neither is NULL, so both are valid; name and endpoint may be uninitialised.
        unsafe { (&raw mut (*trace).info).write(info.read_unaligned()) };
        OK
    }

    /// Initialises a trace with given ids.
    fn blkin_set_trace_properties, _blkin_set_trace_properties(
        trace: *mut Trace,
        info: *const TraceInfo,
        name: *const c_char,
        endpoint: *const Endpoint,
    ) -> c_int {
        if trace.is_null() || info.is_null() || name.is_null() || endpoint.is_null() {
            return INVALID;
        }
        // SAFETY: none is NULL, so all are valid.
        unsafe { trace.write(Trace { name, info: info.read_unaligned(), endpoint }) };
        OK
    }

    /// Encodes ids as big-endian bytes, for propagation in a message.
    fn blkin_pack_trace_info, _blkin_pack_trace_info(
        info: *const TraceInfo,
        pinfo: *mut PackedTraceInfo,
    ) -> c_int {
        if info.is_null() || pinfo.is_null() {
            return INVALID;
        }
        // SAFETY: neither is NULL, so both are valid.
        unsafe {
            let info = info.read_unaligned();
            let ids = [info.trace_id, info.span_id, info.parent_span_id];
            pinfo.write(PackedTraceInfo(ids.map(i64::to_be_bytes)));
        }
        OK
    }

    /// Decodes ids that were received in a message.
    fn blkin_unpack_trace_info, _blkin_unpack_trace_info(
        pinfo: *const PackedTraceInfo,
        info: *mut TraceInfo,
    ) -> c_int {
        if pinfo.is_null() || info.is_null() {
            return INVALID;
        }
        // SAFETY: neither is NULL, so both are valid.
        unsafe {
            let [trace_id, span_id, parent_span_id] = pinfo.read().0.map(i64::from_be_bytes);
            info.write_unaligned(TraceInfo { trace_id, span_id, parent_span_id });
        }
        OK
    }
}

/// Returns a new id, as a signed number like in C.
pub(crate) fn new_id() -> i64 {
    blkkin_trace::id::make().get().cast_signed()
}

/// Returns the ids of a new root span, or [`TraceInfo::NOT_FOLLOWED`] if the process's sampler
/// does not select the request.
fn sampled_root() -> TraceInfo {
    if is_root_followed() { root() } else { TraceInfo::NOT_FOLLOWED }
}

/// Returns true if the process's sampler selects a new request.
pub(crate) fn is_root_followed() -> bool {
    guard::catch_panic(true, || sample::global().root(monotonic_ns))
}

/// Returns the ids of a new root span: trace id and span id are equal, as in the original.
pub(crate) fn root() -> TraceInfo {
    let id = new_id();
    TraceInfo { trace_id: id, span_id: id, parent_span_id: 0 }
}

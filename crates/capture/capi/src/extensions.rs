//! BlkKin's additions to blkin: annotations with levels, application contexts, ids, contexts in
//! text headers, and the thread's current span.

use crate::blkin::{is_root_followed, new_id, root};
use crate::emit;
use crate::guard;
use crate::headers;
use crate::layout::{
    Context, Endpoint, EnteredSpan, INVALID, NO_SPACE, OK, RANDOM, SAMPLED, Trace, TraceInfo,
};
use crate::raw_annotation::RawAnnotation;
use crate::record;
use blkkin_trace::context::Text;
use blkkin_trace::current_span::{self, FormerSpan};
use blkkin_trace::family;
use std::ffi::{CStr, c_char, c_int, c_uint};
use std::{ptr, slice};

/// Exports functions of the C API under their own names. `blkkin.h` documents them.
macro_rules! exported {
    ($(fn $name:ident ($($argument:ident: $type:ty),* $(,)?) -> $result:ty $body:block)*) => {
        $(
            /// Function of the C API, documented in `blkkin.h`.
            ///
            /// # Safety
            ///
            /// See "Safety" in the crate's documentation.
            // SAFETY: the name is this library's, and no other library defines it.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> $result $body
        )*
    };
}

exported! {
    fn blkkin_event(
        trace: *const Trace,
        endpoint: *const Endpoint,
        level: c_uint,
        event: *const c_char,
    ) -> c_int {
        // SAFETY: by the caller's promise.
        unsafe { record::record(trace, endpoint, level, RawAnnotation::Event(event)) }
    }

    fn blkkin_keyval_string(
        trace: *const Trace,
        endpoint: *const Endpoint,
        level: c_uint,
        key: *const c_char,
        val: *const c_char,
    ) -> c_int {
        // SAFETY: by the caller's promise.
        unsafe { record::record(trace, endpoint, level, RawAnnotation::String { key, val }) }
    }

    fn blkkin_keyval_integer(
        trace: *const Trace,
        endpoint: *const Endpoint,
        level: c_uint,
        key: *const c_char,
        val: i64,
    ) -> c_int {
        // SAFETY: by the caller's promise.
        unsafe { record::record(trace, endpoint, level, RawAnnotation::Integer { key, val }) }
    }

    fn blkkin_enabled_by_now(levels: c_int) -> c_int {
        c_int::from(emit::is_enabled_by_now(levels))
    }

    fn blkkin_set_context(name: *const c_char, value: *const c_char) -> c_int {
        // SAFETY: by the caller's promise.
        let (name, value) = unsafe { (c_string(name), c_string(value)) };
        let (Some(name), Some(value)) = (name, value) else { return INVALID };
        let is_set = || {
            let name = name.to_str().ok()?;
            blkkin_trace::set_context(name, &value.to_string_lossy()).then_some(OK)
        };
        guard::catch_panic(None, is_set).unwrap_or(INVALID)
    }

    fn blkkin_new_id() -> i64 {
        new_id()
    }

    fn blkkin_context_init(context: *mut Context) -> c_int {
        // A root that is not sampled has ids too: headers need them.
        let sampled = if is_root_followed() { SAMPLED } else { 0 };
        let fresh = Context { info: root(), trace_id_high: new_id(), flags: sampled | RANDOM };
        // SAFETY: by the caller's promise.
        unsafe { store_new(Some(fresh), context) }
    }

    fn blkkin_traceparent_parse(
        text: *const c_char,
        length: usize,
        context: *mut Context,
    ) -> c_int {
        // SAFETY: by the caller's promise.
        unsafe { store_new(bytes(text, length).and_then(headers::parse_traceparent), context) }
    }

    fn blkkin_b3_parse(text: *const c_char, length: usize, context: *mut Context) -> c_int {
        // SAFETY: by the caller's promise.
        unsafe { store_new(bytes(text, length).and_then(headers::parse_b3), context) }
    }

    fn blkkin_traceparent_format(context: *const Context, text: *mut c_char, size: usize) -> c_int {
        // SAFETY: by the caller's promise.
        unsafe { format(headers::format_traceparent, context, text, size) }
    }

    fn blkkin_b3_format(context: *const Context, text: *mut c_char, size: usize) -> c_int {
        // SAFETY: by the caller's promise.
        unsafe { format(headers::format_b3, context, text, size) }
    }

    fn blkkin_span_enter(entered: *mut EnteredSpan, trace: *const Trace) -> c_int {
        // SAFETY: if not NULL, it is valid; name and endpoint may be uninitialised.
        let info = (!trace.is_null()).then(|| unsafe { (&raw const (*trace).info).read() });
        // SAFETY: by the caller's promise.
        unsafe { enter(entered, info.filter(TraceInfo::is_followed), 0) }
    }

    fn blkkin_context_enter(entered: *mut EnteredSpan, context: *const Context) -> c_int {
        // SAFETY: if not NULL, it is valid.
        let context = (!context.is_null()).then(|| unsafe { context.read() });
        let sampled = context.filter(|context| context.flags & SAMPLED != 0);
        let high = sampled.map_or(0, |context| context.trace_id_high);
        // SAFETY: by the caller's promise.
        unsafe { enter(entered, sampled.map(|context| context.info), high) }
    }

    fn blkkin_span_exit(entered: *const EnteredSpan) -> c_int {
        if entered.is_null() {
            return INVALID;
        }
        // SAFETY: not NULL, so valid.
        let EnteredSpan { replaced, restores } = unsafe { entered.read() };
        if restores != 0 {
            FormerSpan::from_words(replaced).restore();
        }
        OK
    }
}

/// Makes the span with these ids this thread's current one, or clears the current span if there are
/// no ids, and stores what was replaced. Returns [`INVALID`] if `entered` is NULL.
///
/// # Safety
///
/// See "Safety" in the crate's documentation.
unsafe fn enter(entered: *mut EnteredSpan, info: Option<TraceInfo>, trace_id_high: i64) -> c_int {
    if entered.is_null() {
        return INVALID;
    }
    let replaced = match info {
        Some(TraceInfo { trace_id, span_id, .. })
            if (trace_id != 0 || trace_id_high != 0) && span_id != 0 =>
        {
            let trace_id = [trace_id.cast_unsigned(), trace_id_high.cast_unsigned()];
            current_span::set(trace_id, span_id.cast_unsigned())
        }
        _ => current_span::clear(),
    };
    let restores = u64::from(replaced.is_some());
    let replaced = replaced.unwrap_or(FormerSpan::NOTHING).words();
    // SAFETY: not NULL, so valid.
    unsafe { entered.write(EnteredSpan { replaced, restores }) };
    OK
}

/// Returns the C string; `None` for NULL.
///
/// # Safety
///
/// See "Safety" in the crate's documentation; the string does not change as long as the result is
/// used.
unsafe fn c_string<'a>(string: *const c_char) -> Option<&'a CStr> {
    // SAFETY: not NULL, so it ends with a NUL.
    (!string.is_null()).then(|| unsafe { CStr::from_ptr(string) })
}

/// Returns the `length` bytes at `text`; `None` if `text` is NULL or `length` exceeds `isize::MAX`.
///
/// # Safety
///
/// See "Safety" in the crate's documentation; `text` has `length` bytes, which do not change as
/// long as the result is used.
unsafe fn bytes<'a>(text: *const c_char, length: usize) -> Option<&'a [u8]> {
    let is_possible = !text.is_null() && isize::try_from(length).is_ok();
    // SAFETY: not NULL, so it has that many bytes; they are not more than a slice may have.
    is_possible.then(|| unsafe { slice::from_raw_parts(text.cast(), length) })
}

/// Stores a context that is new to this process. If the request is sampled and the upper half of
/// the trace id is not 0, records both halves, because the events of annotations have no field for
/// the upper one.
///
/// # Safety
///
/// See "Safety" in the crate's documentation.
unsafe fn store_new(from: Option<Context>, to: *mut Context) -> c_int {
    // SAFETY: by the caller's promise.
    let result = unsafe { store(from, to) };
    if let (OK, Some(Context { info, trace_id_high, flags })) = (result, from)
        && flags & SAMPLED != 0
        && trace_id_high != 0
    {
        let halves = (info.trace_id.cast_unsigned(), trace_id_high.cast_unsigned());
        guard::catch_panic((), || family::record_wide_trace_id(halves.0, halves.1));
    }
    result
}

/// Stores `from` in `to`. Returns [`INVALID`] if `from` is `None` or `to` is NULL.
///
/// # Safety
///
/// See "Safety" in the crate's documentation.
unsafe fn store(from: Option<Context>, to: *mut Context) -> c_int {
    let (Some(from), false) = (from, to.is_null()) else { return INVALID };
    // SAFETY: not NULL, so valid.
    unsafe { to.write(from) };
    OK
}

/// Writes a context's header, formatted by `format`, into `text`, with a NUL. Returns the header's
/// length without the NUL, or an error.
///
/// # Safety
///
/// See "Safety" in the crate's documentation; `text` has `size` bytes.
unsafe fn format<const SIZE_MAX: usize>(
    format: fn(&Context) -> Option<Text<SIZE_MAX>>,
    context: *const Context,
    text: *mut c_char,
    size: usize,
) -> c_int {
    if context.is_null() || text.is_null() {
        return INVALID;
    }
    // SAFETY: not NULL, so valid.
    let context = unsafe { context.read() };
    let Some(formatted) = format(&context) else { return INVALID };
    let bytes = formatted.as_bytes();
    if bytes.len() >= size {
        return NO_SPACE;
    }
    // SAFETY: `text` has room for the bytes and one more; the source is on this function's stack.
    unsafe {
        ptr::copy_nonoverlapping(bytes.as_ptr(), text.cast(), bytes.len());
        text.add(bytes.len()).write(0);
    }
    c_int::try_from(bytes.len()).unwrap_or(NO_SPACE)
}

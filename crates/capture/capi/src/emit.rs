//! Records annotations as events of the tracer, and keeps the bitmap of recorded levels up to date.

use crate::guard;
use crate::layout::{Endpoint, Trace};
use crate::raw_annotation::RawAnnotation;
use blkkin_ring::Pen;
use blkkin_trace::family::{self, Annotation, Family, PutString};
use blkkin_trace::{Level, registry};
use std::ffi::{c_char, c_int, c_uint};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

/// Bitmap of the recorded levels: `blkkin_enabled_levels` in C. Macros and inline functions read it
/// before any call. The two undecided values, `NO_AGENT` and `ASK`, are negative and have the bits
/// of all levels set.
///
/// Relaxed loads and stores: the word orders nothing, and an annotation at the moment of a change
/// may use either value.
// SAFETY: the name is this library's, and no other library defines it.
#[unsafe(export_name = "blkkin_enabled_levels")]
pub static ENABLED_LEVELS: AtomicI32 = AtomicI32::new(NO_AGENT);
/// Undecided value of [`ENABLED_LEVELS`]: no level is recorded as long as [`CALL`] is 0.
const NO_AGENT: i32 = i32::MIN | 0x7fff;
/// Undecided value of [`ENABLED_LEVELS`]: each annotation has to call [`is_enabled_by_now`].
const ASK: i32 = -1;

/// Address of the word that an agent sets to make the program connect. The word is 0 while no agent
/// requests a connection.
// SAFETY: the name is this library's, and no other library defines it.
#[unsafe(export_name = "blkkin_call_")]
pub static CALL: &AtomicU64 = registry::CALL;

/// Registers functions that keep the bitmap of levels up to date with the tracer's rules.
pub(crate) fn prepare() {
    static ONCE: AtomicBool = AtomicBool::new(false);
    if !ONCE.swap(true, Ordering::AcqRel) {
        registry::on_undecided(|| ENABLED_LEVELS.store(ASK, Ordering::Relaxed));
        registry::on_change(follow_rules);
    }
}

/// Entry point that calls [`prepare`], for programs that do not call `blkin_init`. It is defined in
/// this module so that static linking includes it together with the levels.
// SAFETY: this section holds pointers to such functions. The C library calls them once it has
// initialised itself, before other calls of this library.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = {
    extern "C" fn before_main() {
        guard::catch_panic((), prepare);
    }
    before_main
};

/// Families of event types to which the annotations of blkin's three kinds belong.
static FAMILIES: [&Family; 3] =
    [&family::TIMESTAMP, &family::KEYVAL_STRING, &family::KEYVAL_INTEGER];

fn follow_rules() {
    if registry::is_undecided() {
        return;
    }
    let mut levels = 0;
    for family in FAMILIES {
        // Lists blkin's three types in `event list` before the program has recorded one.
        family.register_default();
        for (level, event) in family.types().iter().enumerate() {
            levels |= i32::from(registry::is_wanted(event)) << level;
        }
    }
    ENABLED_LEVELS.store(levels, Ordering::Relaxed);
}

/// Returns true if annotations of this level, one of the fifteen, are recorded. May start the
/// library's thread and wait for it, so only callers that are about to record may call this
/// function.
#[inline(always)]
pub(crate) fn is_enabled(level: c_uint) -> bool {
    let levels = ENABLED_LEVELS.load(Ordering::Relaxed);
    if levels >> level & 1 == 0 || levels == NO_AGENT && CALL.load(Ordering::Relaxed) == 0 {
        return false;
    }
    levels >= 0 || is_enabled_by_now(1 << level)
}

/// Returns true if annotations of any level in a bitmap are recorded. Slow path for undecided
/// levels.
#[cold]
#[inline(never)]
pub(crate) fn is_enabled_by_now(bits: c_int) -> bool {
    // This call never panics.
    if registry::stays_undecided() {
        return false;
    }
    let levels = ENABLED_LEVELS.load(Ordering::Relaxed);
    levels >= 0 && levels & bits != 0
}

/// A C string that is not NULL and ends with a NUL.
#[derive(Clone, Copy)]
struct CString(*const c_char);

impl PutString for CString {
    #[inline(always)]
    fn put(self, pen: &mut impl Pen) -> Option<()> {
        // SAFETY: by the promise of the value's creator.
        unsafe { pen.put_c_string(self.0) }
    }

    fn guard(work: impl FnOnce()) {
        guard::catch_panic((), work);
    }
}

/// Records an annotation of one of the fifteen levels.
///
/// # Safety
///
/// No string may be NULL. All end with a NUL, and do not change during the call.
#[inline(always)]
pub(crate) unsafe fn emit(
    trace: &Trace,
    endpoint: &Endpoint,
    level: c_uint,
    annotation: RawAnnotation,
) {
    let said = match annotation {
        RawAnnotation::Event(event) => family::AnnotationContent::Event(CString(event)),
        RawAnnotation::String { key, val } => {
            family::AnnotationContent::String { key: CString(key), val: CString(val) }
        }
        RawAnnotation::Integer { key, val } => {
            family::AnnotationContent::Integer { key: CString(key), val }
        }
    };
    let annotation = Annotation {
        trace_name: CString(trace.name),
        service_name: CString(endpoint.name),
        port_no: endpoint.port,
        ip: CString(endpoint.ip),
        trace_id: trace.info.trace_id,
        span_id: trace.info.span_id,
        parent_span_id: trace.info.parent_span_id,
        content: said,
    };
    if let Some(level) = Level::from_number(level.into()) {
        annotation.record(level);
    }
}

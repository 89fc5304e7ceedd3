//! Where annotations leave this crate: as events of the tracer, named and laid out as blkin's are in
//! LTTng's traces, and whether anybody wants them.

use crate::guard;
use crate::layout::{Endpoint, Trace};
use crate::record::Said;
use blkkin_ring::Encoder;
use blkkin_trace::{EventType, Kind, Level, registry};
use std::ffi::c_uint;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// A bit for each level that somebody listens to, `blkkin_enabled_levels` in C, where macros read it
/// before they call anything.
///
/// Relaxed in both directions: it orders nothing, and an annotation made at the moment of a change
/// may go either way.
// SAFETY: the name is ours, and no other library defines it.
#[unsafe(export_name = "blkkin_enabled_levels")]
pub static ENABLED_LEVELS: AtomicI32 = AtomicI32::new(0);

/// The kinds of annotations, one for each level: a level belongs to a kind of events.
struct Types([EventType; 15]);

macro_rules! types {
    ($name:literal, $fields:expr) => {
        types!($name, $fields; Emergency Alert Critical Error Warning Notice Info DebugSystem
            DebugProgram DebugProcess DebugModule DebugUnit DebugFunction DebugLine Debug)
    };
    ($name:literal, $fields:expr; $($level:ident)*) => {
        Types([$(EventType::new($name, Level::$level, $fields, (file!(), line!()))),*])
    };
}

static EVENT: Types = types!("zipkin:timestamp", &EVENT_NAMES);
static STRING: Types = types!("zipkin:keyval_string", &KEYVAL_NAMES);
static INTEGER: Types = types!("zipkin:keyval_integer", &KEYVAL_NAMES);

const EVENT_NAMES: [&str; 8] = [
    "trace_name",
    "service_name",
    "port_no",
    "ip",
    "trace_id",
    "span_id",
    "parent_span_id",
    "event",
];

const KEYVAL_NAMES: [&str; 9] = [
    "trace_name",
    "service_name",
    "port_no",
    "ip",
    "trace_id",
    "span_id",
    "parent_span_id",
    "key",
    "val",
];

use Kind::{I32, I64, String as Text};
const EVENT_KINDS: [Kind; 8] = [Text, Text, I32, Text, I64, I64, I64, Text];
const STRING_KINDS: [Kind; 9] = [Text, Text, I32, Text, I64, I64, I64, Text, Text];
const INTEGER_KINDS: [Kind; 9] = [Text, Text, I32, Text, I64, I64, I64, Text, I64];

/// Has the levels follow what the tracer is told.
pub(crate) fn prepare() {
    static ONCE: AtomicBool = AtomicBool::new(false);
    if !ONCE.swap(true, Ordering::AcqRel) {
        registry::on_change(follow_rules);
    }
}

/// Also for programs that do not call `blkin_init`. In this module, so that it comes with the levels
/// where the library is linked statically.
// SAFETY: this section holds pointers to such functions, which the C library calls when it has set
// itself up and nobody uses this library yet.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = {
    extern "C" fn before_main() {
        guard::quietly((), prepare);
    }
    before_main
};

fn follow_rules() {
    let mut levels = 0;
    for types in [&EVENT, &STRING, &INTEGER] {
        for (level, event) in types.0.iter().enumerate() {
            levels |= i32::from(registry::is_wanted(event)) << level;
        }
    }
    ENABLED_LEVELS.store(levels, Ordering::Relaxed);
}

/// Whether somebody listens to this level.
pub fn is_enabled(level: u32) -> bool {
    let levels = ENABLED_LEVELS.load(Ordering::Relaxed);
    levels.checked_shr(level).is_some_and(|levels| levels & 1 != 0)
}

/// Records an annotation.
///
/// # Safety
///
/// No string may be NULL; all end with a NUL, and stay as they are during the call.
pub(crate) unsafe fn emit(trace: &Trace, endpoint: &Endpoint, level: c_uint, said: Said) {
    let (types, kinds): (&'static Types, &'static [Kind]) = match said {
        Said::Event(_) => (&EVENT, &EVENT_KINDS),
        Said::String { .. } => (&STRING, &STRING_KINDS),
        Said::Integer { .. } => (&INTEGER, &INTEGER_KINDS),
    };
    let Some(event) = usize::try_from(level).ok().and_then(|level| types.0.get(level)) else {
        return;
    };
    event.record_with(kinds, |encoder: &mut Encoder<'_>| {
        // SAFETY: the caller's promise holds for each of these strings.
        unsafe {
            encoder.put_c_string(trace.name);
            encoder.put_c_string(endpoint.name);
            encoder.put(endpoint.port.to_le_bytes());
            encoder.put_c_string(endpoint.ip);
            encoder.put(trace.info.trace_id.to_le_bytes());
            encoder.put(trace.info.span_id.to_le_bytes());
            encoder.put(trace.info.parent_span_id.to_le_bytes());
            match said {
                Said::Event(event) => encoder.put_c_string(event),
                Said::String { key, val } => {
                    encoder.put_c_string(key);
                    encoder.put_c_string(val);
                }
                Said::Integer { key, val } => {
                    encoder.put_c_string(key);
                    encoder.put(val.to_le_bytes());
                }
            }
        }
    });
}

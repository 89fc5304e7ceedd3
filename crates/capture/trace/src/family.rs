//! The event types of annotations, spans and runs. An event type has one level, so annotations of
//! one name form a family: one [`EventType`] for each level. C, C++ and Rust record through the
//! same families, so a process that uses all three still has each type once.
//!
//! Annotations have the names and fields of blkin, which existing tools know from LTTng's traces.
//! Their trace ids have 64 bits. Both halves of a longer id are recorded as a [`WIDE_TRACE_ID`]
//! event, each time that a sampled request with such an id starts or arrives in the process.

use crate::event::Payload;
use crate::{EventType, Kind, Level, Width};
use blkkin_ring::{BriefRoom, Encoder, Pen};

/// Number of event types in a family: one for each severity level.
const LEVELS: usize = 15;

/// Event types of one name, one for each level.
#[derive(Debug)]
pub struct Family {
    types: [EventType; LEVELS],
    kinds: &'static [Kind],
}

/// Level of annotations and spans recorded without an explicit level. blkin has no other level.
pub const DEFAULT_LEVEL: Level = Level::Warning;

macro_rules! family {
    ($name:literal, $names:expr, $kinds:expr) => {
        family!($name, $names, $kinds; Emergency Alert Critical Error Warning Notice Info DebugSystem
            DebugProgram DebugProcess DebugModule DebugUnit DebugFunction DebugLine Debug)
    };
    ($name:literal, $names:expr, $kinds:expr; $($level:ident)*) => {
        Family {
            // Without source file and line: annotations are recorded at many points of the program,
            // and this line of the library would be wrong.
            types: [$(EventType::new($name, Level::$level, $names, ("", 0))),*],
            kinds: $kinds,
        }
    };
}

use Kind::{I32, I64, String as Text, U8, U64};

/// Family of annotations with a text, for a moment in a span.
pub static TIMESTAMP: Family = family!(
    "zipkin:timestamp",
    &[
        "trace_name",
        "service_name",
        "port_no",
        "ip",
        "trace_id",
        "span_id",
        "parent_span_id",
        "event",
    ],
    &[Text, Text, I32, Text, I64, I64, I64, Text]
);

/// Family of annotations with a key and a string value.
pub static KEYVAL_STRING: Family =
    family!("zipkin:keyval_string", &KEYVAL, &[Text, Text, I32, Text, I64, I64, I64, Text, Text]);

/// Family of annotations with a key and an integer value.
pub static KEYVAL_INTEGER: Family =
    family!("zipkin:keyval_integer", &KEYVAL, &[Text, Text, I32, Text, I64, I64, I64, Text, I64]);

const KEYVAL: [&str; 9] = [
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

/// Family of spans. A span is recorded at its end, as one event without the span's annotations. The
/// event's time is just after the end of the span; `start` and `duration` are in units of the same
/// clock.
pub static SPAN: Family = family!(
    "blkkin:span",
    &[
        "trace_id",
        "trace_id_high",
        "span_id",
        "parent_span_id",
        "start",
        "duration",
        "kind",
        "flags",
        "port_no",
        "span_name",
        "service_name",
        "ip",
    ],
    &[I64, I64, I64, I64, U64, U64, U8, U8, I32, Text, Text, Text]
);

/// Event type that records both halves of a 128-bit trace id. A process records one event each time
/// that a sampled request with such an id starts or arrives.
pub static WIDE_TRACE_ID: EventType =
    EventType::new("blkkin:wide_trace_id", DEFAULT_LEVEL, &["trace_id", "trace_id_high"], ("", 0));

/// Event type of runs: periods in which a thread showed a span as its [current
/// span](crate::current_span). A run is recorded when the thread stops to show the span; `start`
/// and `duration` are in units of the clock of the event's time, as in [`SPAN`].
pub static RUN: EventType = EventType::new(
    "blkkin:run",
    DEFAULT_LEVEL,
    &["trace_id", "trace_id_high", "span_id", "start", "duration"],
    ("", 0),
);

/// Kinds of the fields of [`RUN`].
pub(crate) const RUN_KINDS: &[Kind] = {
    let id = Kind::Hex(Width::Bits64);
    &[id, id, id, U64, U64]
};

impl Family {
    /// Returns the family's event type for a level.
    #[inline(always)]
    pub fn at(&'static self, level: Level) -> &'static EventType {
        // There are as many types as levels.
        &self.types[level as usize]
    }

    /// Returns the family's event types, the most severe level first.
    pub fn types(&'static self) -> &'static [EventType; LEVELS] {
        &self.types
    }

    /// Registers the event type for [`DEFAULT_LEVEL`], before the first event of that type.
    pub fn register_default(&'static self) {
        self.at(DEFAULT_LEVEL).register(self.kinds);
    }

    /// Records an event of this family at a level, if a channel wants it.
    #[inline(always)]
    pub(crate) fn record<P: Payload>(&'static self, level: Level, payload: P) {
        let event = self.at(level);
        let mut room = BriefRoom::new();
        if !event.record_brief(&payload, &mut room) {
            self.record_any(event, payload, &mut room);
        }
    }

    /// Slow path of [`record`](Self::record): registers the type if necessary, and records events
    /// of any size into channels that may have filters or contexts.
    #[inline(never)]
    fn record_any<P: Payload>(
        &'static self,
        event: &'static EventType,
        payload: P,
        room: &mut BriefRoom,
    ) {
        P::guard(|| {
            let encode = |encoder: &mut Encoder<'_>| {
                // An `Encoder` refuses no field.
                let _ = payload.encode(encoder);
            };
            event.record_slowly(self.kinds, &encode, room);
        });
    }
}

/// Records both halves of a trace id, if the upper half is not 0 and a channel wants the event.
#[inline]
pub fn record_wide_trace_id(low: u64, high: u64) {
    if high != 0 && WIDE_TRACE_ID.is_enabled() {
        record_wide(low, high);
    }
}

/// Records both halves of a trace id. Not inlined: the memory for an event would become part of the
/// caller's stack frame.
#[inline(never)]
fn record_wide(low: u64, high: u64) {
    WIDE_TRACE_ID.record((low.cast_signed(), high.cast_signed()));
}

/// A string of an annotation: a Rust string, or a C string of the crate `capi`.
pub trait PutString: Copy {
    /// Appends the string and its NUL to an event. Returns `None` if the pen refuses the string.
    fn put(self, pen: &mut impl Pen) -> Option<()>;

    /// Runs recording code, which panics only on a bug in the tracer. The fast path of a short
    /// annotation does not use this function. The implementation for C strings catches the panic,
    /// because C callers cannot handle it.
    fn guard(work: impl FnOnce()) {
        work();
    }
}

impl PutString for &str {
    #[inline(always)]
    fn put(self, pen: &mut impl Pen) -> Option<()> {
        pen.put_string(self)
    }
}

/// Content of an annotation: a text, or a key and its value.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum AnnotationContent<S> {
    Event(S),
    String { key: S, val: S },
    Integer { key: S, val: i64 },
}

/// An annotation, with the fields of its event.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the names are those of the events' fields")]
pub struct Annotation<S> {
    pub trace_name: S,
    pub service_name: S,
    pub port_no: i32,
    pub ip: S,
    pub trace_id: i64,
    pub span_id: i64,
    pub parent_span_id: i64,
    pub content: AnnotationContent<S>,
}

impl<S: PutString> Annotation<S> {
    /// Records the annotation at a level, if a channel wants it.
    #[inline(always)]
    pub fn record(self, level: Level) {
        self.family().record(level, self);
    }

    /// Returns the family that the annotation belongs to.
    #[inline(always)]
    pub fn family(&self) -> &'static Family {
        match self.content {
            AnnotationContent::Event(_) => &TIMESTAMP,
            AnnotationContent::String { .. } => &KEYVAL_STRING,
            AnnotationContent::Integer { .. } => &KEYVAL_INTEGER,
        }
    }
}

impl<S: PutString> Payload for Annotation<S> {
    fn guard(work: impl FnOnce()) {
        S::guard(work);
    }

    #[inline(always)]
    fn encode(&self, pen: &mut impl Pen) -> Option<()> {
        self.trace_name.put(pen)?;
        self.service_name.put(pen)?;
        pen.put(self.port_no.to_le_bytes())?;
        self.ip.put(pen)?;
        let ids = [self.trace_id, self.span_id, self.parent_span_id];
        pen.put_words(ids.map(i64::cast_unsigned))?;
        match self.content {
            AnnotationContent::Event(event) => event.put(pen),
            AnnotationContent::String { key, val } => {
                key.put(pen)?;
                val.put(pen)
            }
            AnnotationContent::Integer { key, val } => {
                key.put(pen)?;
                pen.put(val.to_le_bytes())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D19: the event types of this module have no source location, because it would be a line of
    /// this library.
    #[test]
    fn families_have_no_place() {
        let families = [&TIMESTAMP, &KEYVAL_STRING, &KEYVAL_INTEGER, &SPAN];
        let mut types =
            families.iter().flat_map(|family| family.types()).chain([&WIDE_TRACE_ID, &RUN]);
        assert!(types.all(|event| event.place() == ("", 0)));
    }
}

//! What annotations and spans are recorded as. A level belongs to a kind of events, so each is a
//! family of them: one [`EventType`] for each level, all of one name. C, C++ and Rust record through
//! the same families, so that a process with all of them still has each type once.
//!
//! Names and fields of annotations are those of blkin, which tools know from LTTng's traces. Their
//! trace ids have 64 bits; what an id has beyond is said once by a [`WIDE_TRACE_ID`] event.

use crate::event::Payload;
use crate::{EventType, Kind, Level};
use blkkin_ring::{BriefRoom, Encoder, Pen};

/// How many levels there are.
const LEVELS: usize = 15;

/// Event types of one name, one for each level.
#[derive(Debug)]
pub struct Family {
    types: [EventType; LEVELS],
    kinds: &'static [Kind],
}

/// The level of what is recorded without one. blkin has no other.
pub const DEFAULT_LEVEL: Level = Level::Warning;

macro_rules! family {
    ($name:literal, $names:expr, $kinds:expr) => {
        family!($name, $names, $kinds; Emergency Alert Critical Error Warning Notice Info DebugSystem
            DebugProgram DebugProcess DebugModule DebugUnit DebugFunction DebugLine Debug)
    };
    ($name:literal, $names:expr, $kinds:expr; $($level:ident)*) => {
        Family {
            // They are recorded at any place of the program, and none of this one's says where.
            types: [$(EventType::new($name, Level::$level, $names, ("", 0))),*],
            kinds: $kinds,
        }
    };
}

use Kind::{I32, I64, String as Text, U8, U64};

/// Something happened.
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

/// Something is the case, told as a string.
pub static KEYVAL_STRING: Family =
    family!("zipkin:keyval_string", &KEYVAL, &[Text, Text, I32, Text, I64, I64, I64, Text, Text]);

/// Something is the case, told as an integer.
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

/// The end of a span, with all that was known at its start. The event's time is the end; `start` and
/// `duration` are in units of the same clock.
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

/// The upper half of a trace id of 128 bits, beside the lower one. Recorded by each process in which a
/// request with such an id starts or arrives.
pub static WIDE_TRACE_ID: EventType =
    EventType::new("blkkin:wide_trace_id", DEFAULT_LEVEL, &["trace_id", "trace_id_high"], ("", 0));

impl Family {
    /// The type of a level.
    #[inline(always)]
    pub fn at(&'static self, level: Level) -> &'static EventType {
        // There are as many types as levels.
        &self.types[level as usize]
    }

    /// All types, from the most severe level on.
    pub fn types(&'static self) -> &'static [EventType; LEVELS] {
        &self.types
    }

    /// Makes the type of blkin's level known, before any event of it.
    pub fn introduce(&'static self) {
        self.at(DEFAULT_LEVEL).make_known(self.kinds);
    }

    /// Records an event of this family, if somebody wants it.
    #[inline(always)]
    pub(crate) fn record<P: Payload>(&'static self, level: Level, payload: P) {
        let event = self.at(level);
        let mut room = BriefRoom::new();
        if !event.record_brief(&payload, &mut room) {
            self.record_any(event, payload, &mut room);
        }
    }

    /// As above, whatever there is to do.
    #[inline(never)]
    fn record_any<P: Payload>(
        &'static self,
        event: &'static EventType,
        payload: P,
        room: &mut BriefRoom,
    ) {
        P::guard(|| {
            let encode = |encoder: &mut Encoder<'_>| {
                // It takes everything.
                let _ = payload.encode(encoder);
            };
            event.record_slowly(self.kinds, &encode, room);
        });
    }
}

/// Records the upper half of a trace id, if it has one and somebody wants it.
#[inline]
pub fn record_wide_trace_id(low: u64, high: u64) {
    if high != 0 && WIDE_TRACE_ID.is_enabled() {
        record_wide(low, high);
    }
}

/// Not inlined: the memory for an event would be the caller's, for as long as it goes on.
#[inline(never)]
fn record_wide(low: u64, high: u64) {
    WIDE_TRACE_ID.record((low.cast_signed(), high.cast_signed()));
}

/// A string of an annotation: Rust's, or, from another crate, C's.
pub trait PutString: Copy {
    /// Appends it to an event, with its NUL, if the pen takes it.
    fn put(self, pen: &mut impl Pen) -> Option<()>;

    /// Does what could panic, if something is wrong with the tracer itself: all but the quick way of a brief
    /// annotation of which the type is known. Strings of C come from callers that know no panics.
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

/// What an annotation says.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Said<S> {
    Event(S),
    String { key: S, val: S },
    Integer { key: S, val: i64 },
}

/// An annotation, as it is recorded.
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
    pub said: Said<S>,
}

impl<S: PutString> Annotation<S> {
    /// Records it, if somebody wants it.
    #[inline(always)]
    pub fn record(self, level: Level) {
        self.family().record(level, self);
    }

    /// The events that it belongs to.
    #[inline(always)]
    pub fn family(&self) -> &'static Family {
        match self.said {
            Said::Event(_) => &TIMESTAMP,
            Said::String { .. } => &KEYVAL_STRING,
            Said::Integer { .. } => &KEYVAL_INTEGER,
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
        match self.said {
            Said::Event(event) => event.put(pen),
            Said::String { key, val } => {
                key.put(pen)?;
                val.put(pen)
            }
            Said::Integer { key, val } => {
                key.put(pen)?;
                pen.put(val.to_le_bytes())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D19: `event list` must not show a place within this library.
    #[test]
    fn families_have_no_place() {
        let families = [&TIMESTAMP, &KEYVAL_STRING, &KEYVAL_INTEGER, &SPAN];
        let mut types = families.iter().flat_map(|family| family.types()).chain([&WIDE_TRACE_ID]);
        assert!(types.all(|event| event.place() == ("", 0)));
    }
}

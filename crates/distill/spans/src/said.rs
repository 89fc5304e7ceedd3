//! What one event says of a span, borrowed from wherever it was read.

use blkkin_model::{Kind, ValueRef};

/// What an event says. Names that are empty are not known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Said<'a> {
    /// The lower half of the request's number.
    pub trace_id: u64,
    /// The upper half; 0 if the event does not tell, or there is none.
    pub trace_id_high: u64,
    /// The span, which is not 0 unless only the upper half of a trace id is told.
    pub span_id: u64,
    /// What caused it; 0 if nothing did.
    pub parent_id: u64,
    /// What the span is called.
    pub name: &'a str,
    /// Who says it.
    pub service: &'a str,
    /// The address of who says it, as text, which may be anything.
    pub ip: &'a str,
    /// The port, of which the original library records the lower 16 bits with a sign.
    pub port: i32,
    /// When, in nanoseconds since 1970.
    pub time_ns: u64,
    /// The number of the trace that has it, which counts where something was lost.
    pub source: u32,
    /// What.
    pub what: What<'a>,
}

/// What is said.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum What<'a> {
    /// Something happened.
    Event(&'a str),
    /// Something is the case.
    KeyValue(&'a str, ValueRef<'a>),
    /// A span is over.
    Span(Whole<'a>),
    /// A span of which no time is known.
    Undated(Kind),
    /// The trace id has an upper half.
    WideTraceId,
}

/// A span that is over, as its own event tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Whole<'a> {
    /// When it started.
    pub start_ns: u64,
    /// How long it took.
    pub duration_ns: u64,
    /// What it is to its parent.
    pub kind: Kind,
    /// It is to be kept, whatever sampling says.
    pub debug: bool,
    /// Which part of the program it is of.
    pub target: &'a str,
    /// What else is said of it.
    pub fields: &'a [(&'a str, ValueRef<'a>)],
}

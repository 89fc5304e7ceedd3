//! The report of one event about a span, borrowed from the event.

use blkkin_model::{Kind, ValueRef};

/// Report of one event about one span. Empty strings mean unknown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpanReport<'a> {
    /// Lower half of the trace id.
    pub trace_id: u64,
    /// Upper half of the trace id; 0 if the trace id has 64 bits, or if the event lacks this half.
    pub trace_id_high: u64,
    /// Span id; 0 only if the report is [`ReportContent::WideTraceId`].
    pub span_id: u64,
    /// Span id of the parent; 0 for a root, or if the event lacks the parent.
    pub parent_id: u64,
    /// Span name.
    pub name: &'a str,
    /// Service that recorded the event; for an address annotation (`ca`, `sa` or `ma`), the service
    /// on the other side.
    pub service: &'a str,
    /// Address of the service, as unchecked text.
    pub ip: &'a str,
    /// Port of the service; 0 if unknown. The original library records the lower 16 bits as a
    /// signed number, and -1 for an unknown port.
    pub port: i32,
    /// Event time, in nanoseconds since 1970.
    pub time_ns: u64,
    /// The reader's id of the trace that contains the event. Losses are matched by it.
    pub source: u32,
    /// Content of the report.
    pub content: ReportContent<'a>,
}

/// Content of a report: annotation, tag, complete span, or upper half of the trace id.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ReportContent<'a> {
    /// An annotation: something that happened in the span.
    Event(&'a str),
    /// A tag of the span, or an address annotation (`ca`, `sa` or `ma`).
    KeyValue(&'a str, ValueRef<'a>),
    /// A complete span with start and duration.
    Span(CompleteSpan<'a>),
    /// A complete span without start and duration.
    Undated(Kind),
    /// The upper half of the trace id, in [`SpanReport::trace_id_high`].
    WideTraceId,
}

/// A complete span, reported by its own event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompleteSpan<'a> {
    /// Start of the span, in nanoseconds since 1970.
    pub start_ns: u64,
    /// Duration of the span, in nanoseconds.
    pub duration_ns: u64,
    /// Role in the call: client, server, producer, consumer or internal; `Unspecified` if unknown.
    pub kind: Kind,
    /// Set if the span has the debug flag, which exempts it from sampling.
    pub debug: bool,
    /// Module of the program (the target of the `tracing` crate).
    pub target: &'a str,
    /// Further fields of the event, which become tags.
    pub fields: &'a [(&'a str, ValueRef<'a>)],
}

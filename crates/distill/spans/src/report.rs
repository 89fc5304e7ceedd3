//! The report of one event about a span, borrowed from the event.

use crate::own_time::OwnKind;
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

impl SpanReport<'_> {
    /// Returns a report of an event of the trace `source`, of which nothing else is known yet.
    pub(crate) fn at(time_ns: u64, source: u32) -> Self {
        SpanReport {
            trace_id: 0,
            trace_id_high: 0,
            span_id: 0,
            parent_id: 0,
            name: "",
            service: "",
            ip: "",
            port: 0,
            time_ns,
            source,
            content: ReportContent::WideTraceId,
        }
    }
}

/// Content of a report: annotation, tag, complete span, upper half of the trace id, or activity.
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
    /// Activity of a thread or a disk for the span. It does not make the span known.
    Activity(Activity<'a>),
}

/// A period in which a thread worked or waited for a span, or a disk served it. Times may be
/// absurd; own times are limited to the span.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activity<'a> {
    /// A thread showed the span as its current span.
    Run {
        /// Start of the period, in nanoseconds since 1970.
        start_ns: u64,
        /// Length of the period, in nanoseconds.
        duration_ns: u64,
        /// Id of the thread; `None` if unknown.
        thread: Option<u32>,
    },
    /// A thread that showed the span did not run. [`SpanReport::time_ns`] is the moment at which it
    /// ran again.
    Wait {
        /// Kind of the wait.
        reason: OwnKind,
        /// Name of the system call in which the thread waited; empty if unknown.
        call: &'a str,
        /// Nanoseconds until the thread was woken.
        blocked_ns: u64,
        /// Nanoseconds from then until the thread ran again.
        runnable_ns: u64,
        /// Id of the thread that released the lock; 0 if unknown.
        waker: u32,
        /// Id of the thread that waited; `None` if unknown.
        thread: Option<u32>,
    },
    /// A disk served a request of the span. [`SpanReport::time_ns`] is the completion.
    Disk {
        /// Name of the device.
        device: &'a str,
        /// Nanoseconds until the request was issued to the device.
        queued_ns: u64,
        /// Nanoseconds from then until the completion.
        served_ns: u64,
    },
    /// A thread that showed the span made a system call. [`SpanReport::time_ns`] is its end.
    Call {
        /// Name of the system call.
        name: &'a str,
        /// Arguments as text.
        arguments: &'a str,
        /// Result: a negative error number if the call failed.
        result: i64,
        /// Duration in nanoseconds; 0 if unknown.
        duration_ns: u64,
        /// Id of the thread; `None` if unknown.
        thread: Option<u32>,
    },
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

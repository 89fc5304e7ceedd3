//! Compact storage of an open request.
//!
//! A [`Reporter`] (span, parent, name, service, address) is stored once and shared by its
//! [`Report`]s. Strings are interned symbols, or stored in the request itself.

use crate::interner::{Interner, REQUEST_LOCAL, Symbol};
use crate::own_time::OwnKind;
use crate::report::{Activity, CompleteSpan, ReportContent, SpanReport};
use blkkin_model::{Kind, ValueRef};
use std::collections::{HashMap, HashSet};
use std::mem::size_of;

/// Properties that the events of one service repeat for one span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reporter {
    pub(crate) span: u64,
    pub(crate) parent: u64,
    /// Upper half of the trace id; 0 if unknown.
    pub(crate) high: u64,
    pub(crate) name: Symbol,
    pub(crate) service: Symbol,
    pub(crate) ip: Symbol,
    pub(crate) port: i32,
}

/// Report of an event about a span, in compact form. The event of a complete span makes a further
/// report, a tag, for each of its program fields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    pub(crate) time: u64,
    pub(crate) reporter: u32,
    /// The reader's id of the trace that contains the event.
    pub(crate) source: u32,
    pub(crate) body: Body,
}

/// Content of a report: annotation, tag, or complete span.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Body {
    Event(Symbol),
    Tag(Symbol, TagValue),
    Span { start: u64, duration: u64, target: Symbol, kind: Kind, debug: bool },
    Undated(Kind),
}

impl Body {
    /// Returns true for a complete span. A draft has at most one such report.
    pub(crate) fn is_span(&self) -> bool {
        matches!(self, Body::Span { .. } | Body::Undated(_))
    }
}

/// Activity of a thread or a disk for a span, in compact form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StoredActivity {
    pub(crate) span: u64,
    /// Upper half of the trace id; 0 if unknown.
    pub(crate) high: u64,
    pub(crate) kind: ActivityKind,
    /// End of the activity, in nanoseconds since 1970.
    pub(crate) end: u64,
    /// First part of the activity in nanoseconds: the whole run or system call, the blocked part of
    /// a wait, or the queued part of a disk request.
    pub(crate) first: u64,
    /// Second part of the activity in nanoseconds: the runnable part of a wait, or the served part
    /// of a disk request.
    pub(crate) second: u64,
    /// Id of the thread that ran, waited or made the call; `None` if unknown.
    pub(crate) thread: Option<u32>,
    /// Id of the thread that ended the wait; 0 if unknown.
    pub(crate) waker: u32,
    /// Name of the system call or of the device.
    pub(crate) detail: Symbol,
    /// The reader's id of the trace that contains the event.
    pub(crate) source: u32,
}

/// Kind of a [`StoredActivity`]; a wait with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ActivityKind {
    Run,
    Wait(OwnKind),
    Disk,
    Call { result: i64, arguments: Symbol },
}

/// Value of a tag; a text is stored as a symbol.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TagValue {
    Text(Symbol),
    Int(i64),
    Bool(bool),
    Double(f64),
}

/// Compact storage for the reports of one open request.
#[derive(Debug, Default)]
pub(crate) struct OpenRequest {
    /// Lower half of the trace id.
    pub(crate) low: u64,
    /// Upper halves of the trace id, from `blkkin:wide_trace_id` events.
    pub(crate) wide: Vec<u64>,
    /// Upper half of the trace id of an earlier part of this request, or 0. It counts if no event
    /// has one.
    pub(crate) earlier_high: u64,
    pub(crate) reporters: Vec<Reporter>,
    pub(crate) reports: Vec<Report>,
    /// Activities; they do not make a span known.
    pub(crate) activities: Vec<StoredActivity>,
    /// Index of each reporter in `reporters`, built when there are more than [`FEW_REPORTERS`].
    numbers: HashMap<Reporter, u32>,
    texts: String,
    /// End offset of each string in `texts`.
    ends: Vec<u32>,
    /// Events dropped because of a limit.
    pub(crate) left_out: u64,
    /// Activities dropped because of a limit.
    pub(crate) activities_left_out: u64,
    /// Set if a request with the same lower half was among the recently emitted ones at opening.
    pub(crate) is_late: bool,
    /// Time of the last event, by the caller's clock.
    pub(crate) last_event: i64,
    /// Sort key in the list of open requests: the time of the last event, or of the last extension
    /// of the wait. If the key would be smaller than that of the next older request, the older
    /// request's key is used.
    pub(crate) touched: i64,
    /// Slot of the next older request in the list ordered by `touched`.
    pub(crate) older: u32,
    /// Slot of the next newer request in the same list.
    pub(crate) newer: u32,
}

/// Maximum number of reporters that are searched linearly. With more reporters, a hash table is
/// built.
const FEW_REPORTERS: usize = 12;
/// Maximum number of values in [`OpenRequest::wide`]: 128-bit trace ids with the same lower half
/// that `blkkin:wide_trace_id` events distinguish.
const WIDE_MAX: usize = 8;
/// Bytes of an empty request, with its entries in the assembler's tables.
const SIZE: usize = size_of::<OpenRequest>() + 64;
/// Estimated bytes of a hash table entry, including its share of free slots.
const NUMBER_SIZE: usize = 2 * (size_of::<(Reporter, u32)>() + 1);

impl OpenRequest {
    /// Returns the memory of the request, in bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        SIZE + self.reporters.capacity() * size_of::<Reporter>()
            + self.reports.capacity() * size_of::<Report>()
            + self.activities.capacity() * size_of::<StoredActivity>()
            + self.numbers.len() * NUMBER_SIZE
            + self.texts.capacity()
            + self.ends.capacity() * 4
    }

    /// Returns true if a known span has no complete-span report. A span is known from any of its
    /// events, or as a parent; as one of servers and consumers only with `knows_callers`.
    pub(crate) fn has_unended(&self, knows_callers: bool) -> bool {
        let whole = self.reports.iter().filter(|report| report.body.is_span());
        let ended: HashSet<u64> =
            whole.clone().map(|report| self.reporter_of(report).span).collect();
        let is_called = |report: &&Report| {
            let (Body::Span { kind, .. } | Body::Undated(kind)) = report.body else { return false };
            !knows_callers && matches!(kind, Kind::Server | Kind::Consumer)
        };
        // Other events of such a span may have other names and no upper half.
        let call = |reporter: &Reporter| (reporter.span, reporter.parent);
        let called: HashSet<(u64, u64)> =
            whole.filter(is_called).map(|report| call(self.reporter_of(report))).collect();
        let mut known = self.reporters.iter().flat_map(|reporter| {
            let is_called = called.contains(&call(reporter));
            [reporter.span, if is_called { 0 } else { reporter.parent }]
        });
        known.any(|span| span != 0 && !ended.contains(&span))
    }

    /// Clears the request for reuse; memory of more than 8 KiB is freed.
    pub(crate) fn clear(&mut self) {
        const REUSED_MAX: usize = 8 << 10;
        if self.bytes() > REUSED_MAX {
            *self = OpenRequest::default();
            return;
        }
        self.wide.clear();
        self.earlier_high = 0;
        self.reporters.clear();
        self.reports.clear();
        self.activities.clear();
        self.numbers.clear();
        self.texts.clear();
        self.ends.clear();
        (self.left_out, self.activities_left_out, self.is_late) = (0, 0, false);
    }

    /// Returns an upper half of the trace id; 0 if it is unknown.
    pub(crate) fn high(&self) -> u64 {
        let reported = self.reporters.iter().map(|reporter| reporter.high);
        let mut all = self.wide.iter().copied().chain(reported);
        all.find(|high| *high != 0).unwrap_or(self.earlier_high)
    }

    /// Stores an upper half of the trace id, from a `blkkin:wide_trace_id` event. Ignores 0, and
    /// further values once [`WIDE_MAX`] are stored.
    pub(crate) fn add_wide(&mut self, high: u64) {
        if high != 0 && !self.wide.contains(&high) && self.wide.len() < WIDE_MAX {
            self.wide.push(high);
        }
    }

    /// Stores a report. Returns false if the report needs a new reporter beyond `reporters_max`.
    #[inline]
    pub(crate) fn add(
        &mut self,
        report: &SpanReport<'_>,
        interner: &mut Interner,
        reporters_max: usize,
    ) -> bool {
        let reporter = Reporter {
            span: report.span_id,
            parent: report.parent_id,
            high: report.trace_id_high,
            name: self.symbol(interner, report.name),
            service: self.symbol(interner, report.service),
            ip: self.symbol(interner, report.ip),
            port: report.port,
        };
        let Some(reporter) = self.reporter(reporter, reporters_max) else { return false };
        let (time, source) = (report.time_ns, report.source);
        let body = match report.content {
            ReportContent::Event(text) => Body::Event(self.symbol(interner, text)),
            ReportContent::KeyValue(key, value) => {
                Body::Tag(self.symbol(interner, key), self.value(value))
            }
            ReportContent::Span(CompleteSpan {
                start_ns,
                duration_ns,
                kind,
                debug,
                target,
                fields,
            }) => {
                for (key, value) in fields {
                    let body = Body::Tag(self.symbol(interner, key), self.value(*value));
                    self.reports.push(Report { time, reporter, source, body });
                }
                let target = self.symbol(interner, target);
                Body::Span { start: start_ns, duration: duration_ns, target, kind, debug }
            }
            ReportContent::Undated(kind) => Body::Undated(kind),
            ReportContent::WideTraceId | ReportContent::Activity(_) => return true,
        };
        self.reports.push(Report { time, reporter, source, body });
        true
    }

    /// Stores an activity.
    pub(crate) fn add_activity(
        &mut self,
        report: &SpanReport<'_>,
        activity: &Activity<'_>,
        interner: &mut Interner,
    ) {
        let mut stored = StoredActivity {
            span: report.span_id,
            high: report.trace_id_high,
            kind: ActivityKind::Run,
            end: report.time_ns,
            first: 0,
            second: 0,
            thread: None,
            waker: 0,
            detail: Symbol::NONE,
            source: report.source,
        };
        match *activity {
            Activity::Run { start_ns, duration_ns, thread } => {
                stored.end = start_ns.saturating_add(duration_ns);
                stored.first = stored.end - start_ns;
                stored.thread = thread;
            }
            Activity::Wait { reason, call, blocked_ns, runnable_ns, waker, thread } => {
                stored.kind = ActivityKind::Wait(reason);
                (stored.first, stored.second) = (blocked_ns, runnable_ns);
                (stored.thread, stored.waker) = (thread, waker);
                stored.detail = self.symbol(interner, call);
            }
            Activity::Disk { device, queued_ns, served_ns } => {
                stored.kind = ActivityKind::Disk;
                (stored.first, stored.second) = (queued_ns, served_ns);
                stored.detail = self.symbol(interner, device);
            }
            Activity::Call { name, arguments, result, duration_ns, thread } => {
                // Arguments rarely repeat, so they are not interned.
                let arguments = match arguments {
                    "" => Symbol::NONE,
                    _ => self.own(arguments),
                };
                stored.kind = ActivityKind::Call { result, arguments };
                (stored.first, stored.thread) = (duration_ns, thread);
                stored.detail = self.symbol(interner, name);
            }
        }
        self.activities.push(stored);
    }

    #[inline]
    fn reporter(&mut self, reporter: Reporter, reporters_max: usize) -> Option<u32> {
        let number = self.reporters.len() as u32;
        if self.reporters.len() <= FEW_REPORTERS {
            if let Some(known) = self.reporters.iter().rposition(|known| *known == reporter) {
                return Some(known as u32);
            }
        } else {
            if self.reporters.last() == Some(&reporter) {
                return Some(number - 1);
            }
            if self.numbers.is_empty() {
                self.numbers
                    .extend(self.reporters.iter().zip(0..).map(|(reporter, at)| (*reporter, at)));
            }
            if let Some(known) = self.numbers.get(&reporter) {
                return Some(*known);
            }
        }
        if self.reporters.len() >= reporters_max {
            return None;
        }
        self.reporters.push(reporter);
        if self.reporters.len() > FEW_REPORTERS + 1 {
            self.numbers.insert(reporter, number);
        }
        Some(number)
    }

    #[inline]
    fn symbol(&mut self, interner: &mut Interner, text: &str) -> Symbol {
        interner.intern(text).unwrap_or_else(|| self.own(text))
    }

    fn own(&mut self, text: &str) -> Symbol {
        let symbol = Symbol(REQUEST_LOCAL | self.ends.len() as u32);
        self.texts.push_str(text);
        // An offset beyond 32 bits exceeds every limit on a request.
        self.ends.push(u32::try_from(self.texts.len()).unwrap_or(u32::MAX));
        symbol
    }

    fn value(&mut self, value: ValueRef<'_>) -> TagValue {
        match value {
            // Tag values rarely repeat, so they are not interned.
            ValueRef::Str("") => TagValue::Text(Symbol::NONE),
            ValueRef::Str(text) => TagValue::Text(self.own(text)),
            ValueRef::Int(number) => TagValue::Int(number),
            ValueRef::Bool(flag) => TagValue::Bool(flag),
            ValueRef::Double(number) => TagValue::Double(number),
            ValueRef::Bytes(bytes) => TagValue::Text(self.own(&String::from_utf8_lossy(bytes))),
        }
    }

    pub(crate) fn text<'p>(&'p self, interner: &'p Interner, symbol: Symbol) -> &'p str {
        let Symbol(number) = symbol;
        if number & REQUEST_LOCAL == 0 {
            return interner.text(symbol);
        }
        let number = (number & !REQUEST_LOCAL) as usize;
        let end = |number: usize| self.ends.get(number).map_or(0, |end| *end as usize);
        let start = number.checked_sub(1).map_or(0, end);
        self.texts.get(start..end(number)).unwrap_or_default()
    }

    pub(crate) fn value_of<'p>(&'p self, interner: &'p Interner, value: TagValue) -> ValueRef<'p> {
        match value {
            TagValue::Text(symbol) => ValueRef::Str(self.text(interner, symbol)),
            TagValue::Int(number) => ValueRef::Int(number),
            TagValue::Bool(flag) => ValueRef::Bool(flag),
            TagValue::Double(number) => ValueRef::Double(number),
        }
    }

    /// Returns the report's reporter, with span, name, service and address.
    pub(crate) fn reporter_of(&self, report: &Report) -> &Reporter {
        &self.reporters[report.reporter as usize]
    }
}

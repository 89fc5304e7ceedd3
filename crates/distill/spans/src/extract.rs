//! Extraction of span reports from events. The layout of an event class is determined once; then a
//! visitor puts the values of an event's fields into slots.

use crate::activity_fields::{self, ActivityFields, ActivitySlot, ActivityVisitor};
use crate::field_values::{
    DURATION, EVENT, FLAGS, FieldValues, FieldVisitor, IGNORED, IP, KEY, KIND, NAMES, PARENT,
    PROCNAME, PROGRAM_FIELD, SERVICE, SPAN_ID, SPAN_NAME, START, Slot, TRACE_ID, TRACE_ID_HIGH,
    TRACE_NAME, VALUE, Value,
};
use crate::refusal::{Example, Reason, Refusals};
use crate::report::{Activity, CompleteSpan, ReportContent, SpanReport};
use blkkin_ctf::clock::TimeScale;
use blkkin_ctf::decode::Node;
use blkkin_ctf::schema::{EnvValue, EventClass, FieldClass, Scope};
use blkkin_model::{Kind, ValueRef};
use blkkin_reader::{Event, Trace};
use std::fmt::Write;

/// Extractor of span reports from events.
#[derive(Debug, Default)]
pub struct Extractor {
    /// Event shapes of each trace, indexed by the reader's trace number.
    traces: Vec<Option<TraceShapes>>,
    fields: FieldValues,
    activity_fields: ActivityFields,
    refusals: Refusals,
    unrelated_events: u64,
    unattributed_events: u64,
}

/// Shapes of one trace's event classes, determined at its first event.
#[derive(Debug)]
struct TraceShapes {
    /// Slot in [`FieldValues`] of each field, by node id of the decoder.
    slots: Vec<Slot>,
    /// Slot in [`ActivityFields`] of each field, by node id of the decoder.
    activity_slots: Vec<ActivitySlot>,
    /// Event shapes, indexed by stream class and event class.
    classes: Vec<Vec<EventShape>>,
    /// Time scale of each stream class's clock; `None` without a clock.
    scales: Vec<Option<TimeScale>>,
    /// Name of the traced program, from the trace's environment.
    program: String,
}

/// Kind of report that an event class carries.
#[derive(Clone, Debug)]
enum EventShape {
    /// Unrelated to spans.
    Other,
    /// An unknown `zipkin:` event.
    Unknown,
    Timestamp,
    KeyValue,
    Span,
    WideTraceId,
    /// A span of the `tracing` crate.
    TracingSpan {
        target: String,
        name: String,
        has_service: bool,
    },
    TracingEvent {
        name: String,
        has_service: bool,
    },
    Activity(ActivityShape),
}

/// Kind of activity that an event class reports.
#[derive(Clone, Copy, Debug)]
enum ActivityShape {
    Run,
    Wait,
    Disk,
    Call,
}

/// Beginning of the names of events of system calls.
const CALL_PREFIX: &str = "request:syscall:";

/// Number of fields that the tracing layer puts first in a span of the `tracing` crate. The fields
/// of the service, if any, and the program's own fields follow.
const TRACING_SPAN: usize = 6;
/// Number of fields that the tracing layer puts first in an event of the `tracing` crate.
const TRACING_EVENT: usize = 3;

/// Debug bit of the field `flags`.
const DEBUG: u64 = 1;

/// Tolerated clock skew between CPUs, in nanoseconds: maximum time from a span's event to the
/// span's end. The event is recorded at that end.
const TOLERANCE_NS: i64 = 1_000_000_000;

impl Extractor {
    /// Calls `take` with the report of an event, and returns the result of `take`. Returns `None`
    /// for an event that is unrelated to spans, malformed or damaged.
    #[inline]
    pub fn read<R>(
        &mut self,
        event: &mut Event<'_>,
        take: impl FnOnce(&SpanReport<'_>) -> R,
    ) -> Option<R> {
        let trace = event.trace();
        if self.traces.len() <= trace.id {
            self.traces.resize_with(trace.id + 1, || None);
        }
        let shapes = self.traces[trace.id].get_or_insert_with(|| TraceShapes::new(trace));
        let stream = event.stream().class;
        let shape = &shapes.classes[stream][event.class_index()];
        if matches!(shape, EventShape::Other) {
            self.unrelated_events += 1;
            return None;
        }
        if let EventShape::Activity(shape) = *shape {
            return self.read_activity(event, shape, take);
        }
        let own_fields = match shape {
            EventShape::TracingSpan { .. } => TRACING_SPAN,
            EventShape::TracingEvent { .. } => TRACING_EVENT,
            _ => NAMES.len(),
        };
        let has_service = matches!(
            shape,
            EventShape::TracingSpan { has_service: true, .. }
                | EventShape::TracingEvent { has_service: true, .. }
        );
        self.fields.clear();
        let slots = &shapes.slots;
        if !event.visit(&mut FieldVisitor {
            fields: &mut self.fields,
            slots,
            own_fields,
            has_service,
        }) {
            // The reader reports the damaged event.
            return None;
        }
        let scale = shapes.scales.get(stream).copied().flatten();
        let time = EventTime::of(event, scale);
        let builder = ReportBuilder { fields: &self.fields, shapes, trace, time };
        builder
            .build(shape, take)
            .map_err(|refused| match refused {
                Some(reason) => self.refuse(reason, event),
                None => self.unrelated_events += 1,
            })
            .ok()
    }

    /// Reads an event of an activity. An event with a disk request of no
    /// span is counted.
    fn read_activity<R>(
        &mut self,
        event: &mut Event<'_>,
        shape: ActivityShape,
        take: impl FnOnce(&SpanReport<'_>) -> R,
    ) -> Option<R> {
        let trace = event.trace();
        let shapes = self.traces[trace.id].as_ref()?;
        self.activity_fields.clear();
        let (fields, slots) = (&mut self.activity_fields, &shapes.activity_slots[..]);
        let is_call = matches!(shape, ActivityShape::Call);
        if !event.visit(&mut ActivityVisitor { fields, slots, is_call }) {
            // The reader reports the damaged event.
            return None;
        }
        let scale = shapes.scales.get(event.stream().class).copied().flatten();
        let name = event.class().name.as_deref().unwrap_or_default();
        let name = name.strip_prefix(CALL_PREFIX).unwrap_or_default();
        let builder = ActivityBuilder {
            fields: &self.activity_fields,
            time: EventTime::of(event, scale),
            source: trace.id as u32,
            call: name,
        };
        let report = builder.build(shape);
        report
            .map(|report| take(&report))
            .map_err(|refused| match refused {
                Some(reason) => self.refuse(reason, event),
                None => self.unattributed_events += 1,
            })
            .ok()
    }

    /// Returns whether no event of the trace was read.
    #[inline]
    pub(crate) fn is_new(&self, trace: &Trace) -> bool {
        self.traces.get(trace.id).is_none_or(Option::is_none)
    }

    /// Returns the statistics of malformed events.
    pub fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Returns the number of events unrelated to spans.
    pub fn others(&self) -> u64 {
        self.unrelated_events
    }

    /// Returns the number of disk requests that no span caused, such as writeback.
    pub fn unattributed(&self) -> u64 {
        self.unattributed_events
    }

    #[cold]
    fn refuse(&mut self, reason: Reason, event: &Event<'_>) {
        self.refusals.add(reason, || Example {
            reason,
            event: event.class().name.clone().unwrap_or_default(),
            time_ns: event.time(),
            file: event.stream().name.clone(),
        });
    }
}

impl TraceShapes {
    fn new(trace: &Trace) -> TraceShapes {
        let nodes = trace.decoder().nodes();
        let is_member = |node: &Node| {
            let parent = node.parent.and_then(|parent| nodes.get(parent as usize));
            parent.is_some_and(|parent| parent.parent.is_none())
        };
        let slot = |node: &Node| match (node.scope, node.name.as_deref()) {
            (Scope::Payload, Some(name)) if is_member(node) => {
                let number = NAMES.iter().position(|known| *known == name);
                number.map_or(PROGRAM_FIELD, |number| number as Slot)
            }
            (Scope::CommonContext | Scope::SpecificContext, Some("procname")) => PROCNAME,
            _ => IGNORED,
        };
        let schema = trace.schema();
        let classes = schema.streams.iter();
        let program = match schema.trace.env("procname") {
            Some(EnvValue::Str(name)) => name.clone(),
            _ => String::new(),
        };
        TraceShapes {
            slots: nodes.iter().map(slot).collect(),
            activity_slots: nodes
                .iter()
                .map(|node| activity_fields::slot(node, is_member(node)))
                .collect(),
            classes: classes.map(|class| class.events.iter().map(shape).collect()).collect(),
            scales: (0..schema.streams.len()).map(|class| trace.time_scale(class)).collect(),
            program,
        }
    }
}

/// Determines which report, if any, the events of a class carry.
fn shape(class: &EventClass) -> EventShape {
    let name = class.name.as_deref().unwrap_or_default();
    let begins_with = |count: usize| match &class.payload {
        Some(FieldClass::Struct(payload)) => {
            let names = payload.members.iter().map(|member| &*member.name);
            payload.members.len() >= count && names.zip(&NAMES[..count]).all(|(a, b)| a == *b)
        }
        _ => false,
    };
    let (target, own_name) = name.split_once(':').unwrap_or(("", name));
    match name {
        "zipkin:timestamp" => EventShape::Timestamp,
        "zipkin:keyval" | "zipkin:keyval_string" | "zipkin:keyval_integer" => EventShape::KeyValue,
        "blkkin:span" => EventShape::Span,
        "blkkin:wide_trace_id" => EventShape::WideTraceId,
        "blkkin:run" => EventShape::Activity(ActivityShape::Run),
        "request:wait" => EventShape::Activity(ActivityShape::Wait),
        "request:disk" => EventShape::Activity(ActivityShape::Disk),
        _ if name.starts_with(CALL_PREFIX) => EventShape::Activity(ActivityShape::Call),
        _ if target == "zipkin" => EventShape::Unknown,
        _ if begins_with(TRACING_SPAN) => {
            let has_service = has_service(class, TRACING_SPAN);
            EventShape::TracingSpan {
                target: target.to_owned(),
                name: own_name.to_owned(),
                has_service,
            }
        }
        _ if begins_with(TRACING_EVENT) => EventShape::TracingEvent {
            name: own_name.to_owned(),
            has_service: has_service(class, TRACING_EVENT),
        },
        _ => EventShape::Other,
    }
}

/// Returns true if the fields of the service (name, port, address) follow the first `behind` fields
/// and have the types of the tracing layer. Names alone prove nothing: a program's own fields may
/// have the same names.
fn has_service(class: &EventClass, behind: usize) -> bool {
    let Some(FieldClass::Struct(payload)) = &class.payload else { return false };
    let members = payload.members.iter().skip(behind);
    let service: Vec<_> = members.take(3).map(|member| (&*member.name, &member.class)).collect();
    matches!(
        service[..],
        [
            ("service_name", FieldClass::String(_)),
            ("port_no", FieldClass::Int(_)),
            ("ip", FieldClass::String(_))
        ]
    )
}

/// Time of an event, with the conversion for times in its fields.
#[derive(Clone, Copy, Debug)]
struct EventTime {
    /// Time in nanoseconds, corrected if the trace's times are.
    ns: i64,
    /// Conversion of recorded times.
    scale: TimeScale,
    /// Correction of this event's time in nanoseconds. It holds for the times in the fields, too,
    /// so that durations do not change.
    correction_ns: i64,
}

impl EventTime {
    fn of(event: &Event<'_>, scale: Option<TimeScale>) -> Option<EventTime> {
        let (ns, scale) = event.time().zip(scale)?;
        let correction_ns = ns.saturating_sub(scale.ns(event.cycles()));
        Some(EventTime { ns, scale, correction_ns })
    }

    /// Converts start and duration of a span, or of a thread's work for it, from clock cycles to
    /// nanoseconds. The event was recorded at its end.
    fn span(self, start: u64, duration: u64) -> Result<(u64, u64), Option<Reason>> {
        let out_of_range = Some(Reason::TimeOutOfRange);
        let end = start.checked_add(duration).ok_or(out_of_range)?;
        let ns = |cycles: u64| self.scale.ns(cycles).saturating_add(self.correction_ns);
        let (start, end) = (ns(start), ns(end));
        if end > self.ns.saturating_add(TOLERANCE_NS) {
            return Err(Some(Reason::EndsLater));
        }
        let start_ns = u64::try_from(start).map_err(|_| out_of_range)?;
        Ok((start_ns, end.abs_diff(start)))
    }
}

/// Builder of the report of an activity from the collected field values of its event.
struct ActivityBuilder<'r> {
    fields: &'r ActivityFields,
    time: Option<EventTime>,
    source: u32,
    /// Name of the system call whose event it is.
    call: &'r str,
}

impl<'r> ActivityBuilder<'r> {
    /// Builds the report. Returns `Err(Some(reason))` for a malformed event, and `Err(None)` for a
    /// disk request of no span.
    fn build(&self, shape: ActivityShape) -> Result<SpanReport<'r>, Option<Reason>> {
        use activity_fields as slot;
        let ActivityBuilder { fields, time, source, call } = *self;
        let time = time.ok_or(Some(Reason::NoTime))?;
        let time_ns = u64::try_from(time.ns).map_err(|_| Some(Reason::TimeOutOfRange))?;
        if matches!(shape, ActivityShape::Disk) && fields.has_no_ids() {
            return Err(None);
        }
        let (trace_id, trace_id_high, span_id) = fields.ids()?;
        let thread = fields.thread();
        let content = match shape {
            ActivityShape::Run => {
                let (start, duration) =
                    (fields.number(slot::START)?, fields.number(slot::DURATION)?);
                let (start_ns, duration_ns) = time.span(start, duration)?;
                Activity::Run { start_ns, duration_ns, thread }
            }
            ActivityShape::Wait => {
                // A thread outside of a system call has the number -1.
                let is_in_call = fields.number_or(slot::CALL, u64::MAX)?.cast_signed() >= 0;
                Activity::Wait {
                    reason: fields.reason()?,
                    call: if is_in_call { fields.label() } else { "" },
                    blocked_ns: fields.number(slot::BLOCKED)?,
                    runnable_ns: fields.number(slot::RUNNABLE)?,
                    waker: u32::try_from(fields.number_or(slot::WAKER, 0)?).unwrap_or(0),
                    thread,
                }
            }
            ActivityShape::Disk => {
                fields.number(slot::DEVICE)?;
                Activity::Disk {
                    device: fields.label(),
                    queued_ns: fields.number(slot::QUEUED)?,
                    served_ns: fields.number(slot::SERVED)?,
                }
            }
            ActivityShape::Call => Activity::Call {
                name: call,
                arguments: fields.arguments(),
                result: fields.number(slot::RESULT)?.cast_signed(),
                duration_ns: fields.number(slot::DURATION)?,
                thread,
            },
        };
        Ok(SpanReport {
            trace_id,
            trace_id_high,
            span_id,
            content: ReportContent::Activity(content),
            ..SpanReport::at(time_ns, source)
        })
    }
}

/// Builder of a report from the collected field values of one event.
struct ReportBuilder<'r> {
    fields: &'r FieldValues,
    shapes: &'r TraceShapes,
    trace: &'r Trace,
    time: Option<EventTime>,
}

impl<'r> ReportBuilder<'r> {
    /// Builds the report and passes it to `take`. Returns `Err(Some(reason))` for a malformed
    /// event, and `Err(None)` for an event unrelated to spans.
    #[inline]
    fn build<R>(
        &self,
        shape: &'r EventShape,
        take: impl FnOnce(&SpanReport<'_>) -> R,
    ) -> Result<R, Option<Reason>> {
        let fields = self.fields;
        let time = self.time.ok_or(Some(Reason::NoTime))?;
        let time_ns = u64::try_from(time.ns).map_err(|_| Some(Reason::TimeOutOfRange))?;
        let mut report = SpanReport::at(time_ns, self.trace.id as u32);
        match shape {
            EventShape::Other | EventShape::Activity(_) => Err(None),
            EventShape::Unknown => Err(Some(Reason::Unknown)),
            EventShape::Timestamp => {
                self.annotation(&mut report)?;
                report.content = ReportContent::Event(fields.text(EVENT)?);
                Ok(take(&report))
            }
            EventShape::KeyValue => {
                self.annotation(&mut report)?;
                let value = match fields.values[VALUE as usize] {
                    Value::Absent => return Err(Some(Reason::Missing(NAMES[VALUE as usize]))),
                    value => fields.value(value),
                };
                report.content = ReportContent::KeyValue(fields.text(KEY)?, value);
                Ok(take(&report))
            }
            EventShape::WideTraceId => {
                report.trace_id_high = fields.id(TRACE_ID_HIGH)?;
                report.trace_id = fields.number(TRACE_ID)?;
                Ok(take(&report))
            }
            EventShape::Span => {
                self.ids(&mut report)?;
                report.name = fields.text_or(SPAN_NAME, "")?;
                self.endpoint(&mut report)?;
                let kind = match fields.number_or(KIND, u64::MAX)? {
                    0 => Kind::Internal,
                    1 => Kind::Client,
                    2 => Kind::Server,
                    3 => Kind::Producer,
                    4 => Kind::Consumer,
                    _ => Kind::Unspecified,
                };
                let debug = fields.number_or(FLAGS, 0)? & DEBUG != 0;
                let (start_ns, duration_ns) =
                    time.span(fields.number(START)?, fields.number(DURATION)?)?;
                let whole =
                    CompleteSpan { start_ns, duration_ns, kind, debug, target: "", fields: &[] };
                report.content = ReportContent::Span(whole);
                Ok(take(&report))
            }
            EventShape::TracingSpan { target, name, has_service } => {
                self.ids(&mut report)?;
                report.name = name;
                self.service(*has_service, target, &mut report)?;
                let (start_ns, duration_ns) =
                    time.span(fields.number(START)?, fields.number(DURATION)?)?;
                let own: Vec<_> = self.program_fields().collect();
                let kind = Kind::Internal;
                let fields = &own[..];
                let whole =
                    CompleteSpan { start_ns, duration_ns, kind, debug: false, target, fields };
                report.content = ReportContent::Span(whole);
                Ok(take(&report))
            }
            EventShape::TracingEvent { name, has_service } => {
                if fields.number(SPAN_ID)? == 0 {
                    // The event happened outside of any request.
                    return Err(None);
                }
                self.ids(&mut report)?;
                self.service(*has_service, "", &mut report)?;
                let text = self.format_event(name);
                report.content = ReportContent::Event(&text);
                Ok(take(&report))
            }
        }
    }

    #[inline]
    fn annotation<'s>(&'s self, report: &mut SpanReport<'s>) -> Result<(), Option<Reason>> {
        report.trace_id = self.fields.id(TRACE_ID)?;
        report.span_id = self.fields.id(SPAN_ID)?;
        report.parent_id = self.fields.number(PARENT)?;
        report.name = self.fields.text(TRACE_NAME)?;
        self.endpoint(report)
    }

    fn endpoint<'s>(&'s self, report: &mut SpanReport<'s>) -> Result<(), Option<Reason>> {
        report.service = self.fields.text(SERVICE)?;
        report.port = self.fields.port()?;
        report.ip = self.fields.text_or(IP, "")?;
        Ok(())
    }

    /// Sets the report's service, port and address from the event's fields if the tracing layer has
    /// a service. Otherwise sets only the service, to the name of the program.
    fn service<'s>(
        &'s self,
        has_service: bool,
        target: &'s str,
        report: &mut SpanReport<'s>,
    ) -> Result<(), Option<Reason>> {
        if has_service {
            return self.endpoint(report);
        }
        report.service = self.program(target)?;
        Ok(())
    }

    fn ids(&self, report: &mut SpanReport<'_>) -> Result<(), Option<Reason>> {
        report.trace_id = self.fields.number(TRACE_ID)?;
        report.trace_id_high = self.fields.number_or(TRACE_ID_HIGH, 0)?;
        if report.trace_id == 0 && report.trace_id_high == 0 {
            return Err(Some(Reason::Zero(NAMES[TRACE_ID as usize])));
        }
        report.span_id = self.fields.id(SPAN_ID)?;
        report.parent_id = self.fields.number_or(PARENT, 0)?;
        Ok(())
    }

    /// Returns the name of the traced program. If the name is unknown, returns the first component
    /// of the span's target.
    fn program<'s>(&'s self, target: &'s str) -> Result<&'s str, Option<Reason>> {
        let name = self.fields.text_or(PROCNAME, &self.shapes.program)?;
        Ok(if name.is_empty() { target.split('.').next().unwrap_or_default() } else { name })
    }

    /// Returns names and values of the fields that the traced program added itself.
    fn program_fields(&self) -> impl Iterator<Item = (&str, ValueRef<'_>)> {
        let nodes = self.trace.decoder().nodes();
        self.fields.program_fields.iter().map(move |(node, value)| {
            let name = nodes.get(*node as usize).and_then(|node| node.name.as_deref());
            (name.unwrap_or_default(), self.fields.value(*value))
        })
    }

    /// Formats an event of the `tracing` crate: the message (or the event's name if there is no
    /// message), followed by the fields.
    fn format_event(&self, name: &str) -> String {
        let message = self.program_fields().find_map(|(key, value)| match value {
            ValueRef::Str(text) if key == "message" => Some(text),
            _ => None,
        });
        let mut text = message.unwrap_or(name).to_owned();
        for (key, value) in self.program_fields().filter(|(key, _)| *key != "message") {
            let _ = match value {
                ValueRef::Str(value) => write!(text, " {key}={value}"),
                ValueRef::Int(value) => write!(text, " {key}={value}"),
                ValueRef::Bool(value) => write!(text, " {key}={value}"),
                ValueRef::Double(value) => write!(text, " {key}={value}"),
                ValueRef::Bytes(_) => Ok(()),
            };
        }
        text
    }
}

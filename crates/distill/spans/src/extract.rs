//! What an event says of a span. Events of a class all have one shape, which is found out once; then
//! a walk over the fields puts their values into slots.

use crate::fields::{
    DURATION, EVENT, FLAGS, Fields, IP, KEY, KIND, NAMES, NOTHING, OWN, PARENT, PROCNAME, SERVICE,
    SPAN_ID, SPAN_NAME, START, Slot, TRACE_ID, TRACE_ID_HIGH, TRACE_NAME, VALUE, Value, Walk,
};
use crate::refusal::{Example, Reason, Refusals};
use crate::said::{Said, What, Whole};
use blkkin_ctf::clock::TimeScale;
use blkkin_ctf::decode::Node;
use blkkin_ctf::schema::{EnvValue, EventClass, FieldClass, Scope};
use blkkin_model::{Kind, ValueRef};
use blkkin_reader::{Event, Trace};
use std::fmt::Write;

/// Finds out what events say.
#[derive(Debug, Default)]
pub struct Extractor {
    /// By trace id.
    traces: Vec<Option<Shapes>>,
    fields: Fields,
    refusals: Refusals,
    others: u64,
}

/// What events of a trace look like.
#[derive(Debug)]
struct Shapes {
    /// By node id.
    slots: Vec<Slot>,
    /// By stream class and event class.
    classes: Vec<Vec<Shape>>,
    /// By stream class.
    scales: Vec<Option<TimeScale>>,
    /// The traced program.
    program: String,
}

/// What events of a class look like.
#[derive(Clone, Debug)]
enum Shape {
    /// They say nothing of spans.
    Other,
    /// `zipkin:` something.
    Unknown,
    Timestamp,
    KeyValue,
    Span,
    WideTraceId,
    /// Of the `tracing` crate.
    TracingSpan {
        target: String,
        name: String,
        has_service: bool,
    },
    TracingEvent {
        name: String,
        has_service: bool,
    },
}

/// Fields that a span of the `tracing` crate begins with.
const TRACING_SPAN: usize = 6;
/// And an event.
const TRACING_EVENT: usize = 3;

/// Bits of the field `flags`.
const DEBUG: u64 = 1;

/// By how much a span may end after its event, as clocks of processors differ.
const TOLERANCE_NS: i64 = 1_000_000_000;

impl Extractor {
    /// Hands on what an event says, if that is something of a span.
    #[inline]
    pub fn read<R>(
        &mut self,
        event: &mut Event<'_>,
        take: impl FnOnce(&Said<'_>) -> R,
    ) -> Option<R> {
        let trace = event.trace();
        if self.traces.len() <= trace.id {
            self.traces.resize_with(trace.id + 1, || None);
        }
        let shapes = self.traces[trace.id].get_or_insert_with(|| Shapes::new(trace));
        let stream = event.stream().class;
        let shape = &shapes.classes[stream][event.class_index()];
        if matches!(shape, Shape::Other) {
            self.others += 1;
            return None;
        }
        let own_fields = match shape {
            Shape::TracingSpan { .. } => TRACING_SPAN,
            Shape::TracingEvent { .. } => TRACING_EVENT,
            _ => NAMES.len(),
        };
        let has_service = matches!(
            shape,
            Shape::TracingSpan { has_service: true, .. }
                | Shape::TracingEvent { has_service: true, .. }
        );
        self.fields.begin();
        let slots = &shapes.slots;
        if !event.visit(&mut Walk { fields: &mut self.fields, slots, own_fields, has_service }) {
            // The reader tells of it.
            return None;
        }
        let reading = Reading { fields: &self.fields, shapes, trace, stream, time: event.time() };
        match reading.hand_on(shape, take) {
            Ok(result) => Some(result),
            Err(None) => {
                self.others += 1;
                None
            }
            Err(Some(reason)) => {
                self.refuse(reason, event);
                None
            }
        }
    }

    /// What could not be understood.
    pub fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Events that say nothing of spans.
    pub fn others(&self) -> u64 {
        self.others
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

impl Shapes {
    fn new(trace: &Trace) -> Shapes {
        let nodes = trace.decoder().nodes();
        let is_member = |node: &Node| {
            let parent = node.parent.and_then(|parent| nodes.get(parent as usize));
            parent.is_some_and(|parent| parent.parent.is_none())
        };
        let slot = |node: &Node| match (node.scope, node.name.as_deref()) {
            (Scope::Payload, Some(name)) if is_member(node) => {
                let number = NAMES.iter().position(|known| *known == name);
                number.map_or(OWN, |number| number as Slot)
            }
            (Scope::CommonContext | Scope::SpecificContext, Some("procname")) => PROCNAME,
            _ => NOTHING,
        };
        let schema = trace.schema();
        let classes = schema.streams.iter();
        let program = match schema.trace.env("procname") {
            Some(EnvValue::Str(name)) => name.clone(),
            _ => String::new(),
        };
        Shapes {
            slots: nodes.iter().map(slot).collect(),
            classes: classes.map(|class| class.events.iter().map(shape).collect()).collect(),
            scales: (0..schema.streams.len()).map(|class| trace.scale(class)).collect(),
            program,
        }
    }
}

/// What events of a class look like.
fn shape(class: &EventClass) -> Shape {
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
        "zipkin:timestamp" => Shape::Timestamp,
        "zipkin:keyval" | "zipkin:keyval_string" | "zipkin:keyval_integer" => Shape::KeyValue,
        "blkkin:span" => Shape::Span,
        "blkkin:wide_trace_id" => Shape::WideTraceId,
        _ if target == "zipkin" => Shape::Unknown,
        _ if begins_with(TRACING_SPAN) => {
            let has_service = has_service(class, TRACING_SPAN);
            Shape::TracingSpan { target: target.to_owned(), name: own_name.to_owned(), has_service }
        }
        _ if begins_with(TRACING_EVENT) => Shape::TracingEvent {
            name: own_name.to_owned(),
            has_service: has_service(class, TRACING_EVENT),
        },
        _ => Shape::Other,
    }
}

/// Whether service, port and address come behind so many fields, of the types that a layer gives
/// them. A program may have fields of its own called so.
fn has_service(class: &EventClass, behind: usize) -> bool {
    let Some(FieldClass::Struct(payload)) = &class.payload else { return false };
    let members = payload.members.iter().skip(behind);
    let said: Vec<_> = members.take(3).map(|member| (&*member.name, &member.class)).collect();
    matches!(
        said[..],
        [
            ("service_name", FieldClass::String(_)),
            ("port_no", FieldClass::Int(_)),
            ("ip", FieldClass::String(_))
        ]
    )
}

/// An event whose fields are there.
struct Reading<'r> {
    fields: &'r Fields,
    shapes: &'r Shapes,
    trace: &'r Trace,
    stream: usize,
    time: Option<i64>,
}

impl<'r> Reading<'r> {
    /// Why not, unless the event has nothing to do with spans.
    #[inline]
    fn hand_on<R>(
        &self,
        shape: &'r Shape,
        take: impl FnOnce(&Said<'_>) -> R,
    ) -> Result<R, Option<Reason>> {
        let fields = self.fields;
        let time = self.time.ok_or(Some(Reason::NoTime))?;
        let time_ns = u64::try_from(time).map_err(|_| Some(Reason::TimeOutOfRange))?;
        let mut said = Said {
            trace_id: 0,
            trace_id_high: 0,
            span_id: 0,
            parent_id: 0,
            name: "",
            service: "",
            ip: "",
            port: 0,
            time_ns,
            source: self.trace.id as u32,
            what: What::WideTraceId,
        };
        match shape {
            Shape::Other => Err(None),
            Shape::Unknown => Err(Some(Reason::Unknown)),
            Shape::Timestamp => {
                self.annotation(&mut said)?;
                said.what = What::Event(fields.text(EVENT)?);
                Ok(take(&said))
            }
            Shape::KeyValue => {
                self.annotation(&mut said)?;
                let value = match fields.values[VALUE as usize] {
                    Value::Absent => return Err(Some(Reason::Missing(NAMES[VALUE as usize]))),
                    value => fields.value(value),
                };
                said.what = What::KeyValue(fields.text(KEY)?, value);
                Ok(take(&said))
            }
            Shape::WideTraceId => {
                said.trace_id_high = fields.id(TRACE_ID_HIGH)?;
                said.trace_id = fields.number(TRACE_ID)?;
                Ok(take(&said))
            }
            Shape::Span => {
                self.ids(&mut said)?;
                said.name = fields.text_or(SPAN_NAME, "")?;
                self.endpoint(&mut said)?;
                let kind = match fields.number_or(KIND, u64::MAX)? {
                    0 => Kind::Internal,
                    1 => Kind::Client,
                    2 => Kind::Server,
                    3 => Kind::Producer,
                    4 => Kind::Consumer,
                    _ => Kind::Unspecified,
                };
                let debug = fields.number_or(FLAGS, 0)? & DEBUG != 0;
                let (start_ns, duration_ns) = self.times(time)?;
                let whole = Whole { start_ns, duration_ns, kind, debug, target: "", fields: &[] };
                said.what = What::Span(whole);
                Ok(take(&said))
            }
            Shape::TracingSpan { target, name, has_service } => {
                self.ids(&mut said)?;
                said.name = name;
                self.service(*has_service, target, &mut said)?;
                let (start_ns, duration_ns) = self.times(time)?;
                let own: Vec<_> = self.own().collect();
                let kind = Kind::Internal;
                let fields = &own[..];
                let whole = Whole { start_ns, duration_ns, kind, debug: false, target, fields };
                said.what = What::Span(whole);
                Ok(take(&said))
            }
            Shape::TracingEvent { name, has_service } => {
                if fields.number(SPAN_ID)? == 0 {
                    // It happened outside of all requests.
                    return Err(None);
                }
                self.ids(&mut said)?;
                self.service(*has_service, "", &mut said)?;
                let text = self.in_words(name);
                said.what = What::Event(&text);
                Ok(take(&said))
            }
        }
    }

    #[inline]
    fn annotation<'s>(&'s self, said: &mut Said<'s>) -> Result<(), Option<Reason>> {
        said.trace_id = self.fields.id(TRACE_ID)?;
        said.span_id = self.fields.id(SPAN_ID)?;
        said.parent_id = self.fields.number(PARENT)?;
        said.name = self.fields.text(TRACE_NAME)?;
        self.endpoint(said)
    }

    fn endpoint<'s>(&'s self, said: &mut Said<'s>) -> Result<(), Option<Reason>> {
        said.service = self.fields.text(SERVICE)?;
        said.port = self.fields.port()?;
        said.ip = self.fields.text_or(IP, "")?;
        Ok(())
    }

    /// The service that a span or event of the `tracing` crate says, or else the program.
    fn service<'s>(
        &'s self,
        has_service: bool,
        target: &'s str,
        said: &mut Said<'s>,
    ) -> Result<(), Option<Reason>> {
        if has_service {
            return self.endpoint(said);
        }
        said.service = self.program(target)?;
        Ok(())
    }

    fn ids(&self, said: &mut Said<'_>) -> Result<(), Option<Reason>> {
        said.trace_id = self.fields.number(TRACE_ID)?;
        said.trace_id_high = self.fields.number_or(TRACE_ID_HIGH, 0)?;
        if said.trace_id == 0 && said.trace_id_high == 0 {
            return Err(Some(Reason::Zero(NAMES[TRACE_ID as usize])));
        }
        said.span_id = self.fields.id(SPAN_ID)?;
        said.parent_id = self.fields.number_or(PARENT, 0)?;
        Ok(())
    }

    /// Start and duration, which are told in units of the clock.
    fn times(&self, event_time: i64) -> Result<(u64, u64), Option<Reason>> {
        let scale = self.shapes.scales.get(self.stream).copied().flatten();
        let scale = scale.ok_or(Some(Reason::NoTime))?;
        let start = self.fields.number(START)?;
        let out_of_range = Some(Reason::TimeOutOfRange);
        let end = start.checked_add(self.fields.number(DURATION)?).ok_or(out_of_range)?;
        let (start, end) = (scale.ns(start), scale.ns(end));
        if end > event_time.saturating_add(TOLERANCE_NS) {
            return Err(Some(Reason::EndsLater));
        }
        let start_ns = u64::try_from(start).map_err(|_| out_of_range)?;
        Ok((start_ns, end.abs_diff(start)))
    }

    /// The traced program; if it is not known, the first part of a span's target.
    fn program<'s>(&'s self, target: &'s str) -> Result<&'s str, Option<Reason>> {
        let name = self.fields.text_or(PROCNAME, &self.shapes.program)?;
        Ok(if name.is_empty() { target.split('.').next().unwrap_or_default() } else { name })
    }

    /// The program's own fields.
    fn own(&self) -> impl Iterator<Item = (&str, ValueRef<'_>)> {
        let nodes = self.trace.decoder().nodes();
        self.fields.own.iter().map(move |(node, value)| {
            let name = nodes.get(*node as usize).and_then(|node| node.name.as_deref());
            (name.unwrap_or_default(), self.fields.value(*value))
        })
    }

    /// An event of the `tracing` crate as one text: its message, or else its name, and its fields.
    fn in_words(&self, name: &str) -> String {
        let message = self.own().find_map(|(key, value)| match value {
            ValueRef::Str(text) if key == "message" => Some(text),
            _ => None,
        });
        let mut text = message.unwrap_or(name).to_owned();
        for (key, value) in self.own().filter(|(key, _)| *key != "message") {
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

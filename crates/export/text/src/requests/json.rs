//! Requests as JSON, one object per line, each with its `type`.
//!
//! | type | fields |
//! | --- | --- |
//! | `begin` | `schema`, and the `traces` that are read |
//! | `request` | `trace_id`, `start`, `duration`; numbers of `spans`, `errors`, `events`, `events_left_out`; the reason why the request was completed, `completion` (`idle`, `ended`, `evicted`); and `oddities` with their counts |
//! | | `clock_error`, within which the clocks of its machines agree, if that is known |
//! | `span` | `trace_id`, `id`, `parent_id` |
//! | | indexes of the span and its parent among the request's spans: `step`, `parent` |
//! | | `kind`, `name`, `shared`, `debug`, `error` |
//! | | `service`, `ipv4`, `ipv6`, `port`, and `remote` with these four fields of the other side |
//! | | `start`, `duration`, `self` (time without an active child), `moved` (correction for skew) |
//! | | `clock`, if times were corrected: `offset` that was added, and its `error` |
//! | | `own`, the division of `self`, with `sums` by kind |
//! | | in `own`: `disk`, by device, with `requests`, `queued` and `served` |
//! | | in `own`: `bands`, each with `kind`, `start` (from the span's), `duration` |
//! | | in a band, if known: `device`, `waker` or `call` |
//! | | `calls`, system calls, each with `name`, `arguments`, `start`, `duration`, `result` |
//! | | in a call: `error`, its name; `tid`, the thread, if known |
//! | | `annotations`, each with `time` and `value` |
//! | | `tags`, each with `key`, `value`, and `of`: `span`, `scope` or `resource` |
//! | | `odd`, the names of the span's oddities |
//! | `end` | totals, malformed events, losses of the tracer, and `problems` found while reading |
//!
//! Times are nanoseconds; ids and byte strings are hexadecimal digits. Requests and spans omit
//! unknown values, and spans omit flags that are not set and empty lists. Numbers that JSON lacks
//! are strings. The spans of a request follow the request, each after its parent.

use crate::errno::error_name;
use blkkin_model::{EndpointRef, Kind, Origin, SpanRef, ValueRef, hex};
use blkkin_reader::{Stats, Trace};
use blkkin_spans::{
    Agreement, Completion, Counts, Detail, OwnTime, Refusals, Request, SpanClock, Step,
};
use serde_json::{Map, Value, json};
use std::io::Write;

/// Version of the schema of the lines; incremented by changes that may break consumers.
pub const SCHEMA: &str = "blkkin.spans.v1";

/// Prints a line of type `begin`, which describes the traces: the first line, and a further one
/// after each reopening of followed traces.
pub fn begin<'t>(out: &mut Vec<u8>, traces: impl Iterator<Item = &'t Trace>) {
    let trace = |trace: &Trace| {
        let mut object = Map::new();
        object.insert("path".into(), trace.path.display().to_string().into());
        object.insert("name".into(), trace.name.clone().into());
        if let Some(uuid) = trace.schema().trace.uuid {
            object.insert("uuid".into(), uuid.to_string().into());
        }
        Value::Object(object)
    };
    let traces: Vec<Value> = traces.map(trace).collect();
    line(out, &json!({ "type": "begin", "schema": SCHEMA, "traces": traces }));
}

/// Prints a request and its spans.
pub fn request(out: &mut Vec<u8>, request: &Request<'_>) {
    let oddities = request.oddities.iter();
    let oddities: Map<String, Value> =
        oddities.map(|(oddity, count)| (oddity.word().to_owned(), count.into())).collect();
    let mut object = json!({ "type": "request", "trace_id": request.id.to_string() });
    if let Some((start, end)) = request.extent_ns() {
        object["start"] = start.into();
        object["duration"] = (end - start).into();
    }
    object["spans"] = request.steps.len().into();
    object["errors"] = request.errors().into();
    object["events"] = request.events.into();
    object["events_left_out"] = request.events_left_out.into();
    object["completion"] = match request.completion {
        Completion::Idle => "idle",
        Completion::Ended => "ended",
        Completion::Evicted => "evicted",
    }
    .into();
    if let Agreement::Within(error_ns) = request.agreement() {
        object["clock_error"] = error_ns.into();
    }
    object["oddities"] = oddities.into();
    line(out, &object);
    for (at, step) in request.steps.iter().enumerate() {
        span(out, at, step);
    }
}

/// Totals that the last line contains.
#[derive(Clone, Copy, Debug)]
pub struct End<'e> {
    /// Totals of requests and their events.
    pub counts: Counts,
    /// Number of printed requests.
    pub shown: u64,
    /// Malformed events, by reason.
    pub refusals: &'e Refusals,
    /// Number of events that do not describe spans.
    pub others: u64,
    /// Number of disk requests that no span caused.
    pub unattributed: u64,
    /// Totals of all events and losses that were read.
    pub stats: &'e Stats,
}

/// Prints the last line, with the totals.
pub fn end(out: &mut Vec<u8>, end: &End<'_>) {
    let End { counts, shown, refusals, others, unattributed, stats } = end;
    let mut reasons = Map::new();
    for (reason, count) in &refusals.reasons {
        reasons.insert(reason.to_string(), (*count).into());
    }
    let first = refusals.first.as_ref().map(|first| {
        json!({
            "reason": first.reason.to_string(),
            "event": first.event,
            "time": first.time_ns,
            "file": first.file,
        })
    });
    let problem = |problem: &blkkin_reader::Problem| {
        json!({
            "file": problem.path.display().to_string(),
            "offset": problem.offset,
            "message": problem.to_string(),
        })
    };
    let object = json!({
        "type": "end",
        "requests": counts.requests,
        "requests_shown": shown,
        "requests_evicted": counts.evicted,
        "requests_late": counts.late,
        "requests_cut": counts.cut,
        "spans": counts.spans,
        "events": stats.events,
        "events_of_spans": counts.events,
        "events_of_others": others,
        "events_of_no_span": unattributed,
        "events_of_unknown_spans": counts.unmatched,
        "events_left_out": counts.left_out,
        "events_not_understood": refusals.events,
        "not_understood": { "reasons": reasons, "first": first },
        "events_lost": stats.events_lost,
        "events_lost_unknown": stats.events_lost_unknown,
        "packets_lost": stats.packets_lost,
        "packets_lost_unknown": stats.packets_lost_unknown,
        "problems": stats.problems.iter().map(problem).collect::<Vec<_>>(),
    });
    line(out, &object);
}

fn line(out: &mut Vec<u8>, object: &Value) {
    // Writing to memory cannot fail.
    let _ = serde_json::to_writer(&mut *out, object);
    out.push(b'\n');
}

/// Prints a span field by field, directly into the buffer. Spans are frequent, and generic
/// formatting is slower.
fn span(out: &mut Vec<u8>, at: usize, step: &Step<'_>) {
    let SpanRef { trace_id, id, name, start_ns, duration_ns, .. } = step.span;
    out.extend_from_slice(b"{\"type\":\"span\",\"trace_id\":\"");
    if trace_id.is_wide() {
        hexadecimal(out, trace_id.high());
    }
    hexadecimal(out, trace_id.low());
    out.extend_from_slice(b"\",\"id\":\"");
    hexadecimal(out, id.number());
    if let Some(parent) = step.span.parent_id {
        out.extend_from_slice(b"\",\"parent_id\":\"");
        hexadecimal(out, parent.number());
    }
    out.push(b'"');
    number(out, "step", Some(at as u64));
    number(out, "parent", step.parent.map(|parent| parent as u64));
    let kind = match step.span.kind {
        Kind::Unspecified => "",
        Kind::Internal => "internal",
        Kind::Client => "client",
        Kind::Server => "server",
        Kind::Producer => "producer",
        Kind::Consumer => "consumer",
    };
    text(out, "kind", kind);
    text(out, "name", name);
    endpoint(out, &step.span.local);
    if !step.span.remote.is_none() {
        out.extend_from_slice(b",\"remote\":{");
        let start = out.len();
        endpoint(out, &step.span.remote);
        // Remove the leading comma.
        out.remove(start);
        out.push(b'}');
    }
    number(out, "start", start_ns);
    number(out, "duration", duration_ns);
    number(out, "self", step.self_ns);
    if let Some(moved) = step.moved_ns {
        let _ = write!(out, ",\"moved\":{moved}");
    }
    if let Some(SpanClock { offset_ns, error_ns, .. }) = step.clock {
        let _ = write!(out, ",\"clock\":{{\"offset\":{offset_ns},\"error\":{error_ns}}}");
    }
    if let Some(own) = &step.own {
        own_time(out, own);
    }
    list(out, "calls", step.calls.iter(), |out, call| {
        out.extend_from_slice(b"{\"name\":");
        string(out, call.name);
        text(out, "arguments", call.arguments);
        number(out, "start", Some(call.start_ns));
        number(out, "duration", Some(call.duration_ns));
        let _ = write!(out, ",\"result\":{}", call.result);
        text(out, "error", &call.errno().map(error_name).unwrap_or_default());
        number(out, "tid", call.thread.map(u64::from));
        out.push(b'}');
    });
    let error = step.span.is_error();
    for (name, flag) in [("shared", step.span.shared), ("debug", step.span.debug), ("error", error)]
    {
        if flag {
            key(out, name);
            out.extend_from_slice(b"true");
        }
    }
    list(out, "annotations", step.span.annotations.iter(), |out, annotation| {
        out.extend_from_slice(b"{\"time\":");
        decimal(out, annotation.time_ns);
        out.extend_from_slice(b",\"value\":");
        string(out, annotation.value);
        out.push(b'}');
    });
    list(out, "tags", step.span.tags.iter(), |out, tag| {
        out.extend_from_slice(b"{\"key\":");
        string(out, tag.key);
        out.extend_from_slice(b",\"value\":");
        value(out, tag.value);
        out.extend_from_slice(match tag.origin {
            Origin::Resource => b",\"of\":\"resource\"}",
            Origin::Scope => b",\"of\":\"scope\"}",
            Origin::Span => b",\"of\":\"span\"}",
        });
    });
    list(out, "odd", step.oddities(), |out, oddity| string(out, oddity.word()));
    out.extend_from_slice(b"}\n");
}

fn own_time(out: &mut Vec<u8>, own: &OwnTime<'_>) {
    out.extend_from_slice(b",\"own\":{\"sums\":{");
    members(out, own.sums(), |out, (kind, ns)| {
        let _ = write!(out, "\"{}\":{ns}", kind.name());
    });
    out.push(b'}');
    if !own.disks.is_empty() {
        out.extend_from_slice(b",\"disk\":{");
        members(out, own.disks.iter(), |out, disk| {
            string(out, disk.device);
            let (requests, queued, served) = (disk.requests, disk.queued_ns, disk.served_ns);
            let _ =
                write!(out, ":{{\"requests\":{requests},\"queued\":{queued},\"served\":{served}}}");
        });
        out.push(b'}');
    }
    list(out, "bands", own.bands.iter(), |out, band| {
        let (kind, start, duration) = (band.kind.name(), band.start_ns, band.duration_ns);
        let _ = write!(out, "{{\"kind\":\"{kind}\",\"start\":{start},\"duration\":{duration}");
        match band.detail {
            Detail::None => {}
            Detail::Device(name) => text(out, "device", name),
            Detail::Waker(thread) => number(out, "waker", Some(thread.into())),
            Detail::Call(name) => text(out, "call", name),
        }
        out.push(b'}');
    });
    out.push(b'}');
}

/// Appends items separated by commas.
fn members<T>(out: &mut Vec<u8>, items: impl Iterator<Item = T>, print: impl Fn(&mut Vec<u8>, T)) {
    let start = out.len();
    for item in items {
        if out.len() > start {
            out.push(b',');
        }
        print(out, item);
    }
}

fn endpoint(out: &mut Vec<u8>, endpoint: &EndpointRef<'_>) {
    text(out, "service", endpoint.service);
    if let Some(ip) = endpoint.ipv4 {
        let _ = write!(out, ",\"ipv4\":\"{ip}\"");
    }
    if let Some(ip) = endpoint.ipv6 {
        let _ = write!(out, ",\"ipv6\":\"{ip}\"");
    }
    number(out, "port", Some(endpoint.port.into()).filter(|port| *port != 0));
}

fn number(out: &mut Vec<u8>, name: &str, number: Option<u64>) {
    if let Some(number) = number {
        key(out, name);
        decimal(out, number);
    }
}

fn text(out: &mut Vec<u8>, name: &str, text: &str) {
    if !text.is_empty() {
        key(out, name);
        string(out, text);
    }
}

/// Appends a comma, and a key that needs no escapes.
fn key(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

fn decimal(out: &mut Vec<u8>, number: u64) {
    let mut digits = [0; 20];
    let mut from = digits.len();
    let mut rest = number;
    loop {
        from -= 1;
        digits[from] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[from..]);
}

/// Appends a number as sixteen hexadecimal digits.
fn hexadecimal(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&hex::digits(number));
}

fn list<T>(
    out: &mut Vec<u8>,
    name: &str,
    items: impl Iterator<Item = T>,
    print: impl Fn(&mut Vec<u8>, T),
) {
    let start = out.len();
    for item in items {
        if out.len() == start {
            key(out, name);
            out.push(b'[');
        } else {
            out.push(b',');
        }
        print(out, item);
    }
    if out.len() > start {
        out.push(b']');
    }
}

fn value(out: &mut Vec<u8>, value: ValueRef<'_>) {
    let _ = match value {
        ValueRef::Str(text) => {
            string(out, text);
            Ok(())
        }
        ValueRef::Int(number) => write!(out, "{number}"),
        ValueRef::Bool(flag) => write!(out, "{flag}"),
        ValueRef::Double(number) if number.is_finite() => {
            serde_json::to_writer(&mut *out, &number).map_err(Into::into)
        }
        ValueRef::Double(number) => write!(out, "\"{number}\""),
        ValueRef::Bytes(bytes) => {
            out.push(b'"');
            bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}")).map(|()| out.push(b'"'))
        }
    };
}

fn string(out: &mut Vec<u8>, text: &str) {
    if text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        // Writing to memory cannot fail.
        let _ = serde_json::to_writer(&mut *out, text);
    }
}

//! Statistics as one JSON object. Keys that `blkkin view --json` also uses have the same meaning.
//! Unknown values are `null`; times are nanoseconds from the clock's origin.

use super::collection::{Collection, Counts, EventInfo, LossInfo, StreamInfo, TraceInfo};
use crate::class::severity;
use blkkin_ctf::clock::TimeScale;
use blkkin_ctf::schema::{Clock, ClockOrigin, EnvValue, Version};
use blkkin_filter::Severity;
use blkkin_reader::Problem;
use serde_json::{Map, Value, json};

/// Version of the schema of the JSON object; incremented by changes that may break consumers.
pub const SCHEMA: &str = "blkkin.info.v1";

/// Maximum number of buckets in the histogram.
const BUCKETS_MAX: usize = 256;

/// Returns the statistics as a JSON object, with the problems that the reader reported.
pub fn to_json(collection: &Collection, problems: &[Problem]) -> Value {
    let traces = collection.traces.iter().enumerate();
    json!({
        "schema": SCHEMA,
        "selected": collection.selected,
        "traces": traces.map(|(index, info)| trace(collection, index, info)).collect::<Vec<_>>(),
        "total": Value::Object(counts(collection, &collection.counts(None))),
        "streams": streams(collection),
        "events": events(collection),
        "histogram": histogram(collection),
        "losses": losses(collection),
        "losses_left_out": collection.losses_left_out,
        "problems": problems.iter().map(problem).collect::<Vec<_>>(),
    })
}

fn trace(collection: &Collection, index: usize, info: &TraceInfo) -> Value {
    let env = info.env.iter().map(|(key, value)| {
        let value = match value {
            EnvValue::Int(value) => json!(value),
            EnvValue::Str(value) => json!(value),
        };
        (key.clone(), value)
    });
    let mut object = object(json!({
        "trace": index,
        "name": info.name,
        "path": info.path.display().to_string(),
        "uuid": info.uuid.map(|uuid| uuid.to_string()),
        "ctf_version": match info.version {
            Version::Ctf1 => "1.8",
            Version::Ctf2 => "2",
        },
        "env": env.collect::<Map<_, _>>(),
        "clocks": info.clocks.iter().map(clock).collect::<Vec<_>>(),
    }));
    object.append(&mut counts(collection, &collection.counts(Some(index))));
    Value::Object(object)
}

fn clock(clock: &Clock) -> Value {
    json!({
        "name": clock.name,
        "frequency": clock.frequency,
        "origin": match &clock.origin {
            ClockOrigin::UnixEpoch => Some("unix-epoch"),
            ClockOrigin::Unknown => None,
            ClockOrigin::Custom(identity) => Some(identity.name.as_deref().unwrap_or("custom")),
        },
        "zero": TimeScale::new(clock).ns(0),
    })
}

fn counts(collection: &Collection, counts: &Counts) -> Map<String, Value> {
    object(json!({
        "begin": counts.span.map(|(first, _)| first),
        "end": counts.span.map(|(_, last)| last),
        "events": counts.events,
        "events_per_second": counts.events_per_second(),
        "packets": counts.packets,
        "bytes": counts.bytes,
        "content_bytes": counts.content_bytes,
        "bytes_per_event": counts.bytes_per_event().filter(|_| !collection.selected),
        "events_lost": counts.events_lost,
        "events_lost_unknown": counts.events_lost_unknown,
        "packets_lost": counts.packets_lost,
        "packets_lost_unknown": counts.packets_lost_unknown,
    }))
}

fn streams(collection: &Collection) -> Vec<Value> {
    let stream = |(index, stream): (usize, &StreamInfo)| {
        let mut object = object(json!({
            "stream": index,
            "trace": stream.trace,
            "stream_class": stream.class_id,
            "stream_id": stream.instance,
            "cpu": stream.cpu,
            "file": stream.file,
        }));
        object.append(&mut counts(collection, &stream.counts));
        Value::Object(object)
    };
    collection.streams.iter().enumerate().map(stream).collect()
}

fn events(collection: &Collection) -> Vec<Value> {
    let event = |event: &EventInfo| {
        json!({
            "name": event.name,
            "severity": match severity(event.log_level).map(Severity::word) {
                Some(name) => json!(name),
                None => json!(event.log_level),
            },
            "events": event.count,
            "first": event.span.map(|(first, _)| first),
            "last": event.span.map(|(_, last)| last),
        })
    };
    collection.events.iter().map(event).collect()
}

/// Formats the timeline. In the array `lost`, a bucket with a loss has 1, any other bucket 0.
fn histogram(collection: &Collection) -> Value {
    let (begin, width, buckets) = collection.timeline.buckets(BUCKETS_MAX);
    json!({
        "begin": if buckets.is_empty() { None } else { Some(begin) },
        "bucket_ns": width,
        "events": buckets.iter().map(|bucket| bucket.events).collect::<Vec<_>>(),
        "lost": buckets.iter().map(|bucket| u8::from(bucket.lost)).collect::<Vec<_>>(),
    })
}

fn losses(collection: &Collection) -> Vec<Value> {
    let loss = |loss: &LossInfo| {
        json!({
            "stream": loss.stream,
            "kind": format!("{}s", loss.kind),
            "count": loss.count,
            "from": loss.from,
            "to": loss.to,
        })
    };
    collection.losses.iter().map(loss).collect()
}

fn problem(problem: &Problem) -> Value {
    let mut object = json!({
        "file": problem.path.display().to_string(),
        "offset": problem.offset,
        "message": problem.to_string(),
    });
    if problem.is_warning() {
        object["warning"] = true.into();
    }
    object
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

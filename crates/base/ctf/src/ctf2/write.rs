//! Writing of a schema's fragments: preamble, trace class, clock classes, then each data stream
//! class followed by its event record classes.

use super::object::{Object, object_of_type, put};
use super::print::print;
use super::vocabulary::{LOG_LEVELS, LTTNG_NAMESPACE};
use super::write_classes::ClassWriter;
use crate::schema::*;
use serde_json::{Value, json};

pub(super) fn write(schema: &Schema) -> String {
    let mut text = String::new();
    fragment(&mut text, preamble(&schema.trace));
    fragment(&mut text, trace_class(&schema.trace));
    for clock in &schema.clocks {
        fragment(&mut text, clock_class(clock));
    }
    for stream in &schema.streams {
        let clock = stream.clock.and_then(|index| schema.clocks.get(index));
        let has_uuid = schema.trace.uuid.is_some();
        let classes = ClassWriter { has_uuid, has_clock: clock.is_some() };
        fragment(&mut text, stream_class(stream, clock, &classes));
        for event in &stream.events {
            fragment(&mut text, event_class(stream.id, event, &classes));
        }
    }
    text
}

fn fragment(text: &mut String, object: Object) {
    text.push('\u{1e}');
    print(&Value::Object(object), 0, text);
    text.push('\n');
}

fn preamble(trace: &TraceClass) -> Object {
    let mut object = object_of_type("preamble");
    put(&mut object, "version", Some(2));
    put(&mut object, "uuid", trace.uuid.map(|uuid| uuid.0.to_vec()));
    object
}

fn trace_class(trace: &TraceClass) -> Object {
    let mut object = object_of_type("trace-class");
    put(&mut object, "namespace", trace.namespace.as_deref());
    put(&mut object, "name", trace.name.as_deref());
    put(&mut object, "uid", trace.uid.as_deref());
    let entries = trace.env.iter().map(|(name, value)| {
        let value = match value {
            EnvValue::Int(number) => Value::from(*number),
            EnvValue::Str(text) => Value::from(text.as_str()),
        };
        (name.clone(), value)
    });
    let environment: Object = entries.collect();
    put(&mut object, "environment", Some(environment).filter(|entries| !entries.is_empty()));
    let classes = ClassWriter { has_uuid: trace.uuid.is_some(), has_clock: false };
    let header = classes.root(&trace.packet_header, Scope::PacketHeader);
    put(&mut object, "packet-header-field-class", header);
    object
}

fn clock_class(clock: &Clock) -> Object {
    let mut object = object_of_type("clock-class");
    put(&mut object, "id", Some(clock.name.as_str()));
    // A clock with a UUID but no identity gets one made of name and UUID, as in LTTng's traces.
    let identity = clock.identity.clone().or_else(|| {
        let uid = clock.uuid?.to_string();
        Some(ClockIdentity { namespace: None, name: Some(clock.name.clone()), uid: Some(uid) })
    });
    if let Some(identity) = &identity {
        put_identity(&mut object, identity);
    }
    put(&mut object, "description", clock.description.as_deref());
    put(&mut object, "frequency", Some(clock.frequency));
    put(&mut object, "precision", clock.precision);
    put(&mut object, "accuracy", clock.accuracy);
    put(
        &mut object,
        "origin",
        match &clock.origin {
            ClockOrigin::UnixEpoch => Some(Value::from("unix-epoch")),
            ClockOrigin::Unknown => None,
            ClockOrigin::Custom(origin) => {
                let mut object = Object::new();
                put_identity(&mut object, origin);
                // Both `name` and `uid` are mandatory in an origin.
                object.entry("name").or_insert_with(|| "".into());
                object.entry("uid").or_insert_with(|| "".into());
                Some(Value::Object(object))
            }
        },
    );
    let (seconds, cycles) = offset(clock);
    if (seconds, cycles) != (0, 0) {
        let offset = json!({ "seconds": seconds, "cycles": cycles });
        put(&mut object, "offset-from-origin", Some(offset));
    }
    object
}

fn put_identity(object: &mut Object, identity: &ClockIdentity) {
    put(object, "namespace", identity.namespace.as_deref());
    put(object, "name", identity.name.as_deref());
    put(object, "uid", identity.uid.as_deref());
}

/// Returns the clock's offset in seconds and cycles, with cycles from 0 to below the frequency, as
/// CTF 2 requires. Returns the offset unchanged if the result would exceed 64 bits.
fn offset(clock: &Clock) -> (i64, i64) {
    let as_it_is = (clock.offset_seconds, clock.offset_cycles);
    let frequency = i128::from(clock.frequency.max(1));
    let seconds =
        i128::from(clock.offset_seconds) + i128::from(clock.offset_cycles).div_euclid(frequency);
    let cycles = i128::from(clock.offset_cycles).rem_euclid(frequency);
    match (i64::try_from(seconds), i64::try_from(cycles)) {
        (Ok(seconds), Ok(cycles)) => (seconds, cycles),
        _ => as_it_is,
    }
}

fn stream_class(stream: &StreamClass, clock: Option<&Clock>, classes: &ClassWriter) -> Object {
    let mut object = object_of_type("data-stream-class");
    put(&mut object, "id", Some(stream.id));
    put(&mut object, "namespace", stream.namespace.as_deref());
    put(&mut object, "name", stream.name.as_deref());
    put(&mut object, "uid", stream.uid.as_deref());
    put(&mut object, "default-clock-class-id", clock.map(|clock| clock.name.as_str()));
    for (key, class, scope) in [
        ("packet-context-field-class", &stream.packet_context, Scope::PacketContext),
        ("event-record-header-field-class", &stream.event_header, Scope::EventHeader),
        ("event-record-common-context-field-class", &stream.common_context, Scope::CommonContext),
    ] {
        put(&mut object, key, classes.root(class, scope));
    }
    object
}

fn event_class(stream_id: u64, event: &EventClass, classes: &ClassWriter) -> Object {
    let mut object = object_of_type("event-record-class");
    put(&mut object, "id", Some(event.id));
    put(&mut object, "data-stream-class-id", Some(stream_id));
    put(&mut object, "namespace", event.namespace.as_deref());
    put(&mut object, "name", event.name.as_deref());
    put(&mut object, "uid", event.uid.as_deref());
    let mut attributes = Object::new();
    put(&mut attributes, "log-level", event.log_level.map(log_level));
    put(&mut attributes, "emf-uri", event.emf_uri.as_deref());
    if !attributes.is_empty() {
        put(&mut object, "attributes", Some(json!({ LTTNG_NAMESPACE: attributes })));
    }
    for (key, class, scope) in [
        ("specific-context-field-class", &event.specific_context, Scope::SpecificContext),
        ("payload-field-class", &event.payload, Scope::Payload),
    ] {
        put(&mut object, key, classes.root(class, scope));
    }
    object
}

fn log_level(level: i64) -> Value {
    let word = usize::try_from(level).ok().and_then(|level| LOG_LEVELS.get(level));
    word.map_or(level.into(), |&word| word.into())
}

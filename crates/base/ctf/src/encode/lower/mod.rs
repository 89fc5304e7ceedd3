//! Derivation of the output schema from the source schema.
//!
//! The new schema has standard headers ([`standard`]), and otherwise only visible parts: names, log
//! levels, environment, clocks, contexts and payloads. Fields that only serve the format (times,
//! ids, sizes) are left out, as the decoder leaves them out of visits, so each visited node has a
//! counterpart in the output. `fields` walks classes and nodes in parallel. For CTF 1.8 it replaces
//! classes that the format lacks, with the help of `selectors` (labels for variants) and `names`:
//!
//! - variable-length integers become integers of 64 bits, booleans enumerations of "false" and
//!   "true", bit arrays and bit maps unsigned hexadecimal integers;
//! - optionals become variants with an empty structure for the absent case; their selectors and
//!   the selectors of variants become enumerations, whose labels are made from the options' names;
//! - text in UTF-16 or UTF-32, terminated or counted, becomes a terminated string in UTF-8 (a
//!   length field is kept, and still counts the bytes of the source);
//! - blobs become arrays of hexadecimal bytes, and floats in formats other than those of 32 and 64
//!   bits become floats of 64 bits;
//! - fields get the usual bit order, fields that may share a byte the trace's byte order, and
//!   hexadecimal integers of 61 to 63 bits get 64 bits.
//!
//! For CTF 2, `fields` changes bit and byte orders in the same way, and replaces ASCII by UTF-8 and
//! floats in formats that CTF 2 lacks by floats of 64 bits.
//!
//! The output lacks the source's headers, so a field with its length or selector in a header gets a
//! new field before it for that value. For CTF 1.8, so does a variant or optional with its selector
//! outside of the enclosing structures.
//!
//! babeltrace2 2.0.4 cannot read two constructs in any encoding: variants and arrays of dynamic
//! length in an event's specific context, and streams with and without a clock in one trace.

mod fields;
mod names;
mod selectors;
mod standard;
mod target;

use super::error::EncodeError;
use super::step::Step;
use crate::decode::Decoder;
use crate::schema::{
    Clock, ClockOrigin, EventClass, FieldClass, Schema, Scope, StreamClass, StructClass,
    TraceClass, Version,
};
use fields::Lowering;
use std::collections::HashSet;
use std::sync::Arc;
use target::Target;

/// An output schema, with the steps that write visited fields. Valid for the nodes of one decoder.
#[derive(Debug)]
pub struct LoweredSchema {
    /// Schema of the packets that the encoder writes.
    pub schema: Arc<Schema>,
    /// Steps that write visited fields, by node id of the source decoder.
    pub(super) steps: Vec<Step>,
    pub(super) slot_count: usize,
    /// Flags for the members of each stream's packet context, by stream and member: true if the
    /// member is visited.
    pub(super) context_visited: Vec<Vec<bool>>,
}

/// Derives a CTF 1.8 schema from the source's schema. babeltrace2 can read the result too, apart
/// from the two constructs in the description of this module.
pub fn lower_to_ctf1(source: &Decoder) -> Result<LoweredSchema, EncodeError> {
    lower(source, Target::Ctf1)
}

/// Derives a CTF 2 schema from the source's schema.
pub fn lower_to_ctf2(source: &Decoder) -> Result<LoweredSchema, EncodeError> {
    lower(source, Target::Ctf2)
}

/// Makes a lowered schema that equals the source's schema, for producers of single events. All
/// fields outside of headers and packet contexts must be visible.
pub fn lower_unchanged(source: &Decoder) -> Result<LoweredSchema, EncodeError> {
    lower(source, Target::Same)
}

fn lower(source: &Decoder, target: Target) -> Result<LoweredSchema, EncodeError> {
    let schema = source.schema();
    let mut lowering = Lowering::new(source, target);
    for (stream, class) in schema.streams.iter().enumerate() {
        let mut collect = |event, scope, class| lowering.collect_scope(stream, event, scope, class);
        collect(None, Scope::PacketContext, &class.packet_context)?;
        collect(None, Scope::CommonContext, &class.common_context)?;
        for (event, class) in class.events.iter().enumerate() {
            collect(Some(event), Scope::SpecificContext, &class.specific_context)?;
            collect(Some(event), Scope::Payload, &class.payload)?;
        }
    }
    lowering.make_labels()?;
    let mut streams = Vec::with_capacity(schema.streams.len());
    let mut context_visited = Vec::with_capacity(schema.streams.len());
    for (stream, class) in schema.streams.iter().enumerate() {
        let (class, visited) = self::stream(&mut lowering, schema, stream, class)?;
        streams.push(class);
        context_visited.push(visited);
    }
    let (steps, slot_count) = lowering.finish();
    let schema = match target {
        Target::Same => schema.clone(),
        _ => Arc::new(Schema {
            version: if target == Target::Ctf1 { Version::Ctf1 } else { Version::Ctf2 },
            trace: TraceClass {
                packet_header: Some(standard::packet_header(schema)),
                ..schema.trace.clone()
            },
            clocks: clocks(schema, target),
            streams,
        }),
    };
    Ok(LoweredSchema { schema, steps, slot_count, context_visited })
}

fn stream(
    lowering: &mut Lowering<'_>,
    schema: &Schema,
    stream: usize,
    class: &StreamClass,
) -> Result<(StreamClass, Vec<bool>), EncodeError> {
    let is_same = lowering.target == Target::Same;
    let mut own = match is_same {
        true => StructClass::default(),
        false => standard::packet_context(schema, class),
    };
    let taken = own.members.iter().map(|member| member.name.clone()).collect();
    let context = &class.packet_context;
    let visible = lowering.enter(stream, None, Scope::PacketContext).scope(context, taken)?;
    let mut visited = vec![false; own.members.len()];
    let packet_context = if is_same {
        visited = lowering.shown_members(stream, context);
        context.clone()
    } else {
        if let Some(visible) = visible {
            // A visit of a field also writes its inserted prefix, so prefixes count as visited.
            visited.extend(visible.members.iter().map(|_| true));
            own.align = own.align.max(visible.align);
            own.members.extend(visible.members);
        }
        Some(FieldClass::Struct(own))
    };
    let mut events = Vec::with_capacity(class.events.len());
    let mut common_context = None;
    for (index, event) in class.events.iter().enumerate() {
        let mut scope = |scope, class| {
            lowering
                .enter(stream, Some(index), scope)
                .scope(class, Default::default())
                .map(|class| class.map(FieldClass::Struct))
                .map_err(|error| in_event(error, event))
        };
        common_context = scope(Scope::CommonContext, &class.common_context)?;
        events.push(EventClass {
            specific_context: scope(Scope::SpecificContext, &event.specific_context)?,
            payload: scope(Scope::Payload, &event.payload)?,
            ..describe(event, lowering.target)
        });
    }
    let class = StreamClass {
        id: class.id,
        namespace: class.namespace.clone(),
        name: class.name.clone(),
        uid: class.uid.clone(),
        clock: class.clock,
        packet_context,
        event_header: Some(standard::event_header(schema, class)),
        common_context,
        events,
    };
    Ok((class, visited))
}

fn in_event(error: EncodeError, event: &EventClass) -> EncodeError {
    let name = event.name.clone().unwrap_or_else(|| event.id.to_string());
    EncodeError::new(format!("event {name}: {error}"))
}

/// Copies an event class without its fields. For CTF 1.8, adds a missing name and drops a negative
/// log level, because babeltrace2 rejects these.
fn describe(event: &EventClass, target: Target) -> EventClass {
    let is_ctf1 = target == Target::Ctf1;
    let name = event.name.clone().or_else(|| is_ctf1.then(|| format!("event {}", event.id)));
    EventClass {
        id: event.id,
        namespace: event.namespace.clone(),
        name,
        uid: event.uid.clone(),
        log_level: event.log_level.filter(|&level| level >= 0 || !is_ctf1),
        emf_uri: event.emf_uri.clone(),
        specific_context: None,
        payload: None,
    }
}

/// Copies the clocks. For CTF 1.8, converts their names to TSDL identifiers, derives a missing UUID
/// from the `uid` of the clock's identity if that is a UUID, and replaces custom origins by the
/// unknown origin.
fn clocks(schema: &Schema, target: Target) -> Vec<Clock> {
    let mut clocks = schema.clocks.clone();
    if target != Target::Ctf1 {
        return clocks;
    }
    let mut taken = HashSet::new();
    for clock in &mut clocks {
        clock.name = names::option(&clock.name, "clock", &mut taken);
        let uid = clock.identity.as_ref().and_then(|identity| identity.uid.as_ref());
        clock.uuid = clock.uuid.or_else(|| uid?.parse().ok());
        if clock.origin != ClockOrigin::UnixEpoch {
            clock.origin = ClockOrigin::Unknown;
        }
    }
    clocks
}

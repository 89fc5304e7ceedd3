//! The reserved names of CTF 1.8's special fields, and the clock of a stream. Reader and writer
//! share this module, so that they agree on the reserved names.

use crate::schema::{FieldClass, IntClass, IntKind, Role, Scope, StreamClass};

/// Returns the role of an integer by its written name; `None` if the name is not reserved. `top` is
/// true for a direct member of the scope's structure.
pub(super) fn reserved_role(scope: Scope, top: bool, name: &str) -> Option<Role> {
    match (scope, name) {
        (Scope::PacketHeader, "magic") if top => Some(Role::Magic),
        (Scope::PacketHeader, "stream_id") if top => Some(Role::StreamClassId),
        (Scope::PacketHeader, "stream_instance_id") if top => Some(Role::StreamInstanceId),
        (Scope::PacketContext, "timestamp_begin") if top => Some(Role::Timestamp),
        (Scope::PacketContext, "timestamp_end") if top => Some(Role::PacketEnd),
        (Scope::PacketContext, "content_size") if top => Some(Role::ContentSize),
        (Scope::PacketContext, "packet_size") if top => Some(Role::PacketSize),
        (Scope::PacketContext, "packet_seq_num") if top => Some(Role::PacketSeqNum),
        (Scope::PacketContext, "events_discarded") if top => Some(Role::EventsDiscarded),
        (Scope::EventHeader, "id") => Some(Role::EventClassId),
        _ => None,
    }
}

/// Returns whether a member is the trace's UUID: a direct member (`top`) of the packet header with
/// the name `uuid`.
pub(super) fn is_uuid(scope: Scope, top: bool, name: &str) -> bool {
    scope == Scope::PacketHeader && top && name == "uuid"
}

/// Returns whether an integer of this name in `scope` has a clock even without a `map`: the trace's
/// only clock.
pub(super) fn is_timestamp_name(scope: Scope, name: &str) -> bool {
    match scope {
        Scope::PacketContext => matches!(name, "timestamp_begin" | "timestamp_end"),
        Scope::EventHeader => name == "timestamp",
        _ => false,
    }
}

/// Returns whether an integer sets the stream's own clock by its mapping: an unsigned integer with
/// this clock, in the event header or a later scope. In packet contexts only `timestamp_begin` sets
/// the clock, by the role of its name.
pub(super) fn sets_clock(scope: Scope, int: &IntClass, own_clock: Option<usize>) -> bool {
    scope >= Scope::EventHeader
        && int.kind == IntKind::Unsigned
        && int.clock.is_some()
        && int.clock == own_clock
}

/// Determines the clock of the stream's events, and marks the fields that set it.
pub(super) fn assign_clock(stream: &mut StreamClass) {
    let context = stream.packet_context.as_ref();
    let begin = |int: &IntClass| int.roles.has(Role::Timestamp);
    let end = |int: &IntClass| int.roles.has(Role::PacketEnd);
    let any = |_: &IntClass| true;
    stream.clock = first_clock(context, begin)
        .or_else(|| first_clock(context, end))
        .or_else(|| first_clock(stream.event_header.as_ref(), any))
        .or_else(|| first_clock(context, any))
        .or_else(|| first_clock(stream.common_context.as_ref(), any))
        .or_else(|| {
            stream.events.iter().find_map(|event| {
                first_clock(event.specific_context.as_ref(), any)
                    .or_else(|| first_clock(event.payload.as_ref(), any))
            })
        });
    let own = stream.clock;
    let mark = |class: &mut Option<FieldClass>, scope| {
        if let Some(class) = class {
            mark_timestamps(class, scope, own);
        }
    };
    mark(&mut stream.packet_context, Scope::PacketContext);
    mark(&mut stream.event_header, Scope::EventHeader);
    mark(&mut stream.common_context, Scope::CommonContext);
    for event in &mut stream.events {
        mark(&mut event.specific_context, Scope::SpecificContext);
        mark(&mut event.payload, Scope::Payload);
    }
}

/// Returns the clock of the first integer that has a clock and satisfies `wanted`.
fn first_clock(class: Option<&FieldClass>, wanted: fn(&IntClass) -> bool) -> Option<usize> {
    match class? {
        FieldClass::Int(int) if wanted(int) => int.clock,
        FieldClass::Struct(structure) => {
            structure.members.iter().find_map(|member| first_clock(Some(&member.class), wanted))
        }
        FieldClass::Variant(variant) => {
            variant.options.iter().find_map(|option| first_clock(Some(&option.class), wanted))
        }
        FieldClass::Array(array) => first_clock(Some(&array.element), wanted),
        _ => None,
    }
}

fn mark_timestamps(class: &mut FieldClass, scope: Scope, own: Option<usize>) {
    match class {
        FieldClass::Int(int) => {
            if sets_clock(scope, int, own) {
                int.roles = int.roles.with(Role::Timestamp);
            } else if int.clock != own {
                int.roles = int.roles.without(Role::Timestamp);
            }
        }
        FieldClass::Struct(structure) => {
            for member in &mut structure.members {
                mark_timestamps(&mut member.class, scope, own);
            }
        }
        FieldClass::Variant(variant) => {
            for option in &mut variant.options {
                mark_timestamps(&mut option.class, scope, own);
            }
        }
        FieldClass::Array(array) => mark_timestamps(&mut array.element, scope, own),
        _ => (),
    }
}

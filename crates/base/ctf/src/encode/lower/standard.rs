//! The standard headers of the output, which have LTTng's layout.

use crate::bits::usual;
use crate::schema::{
    Base, BlobClass, ByteOrder, FieldClass, FieldRef, IntClass, IntKind, Length, Mapping, Member,
    Ranges, Role, Roles, Schema, Scope, StreamClass, StructClass, VariantClass, VariantOption,
};

/// Makes the class of the packet header: magic number, UUID if the trace has one, and the stream's
/// ids.
pub(super) fn packet_header(schema: &Schema) -> FieldClass {
    let order = schema.trace.byte_order;
    let mut members = vec![member("magic", int(32, order, Role::Magic, None))];
    if schema.trace.uuid.is_some() {
        let class =
            BlobClass { length: Length::Static(16), media_type: None, roles: Role::Uuid.into() };
        members.push(member("uuid", FieldClass::Blob(class)));
    }
    let id_size = width(schema.streams.iter().map(|stream| stream.id));
    members.push(member("stream_id", int(id_size, order, Role::StreamClassId, None)));
    members.push(member("stream_instance_id", int(64, order, Role::StreamInstanceId, None)));
    FieldClass::Struct(StructClass { members, align: 8 })
}

/// Makes the class of the packet context: times if the stream has a clock, sizes and counters. The
/// caller appends the visible fields of the source's context.
pub(super) fn packet_context(schema: &Schema, stream: &StreamClass) -> StructClass {
    let order = schema.trace.byte_order;
    let mut members = Vec::new();
    if stream.clock.is_some() {
        members.push(member("timestamp_begin", int(64, order, Role::Timestamp, stream.clock)));
        members.push(member("timestamp_end", int(64, order, Role::PacketEnd, stream.clock)));
    }
    for (name, role) in [
        ("content_size", Role::ContentSize),
        ("packet_size", Role::PacketSize),
        ("packet_seq_num", Role::PacketSeqNum),
        ("events_discarded", Role::EventsDiscarded),
    ] {
        members.push(member(name, int(64, order, role, None)));
    }
    StructClass { members, align: 8 }
}

/// Makes the class of LTTng's large event header: a 16-bit id and a 32-bit time; or an id of 65535,
/// then the full id and a 64-bit time. A stream without a clock has no times.
pub(super) fn event_header(schema: &Schema, stream: &StreamClass) -> FieldClass {
    const LAST: i128 = 65535;
    let order = schema.trace.byte_order;
    let id_size = width(stream.events.iter().map(|event| event.id));
    let time = |size| stream.clock.map(|_| int(size, order, Role::Timestamp, stream.clock));
    let time_member = |size| time(size).map(|class| member("timestamp", class));
    let ranges = [("compact", 0, LAST - 1), ("extended", LAST, LAST)];
    let mut id = int(16, order, Role::EventClassId, None);
    if let FieldClass::Int(id) = &mut id {
        id.mappings = Some(ranges.map(|(label, low, high)| mapping(label, low, high)).into());
    }
    let option = |index: usize, members| {
        let (name, low, high) = ranges[index];
        VariantOption {
            name: Some(name.to_owned()),
            ranges: Ranges(vec![(low, high)]),
            class: FieldClass::Struct(StructClass { members, align: 8 }),
        }
    };
    let full_id = member("id", int(id_size, order, Role::EventClassId, None));
    let variant = FieldClass::Variant(VariantClass {
        selector: FieldRef { scope: Scope::EventHeader, path: vec!["id".to_owned()] },
        options: vec![
            option(0, time_member(32).into_iter().collect()),
            option(1, std::iter::once(full_id).chain(time_member(64)).collect()),
        ],
    });
    let members = vec![member("id", id), member("v", variant)];
    FieldClass::Struct(StructClass { members, align: 8 })
}

/// Returns the width of ids in bits: 32, or 64 if an id exceeds 32 bits.
fn width(mut ids: impl Iterator<Item = u64>) -> u32 {
    if ids.any(|id| id > u64::from(u32::MAX)) { 64 } else { 32 }
}

fn member(name: &str, class: FieldClass) -> Member {
    Member { name: name.to_owned(), class }
}

fn int(size: u32, order: ByteOrder, role: Role, clock: Option<usize>) -> FieldClass {
    FieldClass::Int(IntClass {
        roles: Roles::from(role),
        clock,
        ..plain(size, order, IntKind::Unsigned)
    })
}

/// Makes a label for the values from `low` to `high`.
pub(super) fn mapping(label: &str, low: i128, high: i128) -> Mapping {
    Mapping { label: label.to_owned(), ranges: Ranges(vec![(low, high)]) }
}

/// Makes the class of a byte-aligned integer with default properties.
pub(super) fn plain(size: u32, order: ByteOrder, kind: IntKind) -> IntClass {
    IntClass {
        bits: usual(size, 8, order),
        kind,
        base: Base::Decimal,
        mappings: None,
        roles: Roles::NONE,
        clock: None,
    }
}

//! CTF schema of a program's trace: LTTng's packet layout, BlkKin's event headers, contexts, and
//! the fields of event types.

use crate::clock::{Rate, clock_uuid, monotonic_origin_ns};
use blkkin_control::{
    Context, EventType, FieldKind, RingDescription, Scalar, VariableValue, Width,
};
use blkkin_ctf::schema::{
    ArrayClass, Base, Bits, BlobClass, ByteOrder, Clock, ClockOrigin, Encoding, EnvValue,
    EventClass, FieldClass, FieldRef, FloatClass, IntClass, IntKind, Length, Mapping, Member,
    Ranges, Role, Roles, Schema, Scope, StreamClass, StringClass, StructClass, TextClass,
    TraceClass, Uuid, Version,
};

use std::collections::HashSet;

/// Size of a thread's name in an event: the kernel's 16 bytes and a NUL. LTTng's traces have the
/// same size.
const PROCNAME_SIZE: u64 = 17;

/// Returns the schema of a trace, still without stream classes.
pub(crate) fn trace(
    uuid: [u8; 16],
    env: Vec<(String, EnvValue)>,
    clock_name: &str,
    clock_uuid: Option<Uuid>,
    rate: Rate,
) -> Schema {
    let seconds = rate.offset_ns / 1_000_000_000;
    let rest = rate.offset_ns % 1_000_000_000;
    let cycles = rest * u128::from(rate.frequency) / 1_000_000_000;
    let uuid_class = FieldClass::Blob(BlobClass {
        length: Length::Static(16),
        media_type: None,
        roles: Role::Uuid.into(),
    });
    Schema {
        version: Version::Ctf1,
        trace: TraceClass {
            uuid: Some(Uuid(uuid)),
            byte_order: ByteOrder::Little,
            env,
            packet_header: Some(structure(vec![
                ("magic", role(32, Role::Magic)),
                ("uuid", uuid_class),
                ("stream_id", role(32, Role::StreamClassId)),
                ("stream_instance_id", role(64, Role::StreamInstanceId)),
            ])),
            ..TraceClass::default()
        },
        clocks: vec![Clock {
            name: clock_name.to_owned(),
            uuid: clock_uuid,
            frequency: rate.frequency,
            offset_seconds: i64::try_from(seconds).unwrap_or(0),
            offset_cycles: i64::try_from(cycles).unwrap_or(0),
            origin: ClockOrigin::UnixEpoch,
            ..Clock::default()
        }],
        streams: Vec::new(),
    }
}

/// Trace of kernel events, which has one stream class.
#[derive(Clone, Debug)]
pub struct KernelTrace<'k> {
    /// UUID of the trace.
    pub uuid: [u8; 16],
    /// Time of the clock's zero, in nanoseconds since 1970.
    pub origin_ns: u64,
    /// Name of the machine.
    pub host: String,
    /// UUID of the clock; `None` if it is unknown.
    pub clock_uuid: Option<Uuid>,
    /// Event types. Each event has its process id and thread id before its fields.
    pub events: &'k [EventType],
}

impl<'k> KernelTrace<'k> {
    /// Returns the trace of events that this machine records from now on.
    pub fn of_this_machine(uuid: [u8; 16], events: &'k [EventType]) -> KernelTrace<'k> {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let clock_uuid = clock_uuid(blkkin_control::Clock::Monotonic);
        KernelTrace { uuid, origin_ns: monotonic_origin_ns(), host, clock_uuid, events }
    }

    /// Returns the metadata, in TSDL. The names of the environment and of the contexts are those of
    /// LTTng's kernel traces. Returns `None` if the event types are invalid.
    pub fn metadata(&self) -> Option<String> {
        let text = |text: &str| EnvValue::Str(text.to_owned());
        let env = [
            ("domain", text("kernel")),
            ("tracer_name", text("blkkin")),
            ("hostname", text(&self.host)),
        ];
        let env = env.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let rate = Rate { frequency: 1_000_000_000, offset_ns: self.origin_ns.into() };
        let mut schema = trace(self.uuid, env, "monotonic", self.clock_uuid, rate);
        let mut stream = stream(0, &[Context::Pid, Context::Tid], Domain::Kernel);
        stream.events.extend(self.events.iter().map(event));
        schema.streams.push(stream);
        blkkin_ctf::tsdl::write(&schema).ok()
    }
}

/// Returns the schema of a trace of rings that were found after a crash, by their descriptions.
/// `streams` are the channels of the trace: the number of the stream, and the description of its
/// rings. The first one gives clock and environment. All streams have the event types `types`.
/// Returns `None` if there is no stream.
pub fn schema_of_rings(
    uuid: [u8; 16],
    streams: &[(u32, &RingDescription)],
    types: &[EventType],
) -> Option<Schema> {
    let (_, first) = streams.first()?;
    let env = first.environment.iter().map(|variable| {
        let value = match &variable.value {
            VariableValue::Text { text } => EnvValue::Str(text.clone()),
            VariableValue::Number { number } => EnvValue::Int(number.cast_signed()),
        };
        (variable.name.clone(), value)
    });
    let rate = Rate { frequency: first.frequency.max(1), offset_ns: 0 };
    let mut schema = trace(uuid, env.collect(), &first.clock, None, rate);
    for clock in &mut schema.clocks {
        clock.offset_seconds = first.offset_seconds.cast_signed();
        clock.offset_cycles = first.offset_ticks.cast_signed();
    }
    let events: Vec<EventClass> = types.iter().map(event).collect();
    for (number, description) in streams {
        let domain = if description.is_kernel { Domain::Kernel } else { Domain::Programs };
        let class = stream(*number, &description.contexts, domain);
        schema.streams.push(StreamClass { events: events.clone(), ..class });
    }
    Some(schema)
}

/// Source of a stream's events, which determines the names of contexts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Domain {
    Programs,
    Kernel,
}

/// Returns the stream class of a channel, without event classes.
pub(crate) fn stream(id: u32, contexts: &[Context], domain: Domain) -> StreamClass {
    let mut members: Vec<Member> = Vec::new();
    for context in contexts {
        let name = match domain {
            Domain::Programs => context_name(context, &members),
            Domain::Kernel => context.name().to_owned(),
        };
        members.push(Member { name, class: context_class(context) });
    }
    StreamClass {
        id: id.into(),
        clock: Some(0),
        packet_context: Some(structure(vec![
            ("timestamp_begin", time(Role::Timestamp)),
            ("timestamp_end", time(Role::PacketEnd)),
            ("content_size", role(64, Role::ContentSize)),
            ("packet_size", role(64, Role::PacketSize)),
            ("packet_seq_num", role(64, Role::PacketSeqNum)),
            ("events_discarded", role(64, Role::EventsDiscarded)),
            ("cpu_id", unsigned(32)),
        ])),
        event_header: Some(structure(vec![
            ("id", role(16, Role::EventClassId)),
            ("timestamp", time(Role::Timestamp)),
        ])),
        common_context: (!members.is_empty())
            .then_some(FieldClass::Struct(StructClass { members, align: 1 })),
        ..StreamClass::default()
    }
}

/// Converts an event type of a program to an event class.
pub(crate) fn event(event_type: &EventType) -> EventClass {
    let names: HashSet<&str> = event_type.fields.iter().map(|field| &*field.name).collect();
    let mut members = Vec::new();
    for field in &event_type.fields {
        add_members(&mut members, &field.name, &field.kind, &names);
    }
    EventClass {
        id: event_type.index.into(),
        name: Some(event_type.name.clone()),
        log_level: Some(event_type.level.number() as i64),
        payload: Some(FieldClass::Struct(StructClass { members, align: 1 })),
        ..EventClass::default()
    }
}

/// Adds the members for one field of an event type. A field of bytes and a sequence have an
/// additional member for the length. The name of that member is LTTng's `_NAME_length`, with
/// underscores appended until no field in `names` and no earlier member has the same name.
fn add_members(members: &mut Vec<Member>, name: &str, kind: &FieldKind, names: &HashSet<&str>) {
    let hex_byte = Scalar::Unsigned { width: Width::Bits8, hex: true };
    let class = match kind {
        FieldKind::Unsigned { width, hex } => integer(width.bytes(), IntKind::Unsigned, *hex),
        FieldKind::Signed { width, hex } => integer(width.bytes(), IntKind::Signed, *hex),
        FieldKind::F32 => scalar(Scalar::F32),
        FieldKind::F64 => scalar(Scalar::F64),
        FieldKind::Bool => scalar(Scalar::Bool),
        FieldKind::String => string(),
        FieldKind::Bytes => sequence(members, name, hex_byte, names),
        FieldKind::Sequence { of } => sequence(members, name, *of, names),
        FieldKind::Array { of, count } => array(Length::Static(u64::from(*count)), *of),
        FieldKind::Enum { is_signed, width, labels } => {
            let kind = if *is_signed { IntKind::Signed } else { IntKind::Unsigned };
            let size = 8 * width.bytes() as u32;
            let mappings = labels.iter().map(|label| {
                let value = value(label.value, size, *is_signed);
                Mapping { label: label.name.clone(), ranges: Ranges(vec![(value, value)]) }
            });
            FieldClass::Int(IntClass { mappings: Some(mappings.collect()), ..int(size, kind) })
        }
    };
    members.push(Member { name: name.to_owned(), class });
}

/// Adds a member for the length of a sequence, and returns the field class of the sequence.
fn sequence(
    members: &mut Vec<Member>,
    name: &str,
    of: Scalar,
    names: &HashSet<&str>,
) -> FieldClass {
    let mut length = format!("_{name}_length");
    while names.contains(&*length) || members.iter().any(|member| member.name == length) {
        length.push('_');
    }
    members.push(Member { name: length.clone(), class: unsigned(32) });
    array(Length::Dynamic(FieldRef { scope: Scope::Payload, path: vec![length] }), of)
}

fn array(length: Length, of: Scalar) -> FieldClass {
    FieldClass::Array(Box::new(ArrayClass { length, element: scalar(of), align: 1 }))
}

fn scalar(of: Scalar) -> FieldClass {
    match of {
        Scalar::Unsigned { width, hex } => integer(width.bytes(), IntKind::Unsigned, hex),
        Scalar::Signed { width, hex } => integer(width.bytes(), IntKind::Signed, hex),
        Scalar::F32 => float(32, 8),
        Scalar::F64 => float(64, 11),
        Scalar::Bool => unsigned(8),
    }
}

/// Converts the value of an enumeration's label to an integer of `size` bits.
fn value(bits: u64, size: u32, is_signed: bool) -> i128 {
    let unused = 64 - size;
    match is_signed {
        true => i128::from(bits.cast_signed() << unused >> unused),
        false => i128::from(bits << unused >> unused),
    }
}

/// Returns the name of a context. Some names are those of LTTng's traces, so that scripts for such
/// traces work: `vpid` and `vtid` for ids in the program's own PID namespace, `app_provider_name`
/// for a context `provider:name` that the program supplies. Underscores are appended to the name of
/// a supplied context while a member in `others` has the same name.
fn context_name(context: &Context, others: &[Member]) -> String {
    let name = match context {
        Context::Pid => return "vpid".to_owned(),
        Context::Tid => return "vtid".to_owned(),
        Context::Supplied { name } => name,
        _ => return context.name().to_owned(),
    };
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    let mut name: String = "app_".chars().chain(name.chars().map(plain)).collect();
    while others.iter().any(|other| other.name == name) {
        name.push('_');
    }
    name
}

fn context_class(context: &Context) -> FieldClass {
    match context {
        Context::Pid | Context::Tid => integer(4, IntKind::Signed, false),
        Context::Procname => FieldClass::Text(TextClass {
            length: Length::Static(PROCNAME_SIZE),
            encoding: Encoding::Utf8,
        }),
        Context::CgroupId => unsigned(64),
        Context::Supplied { .. } => string(),
        _ => unsigned(32),
    }
}

fn structure(members: Vec<(&str, FieldClass)>) -> FieldClass {
    let members = members.into_iter();
    let members = members.map(|(name, class)| Member { name: name.to_owned(), class }).collect();
    FieldClass::Struct(StructClass { members, align: 1 })
}

fn string() -> FieldClass {
    FieldClass::String(StringClass { encoding: Encoding::Utf8 })
}

fn float(size: u32, exponent: u32) -> FieldClass {
    FieldClass::Float(FloatClass { bits: bits(size), exponent, mantissa: size - exponent })
}

fn unsigned(size: u32) -> FieldClass {
    FieldClass::Int(int(size, IntKind::Unsigned))
}

fn integer(bytes: usize, kind: IntKind, hex: bool) -> FieldClass {
    let base = if hex { Base::Hexadecimal } else { Base::Decimal };
    FieldClass::Int(IntClass { base, ..int(8 * bytes as u32, kind) })
}

fn role(size: u32, role: Role) -> FieldClass {
    FieldClass::Int(IntClass { roles: role.into(), ..int(size, IntKind::Unsigned) })
}

fn time(role: Role) -> FieldClass {
    FieldClass::Int(IntClass { roles: role.into(), clock: Some(0), ..int(64, IntKind::Unsigned) })
}

fn int(size: u32, kind: IntKind) -> IntClass {
    let base = Base::Decimal;
    IntClass { bits: bits(size), kind, base, mappings: None, roles: Roles::NONE, clock: None }
}

/// Returns the layout of a little-endian field of `size` bits, aligned to a byte.
fn bits(size: u32) -> Bits {
    let byte_order = ByteOrder::Little;
    Bits { size, align: 8, byte_order, bit_order: byte_order.usual_bit_order() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blkkin_control::{Field, Label, Level};

    /// A schema with every kind of field and context round-trips through metadata.
    #[test]
    fn everything_can_be_written() {
        let kinds = [
            FieldKind::Unsigned { width: Width::Bits64, hex: true },
            FieldKind::Signed { width: Width::Bits8, hex: false },
            FieldKind::F32,
            FieldKind::F64,
            FieldKind::Bool,
            FieldKind::String,
            FieldKind::Bytes,
            FieldKind::Array { of: Scalar::Signed { width: Width::Bits16, hex: false }, count: 3 },
            FieldKind::Sequence { of: Scalar::F32 },
            FieldKind::Enum {
                is_signed: true,
                width: Width::Bits8,
                labels: [("a \"b\"", 1), ("less", u64::MAX), ("enum", 0x7f)]
                    .map(|(name, value)| Label { name: name.to_owned(), value })
                    .into(),
            },
        ];
        // Some of the names are keywords of TSDL.
        let names = [
            "event",
            "struct",
            "_under",
            "id",
            "a",
            "timestamp",
            "string",
            "array",
            "floats",
            "enum",
        ];
        let field = |(name, kind): (&str, FieldKind)| Field { name: name.to_owned(), kind };
        let event_type = EventType {
            index: 7,
            name: "p:n \"quoted\"".to_owned(),
            level: Level::Debug,
            file: String::new(),
            line: 0,
            fields: names.into_iter().zip(kinds).map(field).collect(),
        };
        let mut contexts = Context::ALL.to_vec();
        contexts.push(Context::Supplied { name: "p:q".to_owned() });
        contexts.push(Context::Supplied { name: "p_q".to_owned() });
        let rate = Rate { frequency: 2_600_000_123, offset_ns: 1_795_165_182_279_448_621 };
        let env = vec![("hostname".to_owned(), EnvValue::Str("h".to_owned()))];
        let mut schema = trace([7; 16], env, "tsc", Some(Uuid([3; 16])), rate);
        schema.streams.push(stream(0, &contexts, Domain::Programs));
        schema.streams.push(stream(1, &[], Domain::Programs));
        schema.streams[0].events.push(event(&event_type));
        schema.streams[1].events.push(event(&event_type));
        let text = blkkin_ctf::tsdl::write(&schema).unwrap();
        let read = blkkin_ctf::metadata::parse(text.clone().into_bytes()).unwrap();
        assert_eq!(read, schema, "{text}");
    }

    /// A13: the member for the length of bytes or of a sequence has a unique name.
    #[test]
    fn a13_lengths_have_names_of_their_own() {
        let number = FieldKind::Unsigned { width: Width::Bits64, hex: false };
        let bytes = || FieldKind::Bytes;
        let sequence = || FieldKind::Sequence { of: Scalar::F64 };
        let check = |fields: Vec<(&str, FieldKind)>, expected: &[&str]| {
            let field = |(name, kind): (&str, FieldKind)| Field { name: name.to_owned(), kind };
            let event_type = EventType {
                index: 0,
                name: "p:e".to_owned(),
                level: Level::Info,
                file: String::new(),
                line: 0,
                fields: fields.into_iter().map(field).collect(),
            };
            let class = event(&event_type);
            let Some(FieldClass::Struct(payload)) = &class.payload else { panic!("{class:?}") };
            let found: Vec<_> = payload.members.iter().map(|member| &*member.name).collect();
            assert_eq!(found, expected);
            let rate = Rate { frequency: 1_000_000_000, offset_ns: 0 };
            let mut schema = trace([7; 16], Vec::new(), "tsc", None, rate);
            schema.streams.push(stream(0, &[], Domain::Programs));
            schema.streams[0].events.push(class);
            let text = blkkin_ctf::tsdl::write(&schema).unwrap();
            assert_eq!(blkkin_ctf::metadata::parse(text.into_bytes()).unwrap(), schema);
        };
        check(
            vec![("data", bytes()), ("_data_length", number.clone())],
            &["_data_length_", "data", "_data_length"],
        );
        check(
            vec![("_data_length", number.clone()), ("data", sequence())],
            &["_data_length", "_data_length_", "data"],
        );
        check(
            vec![("x", bytes()), ("_x_length", bytes()), ("_x_length_", number)],
            &["_x_length__", "x", "__x_length_length", "_x_length", "_x_length_"],
        );
    }
}

//! Encoding of packets, the inverse of [`crate::decode`], also without I/O.
//!
//! Start at [`Encoder`], which is compiled from a [`LoweredSchema`]. It makes a packet's
//! [`PacketHead`], to which a [`PacketWriter`] adds events. Fields are passed as visits, so that a
//! decoder can visit the writer directly; other producers of events describe their fields as
//! [`Value`]s. `lower` derives the output schema from the source schema, `headers` fills fields
//! with a role, `fields` writes all other fields.

mod error;
mod fields;
mod headers;
mod lower;
mod sink;
mod step;
#[cfg(test)]
mod tests;
mod value;

pub use error::EncodeError;
pub use fields::FieldWriter;
pub use lower::{LoweredSchema, lower_to_ctf1, lower_to_ctf2, lower_unchanged};
pub use value::{Value, ValueCollector};

use crate::bits;
use crate::decode::{Node, PACKET_MAGIC, Visitor};
use crate::schema::{FieldClass, Role, Schema, Scope, StreamClass};
use headers::{Content, Form, HeaderField, Layout, layouts, one_layout, set_var_int};
use sink::{Mark, Sink};
use std::sync::Arc;
use step::Step;

/// A schema compiled for the writing of packets.
#[derive(Debug)]
pub struct Encoder {
    schema: Arc<Schema>,
    /// Steps that write visited fields, by node id.
    steps: Vec<Step>,
    slot_count: usize,
    packet_header: Vec<HeaderField>,
    streams: Vec<StreamEncoder>,
}

#[derive(Debug)]
struct StreamEncoder {
    context_align: u64,
    context: Vec<ContextPart>,
    /// Fields of the context, with blank values in place of visited fields.
    context_blank: Vec<HeaderField>,
    layouts: Vec<Layout>,
    /// Indexes of the layouts that can represent an event class's id, by index of the event class.
    layouts_of_event: Vec<Box<[u32]>>,
}

/// Part of a packet context, written either by the encoder or by the caller's visits.
#[derive(Debug)]
enum ContextPart {
    /// Fields with roles or constants, which the encoder writes.
    Filled(Vec<HeaderField>),
    /// A member that the caller writes by a visit.
    Visited,
}

impl Encoder {
    /// Compiles a lowered schema into an encoder. Fails if a packet header or context has no
    /// possible layout, if a header has too many layouts or fields, or if a visited member of a
    /// packet context has or contains a field with a role.
    pub fn new(lowered: LoweredSchema) -> Result<Encoder, EncodeError> {
        let LoweredSchema { schema, steps, slot_count, context_visited } = lowered;
        let packet_header = match &schema.trace.packet_header {
            Some(class) => first_layout(Scope::PacketHeader, class)?,
            None => Vec::new(),
        };
        let streams = schema
            .streams
            .iter()
            .zip(&context_visited)
            .map(|(stream, visited)| StreamEncoder::new(stream, visited))
            .collect::<Result<_, _>>()?;
        Ok(Encoder { schema, steps, slot_count, packet_header, streams })
    }

    /// Returns the schema of the written packets.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Makes the header and context of a stream's packets. `fill` passes the values of the
    /// context's visible fields to the writer.
    pub fn head(
        &self,
        stream: usize,
        instance: u64,
        fill: impl FnOnce(&mut ContextWriter<'_>),
    ) -> PacketHead {
        let mut head = self.head_start(stream, instance);
        let class = &self.streams[stream];
        let mut writer = ContextWriter {
            fields: FieldWriter::new(&self.steps, &mut head.sink, &mut head.slots),
            own: RoleFields { patches: &mut head.patches, parts: &class.context, next: 0 },
            depth: 0,
        };
        fill(&mut writer);
        writer.own.fill(writer.fields.sink);
        head
    }

    /// Makes the header and context of a stream's packets. Fields without a role are blank: zeros
    /// and empty strings, but a variant's selector has a value that selects an option.
    pub fn head_blank(&self, stream: usize, instance: u64) -> PacketHead {
        let mut head = self.head_start(stream, instance);
        fill(&self.streams[stream].context_blank, &mut head.sink, &mut head.patches);
        head
    }

    /// Makes the packet header, and aligns to the start of the packet context.
    fn head_start(&self, stream: usize, instance: u64) -> PacketHead {
        let mut sink = Sink::default();
        let mut patches = Vec::new();
        for field in &self.packet_header {
            match field.content {
                Content::Uuid => {
                    sink.align(field.align);
                    let uuid = self.schema.trace.uuid.map_or([0; 16], |uuid| uuid.0);
                    sink.blob(&uuid);
                }
                Content::Role(Role::Magic) => field.write(&mut sink, PACKET_MAGIC.into()),
                Content::Role(Role::StreamClassId) => {
                    field.write(&mut sink, self.schema.streams[stream].id);
                }
                Content::Role(Role::StreamInstanceId) => field.write(&mut sink, instance),
                _ => fill(std::slice::from_ref(field), &mut sink, &mut patches),
            }
        }
        let slots = vec![0; self.slot_count];
        if self.schema.streams[stream].packet_context.is_some() {
            sink.align(self.streams[stream].context_align);
        }
        PacketHead { stream, instance, sink, patches, slots }
    }
}

fn first_layout(scope: Scope, class: &FieldClass) -> Result<Vec<HeaderField>, EncodeError> {
    one_layout(scope, class)?.map(|layout| layout.fields).ok_or_else(|| {
        EncodeError::new(format!("{}: a variant without options", scope.tsdl_name()))
    })
}

impl StreamEncoder {
    fn new(stream: &StreamClass, visited: &[bool]) -> Result<StreamEncoder, EncodeError> {
        let mut context = Vec::new();
        let mut context_blank = Vec::new();
        if let Some(class @ FieldClass::Struct(structure)) = &stream.packet_context {
            context_blank = first_layout(Scope::PacketContext, class)?;
            for (member, &visited) in structure.members.iter().zip(visited) {
                context.push(match visited {
                    true if headers::has_role(&member.class) => {
                        return Err(EncodeError::new(format!(
                            "stream.packet.context.{}: fields with and without a role in one \
                             structure",
                            member.name
                        )));
                    }
                    true => ContextPart::Visited,
                    false => {
                        ContextPart::Filled(first_layout(Scope::PacketContext, &member.class)?)
                    }
                });
            }
        }
        let layouts = match &stream.event_header {
            Some(class) => layouts(Scope::EventHeader, class)?,
            None => vec![Layout::default()],
        };
        let layouts_of_event = stream.events.iter().map(|event| {
            let numbers = 0..layouts.len() as u32;
            numbers.filter(|&number| layouts[number as usize].holds_id(event.id)).collect()
        });
        Ok(StreamEncoder {
            context_align: stream.packet_context.as_ref().map_or(1, FieldClass::align),
            context,
            context_blank,
            layouts_of_event: layouts_of_event.collect(),
            layouts,
        })
    }
}

/// Start of a packet: its header and context. Values that are known only at the packet's end are
/// still zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketHead {
    stream: usize,
    instance: u64,
    sink: Sink,
    patches: Vec<Patch>,
    slots: Vec<u64>,
}

impl PacketHead {
    /// Returns the id of the stream within its class.
    pub fn instance(&self) -> u64 {
        self.instance
    }
}

/// A field that is set when the packet ends; zero until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Patch {
    at: u64,
    /// Layout of the field; `None` for LEB128 of ten bytes.
    bits: Option<crate::schema::Bits>,
    role: Role,
}

/// Writes the header fields that the encoder fills, and records a patch for each field with a role
/// other than a UUID.
fn fill(fields: &[HeaderField], sink: &mut Sink, patches: &mut Vec<Patch>) {
    for field in fields {
        match field.content {
            Content::Role(role) => {
                field.write(sink, 0);
                let (size, bits) = match field.form {
                    Form::Bits(bits) => (u64::from(bits.size), Some(bits)),
                    _ => (80, None),
                };
                patches.push(Patch { at: sink.position() - size, bits, role });
            }
            Content::Const(value) => field.write(sink, value),
            Content::Uuid => field.write(sink, 0),
        }
    }
}

#[derive(Debug)]
struct RoleFields<'w> {
    patches: &'w mut Vec<Patch>,
    parts: &'w [ContextPart],
    next: usize,
}

impl RoleFields<'_> {
    /// Writes the role fields (sizes, times, counters) up to the next visited member.
    fn fill(&mut self, sink: &mut Sink) {
        while let Some(ContextPart::Filled(fields)) = self.parts.get(self.next) {
            fill(fields, sink, self.patches);
            self.next += 1;
        }
    }
}

/// Visitor that writes a packet context: the visited members, and before each of them the members
/// with roles (sizes, times, counters) that precede it in the schema.
#[derive(Debug)]
pub struct ContextWriter<'w> {
    fields: FieldWriter<'w>,
    own: RoleFields<'w>,
    /// Number of structures, arrays, optionals and variants around the current field.
    depth: usize,
}

impl ContextWriter<'_> {
    /// Starts a field. For a top-level member, first writes the role fields (sizes, times,
    /// counters) that precede it in the schema.
    fn value(&mut self) {
        if self.depth == 0 {
            self.own.fill(self.fields.sink);
            self.own.next += 1;
        }
    }

    fn begin(&mut self) {
        self.value();
        self.depth += 1;
    }

    fn end(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }
}

impl Visitor for ContextWriter<'_> {
    // A packet context is visited only if the view contains all of it.
    fn restart(&mut self) {}
    fn begin_struct(&mut self, node: &Node) {
        self.begin();
        self.fields.begin_struct(node);
    }
    fn end_struct(&mut self, _: &Node) {
        self.end();
    }
    fn begin_array(&mut self, node: &Node, length: u64) {
        self.begin();
        self.fields.begin_array(node, length);
    }
    fn end_array(&mut self, _: &Node) {
        self.end();
    }
    fn begin_optional(&mut self, node: &Node, present: bool) {
        self.begin();
        self.fields.begin_optional(node, present);
    }
    fn end_optional(&mut self, _: &Node) {
        self.end();
    }
    fn begin_variant(&mut self, node: &Node, option: usize) {
        self.begin();
        self.fields.begin_variant(node, option);
    }
    fn end_variant(&mut self, _: &Node) {
        self.end();
    }
    fn unsigned(&mut self, node: &Node, value: u64) {
        self.value();
        self.fields.unsigned(node, value);
    }
    fn signed(&mut self, node: &Node, value: i64) {
        self.value();
        self.fields.signed(node, value);
    }
    fn float(&mut self, node: &Node, value: f64) {
        self.value();
        self.fields.float(node, value);
    }
    fn string(&mut self, node: &Node, value: &[u8]) {
        self.value();
        self.fields.string(node, value);
    }
    fn blob(&mut self, node: &Node, value: &[u8]) {
        self.value();
        self.fields.blob(node, value);
    }
}

/// Values that the encoder writes into the packet header and context when the packet ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct PacketEnd {
    /// Clock value at the packet's start, in cycles.
    pub begin: u64,
    /// Clock value at the packet's end, in cycles.
    pub end: u64,
    /// Sequence number of the packet in its stream.
    pub seq: u64,
    /// Number of events discarded in the stream so far.
    pub discarded: u64,
}

/// A packet under construction. Its memory is reused for the next packet.
#[derive(Debug)]
pub struct PacketWriter {
    encoder: Arc<Encoder>,
    stream: usize,
    sink: Sink,
    patches: Vec<Patch>,
    slots: Vec<u64>,
    clock: u64,
}

impl PacketWriter {
    /// Makes a writer for all streams of the encoder's schema. It writes one packet at a time.
    pub fn new(encoder: Arc<Encoder>) -> PacketWriter {
        PacketWriter {
            encoder,
            stream: 0,
            sink: Sink::default(),
            patches: Vec::new(),
            slots: Vec::new(),
            clock: 0,
        }
    }

    /// Starts a packet at the time `begin` of the stream's clock.
    pub fn begin(&mut self, head: &PacketHead, begin: u64) {
        self.stream = head.stream;
        self.sink.copy_from(&head.sink);
        self.patches.clone_from(&head.patches);
        self.slots.clone_from(&head.slots);
        self.clock = begin;
    }

    /// Returns the size of the packet so far, in bytes.
    #[inline]
    pub fn size(&self) -> usize {
        self.sink.bytes.len()
    }

    /// Adds an event of the class with index `class`; `fill` passes the event's fields to the
    /// writer. If `fill` returns `false`, the event is discarded. Returns the result of `fill`.
    #[inline]
    pub fn event(
        &mut self,
        class: usize,
        time: u64,
        fill: impl FnOnce(&mut FieldWriter<'_>) -> bool,
    ) -> Result<bool, EncodeError> {
        let stream = &self.encoder.streams[self.stream];
        let event = &self.encoder.schema.streams[self.stream].events[class];
        let before = self.sink.mark();
        let mut layouts =
            stream.layouts_of_event[class].iter().map(|&layout| &stream.layouts[layout as usize]);
        let Some(layout) = layouts.find(|layout| layout.holds_time(self.clock, time)) else {
            return Err(EncodeError::new(format!(
                "no event header can hold event class {} at {time} after {}",
                event.id, self.clock
            )));
        };
        layout.write_event(&mut self.sink, event.id, time);
        let steps = &self.encoder.steps;
        let mut writer = FieldWriter::new(steps, &mut self.sink, &mut self.slots);
        let done = fill(&mut writer);
        if writer.too_large {
            self.roll_back(before);
            return Err(EncodeError::new("a text or blob of more than 16 MiB"));
        }
        match done {
            true => self.clock = time,
            false => self.roll_back(before),
        }
        Ok(done)
    }

    #[cold]
    fn roll_back(&mut self, before: Mark) {
        self.sink.truncate(before);
    }

    /// Ends the packet, and returns its bytes.
    pub fn finish(&mut self, end: PacketEnd) -> Result<&[u8], EncodeError> {
        let content = self.sink.position();
        self.sink.align(8);
        let total = self.sink.position();
        for patch in &self.patches {
            let value = match patch.role {
                Role::ContentSize => content,
                Role::PacketSize => total,
                Role::PacketSeqNum => end.seq,
                Role::EventsDiscarded => end.discarded,
                Role::PacketEnd => end.end,
                Role::Timestamp => end.begin,
                _ => 0,
            };
            let is_size = matches!(patch.role, Role::ContentSize | Role::PacketSize);
            match patch.bits {
                Some(bits) if is_size && bits::low(value, bits.size) != value => {
                    return Err(EncodeError::new(format!(
                        "packet of {value} bits, which its size field cannot hold"
                    )));
                }
                Some(bits) => bits::write(&mut self.sink.bytes, patch.at, bits, value),
                None => set_var_int(&mut self.sink.bytes, patch.at, value, false),
            }
        }
        Ok(&self.sink.bytes)
    }
}

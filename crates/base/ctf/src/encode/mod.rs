//! Fields to packets: the way back of [`crate::decode`], also without I/O.
//!
//! Start at [`Encoder`]: made from a [`Lowered`] schema, it makes a packet's [`Head`], to which
//! a [`PacketWriter`] adds events. Fields come as visits, so that what a decoder visits can be fed
//! straight in; those who make events themselves describe them as [`Value`]s. `lower` derives what
//! to write from what was read, `headers` fills what has a role, `fields` writes the rest.

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
pub use lower::{Lowered, for_ctf1, for_ctf2, unchanged};
pub use value::{Gather, Value};

use crate::bits;
use crate::decode::{Node, PACKET_MAGIC, Visitor};
use crate::schema::{FieldClass, Role, Schema, Scope, StreamClass};
use headers::{Form, HeadField, Way, What, one_way, set_var_int, ways};
use sink::{Mark, Sink};
use std::sync::Arc;
use step::Step;

/// A schema, compiled for writing.
#[derive(Debug)]
pub struct Encoder {
    schema: Arc<Schema>,
    /// By id of the visited node.
    steps: Vec<Step>,
    slot_count: usize,
    packet_header: Vec<HeadField>,
    streams: Vec<StreamEncoder>,
}

#[derive(Debug)]
struct StreamEncoder {
    context_align: u64,
    context: Vec<ContextPart>,
    /// The context without anything that is given.
    context_blank: Vec<HeadField>,
    ways: Vec<Way>,
    /// By index of event class: the ways that can hold its id.
    ways_of_event: Vec<Box<[u32]>>,
}

/// What follows in a packet's context.
#[derive(Debug)]
enum ContextPart {
    /// Fields that the encoder fills.
    Own(Vec<HeadField>),
    /// A member that is visited.
    Given,
}

impl Encoder {
    /// Compiles what `lowered` says.
    pub fn new(lowered: Lowered) -> Result<Encoder, EncodeError> {
        let Lowered { schema, steps, slot_count, context_given } = lowered;
        let packet_header = match &schema.trace.packet_header {
            Some(class) => first_way(Scope::PacketHeader, class)?,
            None => Vec::new(),
        };
        let streams = schema
            .streams
            .iter()
            .zip(&context_given)
            .map(|(stream, given)| StreamEncoder::new(stream, given))
            .collect::<Result<_, _>>()?;
        Ok(Encoder { schema, steps, slot_count, packet_header, streams })
    }

    /// The schema of what is written.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The start of packets of a stream, with the context that `fill` visits.
    pub fn head(
        &self,
        stream: usize,
        instance: u64,
        fill: impl FnOnce(&mut ContextWriter<'_>),
    ) -> Head {
        let mut head = self.head_start(stream, instance);
        let class = &self.streams[stream];
        let mut writer = ContextWriter {
            fields: FieldWriter::new(&self.steps, &mut head.sink, &mut head.slots),
            own: OwnFields { patches: &mut head.patches, parts: &class.context, next: 0 },
            depth: 0,
        };
        fill(&mut writer);
        writer.own.fill(writer.fields.sink);
        head
    }

    /// The start of packets of a stream whose context nobody knows: zeros and empty strings.
    pub fn head_blank(&self, stream: usize, instance: u64) -> Head {
        let mut head = self.head_start(stream, instance);
        fill(&self.streams[stream].context_blank, &mut head.sink, &mut head.patches);
        head
    }

    /// The packet header, up to the start of the packet context.
    fn head_start(&self, stream: usize, instance: u64) -> Head {
        let mut sink = Sink::default();
        let mut patches = Vec::new();
        for field in &self.packet_header {
            match field.what {
                What::Uuid => {
                    sink.align(field.align);
                    let uuid = self.schema.trace.uuid.map_or([0; 16], |uuid| uuid.0);
                    sink.blob(&uuid);
                }
                What::Role(Role::Magic) => field.write(&mut sink, PACKET_MAGIC.into()),
                What::Role(Role::StreamClassId) => {
                    field.write(&mut sink, self.schema.streams[stream].id);
                }
                What::Role(Role::StreamInstanceId) => field.write(&mut sink, instance),
                _ => fill(std::slice::from_ref(field), &mut sink, &mut patches),
            }
        }
        let slots = vec![0; self.slot_count];
        if self.schema.streams[stream].packet_context.is_some() {
            sink.align(self.streams[stream].context_align);
        }
        Head { stream, instance, sink, patches, slots }
    }
}

fn first_way(scope: Scope, class: &FieldClass) -> Result<Vec<HeadField>, EncodeError> {
    one_way(scope, class)?.map(|way| way.fields).ok_or_else(|| {
        EncodeError::new(format!("{}: a variant without options", scope.tsdl_name()))
    })
}

impl StreamEncoder {
    fn new(stream: &StreamClass, given: &[bool]) -> Result<StreamEncoder, EncodeError> {
        let mut context = Vec::new();
        let mut context_blank = Vec::new();
        if let Some(class @ FieldClass::Struct(structure)) = &stream.packet_context {
            context_blank = first_way(Scope::PacketContext, class)?;
            for (member, &given) in structure.members.iter().zip(given) {
                context.push(match given {
                    true if headers::has_role(&member.class) => {
                        return Err(EncodeError::new(format!(
                            "stream.packet.context.{}: fields with and without a role in one \
                             structure",
                            member.name
                        )));
                    }
                    true => ContextPart::Given,
                    false => ContextPart::Own(first_way(Scope::PacketContext, &member.class)?),
                });
            }
        }
        let ways = match &stream.event_header {
            Some(class) => ways(Scope::EventHeader, class)?,
            None => vec![Way::default()],
        };
        let ways_of_event = stream.events.iter().map(|event| {
            let numbers = 0..ways.len() as u32;
            numbers.filter(|&number| ways[number as usize].holds_id(event.id)).collect()
        });
        Ok(StreamEncoder {
            context_align: stream.packet_context.as_ref().map_or(1, FieldClass::align),
            context,
            context_blank,
            ways_of_event: ways_of_event.collect(),
            ways,
        })
    }
}

/// The start of a packet: its header and context, but for what is known only at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    stream: usize,
    instance: u64,
    sink: Sink,
    patches: Vec<Patch>,
    slots: Vec<u64>,
}

impl Head {
    /// Id of the stream within its class.
    pub fn instance(&self) -> u64 {
        self.instance
    }
}

/// A field to be set when the packet ends; zero until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Patch {
    at: u64,
    /// `None`: ten bytes of LEB128.
    bits: Option<crate::schema::Bits>,
    role: Role,
}

/// Writes fields that the encoder fills, and notes those that it does not know yet.
fn fill(fields: &[HeadField], sink: &mut Sink, patches: &mut Vec<Patch>) {
    for field in fields {
        match field.what {
            What::Role(role) => {
                field.write(sink, 0);
                let (size, bits) = match field.form {
                    Form::Bits(bits) => (u64::from(bits.size), Some(bits)),
                    _ => (80, None),
                };
                patches.push(Patch { at: sink.position() - size, bits, role });
            }
            What::Const(value) => field.write(sink, value),
            What::Uuid => field.write(sink, 0),
        }
    }
}

#[derive(Debug)]
struct OwnFields<'w> {
    patches: &'w mut Vec<Patch>,
    parts: &'w [ContextPart],
    next: usize,
}

impl OwnFields<'_> {
    /// Writes the encoder's own fields up to the next one that is given.
    fn fill(&mut self, sink: &mut Sink) {
        while let Some(ContextPart::Own(fields)) = self.parts.get(self.next) {
            fill(fields, sink, self.patches);
            self.next += 1;
        }
    }
}

/// Writes the visited fields of a packet's context, and those with roles between them.
#[derive(Debug)]
pub struct ContextWriter<'w> {
    fields: FieldWriter<'w>,
    own: OwnFields<'w>,
    /// Structures and the like around the current field.
    depth: usize,
}

impl ContextWriter<'_> {
    /// A member of the context's structure begins, or a part of one.
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
    // A packet's context is visited when all of it is at hand.
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

/// What is known at a packet's end.
#[derive(Clone, Copy, Debug, Default)]
pub struct PacketEnd {
    /// The clock at the packet's start.
    pub begin: u64,
    /// The clock at its end.
    pub end: u64,
    /// Its number in its stream.
    pub seq: u64,
    /// Events that were dropped in the stream so far.
    pub discarded: u64,
}

/// One packet, as it grows. The memory is used again for the next one.
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
    /// A writer for any streams of the encoder's schema, one packet at a time.
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

    /// Begins a packet at a time of the stream's clock.
    pub fn begin(&mut self, head: &Head, begin: u64) {
        self.stream = head.stream;
        self.sink.copy_from(&head.sink);
        self.patches.clone_from(&head.patches);
        self.slots.clone_from(&head.slots);
        self.clock = begin;
    }

    /// Bytes so far.
    #[inline]
    pub fn size(&self) -> usize {
        self.sink.bytes.len()
    }

    /// Adds an event of the class with that index, whose fields `fill` visits. If that gives
    /// `false` the event is forgotten.
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
        let mut ways = stream.ways_of_event[class].iter().map(|&way| &stream.ways[way as usize]);
        let Some(way) = ways.find(|way| way.holds_time(self.clock, time)) else {
            return Err(EncodeError::new(format!(
                "no event header can hold event class {} at {time} after {}",
                event.id, self.clock
            )));
        };
        way.write_event(&mut self.sink, event.id, time);
        let steps = &self.encoder.steps;
        let mut writer = FieldWriter::new(steps, &mut self.sink, &mut self.slots);
        let done = fill(&mut writer);
        if writer.too_large {
            self.forget(before);
            return Err(EncodeError::new("a text or blob of more than 16 MiB"));
        }
        match done {
            true => self.clock = time,
            false => self.forget(before),
        }
        Ok(done)
    }

    #[cold]
    fn forget(&mut self, before: Mark) {
        self.sink.go_back(before);
    }

    /// Ends the packet: its bytes.
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

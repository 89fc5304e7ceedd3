//! The compiled schema, and the decoding of packet and event headers.

use super::error::DecodeErrorKind;
use super::header::Header;
use super::node::Node;
use super::op::Op;
use super::plain::PlainField;
use super::program::Program;
use super::view::{Stop, View};
use super::visit::{NullVisitor, Visitor};
use super::walk::Machine;
use crate::schema::{Role, Schema, Scope, Uuid};
use std::collections::HashMap;
use std::sync::Arc;

/// Magic number at the start of each data packet whose header has a field for it.
pub const PACKET_MAGIC: u32 = 0xC1FC_1FC1;

/// A compiled schema, which decodes any number of packets from any number of threads.
#[derive(Debug)]
pub struct Decoder {
    pub(super) schema: Arc<Schema>,
    pub(super) nodes: Vec<Node>,
    pub(super) slot_count: usize,
    pub(super) packet_header: Program,
    pub(super) streams: Vec<StreamDecoder>,
    pub(super) stream_of_id: HashMap<u64, usize>,
}

#[derive(Debug)]
pub(super) struct StreamDecoder {
    pub(super) packet_context: Program,
    pub(super) event_header: Header,
    /// Programs of event bodies (contexts and payload), by index of event class.
    pub(super) bodies: Vec<Program>,
    pub(super) event_of_id: EventIds,
}

/// Index of event classes by id. Ids are usually dense; a hash map limits the memory of sparse ids.
#[derive(Debug)]
pub(super) struct EventIds {
    pub(super) dense: Vec<u32>,
    sparse: HashMap<u64, u32>,
}

const NO_EVENT: u32 = u32::MAX;

impl EventIds {
    pub(super) fn new(ids: impl Iterator<Item = u64> + Clone) -> EventIds {
        let count = ids.clone().count();
        let dense_end = (4 * count + 64) as u64;
        let mut dense = Vec::new();
        let mut sparse = HashMap::new();
        for (index, id) in ids.enumerate() {
            if id < dense_end {
                if dense.len() <= id as usize {
                    dense.resize(id as usize + 1, NO_EVENT);
                }
                dense[id as usize] = index as u32;
            } else {
                sparse.insert(id, index as u32);
            }
        }
        EventIds { dense, sparse }
    }

    #[inline]
    fn get(&self, id: u64) -> Option<u32> {
        match self.dense.get(id as usize) {
            Some(&index) if index != NO_EVENT => Some(index),
            _ => self.sparse.get(&id).copied(),
        }
    }
}

/// Contents of a packet's header and context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Index of the stream class in the schema.
    pub stream: usize,
    /// Id of the stream within its class; `None` if the packet header has no field for it.
    pub instance: Option<u64>,
    /// Clock value at the packet's start, in cycles; `None` if the packet context has no field for
    /// it.
    pub begin: Option<u64>,
    /// Clock value at the packet's end, in cycles; `None` if the packet context has no field for
    /// it.
    pub end: Option<u64>,
    /// Size of the used part in bits, from the packet's start; `None` if it extends to the end of
    /// data.
    pub content_bits: Option<u64>,
    /// Total size in bits; `None` if the packet extends to the end of data.
    pub total_bits: Option<u64>,
    /// Sequence number of the packet in its stream; `None` if the packet context has no field for
    /// it.
    pub seq: Option<u64>,
    /// Number of events that the tracer has discarded in this stream so far, as a counter that
    /// wraps; `None` if the packet context has no field for it.
    pub discarded: Option<u64>,
    /// Width in bits of the counter `discarded`, which wraps at this width.
    pub discarded_bits: u32,
    /// Offset of the first event, in bits from the packet's start.
    pub first_event: u64,
    /// UUID in the packet header, if it differs from the UUID in the metadata.
    pub foreign_uuid: Option<Uuid>,
}

impl Decoder {
    /// Returns the schema from which the decoder was compiled.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Returns the visible fields of all event classes and packet contexts. A node's id is its
    /// index in the slice.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the node of a scope's structure. The scope is the stream's packet context if `event`
    /// is `None`, else a scope of that event's body. Returns `None` if the scope is absent or has
    /// only hidden fields.
    pub(crate) fn scope_node(
        &self,
        stream: usize,
        event: Option<usize>,
        scope: Scope,
    ) -> Option<u32> {
        let stream = self.streams.get(stream)?;
        let program = match event {
            Some(event) => stream.bodies.get(event)?,
            None => &stream.packet_context,
        };
        program.ops.iter().find_map(|op| match op {
            Op::BeginScope(other, node) if *other == scope => Some(*node),
            _ => None,
        })
    }

    /// Makes the decoding state for one stream, with the clock at 0.
    pub fn machine(&self) -> Machine {
        Machine::new(self.slot_count)
    }

    /// Decodes the header and context at the start of a packet.
    ///
    /// Sets the machine's clock to the packet's start. If the packet has no time, the clock of the
    /// previous packet carries over.
    pub fn packet(&self, view: View<'_>, machine: &mut Machine) -> Result<Packet, Stop> {
        machine.roles_clear();
        let mut position = 0;
        self.walk(&self.packet_header, view, &mut position, machine, &mut NullVisitor)?;
        if let Some(magic) = machine.role(Role::Magic)
            && magic != u64::from(PACKET_MAGIC)
        {
            return Err(Stop::bad(0, DecodeErrorKind::Magic(magic)));
        }
        let stream = match machine.role(Role::StreamClassId) {
            Some(id) => match self.stream_of_id.get(&id) {
                Some(&index) => index,
                None => return Err(Stop::bad(0, DecodeErrorKind::UnknownStream(id))),
            },
            None if self.streams.len() == 1 => 0,
            None => return Err(Stop::bad(0, DecodeErrorKind::AmbiguousStream)),
        };
        let foreign_uuid = machine
            .uuid()
            .filter(|&uuid| self.schema.trace.uuid.is_some_and(|expected| expected != uuid));
        machine.width_discarded = 64;
        let context = &self.streams[stream].packet_context;
        self.walk(context, view, &mut position, machine, &mut NullVisitor)?;
        let content = machine.role(Role::ContentSize);
        let total = machine.role(Role::PacketSize);
        let packet = Packet {
            stream,
            instance: machine.role(Role::StreamInstanceId),
            begin: machine.role(Role::Timestamp).map(|_| machine.clock),
            end: machine.role(Role::PacketEnd),
            content_bits: content.or(total),
            total_bits: total.or(content),
            seq: machine.role(Role::PacketSeqNum),
            discarded: machine.role(Role::EventsDiscarded),
            discarded_bits: machine.width_discarded,
            first_event: position,
            foreign_uuid,
        };
        let at = view.base_bits();
        if let (Some(content), Some(total)) = (packet.content_bits, packet.total_bits) {
            if content > total {
                return Err(Stop::bad(at, DecodeErrorKind::ContentBeyondPacket { content, total }));
            }
            if total % 8 != 0 {
                return Err(Stop::bad(at, DecodeErrorKind::PacketSize(total)));
            }
            if content < position {
                let kind = DecodeErrorKind::ContentBeforeEvents { content, header: position };
                return Err(Stop::bad(at, kind));
            }
        }
        Ok(packet)
    }

    /// Visits the visible fields of the packet context. `view` starts at the start of a packet of
    /// the stream class with the index `stream`.
    pub fn packet_context<V: Visitor>(
        &self,
        stream: usize,
        view: View<'_>,
        machine: &mut Machine,
        visitor: &mut V,
    ) -> Result<(), Stop> {
        let mut position = 0;
        self.walk(&self.packet_header, view, &mut position, machine, &mut NullVisitor)?;
        let context = &self.streams[stream].packet_context;
        self.walk(context, view, &mut position, machine, visitor)
    }

    /// Decodes an event header: advances `position` and the machine's clock, and returns the index
    /// of the event class.
    #[inline]
    pub fn event_header(
        &self,
        stream: usize,
        view: View<'_>,
        position: &mut u64,
        machine: &mut Machine,
    ) -> Result<u32, Stop> {
        let stream = &self.streams[stream];
        match stream.event_header {
            Header::Large => self.lttng_header::<true>(stream, view, position, machine),
            Header::Compact => self.lttng_header::<false>(stream, view, position, machine),
            Header::Program(ref program) => {
                self.other_header(stream, program, view, position, machine)
            }
        }
    }

    #[inline(always)]
    pub(super) fn lttng_header<const LARGE: bool>(
        &self,
        stream: &StreamDecoder,
        view: View<'_>,
        position: &mut u64,
        machine: &mut Machine,
    ) -> Result<u32, Stop> {
        let start = *position;
        let id = Header::read(LARGE, view, position, machine)?;
        stream
            .event_of_id
            .get(id)
            .ok_or_else(|| Stop::bad(view.base_bits() + start, DecodeErrorKind::UnknownEvent(id)))
    }

    pub(super) fn other_header(
        &self,
        stream: &StreamDecoder,
        program: &Program,
        view: View<'_>,
        position: &mut u64,
        machine: &mut Machine,
    ) -> Result<u32, Stop> {
        let start = *position;
        let bad = |kind| Err(Stop::bad(view.base_bits() + start, kind));
        machine.event_id_clear();
        self.walk(program, view, position, machine, &mut NullVisitor)?;
        let event = match machine.role(Role::EventClassId) {
            Some(id) => match stream.event_of_id.get(id) {
                Some(event) => event,
                None => return bad(DecodeErrorKind::UnknownEvent(id)),
            },
            None if stream.bodies.len() == 1 => 0,
            None => return bad(DecodeErrorKind::AmbiguousEvent),
        };
        if *position == start && stream.bodies[event as usize].is_empty() {
            // An event without any bits is an error, because a loop over such events would never
            // end.
            return bad(DecodeErrorKind::EmptyEvent);
        }
        Ok(event)
    }

    /// Visits the fields of the event whose header ends at `position`, and advances `position` to
    /// the event's end.
    #[inline]
    pub fn event_body<V: Visitor>(
        &self,
        stream: usize,
        event: u32,
        view: View<'_>,
        position: &mut u64,
        machine: &mut Machine,
        visitor: &mut V,
    ) -> Result<(), Stop> {
        let body = &self.streams[stream].bodies[event as usize];
        self.walk(body, view, position, machine, visitor)
    }

    /// Returns the fields of an event's body in plain form. `None` if the body has no bytes, or if
    /// any field is hidden, may start within a byte, has an alignment above 8 bits, or differs from
    /// all of these:
    ///
    /// - an integer of 1, 2, 4 or 8 bytes in little-endian order without a role or slot;
    /// - a null-terminated string, or a string of constant length, in UTF-8 or ASCII;
    /// - a structure of such fields.
    pub fn plain_fields(&self, stream: usize, event: usize) -> Option<&[PlainField]> {
        let body = self.streams.get(stream)?.bodies.get(event)?;
        body.plain.as_ref().map(|plain| &*plain.fields)
    }

    #[inline]
    pub(super) fn walk<V: Visitor>(
        &self,
        program: &Program,
        view: View<'_>,
        position: &mut u64,
        machine: &mut Machine,
        visitor: &mut V,
    ) -> Result<(), Stop> {
        machine.walk(&self.nodes, program, view, position, visitor)
    }
}

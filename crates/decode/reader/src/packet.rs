//! Packets of a stream file: location, sort key, and fields of header and context.

use crate::file::StreamFile;
use crate::loss::Loss;
use blkkin_ctf::decode::Packet;
use std::path::Path;
use std::sync::Arc;

/// Sort key of the packets in a stream: begin in cycles, then sequence number.
pub(crate) type PacketKey = (Option<u64>, Option<u64>);

pub(crate) const NO_KEY: PacketKey = (None, None);

/// Identity of a stream in its trace: index of the stream class, and id of the stream in that
/// class.
pub(crate) type StreamId = (usize, Option<u64>);

/// Packet in a stream file, with its location and the fields of its header and context.
#[derive(Clone, Debug)]
pub(crate) struct PacketRef {
    pub(crate) file: Arc<StreamFile>,
    pub(crate) offset: u64,
    /// Number of the packet, unique in its stream, in the order in which packets are read; 0 before
    /// a number is assigned.
    pub(crate) number: u64,
    /// Size of the packet's content in the file, in bits. The size is smaller than the packet
    /// declares if the file is truncated within the content.
    pub(crate) content_bits: u64,
    /// Size of the packet in the file in bytes, with header and padding.
    pub(crate) size: u64,
    pub(crate) packet: Packet,
    pub(crate) begin_ns: Option<i64>,
    pub(crate) end_ns: Option<i64>,
    /// Clock of the stream before the packet, in cycles: the end that the previous packet in the
    /// file declares, or else its begin; 0 if no earlier packet declares a time.
    pub(crate) clock_before: u64,
    /// Losses between the previous packet and this one, or within this one.
    pub(crate) losses: Vec<Loss>,
    /// Number of bytes that the packet declares but the file lacks.
    pub(crate) missing_bytes: u64,
    /// Mark at which reading starts; `None` for the first event.
    pub(crate) mark: Option<Mark>,
    /// Number of events delivered by an earlier reading of the packet, before it is read again with
    /// newer metadata.
    pub(crate) delivered_events: u64,
}

/// Position between two events of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    /// Offset of the mark from the packet's start, in bits.
    pub(crate) position: u64,
    /// Clock of the stream at the mark, in cycles.
    pub(crate) clock: u64,
    /// Upper bound for the times of all events before the mark, in nanoseconds.
    pub(crate) ns: i64,
}

/// Location of a packet, with the fields of its header and context, for messages and statistics.
#[derive(Clone, Copy, Debug)]
pub struct PacketLocation<'p> {
    /// Path of the packet's stream file.
    pub path: &'p Path,
    /// Offset of the packet in the file, in bytes.
    pub offset: u64,
    /// Size of the packet in the file in bytes, with header and padding.
    pub size: u64,
    /// Fields of the packet's header and context.
    pub packet: &'p Packet,
}

impl PacketRef {
    pub(crate) fn key(&self) -> PacketKey {
        (self.packet.begin, self.packet.seq)
    }

    /// Returns the identity of the packet's stream, as the packet's header states it.
    pub(crate) fn stream_id(&self) -> StreamId {
        (self.packet.stream, self.packet.instance)
    }

    pub(crate) fn location(&self) -> PacketLocation<'_> {
        let PacketRef { file, offset, size, packet, .. } = self;
        PacketLocation { path: file.path(), offset: *offset, size: *size, packet }
    }

    /// Returns true if `other` is a copy of this packet: begin, end, sequence number and content
    /// size are equal. Returns false if this packet has no begin or no sequence number.
    pub(crate) fn is_copy_of(&self, other: &PacketRef) -> bool {
        let fingerprint =
            |packet: &PacketRef| (packet.key(), packet.packet.end, packet.content_bits);
        self.is_independent()
            && self.packet.seq.is_some()
            && fingerprint(self) == fingerprint(other)
    }

    /// Returns true if the packet can be read without the previous packet. That is not possible if
    /// the packet states no begin, since its clock then continues from the previous packet.
    pub(crate) fn is_independent(&self) -> bool {
        self.packet.begin.is_some()
    }
}

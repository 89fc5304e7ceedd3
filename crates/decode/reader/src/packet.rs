//! A packet of a stream file: its location, its key in the stream's order, and what its header
//! says.

use crate::file::StreamFile;
use crate::loss::Loss;
use blkkin_ctf::decode::Packet;
use std::path::Path;
use std::sync::Arc;

/// What packets of a stream are sorted by.
pub(crate) type PacketKey = (Option<u64>, Option<u64>);

pub(crate) const NO_KEY: PacketKey = (None, None);

/// Index of a stream's class, and its own id.
pub(crate) type StreamId = (usize, Option<u64>);

/// A packet and where it lies.
#[derive(Clone, Debug)]
pub(crate) struct PacketRef {
    pub(crate) file: Arc<StreamFile>,
    pub(crate) offset: u64,
    /// From 1, in the order of the stream.
    pub(crate) number: u64,
    /// Bytes of content that the file holds, the last one perhaps in part.
    pub(crate) content_bits: u64,
    /// Bytes in all that the file holds.
    pub(crate) size: u64,
    pub(crate) packet: Packet,
    pub(crate) begin_ns: Option<i64>,
    pub(crate) end_ns: Option<i64>,
    /// The stream's clock before the packet.
    pub(crate) clock_before: u64,
    /// What was lost between the packet before and this one (or in it).
    pub(crate) losses: Vec<Loss>,
    /// Bytes that are missing at the packet's end.
    pub(crate) missing: u64,
    /// Where to begin instead of at the first event.
    pub(crate) mark: Option<Mark>,
    /// Events that were passed on before; the packet is read once more for those behind them.
    pub(crate) known_events: u64,
}

/// A place between two events of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    /// In bits from the packet's start.
    pub(crate) position: u64,
    /// The stream's clock.
    pub(crate) clock: u64,
    /// No event before it counts as later than this.
    pub(crate) ns: i64,
}

/// A packet's place, for people.
#[derive(Clone, Copy, Debug)]
pub struct PacketPlace<'p> {
    /// The stream file.
    pub path: &'p Path,
    /// Byte offset of the packet.
    pub offset: u64,
    /// Its size in bytes.
    pub size: u64,
    /// What its header and context say.
    pub packet: &'p Packet,
}

impl PacketRef {
    pub(crate) fn order(&self) -> PacketKey {
        (self.packet.begin, self.packet.seq)
    }

    /// The stream that the packet names.
    pub(crate) fn identity(&self) -> StreamId {
        (self.packet.stream, self.packet.instance)
    }

    pub(crate) fn place(&self) -> PacketPlace<'_> {
        let PacketRef { file, offset, size, packet, .. } = self;
        PacketPlace { path: file.path(), offset: *offset, size: *size, packet }
    }

    /// Whether a packet read from another file is the same one.
    pub(crate) fn same(&self, other: &PacketRef) -> bool {
        let identity =
            |packet: &PacketRef| (packet.order(), packet.packet.end, packet.content_bits);
        self.is_free() && self.packet.seq.is_some() && identity(self) == identity(other)
    }

    /// Whether it can be read without the one before; one that does not say when it begins goes
    /// on from there.
    pub(crate) fn is_free(&self) -> bool {
        self.packet.begin.is_some()
    }
}

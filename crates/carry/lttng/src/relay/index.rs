//! Index of a packet, or a beacon: the promise that a stream has no older event than a time.

use crate::fault::{Fault, Reason};
use crate::packet_index::PacketIndex;
use crate::wire::{Fields, PutFields};

/// Index of a packet on the control connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// Handle of the stream at the relay.
    pub stream: u64,
    /// Sequence number of the packet on the data connection.
    pub net_sequence: u64,
    /// Sizes and times of the packet. In a beacon, only end and class are set.
    pub packet: PacketIndex,
    /// Id of the stream in its class: the processor. `None` from producers before version 2.8.
    pub instance: Option<u64>,
    /// Sequence number of the packet in its stream. `None` from producers before version 2.8.
    pub packet_sequence: Option<u64>,
}

/// Value of [`Index::net_sequence`] in a beacon of a stream without packets.
pub(crate) const NO_SEQUENCE: u64 = u64::MAX;

impl Index {
    /// Makes a beacon: no event before `now` follows in the stream. `last` is the sequence number
    /// of the stream's last packet.
    pub fn beacon(stream: u64, last: Option<u64>, class: u64, now: u64) -> Index {
        let net_sequence = last.unwrap_or(NO_SEQUENCE);
        let packet = PacketIndex { class, end: now, ..PacketIndex::default() };
        Index { stream, net_sequence, packet, ..Index::default() }
    }

    /// Returns true for a beacon.
    pub fn is_beacon(&self) -> bool {
        self.packet.packet_bits == 0
    }

    pub(super) fn decode(fields: &mut Fields<'_>, minor: u32) -> Result<Index, Fault> {
        let mut index = Index {
            stream: fields.u64()?,
            net_sequence: fields.u64()?,
            packet: PacketIndex::decode(fields)?,
            ..Index::default()
        };
        if minor >= 8 {
            index.instance = Some(fields.u64()?);
            index.packet_sequence = Some(fields.u64()?);
        }
        if !index.packet.is_sound() {
            return Err(fields.fault(Reason::Value(index.packet.packet_bits)));
        }
        Ok(index)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.stream);
        out.put_u64(self.net_sequence);
        self.packet.encode(out);
        out.put_u64(self.instance.unwrap_or(0));
        out.put_u64(self.packet_sequence.unwrap_or(0));
    }
}

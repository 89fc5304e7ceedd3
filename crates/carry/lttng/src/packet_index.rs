//! Index of a packet: its sizes, its times, and the events that its stream has discarded. Index
//! files and both protocols have these fields in the same order.

use crate::fault::Fault;
use crate::wire::{Fields, PutFields};

/// Index of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketIndex {
    /// Size of the packet with its padding, in bits.
    pub packet_bits: u64,
    /// Size of the packet without its padding, in bits.
    pub content_bits: u64,
    /// Start of the packet, in cycles of its clock.
    pub begin: u64,
    /// End of the packet, in cycles of its clock.
    pub end: u64,
    /// Number of events that the stream has discarded so far.
    pub discarded: u64,
    /// Id of the stream class in the metadata.
    pub class: u64,
}

impl PacketIndex {
    /// Returns whether the sizes are possible: whole bytes, and no more content than packet.
    pub(crate) fn is_sound(&self) -> bool {
        self.content_bits <= self.packet_bits && self.packet_bits.is_multiple_of(8)
    }

    pub(crate) fn decode(fields: &mut Fields<'_>) -> Result<PacketIndex, Fault> {
        Ok(PacketIndex {
            packet_bits: fields.u64()?,
            content_bits: fields.u64()?,
            begin: fields.u64()?,
            end: fields.u64()?,
            discarded: fields.u64()?,
            class: fields.u64()?,
        })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let sizes = [self.packet_bits, self.content_bits, self.begin, self.end];
        for value in sizes.into_iter().chain([self.discarded, self.class]) {
            out.put_u64(value);
        }
    }
}

//! Index of a packet, or a beacon: the promise that a stream has no older event than a time.

use crate::fault::{Fault, Reason};
use crate::wire::{Fields, PutFields};

/// Index of a packet on the control connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// Handle of the stream at the relay.
    pub stream: u64,
    /// Sequence number of the packet on the data connection.
    pub net_sequence: u64,
    /// Size of the packet with its padding, in bits; 0 in a beacon.
    pub packet_bits: u64,
    /// Size of the packet without its padding, in bits.
    pub content_bits: u64,
    /// Start of the packet, in cycles of its clock.
    pub begin: u64,
    /// End of the packet, in cycles of its clock. The only time in a beacon.
    pub end: u64,
    /// Number of events that the stream has discarded so far.
    pub discarded: u64,
    /// Id of the stream class in the metadata.
    pub class: u64,
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
        Index { stream, net_sequence, class, end: now, ..Index::default() }
    }

    /// Returns true for a beacon.
    pub fn is_beacon(&self) -> bool {
        self.packet_bits == 0
    }

    pub(super) fn decode(fields: &mut Fields<'_>, minor: u32) -> Result<Index, Fault> {
        let mut index = Index {
            stream: fields.u64()?,
            net_sequence: fields.u64()?,
            packet_bits: fields.u64()?,
            content_bits: fields.u64()?,
            begin: fields.u64()?,
            end: fields.u64()?,
            discarded: fields.u64()?,
            class: fields.u64()?,
            ..Index::default()
        };
        if minor >= 8 {
            index.instance = Some(fields.u64()?);
            index.packet_sequence = Some(fields.u64()?);
        }
        if index.content_bits > index.packet_bits || !index.packet_bits.is_multiple_of(8) {
            return Err(fields.fault(Reason::Value(index.packet_bits)));
        }
        Ok(index)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        for value in [
            self.stream,
            self.net_sequence,
            self.packet_bits,
            self.content_bits,
            self.begin,
            self.end,
            self.discarded,
            self.class,
            self.instance.unwrap_or(0),
            self.packet_sequence.unwrap_or(0),
        ] {
            out.put_u64(value);
        }
    }
}

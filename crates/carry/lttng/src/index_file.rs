//! Index file of a stream, in the directory `index` of its trace:
//!
//! ```text
//! 0  magic 0xC1F1DCC1, major 1, minor 0 or 1, size of an entry: u32 each, big-endian
//! 16 entries: offset, packet size and content size in bits, begin, end, discarded events, class
//!    id, and for minor 1 instance id and sequence number: u64 each, big-endian
//! ```
//!
//! A writer appends an entry after its packet. A reader that finds an invalid file gets a
//! [`Fault`] with the offset.

use crate::fault::{Fault, Reason};
use crate::packet_index::PacketIndex;
use crate::wire::{Fields, PutFields};
use std::path::{Path, PathBuf};

/// Layout of an index file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexLayout {
    /// Set if entries have the id of the stream and the number of the packet.
    pub has_instances: bool,
}

/// Entry of an index file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexEntry {
    /// Offset of the packet in the stream's file, in bytes.
    pub offset: u64,
    /// Sizes and times of the packet.
    pub packet: PacketIndex,
    /// Id of the stream in its class, if the layout has it.
    pub instance: Option<u64>,
    /// Sequence number of the packet in its stream, if the layout has it.
    pub packet_sequence: Option<u64>,
}

/// Size of the header of an index file, in bytes.
pub const INDEX_HEADER_SIZE: usize = 16;

const MAGIC: u32 = 0xc1f1_dcc1;
const MESSAGE: &str = "index file";

/// Returns the path of a stream's index file in the directory of its trace.
pub fn index_path(trace: &Path, stream: &str) -> PathBuf {
    trace.join("index").join(format!("{stream}.idx"))
}

impl IndexLayout {
    /// Returns the size of an entry, in bytes.
    pub fn entry_size(self) -> usize {
        if self.has_instances { 72 } else { 56 }
    }

    /// Returns the offset of an entry in the file, in bytes.
    pub fn offset_of(self, entry: u64) -> u64 {
        (INDEX_HEADER_SIZE as u64).saturating_add(entry.saturating_mul(self.entry_size() as u64))
    }

    /// Returns the number of whole entries in a file of `size` bytes.
    pub fn entries_in(self, size: u64) -> u64 {
        size.saturating_sub(INDEX_HEADER_SIZE as u64) / self.entry_size() as u64
    }

    /// Returns the header of a file.
    pub fn header(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(INDEX_HEADER_SIZE);
        for word in [MAGIC, 1, self.has_instances.into(), self.entry_size() as u32] {
            out.put_u32(word);
        }
        out
    }

    /// Decodes the header of a file.
    pub fn decode(header: &[u8; INDEX_HEADER_SIZE]) -> Result<IndexLayout, Fault> {
        let mut fields = Fields::new(MESSAGE, header, 0);
        let magic = fields.u32()?;
        if magic != MAGIC {
            return Err(Fault { message: MESSAGE, offset: 0, reason: Reason::Value(magic.into()) });
        }
        fields.u64()?;
        let size = fields.u32()?;
        let layouts = [false, true].map(|has_instances| IndexLayout { has_instances });
        let layout = layouts.into_iter().find(|layout| layout.entry_size() == size as usize);
        layout.ok_or(Fault { message: MESSAGE, offset: 12, reason: Reason::Value(size.into()) })
    }
}

impl IndexEntry {
    /// Returns the position in the stream's file after the packet.
    pub fn data_end(&self) -> u64 {
        self.offset.saturating_add(self.packet.packet_bits / 8)
    }

    /// Appends the entry to `out`.
    pub fn encode(&self, layout: IndexLayout, out: &mut Vec<u8>) {
        out.put_u64(self.offset);
        self.packet.encode(out);
        if layout.has_instances {
            out.put_u64(self.instance.unwrap_or(0));
            out.put_u64(self.packet_sequence.unwrap_or(0));
        }
    }

    /// Decodes an entry of `layout.entry_size()` bytes.
    pub fn decode(layout: IndexLayout, bytes: &[u8]) -> Result<IndexEntry, Fault> {
        let mut fields = Fields::new(MESSAGE, bytes, 0);
        let (offset, packet) = (fields.u64()?, PacketIndex::decode(&mut fields)?);
        let mut entry = IndexEntry { offset, packet, ..IndexEntry::default() };
        if layout.has_instances {
            entry.instance = Some(fields.u64()?);
            entry.packet_sequence = Some(fields.u64()?);
        }
        if !packet.is_sound() || packet.packet_bits == 0 {
            return Err(fields.fault(Reason::Value(packet.packet_bits)));
        }
        fields.end()?;
        Ok(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_encode_as_they_decode() {
        for has_instances in [false, true] {
            let layout = IndexLayout { has_instances };
            let header = layout.header().try_into().unwrap();
            assert_eq!(IndexLayout::decode(&header), Ok(layout));
            let packet = PacketIndex { packet_bits: 64, content_bits: 40, ..Default::default() };
            let number = has_instances.then_some(7);
            let entry = IndexEntry { offset: 9, packet, instance: number, packet_sequence: number };
            let mut bytes = Vec::new();
            entry.encode(layout, &mut bytes);
            assert_eq!(bytes.len(), layout.entry_size());
            assert_eq!(IndexEntry::decode(layout, &bytes), Ok(entry));
            assert!(IndexEntry::decode(layout, &bytes[1..]).is_err());
            assert_eq!(layout.entries_in(layout.offset_of(3) + 1), 3);
        }
    }

    #[test]
    fn other_files_are_refused_with_the_place() {
        let layout = IndexLayout { has_instances: true };
        let mut header: [u8; 16] = layout.header().try_into().unwrap();
        header[15] = 71;
        assert_eq!(IndexLayout::decode(&header).unwrap_err().offset, 12);
        header[0] = 0;
        assert_eq!(IndexLayout::decode(&header).unwrap_err().offset, 0);
        for (packet_bits, content_bits) in [(0, 0), (8, 16), (12, 8)] {
            let packet = PacketIndex { packet_bits, content_bits, ..Default::default() };
            let mut bytes = Vec::new();
            IndexEntry { packet, ..Default::default() }.encode(layout, &mut bytes);
            assert!(IndexEntry::decode(layout, &bytes).is_err(), "{packet_bits} {content_bits}");
        }
    }
}

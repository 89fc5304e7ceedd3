//! Header of a packet on the data connection.

use crate::fault::{Fault, Reason};
use crate::wire::{Fields, PutFields};

/// Size of a [`DataHeader`], in bytes.
pub const DATA_HEADER_SIZE: usize = 32;

/// Maximum size of a packet with its padding, in bytes: 1 GiB.
const PACKET_BYTES_MAX: u64 = 1 << 30;

/// Header of a packet on the data connection. `data_size` bytes of the packet follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataHeader {
    /// Handle of the stream at the relay.
    pub stream: u64,
    /// Sequence number of the packet in the stream.
    pub net_sequence: u64,
    /// Number of bytes that follow the header.
    pub data_size: u32,
    /// Number of zero bytes that the relay appends.
    pub padding_size: u32,
}

impl DataHeader {
    /// Decodes a header; `None` if `bytes` has fewer than [`DATA_HEADER_SIZE`] bytes.
    pub fn decode(bytes: &[u8]) -> Result<Option<DataHeader>, Fault> {
        let Some(bytes) = bytes.get(..DATA_HEADER_SIZE) else { return Ok(None) };
        let mut fields = Fields::new("packet", bytes, 0);
        fields.u64()?;
        let (stream, net_sequence) = (fields.u64()?, fields.u64()?);
        let (data_size, padding_size) = (fields.u32()?, fields.u32()?);
        let declared = u64::from(data_size) + u64::from(padding_size);
        if declared > PACKET_BYTES_MAX {
            let reason = Reason::Size { declared, permitted: "up to 1 GiB" };
            return Err(Fault { message: "packet", offset: 24, reason });
        }
        Ok(Some(DataHeader { stream, net_sequence, data_size, padding_size }))
    }

    /// Appends the header to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(0);
        out.put_u64(self.stream);
        out.put_u64(self.net_sequence);
        out.put_u32(self.data_size);
        out.put_u32(self.padding_size);
    }
}

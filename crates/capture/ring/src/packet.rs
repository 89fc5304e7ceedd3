//! The packet header at the start of each sub-buffer: CTF's, with the fields that LTTng declares in
//! its metadata.
//!
//! ```text
//! 0   magic c1fc1fc1                 48  content size, in bits
//! 4   UUID of the trace              56  packet size, in bits
//! 20  id of the stream class, u32    64  number of the packet in the stream
//! 24  id of the stream: processor    72  events discarded so far
//! 32  first time                     80  processor, u32
//! 40  last time
//! ```
//!
//! All words are little-endian, of 8 bytes unless noted. A writer fills in the last time, both
//! sizes and the discarded events when it leaves the sub-buffer; the packet size is then the
//! distance to the next sub-buffer's position. The reader replaces the header.

/// Size of a packet header, in bytes.
pub const SIZE: usize = 84;

const MAGIC: u32 = 0xc1fc_1fc1;

/// Range of the UUID of the trace, in bytes.
pub const UUID: std::ops::Range<usize> = 4..20;
/// Offset of the id of the stream, in bytes.
pub const INSTANCE: usize = 24;
/// Offset of the packet's first time, in bytes.
pub const FIRST_TIME: usize = 32;
/// Offset of the packet's last time, in bytes. Content size and packet size follow. A writer fills
/// in these three fields when it leaves the sub-buffer.
pub const LAST_TIME: usize = 40;
/// Offset of the size of the content, in bytes.
pub const CONTENT_SIZE: usize = 48;
/// Offset of the size of the packet, in bytes.
pub const PACKET_SIZE: usize = 56;
/// Offset of the number of the packet in the stream, in bytes.
pub const NUMBER: usize = 64;
/// Offset of the number of the processor, in bytes.
pub const CPU: usize = 80;
/// Offset of the number of discarded events, in bytes. A writer fills in this field when it leaves
/// the sub-buffer.
pub const DISCARDED: usize = 72;

/// Decoded packet header: ids, times, sizes and counts of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// UUID of the trace, as in its metadata.
    pub uuid: [u8; 16],
    /// Id of the stream class, which is the channel's.
    pub stream: u32,
    /// Index of the packet's ring: the number of a processor, or the additional ring's index.
    pub cpu: u32,
    /// Time of the first event, or an earlier time.
    pub first_time: u64,
    /// Time of the last event, or a later time.
    pub last_time: u64,
    /// Size of the content in bytes, including this header.
    pub content_size: u64,
    /// Size of the packet in bytes, including unused bytes at its end.
    pub packet_size: u64,
    /// Number of the packet in its stream, from 0.
    pub number: u64,
    /// Number of events discarded so far in the stream.
    pub discarded: u64,
}

impl Header {
    /// Encodes the header in the layout that this module's documentation shows.
    pub fn to_bytes(&self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        let mut at = 0;
        let mut put = |part: &[u8]| {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        };
        put(&MAGIC.to_le_bytes());
        put(&self.uuid);
        put(&self.stream.to_le_bytes());
        for word in [
            u64::from(self.cpu),
            self.first_time,
            self.last_time,
            self.content_size * 8,
            self.packet_size * 8,
            self.number,
            self.discarded,
        ] {
            put(&word.to_le_bytes());
        }
        put(&self.cpu.to_le_bytes());
        bytes
    }

    /// Decodes a header without checking its fields; `None` if the magic number is wrong.
    pub fn from_bytes(bytes: &[u8; SIZE]) -> Option<Header> {
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&bytes[4..20]);
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let half = |at: usize| word(at) as u32;
        let last = u32::from_le_bytes([bytes[80], bytes[81], bytes[82], bytes[83]]);
        (half(0) == MAGIC).then(|| Header {
            uuid,
            stream: half(20),
            cpu: last,
            first_time: word(32),
            last_time: word(40),
            content_size: word(48) / 8,
            packet_size: word(56) / 8,
            number: word(64),
            discarded: word(72),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_where_ctf_readers_look() {
        let header = Header {
            uuid: *b"0123456789abcdef",
            stream: 1,
            cpu: 2,
            first_time: 3,
            last_time: 4,
            content_size: 5,
            packet_size: 6,
            number: 7,
            discarded: 8,
        };
        let bytes = header.to_bytes();
        assert_eq!(bytes[..4], [0xc1, 0x1f, 0xfc, 0xc1]);
        assert_eq!(bytes[4..20], *b"0123456789abcdef");
        let words = [
            (20, 1),
            (INSTANCE, 2),
            (FIRST_TIME, 3),
            (LAST_TIME, 4),
            (CONTENT_SIZE, 40),
            (PACKET_SIZE, 48),
            (NUMBER, 7),
            (DISCARDED, 8),
            (CPU, 2),
        ];
        for (at, value) in words {
            assert_eq!(bytes[at..at + 4], u32::to_le_bytes(value), "{at}");
        }
        assert_eq!(Header::from_bytes(&bytes), Some(header));
        assert_eq!(Header::from_bytes(&[0; SIZE]), None);
    }
}

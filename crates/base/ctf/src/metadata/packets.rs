//! Packetised metadata, the form in which LTTng stores and sends metadata. Each packet is
//!
//! ```text
//! 0  u32 magic 0x75D11D57, whose byte order is that of all numbers   24 u32 content size, bits
//! 4  16 bytes UUID of the trace                                      28 u32 packet size, bits
//! 20 u32 checksum, 0                                                 32 u8 compression, 0
//! 33 u8 encryption, 0    34 u8 checksum scheme, 0    35 u8 major, 1    36 u8 minor, 8
//! 37 text, then padding up to the packet size
//! ```
//!
//! Packets split the text at any byte, so the text is reassembled before parsing.

use super::error::MetadataError;
use super::limits::METADATA_SIZE_MAX;
use crate::schema::{ByteOrder, Uuid};
use std::borrow::Cow;
use std::ops::Range;

const MAGIC: u32 = 0x75D1_1D57;
const HEADER_SIZE: usize = 37;
/// Size of the packets that [`pack`] makes, in bytes: LTTng's usual size.
const PACKET_SIZE: usize = 4096;

/// Text of a metadata file, with the properties of the packets from which it was extracted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataText {
    /// The text, without packet headers and padding.
    pub text: String,
    /// Properties of the file's packets; `None` for a plain text file.
    pub packing: Option<Packing>,
    /// Range of the stray bytes in the file: bytes after the last metadata packet, too few for
    /// another packet's header, and not part of `text`. `None` if the file has none.
    pub stray: Option<Range<usize>>,
}

/// Properties of metadata packets apart from their text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    /// UUID of the trace, the same in all packets.
    pub uuid: Uuid,
    /// Byte order of the numbers in packet headers.
    pub byte_order: ByteOrder,
}

/// Extracts the text of a metadata file, plain or packetised.
pub fn unpack<'b>(bytes: impl Into<Cow<'b, [u8]>>) -> Result<MetadataText, MetadataError> {
    let bytes = bytes.into();
    if bytes.len() > METADATA_SIZE_MAX {
        return Err(at_byte(
            METADATA_SIZE_MAX,
            format!("metadata of {} bytes is larger than {METADATA_SIZE_MAX}", bytes.len()),
        ));
    }
    let mut bytes = bytes.into_owned();
    let Some(byte_order) = packed_byte_order(&bytes) else {
        return Ok(MetadataText { text: utf8(bytes)?, packing: None, stray: None });
    };
    let mut uuid = None;
    let mut offset = 0;
    // Moves the text to the front of the same buffer.
    let mut length = 0;
    let mut stray = None;
    while offset < bytes.len() {
        if uuid.is_some() && bytes.len() - offset < HEADER_SIZE {
            stray = Some(offset..bytes.len());
            break;
        }
        let packet = read_packet(&bytes, offset, byte_order)?;
        if *uuid.get_or_insert(packet.uuid) != packet.uuid {
            return Err(at_byte(
                offset,
                format!("metadata packet of trace {} among others", packet.uuid),
            ));
        }
        offset = packet.end;
        let content_length = packet.content.len();
        bytes.copy_within(packet.content, length);
        length += content_length;
    }
    bytes.truncate(length);
    let packing = uuid.map(|uuid| Packing { uuid, byte_order });
    Ok(MetadataText { text: utf8(bytes)?, packing, stray })
}

/// Splits `text` into metadata packets, at least one.
pub fn pack(text: &str, uuid: Uuid, byte_order: ByteOrder) -> Vec<u8> {
    let word = |value: u32| match byte_order {
        ByteOrder::Little => value.to_le_bytes(),
        ByteOrder::Big => value.to_be_bytes(),
    };
    let mut rest = text.as_bytes();
    let mut out = Vec::with_capacity(text.len() / (PACKET_SIZE - HEADER_SIZE) * PACKET_SIZE);
    loop {
        let (content, after) = rest.split_at(rest.len().min(PACKET_SIZE - HEADER_SIZE));
        let packet_end = out.len() + PACKET_SIZE;
        out.extend_from_slice(&word(MAGIC));
        out.extend_from_slice(&uuid.0);
        out.extend_from_slice(&word(0));
        out.extend_from_slice(&word((HEADER_SIZE + content.len()) as u32 * 8));
        out.extend_from_slice(&word(PACKET_SIZE as u32 * 8));
        out.extend_from_slice(&[0, 0, 0, 1, 8]);
        out.extend_from_slice(content);
        out.resize(packet_end, 0);
        rest = after;
        if rest.is_empty() {
            return out;
        }
    }
}

struct Packet {
    uuid: Uuid,
    content: Range<usize>,
    /// Offset of the next packet; past the end of the file if padding is missing.
    end: usize,
}

/// Detects the byte order of packetised metadata; `None` for any other file.
fn packed_byte_order(bytes: &[u8]) -> Option<ByteOrder> {
    match bytes.first_chunk()? {
        magic if u32::from_le_bytes(*magic) == MAGIC => Some(ByteOrder::Little),
        magic if u32::from_be_bytes(*magic) == MAGIC => Some(ByteOrder::Big),
        _ => None,
    }
}

fn read_packet(
    bytes: &[u8],
    offset: usize,
    byte_order: ByteOrder,
) -> Result<Packet, MetadataError> {
    let fail = |message: String| Err(at_byte(offset, message));
    let rest = &bytes[offset..];
    let Some(header) = rest.first_chunk::<HEADER_SIZE>() else {
        return fail(format!(
            "metadata packet is cut off: {} bytes are no whole header of {HEADER_SIZE}",
            rest.len()
        ));
    };
    let word = |at: usize| {
        let bytes = [header[at], header[at + 1], header[at + 2], header[at + 3]];
        match byte_order {
            ByteOrder::Little => u32::from_le_bytes(bytes),
            ByteOrder::Big => u32::from_be_bytes(bytes),
        }
    };
    if word(0) != MAGIC {
        return fail(format!("metadata packet starts with {:#010x}, not {MAGIC:#010x}", word(0)));
    }
    for (scheme, what) in [(header[32], "compressed"), (header[33], "encrypted")] {
        if scheme != 0 {
            return fail(format!("metadata packet is {what} (scheme {scheme}), which is unknown"));
        }
    }
    if header[34] != 0 || word(20) != 0 {
        return fail(format!("metadata packet has a checksum of unknown scheme {}", header[34]));
    }
    if header[35..37] != [1, 8] {
        return fail(format!("metadata packet of version {}.{}, not 1.8", header[35], header[36]));
    }
    let (content_bits, packet_bits) = (word(24), word(28));
    let content_end = content_bits as usize / 8;
    if content_end < HEADER_SIZE {
        return fail(format!(
            "metadata packet's content of {content_bits} bits ends in its header"
        ));
    }
    let Some(filling_bits) = packet_bits.checked_sub(content_bits) else {
        return fail(format!(
            "metadata packet's content of {content_bits} bits is longer than the packet of \
             {packet_bits}"
        ));
    };
    if content_end > rest.len() {
        return fail(format!(
            "metadata packet is cut off: {} of {content_end} bytes are there",
            rest.len()
        ));
    }
    let content = offset + HEADER_SIZE..offset + content_end;
    let mut uuid = [0; 16];
    uuid.copy_from_slice(&header[4..20]);
    let end = offset + content_end + filling_bits as usize / 8;
    Ok(Packet { uuid: Uuid(uuid), content, end })
}

fn utf8(bytes: Vec<u8>) -> Result<String, MetadataError> {
    String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        let valid = String::from_utf8_lossy(&error.as_bytes()[..offset]);
        MetadataError::at(&valid, offset, "metadata is not UTF-8 text")
    })
}

/// Makes an error at a byte offset of the file, for errors in packet headers, which have no line
/// and column.
fn at_byte(offset: usize, message: String) -> MetadataError {
    MetadataError { offset, position: None, message, hint: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: Uuid = Uuid([7; 16]);

    /// Makes a little-endian header with the given sizes in bits, followed by `content`.
    fn packet(content_bits: u32, packet_bits: u32, content: &str) -> Vec<u8> {
        let mut bytes = MAGIC.to_le_bytes().to_vec();
        bytes.extend_from_slice(&UUID.0);
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&content_bits.to_le_bytes());
        bytes.extend_from_slice(&packet_bits.to_le_bytes());
        bytes.extend_from_slice(&[0, 0, 0, 1, 8]);
        bytes.extend_from_slice(content.as_bytes());
        bytes
    }

    fn check(bytes: &[u8], expected: &str) {
        let shown = match unpack(bytes) {
            Ok(text) => text.text,
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn plain_text_is_taken_as_it_is() {
        check(b"", "");
        check(b"/* CTF 1.8 */", "/* CTF 1.8 */");
        check(b"ab\n\xffc", "line 2, column 1 (offset 3): metadata is not UTF-8 text");
        assert_eq!(unpack(b"abc").unwrap().packing, None);
    }

    #[test]
    fn what_is_packed_can_be_unpacked() {
        for byte_order in [ByteOrder::Little, ByteOrder::Big] {
            for size in [0, 1, 4058, 4059, 4060, 20_000] {
                // The content of a full packet has an odd size of 4059 bytes, so a two-byte
                // character is split between packets.
                let text = "é".repeat(size / 2) + &"x".repeat(size % 2);
                let bytes = pack(&text, UUID, byte_order);
                assert_eq!(bytes.len(), size.div_ceil(4059).max(1) * 4096);
                let packing = Some(Packing { uuid: UUID, byte_order });
                assert_eq!(unpack(&bytes), Ok(MetadataText { text, packing, stray: None }));
            }
        }
    }

    #[test]
    fn odd_sizes_and_missing_filling_are_accepted() {
        let mut bytes = packet(39 * 8, 39 * 8, "ab");
        bytes.extend(packet(38 * 8, 41 * 8, "c"));
        bytes.extend([0; 3]);
        bytes.extend(packet(39 * 8, 4096 * 8, "de"));
        check(&bytes, "abcde");
    }

    /// Stray bytes at the end of a file are ignored. A single one used to make the whole trace
    /// unreadable.
    #[test]
    fn a_few_bytes_behind_the_last_packet_are_left_out() {
        for stray in [&[7][..], &[0; 36], &packet(39 * 8, 39 * 8, "bc")[..20]] {
            let mut bytes = packet(38 * 8, 40 * 8, "a\0\0");
            bytes.extend_from_slice(stray);
            let found = unpack(&bytes).expect("sound packets");
            assert_eq!((&*found.text, found.stray), ("a", Some(40..40 + stray.len())));
        }
    }

    #[test]
    fn broken_packets_are_named_by_their_offset() {
        let first = packet(38 * 8, 40 * 8, "a\0\0");
        let with = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut second = packet(39 * 8, 39 * 8, "bc");
            change(&mut second);
            [first.clone(), second].concat()
        };
        check(&with(&|_| ()), "abc");
        check(
            &packet(39 * 8, 39 * 8, "bc")[..20],
            "offset 0: metadata packet is cut off: 20 bytes are no whole header of 37",
        );
        check(
            &with(&|packet| packet.truncate(38)),
            "offset 40: metadata packet is cut off: 38 of 39 bytes are there",
        );
        check(
            &with(&|packet| packet[0] = 0),
            "offset 40: metadata packet starts with 0x75d11d00, not 0x75d11d57",
        );
        check(
            &with(&|packet| packet[4] = 1),
            "offset 40: metadata packet of trace 01070707-0707-0707-0707-070707070707 among others",
        );
        check(
            &with(&|packet| packet[20] = 1),
            "offset 40: metadata packet has a checksum of unknown scheme 0",
        );
        check(
            &with(&|packet| packet[32] = 2),
            "offset 40: metadata packet is compressed (scheme 2), which is unknown",
        );
        check(
            &with(&|packet| packet[33] = 1),
            "offset 40: metadata packet is encrypted (scheme 1), which is unknown",
        );
        check(
            &with(&|packet| packet[36] = 7),
            "offset 40: metadata packet of version 1.7, not 1.8",
        );
        check(
            &with(&|packet| packet[24] = 8),
            "offset 40: metadata packet's content of 264 bits ends in its header",
        );
        check(
            &with(&|packet| packet[29] = 0),
            "offset 40: metadata packet's content of 312 bits is longer than the packet of 56",
        );
    }
}

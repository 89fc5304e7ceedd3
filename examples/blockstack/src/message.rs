//! Messages between roles: a header of 64 bytes, a name and a payload. `mapper/link.h` has the same
//! encoding in C.
//!
//! | offset | field |
//! | --- | --- |
//! | 0 | magic |
//! | 4 | kind |
//! | 5 | flags |
//! | 6 | size of the name |
//! | 8 | number of the request, repeated in its reply; replies may be out of order |
//! | 16 | offset |
//! | 24 | length |
//! | 28 | status of a reply: 0, or an error number |
//! | 32 | number of the object, if it is addressed by number |
//! | 40 | blkin trace context of the caller's span, 24 bytes; 0 if the request is not sampled |
//!
//! Numbers are little-endian, except for the trace context. The payload is the data to be written,
//! the data that was read, or the list of volumes.

/// Size of a header, in bytes.
pub(crate) const HEADER_SIZE: usize = 64;
/// Maximum length of a name, in bytes.
pub(crate) const NAME_MAX: usize = 56;
/// Maximum size of a payload, in bytes.
pub(crate) const PAYLOAD_MAX: u32 = 32 << 20;

const MAGIC: u32 = 0x4b54_5342;
const FUA: u8 = 1;
const REPLY: u8 = 2;

/// Operation that a request asks for; its reply repeats the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Read = 1,
    Write = 2,
    Flush = 3,
    /// Request to make a range read as zeros, and to free its space if the file system
    /// supports holes.
    Zero = 4,
    /// Request for the list of volumes. The reply has a line with name and size for each volume.
    List = 5,
}

/// Decoded header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) is_reply: bool,
    /// Set if a write or zeroing must be durable before its reply (force unit access).
    pub(crate) fua: bool,
    pub(crate) id: u64,
    pub(crate) offset: u64,
    pub(crate) length: u32,
    pub(crate) status: u32,
    pub(crate) object: u64,
    pub(crate) trace: [u8; 24],
}

/// A complete message, borrowed from the input buffer.
#[derive(Debug)]
pub(crate) struct Message<'a> {
    pub(crate) header: Header,
    pub(crate) name: &'a [u8],
    pub(crate) payload: &'a [u8],
    /// Size of header, name and payload together, in bytes.
    pub(crate) size: usize,
}

/// Result of decoding the next message.
#[derive(Debug)]
pub(crate) enum NextMessage<'a> {
    Whole(Message<'a>),
    /// The message is incomplete; it has at least this many bytes.
    Short(usize),
    /// The bytes are not a message.
    Bad,
}

impl Header {
    pub(crate) fn request(kind: Kind, id: u64, offset: u64, length: u32) -> Header {
        Header {
            kind,
            is_reply: false,
            fua: false,
            id,
            offset,
            length,
            status: 0,
            object: 0,
            trace: [0; 24],
        }
    }

    /// Creates the header of the reply to the request `id`.
    pub(crate) fn reply(kind: Kind, id: u64, length: u32, status: u32) -> Header {
        Header { is_reply: true, status, ..Header::request(kind, id, 0, length) }
    }

    /// Appends the header and the name. The caller appends the payload.
    #[inline]
    pub(crate) fn write(&self, name: &[u8], output: &mut Vec<u8>) {
        let mut bytes = [0; HEADER_SIZE];
        bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[4] = self.kind as u8;
        bytes[5] = if self.fua { FUA } else { 0 } | if self.is_reply { REPLY } else { 0 };
        bytes[6..8].copy_from_slice(&(name.len() as u16).to_le_bytes());
        bytes[8..16].copy_from_slice(&self.id.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.length.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.status.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.object.to_le_bytes());
        bytes[40..].copy_from_slice(&self.trace);
        output.extend_from_slice(&bytes);
        output.extend_from_slice(name);
    }

    fn payload_size(&self) -> u32 {
        let has_payload = match self.kind {
            Kind::Read | Kind::List => self.is_reply && self.status == 0,
            Kind::Write => !self.is_reply,
            Kind::Flush | Kind::Zero => false,
        };
        if has_payload { self.length } else { 0 }
    }
}

/// Decodes the next message.
#[inline]
pub(crate) fn next(bytes: &[u8]) -> NextMessage<'_> {
    let Some((head, rest)) = bytes.split_first_chunk::<HEADER_SIZE>() else {
        return NextMessage::Short(HEADER_SIZE);
    };
    let Some((header, name_size)) = read(head) else { return NextMessage::Bad };
    let payload_size = header.payload_size();
    if name_size > NAME_MAX || payload_size > PAYLOAD_MAX {
        return NextMessage::Bad;
    }
    let size = HEADER_SIZE + name_size + payload_size as usize;
    if bytes.len() < size {
        return NextMessage::Short(size);
    }
    let (name, rest) = rest.split_at(name_size);
    NextMessage::Whole(Message { header, name, payload: &rest[..payload_size as usize], size })
}

#[inline]
fn read(bytes: &[u8; HEADER_SIZE]) -> Option<(Header, usize)> {
    let u32_at =
        |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
    let kind = match bytes[4] {
        1 => Kind::Read,
        2 => Kind::Write,
        3 => Kind::Flush,
        4 => Kind::Zero,
        5 => Kind::List,
        _ => return None,
    };
    let mut trace = [0; 24];
    trace.copy_from_slice(&bytes[40..]);
    let header = Header {
        kind,
        is_reply: bytes[5] & REPLY != 0,
        fua: bytes[5] & FUA != 0,
        id: u64_at(8),
        offset: u64_at(16),
        length: u32_at(24),
        status: u32_at(28),
        object: u64_at(32),
        trace,
    };
    (u32_at(0) == MAGIC).then_some((header, usize::from(u16::from_le_bytes([bytes[6], bytes[7]]))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> (Header, Vec<u8>) {
        let mut header = Header::request(Kind::Write, 0x1122_3344_5566_7788, 1 << 40, 5);
        (header.fua, header.object, header.trace) = (true, 99, [7; 24]);
        let mut bytes = Vec::new();
        header.write(b"disk", &mut bytes);
        bytes.extend_from_slice(b"hello");
        (header, bytes)
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        let (header, mut bytes) = example();
        let size = bytes.len();
        bytes.extend_from_slice(b"more");
        let NextMessage::Whole(message) = next(&bytes) else { panic!("a message") };
        assert_eq!((message.header, message.size), (header, size));
        assert_eq!((message.name, message.payload), (&b"disk"[..], &b"hello"[..]));
        for short in 0..size {
            assert!(matches!(next(&bytes[..short]), NextMessage::Short(_)), "{short}");
        }
        // Only replies to successful reads have a payload.
        for (status, expected) in [(0, HEADER_SIZE + 8), (5, HEADER_SIZE)] {
            let mut bytes = Vec::new();
            Header::reply(Kind::Read, 1, 8, status).write(b"", &mut bytes);
            bytes.extend_from_slice(&[0; 8]);
            assert!(
                matches!(next(&bytes), NextMessage::Whole(message) if message.size == expected)
            );
        }
    }

    /// A message with a changed byte never extends beyond the input, and an incomplete message
    /// never requires more bytes than the maximum size of a message.
    #[test]
    fn damaged_messages_are_harmless() {
        let (_, bytes) = example();
        for at in 0..bytes.len() {
            for value in 0..=255 {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                match next(&damaged) {
                    NextMessage::Whole(message) => assert!(message.size <= bytes.len()),
                    NextMessage::Short(size) => {
                        assert!(size <= HEADER_SIZE + NAME_MAX + PAYLOAD_MAX as usize)
                    }
                    NextMessage::Bad => {}
                }
            }
        }
    }
}

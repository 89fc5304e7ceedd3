//! What roles say to each other: a header of 64 bytes, a name, a payload. `mapper/link.h` has the same in C.
//!
//! | bytes | |
//! | --- | --- |
//! | 0 | magic |
//! | 4 | kind |
//! | 5 | flags |
//! | 6 | size of the name behind the header |
//! | 8 | number of the request, which its answer has, too; answers come in any order |
//! | 16 | offset |
//! | 24 | length |
//! | 28 | status of an answer: 0, or an error's number |
//! | 32 | object, if it is asked for by its number |
//! | 40 | the span that asks: blkin's 24 bytes, 0 if the request is not followed |
//!
//! Numbers are little-endian, but for those 24 bytes. Behind the name is what is to be written, or has been read.

/// How large a header is.
pub(crate) const HEADER_SIZE: usize = 64;
/// How long names may be.
pub(crate) const NAME_MAX: usize = 56;
/// How much a message carries at most.
pub(crate) const PAYLOAD_MAX: u32 = 32 << 20;

const MAGIC: u32 = 0x4b54_5342;
const FUA: u8 = 1;
const REPLY: u8 = 2;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Read = 1,
    Write = 2,
    Flush = 3,
    /// What reads as zeros afterwards, and needs no room.
    Zero = 4,
    /// Which volumes there are: answered with a line for each, name and size.
    List = 5,
}

/// A message but for its name and payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) is_reply: bool,
    /// To be durable before it is answered.
    pub(crate) fua: bool,
    pub(crate) id: u64,
    pub(crate) offset: u64,
    pub(crate) length: u32,
    pub(crate) status: u32,
    pub(crate) object: u64,
    pub(crate) trace: [u8; 24],
}

/// A message as it lies in what has come.
#[derive(Debug)]
pub(crate) struct Message<'a> {
    pub(crate) header: Header,
    pub(crate) name: &'a [u8],
    pub(crate) payload: &'a [u8],
    /// All of it.
    pub(crate) size: usize,
}

/// What the next bytes are.
#[derive(Debug)]
pub(crate) enum Next<'a> {
    Message(Message<'a>),
    /// It is not whole: it has so many bytes, as far as is known.
    Short(usize),
    /// No message.
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

    /// The answer to a request of this number.
    pub(crate) fn reply(kind: Kind, id: u64, length: u32, status: u32) -> Header {
        Header { is_reply: true, status, ..Header::request(kind, id, 0, length) }
    }

    /// Appends it and the name; what it carries is to be appended next.
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

/// Looks at the next message.
#[inline]
pub(crate) fn next(bytes: &[u8]) -> Next<'_> {
    let Some((head, rest)) = bytes.split_first_chunk::<HEADER_SIZE>() else {
        return Next::Short(HEADER_SIZE);
    };
    let Some((header, name_size)) = read(head) else { return Next::Bad };
    let payload_size = header.payload_size();
    if name_size > NAME_MAX || payload_size > PAYLOAD_MAX {
        return Next::Bad;
    }
    let size = HEADER_SIZE + name_size + payload_size as usize;
    if bytes.len() < size {
        return Next::Short(size);
    }
    let (name, rest) = rest.split_at(name_size);
    Next::Message(Message { header, name, payload: &rest[..payload_size as usize], size })
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
        let Next::Message(message) = next(&bytes) else { panic!("a message") };
        assert_eq!((message.header, message.size), (header, size));
        assert_eq!((message.name, message.payload), (&b"disk"[..], &b"hello"[..]));
        for short in 0..size {
            assert!(matches!(next(&bytes[..short]), Next::Short(_)), "{short}");
        }
        // Only answers of reads that went well carry something.
        for (status, expected) in [(0, HEADER_SIZE + 8), (5, HEADER_SIZE)] {
            let mut bytes = Vec::new();
            Header::reply(Kind::Read, 1, 8, status).write(b"", &mut bytes);
            bytes.extend_from_slice(&[0; 8]);
            assert!(matches!(next(&bytes), Next::Message(message) if message.size == expected));
        }
    }

    /// Whatever a byte is changed to, nothing is read beyond what is there, and nothing is made of a length.
    #[test]
    fn damaged_messages_are_harmless() {
        let (_, bytes) = example();
        for at in 0..bytes.len() {
            for value in 0..=255 {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                match next(&damaged) {
                    Next::Message(message) => assert!(message.size <= bytes.len()),
                    Next::Short(size) => {
                        assert!(size <= HEADER_SIZE + NAME_MAX + PAYLOAD_MAX as usize)
                    }
                    Next::Bad => {}
                }
            }
        }
    }
}

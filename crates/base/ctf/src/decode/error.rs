//! Errors of decoding, with their position in the packet.

use std::fmt;

/// An error in a packet: bytes that the schema does not permit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// Position in bits from the packet's start.
    pub at_bits: u64,
    /// Rule that the bytes violate, with the invalid value.
    pub kind: DecodeErrorKind,
}

/// Kind of a [`DecodeError`]: the rule that the bytes violate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeErrorKind {
    /// The packet does not start with the magic number: the data is no packet, or the previous
    /// packet was cut off or has a wrong size.
    Magic(u64),
    /// No stream class has this id: the metadata is older than the data, or belongs to another
    /// trace.
    UnknownStream(u64),
    /// The packet has no stream class id, and the schema has several stream classes or none.
    AmbiguousStream,
    /// No event class of the stream has this id.
    UnknownEvent(u64),
    /// The event has no event class id, and its stream class has several event classes or none.
    AmbiguousEvent,
    /// The event has no bits, so a loop over such events would never end.
    EmptyEvent,
    /// Two fields that share a byte have different byte orders.
    ByteOrder,
    /// The declared content size exceeds the packet size.
    ContentBeyondPacket {
        /// Declared content size in bits.
        content: u64,
        /// Declared packet size in bits.
        total: u64,
    },
    /// The declared content ends before the first event.
    ContentBeforeEvents {
        /// Declared content size in bits.
        content: u64,
        /// Size of the packet's header and context in bits.
        header: u64,
    },
    /// The declared packet size, in bits, is not a whole number of bytes.
    PacketSize(u64),
    /// No option of the variant has a range that contains this selector value.
    NoOption(i128),
    /// A variable-length integer has more than 64 significant bits, or more than 147 bytes.
    VarInt,
    /// Arrays whose elements may have a size of 0 bits declare too many elements in one event or
    /// context.
    EmptyElements,
}

impl fmt::Display for DecodeErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeErrorKind::Magic(magic) => write!(
                f,
                "packet starts with 0x{magic:08x}, not with CTF's magic number 0xc1fc1fc1"
            ),
            DecodeErrorKind::UnknownStream(id) => {
                write!(f, "packet is of stream class {id}, which the metadata does not describe")
            }
            DecodeErrorKind::AmbiguousStream => {
                f.write_str("packet does not say of which of the stream classes it is")
            }
            DecodeErrorKind::UnknownEvent(id) => {
                write!(f, "event is of class {id}, which the metadata does not describe")
            }
            DecodeErrorKind::AmbiguousEvent => {
                f.write_str("event does not say of which of the event classes it is")
            }
            DecodeErrorKind::ByteOrder => f.write_str(
                "field begins within a byte, but has another byte order than the field before",
            ),
            DecodeErrorKind::EmptyEvent => f.write_str("event takes no bits, so it never ends"),
            DecodeErrorKind::ContentBeyondPacket { content, total } => {
                write!(f, "packet of {total} bits claims {content} bits of content")
            }
            DecodeErrorKind::ContentBeforeEvents { content, header } => write!(
                f,
                "packet claims {content} bits of content, but its header takes {header} bits"
            ),
            DecodeErrorKind::PacketSize(total) => {
                write!(f, "packet claims {total} bits, which is not a whole number of bytes")
            }
            DecodeErrorKind::NoOption(value) => {
                write!(f, "selector is {value}, for which the variant has no option")
            }
            DecodeErrorKind::VarInt => f.write_str("variable-length integer has more than 64 bits"),
            DecodeErrorKind::EmptyElements => f.write_str("array claims too many empty elements"),
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl std::error::Error for DecodeError {}
